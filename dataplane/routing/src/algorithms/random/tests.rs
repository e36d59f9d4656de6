use crate::{
    Algorithm, DecisionState,
    testing::fleet::{chi_squared_uniform, decide, exclude, idle, request, selected, target},
};

#[test]
fn every_eligible_cluster_is_equally_likely() {
    let target = target(Algorithm::Random, idle(7));
    let exclusions = exclude(&target, [0, 3], [(6, 0)]);
    let mut state = DecisionState::with_seed(5);
    let mut counts = [0; 7];
    for _ in 0..20_000 {
        counts[selected(decide(&target, &request(1), &exclusions, &mut state)).cluster.0] += 1;
    }
    let [0, a, b, 0, c, d, 0] = counts else { panic!("an excluded one was selected: {counts:?}") };
    let statistic = chi_squared_uniform(&[a, b, c, d]);
    // The 99.9 % quantile at 3 degrees of freedom.
    assert!(statistic < 16.3, "{statistic}");
}
