//! The request as an engine gets it: the client's own head, less what is for this hop or for Stargate, plus
//! what Stargate tells engines. The body is not touched.

use std::time::Duration;

use stargate_routing::{Backend, Tokens};

use crate::{
    gateway_id::AttemptStamp,
    http::{BodyFraming, Method, RequestHead, push_header},
    request_id::RequestId,
};

/// Longest affinity key that is passed on as it is; engines and their logs see a hash of longer ones.
const MAX_AFFINITY_HEADER_BYTES: usize = 256;

/// What is sent on besides the client's head.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    pub(crate) id: &'a RequestId,
    pub(crate) model: &'a str,
    pub(crate) input_tokens: Tokens,
    pub(crate) affinity_key: Option<&'a [u8]>,
    pub(crate) priority: Option<u32>,
    pub(crate) expected_queue: Option<Duration>,
    /// For backends that publish stats.
    pub(crate) stamp: Option<AttemptStamp>,
    pub(crate) body_length: usize,
}

/// Appends the head for `backend` to `out`.
pub(crate) fn write_head(
    out: &mut Vec<u8>,
    head: &RequestHead,
    inbound: &[u8],
    backend: &Backend,
    told: &Told<'_>,
) {
    out.extend_from_slice(head.method_text.of_bytes(inbound));
    out.push(b' ');
    out.extend_from_slice(backend.base_path.as_bytes());
    out.extend_from_slice(head.target.of_bytes(inbound));
    out.extend_from_slice(b" HTTP/1.1\r\n");
    push_header(out, "host", backend.authority.as_bytes());
    for line in &head.forward {
        out.extend_from_slice(line.of_bytes(inbound));
        out.extend_from_slice(b"\r\n");
    }
    push_header(out, "x-request-id", told.id.as_str().as_bytes());
    // From a body these may be anything; a line break in one would be another header.
    if is_header_value(told.model.as_bytes()) {
        push_header(out, "x-model", told.model.as_bytes());
    }
    number(out, "x-input-tokens", told.input_tokens.0);
    if let Some(key) = told.affinity_key {
        if is_header_value(key) && key.len() <= MAX_AFFINITY_HEADER_BYTES {
            push_header(out, "x-cache-affinity-key", key);
        } else {
            let hash = format!("h{:016x}", xxhash_rust::xxh3::xxh3_64(key));
            push_header(out, "x-cache-affinity-key", hash.as_bytes());
        }
    }
    if let Some(priority) = told.priority {
        number(out, "x-priority", u64::from(priority));
    }
    if let Some(stamp) = told.stamp {
        push_header(out, "x-stargate-attempt", stamp.to_string().as_bytes());
    }
    if let Some(delay) = told.expected_queue.filter(|_| backend.publishes_stats) {
        number(out, "x-stargate-expected-queue-ms", delay.as_millis() as u64);
    }
    // A GET without a body must not announce one; anything else says 0 (RFC 9110 section 8.6).
    if head.body != BodyFraming::None || !matches!(head.method, Method::Get | Method::Head) {
        number(out, "content-length", told.body_length as u64);
    }
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, name: &str, value: u64) {
    push_header(out, name, itoa::Buffer::new().format(value).as_bytes());
}

/// Printable ASCII without a space at either end.
fn is_header_value(value: &[u8]) -> bool {
    !value.is_empty()
        && value.iter().all(|byte| matches!(byte, 0x20..=0x7e))
        && value.first() != Some(&b' ')
        && value.last() != Some(&b' ')
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stargate_routing::BackendUid;

    use super::*;
    use crate::gateway_id::GatewayId;

    fn written(text: &str, backend: &Backend, told: &Told<'_>) -> String {
        let head = RequestHead::parse(text.as_bytes(), 4096, 100).unwrap().unwrap();
        let mut out = Vec::new();
        write_head(&mut out, &head, text.as_bytes(), backend, told);
        String::from_utf8(out).unwrap()
    }

    fn backend(publishes_stats: bool) -> Backend {
        Backend {
            uid: BackendUid(1),
            backend_id: Arc::from("b"),
            cluster_id: Arc::from("b"),
            address: ([127, 0, 0, 1], 1).into(),
            authority: "engine:1".into(),
            base_path: "/base".into(),
            publishes_stats,
            rtt: Arc::default(),
        }
    }

    fn told(id: &RequestId) -> Told<'_> {
        Told {
            id,
            model: "m",
            input_tokens: Tokens(5),
            affinity_key: None,
            priority: None,
            expected_queue: Some(Duration::from_millis(12)),
            stamp: Some(AttemptStamp { gateway: GatewayId::from(0xab), core: 1, sequence: 9 }),
            body_length: 0,
        }
    }

    #[test]
    fn the_head_is_the_clients_with_stargates_additions() {
        let id = RequestId::from_caller(b"r").unwrap();
        let text =
            "POST /v1/x?a=b HTTP/1.1\r\nHost: gw\r\nX-A: 1\r\ntransfer-encoding: chunked\r\nX-A: 2\r\n\r\n";
        let told = Told { affinity_key: Some(b"k"), priority: Some(3), body_length: 7, ..told(&id) };
        assert_eq!(
            written(text, &backend(true), &told),
            "POST /base/v1/x?a=b HTTP/1.1\r\nhost: engine:1\r\nX-A: 1\r\nX-A: 2\r\nx-request-id: r\r\nx-model: m\r\n\
             x-input-tokens: 5\r\nx-cache-affinity-key: k\r\nx-priority: 3\r\nx-stargate-attempt: 000000ab.1.9\r\nx-stargate-expected-queue-ms: 12\r\n\
             content-length: 7\r\n\r\n"
        );
    }

    #[test]
    fn an_engine_that_publishes_no_stats_is_not_told_of_its_queue() {
        let id = RequestId::from_caller(b"r").unwrap();
        let told = Told { stamp: None, ..told(&id) };
        let out = written("GET /v1/x HTTP/1.1\r\nHost: gw\r\n\r\n", &backend(false), &told);
        assert!(!out.contains("x-stargate-") && !out.contains("content-length"));
    }

    #[test]
    fn nothing_from_a_body_can_make_a_header() {
        let id = RequestId::from_caller(b"r").unwrap();
        let told = Told { model: "m\r\nx-evil: 1", affinity_key: Some(b"k\r\nx-evil: 1"), ..told(&id) };
        let out = written("POST /v1/x HTTP/1.1\r\nHost: gw\r\n\r\n", &backend(false), &told);
        assert!(!out.contains("evil"));
        assert!(out.contains("x-cache-affinity-key: h"));
    }
}
