use super::*;

#[test]
fn exclusions_hold_their_capacity_of_each_kind() {
    let mut exclusions = Exclusions::default();
    assert!(exclusions.is_empty());
    for number in 0..Exclusions::CAPACITY as u64 {
        assert!(exclusions.exclude_cluster(ClusterUid(number)));
        assert!(exclusions.exclude_backend(BackendUid(100 + number)));
    }
    assert!(!exclusions.exclude_cluster(ClusterUid(50)));
    assert!(!exclusions.exclude_backend(BackendUid(50)));
    for number in 0..Exclusions::CAPACITY as u64 {
        assert!(exclusions.exclude_cluster(ClusterUid(number)), "it is excluded already");
        assert!(exclusions.has_cluster(ClusterUid(number)));
        assert!(exclusions.has_backend(BackendUid(100 + number)));
    }
    assert!(!exclusions.has_cluster(ClusterUid(50)) && !exclusions.has_backend(BackendUid(50)));
}

#[test]
fn one_exclusion_of_either_kind_is_not_empty() {
    let mut clusters = Exclusions::default();
    assert!(clusters.exclude_cluster(ClusterUid(0)));
    assert!(!clusters.is_empty() && !clusters.has_backend(BackendUid(0)));
    let mut backends = Exclusions::default();
    assert!(backends.exclude_backend(BackendUid(0)));
    assert!(!backends.is_empty() && !backends.has_cluster(ClusterUid(0)));
}
