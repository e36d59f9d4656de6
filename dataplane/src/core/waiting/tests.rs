use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crossbeam::queue::ArrayQueue;
use proptest::{collection::vec, prelude::*};
use stargate_routing::{
    Accounting, Algorithm, Backend, BackendUid, Cluster, ClusterLoad, ClusterStats, ClusterUid, Exclusions,
    Method, Millis, Policy, PowerOfNParameters, RendezvousWeights, RoomShare, Snapshot, Target, Tokens,
    TokensPerSecond, UnavailableReason, WaitAndWidenParameters, WaitOrder, WaitReason, WaitedFor, Waiting,
    Widening,
};

use super::*;
use crate::{
    core::{
        Core,
        placing::{Placement, Routed},
        shared::{Shared, SharedSnapshot},
    },
    error::{ErrorCode, Rejection},
    settings::Settings,
    stages::{
        account::Exchange,
        choose::{Next, decide},
        derive::{Derived, FromHeaders},
    },
};

const X: Duration = Duration::from_millis(500);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A core without a thread, in a time that the test makes.
struct Fixture {
    core: Core,
    shared: SharedSnapshot,
    name: Arc<TargetName>,
    loads: Vec<Arc<ClusterLoad>>,
    slots: u64,
    policy: Arc<Policy>,
    /// What is this gateway's of the room that the clusters report, which follow what is sent; else they are polled.
    room_share: Option<RoomShare>,
    start: Instant,
    version: u64,
}

/// What came of a request.
enum Began {
    Placed(Placement),
    Waits(WaiterHandle),
    Refused(Refusal),
}

/// Everything free is taken and everything full is waited for, but for a key's own cluster, which is waited for
/// first.
fn policy(affinity_group: u32) -> Policy {
    let widening = Widening { affinity_wait: X, next_bucket_unlock_factor: 0.0, ..Widening::default() };
    let algorithm = Algorithm::WaitAndWiden(WaitAndWidenParameters {
        widening,
        affinity_group,
        ..WaitAndWidenParameters::default()
    });
    Policy { method: Method { algorithm, ..Method::default() }, ..Policy::default() }
}

fn key(key: &str) -> FromHeaders {
    FromHeaders { affinity_key: Some(key.into()), ..FromHeaders::default() }
}

/// Waits for so long, for whatever there may be.
fn budget(ms: u64) -> FromHeaders {
    FromHeaders { max_wait: Some(Duration::from_millis(ms)), ..FromHeaders::default() }
}

fn urgency(priority: u32) -> FromHeaders {
    FromHeaders { priority: Some(priority), ..budget(10_000) }
}

impl Fixture {
    /// A target of so many clusters with this many slots each.
    fn new(policy: Policy, clusters: usize, slots: u64) -> Self {
        let shared = SharedSnapshot::default();
        let (bell, _) = Bell::new().unwrap();
        let core = Core::new(
            Arc::new(Settings::default()),
            shared.clone(),
            Arc::new(Shared::default()),
            Arc::new(Levels::new(0, "none")),
            Arc::new(ArrayQueue::new(16)),
            Arc::new(bell),
        );
        let start = Instant::now();
        let name = Arc::new(TargetName { routing_key: None, model: "m".into() });
        let loads = (0..clusters).map(|_| Arc::default()).collect();
        let policy = Arc::new(policy);
        let mut fixture =
            Self { core, shared, name, loads, slots, policy, room_share: None, start, version: 0 };
        fixture.publish();
        fixture
    }

    /// So that of the room that a report shows those who wait take this share, rounded down.
    fn sharing(mut self, share: f32) -> Self {
        self.room_share = Some(RoomShare { share, draw: 0.0 });
        self.publish();
        self
    }

