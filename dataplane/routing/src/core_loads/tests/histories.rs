//! Random histories of some cores that share some clusters, against the model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{collection::vec, prelude::*};

use super::{
    model::{Core, Model, PRIORITIES, Totals, Uids},
    *,
};
use crate::{
    Cluster, CoreInclusion, Inclusion, Inclusions, Running, Snapshot, core_loads::unflushed::HELD_MAX,
    load::LoadReading,
};

const CORES: usize = 3;
const CLUSTERS: usize = 4;
/// Of each cluster.
const BACKENDS: usize = 2;

#[derive(Clone, Debug)]
enum Step {
    /// Sends this many tokens at this priority, to a cluster that is chosen by its load or whatever that is.
    Send {
        core: usize,
        to: (usize, usize),
        tokens: u64,
        priority: u32,
        by_load: bool,
    },
    FirstByte(usize),
    End(usize),
    /// So many microseconds later a core looks at the clock.
    Advance {
        core: usize,
        by_us: u64,
    },
    /// A backend reports; a core's attempts up to a number, but for some, are included.
    Report {
        of: (usize, usize),
        through: [u64; CORES],
        except: Vec<u64>,
    },
    /// A backend begins or stops to say what its reports include.
    Toggle(usize, usize),
    /// A backend registers anew.
    Register(usize, usize),
    Follow(usize),
    Flush(usize),
}

/// What the control plane knows, and the cores do.
struct World {
    clusters: Vec<Cluster>,
    snapshot: Snapshot,
    registered: BTreeSet<BackendUid>,
    reports: BTreeMap<Uids, Inclusion>,
    last_backend: u64,
    last_report: u64,
    cores: Vec<Rc<CoreLoads>>,
    held: Vec<Running>,
    model: Model,
    now: Duration,
}

fn any_step() -> impl Strategy<Value = Step> {
    let core = || 0..CORES;
    let backend = || (0..CLUSTERS, 0..BACKENDS);
    let tokens = prop_oneof![6 => 0..1_000_u64, 1 => Just(u64::MAX)];
    let sent = (core(), backend(), tokens, 0..20_u32, any::<bool>());
    let by_us = prop_oneof![4 => 0..900_u64, 3 => 0..20_000_u64, 1 => 0..5_000_000_u64];
    prop_oneof![
        12 => sent.prop_map(|(core, to, tokens, priority, by_load)| {
            Step::Send { core, to, tokens, priority, by_load }
        }),
        4 => any::<usize>().prop_map(Step::FirstByte),
        6 => any::<usize>().prop_map(Step::End),
        4 => (core(), by_us).prop_map(|(core, by_us)| Step::Advance { core, by_us }),
        6 => (backend(), prop::array::uniform(0..12_u64), vec(1..10_u64, 0..3))
            .prop_map(|(of, through, except)| Step::Report { of, through, except }),
        1 => backend().prop_map(|(cluster, position)| Step::Toggle(cluster, position)),
        1 => backend().prop_map(|(cluster, position)| Step::Register(cluster, position)),
        4 => core().prop_map(Step::Follow),
        2 => core().prop_map(Step::Flush),
    ]
}

