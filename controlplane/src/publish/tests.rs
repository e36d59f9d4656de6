use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use stargate_routing::{Algorithm, Cluster, Inclusion, Snapshot, Tokens, TokensPerSecond};
use tokio::time::Instant;

use super::*;
use crate::{
    config::Config,
    health::{CheckFailure, CheckReport},
    learn::{ASSUMED_INPUT_TPS, Sample},
    names::BackendId,
    registry::Registry,
};

pub(super) struct Fixture {
    registry: Registry,
    pub(super) publisher: Publisher,
}

impl Fixture {
    pub(super) fn new(toml: &str) -> Self {
        let config: Config = toml::from_str(toml).unwrap();
        Self {
            registry: Registry::new(&config),
            publisher: Publisher::new(config.routing.policies().unwrap()),
        }
    }

    pub(super) fn register(&mut self, id: &str, body: Value) {
        let request = serde_json::from_value(body).unwrap();
        self.registry.register(&BackendId::new(id).unwrap(), request, None, Instant::now()).unwrap();
    }

    pub(super) fn report(&mut self, id: &str, stats: &Value) {
        let request = serde_json::from_value(json!({ "models": { "m": stats } })).unwrap();
        self.registry.report(&BackendId::new(id).unwrap(), request, Instant::now()).unwrap();
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.registry.remove(&BackendId::new(id).unwrap()).unwrap();
    }

    pub(super) fn check(&mut self, id: &str, result: Result<(), CheckFailure>) {
        let uid = self.registry.get(&BackendId::new(id).unwrap()).unwrap().uid;
        self.registry
            .checked(uid, &CheckReport { address: None, connect: None, handshake: None, result })
            .unwrap();
    }

    pub(super) fn publish(&mut self) -> Arc<Snapshot> {
        self.publisher.publish(&self.registry);
        self.publisher.shared().load_full()
    }
}

pub(super) fn body(port: u16, cluster: &str) -> Value {
    json!({ "url": format!("http://127.0.0.1:{port}"), "cluster_id": cluster, "models": { "m": {} } })
}

pub(super) fn cluster<'a>(snapshot: &'a Snapshot, id: &str) -> &'a Cluster {
    let target = snapshot.target(None, "m").unwrap();
    target.clusters.iter().find(|cluster| &*cluster.cluster_id == id).unwrap()
}

#[test]
fn it_publishes_only_when_something_changed() {
    let mut fixture = Fixture::new("");
    assert_eq!(fixture.publish().version, 1, "the first is published, empty as it is");
    assert_eq!(fixture.publish().version, 1);
    fixture.register("a", body(1, "c"));
    assert_eq!(fixture.publish().version, 2);
    fixture.register("a", body(1, "c"));
    assert_eq!(fixture.publish().version, 2, "a renewal changes nothing");
    fixture.report("a", &json!({ "queue_size": 1 }));
    assert_eq!(fixture.publish().version, 3);
    fixture.report("a", &json!({ "queue_size": 1 }));
    assert_eq!(fixture.publish().version, 3, "the same stats again");
}

#[test]
fn a_target_is_known_while_registered_even_when_nothing_is_active() {
    let mut fixture =
        Fixture::new("[[backends]]\nid = 's'\nurl = 'http://127.0.0.1:1'\nmodels = ['m']\nrouting_key = 'k'");
    let snapshot = fixture.publish();
    assert!(snapshot.target(Some("k"), "m").unwrap().clusters.is_empty());
    assert!(snapshot.target(None, "m").is_none() && snapshot.target(Some("k"), "x").is_none());
    assert!(!snapshot.is_routable());
    fixture.check("s", Ok(()));
    assert!(fixture.publish().is_routable());

    fixture.register("a", body(1, "c"));
    assert!(fixture.publish().target(None, "m").is_some());
    fixture.remove("a");
    assert!(fixture.publish().target(None, "m").is_none());
}

#[test]
fn counters_outlive_health_checks_and_stats_and_end_with_the_last_registration() {
    let mut fixture = Fixture::new("[health]\nunhealthy_after = 1");
    fixture.register("a", body(1, "c"));
    fixture.register("b", body(2, "c"));
    let snapshot = fixture.publish();
    let before = cluster(&snapshot, "c");
    let (uid, running) = (before.uid, before.load.enter(Tokens(7)));

    fixture.report("a", &json!({ "queue_size": 5 }));
    assert_eq!(cluster(&fixture.publish(), "c").load.running(), 1);
    fixture.check("a", Err(CheckFailure::Timeout));
    fixture.check("b", Err(CheckFailure::Timeout));
    assert!(!fixture.publish().is_routable());
    fixture.check("a", Ok(()));
    let snapshot = fixture.publish();
    assert_eq!(cluster(&snapshot, "c").uid, uid);
    assert_eq!(cluster(&snapshot, "c").load.running(), 1);
    assert_eq!(cluster(&snapshot, "c").backends.len(), 1);

    fixture.remove("a");
    fixture.check("b", Ok(()));
    assert_eq!(cluster(&fixture.publish(), "c").uid, uid, "b has been there all the time");
    fixture.remove("b");
    fixture.publish();
    fixture.register("a", body(1, "c"));
    let snapshot = fixture.publish();
    assert_ne!(cluster(&snapshot, "c").uid, uid);
    assert_eq!(cluster(&snapshot, "c").load.running(), 0);
    drop(running);
}

