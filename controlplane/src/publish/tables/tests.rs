use serde_json::json;
use stargate_routing::{Ranking, Target, TokensPerSecond};

use super::*;
use crate::publish::tests::{Fixture, body, cluster};

const PULSAR: &str = "[routing.models.m]\nalgorithm = 'pulsar'";

/// Builds one table, if one is wanted, and publishes it.
fn build_one(fixture: &mut Fixture) -> Option<Arc<Snapshot>> {
    let job = fixture.publisher.next_table()?;
    fixture.publisher.adopt(&job.build().unwrap());
    Some(fixture.publish())
}

/// Three clusters of equal weight with their table, published.
fn ranked() -> (Fixture, Arc<Snapshot>) {
    let mut fixture = Fixture::new(PULSAR);
    for (id, port) in [("a", 1), ("b", 2), ("c", 3)] {
        fixture.register(id, body(port, id));
        fixture.report(id, &json!({ "max_input_tps": 1_000 }));
    }
    assert!(target(&fixture.publish()).ranking.is_none(), "publishing waits for no table");
    let snapshot = build_one(&mut fixture).unwrap();
    (fixture, snapshot)
}

fn target(snapshot: &Snapshot) -> &Target {
    snapshot.target(None, "m").unwrap()
}

fn table(snapshot: &Snapshot) -> &Arc<RankingTable> {
    target(snapshot).ranking.as_ref().unwrap()
}

fn held(snapshot: &Snapshot, id: &str) -> Option<f64> {
    cluster(snapshot, id).rendezvous.get(RendezvousWeight::MaxInputTps)
}

#[test]
fn a_table_is_kept_and_shared_while_nothing_that_it_ranks_changes() {
    let (mut fixture, before) = ranked();
    assert!(fixture.publisher.next_table().is_none());
    fixture.report("a", &json!({ "queue_size": 7, "max_input_tps": 1_000 }));
    let after = fixture.publish();
    assert_ne!(after.version, before.version);
    assert_eq!(target(&after).ranking_revision, target(&before).ranking_revision);
    assert!(Arc::ptr_eq(table(&after), table(&before)));
    assert!(fixture.publisher.next_table().is_none());
}

#[test]
fn a_wobble_of_a_weight_moves_no_key_and_a_change_does() {
    let (mut fixture, before) = ranked();
    let first = |snapshot: &Snapshot| {
        let (target, seed) = (target(snapshot), Seed::default());
        let rank = |key: u32| {
            Ranking::new(target, &seed, RendezvousWeight::MaxInputTps, &key.to_le_bytes()).to_vec()
        };
        (0..500).map(rank).collect::<Vec<_>>()
    };
    let ranking = first(&before);
    for tps in [950, 1_050, 1_000, 910, 1_090] {
        fixture.report("b", &json!({ "max_input_tps": tps }));
        let wobbling = fixture.publish();
        assert_eq!(cluster(&wobbling, "b").stats.max_input_tps, Some(TokensPerSecond(f64::from(tps))));
        assert!(Arc::ptr_eq(table(&wobbling), table(&before)), "{tps}");
        assert_eq!(first(&wobbling), ranking, "{tps}");
    }
    fixture.report("b", &json!({ "max_input_tps": 2_000 }));
    let changed = fixture.publish();
    assert!(target(&changed).ranking.is_none());
    assert!(target(&changed).ranking_revision > target(&before).ranking_revision);
    let direct = first(&changed);
    assert_ne!(direct, ranking);
    let with_table = build_one(&mut fixture).unwrap();
    let (seed, weight) = (Seed::default(), RendezvousWeight::MaxInputTps);
    let fresh = RankingTable::build(&target(&changed).name, &seed, weight, &target(&changed).clusters);
    assert!(**table(&with_table) == fresh, "an updated table is as if built");
    assert_eq!(first(&with_table), direct);
}

#[test]
fn held_weights_outlive_an_outage_and_end_with_the_cluster() {
    let (mut fixture, before) = ranked();
    let mut inactive = body(2, "b");
    inactive["models"]["m"]["status"] = json!("inactive");
    fixture.register("b", inactive);
    let without = fixture.publish();
    assert_eq!(target(&without).clusters.len(), 2);
    assert_ne!(target(&without).ranking_revision, target(&before).ranking_revision);
    fixture.register("b", body(2, "b"));
    fixture.report("b", &json!({ "max_input_tps": 1_050 }));
    assert_eq!(held(&fixture.publish(), "b"), Some(1_000.0));

    fixture.remove("b");
    fixture.publish();
    fixture.register("b", body(2, "b"));
    fixture.report("b", &json!({ "max_input_tps": 1_050 }));
    assert_eq!(held(&fixture.publish(), "b"), Some(1_050.0));
}

#[test]
fn of_many_changes_only_the_last_is_built_for_and_a_late_table_is_not_published() {
    let (mut fixture, _) = ranked();
    fixture.report("a", &json!({ "max_input_tps": 2_000 }));
    fixture.publish();
    let late = fixture.publisher.next_table().unwrap();
    for tps in [3_000, 4_000, 5_000] {
        fixture.report("a", &json!({ "max_input_tps": tps }));
        fixture.publish();
    }
    fixture.publisher.adopt(&late.build().unwrap());
    assert!(target(&fixture.publish()).ranking.is_none(), "it is for weights of before");
    let snapshot = build_one(&mut fixture).unwrap();
    assert_eq!(held(&snapshot, "a"), Some(5_000.0));
    assert!(target(&snapshot).ranking.is_some());
    assert!(fixture.publisher.next_table().is_none());
}

#[test]
fn targets_that_rank_nothing_get_no_table_and_the_others_each_in_turn() {
    let mut fixture = Fixture::new(&format!(
        "{PULSAR}\n[routing.models.n]\nalgorithm = 'pulsar'\nseed = 3\nrendezvous_weight = 'last-mean-input-tps'\n\
         [routing.models.r]\nalgorithm = 'random'"
    ));
    let models = json!({ "m": {}, "n": {}, "r": {}, "default": {} });
    fixture.register("a", json!({ "url": "http://127.0.0.1:1", "models": models }));
    fixture.publish();
    // Both are handed out before either is there.
    let jobs = [fixture.publisher.next_table().unwrap(), fixture.publisher.next_table().unwrap()];
    for job in jobs {
        fixture.publisher.adopt(&job.build().unwrap());
    }
    let snapshot = fixture.publish();
    assert!(fixture.publisher.next_table().is_none());
    let tables: Vec<_> = snapshot.targets().iter().map(|target| target.ranking.is_some()).collect();
    assert_eq!(tables, [false, true, true, false], "default, m, n, r");
    let table = snapshot.target(None, "n").unwrap().ranking.as_ref().unwrap();
    assert!(table.is_for(&Seed::new("3"), RendezvousWeight::LastMeanInputTps));
    let mut revisions: Vec<_> = snapshot.targets().iter().map(|target| target.ranking_revision).collect();
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 4, "no two targets share a revision");
}
