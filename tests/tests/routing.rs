//! Who serves a request: spread, live stats, affinity, scopes, clusters (docs/routing.md).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};
use stargate_tests::{Engine, Gateway, GatewayBuilder, RawEngine, Request, Signal, Then, eventually};

/// Lease of a backend that a test registers: longer than any test.
const LEASE_MS: u64 = 600_000;

/// Who serves one more request.
fn served_by(gateway: &Gateway, request: &Request) -> String {
    gateway.client().send(request).expect_ok().served_by().to_owned()
}

/// Waits until a number of requests in a row are all served by `backend`.
#[track_caller]
fn expect_all_served_by(gateway: &Gateway, backend: &str) {
    eventually(&format!("all goes to {backend}"), || {
        (0..10).all(|_| served_by(gateway, &Request::chat("mock")) == backend)
    });
    for _ in 0..20 {
        assert_eq!(served_by(gateway, &Request::chat("mock")), backend);
    }
}

#[test]
fn a_burst_spreads_over_idle_backends() {
    for cores in [1, 2] {
        // Silent until the gateway closes: each backend keeps what it gets.
        let engines: Vec<_> = (0..8)
            .map(|_| {
                RawEngine::start(|exchange| {
                    exchange.closed_by_gateway();
                    Then::Close
                })
            })
            .collect();
        let mut builder = Gateway::builder()
            .cores(cores)
            .set("routing.default.algorithm", "\"power-of-n\"")
            .set("routing.default.sample_count", 8)
            .set("routing.default.comparator", "\"num-requests-queued\"");
        for (number, engine) in engines.iter().enumerate() {
            builder = builder.backend(&format!("e{number}"), &engine.url());
        }
        let gateway = builder.start();
        let mut clients: Vec<_> = engines.iter().map(|_| gateway.client().connect()).collect();
        for client in &mut clients {
            client.send(Request::chat("mock").to_bytes());
        }
        let total = || engines.iter().map(RawEngine::request_count).sum::<usize>();
        eventually("all are with an engine", || total() == engines.len());
        let counts: Vec<usize> = engines.iter().map(RawEngine::request_count).collect();
        assert_eq!(counts, [1; 8], "on {cores} cores");
        drop(clients);
        gateway.wait_until_idle();
    }
}

#[test]
fn live_stats_steer_requests() {
    let (a, b) = (RawEngine::plain(), RawEngine::plain());
    let gateway = Gateway::builder().start();
    gateway.register("a", &a.url());
    gateway.register("b", &b.url());
    let free = json!({
        "last_mean_input_tps": 1000.0, "max_engine_concurrency": 8, "num_running_queries": 0, "queued_input_size": 0
    });
    let busy = json!({
        "last_mean_input_tps": 1000.0, "max_engine_concurrency": 8, "num_running_queries": 50,
        "queued_input_size": 500_000, "queue_size": 42
    });
    for (stats_of_a, stats_of_b, expected) in [(&free, &busy, "a"), (&busy, &free, "b"), (&free, &busy, "a")]
    {
        assert_eq!(gateway.post_stats("a", stats_of_a).status, 204);
        assert_eq!(gateway.post_stats("b", stats_of_b).status, 204);
        expect_all_served_by(&gateway, expected);
    }
}

