//! The mock engine's process: an orderly server of the `OpenAI` API whose faults can be switched on.

use std::{collections::BTreeMap, fmt, net::SocketAddr, process::Command};

use serde_json::Value;

use crate::{
    binaries::Binary,
    client::Client,
    gateway::Gateway,
    poll::eventually,
    process::{Process, Signal},
    request::Request,
};

/// What a mock engine is started with.
#[derive(Clone, Debug)]
pub struct EngineBuilder {
    id: String,
    flags: BTreeMap<String, Option<String>>,
}

/// A running mock engine.
#[derive(Debug)]
pub struct Engine {
    process: Process,
    address: SocketAddr,
}

// === impl EngineBuilder ===

impl EngineBuilder {
    /// Sets a flag, given without its dashes; the last value counts.
    #[must_use]
    pub fn flag(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.flags.insert(format!("--{name}"), Some(value.to_string()));
        self
    }

    /// Makes it push its stats at every change, and say so.
    #[must_use]
    pub fn on_change(self) -> Self {
        self.switch("on-change")
    }

    /// Makes its stats say which attempts they include.
    #[must_use]
    pub fn handover(self) -> Self {
        self.switch("handover")
    }

    fn switch(mut self, name: &str) -> Self {
        self.flags.insert(format!("--{name}"), None);
        self
    }

    /// Makes it register itself with a gateway and push its stats there.
    #[must_use]
    pub fn register_with(self, gateway: &Gateway) -> Self {
        self.flag("register", format!("http://{}", gateway.admin().address()))
    }

    /// Starts it.
    #[track_caller]
    pub fn start(&self) -> Engine {
        let mut command = Command::new(Binary::Bench.path());
        command.args(["mock-engine", "--listen", "127.0.0.1:0", "--id", &self.id]);
        command.args(self.flags.iter().flat_map(|(name, value)| [Some(name), value.as_ref()]).flatten());
        let process = Process::start(&format!("engine-{}", self.id), command);
        let address = process.ready_value("listen").parse().expect("an address in the ready line");
        Engine { process, address }
    }
}

// === impl Engine ===

impl Engine {
    /// An engine that serves the model `mock` as fast as it can.
    pub fn builder(id: &str) -> EngineBuilder {
        EngineBuilder { id: id.to_owned(), flags: BTreeMap::new() }
            .flag("prefill-tps", 10_000_000)
            .flag("decode-tps", 0)
    }

    /// Starts such an engine.
    #[track_caller]
    pub fn start(id: &str) -> Self {
        Self::builder(id).start()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client that talks to it directly.
    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its view of itself.
    #[track_caller]
    pub fn state(&self) -> Value {
        self.client().get("/mock/state").expect_ok().json()
    }

    /// A counter of its state.
    #[track_caller]
    pub fn counter(&self, name: &str) -> u64 {
        let state = self.state();
        state[name].as_u64().unwrap_or_else(|| panic!("no counter {name} in {state}"))
    }

    /// Waits until a counter of its state has this value.
    #[track_caller]
    pub fn wait_for_counter(&self, name: &str, value: u64) {
        eventually(&format!("the engine's {name} reaches {value}"), || self.counter(name) == value);
    }

    /// The headers of the last request that it saw, in order.
    #[track_caller]
    pub fn last_headers(&self) -> Vec<(String, String)> {
        let state = self.state();
        let headers =
            state["last_request"]["headers"].as_array().expect("headers of the last request").clone();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        headers.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
    }

    /// Switches a fault on.
    #[track_caller]
    pub fn fault(&self, fault: &Value) {
        let response = self.client().post("/mock/fault", fault);
        assert!((200..300).contains(&response.status), "{response:?}");
    }

    /// Switches all faults off.
    #[track_caller]
    pub fn clear_faults(&self) {
        let response = self.client().send(&Request::new("DELETE", "/mock/fault"));
        assert!((200..300).contains(&response.status), "{response:?}");
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}
