//! The mock engine and the load generator as processes: what tests of the gateway rely on.

mod process;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

use process::{Answer, Engine, completion, eventually, post, request, send};
use serde_json::{Value, json};

#[test]
fn tells_how_much_of_a_prompt_was_cached() {
    let engine = Engine::start(&["--prefill-tps", "0", "--decode-tps", "0", "--block-tokens", "16"]);
    let ask = |key: &str| {
        let headers = format!("x-cache-affinity-key: {key}\r\nx-input-tokens: 100\r\n");
        let answer = post(&engine, &headers, &completion("a", 2, false));
        assert_eq!(answer.header("x-mock-engine"), Some("e1"));
        let usage = answer.json()["usage"].clone();
        (usage["prompt_tokens"].as_u64(), usage["prompt_tokens_details"]["cached_tokens"].as_u64())
    };
    assert_eq!(ask("k1"), (Some(100), Some(0)));
    assert_eq!(ask("k1"), (Some(100), Some(96)));
    assert_eq!(ask("k2"), (Some(100), Some(0)));
    assert_eq!(engine.state()["cached_tokens"], 96);
}

#[test]
fn notices_a_client_that_leaves_in_every_phase() {
    // One slot; prefill of 40 000 tokens takes 4 000 s, decode of one token 1 000 s.
    let engine = Engine::start(&[
        "--prefill-tps",
        "10",
        "--decode-tps",
        "0.001",
        "--concurrency",
        "1",
        "--queue",
        "1",
    ]);
    let body = completion("a", 9, false);
    let decoding = send(&engine, "x-input-tokens: 1\r\n", &completion("a", 9, true));
    eventually(|| engine.state()["running"] == 1);
    let queued = send(&engine, "", &body);
    eventually(|| engine.state()["queued"] == 1);
    assert_eq!(post(&engine, "", &body).status, 429);

    drop(queued);
    eventually(|| engine.state()["requests_cancelled"] == 1);
    assert_eq!(engine.state()["queued"], 0);
    let prefilling = send(&engine, "x-input-tokens: 40000\r\n", &body);
    eventually(|| engine.state()["queued"] == 1);
    drop(decoding);
    eventually(|| engine.state()["queued"] == 0 && engine.state()["running"] == 1);
    drop(prefilling);
    eventually(|| engine.state()["running"] == 0);
    let whole = send(&engine, "x-input-tokens: 1\r\n", &body);
    eventually(|| engine.state()["running"] == 1);
    drop(whole);
    eventually(|| engine.state()["running"] == 0);
    let state = engine.state();
    assert_eq!((&state["requests_started"], &state["requests_cancelled"]), (&json!(4), &json!(4)), "{state}");
    assert_eq!(
        (&state["requests_rejected"], &state["kv_cache_used_tokens"]),
        (&json!(1), &json!(0)),
        "{state}"
    );
}

#[test]
fn the_same_seed_gives_the_same_texts() {
    let texts = |seed: &str| -> Vec<String> {
        let engine = Engine::start(&["--seed", seed, "--decode-tps", "0", "--prefill-tps", "0"]);
        (0..3)
            .map(|_| {
                let answer = post(&engine, "", &completion("a", 12, false)).json();
                answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
            })
            .collect()
    };
    let first = texts("5");
    assert_eq!(first, texts("5"));
    assert_ne!(first, texts("6"));
    assert_ne!(first[0], first[1]);
}

