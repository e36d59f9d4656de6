//! The ends of a reservation, one by one.

use super::{backend, core, reserving, send, us};
use crate::{
    BackendUid, Cluster, ClusterStats, CoreInclusion, CoreLoads, EffectiveStats, Inclusion, Inclusions,
    ReservationCounts, Snapshot, Tokens,
};

const NOW: std::time::Duration = us(500);

fn snapshot(backends: &[&std::sync::Arc<crate::Backend>], inclusions: Inclusions) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.backends = Some(backends.iter().map(|backend| (*backend).clone()).collect());
    snapshot.inclusions = inclusions;
    snapshot
}

/// A report that includes the attempts of core 7 up to a number, but for some.
fn included(cluster: &Cluster, report: u64, through: u64, except: &[u64]) -> Inclusions {
    let core = CoreInclusion { core: 7, through, except: except.into() };
    let inclusion = Inclusion { report, cores: [core].into() };
    Inclusions::new(vec![(cluster.uid, cluster.backends[0].uid, inclusion.into())])
}

fn reserved(loads: &CoreLoads, cluster: &Cluster) -> u64 {
    loads.flush();
    cluster.load.reserved()
}

fn queued(cluster: &Cluster) -> u64 {
    EffectiveStats::new(&cluster.stats, &cluster.load, 0).queue_size
}

#[test]
fn time_ends_it_after_a_round_trip_and_only_once() {
    let far = backend(1, true, Some(us(30_200)));
    let cluster = reserving(ClusterStats::default(), &far);
    let loads = core(7, 2);
    let running = send(&loads, &cluster, 10, NOW);
    assert_eq!(loads.next_due(), Some(NOW + us(1_000)));
    loads.advance(NOW + us(30_199));
    assert_eq!((reserved(&loads, &cluster), loads.lapsed()), (1, 0));
    assert_eq!(loads.next_due(), Some(us(31_000)));
    loads.advance(us(31_000));
    assert_eq!((reserved(&loads, &cluster), loads.lapsed()), (0, 1));
    assert_eq!(loads.next_due(), Some(us(32_000)), "the others are to be told");
    drop(running);
    assert_eq!((reserved(&loads, &cluster), cluster.load.running()), (0, 0));
    let mut expected = ReservationCounts { created: 1, expired: 1, ..ReservationCounts::default() };
    expected.ttl[2] = 1;
    expected.ttl_sum = us(30_200);
    assert_eq!(loads.counts(), expected);
}

#[test]
fn a_life_is_within_its_bounds_and_the_shortest_where_no_round_trip_was_measured() {
    for (rtt, ttl) in [(None, 10), (Some(1), 10), (Some(9_000), 2_000), (Some(700), 700)] {
        let there = backend(1, false, rtt.map(|ms| us(ms * 1_000)));
        let cluster = reserving(ClusterStats::default(), &there);
        let loads = core(7, 1);
        let _running = send(&loads, &cluster, 10, NOW);
        assert_eq!(loads.counts().ttl_sum, us(ttl * 1_000), "{rtt:?} ms away");
    }
}

#[test]
fn the_end_of_the_attempt_releases_it() {
    let near = backend(1, true, None);
    let cluster = reserving(ClusterStats::default(), &near);
    let loads = core(7, 1);
    let running = send(&loads, &cluster, 10, NOW);
    assert_eq!((reserved(&loads, &cluster), cluster.load.reserved_input()), (1, Tokens(10)));
    drop(running);
    assert_eq!((reserved(&loads, &cluster), cluster.load.reserved_input()), (0, Tokens(0)));
    loads.advance(us(60_000_000));
    let ReservationCounts { released, expired, pending, .. } = loads.counts();
    assert_eq!((released, expired, pending), (1, 0, 0));
}

#[test]
fn the_end_of_the_registration_drops_it() {
    let (here, other) = (backend(1, true, None), backend(2, true, None));
    let cluster = reserving(ClusterStats::default(), &here);
    let loads = core(7, 1);
    loads.follow(&snapshot(&[&here, &other], Inclusions::default()));
    let running = send(&loads, &cluster, 10, NOW);
    loads.follow(&Snapshot::default());
    assert_eq!(loads.counts().pending, 1, "a snapshot that knows no registrations ends none");
    loads.follow(&snapshot(&[&other], Inclusions::default()));
    assert_eq!((reserved(&loads, &cluster), loads.lapsed()), (0, 1));
    assert_eq!(cluster.load.running(), 1, "the attempt itself goes on");
    drop(running);
    loads.advance(us(60_000_000));
    let ReservationCounts { created, dropped, .. } = loads.counts();
    assert_eq!((created, dropped, reserved(&loads, &cluster), cluster.load.running()), (1, 1, 0, 0));
}