    /// Publishes the target as it is now. The bell is not rung: the test calls [`Self::turn`].
    fn publish(&mut self) {
        let cluster = |(number, load): (usize, &Arc<ClusterLoad>)| {
            let cluster_id: Arc<str> = format!("c{number:02}").into();
            let stats = ClusterStats {
                max_engine_concurrency: self.slots,
                last_mean_input_tps: TokensPerSecond(1000.0),
                accounting: match self.room_share {
                    Some(_) => Accounting::Reservations,
                    None => Accounting::InFlight,
                },
                room_share: self.room_share.unwrap_or_default(),
                ..ClusterStats::default()
            };
            let backend = Backend {
                uid: BackendUid(number as u64),
                backend_id: cluster_id.clone(),
                cluster_id: cluster_id.clone(),
                address: ([127, 0, 0, 1], 1).into(),
                authority: "a".into(),
                base_path: "".into(),
                publishes_stats: true,
                rtt: Arc::default(),
            };
            Cluster {
                uid: ClusterUid(number as u64),
                id_hash: Cluster::hash_id(&cluster_id),
                cluster_id,
                rendezvous: RendezvousWeights::reported(&stats),
                stats,
                load: load.clone(),
                backends: Box::new([Arc::new(backend)]),
            }
        };
        let target = Target {
            name: self.name.clone(),
            policy: self.policy.clone(),
            round_robin: Arc::default(),
            clusters: self.loads.iter().enumerate().map(cluster).collect(),
            ranking_revision: 1,
            ranking: None,
        };
        self.version += 1;
        self.shared.store(Arc::new(Snapshot::new(self.version, 0, vec![target])));
    }

    /// A request that arrives at this time is decided, and waits if it is to.
    fn begin(&self, headers: FromHeaders, at: Duration) -> Began {
        match self.decide(headers, at) {
            Ok(Next::Go(placement)) => Began::Placed(placement),
            Ok(Next::Join(newcomer)) => match self.core.waiting.join(newcomer, self.time(at)) {
                Ok(waiting) => Began::Waits(waiting),
                Err(refusal) => Began::Refused(refusal),
            },
            Err(refusal) => Began::Refused(refusal),
        }
    }

    #[track_caller]
    fn decided_to_wait(&self, headers: FromHeaders, at: Duration) -> Newcomer {
        let Ok(Next::Join(newcomer)) = self.decide(headers, at) else { panic!("it does not wait") };
        newcomer
    }

    fn decide(&self, headers: FromHeaders, at: Duration) -> Result<Next, Refusal> {
        let now = self.start + at;
        let mut exchange = Exchange::new(self.core.new_request_id(), now, String::new());
        let affinity_key = headers.affinity_key.clone();
        let input_tokens = headers.input_tokens.unwrap_or(Tokens(100));
        let derived = Derived { headers: Box::new(headers), model: "m".into(), input_tokens, affinity_key };
        let mut routed: Option<Routed> = None;
        let exclusions = Exclusions::default();
        decide(&self.core, &mut exchange, &derived, &mut routed, &exclusions, now)
    }

    /// As the core counts it.
    fn time(&self, at: Duration) -> Duration {
        self.core.decider.time(self.start + at)
    }