/// The whole way: an engine that is busy says so itself, and the gateway goes elsewhere.
#[test]
fn engines_that_push_their_stats_are_routed_by_them() {
    let gateway = Gateway::builder().start();
    let engine = |id| {
        Engine::builder(id)
            .flag("concurrency", 2)
            .flag("prefill-tps", 50_000)
            .flag("stats-interval-ms", 50)
            .register_with(&gateway)
            .start()
    };
    let (busy, free) = (engine("busy"), engine("free"));
    gateway.wait_until_routable("busy");
    gateway.wait_until_routable("free");
    // Work that the gateway has not sent, and so can know of only by the engine's report.
    busy.fault(&json!({ "kind": "hang_before_headers" }));
    let mut strangers: Vec<_> = (0..8).map(|_| busy.client().connect()).collect();
    let long = json!({ "model": "mock", "messages": [{ "role": "user", "content": "x ".repeat(100_000) }] });
    for stranger in &mut strangers {
        stranger.send(Request::post("/v1/chat/completions", &long).to_bytes());
    }
    // Requests that the gateway sends to the busy one would hang: seen by its report, none is.
    eventually("the busy one's report arrives", || {
        let stats = stats_of(&gateway.snapshot(), "busy");
        stats["num_running_queries"].as_f64().is_some_and(|running| running >= 2.0)
    });
    for _ in 0..10 {
        assert_eq!(served_by(&gateway, &Request::chat("mock")), "free");
    }
    drop(strangers);
    drop(free);
}

#[test]
fn throughput_that_nobody_reports_is_learned_from_the_traffic() {
    // Of 10 000 tokens a second, which is what is assumed, this engine takes a fifth.
    let engine = Engine::builder("e1").flag("prefill-tps", 2000).start();
    let gateway = Gateway::before(&engine.url());
    let known = || stats_of(&gateway.snapshot(), "e1")["last_mean_input_tps"].as_f64();
    let assumed = known().expect("an assumption");
    for number in 0..6 {
        // Each another prompt, so that none is found in the engine's cache.
        let prompt = format!("{number} ").repeat(400);
        let long = json!({ "model": "mock", "messages": [{ "role": "user", "content": prompt }] });
        let _ = gateway.client().send(&Request::post("/v1/chat/completions", &long)).expect_ok();
    }
    eventually("it is learned", || known().is_some_and(|learned| learned < assumed / 2.0));
}

/// The stats of a cluster in the snapshot.
fn stats_of(snapshot: &Value, cluster: &str) -> Value {
    snapshot["targets"]
        .as_array()
        .expect("targets")
        .iter()
        .flat_map(|target| target["clusters"].as_array().expect("clusters"))
        .find(|entry| entry["cluster_id"] == cluster)
        .unwrap_or_else(|| panic!("no cluster {cluster} in {snapshot}"))["reported"]
        .clone()
}

#[test]
fn reports_and_health_checks_do_not_reset_what_is_in_flight() {
    let engine = RawEngine::start(|exchange| {
        exchange.closed_by_gateway();
        Then::Close
    });
    let gateway = Gateway::builder().set("health.interval_ms", 20).start();
    gateway.register("e1", &engine.url());
    let mut client = gateway.client().connect();
    client.send(Request::chat("mock").header("x-input-tokens", 1000).to_bytes());
    engine.wait_for_requests(1);
    let in_flight = gateway.in_flight();
    assert_eq!(in_flight, 1 + 1 + 1000, "running, queued and its tokens");
    let version = |gateway: &Gateway| gateway.snapshot()["version"].as_u64().expect("a version");
    for _ in 0..3 {
        let before = version(&gateway);
        let stats = json!({ "last_mean_input_tps": 1000.0 + before as f64, "num_running_queries": 0 });
        assert_eq!(gateway.post_stats("e1", &stats).status, 204);
        eventually("a new snapshot", || version(&gateway) > before);
        assert_eq!(gateway.in_flight(), in_flight);
    }
    drop(client);
    gateway.wait_until_idle();
}

#[test]
fn round_robin_takes_turns() {
    let engines: Vec<_> = (0..3).map(|_| RawEngine::plain()).collect();
    let mut builder = Gateway::builder().cores(1).set("routing.default.algorithm", "\"round-robin\"");
    for (number, engine) in engines.iter().enumerate() {
        builder = builder.backend(&format!("e{number}"), &engine.url());
    }
    let gateway = builder.start();
    let turns: Vec<String> = (0..9).map(|_| served_by(&gateway, &Request::chat("mock"))).collect();
    let round: BTreeSet<&String> = turns[..3].iter().collect();
    assert_eq!(round.len(), 3, "{turns:?}");
    assert_eq!(turns[..3], turns[3..6], "{turns:?}");
    assert_eq!(turns[..3], turns[6..], "{turns:?}");
}