#[test]
fn clusters_and_backends_are_ordered_and_inactive_models_left_out() {
    let mut fixture = Fixture::new("");
    for (id, port, cluster) in [("z", 1, "b"), ("y", 2, "b"), ("x", 3, "a")] {
        fixture.register(id, body(port, cluster));
    }
    let snapshot = fixture.publish();
    let clusters = &snapshot.target(None, "m").unwrap().clusters;
    let ids: Vec<&str> = clusters.iter().map(|cluster| &*cluster.cluster_id).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(clusters[1].id_hash, Cluster::hash_id("b"));
    let ids: Vec<&str> = clusters[1].backends.iter().map(|backend| &*backend.backend_id).collect();
    assert_eq!(ids, ["y", "z"]);

    let mut inactive = body(2, "b");
    inactive["models"]["m"]["status"] = json!("inactive");
    fixture.register("y", inactive);
    assert_eq!(cluster(&fixture.publish(), "b").backends.len(), 1);
}

#[test]
fn a_backend_keeps_one_allocation_until_something_in_it_changes() {
    let mut fixture = Fixture::new("");
    fixture.register("a", body(1, "c"));
    let before = cluster(&fixture.publish(), "c").backends[0].clone();
    assert!(!before.publishes_stats);
    fixture.register("b", body(2, "d"));
    assert!(Arc::ptr_eq(&before, &cluster(&fixture.publish(), "c").backends[0]));
    fixture.report("a", &json!({}));
    let after = cluster(&fixture.publish(), "c").backends[0].clone();
    assert!(after.publishes_stats);
    assert_eq!(after.uid, before.uid);
}

#[test]
fn unknown_throughput_is_assumed_to_be_the_best_known_one() {
    let mut fixture = Fixture::new("");
    fixture.register("a", body(1, "a"));
    fixture.register("b", body(2, "b"));
    let tps = |snapshot: &Snapshot, id| cluster(snapshot, id).stats.last_mean_input_tps;
    let snapshot = fixture.publish();
    assert_eq!(tps(&snapshot, "a"), TokensPerSecond(ASSUMED_INPUT_TPS));
    assert_eq!(tps(&snapshot, "b"), TokensPerSecond(ASSUMED_INPUT_TPS));

    let uid = fixture.registry.get(&BackendId::new("a").unwrap()).unwrap().uid;
    let sample = Sample { input: Tokens(512), first_byte: Duration::from_millis(1000) };
    for _ in 0..8 {
        fixture.registry.measured(uid, "m", sample, Instant::now());
    }
    let snapshot = fixture.publish();
    assert_eq!(tps(&snapshot, "a"), TokensPerSecond(512.0));
    assert_eq!(tps(&snapshot, "b"), TokensPerSecond(512.0), "it must go on being tried");
    fixture.report("b", &json!({ "last_mean_input_tps": 20 }));
    assert_eq!(tps(&fixture.publish(), "b"), TokensPerSecond(20.0));
}

#[test]
fn the_algorithm_is_the_models() {
    let mut fixture = Fixture::new(
        "[routing]\ndefault = 'random'\n[routing.models.m]\nalgorithm = 'round-robin'\n\
         affinity_from_leading_messages = 2",
    );
    let two = json!({ "url": "http://127.0.0.1:1", "models": { "m": {}, "n": {} } });
    fixture.register("a", two);
    let snapshot = fixture.publish();
    let target = snapshot.target(None, "m").unwrap();
    assert_eq!(
        (&target.policy.method.algorithm, target.policy.affinity_from_leading_messages),
        (&Algorithm::RoundRobin, 2)
    );
    let target = snapshot.target(None, "n").unwrap();
    assert_eq!(
        (&target.policy.method.algorithm, target.policy.affinity_from_leading_messages),
        (&Algorithm::Random, 0)
    );
}

const GATEWAY: u32 = 7;

fn handing_over(through: u64) -> Value {
    json!({ "attempts": { "00000007": { "0": { "through": through } }, "00000008": { "0": { "through": 99 } } } })
}

fn inclusion(snapshot: &Snapshot, cluster_id: &str) -> Option<Arc<Inclusion>> {
    let cluster = cluster(snapshot, cluster_id);
    snapshot.inclusions.get(cluster.uid, cluster.backends[0].uid).cloned()
}

