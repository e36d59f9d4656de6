//! Faults on demand: what a test asks this engine to do wrong, how often, and to which requests.
//!
//! Set by `POST /mock/fault` or `--fault`, used up by `count`, ended by `for_ms` or `DELETE /mock/fault`.
//! `/mock/…` itself is never affected; while the listener is closed, `for_ms`, an open connection or
//! `--control-listen` ends it.

use std::{cell::RefCell, rc::Rc, time::Duration};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use stargate_wire::net::notify::Notify;

/// What goes wrong.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Kind {
    /// The listening socket is closed: connections are refused, open ones go on.
    Refuse {},
    /// Accepted connections are reset at once.
    ResetOnAccept {},
    /// The request runs, but no byte of an answer comes until the client leaves.
    HangBeforeHeaders {},
    /// The response's head comes, and nothing after it until the client leaves.
    HangAfterHeaders {},
    /// The answer is cut: a stream after `after_chunks` tokens, another one in the middle of its body.
    DieMidStream {
        /// Tokens that are sent before.
        #[serde(default = "default_after_chunks")]
        after_chunks: u64,
        /// How the connection ends.
        #[serde(default)]
        how: Ending,
    },
    /// Every answer is written in small pieces.
    SlowDrip {
        /// Bytes a write.
        #[serde(default = "default_drip_bytes")]
        bytes: usize,
        /// Milliseconds between two writes.
        #[serde(default = "default_drip_interval_ms")]
        interval_ms: u64,
    },
    /// The connection is closed after a response that promised to keep it.
    CloseAfterResponse {},
    /// The request is rejected without running.
    Status {
        /// The status code.
        #[serde(default = "default_status")]
        status: u16,
        /// Headers of the answer.
        #[serde(default)]
        headers: Vec<(String, String)>,
        /// Its body; absent: an error in `OpenAI`'s shape.
        body: Option<String>,
    },
    /// Something that is not HTTP comes back.
    Garbage {},
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// An orderly close.
    #[default]
    Fin,
    /// A reset.
    Rst,
}

/// Which requests a fault meets.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// `POST /v1/…`.
    #[default]
    Inference,
    /// `GET /health` and `GET /v1/models`.
    Health,
    /// Both.
    All,
}

fn default_after_chunks() -> u64 {
    3
}

fn default_drip_bytes() -> usize {
    1
}

fn default_drip_interval_ms() -> u64 {
    5
}

fn default_status() -> u16 {
    503
}

/// One fault as it was asked for.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fault {
    #[serde(flatten)]
    pub(crate) kind: Kind,
    /// How many requests (or connections) it still meets; `None`: until it is cleared.
    pub(crate) count: Option<u64>,
    pub(crate) scope: Scope,
    /// It ends by itself after this time.
    pub(crate) for_ms: Option<u64>,
}

/// The faults in force.
#[derive(Default)]
pub(crate) struct Faults {
    active: RefCell<Vec<Rc<Slot>>>,
    /// Tells the listener that it may have to close or to open.
    pub(crate) changed: Notify,
}

struct Slot {
    fault: RefCell<Fault>,
}

// === impl Fault ===

impl Fault {
    /// Reads a fault; every field that its kind does not have is an error.
    pub(crate) fn parse(json: &[u8]) -> anyhow::Result<Self> {
        let mut fields: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(json).context("a fault is a JSON object")?;
        let mut take = |name: &str| fields.remove(name).unwrap_or_default();
        let count: Option<u64> = serde_json::from_value(take("count")).context("count")?;
        let for_ms: Option<u64> = serde_json::from_value(take("for_ms")).context("for_ms")?;
        let scope: Option<Scope> = serde_json::from_value(take("scope")).context("scope")?;
        let kind: Kind = serde_json::from_value(fields.into())?;
        let by_connection = matches!(kind, Kind::Refuse {} | Kind::ResetOnAccept {});
        anyhow::ensure!(
            !(by_connection && scope.is_some()),
            "scope: this kind meets connections, not requests"
        );
        anyhow::ensure!(
            !(kind == Kind::Refuse {} && count.is_some()),
            "count: a closed listener sees no connections to count; use for_ms"
        );
        if let Kind::Status { status, .. } = kind {
            anyhow::ensure!((200..=599).contains(&status), "status: {status} is not within 200..=599");
        }
        if let Kind::SlowDrip { bytes, .. } = kind {
            anyhow::ensure!(bytes > 0, "bytes: 0 would never finish");
        }
        Ok(Self { kind, count, scope: scope.unwrap_or_default(), for_ms })
    }
}

// === impl Faults ===

