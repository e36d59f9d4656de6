//! A client of one address: opens connections, and sends single requests over connections of their own.

use std::net::SocketAddr;

use serde_json::Value;

use crate::{
    connection::Connection,
    read_error::ReadError,
    request::Request,
    response::Response,
    sse::{SseEvent, SseItem, SseReader},
};

/// A client.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    address: SocketAddr,
}

// === impl Client ===

impl Client {
    /// A client of this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Where it connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a connection.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Sends a request over a new connection.
    #[track_caller]
    pub fn send(&self, request: &Request) -> Response {
        self.connect().exchange(request)
    }

    /// Sends a request over a new connection, where there may be no response.
    #[track_caller]
    pub fn try_send(&self, request: &Request) -> Result<Response, ReadError> {
        self.connect().try_exchange(request)
    }

    /// GET.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.send(&Request::get(target))
    }

    /// POST of JSON.
    #[track_caller]
    pub fn post(&self, target: &str, body: &Value) -> Response {
        self.send(&Request::post(target, body))
    }

    /// Sends a request whose answer is a stream of events; returns them and how the stream ended.
    #[track_caller]
    pub fn stream(&self, request: &Request) -> (Vec<SseEvent>, SseItem) {
        let mut connection = self.connect();
        let head = connection.begin(request);
        assert!(head.start_line.starts_with("HTTP/1.1 200 "), "{head:?}");
        SseReader::new(connection.body(&head)).rest().expect("a stream of events")
    }
}
