//! What cores share, in every interleaving: `RUSTFLAGS="--cfg loom" cargo test -p stargate-routing --release --lib loom`.

use std::{rc::Rc, sync::Arc};

use super::{backend, core, reserving, us};
use crate::{
    Cluster, ClusterLoad, ClusterStats, CoreLoads, EffectiveStats, RoutingRequest, Tokens, load::Attempts,
};

const TOKENS: u64 = 5;

fn shared() -> Arc<Cluster> {
    let slots = ClusterStats { max_engine_concurrency: 1, ..ClusterStats::default() };
    Arc::new(reserving(slots, &backend(1, false, None)))
}

/// Takes a place for the load that this core sees, or whatever it is; `None` when another core was first.
fn enter(loads: &Rc<CoreLoads>, cluster: &Cluster, by_load: bool) -> Option<super::Running> {
    let request = RoutingRequest { input_tokens: Tokens(TOKENS), ..RoutingRequest::default() };
    let seen = loads.unflushed().read(&cluster.load, &cluster.stats, 0);
    let stats = EffectiveStats::with_load(&cluster.stats, seen, 0);
    let place = loads.take_place(cluster, &request, &stats, by_load.then_some(seen.sent.attempts))?;
    Some(loads.hold(place, cluster.uid, &cluster.backends[0], us(0)))
}

/// None of the counts is ever negative, or more than two attempts come to.
fn check(load: &ClusterLoad) {
    for (count, tokens) in [(load.running(), load.queued_input()), (load.reserved(), load.reserved_input())] {
        assert!(count <= 2 && tokens.0 <= 2 * TOKENS, "{count} of {tokens:?}");
    }
}

fn check_idle(load: &ClusterLoad) {
    assert_eq!((load.running(), load.queued(), load.queued_input()), (0, 0, Tokens(0)));
    assert_eq!((load.reserved(), load.reserved_input(), load.ended()), (0, Tokens(0), 0));
}

/// One core tells its changes, the other writes through; a third looks on.
#[test]
fn sums_are_right_and_never_negative_and_end_at_zero() {
    let mut model = ::loom::model::Builder::new();
    // With three it takes minutes, and finds nothing either.
    model.preemption_bound = Some(2);
    model.check(|| {
        let cluster = shared();
        let [told, through] = [cluster.clone(), cluster.clone()];
        let first = ::loom::thread::spawn(move || {
            let loads = core(0, 2);
            let running = enter(&loads, &told, false);
            loads.flush();
            drop(running);
        });
        let second = ::loom::thread::spawn(move || {
            let loads = core(1, 2);
            drop(enter(&loads, &through, true));
        });
        check(&cluster.load);
        first.join().unwrap();
        second.join().unwrap();
        check_idle(&cluster.load);
    });
}

#[test]
fn of_two_that_saw_the_same_place_one_gets_it() {
    ::loom::model(|| {
        let cluster = shared();
        let theirs = cluster.clone();
        let take = |cluster: &Cluster, number| {
            let idle = ClusterLoad::default();
            let loads = core(number, 2);
            let (stats, seen) = (EffectiveStats::new(&cluster.stats, &idle, 0), Attempts::default());
            loads.take_place(cluster, &RoutingRequest::default(), &stats, Some(seen)).is_some()
        };
        let other = ::loom::thread::spawn(move || take(&theirs, 1));
        let ours = take(&cluster, 0);
        assert!(ours != other.join().unwrap());
        assert_eq!(cluster.load.reserved(), 1);
    });
}
