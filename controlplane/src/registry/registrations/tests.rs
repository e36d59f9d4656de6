use serde_json::{Value, json};
use stargate_routing::{Nanos, RttSource};

use super::*;
use crate::{
    health::CheckFailure,
    registry::{Model, ModelStatus, Rate, Reporting, Requests},
};

fn registry(toml: &str) -> Registry {
    Registry::new(&toml::from_str(toml).unwrap())
}

fn id(text: &str) -> BackendId {
    BackendId::new(text).unwrap()
}

fn request(body: Value) -> RegisterRequest {
    serde_json::from_value(body).unwrap()
}

fn simple() -> RegisterRequest {
    request(json!({ "url": "http://127.0.0.1:9001", "models": { "m": {} } }))
}

fn stats(body: &Value) -> StatsRequest {
    serde_json::from_value(json!({ "models": { "m": body } })).unwrap()
}

fn model<'a>(registry: &'a Registry, backend: &str) -> &'a Model {
    &registry.get(&id(backend)).unwrap().models["m"]
}

fn report(result: Result<(), CheckFailure>) -> CheckReport {
    CheckReport { address: None, connect: None, handshake: None, result }
}

const STATIC: &str = "[[backends]]\nid = 's'\nurl = 'http://127.0.0.1:1'\nmodels = ['m']\n\
                      max_engine_concurrency = 8\nlast_mean_input_tps = 500\n";

#[test]
fn registering_is_routable_at_once_and_renewing_keeps_the_registration() {
    let (mut registry, now) = (registry(""), Instant::now());
    let first = registry.register(&id("a"), simple(), None, now).unwrap();
    assert!(first.is_new);
    assert!(registry.get(&id("a")).unwrap().is_available());
    let again = registry.register(&id("a"), simple(), None, now).unwrap();
    assert_eq!(again, Registered { uid: first.uid, is_new: false });
    registry.remove(&id("a")).unwrap();
    let back = registry.register(&id("a"), simple(), None, now).unwrap();
    assert!(back.is_new);
    assert_ne!(back.uid, first.uid, "identities are never used again");
    assert!(registry.by_uid(first.uid).is_none());
}

#[test]
fn identity_cannot_change_within_a_registration() {
    let (mut registry, now) = (registry(""), Instant::now());
    let original =
        json!({ "url": "http://127.0.0.1:1", "cluster_id": "c", "engine": "vllm", "models": { "m": {} } });
    registry.register(&id("a"), request(original.clone()), None, now).unwrap();
    let revision = registry.revision();
    for (field, value) in [
        ("url", json!("http://127.0.0.1:2")),
        ("cluster_id", json!("d")),
        ("cluster_id", json!(null)),
        ("routing_key", json!("k")),
        ("engine", json!("sglang")),
    ] {
        let mut changed = original.clone();
        changed[field] = value;
        let error = registry.register(&id("a"), request(changed), None, now).unwrap_err();
        assert!(
            matches!(&error, RegistryError::IdentityChanged { field: found, .. } if *found == field),
            "{error}"
        );
    }
    assert_eq!(registry.revision(), revision, "nothing was applied");
}

#[test]
fn an_empty_cluster_or_routing_key_counts_as_none() {
    let (mut registry, now) = (registry(""), Instant::now());
    let body =
        json!({ "url": "http://127.0.0.1:1", "cluster_id": "", "routing_key": "", "models": { "m": {} } });
    registry.register(&id("a"), request(body), None, now).unwrap();
    let identity = &registry.get(&id("a")).unwrap().identity;
    assert_eq!((identity.cluster_id.as_str(), &identity.routing_key), ("a", &None));
}

#[test]
fn a_lease_ends_unless_renewed_by_registration_or_stats() {
    let (mut registry, start) = (registry("[registration]\nlease_ms = 1000"), Instant::now());
    let at = |ms| start + Duration::from_millis(ms);
    registry.register(&id("a"), simple(), None, at(0)).unwrap();
    registry.register(&id("b"), simple(), None, at(0)).unwrap();
    registry.register(&id("a"), simple(), None, at(600)).unwrap();
    assert_eq!(registry.next_expiry(), Some(at(1000)));
    assert_eq!(registry.expire(at(999)), vec![]);
    assert_eq!(registry.expire(at(1000)), vec![id("b")]);
    registry.report(&id("a"), stats(&json!({})), at(1500)).unwrap();
    assert_eq!(registry.expire(at(2499)), vec![]);
    assert_eq!(registry.expire(at(2500)), vec![id("a")]);
    assert!(registry.is_empty());
    assert_eq!(registry.next_expiry(), None);
}

