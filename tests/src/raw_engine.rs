//! An engine scripted by the test: it gets each request and does with the connection what it likes.
//!
//! For behaviour that no orderly server has: silence, single bytes, invalid HTTP, ends in the wrong place.
//! `GET …/health` is answered by itself and never reaches the script, so that health checks disturb nothing.

use std::{
    fmt::{self, Write as _},
    io::Write as _,
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    connection::Connection,
    gate::Gate,
    http::{Head, Headers},
    poll::eventually,
    read_error::ReadError,
    response::{Body, BodyReader},
};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// Method.
    pub method: String,
    /// Request target.
    pub target: String,
    /// The head.
    pub head: Head,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Trailers of a chunked body.
    pub trailers: Headers,
    /// Number of the connection that it came on, from 0.
    pub connection: usize,
}

/// What a script does with: the request, and the connection that it came on.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The request.
    pub request: &'a Received,
    connection: &'a mut Connection,
}

/// What happens to the connection after a script's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The next request is read from it.
    KeepOpen,
    /// FIN.
    Close,
    /// RST.
    Reset,
}

/// A scripted engine.
pub struct RawEngine {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

type Script = dyn Fn(&mut Exchange<'_>) -> Then + Send + Sync;

struct Shared {
    script: Box<Script>,
    reads_body: bool,
    stopping: AtomicBool,
    connections_total: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    requests: Vec<Received>,
    /// Connections with no request in progress that have had one, by number.
    idle: Vec<(usize, TcpStream)>,
    open: Vec<(usize, TcpStream)>,
}

// === impl Received ===

impl Received {
    /// A header of the request; panics when it is there more than once.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)
    }
}

// === impl Exchange ===

impl Exchange<'_> {
    /// Sends these bytes; a gateway that has gone away is no fault of the script.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.connection.try_send(bytes);
    }

    /// Sends a response with this body, framed by its length.
    pub fn respond(&mut self, status_line: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        let mut head = format!("HTTP/1.1 {status_line}\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend(body);
        self.send(bytes);
    }

    /// Sends `200` with a small JSON body.
    pub fn respond_ok(&mut self) {
        self.respond("200 OK", &[("content-type", "application/json")], r#"{"object":"chat.completion"}"#);
    }

    /// Sends the head of a chunked stream of events.
    pub fn begin_stream(&mut self) {
        self.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    }

    /// Sends one chunk of a chunked body; an empty one would end it.
    pub fn send_chunk(&mut self, data: impl AsRef<[u8]>) {
        self.send(chunk(data.as_ref()));
    }

    /// Sends one chunk; whether the gateway still takes it.
    pub fn try_send_chunk(&mut self, data: impl AsRef<[u8]>) -> bool {
        self.connection.try_send(chunk(data.as_ref())).is_ok()
    }

    /// Ends a chunked body.
    pub fn end_chunks(&mut self) {
        self.send("0\r\n\r\n");
    }

    /// Waits until the gateway closes this connection; whether it did before the harness's deadline. Bytes
    /// that it may still send are passed over.
    pub fn closed_by_gateway(&mut self) -> bool {
        loop {
            match self.connection.fill() {
                Ok(0) | Err(ReadError::Reset) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Whether the gateway has closed this connection by now.
    pub fn is_closed(&mut self) -> bool {
        self.connection.is_closed()
    }

    /// Waits for more bytes of the request, beyond what an engine that does not read bodies has seen.
    pub fn read_some(&mut self) -> Result<Vec<u8>, ReadError> {
        if self.connection.buffered().is_empty() && self.connection.fill()? == 0 {
            return Err(ReadError::Closed);
        }
        let count = self.connection.buffered().len();
        Ok(self.connection.take(count))
    }
}

// === impl RawEngine ===

impl RawEngine {
    /// Starts an engine that runs `script` for every request, once its body has been read.
    pub fn start(script: impl Fn(&mut Exchange<'_>) -> Then + Send + Sync + 'static) -> Self {
        Self::start_on(IpAddr::V4(Ipv4Addr::LOCALHOST), true, script)
    }

    /// Starts an engine that answers every request in the plainest way.
    pub fn plain() -> Self {
        Self::start(|exchange| {
            exchange.respond_ok();
            Then::KeepOpen
        })
    }

    /// Starts an engine that streams one event, then waits at the gate for the second and the end.
    pub fn gated() -> (Self, Gate) {
        let gate = Gate::default();
        let waiting = gate.clone();
        let engine = Self::start(move |exchange| {
            exchange.begin_stream();
            exchange.send_chunk("data: 1\n\n");
            waiting.wait();
            exchange.send_chunk("data: 2\n\n");
            exchange.end_chunks();
            Then::KeepOpen
        });
        (engine, gate)
    }

    /// Starts an engine whose script runs as soon as a request's head is there; its body is left unread.
    pub fn start_without_reading_bodies(
        script: impl Fn(&mut Exchange<'_>) -> Then + Send + Sync + 'static,
    ) -> Self {
        Self::start_on(IpAddr::V4(Ipv4Addr::LOCALHOST), false, script)
    }

    /// Starts an engine on another loopback address.
    pub fn start_on(
        ip: IpAddr,
        reads_body: bool,
        script: impl Fn(&mut Exchange<'_>) -> Then + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((ip, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            reads_body,
            stopping: AtomicBool::new(false),
            connections_total: AtomicUsize::new(0),
            state: Mutex::default(),
        });
        let acceptor = thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests that reached the script, health checks apart.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.state().requests.clone()
    }

    /// How many requests have reached the script.
    pub fn request_count(&self) -> usize {
        self.shared.state().requests.len()
    }

    /// The only request that reached it.
    #[track_caller]
    pub fn only_request(&self) -> Received {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "one request was expected: {requests:#?}");
        requests.into_iter().next().expect("one")
    }

    /// Connections that have carried a request and wait for another.
    pub fn idle_connections(&self) -> usize {
        self.shared.state().idle.len()
    }

    /// Sends FIN on every idle connection; returns how many there were.
    pub fn close_idle(&self) -> usize {
        let idle = std::mem::take(&mut self.shared.state().idle);
        for (_, stream) in &idle {
            let _ = stream.shutdown(Shutdown::Both);
        }
        idle.len()
    }

    /// Sends bytes that nobody asked for on every idle connection; returns how many there were.
    pub fn send_on_idle(&self, bytes: &[u8]) -> usize {
        let state = self.shared.state();
        for (_, stream) in &state.idle {
            let mut stream: &TcpStream = stream;
            let _ = stream.write_all(bytes);
        }
        state.idle.len()
    }

    /// Waits until this many requests have reached the script.
    #[track_caller]
    pub fn wait_for_requests(&self, count: usize) {
        eventually(&format!("{count} requests reach the engine"), || self.request_count() >= count);
    }
}

impl fmt::Debug for RawEngine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RawEngine({})", self.address)
    }
}

impl Drop for RawEngine {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        // Wakes scripts that wait for their connection.
        for (_, stream) in &self.shared.state().open {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

// === impl Shared ===

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no script panics while it holds the state")
    }
}

// === impl State ===

impl State {
    fn forget(&mut self, number: usize) {
        self.open.retain(|(n, _)| *n != number);
        self.idle.retain(|(n, _)| *n != number);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let number = shared.connections_total.fetch_add(1, Ordering::SeqCst);
        let shared = shared.clone();
        thread::spawn(move || {
            let handle = stream.try_clone().expect("a second handle");
            shared.state().open.push((number, handle));
            serve(Connection::of(stream), number, &shared);
            shared.state().forget(number);
        });
    }
}

fn serve(mut connection: Connection, number: usize, shared: &Shared) {
    // An idle connection may wait as long as its test runs.
    let set_waiting = |connection: &Connection, waiting: bool| {
        let timeout = (!waiting).then_some(crate::poll::DEADLINE);
        let _ = connection.stream().set_read_timeout(timeout);
    };
    loop {
        set_waiting(&connection, true);
        let Ok(head) = connection.read_head() else { return };
        set_waiting(&connection, false);
        shared.state().idle.retain(|(n, _)| *n != number);
        if head.start_line.starts_with("GET ") && head.start_line.ends_with("/health HTTP/1.1") {
            let _ = connection.try_send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            continue;
        }
        let Some(request) = receive(&mut connection, head, number, shared.reads_body) else { return };
        shared.state().requests.push(request.clone());
        let mut exchange = Exchange { request: &request, connection: &mut connection };
        match (shared.script)(&mut exchange) {
            Then::KeepOpen => {
                let handle = connection.stream().try_clone().expect("a second handle");
                shared.state().idle.push((number, handle));
            }
            Then::Close => {
                let _ = connection.stream().shutdown(Shutdown::Both);
                return;
            }
            Then::Reset => return connection.reset(),
        }
    }
}

fn receive(connection: &mut Connection, head: Head, number: usize, reads_body: bool) -> Option<Received> {
    let [method, target, _] = head.start_parts().ok()?.map(str::to_owned);
    let (body, trailers) = if reads_body {
        match BodyReader::of_request(connection, &head).and_then(|mut body| body.rest()).ok()? {
            (Body::Complete(body), trailers) => (body, trailers),
            // A request that was cut is not a request.
            (Body::Cut(_), _) => return None,
        }
    } else {
        (Vec::new(), Headers::default())
    };
    Some(Received { method, target, head, body, trailers, connection: number })
}

/// Data with a chunk's framing.
fn chunk(data: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{:x}\r\n", data.len()).into_bytes();
    bytes.extend(data);
    bytes.extend(b"\r\n");
    bytes
}