#[test]
fn takes_bodies_however_they_are_framed() {
    let engine = Engine::start(&["--decode-tps", "0", "--prefill-tps", "0"]);
    let mut client = TcpStream::connect(engine.address()).unwrap();
    let body = br#"{"prompt":"abc","max_tokens":1}"#;
    write!(
        client,
        "POST /v1/completions HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .unwrap();
    let mut reader = BufReader::new(client.try_clone().unwrap());
    assert_eq!(Answer::read(&mut reader, false).status, 100);
    client.write_all(body).unwrap();
    assert_eq!(Answer::read(&mut reader, true).status, 200);
    // Two more in one write, the first one chunked.
    let (left, right) = body.split_at(7);
    let mut both =
        b"POST /v1/completions HTTP/1.1\r\nx-request-id: r\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for part in [left, right] {
        both.extend_from_slice(format!("{:x};x\r\n", part.len()).as_bytes());
        both.extend_from_slice(part);
        both.extend_from_slice(b"\r\n");
    }
    both.extend_from_slice(b"0\r\n\r\nGET /health HTTP/1.1\r\n\r\n");
    client.write_all(&both).unwrap();
    assert_eq!(Answer::read(&mut reader, true).status, 200);
    assert_eq!(Answer::read(&mut reader, true).json()["status"], "ok");
    let state = engine.state();
    assert_eq!(state["last_request"]["body_bytes"], body.len());
    assert_eq!(state["by_request_id"], json!({"r": 1}));
    let headers = json!([["x-request-id", "r"], ["transfer-encoding", "chunked"]]);
    assert_eq!(state["last_request"]["headers"], headers);
}

#[test]
fn fails_as_it_is_told() {
    let engine = Engine::start(&["--decode-tps", "0", "--prefill-tps", "0"]);
    let stream = completion("a", 9, true);
    engine.fault(&json!({"kind": "status", "status": 503, "headers": [["retry-after", "7"]], "count": 1}));
    let refused = post(&engine, "", &stream);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("7")));
    assert_eq!(engine.state()["requests_started"], 0);

    for how in ["fin", "rst"] {
        engine.fault(&json!({"kind": "die_mid_stream", "after_chunks": 3, "how": how, "count": 1}));
        let mut received = Vec::new();
        let end = send(&engine, "", &stream).read_to_end(&mut received);
        assert_eq!(end.is_err(), how == "rst", "{how}");
        let text = String::from_utf8(received).unwrap();
        assert_eq!(text.matches("data: ").count(), 3, "{text}");
        assert!(!text.contains("[DONE]") && !text.ends_with("0\r\n\r\n"), "{text}");
    }
    engine.fault(&json!({"kind": "garbage", "count": 1}));
    let mut received = Vec::new();
    send(&engine, "", &stream).read_to_end(&mut received).unwrap();
    assert!(!received.starts_with(b"HTTP"));

    engine.fault(&json!({"kind": "hang_before_headers", "count": 1}));
    let hanging = send(&engine, "", &stream);
    eventually(|| engine.state()["running"] == 1);
    hanging.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!((&hanging).read(&mut [0]).is_err());
    drop(hanging);
    eventually(|| engine.state()["running"] == 0);
    let state = engine.state();
    assert_eq!((&state["requests_faulted"], &state["requests_cancelled"]), (&json!(3), &json!(1)), "{state}");
    assert_eq!(post(&engine, "", &stream).status, 200);
}

#[test]
fn refuses_connections_and_takes_them_again() {
    let engine = Engine::start(&["--control-listen", "127.0.0.1:0"]);
    let mut kept = TcpStream::connect(engine.address()).unwrap();
    let health = b"GET /health HTTP/1.1\r\n\r\n";
    let mut reader = BufReader::new(kept.try_clone().unwrap());
    kept.write_all(health).unwrap();
    assert_eq!(Answer::read(&mut reader, true).status, 200);
    let control = engine.control_address();
    let fault = json!({"kind": "refuse"}).to_string();
    assert_eq!(request(control, "POST", "/mock/fault", "", fault.as_bytes()).status, 200);
    eventually(|| TcpStream::connect(engine.address()).is_err());
    kept.write_all(health).unwrap();
    assert_eq!(Answer::read(&mut reader, true).status, 200);
    assert_eq!(request(control, "DELETE", "/mock/fault", "", b"").status, 200);
    eventually(|| TcpStream::connect(engine.address()).is_ok());
}