#[test]
fn a_registration_may_name_its_lease() {
    let (mut registry, now) = (registry(""), Instant::now());
    let body = json!({ "url": "http://127.0.0.1:1", "lease_ms": 250, "models": { "m": {} } });
    registry.register(&id("a"), request(body), None, now).unwrap();
    assert_eq!(registry.next_expiry(), Some(now + Duration::from_millis(250)));
}

#[test]
fn static_backends_have_no_lease_and_are_changed_in_the_file_only() {
    let (mut registry, now) = (registry(STATIC), Instant::now());
    assert_eq!(registry.expire(now + Duration::from_hours(24 * 365)), vec![]);
    assert!(matches!(registry.register(&id("s"), simple(), None, now), Err(RegistryError::Static { .. })));
    assert!(matches!(registry.remove(&id("s")), Err(RegistryError::Static { .. })));
    assert!(!registry.get(&id("s")).unwrap().is_available(), "its first check decides");
    assert_eq!(model(&registry, "s").input_tps(), Some(500.0));
    assert_eq!(model(&registry, "s").stats.max_engine_concurrency, Some(Requests::new(8)));
    registry.report(&id("s"), stats(&json!({ "queue_size": 3 })), now).unwrap();
    assert!(registry.get(&id("s")).unwrap().publishes_stats);
    assert_eq!(model(&registry, "s").stats.max_engine_concurrency, None, "replaced by what it reports");
    assert_eq!(model(&registry, "s").input_tps(), Some(500.0), "sticky");
}

#[test]
fn stats_replace_each_other_whole_but_for_the_sticky_ones() {
    let (mut registry, now) = (registry(""), Instant::now());
    registry.register(&id("a"), simple(), None, now).unwrap();
    assert!(!registry.get(&id("a")).unwrap().publishes_stats);
    let full =
        json!({ "last_mean_input_tps": 100.0, "max_input_tps": 200, "queue_size": 3, "output_tps": 9 });
    registry.report(&id("a"), stats(&full), now).unwrap();
    assert!(registry.get(&id("a")).unwrap().publishes_stats);
    registry.report(&id("a"), stats(&json!({ "num_running_queries": 1, "max_input_tps": 0 })), now).unwrap();
    let kept = &model(&registry, "a").stats;
    assert_eq!(kept.last_mean_input_tps, Rate::new(100.0));
    assert_eq!(kept.max_input_tps, Rate::new(200.0), "0 is not reported");
    assert_eq!((kept.queue_size, kept.output_tps), (None, None));
    assert_eq!(kept.num_running_queries, Some(Requests::new(1)));
}

#[test]
fn a_renewal_without_stats_keeps_them_and_one_without_a_model_ends_it() {
    let (mut registry, now) = (registry(""), Instant::now());
    let both = json!({ "url": "http://127.0.0.1:9001", "models": { "m": { "stats": { "queue_size": 3 } }, "n": {} } });
    registry.register(&id("a"), request(both), None, now).unwrap();
    let mut renewal = simple();
    renewal.models.get_mut("m").unwrap().status = ModelStatus::Inactive;
    registry.register(&id("a"), renewal, None, now).unwrap();
    assert_eq!(model(&registry, "a").stats.queue_size, Some(Requests::new(3)));
    assert_eq!(model(&registry, "a").status, ModelStatus::Inactive);
    assert_eq!(registry.get(&id("a")).unwrap().models.len(), 1);
}

#[test]
fn stats_of_an_unknown_model_leave_all_in_force() {
    let (mut registry, now) = (registry(""), Instant::now());
    registry.register(&id("a"), simple(), None, now).unwrap();
    let revision = registry.revision();
    let request: StatsRequest =
        serde_json::from_value(json!({ "models": { "m": { "queue_size": 7 }, "x": {} } })).unwrap();
    let error = registry.report(&id("a"), request, now).unwrap_err();
    assert_eq!(error, RegistryError::UnknownModel { model: "x".into() });
    assert_eq!(model(&registry, "a").stats.queue_size, None);
    assert_eq!(registry.revision(), revision);
    assert!(matches!(registry.report(&id("b"), stats(&json!({})), now), Err(RegistryError::NotFound { .. })));
}

#[test]
fn backends_and_models_are_limited() {
    let now = Instant::now();
    let mut registry = registry("[registration]\nmax_backends = 1\nmax_models_per_backend = 1");
    registry.register(&id("a"), simple(), None, now).unwrap();
    registry.register(&id("a"), simple(), None, now).unwrap();
    assert_eq!(
        registry.register(&id("b"), simple(), None, now),
        Err(RegistryError::TooManyBackends { max: 1 })
    );
    for models in [json!({}), json!({ "m": {}, "n": {} })] {
        let request = request(json!({ "url": "http://127.0.0.1:9001", "models": models }));
        assert!(matches!(
            registry.register(&id("a"), request, None, now),
            Err(RegistryError::ModelCount { max: 1, .. })
        ));
    }
    assert_eq!(registry.len(), 1);
}