#[test]
fn a_report_that_includes_its_attempt_hands_it_over() {
    let there = backend(1, true, None);
    let cluster = reserving(ClusterStats::default(), &there);
    let loads = core(7, 1);
    loads.follow(&snapshot(&[&there], included(&cluster, 1, 0, &[])));
    let running: Vec<_> = (0..4).map(|_| send(&loads, &cluster, 10, NOW)).collect();
    let sequences: Vec<_> = running.iter().map(crate::Running::sequence).collect();
    assert_eq!(sequences, [Some(1), Some(2), Some(3), Some(4)]);
    loads.advance(us(60_000_000));
    assert_eq!(reserved(&loads, &cluster), 4, "no time ends it");
    loads.follow(&snapshot(&[&there], included(&cluster, 2, 3, &[2])));
    assert_eq!((reserved(&loads, &cluster), loads.counts().handed_over), (2, 2));
    // The same report again, however it is worded, says nothing new.
    loads.follow(&snapshot(&[&there], included(&cluster, 2, 4, &[])));
    assert_eq!(reserved(&loads, &cluster), 2);
    drop(running);
    assert_eq!((reserved(&loads, &cluster), loads.counts().released), (0, 2));
}

#[test]
fn marks_of_a_former_registration_end_nothing() {
    let there = backend(1, true, None);
    let cluster = reserving(ClusterStats::default(), &there);
    let loads = core(7, 1);
    loads.follow(&snapshot(&[&there], included(&cluster, 1, 0, &[])));
    let _running = [send(&loads, &cluster, 10, NOW), send(&loads, &cluster, 10, NOW)];
    loads.follow(&snapshot(&[&there], included(&cluster, 2, 3, &[])));
    assert_eq!(reserved(&loads, &cluster), 2, "it was never sent a third");
    loads.follow(&snapshot(&[&there], included(&cluster, 3, 2, &[])));
    assert_eq!(reserved(&loads, &cluster), 0);
}

#[test]
fn an_included_attempt_that_has_ended_comes_off_the_report_until_the_next() {
    let there = backend(1, true, None);
    let cluster = reserving(ClusterStats { queue_size: 5, ..ClusterStats::default() }, &there);
    let loads = core(7, 1);
    loads.follow(&snapshot(&[&there], included(&cluster, 1, 0, &[])));
    let running = [send(&loads, &cluster, 10, NOW), send(&loads, &cluster, 10, NOW)];
    loads.follow(&snapshot(&[&there], included(&cluster, 2, 1, &[])));
    loads.flush();
    assert_eq!(queued(&cluster), 6);
    drop(running);
    loads.flush();
    assert_eq!((cluster.load.ended(), queued(&cluster)), (1, 4));
    loads.follow(&snapshot(&[&there], included(&cluster, 3, 1, &[])));
    loads.flush();
    assert_eq!((cluster.load.ended(), queued(&cluster)), (0, 5));
}

#[test]
fn nothing_that_ended_is_left_of_a_core_that_is_gone() {
    let there = backend(1, true, None);
    let cluster = reserving(ClusterStats::default(), &there);
    let loads = core(7, 1);
    loads.follow(&snapshot(&[&there], included(&cluster, 1, 0, &[])));
    let running = send(&loads, &cluster, 10, NOW);
    loads.follow(&snapshot(&[&there], included(&cluster, 2, 1, &[])));
    drop(running);
    loads.flush();
    assert_eq!(cluster.load.ended(), 1);
    drop(loads);
    assert_eq!((cluster.load.ended(), cluster.load.running()), (0, 0));
}

#[test]
fn where_reports_stop_to_say_what_they_include_time_ends_it() {
    let there = backend(1, true, None);
    let cluster = reserving(ClusterStats::default(), &there);
    let loads = core(7, 1);
    loads.follow(&snapshot(&[&there], included(&cluster, 1, 0, &[])));
    let _late = send(&loads, &cluster, 10, NOW);
    let _later = send(&loads, &cluster, 10, us(20_300));
    loads.follow(&snapshot(&[&there], Inclusions::default()));
    assert_eq!((reserved(&loads, &cluster), loads.counts().expired), (1, 1));
    loads.advance(us(30_999));
    assert_eq!((reserved(&loads, &cluster), loads.next_due()), (1, Some(us(31_000))));
    loads.advance(us(31_000));
    assert_eq!((reserved(&loads, &cluster), loads.counts().expired), (0, 2));
}

#[test]
fn attempts_are_numbered_by_registration_where_stats_are_published() {
    let (old, new, silent) = (backend(1, true, None), backend(2, true, None), backend(3, false, None));
    let [of_old, of_new, of_silent] =
        [&old, &new, &silent].map(|backend| reserving(ClusterStats::default(), backend));
    let loads = core(7, 1);
    loads.follow(&snapshot(&[&old, &silent], Inclusions::default()));
    assert_eq!(send(&loads, &of_old, 1, NOW).sequence(), Some(1));
    assert_eq!(send(&loads, &of_silent, 1, NOW).sequence(), None);
    assert_eq!(send(&loads, &of_old, 1, NOW).sequence(), Some(2));
    loads.follow(&snapshot(&[&new, &silent], Inclusions::default()));
    assert_eq!(send(&loads, &of_new, 1, NOW).sequence(), Some(1));
    assert_eq!(of_new.backends[0].uid, BackendUid(2));
}
