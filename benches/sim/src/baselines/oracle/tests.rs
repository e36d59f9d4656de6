use super::{
    super::testing::{Fleet, home, overflow, session},
    *,
};

/// An oracle over engines that are told to it.
struct Told {
    fleet: Fleet,
    oracle: Oracle,
    truths: Vec<Truth>,
    elapsed: Duration,
}

impl Told {
    /// Idle clusters of 10 slots without anything cached; prices of up to 8 show what they follow.
    fn of(clusters: usize) -> Self {
        let shared = Rc::new(RefCell::new(OnTheWay::new(clusters)));
        let idle = Truth { state: EngineState::default(), slots: 10, cached_tokens: 0 };
        Self {
            fleet: Fleet::of(clusters),
            oracle: Oracle::new(Parameters { price_max: 8.0, ..Parameters::default() }, shared),
            truths: vec![idle; clusters],
            elapsed: Duration::ZERO,
        }
    }

    /// So many requests, of which those beyond the slots are queued.
    fn take(&mut self, cluster: usize, requests: u64) {
        let state = &mut self.truths[cluster].state;
        (state.running, state.queued) = (requests.min(10), requests.saturating_sub(10));
    }

    fn decide(&mut self) -> Choice {
        let Self { fleet, oracle, truths, elapsed } = self;
        let view = View { now: fleet.now, clusters: &fleet.clusters, engines: &[] };
        let asked = Asked { prompt: &session(1), elapsed: *elapsed, excluded: &[] };
        oracle.shared.borrow_mut().arrive(fleet.now);
        oracle.places = truths
            .iter()
            .enumerate()
            .map(|(cluster, truth)| oracle.place(&view, &asked, cluster, *truth))
            .collect();
        oracle.decide(&view, &asked, &mut fleet.rng)
    }

    /// As measured with all slots taken.
    fn set_ends_per_s(&mut self, cluster: usize, ends_per_s: u64) {
        let mut shared = self.oracle.shared.borrow_mut();
        shared.see(cluster, 10, 10);
        (0..ends_per_s).for_each(|_| shared.end(cluster));
        self.fleet.now += Duration::from_secs(1);
        shared.arrive(self.fleet.now);
    }
}

#[test]
fn idle_clusters_are_chosen_by_time_to_first_token() {
    let mut told = Told::of(3);
    // 1000 tokens take 1 s; those in prefill, and those on the way, come first.
    told.truths[0].state.queued_tokens = 500;
    told.oracle.shared.borrow_mut().send(1, Duration::from_secs(9), 400);
    told.fleet.clusters[2].rtt = Duration::from_millis(409);
    assert_eq!(told.decide(), home(2));
    told.fleet.clusters[2].rtt = Duration::from_millis(411);
    assert_eq!(told.decide(), home(1));
    told.truths[0].state.queued_tokens = 399;
    assert_eq!(told.decide(), home(0));
    // It is 2 ms better than the last one, as much as 2 cached tokens.
    told.truths[2].cached_tokens = 1;
    assert_eq!(told.decide(), overflow(0));
    told.truths[2].cached_tokens = 3;
    assert_eq!(told.decide(), home(2));
}

#[test]
fn prefill_is_dearer_the_fewer_slots_are_free() {
    let mut told = Told::of(2);
    told.truths[0].cached_tokens = 1000;
    // At a distance of 1.2 s from the warm one, 1 s of prefill is cheaper at a price of 1 and dearer at 1.25.
    told.fleet.clusters[0].rtt = Duration::from_millis(1210);
    assert_eq!(told.decide(), overflow(1));
    told.take(0, 4);
    assert_eq!(told.decide(), home(0));
    // The price ends at 8, with all slots taken.
    for (rtt_ms, expected) in [(8000, home(0)), (8020, overflow(1))] {
        told.take(0, 10);
        told.take(1, 9);
        told.fleet.clusters[0].rtt = Duration::from_millis(rtt_ms);
        assert_eq!(told.decide(), expected);
    }
}

#[test]
fn only_warm_clusters_take_more_than_their_slots() {
    let mut told = Told::of(1);
    told.take(0, 9);
    assert_eq!(told.decide(), home(0));
    told.take(0, 10);
    assert_eq!(told.decide(), Choice::Full);
    told.truths[0].cached_tokens = 499;
    assert_eq!(told.decide(), Choice::Full);
    told.truths[0].cached_tokens = 500;
    assert_eq!(told.decide(), home(0));
    told.take(0, 13);
    assert_eq!(told.decide(), home(0));
    told.take(0, 14);
    assert_eq!(told.decide(), Choice::Full);
    // What is on the way takes room as well.
    told.take(0, 13);
    told.oracle.shared.borrow_mut().send(0, Duration::from_secs(9), 0);
    assert_eq!(told.decide(), Choice::Full);
}

