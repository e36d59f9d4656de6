use std::{sync::Arc, time::Duration};

use stargate_dataplane::{
    Attempt, AttemptResult, CoreLevels, ErrorCode, Failure, Observation, Rejection, Request, Selection,
};
use stargate_routing::{
    AdmissionRefusal, AlgorithmKind, Backend, TargetName, Tokens, UnavailableReason, WaitReason, WaitedFor,
};
use tokio::time::Instant;

use super::{
    Observer,
    observer::{RETENTION, SWEEP_INTERVAL},
};
use crate::{config::Config, metrics::Gauges, names::BackendId, publish::Publisher, registry::Registry};

struct Fixture {
    registry: Registry,
    publisher: Publisher,
    observer: Observer,
    now: Instant,
}

impl Fixture {
    fn new() -> Self {
        let config: Config = toml::from_str("[metrics]\nprefix = 'p_'").unwrap();
        let observer = Observer::new(config.metrics.prefix.as_str());
        Self {
            registry: Registry::new(&config),
            publisher: Publisher::new(config.routing.policies().unwrap()),
            observer,
            now: Instant::now(),
        }
    }

    fn register(&mut self, id: &str, model: &str) -> (Arc<TargetName>, Arc<Backend>) {
        let body = serde_json::json!({ "url": "http://127.0.0.1:1", "models": { model: {} } });
        let id = BackendId::new(id).unwrap();
        self.registry.register(&id, serde_json::from_value(body).unwrap(), None, self.now).unwrap();
        self.publisher.publish(&self.registry);
        let snapshot = self.publisher.shared().load_full();
        let target = snapshot.target(None, model).unwrap();
        let backends = target.clusters.iter().flat_map(|cluster| &cluster.backends);
        let backend = backends.into_iter().find(|backend| *backend.backend_id == *id.as_str()).unwrap();
        (target.name.clone(), backend.clone())
    }

    fn request(
        &mut self,
        target: Option<&Arc<TargetName>>,
        backend: Option<&Arc<Backend>>,
        status: u16,
        rank: u32,
    ) {
        let request = Request {
            target: target.cloned(),
            backend: backend.cloned(),
            status,
            first_byte: Some(Duration::from_millis(20)),
            routing: Duration::from_micros(2),
            attempts: 1,
            selection: (rank > 0).then_some(Selection {
                algorithm: AlgorithmKind::PowerOfN,
                rank,
                is_fallback: rank > 1,
                after_kv_skip: false,
            }),
            waited: None,
            rejection: None,
        };
        self.observer.record(Observation::Request(request), self.now);
    }

    fn attempt(
        &mut self,
        target: &Arc<TargetName>,
        backend: &Arc<Backend>,
        result: AttemptResult,
        retry_of: Option<AttemptResult>,
    ) {
        let attempt = Attempt {
            backend: backend.clone(),
            target: target.clone(),
            result,
            input_tokens: Tokens(100),
            first_byte: Some(Duration::from_millis(10)),
            retry_of,
        };
        self.observer.record(Observation::Attempt(attempt), self.now);
    }

    fn render(&mut self, levels: &[CoreLevels]) -> String {
        let snapshot = self.publisher.shared().load_full();
        self.observer.render(&Gauges {
            registry: &self.registry,
            snapshot: &snapshot,
            levels,
            rtt: None,
            routing_version: 7,
            log_lines_dropped: 7,
        })
    }
}

fn assert_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line} is not in:\n{text}");
    }
}

