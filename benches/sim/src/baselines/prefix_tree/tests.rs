use super::{
    super::testing::{Fleet, home, overflow, session},
    *,
};
use crate::model::Prompt;

fn policy(parameters: Parameters, clusters: usize) -> PrefixTree {
    PrefixTree::new(parameters, clusters)
}

fn sent(policy: &mut PrefixTree, cluster: usize, prompt: &Prompt) {
    policy.sent(cluster, &Asked { prompt, elapsed: std::time::Duration::ZERO, excluded: &[] });
}

#[test]
fn a_prompt_follows_what_it_shares_above_the_threshold() {
    let (mut fleet, mut policy) = (Fleet::of(3), policy(Parameters::default(), 3));
    let shared = |shared| Prompt { session_tokens: shared, own_tokens: 1000 - shared, ..session(7) };
    sent(&mut policy, 0, &shared(1000));
    sent(&mut policy, 1, &session(8));
    sent(&mut policy, 2, &session(9));
    sent(&mut policy, 2, &session(10));
    assert_eq!(fleet.choose(&mut policy, &shared(301)), home(0));
    // 0.3 of it is not above the threshold: to the smallest tree, of 1000 tokens, then, and not to the least loaded.
    sent(&mut policy, 0, &session(11));
    fleet.clusters[1].in_flight = 20;
    assert_eq!(fleet.choose(&mut policy, &shared(300)), home(1));
    let otherwise = Otherwise::LeastLoad;
    let mut by_load = self::policy(Parameters { otherwise, ..Parameters::default() }, 3);
    sent(&mut by_load, 0, &session(11));
    fleet.clusters[2].in_flight = 5;
    assert_eq!(fleet.choose(&mut by_load, &shared(300)), home(0));
    fleet.clusters[0].in_flight = 6;
    assert_eq!(fleet.choose(&mut by_load, &shared(300)), home(2));
}

#[test]
fn uneven_loads_switch_to_the_least_loaded() {
    let (mut fleet, mut policy) = (Fleet::of(3), policy(Parameters::default(), 3));
    sent(&mut policy, 0, &session(7));
    for (loads, expected) in [
        // 64 apart is not more than 64.
        ([64, 0, 1], home(0)),
        ([65, 0, 1], overflow(1)),
        // 195 is 1.5 times 130, and not more.
        ([195, 130, 150], home(0)),
        ([196, 130, 150], overflow(1)),
        // The least loaded is where it belongs anyway.
        ([0, 65, 1], home(0)),
    ] {
        for (cluster, load) in fleet.clusters.iter_mut().zip(loads) {
            cluster.in_flight = load;
        }
        assert_eq!(fleet.choose(&mut policy, &session(7)), expected, "{loads:?}");
    }
    // A request that nobody shares goes to the least loaded as well, whatever the trees.
    sent(&mut policy, 1, &session(8));
    for (cluster, load) in fleet.clusters.iter_mut().zip([100, 0, 1]) {
        cluster.in_flight = load;
    }
    assert_eq!(fleet.choose(&mut policy, &session(99)), home(1));
}

#[test]
fn sessions_spread_over_trees_and_stay() {
    let (mut fleet, mut policy) = (Fleet::of(4), policy(Parameters::default(), 4));
    let first: Vec<Option<usize>> =
        (0..200).map(|number| fleet.send(&mut policy, &session(number))).collect();
    assert!(fleet.clusters.iter().all(|cluster| cluster.in_flight == 50));
    let second: Vec<Option<usize>> =
        (0..200).map(|number| fleet.send(&mut policy, &session(number))).collect();
    assert_eq!(first, second);
    // From the same seed, the same.
    let (mut again, mut other) = (Fleet::of(4), self::policy(Parameters::default(), 4));
    let repeated: Vec<Option<usize>> =
        (0..200).map(|number| again.send(&mut other, &session(number))).collect();
    assert_eq!(first, repeated);
}

#[test]
fn a_cluster_that_may_not_be_chosen_gives_way_to_the_next_best() {
    let (mut fleet, mut policy) = (Fleet::of(4), policy(Parameters::default(), 4));
    sent(&mut policy, 0, &session(7));
    sent(&mut policy, 1, &Prompt { session_tokens: 400, ..session(7) });
    assert_eq!(fleet.choose(&mut policy, &session(7)), home(0));
    fleet.excluded = vec![0];
    assert_eq!(fleet.choose(&mut policy, &session(7)), home(1));
    fleet.clusters[1].is_routable = false;
    assert!(matches!(fleet.choose(&mut policy, &session(7)), Choice::Send { cluster: 2 | 3, .. }));
    Fleet::of(5).assert_never_chooses_what_it_may_not(&mut self::policy(Parameters::default(), 5));
}

#[test]
fn parameters_have_bounds() {
    let default = Parameters::default();
    assert!(default.validate().is_ok());
    for wrong in [
        Parameters { cache_threshold: 1.1, ..default },
        Parameters { cache_threshold: f64::NAN, ..default },
        Parameters { balance_rel_threshold: 0.9, ..default },
        Parameters { max_tree_tokens: 0, ..default },
    ] {
        assert!(wrong.validate().is_err(), "{wrong:?}");
    }
}