#[test]
fn a_slot_that_is_free_on_arrival_is_free() {
    let mut told = Told::of(1);
    told.set_ends_per_s(0, 10);
    told.take(0, 11);
    // On the way for 199 ms it sees 1 end, in 200 ms 2.
    told.fleet.clusters[0].rtt = Duration::from_millis(398);
    assert_eq!(told.decide(), Choice::Full);
    told.fleet.clusters[0].rtt = Duration::from_millis(400);
    assert_eq!(told.decide(), home(0));
}

#[test]
fn a_full_warm_cluster_is_waited_for_as_long_as_a_cold_prefill_costs() {
    let mut told = Told::of(2);
    told.set_ends_per_s(0, 10);
    told.truths[0].cached_tokens = 1000;
    told.take(0, 14);
    // With 10 of 20 slots free the price is 2. It waits for 5 to end, of 10 a second: 0.5 s.
    for (elapsed_ms, expected) in [(0, Choice::Full), (1499, Choice::Full), (1501, overflow(1))] {
        told.elapsed = Duration::from_millis(elapsed_ms);
        assert_eq!(told.decide(), expected, "{elapsed_ms} ms");
    }
    // With room it is sent however long it has waited, and where no slot is free it waits on.
    told.take(0, 13);
    assert_eq!(told.decide(), home(0));
    told.take(0, 14);
    told.take(1, 10);
    told.elapsed = Duration::from_secs(100);
    assert_eq!(told.decide(), Choice::Full);
}

#[test]
fn ties_are_drawn_alike_and_gateways_see_what_others_have_sent() {
    let mut told = Told::of(4);
    let mut drawn = [0; 4];
    for _ in 0..4000 {
        if let Choice::Send { cluster, .. } = told.decide() {
            drawn[cluster] += 1;
        }
    }
    assert!(drawn.iter().all(|count| (900..=1100).contains(count)), "{drawn:?}");
    let mut other = Oracle::new(Parameters::default(), told.oracle.shared.clone());
    other.chosen = (Duration::from_millis(5), 1000);
    other.sent(2, &Asked { prompt: &session(2), elapsed: Duration::ZERO, excluded: &[] });
    for _ in 0..100 {
        assert_ne!(told.decide(), home(2));
    }
    // Arrived, it is the engine's to tell.
    told.fleet.now = Duration::from_millis(5);
    told.truths[1].state.queued_tokens = 1;
    assert!((0..100).map(|_| told.decide()).any(|choice| choice == home(2)));
}

#[test]
fn engines_are_seen_as_they_are() {
    let mut fleet = Fleet::with_engines(3);
    let shared = Rc::new(RefCell::new(OnTheWay::new(3)));
    let mut oracle = Oracle::new(Parameters::default(), shared);
    fleet.serve(1, &session(7));
    assert_eq!(fleet.choose(&mut oracle, &session(7)), home(1));
    // Others' prompts wait for those in prefill: 10 ms more of distance are cheaper than 1 s of prefill.
    fleet.occupy(0, 1);
    fleet.occupy(1, 1);
    fleet.clusters[2].rtt = Duration::from_millis(20);
    assert_eq!(fleet.choose(&mut oracle, &session(8)), home(2));
    // Where its prompt is cached it waits for the other's prefill, which is cheaper than its own at a price above 1.
    assert_eq!(fleet.choose(&mut oracle, &session(7)), home(1));
    // What it has sent counts before it arrives: with 9 of 10 slots taken, each cluster has one place.
    for cluster in 0..3 {
        fleet.occupy(cluster, 9);
    }
    let mut sent: Vec<Option<usize>> =
        (20..23).map(|number| fleet.send(&mut oracle, &session(number))).collect();
    sent.sort_unstable();
    assert_eq!(sent, [0, 1, 2].map(Some));
    assert_eq!(fleet.choose(&mut oracle, &session(23)), Choice::Full);
    Fleet::with_engines(5).assert_never_chooses_what_it_may_not(&mut Oracle::new(
        Parameters::default(),
        Rc::new(RefCell::new(OnTheWay::new(5))),
    ));
}

#[test]
fn prices_have_bounds() {
    let valid = |price_max| Parameters { price_max, ..Parameters::default() }.validate().is_ok();
    assert!(valid(1.0) && !valid(0.9) && !valid(f64::INFINITY) && !valid(f64::NAN));
}