#[test]
fn waits_rejections_and_passed_over_clusters_are_counted_by_target() {
    let mut fixture = Fixture::new();
    let (target, backend) = fixture.register("a", "m");
    let mut record = |selection, waited, rejection| {
        let request = Request {
            target: Some(target.clone()),
            backend: Some(backend.clone()),
            status: 200,
            first_byte: None,
            routing: Duration::from_millis(30),
            attempts: 1,
            selection,
            waited,
            rejection,
        };
        fixture.observer.record(Observation::Request(request), fixture.now);
    };
    let selection = Selection {
        algorithm: AlgorithmKind::PulsarWaitAndWiden,
        rank: 1,
        is_fallback: true,
        after_kv_skip: true,
    };
    let affinity = WaitedFor::Opening(WaitReason::Affinity);
    record(Some(selection), Some((affinity, Duration::from_millis(30))), None);
    record(Some(selection), Some((affinity, Duration::from_millis(3))), None);
    let no_capacity = WaitedFor::Change(UnavailableReason::NoCapacity);
    record(None, Some((no_capacity, Duration::from_secs(2))), Some(Rejection::WaitExpired));
    record(None, None, Some(Rejection::Admission(AdmissionRefusal::AffinityKeyRequired)));
    let levels = CoreLevels { cpu: 3, waiters: 5, snapshot_version: 9, ..CoreLevels::default() };
    let text = fixture.render(&[levels]);
    assert_lines(
        &text,
        &[
            r#"p_routing_wait_seconds_count{model="m",reason="affinity",routing_key=""} 2"#,
            r#"p_routing_wait_seconds_bucket{model="m",reason="affinity",routing_key="",le="0.005"} 1"#,
            r#"p_routing_wait_seconds_sum{model="m",reason="no_capacity",routing_key=""} 2"#,
            r#"p_admission_rejections_total{model="m",reason="wait_expired",routing_key=""} 1"#,
            r#"p_admission_rejections_total{model="m",reason="affinity_key_required",routing_key=""} 1"#,
            r#"p_routing_kv_free_token_fallback_selections_total{model="m",routing_key=""} 2"#,
            r#"p_routing_selections_total{algorithm="pulsar-wait-and-widen",inference_server_id="a",model="m",routing_key="",selection="fallback"} 2"#,
            r#"p_routing_waiters{core="3"} 5"#,
            r#"p_core_snapshot_version{core="3"} 9"#,
        ],
    );
    fixture.registry.remove(&BackendId::new("a").unwrap()).unwrap();
    fixture.publisher.publish(&fixture.registry);
    fixture.now += RETENTION;
    fixture.observer.sweep(fixture.now, &fixture.registry);
    let text = fixture.render(&[]);
    let left: Vec<&str> = text.lines().filter(|line| line.contains("model=\"m\"")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn requests_attempts_and_selections_are_counted_by_target_and_backend() {
    let mut fixture = Fixture::new();
    let (target, backend) = fixture.register("a", "m");
    fixture.request(Some(&target), Some(&backend), 200, 1);
    fixture.request(Some(&target), Some(&backend), 200, 2);
    fixture.request(Some(&target), None, 503, 0);
    fixture.attempt(&target, &backend, AttemptResult::Completed, None);
    fixture.attempt(&target, &backend, AttemptResult::ConnectFailed, Some(AttemptResult::Rejected));
    let text = fixture.render(&[]);
    let labels = r#"inference_server_id="a",model="m""#;
    assert_lines(
        &text,
        &[
            &format!(r#"p_requests_total{{{labels},routing_key="",status="200"}} 2"#),
            r#"p_requests_total{inference_server_id="",model="m",routing_key="",status="503"} 1"#,
            &format!(r#"p_proxy_attempts_total{{{labels},result="completed",routing_key=""}} 1"#),
            &format!(r#"p_proxy_attempts_total{{{labels},result="connect_failed",routing_key=""}} 1"#),
            &format!(r#"p_proxy_retries_total{{{labels},reason="rejected",routing_key=""}} 1"#),
            &format!(
                r#"p_routing_selections_total{{algorithm="power-of-n",{labels},routing_key="",selection="primary"}} 1"#
            ),
            &format!(
                r#"p_routing_selections_total{{algorithm="power-of-n",{labels},routing_key="",selection="fallback"}} 1"#
            ),
            r#"p_proxy_duration_seconds_count{model="m",routing_key=""} 3"#,
            r#"p_proxy_duration_seconds_bucket{model="m",routing_key="",le="0.01"} 0"#,
            r#"p_proxy_duration_seconds_bucket{model="m",routing_key="",le="0.025"} 3"#,
            r#"p_routing_duration_seconds_count{model="m",routing_key=""} 3"#,
            r#"p_active_inference_servers{model="m",routing_key=""} 1"#,
            r#"p_backends{health="healthy"} 1"#,
            "p_snapshot_version 1",
        ],
    );
    let samples = fixture.observer.take_samples();
    assert_eq!(samples.len(), 1, "only complete responses say how fast a backend is");
    assert_eq!(samples[0].0, backend.uid);
    assert!(fixture.observer.take_samples().is_empty());
}

#[test]
fn requests_without_a_target_make_one_series_however_many_there_are() {
    let mut fixture = Fixture::new();
    for _ in 0..10_000 {
        fixture.request(None, None, 404, 0);
    }
    let text = fixture.render(&[]);
    let series: Vec<&str> = text.lines().filter(|line| line.starts_with("p_requests_total{")).collect();
    assert_eq!(
        series,
        [r#"p_requests_total{inference_server_id="",model="unknown",routing_key="",status="404"} 10000"#]
    );
}

#[test]
fn series_of_what_left_are_dropped_in_time_and_no_others() {
    let mut fixture = Fixture::new();
    let (target_m, backend_a) = fixture.register("a", "m");
    let (target_n, backend_b) = fixture.register("b", "n");
    fixture.request(Some(&target_m), Some(&backend_a), 200, 1);
    fixture.attempt(&target_m, &backend_a, AttemptResult::Completed, Some(AttemptResult::Reset));
    fixture.request(Some(&target_n), Some(&backend_b), 200, 1);
    fixture.request(None, None, 404, 0);
    fixture.registry.remove(&BackendId::new("a").unwrap()).unwrap();
    fixture.publisher.publish(&fixture.registry);

    fixture.now += RETENTION.checked_sub(SWEEP_INTERVAL).unwrap();
    fixture.observer.sweep(fixture.now, &fixture.registry);
    assert!(fixture.render(&[]).contains(r#"inference_server_id="a""#), "not yet");
    fixture.now += SWEEP_INTERVAL;
    fixture.observer.sweep(fixture.now, &fixture.registry);
    let text = fixture.render(&[]);
    assert!(!text.contains(r#"inference_server_id="a""#) && !text.contains(r#"model="m""#), "{text}");
    assert_lines(
        &text,
        &[
            r#"p_requests_total{inference_server_id="b",model="n",routing_key="",status="200"} 1"#,
            r#"p_requests_total{inference_server_id="",model="unknown",routing_key="",status="404"} 1"#,
            r#"p_proxy_duration_seconds_count{model="n",routing_key=""} 1"#,
        ],
    );
}

#[test]
fn a_backend_that_comes_back_keeps_its_series() {
    let mut fixture = Fixture::new();
    let (target, backend) = fixture.register("a", "m");
    fixture.request(Some(&target), Some(&backend), 200, 1);
    fixture.registry.remove(&BackendId::new("a").unwrap()).unwrap();
    let (again, registered_again) = fixture.register("a", "m");
    fixture.now += RETENTION * 2;
    fixture.request(Some(&again), Some(&registered_again), 200, 1);
    fixture.observer.sweep(fixture.now, &fixture.registry);
    assert_lines(
        &fixture.render(&[]),
        &[r#"p_requests_total{inference_server_id="a",model="m",routing_key="",status="200"} 2"#],
    );
}

#[test]
fn levels_of_cores_become_gauges_and_their_totals_counters() {
    let mut fixture = Fixture::new();
    let level = |cpu, dropped| CoreLevels {
        cpu,
        client_active: 3,
        upstream_idle: 4,
        replay_bytes: 100,
        busy_ratio: 0.25,
        observations_dropped: dropped,
        ..CoreLevels::default()
    };
    fixture.render(&[level(0, 1), level(2, 2)]);
    let text = fixture.render(&[level(0, 1), level(2, 5)]);
    assert_lines(
        &text,
        &[
            r#"p_connections{side="client",state="active"} 6"#,
            r#"p_connections{side="upstream",state="idle"} 8"#,
            "p_proxy_replay_buffer_bytes 200",
            r#"p_core_busy_ratio{core="2"} 0.25"#,
            "p_observations_dropped_total 6",
            "p_log_lines_dropped_total 7",
        ],
    );
    assert_lines(&fixture.render(&[]), &["p_proxy_replay_buffer_bytes 200"]);
}

#[test]
fn every_failure_is_one_line_whose_level_says_whose_fault_it_is() {
    #[derive(Clone, Default)]
    struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber =
        tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || writer.clone()).finish();
    let failure = |status, code| {
        Observation::Failure(Box::new(Failure {
            request_id: "r-1".into(),
            request_line: "POST /v1/chat/completions".into(),
            model: "m\n".into(),
            status,
            code,
            message: "why".into(),
            backend_id: Some("a".into()),
            attempts: 2,
            elapsed: Duration::from_millis(1500),
            waited: Duration::from_millis(400),
        }))
    };
    let mut fixture = Fixture::new();
    tracing::subscriber::with_default(subscriber, || {
        for (status, code) in [
            (404, Some(ErrorCode::NoEligibleCandidates)),
            (499, None),
            (400, None),
            (503, Some(ErrorCode::NoCapacity)),
            (502, Some(ErrorCode::UpstreamReset)),
            (500, None),
        ] {
            fixture.observer.record(failure(status, code), fixture.now);
        }
    });
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let levels: Vec<(&str, &str)> =
        lines.iter().map(|line| (line["level"].as_str().unwrap(), line["fault"].as_str().unwrap())).collect();
    assert_eq!(
        levels,
        [
            ("INFO", "client"),
            ("INFO", "client"),
            ("INFO", "client"),
            ("WARN", "gateway"),
            ("WARN", "upstream"),
            ("WARN", "upstream"),
        ]
    );
    let line = &lines[3];
    for (field, value) in [
        ("request_id", serde_json::json!("r-1")),
        ("request", serde_json::json!("POST /v1/chat/completions")),
        ("model", serde_json::json!("m\n")),
        ("status", serde_json::json!(503)),
        ("code", serde_json::json!("no_capacity")),
        ("backend_id", serde_json::json!("a")),
        ("attempts", serde_json::json!(2)),
        ("elapsed_ms", serde_json::json!(1500)),
        ("waited_ms", serde_json::json!(400)),
        ("reason", serde_json::json!("why")),
    ] {
        assert_eq!(line[field], value, "{line}");
    }
}