#[test]
fn random_reaches_everyone() {
    let engines: Vec<_> = (0..3).map(|_| RawEngine::plain()).collect();
    let mut builder = Gateway::builder().set("routing.default.algorithm", "\"random\"");
    for (number, engine) in engines.iter().enumerate() {
        builder = builder.backend(&format!("e{number}"), &engine.url());
    }
    let gateway = builder.start();
    // The chance that 100 choices among 3 leave one out is below 1e-17.
    let served: BTreeSet<String> = (0..100).map(|_| served_by(&gateway, &Request::chat("mock"))).collect();
    assert_eq!(served.len(), 3, "{served:?}");
}

/// A gateway that routes by Pulsar over backends of equal, known throughput.
fn pulsar_gateway(engines: &[(&str, &RawEngine)]) -> Gateway {
    let gateway = pulsar_builder().start();
    for (id, engine) in engines {
        gateway.register_with(
            id,
            &json!({
                "url": engine.url(), "lease_ms": LEASE_MS,
                "models": { "mock": { "stats": { "last_mean_input_tps": 1000.0, "max_input_tps": 1000.0 } } }
            }),
        );
    }
    gateway
}

fn pulsar_builder() -> GatewayBuilder {
    Gateway::builder().set("routing.default.algorithm", "\"pulsar\"")
}

fn placement(gateway: &Gateway, keys: usize) -> BTreeMap<usize, String> {
    (0..keys)
        .map(|key| {
            (
                key,
                served_by(
                    gateway,
                    &Request::chat("mock").header("x-cache-affinity-key", format!("key-{key}")),
                ),
            )
        })
        .collect()
}

#[test]
fn an_affinity_key_stays_where_it_is_and_keys_spread() {
    let (a, b, c) = (RawEngine::plain(), RawEngine::plain(), RawEngine::plain());
    let gateway = pulsar_gateway(&[("a", &a), ("b", &b), ("c", &c)]);
    let first = placement(&gateway, 90);
    assert_eq!(placement(&gateway, 90), first);
    let mut shares: HashMap<&str, usize> = HashMap::new();
    for backend in first.values() {
        *shares.entry(backend).or_default() += 1;
    }
    // A fair share is 30; a hash of 90 keys that leaves one with less than 10 is broken.
    assert!(shares.len() == 3 && shares.values().all(|share| *share >= 10), "{shares:?}");

    assert!((200..300).contains(&gateway.delete_backend("c").status));
    gateway.wait_until_not_routable("c");
    let after = placement(&gateway, 90);
    for (key, backend) in &first {
        if backend == "c" {
            assert_ne!(after[key], "c");
        } else {
            assert_eq!(&after[key], backend, "key {key} moved for no reason");
        }
    }
}

#[test]
fn another_gateway_places_keys_alike() {
    let (a, b, c) = (RawEngine::plain(), RawEngine::plain(), RawEngine::plain());
    let engines = [("a", &a), ("b", &b), ("c", &c)];
    let one = pulsar_gateway(&engines);
    let other = pulsar_gateway(&[engines[2], engines[0], engines[1]]);
    assert_eq!(placement(&one, 60), placement(&other, 60));
}