#[test]
fn every_backend_with_an_address_is_listed_and_the_list_kept_while_they_are_the_same() {
    let mut fixture = Fixture::new(
        "[[backends]]\nid = 'z'\nurl = 'http://127.0.0.1:1'\nmodels = ['m']\n\
         [[backends]]\nid = 'nowhere'\nurl = 'http://engine.invalid:1'\nmodels = ['m']",
    );
    let list = |snapshot: &Snapshot| snapshot.backends.clone().unwrap();
    let ids = |snapshot: &Snapshot| -> Vec<String> {
        let list = list(snapshot);
        assert!(list.is_sorted_by_key(|backend| backend.uid));
        list.iter().map(|backend| backend.backend_id.to_string()).collect()
    };
    assert_eq!(ids(&fixture.publish()), ["z"], "not checked yet, but there");
    let mut inactive = body(2, "c");
    inactive["models"]["m"]["status"] = json!("inactive");
    fixture.register("a", inactive);
    let first = fixture.publish();
    assert_eq!(ids(&first), ["z", "a"], "by uid");

    fixture.check("z", Ok(()));
    fixture.register("a", body(2, "c"));
    let second = fixture.publish();
    assert!(second.version > first.version);
    assert!(Arc::ptr_eq(&list(&first), &list(&second)), "neither health nor models change it");

    fixture.report("a", &json!({}));
    let third = fixture.publish();
    assert!(Arc::ptr_eq(&list(&third)[1], &cluster(&third, "c").backends[0]));
    assert!(list(&third)[1].publishes_stats && Arc::ptr_eq(&list(&third)[0], &list(&second)[0]));
    fixture.remove("a");
    assert_eq!(ids(&fixture.publish()), ["z"]);
}

#[test]
fn a_backend_that_serves_nothing_is_published_all_the_same() {
    let mut fixture = Fixture::new("");
    fixture.register("a", body(1, "c"));
    let mut inactive = body(2, "c");
    inactive["models"]["m"]["status"] = json!("inactive");
    let version = fixture.publish().version;
    fixture.register("b", inactive);
    let snapshot = fixture.publish();
    assert_eq!((snapshot.version, snapshot.backends.as_ref().unwrap().len()), (version + 1, 2));
}

#[test]
fn inclusions_are_this_gateways_and_follow_every_report() {
    let mut fixture = Fixture::new("");
    fixture.register("a", body(1, "c"));
    fixture.register("b", body(2, "d"));
    fixture.report("a", &handing_over(5));
    assert!(inclusion(&fixture.publish(), "c").is_none(), "whose attempts? no data plane is there");

    fixture.publisher.set_gateway(GATEWAY.into());
    let snapshot = fixture.publish();
    let first = inclusion(&snapshot, "c").unwrap();
    assert_eq!(first.of_core(0).unwrap().through, 5);
    assert_eq!(cluster(&snapshot, "c").stats.accounting, stargate_routing::Accounting::Reservations);
    assert!(inclusion(&snapshot, "d").is_none());

    fixture.report("b", &json!({ "queue_size": 1 }));
    let snapshot = fixture.publish();
    assert!(Arc::ptr_eq(&first, &inclusion(&snapshot, "c").unwrap()), "the report is the same");
    fixture.report("b", &json!({ "queue_size": 2 }));
    assert!(
        fixture.publish().inclusions.is_copy_of(&snapshot.inclusions),
        "cores need not look at them again"
    );
    let snapshot = fixture.publish();

    // What ended before this report is not in it, which is news, even if something else has taken its place.
    fixture.report("a", &handing_over(5));
    let again = fixture.publish();
    assert_eq!(again.version, snapshot.version + 1);
    let second = inclusion(&again, "c").unwrap();
    assert!(second.report > first.report && second.cores == first.cores);

    fixture.report("a", &json!({ "attempts": {} }));
    assert_eq!(inclusion(&fixture.publish(), "c").unwrap().cores, [].into());
    fixture.report("a", &json!({}));
    assert!(inclusion(&fixture.publish(), "c").is_none(), "withdrawn");
}

#[test]
fn inclusions_are_those_of_active_backends() {
    let mut fixture = Fixture::new("[health]\nunhealthy_after = 1");
    fixture.publisher.set_gateway(GATEWAY.into());
    fixture.register("a", body(1, "c"));
    fixture.report("a", &handing_over(5));
    assert_eq!(fixture.publish().inclusions.iter().count(), 1);
    fixture.check("a", Err(CheckFailure::Timeout));
    assert_eq!(fixture.publish().inclusions.iter().count(), 0);
    fixture.check("a", Ok(()));
    assert_eq!(fixture.publish().inclusions.iter().count(), 1);

    let mut restarted = body(1, "c");
    restarted["models"]["m"]["stats"] = handing_over(5);
    fixture.remove("a");
    fixture.register("a", restarted);
    assert_eq!(inclusion(&fixture.publish(), "c").unwrap().cores, [].into(), "of a registration before");
}
