//! What a test asks about afterwards: which request ids started how often, and the last request as it arrived.
//!
//! Bytes are kept, not digested: hashing waits until somebody asks.

use std::collections::HashMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use stargate_wire::http::MAX_HEADERS;

/// Request ids that are remembered; later ones are only counted.
const REQUEST_IDS_MAX: usize = 65_536;

/// A body's buffer above this is not kept for the next one.
const KEPT_CAPACITY_BYTES: usize = 1 << 20;

/// Memory of the requests that came.
#[derive(Default)]
pub(crate) struct Journal {
    started_by_id: HashMap<Box<[u8]>, u64>,
    ids_not_kept: u64,
    last_head: Vec<u8>,
    last_body: Vec<u8>,
}

// === impl Journal ===

impl Journal {
    /// Notes a request as it arrived, run or not.
    pub(crate) fn arrived(&mut self, head: &[u8], body: &[u8]) {
        self.last_head.clear();
        self.last_head.extend_from_slice(head);
        self.last_body.clear();
        if self.last_body.capacity() > KEPT_CAPACITY_BYTES {
            self.last_body = Vec::new();
        }
        self.last_body.extend_from_slice(body);
    }

    /// Notes that the engine took a request in.
    pub(crate) fn started(&mut self, request_id: &[u8]) {
        if let Some(times) = self.started_by_id.get_mut(request_id) {
            *times += 1;
        } else if self.started_by_id.len() < REQUEST_IDS_MAX {
            self.started_by_id.insert(request_id.into(), 1);
        } else {
            self.ids_not_kept += 1;
        }
    }

    /// `{id: times started}`.
    pub(crate) fn by_request_id(&self) -> Value {
        Value::Object(self.started_by_id.iter().map(|(id, times)| (lossy(id), json!(times))).collect())
    }

    /// Started requests whose id was not kept, for lack of room.
    pub(crate) fn ids_not_kept(&self) -> u64 {
        self.ids_not_kept
    }

    /// The last request: headers in order, length and digest of its body. `null` before the first one.
    pub(crate) fn last_request(&self) -> Value {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        if request.parse(&self.last_head).is_err() || self.last_head.is_empty() {
            return Value::Null;
        }
        let headers: Vec<Value> =
            request.headers.iter().map(|header| json!([header.name, lossy(header.value)])).collect();
        json!({
            "method": request.method,
            "target": request.path,
            "headers": headers,
            "body_sha256": hex(&Sha256::digest(&self.last_body)),
            "body_bytes": self.last_body.len(),
        })
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_last_request_and_how_often_each_started() {
        let mut journal = Journal::default();
        assert_eq!(journal.last_request(), Value::Null);
        journal.arrived(b"POST /v1/x HTTP/1.1\r\nA: 1\r\na: 2\r\n\r\n", b"abc");
        journal.started(b"r1");
        journal.started(b"r1");
        assert_eq!(journal.by_request_id(), json!({"r1": 2}));
        let last = journal.last_request();
        assert_eq!(last["headers"], json!([["A", "1"], ["a", "2"]]));
        assert_eq!(last["body_sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(last["body_bytes"], 3);
    }
}