#[test]
fn leading_messages_stand_in_for_a_key_where_that_is_chosen() {
    let (a, b, c) = (RawEngine::plain(), RawEngine::plain(), RawEngine::plain());
    let engines = [("a", &a), ("b", &b), ("c", &c)];
    let mut builder = Gateway::builder();
    for (id, engine) in engines {
        builder = builder.toml(&format!(
            "[[backends]]\nid = {id:?}\nurl = {:?}\nmodels = [\"mock\"]\nlast_mean_input_tps = 1000.0\nmax_input_tps = 1000.0",
            engine.url()
        ));
    }
    let gateway = builder
        .toml("[routing.models.mock]\nalgorithm = \"pulsar\"\naffinity_from_leading_messages = 2")
        .start_without_waiting();
    for (id, _) in engines {
        gateway.wait_until_routable(id);
    }
    let conversation = |system: &str, turns: usize| {
        let mut messages = vec![json!({ "role": "system", "content": system })];
        for turn in 0..turns {
            let content = if turn == 0 { format!("I am {system}") } else { format!("turn {turn}") };
            messages.push(json!({ "role": "user", "content": content }));
        }
        Request::post("/v1/chat/completions", &json!({ "model": "mock", "messages": messages }))
    };
    let mut used = BTreeSet::new();
    for user in 0..20 {
        let system = format!("user-{user}");
        let first = served_by(&gateway, &conversation(&system, 1));
        for turns in 2..5 {
            assert_eq!(served_by(&gateway, &conversation(&system, turns)), first, "{system} moved");
        }
        used.insert(first);
    }
    assert_eq!(used.len(), 3, "{used:?}");
}

#[test]
fn a_scope_is_served_by_its_own_backends_only() {
    let (open, team) = (RawEngine::plain(), RawEngine::plain());
    let gateway = Gateway::builder().start();
    gateway.register("open", &open.url());
    gateway.register_with(
        "team",
        &json!({ "url": team.url(), "routing_key": "team-a", "lease_ms": LEASE_MS, "models": { "mock": {} } }),
    );
    for _ in 0..6 {
        assert_eq!(served_by(&gateway, &Request::chat("mock")), "open");
        assert_eq!(served_by(&gateway, &Request::chat("mock").header("x-routing-key", "team-a")), "team");
    }
    let stranger = Request::chat("mock").header("x-routing-key", "team-b");
    gateway.client().send(&stranger).expect_error(404, "no_eligible_candidates");
}

#[test]
fn models_are_told_apart_exactly() {
    let (a, b) = (RawEngine::plain(), RawEngine::plain());
    let gateway = Gateway::builder()
        .backend_for("a", &a.url(), &["llama-3", "shared/model:v1"])
        .backend_for("b", &b.url(), &["llama-3-instruct", "shared/model:v1"])
        .start();
    for _ in 0..4 {
        assert_eq!(served_by(&gateway, &Request::chat("llama-3")), "a");
        assert_eq!(served_by(&gateway, &Request::chat("llama-3-instruct")), "b");
    }
    let both: BTreeSet<String> =
        (0..40).map(|_| served_by(&gateway, &Request::chat("shared/model:v1"))).collect();
    assert_eq!(both.len(), 2);
    for unknown in ["Llama-3", "llama-3 ", "llama", "shared/model"] {
        gateway.client().send(&Request::chat(unknown)).expect_error(404, "no_eligible_candidates");
    }
}

#[test]
fn backends_of_a_cluster_take_turns_under_its_name() {
    let (a, b) = (RawEngine::plain(), RawEngine::plain());
    let gateway = Gateway::builder().cores(1).start();
    for (id, engine) in [("a", &a), ("b", &b)] {
        gateway.register_with(
            id,
            &json!({ "url": engine.url(), "cluster_id": "rack-1", "lease_ms": LEASE_MS, "models": { "mock": {} } }),
        );
    }
    let mut turns = Vec::new();
    for _ in 0..6 {
        let response = gateway.client().send(&Request::chat("mock")).expect_ok();
        assert_eq!(response.header("x-stargate-cluster-id"), Some("rack-1"));
        turns.push(response.served_by().to_owned());
    }
    assert_ne!(turns[0], turns[1], "{turns:?}");
    assert_eq!(turns[..2], turns[2..4], "{turns:?}");
    assert_eq!(turns[..2], turns[4..], "{turns:?}");
}