#[test]
fn checks_move_health_and_address_and_late_ones_are_ignored() {
    let (mut registry, now) = (registry(STATIC), Instant::now());
    let uid = registry.get(&id("s")).unwrap().uid;
    assert_eq!(registry.checked(uid, &report(Ok(()))), Some(Transition::Up));
    assert!(registry.get(&id("s")).unwrap().is_available());
    let revision = registry.revision();
    assert_eq!(registry.checked(uid, &report(Ok(()))), Some(Transition::None));
    assert_eq!(registry.checked(uid, &report(Err(CheckFailure::Timeout))), Some(Transition::None));
    assert_eq!(registry.revision(), revision, "nothing that routing knows of");
    assert_eq!(registry.checked(uid, &report(Err(CheckFailure::Timeout))), Some(Transition::Down));
    assert!(registry.revision() > revision);

    let named = request(json!({ "url": "http://engine:80", "models": { "m": {} } }));
    let uid = registry.register(&id("n"), named, None, now).unwrap().uid;
    assert!(!registry.get(&id("n")).unwrap().is_available(), "no address yet");
    let mut former = None;
    for address in ["127.0.0.1:80", "127.0.0.2:80", "127.0.0.3:80"] {
        let address = address.parse().unwrap();
        let moved = CheckReport {
            address: Some(address),
            connect: Some(Duration::from_micros(9)),
            handshake: None,
            result: Ok(()),
        };
        registry.checked(uid, &moved).unwrap();
        let backend = registry.get(&id("n")).unwrap().backend().unwrap();
        assert_eq!(backend.address, address);
        let backend_uid = backend.uid;
        match former.replace(backend_uid) {
            None => assert_eq!(backend_uid, uid),
            Some(former) => {
                assert_ne!(backend_uid, former, "connections to the former address must not be used");
                assert!(former == uid || registry.by_uid(former).is_none());
            }
        }
        assert!(registry.by_uid(uid).is_some() && registry.by_uid(backend_uid).is_some());
    }
    registry.remove(&id("n")).unwrap();
    assert!(registry.by_uid(former.unwrap()).is_none());
    assert_eq!(registry.checked(uid, &report(Ok(()))), None);
}

#[test]
fn throughput_is_learned_only_where_none_is_reported() {
    let (mut registry, now) = (registry(""), Instant::now());
    let uid = registry.register(&id("a"), simple(), None, now).unwrap().uid;
    let sample = Sample { input: stargate_routing::Tokens(2048), first_byte: Duration::from_millis(1000) };
    assert_eq!(model(&registry, "a").input_tps(), None);
    for _ in 0..8 {
        registry.measured(uid, "m", sample, now);
        registry.measured(uid, "unknown", sample, now);
    }
    assert_eq!(model(&registry, "a").input_tps(), Some(2048.0));
    registry.report(&id("a"), stats(&json!({ "last_mean_input_tps": 70 })), now).unwrap();
    assert_eq!(model(&registry, "a").input_tps(), Some(70.0));
}

#[test]
fn routing_follows_the_best_source_that_has_measured_a_round_trip() {
    let (mut registry, now) = (registry(""), Instant::now());
    let uid = registry.register(&id("a"), simple(), None, now).unwrap().uid;
    let cell = registry.by_uid(uid).unwrap().backend().unwrap().rtt.clone();
    let routed = |registry: &Registry| registry.by_uid(uid).unwrap().routed_rtt();
    let millis = |ms: u64| Nanos(ms * 1_000_000);
    let probe = CheckReport { connect: Some(Duration::from_micros(9400)), ..report(Ok(())) };
    registry.checked(uid, &probe).unwrap();
    assert_eq!(cell.get(), Some((Nanos(9_400_000), RttSource::Probe)), "as it was measured");
    assert_eq!(routed(&registry), Some(millis(9)));

    let follow = |registry: &mut Registry| {
        let before = registry.revision();
        registry.follow_rtts();
        registry.revision() > before
    };
    assert!(!follow(&mut registry));
    cell.set(RttSource::Ebpf, Nanos(9_050_000));
    assert!(!follow(&mut registry), "nothing that routing would see");
    cell.set(RttSource::Ebpf, millis(25));
    assert!(follow(&mut registry));
    assert_eq!(routed(&registry), Some(millis(25)));
    cell.clear(RttSource::Ebpf);
    assert!(follow(&mut registry));
    assert_eq!(routed(&registry), Some(millis(9)), "what the next best source says");
}