/// Distances by position: some are not measured, and some are beyond the bounds.
fn rtt(uid: u64) -> Option<Duration> {
    [None, Some(us(4_000)), Some(us(37_300)), Some(us(5_000_000))][uid as usize % 4]
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            clusters: Vec::new(),
            snapshot: Snapshot::default(),
            registered: BTreeSet::new(),
            reports: BTreeMap::new(),
            last_backend: 0,
            last_report: 0,
            cores: (0..CORES).map(|number| core(number as u32, CORES)).collect(),
            held: Vec::new(),
            model: Model::of_cores(CORES),
            now: Duration::ZERO,
        };
        for number in 0..CLUSTERS {
            let stats = ClusterStats {
                // The last is polled.
                accounting: if number + 1 < CLUSTERS {
                    Accounting::Reservations
                } else {
                    Accounting::InFlight
                },
                // Slots that are unknown, few and plenty.
                max_engine_concurrency: [0, 20, 1_000, 20][number],
                queue_time_estimates: if number == 1 { [(0, Nanos(1))].into() } else { Box::default() },
                ..ClusterStats::default()
            };
            let backends = (0..BACKENDS).map(|position| world.register(position)).collect();
            world.clusters.push(Cluster { backends, ..fleet::cluster(number, 1, stats) });
        }
        world.publish();
        world
    }

    /// The first of a cluster's backends publishes stats.
    fn register(&mut self, position: usize) -> Arc<Backend> {
        self.last_backend += 1;
        self.registered.insert(BackendUid(self.last_backend));
        backend(self.last_backend, position == 0, rtt(self.last_backend))
    }

    fn uids(&self, (cluster, position): (usize, usize)) -> Uids {
        (self.clusters[cluster].uid, self.clusters[cluster].backends[position].uid)
    }

    fn publish(&mut self) {
        let mut backends: Vec<_> =
            self.clusters.iter().flat_map(|cluster| cluster.backends.iter().cloned()).collect();
        backends.sort_by_key(|backend| backend.uid);
        let is_same =
            |known: &&Arc<[Arc<Backend>]>| known.iter().map(|a| a.uid).eq(backends.iter().map(|a| a.uid));
        let known = self.snapshot.backends.as_ref().filter(is_same).cloned();
        self.snapshot.backends = Some(known.unwrap_or_else(|| backends.into()));
        let reports = self.reports.iter();
        let entries =
            reports.map(|((cluster, backend), report)| (*cluster, *backend, Arc::new(report.clone())));
        self.snapshot.inclusions = Inclusions::new(entries.collect());
    }

    fn follow(&mut self, core: usize) {
        self.cores[core].follow(&self.snapshot);
        let of_core = |report: &Inclusion| report.of_core(core as u32).cloned();
        let reports =
            self.reports.iter().map(|(uids, report)| (*uids, (report.report, of_core(report)))).collect();
        self.model.follow(core, &self.registered, &reports);
    }

    fn advance(&mut self, core: usize) {
        self.cores[core].advance(self.now);
        self.model.advance(core, self.now);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send { core, to, tokens, priority, by_load } => {
                // Whoever decides has looked at the clock and at the snapshot.
                self.follow(core);
                self.advance(core);
                let (cluster, loads, now) = (&self.clusters[to.0], &self.cores[core], self.now);
                let request =
                    RoutingRequest { input_tokens: Tokens(tokens), priority, ..RoutingRequest::default() };
                let seen = loads.unflushed().read(&cluster.load, &cluster.stats, priority);
                let stats = EffectiveStats::with_load(&cluster.stats, seen, priority);
                let seen = by_load.then_some(seen.sent.attempts);
                let place = loads.take_place(cluster, &request, &stats, seen).unwrap();
                let backend = &cluster.backends[to.1];
                let running = loads.hold(place, cluster.uid, backend);
                let ttl = backend.rtt.get().map_or(Duration::ZERO, |(rtt, _)| rtt.into());
                let sequence = self.model.send(
                    core,
                    (cluster.uid, backend.uid),
                    (priority, tokens),
                    cluster.stats.accounting,
                    !cluster.stats.queue_time_estimates.is_empty(),
                    backend.publishes_stats,
                    (now, ttl.clamp(us(10_000), us(2_000_000))),
                );
                assert_eq!(running.sequence(), sequence);
                self.held.push(running);
            }
            Step::FirstByte(which) if !self.held.is_empty() => {
                let which = which % self.held.len();
                self.held[which].first_byte();
                self.model.attempts[which].is_queued = false;
            }
            Step::End(which) if !self.held.is_empty() => {
                let which = which % self.held.len();
                self.held.swap_remove(which);
                self.model.end(which);
            }
            Step::FirstByte(_) | Step::End(_) => {}
            Step::Advance { core, by_us } => {
                self.now += us(by_us);
                self.advance(core);
                assert!(
                    self.cores[core].next_due().is_none_or(|due| due > self.now),
                    "nothing is left to do"
                );
                let due = self.cores[core].unflushed().due();
                assert!(due.is_none_or(|due| due <= self.now + HELD_MAX));
            }
            Step::Report { of, through, except } => {
                let uids = self.uids(of);
                if !self.reports.contains_key(&uids) {
                    return;
                }
                let except: BTreeSet<u64> = except.into_iter().collect();
                let mut through = through;
                for (core, through) in through.iter_mut().enumerate() {
                    // Marks of a former registration may be anything.
                    if !through.is_multiple_of(4) {
                        *through = self.model.last_sequence(core, uids.1).min(*through);
                    }
                }
                let cores = through.iter().enumerate().filter(|(_, through)| **through > 0);
                let cores = cores.map(|(core, through)| CoreInclusion {
                    core: core as u32,
                    through: *through,
                    except: except.iter().copied().filter(|sequence| sequence < through).collect(),
                });
                self.last_report += 1;
                let report = Inclusion { report: self.last_report, cores: cores.collect() };
                self.reports.insert(uids, report);
                self.publish();
            }
            Step::Toggle(cluster, position) => {
                let uids = self.uids((cluster, position));
                if self.reports.remove(&uids).is_none() {
                    self.last_report += 1;
                    self.reports.insert(uids, Inclusion { report: self.last_report, cores: Box::default() });
                }
                self.publish();
            }
            Step::Register(cluster, position) => {
                let uids = self.uids((cluster, position));
                self.registered.remove(&uids.1);
                self.reports.remove(&uids);
                let backend = self.register(position);
                self.clusters[cluster].backends[position] = backend;
                self.publish();
            }
            Step::Follow(core) => self.follow(core),
            Step::Flush(core) => self.cores[core].flush(),
        }
    }

    /// Shared counts are never negative, and with what each core keeps they come to all that was sent.
    fn check(&self) {
        for cluster in &self.clusters {
            let shared = shared(cluster);
            assert!(shared.running <= 1_000 && shared.queued <= 1_000 && shared.queued_input < 1 << 50);
            assert!(shared.reserved <= 1_000 && shared.reserved_input < 1 << 50 && shared.ended <= 1_000);
            assert!(shared.ahead.iter().all(|ahead| *ahead < 1 << 50));
            assert_eq!(all(cluster, &self.cores), self.model.totals(cluster.uid), "{:?}", cluster.uid);
        }
        for (core, (loads, model)) in self.cores.iter().zip(&self.model.cores).enumerate() {
            let counts = loads.counts();
            let ReservationCounts { created, expired, released, dropped, handed_over, pending, .. } = counts;
            let expected = (model.created, model.expired, model.released, model.dropped, model.handed_over);
            assert_eq!((created, expired, released, dropped, handed_over), expected);
            assert_eq!(pending, self.model.pending(core));
            assert_eq!(created, expired + released + dropped + handed_over + pending);
        }
    }

    /// A core sees its own at once, and all of the others' that these have told.
    fn check_seen_by(&self, core: usize) {
        let others = self.cores.iter().enumerate().filter(|(other, _)| *other != core);
        others.for_each(|(_, other)| other.flush());
        for cluster in &self.clusters {
            let seen = all(cluster, &self.cores[core..=core]);
            assert_eq!(seen, self.model.totals(cluster.uid));
        }
    }
}