/// An engine that hangs leaves rotation, the others go on, and it comes back.
#[test]
fn a_frozen_engine_leaves_rotation_and_comes_back() {
    let (frozen, well) = (Engine::start("frozen"), Engine::start("well"));
    let gateway = Gateway::builder()
        .set("health.timeout_ms", 200)
        .set("routing.default.algorithm", "\"round-robin\"")
        .backend("frozen", &frozen.url())
        .backend("well", &well.url())
        .start();
    frozen.signal(Signal::Stop);
    gateway.wait_until_not_routable("frozen");
    for _ in 0..6 {
        assert_eq!(served_by(&gateway, &Request::chat("mock")), "well");
    }
    frozen.signal(Signal::Continue);
    gateway.wait_until_routable("frozen");
    eventually("it serves again", || served_by(&gateway, &Request::chat("mock")) == "frozen");
}

/// Keys of a request by this routing expression, and who serves them.
fn placement_by(gateway: &Gateway, expression: &str, keys: usize) -> Vec<String> {
    let request = |key| {
        Request::chat("mock")
            .header("x-routing-method", expression)
            .header("x-cache-affinity-key", format!("key-{key}"))
    };
    (0..keys).map(|key| served_by(gateway, &request(key))).collect()
}

#[test]
fn a_request_selects_and_tunes_its_method() {
    let (a, b, c) = (RawEngine::plain(), RawEngine::plain(), RawEngine::plain());
    let gateway = Gateway::builder().cores(1).set("routing.default", "\"random\"").start();
    for (id, engine) in [("a", &a), ("b", &b), ("c", &c)] {
        gateway.register_with(
            id,
            &json!({
                "url": engine.url(), "lease_ms": LEASE_MS,
                "models": { "mock": { "stats": { "last_mean_input_tps": 1000.0, "max_input_tps": 1000.0 } } }
            }),
        );
    }
    let turns = placement_by(&gateway, "ROUND_robin", 6);
    assert_eq!(turns[..3].iter().collect::<BTreeSet<_>>().len(), 3, "{turns:?}");
    assert_eq!(turns[..3], turns[3..], "{turns:?}");
    let placed = placement_by(&gateway, "pulsar", 40);
    assert_eq!(placement_by(&gateway, "pulsar;consider_kv_free_tokens=false", 40), placed);
    assert_ne!(placement_by(&gateway, "pulsar;seed=other", 40), placed);
    for engine in [a, b, c] {
        for request in engine.requests() {
            assert!(!request.head.headers.has("x-routing-method"), "{:#?}", request.head.headers);
        }
    }
    let cached = [("result", "cached")];
    assert!(gateway.metric("stargate_routing_expressions_total", &cached) >= 40.0);
}

#[test]
fn a_method_that_cannot_be_selected_is_400_with_its_reason() {
    let engine = RawEngine::plain();
    let gateway = Gateway::builder()
        .toml("[routing.request_algorithms]\nrandom = \"random\"")
        .backend("e1", &engine.url())
        .start();
    let send = |expression: &str| {
        gateway.client().send(&Request::chat("mock").header("x-routing-method", expression))
    };
    for (expression, words) in [
        ("", "blank"),
        ("best", "no routing algorithm"),
        ("pulsar", "may not be selected"),
        ("random;n=3", "parameter n"),
        ("power-of-n;sample_count=65", "from 1 to 64"),
        ("power-of-n;sample_count", "no value"),
        ("power-of-n,random", "index"),
    ] {
        let response = send(expression);
        response.expect_error(400, "invalid_routing_method");
        let message = response.json()["error"]["message"].as_str().expect("a message").to_owned();
        assert!(message.contains(words), "{expression}: {message}");
    }
    assert_eq!(engine.request_count(), 0);
    let _ = send("random").expect_ok();
    let _ = send("power-of-n;sample_count=3").expect_ok();

    let strangers = Gateway::builder().set("headers.trusted", false).backend("e1", &engine.url()).start();
    let request = Request::chat("mock").header("x-routing-method", "best");
    let _ = strangers.client().send(&request).expect_ok();
}

