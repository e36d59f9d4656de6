use super::*;
use crate::testing::fleet::{idle, target};
use crate::{Algorithm, Cluster, RankingTable, RendezvousWeight, TargetName};

fn named(routing_key: Option<&str>, model: &str, clusters: usize) -> Target {
    let name = TargetName { routing_key: routing_key.map(Arc::from), model: model.into() };
    Target { name: Arc::new(name), ..target(Algorithm::Random, idle(clusters)) }
}

#[test]
fn scopes_never_serve_each_other() {
    let targets =
        vec![named(None, "a", 1), named(Some("t"), "a", 2), named(Some("t"), "b", 3), named(None, "c", 4)];
    let snapshot = Snapshot::new(1, 0, targets);
    let clusters =
        |routing_key, model| snapshot.target(routing_key, model).map(|target| target.clusters.len());
    assert_eq!(clusters(None, "a"), Some(1));
    assert_eq!(clusters(Some("t"), "a"), Some(2));
    assert_eq!(clusters(Some("t"), "b"), Some(3));
    for (routing_key, model) in
        [(None, "b"), (Some("t"), "c"), (Some("u"), "a"), (Some(""), "a"), (None, "A"), (None, "")]
    {
        assert_eq!(clusters(routing_key, model), None, "{routing_key:?} {model}");
    }
}

#[test]
fn of_two_targets_with_one_name_the_later_is_found() {
    let snapshot = Snapshot::new(1, 0, vec![named(None, "a", 1), named(None, "a", 2)]);
    assert_eq!(snapshot.target(None, "a").unwrap().clusters.len(), 2);
}

#[test]
fn a_snapshot_is_routable_with_one_cluster_anywhere() {
    assert!(!Snapshot::default().is_routable());
    assert!(!Snapshot::new(1, 0, vec![named(None, "a", 0)]).is_routable());
    assert!(Snapshot::new(1, 0, vec![named(None, "a", 0), named(Some("t"), "a", 1)]).is_routable());
}

#[test]
fn what_decisions_rely_on_is_checked() {
    let good = || named(None, "a", 3);
    assert!(good().is_well_formed());
    let breaks: [fn(&mut Vec<Cluster>); 5] = [
        |clusters| clusters.swap(0, 1),
        |clusters| {
            clusters[1].cluster_id = clusters[0].cluster_id.clone();
            clusters[1].id_hash = clusters[0].id_hash;
        },
        |clusters| clusters[2].id_hash += 1,
        |clusters| clusters[2].backends = Box::default(),
        |clusters| {
            let estimates = [(2, crate::Nanos(0)), (1, crate::Nanos(0))];
            clusters[0].stats.queue_time_estimates = estimates.into();
        },
    ];
    for (position, break_it) in breaks.iter().enumerate() {
        let mut target = good();
        break_it(&mut target.clusters);
        assert!(!target.is_well_formed(), "break {position}");
    }
}

#[test]
fn a_ranking_table_must_be_of_these_clusters() {
    let target = named(None, "a", 3);
    let table = |clusters: &[Cluster]| {
        let seed = crate::Seed::default();
        Some(Arc::new(RankingTable::build(&target.name, &seed, RendezvousWeight::default(), clusters)))
    };
    let good = Target { ranking: table(&target.clusters), ..named(None, "a", 3) };
    assert!(good.is_well_formed());
    let other_clusters = Target { ranking: table(&target.clusters[..2]), ..named(None, "a", 3) };
    assert!(!other_clusters.is_well_formed());
    let other_target = Target { ranking: table(&target.clusters), ..named(None, "b", 3) };
    assert!(!other_target.is_well_formed());
}
