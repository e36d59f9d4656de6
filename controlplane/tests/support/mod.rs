//! What the tests of this crate share: a control plane without a process, and a backend of a few lines.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use serde_json::Value;
use stargate_controlplane::{ControlPlane, api, config::Config};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tower::ServiceExt;

/// Checks once, at the start, and never believes the result: for tests of everything but health.
pub(crate) const NO_HEALTH: &str = "[health]\ninterval_ms = 86400000\nunhealthy_after = 1000\n";

/// The admin API of a control plane.
pub(crate) struct Api {
    pub(crate) plane: ControlPlane,
    router: Router,
}

impl Api {
    /// Starts a control plane on the test's runtime.
    pub(crate) fn start(toml: &str) -> Self {
        let config: Config = toml::from_str(toml).unwrap();
        config.validate().unwrap();
        let plane = ControlPlane::new(config).unwrap();
        plane.spawn();
        Self { router: api::router(plane.clone()), plane }
    }

    pub(crate) async fn raw(&self, method: &str, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
        let request = Request::builder().method(method).uri(path).body(body.into()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let (status, text) = self.raw(method, path, body).await;
        let value = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
        (status.as_u16(), value)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, &Value::Null).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> (u16, Value) {
        self.call("PUT", path, &body).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call("POST", path, &body).await
    }
}

/// How a backend answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// Accepts and never answers.
    Never,
    Garbage,
}

/// A backend that answers every request alike.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<AtomicUsize>,
    answer: tokio::sync::watch::Sender<Answer>,
}

impl Backend {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let (sender, answers) = tokio::sync::watch::channel(answer);
        let counted = requests.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (counted, mut answers) = (counted.clone(), answers.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        head.push(byte);
                    }
                    counted.fetch_add(1, SeqCst);
                    let answer = *answers.wait_for(|answer| *answer != Answer::Never).await.unwrap();
                    let text = match answer {
                        Answer::Status(status) => {
                            format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
                        }
                        _ => "what is this?\r\n\r\n".to_owned(),
                    };
                    let _ = stream.write_all(text.as_bytes()).await;
                });
            }
        });
        Self { address, requests, answer: sender }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn answer(&self, answer: Answer) {
        self.answer.send_replace(answer);
    }

    pub(crate) fn count(&self) -> usize {
        self.requests.load(SeqCst)
    }
}

/// Waits for `condition`, which must come true long before the deadline.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