#[test]
fn closes_idle_connections() {
    let engine = Engine::start(&["--keep-alive-ms", "40"]);
    let mut idle = TcpStream::connect(engine.address()).unwrap();
    idle.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
}

/// A control plane that takes what it is sent, and answers the pushes of stats for which `forgets` says so, counted
/// from 0, as one that knows nothing. Returns its URL and what it was sent.
fn control_plane(
    forgets: impl Fn(usize) -> bool + Send + 'static,
) -> (String, mpsc::Receiver<(String, Value)>) {
    let control_plane = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", control_plane.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        let mut pushes = 0..;
        for client in control_plane.incoming() {
            let mut client = client.unwrap();
            let mut reader = BufReader::new(client.try_clone().unwrap());
            while let Some((line, body)) = read_request(&mut reader) {
                let is_forgotten = line.starts_with("POST") && pushes.next().is_some_and(&forgets);
                let status = if is_forgotten { "404 Not Found" } else { "200 OK" };
                write!(client, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").unwrap();
                if sender.send((line, body)).is_err() {
                    return;
                }
            }
        }
    });
    (url, received)
}

#[test]
fn registers_pushes_stats_and_registers_again_when_forgotten() {
    let (url, received) = control_plane(|push| push == 0);
    let mut engine =
        Engine::start(&["--id", "e9", "--register", &url, "--cluster-id", "c", "--stats-interval-ms", "20"]);
    let next = || received.recv_timeout(Duration::from_secs(5)).unwrap();
    let (line, body) = next();
    assert_eq!(line, "PUT /api/v1/backends/e9 HTTP/1.1");
    assert_eq!(body["url"], format!("http://{}", engine.address()));
    assert_eq!((&body["cluster_id"], &body["models"]["mock"]["status"]), (&json!("c"), &json!("active")));
    assert_eq!(body["models"]["mock"]["stats"]["max_engine_concurrency"], 32);
    let (line, body) = next();
    assert_eq!(line, "POST /api/v1/backends/e9/stats HTTP/1.1");
    assert_eq!(body["models"]["mock"]["last_mean_input_tps"], 20_000.0);
    assert_eq!(next().0, "PUT /api/v1/backends/e9 HTTP/1.1");
    assert_eq!(next().0, "POST /api/v1/backends/e9/stats HTTP/1.1");
    engine.terminate();
    let last = loop {
        let (line, _) = next();
        if !line.starts_with("POST") {
            break line;
        }
    };
    assert_eq!(last, "DELETE /api/v1/backends/e9 HTTP/1.1");
}

/// The stats of the next push for which `is_it` holds.
fn push_where(received: &mpsc::Receiver<(String, Value)>, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let (line, body) = received.recv_timeout(Duration::from_secs(5)).expect("such a push comes");
        let stats = &body["models"]["mock"];
        if line.starts_with("POST") && is_it(stats) {
            return stats.clone();
        }
    }
}