#[test]
fn a_routing_document_is_replaced_while_requests_are_served() {
    let engines: Vec<_> = (0..3).map(|_| RawEngine::plain()).collect();
    let mut builder = Gateway::builder().cores(1).set("routing.default", "\"round-robin\"");
    for (number, engine) in engines.iter().enumerate() {
        builder = builder.backend(&format!("e{number}"), &engine.url());
    }
    let gateway = builder.start();
    let served = |count: usize| -> BTreeSet<String> {
        let request = Request::chat("mock").header("x-cache-affinity-key", "session-1");
        (0..count).map(|_| served_by(&gateway, &request)).collect()
    };
    assert_eq!(served(3).len(), 3);
    let put = |document: &Value| {
        let request = Request::new("PUT", "/api/v1/config/routing").body(document.to_string());
        gateway.admin().send(&request)
    };
    let pulsar = json!({ "default": { "algorithm": "pulsar", "rendezvous_weight": "last-mean-input-tps" } });
    let applied = put(&pulsar).expect_ok().json();
    assert_eq!((&applied["version"], &applied["changed_models"]), (&json!(2), &json!(["mock"])));
    // From the next request on, on every core.
    assert_eq!(served(6).len(), 1);
    assert_eq!(put(&json!({ "default": "best" })).status, 422);
    assert_eq!(served(6).len(), 1);
    let rollback = Request::new("POST", "/api/v1/config/routing/rollback");
    let _ = gateway.admin().send(&rollback).expect_ok();
    assert_eq!(served(3).len(), 3);
    gateway.wait_until_idle();
}

/// Every example of the documentation that is a whole routing document, and what ships commented.
fn documented() -> Vec<(String, String)> {
    let page = |name: &str| {
        std::fs::read_to_string(stargate_tests::workspace_dir().join(name))
            .expect("a page of the documentation")
    };
    let blocks = |name: &str, language: &str| -> Vec<String> {
        let start = format!("```{language}\n");
        let text = page(name);
        let blocks =
            text.split(start.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
        blocks.map(str::to_owned).collect()
    };
    let mut documents = Vec::new();
    for name in ["README.md", "docs/api.md", "docs/operating.md", "docs/routing.md"] {
        documents.extend(blocks(name, "json").into_iter().map(|text| ("routing.json".to_owned(), text)));
        let toml = blocks(name, "toml").into_iter().filter(|text| text.contains("[routing"));
        documents.extend(toml.map(|text| (String::new(), text)));
    }
    let shipped = page("docs/stargate.toml");
    let examples = shipped.split("# One model's own routing").nth(1).expect("the examples of [routing]");
    let examples = examples.split("# A static backend").next().unwrap_or_default();
    let lines: Vec<&str> = examples.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
    documents.push((String::new(), lines.join("\n")));
    documents
}

#[test]
fn every_documented_routing_document_serves() {
    let documents = documented();
    assert!(documents.len() >= 4, "{documents:?}");
    for (file, text) in documents {
        let engine = RawEngine::plain();
        let builder = if file.is_empty() {
            Gateway::builder().toml(&text)
        } else {
            let path = stargate_tests::scratch_file(&file, &text);
            Gateway::builder().argument("--routing").argument(path.to_str().expect("a path"))
        };
        let gateway = builder.start();
        let document = gateway.admin().get("/api/v1/config/routing").expect_ok().json();
        let named = document["models"].as_object().expect("models").keys().cloned();
        for model in named.chain(["mock".to_owned()]) {
            let stats = json!({ "last_mean_input_tps": 1000.0, "max_input_tps": 1000.0, "max_engine_concurrency": 8 });
            let id = format!("e-{}", model.replace('/', "-"));
            let body = json!({
                "url": engine.url(), "lease_ms": LEASE_MS, "models": { model.as_str(): { "stats": stats } }
            });
            gateway.register_with(&id, &body);
            let request =
                Request::chat(&model).header("x-cache-affinity-key", "s-1").header("x-input-tokens", 10);
            let _ = gateway.client().send(&request).expect_ok();
        }
    }
}