#[test]
fn what_was_measured_to_a_former_address_does_not_count() {
    let (mut registry, now) = (registry(""), Instant::now());
    let named = request(json!({ "url": "http://engine:80", "models": { "m": {} } }));
    let uid = registry.register(&id("n"), named, None, now).unwrap().uid;
    for (address, us) in [("127.0.0.1:80", 500), ("127.0.0.2:80", 70_000)] {
        let (address, connect) = (address.parse().ok(), Some(Duration::from_micros(us)));
        registry.checked(uid, &CheckReport { address, connect, ..report(Ok(())) }).unwrap();
        let registration = registry.by_uid(uid).unwrap();
        assert_eq!(registration.rtt(), Some((Nanos(us * 1000), RttSource::Probe)));
        assert_eq!(registration.probed_rtt.probes(), 1);
    }
}

fn with_marks(through: u64) -> Value {
    json!({ "attempts": { "00000007": { "0": { "through": through } } } })
}

fn marks(registry: &Registry, backend: &str) -> Option<Vec<u64>> {
    let attempts = model(registry, backend).stats.attempts.as_ref()?;
    Some(attempts.of(7.into()).iter().map(|core| core.through).collect())
}

#[test]
fn attempts_are_those_of_the_last_report_alone() {
    let (mut registry, now) = (registry(""), Instant::now());
    registry.register(&id("a"), simple(), None, now).unwrap();
    assert_eq!(model(&registry, "a").stats.reporting(), Reporting::Polled);
    registry.report(&id("a"), stats(&with_marks(5)), now).unwrap();
    assert_eq!(marks(&registry, "a"), Some(vec![5]));
    assert_eq!(model(&registry, "a").stats.reporting(), Reporting::HandsOver);
    registry.report(&id("a"), stats(&json!({ "attempts": {} })), now).unwrap();
    assert_eq!(marks(&registry, "a"), Some(vec![]), "none is not the same as not said");
    let change_driven = json!({ "stats_capabilities": ["x", "change-driven"] });
    registry.report(&id("a"), stats(&change_driven), now).unwrap();
    assert_eq!(marks(&registry, "a"), None);
    assert_eq!(model(&registry, "a").stats.reporting(), Reporting::ChangeDriven);
    registry.report(&id("a"), stats(&json!({ "stats_capabilities": ["change-drivel"] })), now).unwrap();
    assert_eq!(model(&registry, "a").stats.reporting(), Reporting::Polled);
}

/// Gateways number the attempts at a new registration from 1 again: what a publisher still knows of the one
/// before would end reservations that its stats do not include.
#[test]
fn attempts_at_a_registration_before_count_for_nothing() {
    let (mut registry, now) = (registry(""), Instant::now());
    let body = json!({ "url": "http://127.0.0.1:1", "models": { "m": { "stats": with_marks(5) } } });
    registry.register(&id("a"), request(body.clone()), None, now).unwrap();
    assert_eq!(marks(&registry, "a"), Some(vec![]));
    assert!(registry.get(&id("a")).unwrap().publishes_stats, "its attempts are stamped from the first on");
    registry.register(&id("a"), request(body), None, now).unwrap();
    assert_eq!(marks(&registry, "a"), Some(vec![5]), "a renewal is a report like any other");

    let named = json!({ "url": "http://engine:80", "models": { "m": {} } });
    let uid = registry.register(&id("n"), request(named), None, now).unwrap().uid;
    let moves_to = |registry: &mut Registry, address: &str| {
        let address = Some(address.parse().unwrap());
        registry.checked(uid, &CheckReport { address, ..report(Ok(())) }).unwrap();
    };
    registry.report(&id("n"), stats(&with_marks(5)), now).unwrap();
    moves_to(&mut registry, "127.0.0.1:80");
    assert_eq!(marks(&registry, "n"), Some(vec![5]), "nobody could send anything before it had an address");
    moves_to(&mut registry, "127.0.0.2:80");
    assert_eq!(marks(&registry, "n"), Some(vec![]));
}

#[test]
fn what_changes_a_backend_in_snapshots_is_counted_apart() {
    let (mut registry, now) = (registry(""), Instant::now());
    let mut last = registry.backends_revision();
    let mut changed = |registry: &Registry| {
        std::mem::replace(&mut last, registry.backends_revision()) != registry.backends_revision()
    };
    let uid = registry.register(&id("a"), simple(), None, now).unwrap().uid;
    assert!(changed(&registry));
    registry.register(&id("a"), simple(), None, now).unwrap();
    assert!(!changed(&registry));
    registry.report(&id("a"), stats(&json!({})), now).unwrap();
    assert!(changed(&registry), "it is told its queue from now on");
    registry.report(&id("a"), stats(&json!({ "queue_size": 1 })), now).unwrap();
    for result in [Err(CheckFailure::Timeout), Err(CheckFailure::Timeout), Ok(())] {
        registry.checked(uid, &report(result)).unwrap();
    }
    assert!(!changed(&registry));
    registry.remove(&id("a")).unwrap();
    assert!(changed(&registry));
}