impl Faults {
    /// Puts a fault in force, behind those that are. Call it inside the runtime.
    pub(crate) fn set(self: &Rc<Self>, fault: Fault) {
        let ends_after = fault.for_ms;
        let slot = Rc::new(Slot { fault: RefCell::new(fault) });
        self.active.borrow_mut().push(slot.clone());
        self.changed.notify();
        if let Some(ms) = ends_after {
            let faults = self.clone();
            monoio::spawn(async move {
                monoio::time::sleep(Duration::from_millis(ms)).await;
                faults.active.borrow_mut().retain(|other| !Rc::ptr_eq(other, &slot));
                faults.changed.notify();
            });
        }
    }

    /// Ends all faults. Requests that already hang stay so until their clients leave.
    pub(crate) fn clear(&self) {
        self.active.borrow_mut().clear();
        self.changed.notify();
    }

    /// The faults in force.
    pub(crate) fn list(&self) -> Vec<Fault> {
        self.active.borrow().iter().map(|slot| slot.fault.borrow().clone()).collect()
    }

    /// Whether the listener is to be closed.
    pub(crate) fn refuses(&self) -> bool {
        self.active.borrow().iter().any(|slot| slot.fault.borrow().kind == Kind::Refuse {})
    }

    /// Whether this accepted connection is to be reset; uses up one count.
    pub(crate) fn take_reset(&self) -> bool {
        self.take(|fault| fault.kind == Kind::ResetOnAccept {}).is_some()
    }

    /// The fault that meets an inference request; uses up one count.
    pub(crate) fn take_inference(&self) -> Option<Kind> {
        self.take(|fault| meets_requests(&fault.kind) && fault.scope != Scope::Health)
    }

    /// The fault that meets a health or model-list request; uses up one count.
    pub(crate) fn take_health(&self) -> Option<Kind> {
        self.take(|fault| meets_requests(&fault.kind) && fault.scope != Scope::Inference)
    }

    fn take(&self, meets: impl Fn(&Fault) -> bool) -> Option<Kind> {
        let mut active = self.active.borrow_mut();
        // The common case, on the path of every request.
        if active.is_empty() {
            return None;
        }
        let index = active.iter().position(|slot| meets(&slot.fault.borrow()))?;
        let mut fault = active[index].fault.borrow_mut();
        let kind = fault.kind.clone();
        if let Some(count) = &mut fault.count {
            *count = count.saturating_sub(1);
            if *count == 0 {
                drop(fault);
                active.remove(index);
            }
        }
        Some(kind)
    }
}

fn meets_requests(kind: &Kind) -> bool {
    !matches!(kind, Kind::Refuse {} | Kind::ResetOnAccept {})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(list: &[&str]) -> Faults {
        let faults = Faults::default();
        for json in list {
            let fault = RefCell::new(Fault::parse(json.as_bytes()).unwrap());
            faults.active.borrow_mut().push(Rc::new(Slot { fault }));
        }
        faults
    }

    #[test]
    fn counts_are_used_up_and_null_is_for_ever() {
        let faults =
            faults(&[r#"{"kind":"garbage","count":2}"#, r#"{"kind":"hang_before_headers","count":null}"#]);
        assert_eq!(faults.take_inference(), Some(Kind::Garbage {}));
        assert_eq!(faults.take_inference(), Some(Kind::Garbage {}));
        for _ in 0..3 {
            assert_eq!(faults.take_inference(), Some(Kind::HangBeforeHeaders {}));
        }
        faults.clear();
        assert_eq!(faults.take_inference(), None);
    }

    #[test]
    fn scopes_are_apart() {
        let faults =
            faults(&[r#"{"kind":"status","scope":"health"}"#, r#"{"kind":"reset_on_accept","count":1}"#]);
        assert_eq!(faults.take_inference(), None);
        assert!(matches!(faults.take_health(), Some(Kind::Status { status: 503, .. })));
        assert!(faults.take_reset() && !faults.take_reset());
        assert!(!faults.refuses());
    }

    #[test]
    fn reads_options_with_their_defaults() {
        let kind = |json: &str| Fault::parse(json.as_bytes()).unwrap().kind;
        assert_eq!(
            kind(r#"{"kind":"die_mid_stream","how":"rst"}"#),
            Kind::DieMidStream { after_chunks: 3, how: Ending::Rst }
        );
        assert_eq!(kind(r#"{"kind":"slow_drip"}"#), Kind::SlowDrip { bytes: 1, interval_ms: 5 });
    }

    #[test]
    fn refuses_what_would_be_ignored() {
        for json in [
            r#"{"kind":"nonsense"}"#,
            r#"{"kind":"garbage","status":500}"#,
            r#"{"kind":"refuse","count":3}"#,
            r#"{"kind":"reset_on_accept","scope":"all"}"#,
            r#"{"kind":"slow_drip","bytes":0}"#,
            r#"{"kind":"status","status":42}"#,
            r#"{"kind":"garbage","count":-1}"#,
            "[]",
        ] {
            assert!(Fault::parse(json.as_bytes()).is_err(), "{json}");
        }
    }
}