#[test]
fn says_which_attempts_its_stats_include() {
    let (url, received) = control_plane(|_| false);
    let engine = Engine::start(&[
        "--register",
        &url,
        "--handover",
        "--on-change",
        "--stats-interval-ms",
        "20",
        "--concurrency",
        "1",
        "--queue",
        "1",
        "--decode-tps",
        "0.001",
    ]);
    let none = push_where(&received, |_| true);
    assert_eq!((&none["attempts"], &none["stats_capabilities"]), (&json!({}), &json!(["change-driven"])));

    let stamped = |attempt: &str| {
        send(&engine, &format!("x-stargate-attempt: {attempt}\r\n"), &completion("a", 9, false))
    };
    let running = stamped("0000beef.3.2");
    let stats = push_where(&received, |stats| stats["num_running_queries"] == 1);
    assert_eq!(stats["attempts"], json!({"0000beef": {"3": {"through": 2, "except": [1]}}}), "{stats}");
    let queued = stamped("0000beef.3.1");
    let stats = push_where(&received, |stats| stats["queue_size"] == 1);
    assert_eq!(stats["attempts"], json!({"0000beef": {"3": {"through": 2, "except": []}}}), "{stats}");
    // Refused, it is in no queue, and on its way no more; so is what is no inference.
    let refused = post(&engine, "x-stargate-attempt: 0000beef.3.3\r\n", &completion("a", 9, false));
    assert_eq!(refused.status, 429);
    assert_eq!(
        request(engine.address(), "GET", "/v1/x", "x-stargate-attempt: 0000beef.4.1\r\n", b"").status,
        404
    );
    let attempts =
        json!({"0000beef": {"3": {"through": 3, "except": []}, "4": {"through": 1, "except": []}}});
    let stats = push_where(&received, |stats| stats["attempts"] == attempts);
    assert_eq!((&stats["num_running_queries"], &stats["queue_size"]), (&json!(1), &json!(1)), "{stats}");
    // Neither of the two later ones met a free slot.
    assert_eq!(engine.state()["arrived_without_free_slot"], 2);
    drop((running, queued));
    let stats = push_where(&received, |stats| stats["num_running_queries"] == 0);
    assert_eq!(stats["attempts"], attempts, "what has ended has been counted before");
}

#[test]
fn forgets_attempts_at_a_registration_that_ended() {
    let forget = Arc::new(AtomicBool::new(false));
    let forgets = forget.clone();
    let (url, received) = control_plane(move |_| forgets.swap(false, Relaxed));
    let engine = Engine::start(&["--register", &url, "--handover", "--stats-interval-ms", "20"]);
    assert_eq!(post(&engine, "x-stargate-attempt: 0000beef.0.7\r\n", &completion("a", 1, false)).status, 200);
    push_where(&received, |stats| stats["attempts"]["0000beef"]["0"]["through"] == 7);
    forget.store(true, Relaxed);
    let again = loop {
        let (line, body) = received.recv_timeout(Duration::from_secs(5)).expect("it registers again");
        if line.starts_with("PUT") {
            break body["models"]["mock"]["stats"].clone();
        }
    };
    assert_eq!(again["attempts"], json!({}), "{again}");
}

/// The request line and JSON body of one request; `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> Option<(String, Value)> {
    let mut first = String::new();
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first.trim().to_owned(), serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

#[test]
fn load_counts_every_request_and_every_failure() {
    let engine = Engine::start(&["--decode-tps", "0", "--prefill-tps", "0"]);
    engine.fault(&json!({"kind": "die_mid_stream", "count": 2}));
    let load = |arguments: &[&str]| -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_stargate-bench"))
            .args(["load", "--json", "--url", &format!("http://{}", engine.address())])
            .args(arguments)
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    };
    let pid = engine.pid().to_string();
    let report =
        load(&["--stream", "--requests", "50", "--connections", "4", "--max-tokens", "5", "--pid", &pid]);
    assert_eq!((&report["completed"], &report["failed"]), (&json!(48), &json!(2)), "{report}");
    assert_eq!(report["errors"], json!({"cut response": 2}));
    // Five tokens and the chunk that tells why it ended; three where it was cut.
    assert_eq!(report["sse_chunks"], 48 * 6 + 2 * 3);
    assert_eq!(report["processes"][0]["pid"].to_string(), pid);
    let report = load(&["--mode", "open", "--rate", "500", "--requests", "100", "--connections", "8"]);
    let sent = report["open"]["dispatched"].as_u64().unwrap();
    assert!(sent > 50, "{report}");
    assert_eq!(report["completed"], sent);
    // All are open together: the last of them opens long before the first one's second token.
    let report = load(&["--streams", "20", "--max-tokens", "2", "--chunks-per-s", "1", "--settle-ms", "0"]);
    assert_eq!((&report["completed"], &report["failed"]), (&json!(20), &json!(0)), "{report}");
    assert_eq!(report["sse_chunks"], 20 * 3);
}
