use super::{
    super::testing::{Fleet, home, session},
    *,
};

fn policy(parameters: Parameters, clusters: usize) -> Prequal {
    Prequal::new(parameters, clusters)
}

fn on_the_way(cluster: usize, received_ms: u64, latency_s: f64) -> Answer {
    Answer { cluster, received: Duration::from_millis(received_ms), in_flight: 1, latency_s, uses_left: 9 }
}

#[test]
fn how_often_an_answer_is_used_follows_from_the_rates() {
    let uses = |clusters| Parameters::default().uses(clusters);
    // (1 − 16/100) · 3 − 1 is 1.52, and 2 / 1.52 is 1.316.
    assert!((uses(100).unwrap() - 1.3158).abs() < 1e-4);
    // (1 − 16/32) · 3 − 1 is a half; at 24 clusters nothing is left.
    assert!((uses(32).unwrap() - 4.0).abs() < 1e-9);
    assert_eq!((uses(24), uses(20), uses(10)), (None, None, None));
    assert_eq!(Parameters { probes: 64.0, ..Parameters::default() }.uses(1000), Some(1.0));
}

#[test]
fn fractions_are_rounded_at_random() {
    let mut rng = fastrand::Rng::with_seed(1);
    let total: usize = (0..4000).map(|_| rounded(1.25, &mut rng)).sum();
    assert!((4900..=5100).contains(&total), "{total}");
    assert_eq!((0..100).map(|_| rounded(3.0, &mut rng)).sum::<usize>(), 300);
}

#[test]
fn an_answer_counts_from_its_arrival_on_and_ages_from_there() {
    let mut fleet = Fleet::of(3);
    let parameters = Parameters { removals: 0.0, ..Parameters::default() };
    let mut policy = policy(parameters, 3);
    policy.on_the_way = vec![on_the_way(0, 20, 0.2), on_the_way(1, 50, 0.1), on_the_way(2, 20, 0.3)];
    fleet.now = Duration::from_millis(49);
    assert_eq!(fleet.choose(&mut policy, &session(0)), home(0));
    assert_eq!(policy.on_the_way.len(), 1);
    fleet.now = Duration::from_millis(50);
    assert_eq!(fleet.choose(&mut policy, &session(0)), home(1));
    // At 1021 ms only that of cluster 1 is left, and one is no choice: any cluster, then.
    fleet.now = Duration::from_millis(1021);
    let shares = fleet.shares(&mut policy, 3000);
    assert!(shares.iter().all(|share| (900..=1100).contains(share)), "{shares:?}");
}

#[test]
fn probes_find_what_engines_have_and_answer_a_round_trip_later() {
    let mut fleet = Fleet::with_engines(3);
    let mut policy = policy(Parameters { removals: 0.0, ..Parameters::default() }, 3);
    for (cluster, requests) in [3, 1, 2].into_iter().enumerate() {
        fleet.occupy(cluster, requests);
    }
    // The first request has all three asked; what has come since they were is not in their answers.
    fleet.choose(&mut policy, &session(0));
    fleet.occupy(1, 9);
    let mut answers: Vec<(usize, u64, u128, f64)> = policy
        .on_the_way
        .iter()
        .map(|answer| (answer.cluster, answer.in_flight, answer.received.as_millis(), answer.latency_s))
        .collect();
    answers.sort_by_key(|answer| answer.0);
    assert_eq!(answers, [(0, 3, 10, 4.01), (1, 1, 10, 2.01), (2, 2, 10, 3.01)]);
    fleet.now = Duration::from_millis(10);
    assert_eq!(fleet.choose(&mut policy, &session(1)), home(1));
    // By the second answers, cluster 1 is the worst.
    fleet.now = Duration::from_millis(20);
    assert_eq!(fleet.choose(&mut policy, &session(2)), home(2));
}

#[test]
fn as_many_clusters_are_asked_as_parameters_say_each_alike() {
    let mut fleet = Fleet::with_engines(10);
    let mut policy = policy(Parameters { probes: 2.5, ..Parameters::default() }, 10);
    fleet.clusters[9].is_routable = false;
    let mut asked = [0; 10];
    for number in 0..3600 {
        fleet.choose(&mut policy, &session(number));
        for answer in policy.on_the_way.drain(..) {
            asked[answer.cluster] += 1;
        }
    }
    // 3600 times 2.5 over 9.
    assert!(asked[..9].iter().all(|count| (920..=1080).contains(count)) && asked[9] == 0, "{asked:?}");
}

#[test]
fn without_answers_clusters_are_drawn_alike() {
    let mut policy = policy(Parameters::default(), 4);
    let shares = Fleet::of(4).shares(&mut policy, 4000);
    assert!(shares.iter().all(|share| (900..=1100).contains(share)), "{shares:?}");
    Fleet::of(6).assert_never_chooses_what_it_may_not(&mut self::policy(Parameters::default(), 6));
}

#[test]
fn one_answer_is_removed_with_each_request() {
    let mut fleet = Fleet::of(8);
    let mut policy = policy(Parameters::default(), 8);
    policy.on_the_way = (0..8).map(|cluster| on_the_way(cluster, 0, 0.1)).collect();
    for left in (2..=8).rev() {
        fleet.choose(&mut policy, &session(0));
        assert_eq!(policy.pool.len(), left - 1);
    }
}

#[test]
fn parameters_have_bounds() {
    let default = Parameters::default();
    assert!(default.validate().is_ok());
    for wrong in [
        Parameters { pool_size: 1, ..default },
        Parameters { probes: -0.1, ..default },
        Parameters { removals: f64::NAN, ..default },
        Parameters { age_limit_ms: 0, ..default },
        Parameters { hot_quantile: 1.1, ..default },
    ] {
        assert!(wrong.validate().is_err(), "{wrong:?}");
    }
}