    #[track_caller]
    fn chosen(&self, headers: FromHeaders, at: Duration) -> Placement {
        match self.begin(headers, at) {
            Began::Placed(choice) => choice,
            Began::Waits(waiting) => panic!("it waits for {:?}", waiting.reason()),
            Began::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    #[track_caller]
    fn waits(&self, headers: FromHeaders, at: Duration) -> WaiterHandle {
        match self.begin(headers, at) {
            Began::Waits(waiting) => waiting,
            Began::Placed(choice) => panic!("{choice:?}"),
            Began::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    #[track_caller]
    fn refused(&self, headers: FromHeaders, at: Duration) -> Refusal {
        match self.begin(headers, at) {
            Began::Refused(refusal) => refusal,
            Began::Waits(_) | Began::Placed(_) => panic!("it was not refused"),
        }
    }

    /// What the serving task does when it has been woken.
    fn turn(&self, at: Duration) {
        self.core.waiting.serve(self.time(at));
    }

    fn count(&self) -> u64 {
        self.core.levels.waiters.get()
    }

    /// What the core's gateway has running in a cluster.
    fn running(&self, cluster: usize) -> u64 {
        self.core.decider.loads.flush();
        self.loads[cluster].running()
    }

    fn in_flight(&self) -> u64 {
        self.core.decider.loads.flush();
        self.loads.iter().map(|load| load.running() + load.queued() + load.queued_input().0).sum()
    }
}

/// The outcome, if there is one by now.
fn outcome(waiting: &mut WaiterHandle) -> Option<Result<Placement, Refusal>> {
    let mut cx = Context::from_waker(Waker::noop());
    match std::pin::Pin::new(waiting).poll(&mut cx) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

#[track_caller]
fn served(waiting: &mut WaiterHandle) -> Placement {
    outcome(waiting).expect("an outcome").expect("a place")
}

#[track_caller]
fn turned_away(waiting: &mut WaiterHandle) -> Refusal {
    outcome(waiting).expect("an outcome").expect_err("no place")
}

#[test]
fn a_place_that_becomes_free_on_this_core_ends_a_held_affinity_wait() {
    let fixture = Fixture::new(policy(1), 3, 1);
    let first = fixture.chosen(key("k"), ms(0));
    let mut held = fixture.waits(key("k"), ms(1));
    assert_eq!(held.reason(), WaitedFor::Opening(WaitReason::Affinity));
    fixture.turn(ms(2));
    assert!(outcome(&mut held).is_none());
    let cluster = first.cluster;
    drop(first);
    assert!(fixture.core.decider.vacancies.wakeup.has_happened.get());
    fixture.turn(ms(3));
    assert_eq!(served(&mut held).cluster, cluster);
    assert_eq!(fixture.count(), 0);
    drop(held);
    assert_eq!(fixture.in_flight(), 0);
}

#[test]
fn the_first_byte_of_an_answer_is_an_event_too() {
    let fixture = Fixture::new(policy(0), 1, 1);
    let mut first = fixture.chosen(budget(1000), ms(0));
    let _waiting = fixture.waits(budget(1000), ms(1));
    fixture.core.decider.vacancies.wakeup.has_happened.set(false);
    first.reserved.first_byte();
    assert!(fixture.core.decider.vacancies.wakeup.has_happened.get());
}

#[test]
fn nobody_is_woken_while_nobody_waits() {
    let fixture = Fixture::new(policy(0), 1, 1);
    drop(fixture.chosen(budget(1000), ms(0)));
    fixture.core.waiting.refresh();
    assert!(!fixture.core.decider.vacancies.wakeup.has_happened.get());
    assert_eq!(fixture.core.waiting.next_due(), None);
}

#[test]
fn the_wait_for_the_group_ends_by_itself_and_the_timer_knows_when() {
    let fixture = Fixture::new(policy(1), 3, 1);
    let first = fixture.chosen(key("k"), ms(0));
    let mut held = fixture.waits(key("k"), ms(7));
    let due = fixture.core.waiting.next_due().unwrap();
    assert_eq!(due, fixture.time(ms(7) + X));
    fixture.turn(X + ms(7));
    let elsewhere = served(&mut held);
    assert_ne!(elsewhere.cluster, first.cluster);
    assert!(elsewhere.selection.is_fallback);
}

#[test]
fn the_most_urgent_is_served_first_then_the_oldest() {
    let fixture = Fixture::new(policy(0), 1, 1);
    let mut running = Some(fixture.chosen(urgency(0), ms(0)));
    let mut waiting: Vec<(u32, WaiterHandle)> = [(2, 1), (0, 2), (1, 3), (0, 4)]
        .map(|(priority, at)| (priority * 10 + at as u32, fixture.waits(urgency(priority), ms(at))))
        .into();
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(running.take());
        fixture.turn(ms(10));
        let mut now_served = Vec::new();
        for (name, waiting) in &mut waiting {
            if let Some(outcome) = outcome(waiting) {
                now_served.push(*name);
                running = Some(outcome.unwrap());
            }
        }
        assert_eq!(now_served.len(), 1, "one place serves one");
        waiting.retain(|(name, _)| *name != now_served[0]);
        order.push(now_served[0]);
    }
    assert_eq!(order, [2, 4, 13, 21]);
}

#[test]
fn in_overload_the_newest_is_served_first_unless_that_is_turned_off() {
    for order in [WaitOrder::Adaptive, WaitOrder::OldestFirst] {
        let waiting = Waiting { order, ..Waiting::default() };
        let fixture = Fixture::new(Policy { waiting, ..policy(0) }, 1, 1);
        let running = fixture.chosen(budget(1000), ms(0));
        let mut old = fixture.waits(budget(1000), ms(1));
        let mut new = fixture.waits(budget(1000), ms(600));
        drop(running);
        fixture.turn(ms(601));
        let (first, second) =
            if order == WaitOrder::Adaptive { (&mut new, &mut old) } else { (&mut old, &mut new) };
        assert!(outcome(first).is_some_and(|outcome| outcome.is_ok()), "{order:?}");
        assert!(outcome(second).is_none(), "{order:?}");
    }
}

#[test]
fn a_newcomer_does_not_take_a_place_that_somebody_waits_for() {
    let fixture = Fixture::new(policy(0), 1, 1);
    let elsewhere = fixture.loads[0].enter(Tokens(1));
    let mut first = fixture.waits(budget(1000), ms(1));
    // Another core's request: nothing tells this core of its end.
    drop(elsewhere);
    let mut newcomer = fixture.waits(budget(1000), ms(2));
    let place = served(&mut first);
    assert!(outcome(&mut newcomer).is_none());
    drop(place);
    fixture.turn(ms(3));
    served(&mut newcomer);
}

#[test]
fn who_waits_takes_no_more_than_the_gateways_share_of_the_room() {
    // Of four places two are this gateway's.
    let fixture = Fixture::new(policy(0), 1, 4).sharing(0.5);
    let mut running: Vec<Placement> = (0..4).map(|at| fixture.chosen(budget(1000), ms(at))).collect();
    let mut waiting: Vec<WaiterHandle> = (4..8).map(|at| fixture.waits(budget(1000), ms(at))).collect();
    running.truncate(2);
    fixture.turn(ms(10));
    assert!(waiting.iter_mut().all(|waiting| outcome(waiting).is_none()), "two of the four are taken");
    running.clear();
    fixture.turn(ms(11));
    let served = waiting.iter_mut().filter_map(outcome).collect::<Vec<_>>();
    assert_eq!(served.len(), 2);
}

#[test]
fn a_newcomers_right_to_a_place_passes_to_who_is_to_be_served_first() {
    let fixture = Fixture::new(policy(0), 1, 3).sharing(0.001);
    let mut running: Vec<Placement> = (0..3).map(|at| fixture.chosen(budget(1000), ms(at))).collect();
    let mut first = fixture.waits(budget(1000), ms(3));
    let mut second = fixture.waits(budget(1000), ms(4));
    running.clear();
    fixture.turn(ms(5));
    assert!(outcome(&mut first).is_none(), "of the room it has no share");
    let mut third = fixture.waits(budget(1000), ms(6));
    let _place = served(&mut first);
    assert!(outcome(&mut second).is_none() && outcome(&mut third).is_none(), "one came, one is served");
}

#[test]
fn who_would_be_refused_takes_a_place_that_is_another_gateways() {
    for (headers, is_served) in
        [(key("k"), true), (FromHeaders { affinity_key: Some("k".into()), ..budget(9000) }, false)]
    {
        let fixture = Fixture::new(policy(1), 3, 1).sharing(0.001);
        let _running = fixture.chosen(key("k"), ms(0));
        let mut held = fixture.waits(headers, ms(1));
        fixture.turn(ms(2));
        assert!(outcome(&mut held).is_none());
        fixture.turn(X + ms(1));
        assert_eq!(outcome(&mut held).is_some_and(|outcome| outcome.is_ok()), is_served);
    }
}

#[test]
fn a_more_urgent_newcomer_does() {
    let fixture = Fixture::new(policy(0), 1, 1);
    let elsewhere = fixture.loads[0].enter(Tokens(1));
    let mut first = fixture.waits(urgency(1), ms(1));
    drop(elsewhere);
    let _place = fixture.chosen(urgency(0), ms(2));
    assert!(outcome(&mut first).is_none());
}

#[test]
fn a_newcomer_with_a_free_cluster_is_not_held_up_by_those_who_wait_for_another() {
    let fixture = Fixture::new(policy(1), 8, 1);
    let _running = fixture.chosen(key("k"), ms(0));
    let mut held: Vec<WaiterHandle> = (0..10).map(|_| fixture.waits(key("k"), ms(1))).collect();
    let others = ["a", "b", "c", "d", "e", "f"];
    let began = others.map(|other| fixture.begin(key(other), ms(2)));
    assert!(began.iter().any(|began| matches!(began, Began::Placed(_))), "no key has another cluster");
    assert!(held.iter_mut().all(|held| outcome(held).is_none()));
}

#[test]
fn a_new_snapshot_concerns_everybody() {
    let mut fixture = Fixture::new(policy(0), 0, 1);
    let mut waiting: Vec<WaiterHandle> = (0..3).map(|_| fixture.waits(budget(1000), ms(1))).collect();
    fixture.turn(ms(2));
    assert!(waiting.iter_mut().all(|waiting| outcome(waiting).is_none()));
    fixture.loads = vec![Arc::default(), Arc::default()];
    fixture.publish();
    fixture.turn(ms(3));
    let places: Vec<Placement> = waiting[..2].iter_mut().map(served).collect();
    assert_ne!(places[0].cluster, places[1].cluster);
    assert!(outcome(&mut waiting[2]).is_none());
    assert_eq!(waiting[2].reason(), WaitedFor::Change(UnavailableReason::NoCapacity));
}

#[test]
fn a_snapshot_between_the_decision_and_the_arming_of_the_bell_is_not_missed() {
    let mut fixture = Fixture::new(policy(0), 0, 1);
    let newcomer = fixture.decided_to_wait(budget(1000), ms(1));
    fixture.loads = vec![Arc::default()];
    fixture.publish();
    let room = &fixture.core.waiting;
    let mut waits = room.join(newcomer, fixture.time(ms(1))).unwrap();
    assert!(fixture.core.decider.vacancies.wakeup.has_happened.get());
    fixture.turn(ms(1));
    served(&mut waits);
}

#[test]
fn a_target_that_ends_and_comes_back_serves_those_who_waited() {
    let mut fixture = Fixture::new(policy(0), 0, 1);
    let mut waiting = fixture.waits(budget(1000), ms(1));
    fixture.shared.store(Arc::new(Snapshot::new(100, 0, Vec::new())));
    fixture.turn(ms(2));
    assert!(outcome(&mut waiting).is_none(), "it may come back");
    fixture.version = 100;
    fixture.name = Arc::new(TargetName { routing_key: None, model: "m".into() });
    fixture.loads = vec![Arc::default()];
    fixture.publish();
    fixture.turn(ms(3));
    let place = served(&mut waiting);
    let mut next = fixture.waits(budget(1000), ms(4));
    drop(place);
    fixture.turn(ms(5));
    served(&mut next);
}

#[test]
fn a_wait_ends_with_its_budget_and_says_when_to_come_again() {
    let fixture = Fixture::new(policy(1), 2, 1);
    let _running = fixture.chosen(key("k"), ms(0));
    // Shorter than the wait for its group.
    let mut short = fixture.waits(FromHeaders { max_wait: Some(ms(20)), ..key("k") }, ms(0));
    fixture.turn(ms(19));
    assert!(outcome(&mut short).is_none());
    fixture.turn(ms(20));
    let refusal = turned_away(&mut short);
    assert_eq!((refusal.code, refusal.rejection), (ErrorCode::NoCapacity, Some(Rejection::WaitExpired)));
    assert!(refusal.message.contains("x-max-wait-ms"), "{}", refusal.message);
    assert_eq!(refusal.retry_after_s(), Some(1));
    assert_eq!(fixture.count(), 0);
    let at_once = fixture.refused(FromHeaders { max_wait: Some(ms(0)), ..key("k") }, ms(0));
    assert_eq!(at_once.rejection, Some(Rejection::WaitExpired));
}

#[test]
fn without_a_budget_only_what_has_an_end_is_waited_for() {
    let fixture = Fixture::new(policy(1), 1, 1);
    let _running = fixture.chosen(key("k"), ms(0));
    let refusal = fixture.refused(FromHeaders::default(), ms(1));
    assert_eq!((refusal.code, refusal.rejection), (ErrorCode::NoCapacity, None));
    let mut held = fixture.waits(key("k"), ms(1));
    fixture.turn(X);
    assert!(outcome(&mut held).is_none());
    fixture.turn(X + ms(1));
    assert_eq!(turned_away(&mut held).code, ErrorCode::NoCapacity, "the wait for the group is over");
}

#[test]
fn a_models_own_budget_counts_where_the_request_says_nothing() {
    let waiting = Waiting { default_max_wait: ms(100), ..Waiting::default() };
    let fixture = Fixture::new(Policy { waiting, ..policy(0) }, 1, 1);
    let _running = fixture.chosen(FromHeaders::default(), ms(0));
    let mut waits = fixture.waits(FromHeaders::default(), ms(0));
    fixture.refused(budget(0), ms(0));
    fixture.turn(ms(99));
    assert!(outcome(&mut waits).is_none());
    fixture.turn(ms(100));
    let refusal = turned_away(&mut waits);
    assert!(refusal.message.contains("default_max_wait_ms"), "{}", refusal.message);
}

#[test]
fn who_cannot_be_in_time_any_more_is_told_so_at_once() {
    let slo = |slo_ms, max_wait| FromHeaders { slo: Some(Millis(slo_ms)), ..budget(max_wait) };
    // Prefill alone takes 100 ms.
    for (shed_unreachable, is_shed) in [(true, true), (false, false)] {
        let waiting = Waiting { shed_unreachable, ..Waiting::default() };
        let fixture = Fixture::new(Policy { waiting, ..policy(0) }, 1, 1);
        let _running = fixture.chosen(slo(50, 1000), ms(0));
        match fixture.begin(slo(50, 1000), ms(1)) {
            Began::Refused(refusal) => {
                assert!(is_shed);
                assert_eq!(refusal.code, ErrorCode::SloUnreachable);
                assert_eq!(refusal.rejection, Some(Rejection::SloUnreachable));
                assert_eq!(refusal.retry_after_s(), Some(1));
            }
            Began::Waits(_) => assert!(!is_shed),
            Began::Placed(choice) => panic!("{choice:?}"),
        }
    }
    let fixture = Fixture::new(policy(0), 1, 1);
    let running = fixture.chosen(budget(1000), ms(0));
    let mut waits = fixture.waits(slo(350, 5000), ms(0));
    fixture.turn(ms(100));
    assert!(outcome(&mut waits).is_none());
    // Queued input of 100 tokens and its own: 200 ms at best; a free place comes too late for it.
    drop(running);
    fixture.turn(ms(260));
    assert_eq!(turned_away(&mut waits).code, ErrorCode::SloUnreachable);
}

#[test]
fn so_many_wait_and_no_more() {
    let waiting = Waiting { max_waiters: 2, ..Waiting::default() };
    let fixture = Fixture::new(Policy { waiting, ..policy(1) }, 2, 1);
    let running = fixture.chosen(key("k"), ms(0));
    let mut held: Vec<WaiterHandle> = (0..2).map(|_| fixture.waits(key("k"), ms(1))).collect();
    let refusal = fixture.refused(key("k"), ms(2));
    assert_eq!((refusal.code, refusal.rejection), (ErrorCode::NoCapacity, Some(Rejection::TooManyWaiters)));
    assert!(refusal.message.contains("max_waiters"), "{}", refusal.message);
    assert_eq!(refusal.retry_after_s(), Some(1));
    drop(running);
    fixture.turn(ms(3));
    let _place = served(&mut held[0]);
    let _third = fixture.waits(key("k"), ms(4));
    assert_eq!(fixture.count(), 2);
}

#[test]
fn who_has_its_place_where_many_wait_elsewhere_is_served_at_the_limit_too() {
    let waiting = Waiting { max_waiters: 1, ..Waiting::default() };
    let fixture = Fixture::new(Policy { waiting, ..policy(1) }, 8, 1);
    let _running = fixture.chosen(key("k"), ms(0));
    let _held = fixture.waits(key("k"), ms(1));
    let others = ["a", "b", "c", "d", "e", "f"];
    let began = others.map(|other| fixture.begin(key(other), ms(2)));
    assert!(began.iter().any(|began| matches!(began, Began::Placed(_))));
}

#[test]
fn who_leaves_is_forgotten_at_once_and_its_place_serves_the_next() {
    let fixture = Fixture::new(policy(0), 1, 1);
    let running = fixture.chosen(budget(1000), ms(0));
    let leaves = fixture.waits(budget(1000), ms(1));
    drop(leaves);
    assert_eq!(fixture.count(), 0);
    let leaves_late = fixture.waits(budget(1000), ms(2));
    let mut next = fixture.waits(budget(1000), ms(3));
    drop(running);
    fixture.turn(ms(4));
    // It has been handed its place, and never takes it.
    assert_eq!((fixture.count(), fixture.running(0)), (1, 1));
    drop(leaves_late);
    assert_eq!(fixture.running(0), 0);
    fixture.turn(ms(5));
    served(&mut next);
}

#[test]
fn a_waiter_keeps_its_policy() {
    let mut fixture = Fixture::new(policy(1), 3, 1);
    let _running = fixture.chosen(key("k"), ms(0));
    let mut held = fixture.waits(key("k"), ms(1));
    let algorithm = Algorithm::PowerOfN(PowerOfNParameters::default());
    fixture.policy =
        Arc::new(Policy { method: Method { algorithm, ..Method::default() }, ..Policy::default() });
    fixture.publish();
    fixture.turn(ms(2));
    assert!(outcome(&mut held).is_none(), "under the new policy it would go anywhere");
    fixture.chosen(key("k"), ms(3));
    assert!(outcome(&mut held).is_none());
    fixture.turn(X + ms(1));
    assert!(outcome(&mut held).unwrap().unwrap().selection.is_fallback);
}

#[test]
fn a_gateway_that_stops_tells_those_who_wait() {
    let fixture = Fixture::new(policy(0), 1, 1);
    let _running = fixture.chosen(budget(10_000), ms(0));
    let mut waits = fixture.waits(budget(10_000), ms(1));
    fixture.core.waiting.close_at(fixture.start + ms(100));
    fixture.turn(ms(99));
    assert!(outcome(&mut waits).is_none());
    let due = fixture.core.waiting.next_due().unwrap();
    assert_eq!(due, fixture.time(ms(100)));
    fixture.turn(ms(100));
    assert_eq!(turned_away(&mut waits).code, ErrorCode::ShuttingDown);
    assert_eq!(fixture.refused(budget(10_000), ms(101)).code, ErrorCode::ShuttingDown);
}

#[test]
fn a_crowd_is_decided_in_slices_and_nobody_is_left_out() {
    let waiting = Waiting { max_waiters: 10_000, ..Waiting::default() };
    let mut fixture = Fixture::new(Policy { waiting, ..policy(0) }, 0, 3000);
    let mut crowd: Vec<WaiterHandle> = (0..2500).map(|_| fixture.waits(budget(60_000), ms(1))).collect();
    fixture.loads = vec![Arc::default()];
    fixture.publish();
    let mut left = Vec::new();
    for turn in 0..3 {
        let due = fixture.core.waiting.next_due().unwrap();
        fixture.turn(ms(2) + ms(turn));
        left.push(fixture.count());
        assert!(turn == 0 || due <= fixture.time(ms(2 + turn)));
    }
    assert_eq!(left, [2500 - 1024, 2500 - 2048, 0]);
    assert!(crowd.iter_mut().all(|waiting| outcome(waiting).is_some_and(|outcome| outcome.is_ok())));
    drop(crowd);
    assert_eq!(fixture.in_flight(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Begin(u32, u64),
    Leave(usize),
    End(usize),
    Refresh,
    Publish(usize),
    Turn(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u32, 0..400_u64).prop_map(|(priority, wait)| Step::Begin(priority, wait)),
        2 => any::<usize>().prop_map(Step::Leave),
        4 => any::<usize>().prop_map(Step::End),
        1 => Just(Step::Refresh),
        1 => (0..3_usize).prop_map(Step::Publish),
        6 => (0..60_u64).prop_map(Step::Turn),
    ]
}

proptest! {
    /// Whatever happens, each request gets one outcome, no place is used twice, and nothing is left in the end.
    #[test]
    fn no_history_loses_a_request_or_a_place(steps in vec(any_step(), 1..150)) {
        let mut fixture = Fixture::new(policy(0), 2, 2);
        let all: Vec<Arc<ClusterLoad>> = (0..3).map(|_| Arc::default()).collect();
        fixture.loads = all[..2].to_vec();
        fixture.publish();
        let (mut now, mut running, mut waiting) = (ms(0), Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Begin(priority, wait) => {
                    let headers = FromHeaders { priority: Some(priority), ..budget(wait) };
                    match fixture.begin(headers, now) {
                        Began::Placed(choice) => running.push(choice),
                        Began::Waits(handle) => waiting.push((now + ms(wait), handle)),
                        Began::Refused(_) => {}
                    }
                }
                Step::Leave(which) if !waiting.is_empty() => {
                    waiting.swap_remove(which % waiting.len());
                }
                Step::End(which) if !running.is_empty() => {
                    running.swap_remove(which % running.len());
                }
                Step::Refresh => fixture.core.waiting.refresh(),
                Step::Publish(clusters) => {
                    fixture.loads = all[..clusters].to_vec();
                    fixture.publish();
                }
                Step::Turn(by) => {
                    now += ms(by);
                    fixture.turn(now);
                    let mut still = Vec::new();
                    for (deadline, mut handle) in waiting {
                        match outcome(&mut handle) {
                            Some(Ok(choice)) => running.push(choice),
                            Some(Err(refusal)) => {
                                prop_assert_eq!(refusal.rejection, Some(Rejection::WaitExpired));
                                prop_assert!(now >= deadline);
                            }
                            None => {
                                prop_assert!(now < deadline, "it has waited too long");
                                still.push((deadline, handle));
                            }
                        }
                    }
                    waiting = still;
                    prop_assert_eq!(fixture.count() as usize, waiting.len());
                    // Whoever is left has been offered every place.
                    fixture.core.decider.loads.flush();
                    let is_full = fixture.loads.iter().all(|load| load.running() >= 2);
                    prop_assert!(waiting.is_empty() || is_full);
                }
                Step::Leave(_) | Step::End(_) => {}
            }
            fixture.core.decider.loads.flush();
            prop_assert!(all.iter().all(|load| load.running() <= 2));
        }
        drop((running, waiting));
        prop_assert_eq!(fixture.count(), 0);
        fixture.core.decider.loads.flush();
        for load in &all {
            prop_assert_eq!((load.running(), load.queued(), load.queued_input()), (0, 0, Tokens(0)));
        }
        prop_assert_eq!(fixture.core.waiting.next_due(), None);
    }
}