/// What all cores can see.
fn shared(cluster: &Cluster) -> Totals {
    let load = &cluster.load;
    let stats = |accounting| ClusterStats { accounting, ..cluster.stats.clone() };
    let in_flight = load.read(&stats(Accounting::InFlight), 0);
    let reserved = load.read(&stats(Accounting::Reservations), 0);
    let ahead =
        (0..PRIORITIES).map(|priority| load.read(&stats(Accounting::Reservations), priority).reserved_ahead);
    Totals::read((in_flight.sent, reserved.sent), reserved.ended, ahead)
}

/// With what these cores keep.
fn all(cluster: &Cluster, cores: &[Rc<CoreLoads>]) -> Totals {
    let load = &cluster.load;
    let stats = |accounting| ClusterStats { accounting, ..cluster.stats.clone() };
    let read = |accounting, priority| {
        let shared = load.read(&stats(accounting), priority);
        cores.iter().fold(shared, |sum, core| {
            let seen = core.unflushed().read(load, &stats(accounting), priority);
            let kept = seen.sent.plus(shared.sent.reversed());
            let ahead = seen.reserved_ahead.0.wrapping_sub(shared.reserved_ahead.0);
            LoadReading {
                sent: sum.sent.plus(kept),
                ended: sum.ended.wrapping_add(seen.ended.wrapping_sub(shared.ended)),
                reserved_ahead: Tokens(sum.reserved_ahead.0.wrapping_add(ahead)),
            }
        })
    };
    let (in_flight, reserved) = (read(Accounting::InFlight, 0), read(Accounting::Reservations, 0));
    let ahead = (0..PRIORITIES).map(|priority| read(Accounting::Reservations, priority).reserved_ahead);
    Totals::read((in_flight.sent, reserved.sent), reserved.ended, ahead)
}

proptest! {
    #[test]
    fn every_history_comes_to_what_a_list_of_attempts_does(
        steps in vec(any_step(), 1..120),
        looking in 0..CORES,
    ) {
        let mut world = World::new();
        // Half of the backends that can say what their reports include do so from the start.
        world.step(Step::Toggle(0, 0));
        world.step(Step::Toggle(1, 0));
        for step in steps {
            world.step(step);
            world.check();
        }
        world.check_seen_by(looking);
        // When all attempts have ended and all cores are gone, nothing is left.
        let clusters = std::mem::take(&mut world.clusters);
        drop(world);
        for cluster in &clusters {
            let none = Totals { ahead: vec![0; PRIORITIES as usize], ..Totals::default() };
            prop_assert_eq!(shared(cluster), none, "{:?}", cluster.uid);
        }
    }
}

/// What is compared comes about.
#[test]
fn histories_reach_every_end_of_a_reservation() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut ends = [0; 5];
    let steps = vec(any_step(), 120);
    for _ in 0..100 {
        let mut world = World::new();
        world.step(Step::Toggle(0, 0));
        for step in proptest::strategy::ValueTree::current(&steps.new_tree(&mut runner).unwrap()) {
            world.step(step);
        }
        for Core { expired, released, dropped, handed_over, ended, .. } in &world.model.cores {
            let ended = ended.values().sum();
            for (end, more) in ends.iter_mut().zip([*expired, *released, *dropped, *handed_over, ended]) {
                *end += more;
            }
        }
    }
    assert!(ends.iter().all(|end| *end > 5), "{ends:?}");
}
