use super::{
    super::testing::{Fleet, home, overflow, session},
    *,
};

fn policy(clusters: usize, load_factor: f64) -> BoundedLoads {
    let parameters = Parameters { load_factor, ..Parameters::default() };
    BoundedLoads::new(parameters, Rc::new(Ring::new(parameters, clusters, 0)))
}

/// The clusters that a session meets on the ring, each once.
fn order(policy: &BoundedLoads, number: u32) -> Vec<usize> {
    let mut order = Vec::new();
    for cluster in policy.ring.from(number) {
        if !order.contains(&cluster) {
            order.push(cluster);
        }
    }
    order
}

#[test]
fn the_bound_is_the_ceiling_of_the_factor_times_the_mean() {
    let (mut fleet, mut policy) = (Fleet::of(4), policy(4, 1.25));
    let order = order(&policy, 7);
    // 1.25 × (11 + 1) / 4 is 3.75, so 4 may be in flight: the fifth goes on.
    for (in_flight, others, expected) in [(3, 8, home(order[0])), (4, 7, overflow(order[1]))] {
        fleet.clusters[order[0]].in_flight = in_flight;
        fleet.clusters[order[3]].in_flight = others;
        assert_eq!(fleet.choose(&mut policy, &session(7)), expected);
    }
    // 1.25 × (15 + 1) / 4 is 5.
    fleet.clusters[order[3]].in_flight = 11;
    assert_eq!(fleet.choose(&mut policy, &session(7)), home(order[0]));
    fleet.clusters[order[0]].in_flight = 5;
    fleet.clusters[order[3]].in_flight = 10;
    assert_eq!(fleet.choose(&mut policy, &session(7)), overflow(order[1]));
}

#[test]
fn one_hot_session_is_spread_to_the_bound() {
    let (mut fleet, mut policy) = (Fleet::of(10), policy(10, 1.25));
    for sent in 1..=200_u64 {
        fleet.send(&mut policy, &session(1)).unwrap();
        let most = fleet.clusters.iter().map(|cluster| cluster.in_flight).max().unwrap();
        assert!(most <= (1.25 * sent as f64 / 10.0).ceil() as u64, "{most} of {sent}");
    }
    // With room enough a key stays.
    let mut loose = self::policy(10, 10.0);
    let mut fleet = Fleet::of(10);
    let sent: Vec<Option<usize>> = (0..50).map(|_| fleet.send(&mut loose, &session(1))).collect();
    assert!(sent.iter().all(|cluster| *cluster == sent[0]));
}

#[test]
fn a_cluster_that_leaves_moves_only_its_own_keys() {
    let (mut fleet, mut policy) = (Fleet::of(10), policy(10, 1.25));
    let before = fleet.places(&mut policy, 10_000);
    let count =
        |places: &[Option<usize>], cluster| places.iter().filter(|place| **place == Some(cluster)).count();
    for cluster in 0..10 {
        // 150 points give shares that are a few per cent apart.
        assert!((750..=1250).contains(&count(&before, cluster)), "{}", count(&before, cluster));
    }
    fleet.clusters[6].is_routable = false;
    let after = fleet.places(&mut policy, 10_000);
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert_eq!((moved, count(&after, 6)), (count(&before, 6), 0));
    assert!(matches!(fleet.choose(&mut policy, &session(0)), Choice::Send { is_overflow: false, .. }));
}

#[test]
fn a_cluster_that_has_failed_is_left_out_even_where_only_full_ones_are_left() {
    let (mut fleet, mut policy) = (Fleet::of(3), policy(3, 1.0));
    let order = order(&policy, 2);
    fleet.excluded = vec![order[0]];
    assert_eq!(fleet.choose(&mut policy, &session(2)), overflow(order[1]));
    fleet.clusters[order[1]].in_flight = 9;
    fleet.clusters[order[2]].in_flight = 9;
    assert_eq!(fleet.choose(&mut policy, &session(2)), overflow(order[1]));
    Fleet::of(6).assert_never_chooses_what_it_may_not(&mut self::policy(6, 1.25));
}

#[test]
fn parameters_have_bounds() {
    let valid = |load_factor, points| Parameters { load_factor, points }.validate().is_ok();
    assert!(valid(1.0, 1) && valid(3.0, 1024));
    assert!(!valid(0.99, 150) && !valid(f64::INFINITY, 150) && !valid(1.25, 0) && !valid(1.25, 1025));
}
