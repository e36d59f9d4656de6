//! Starts engines and speaks plain HTTP to them.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// A condition must hold within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// A mock engine; it ends with this value.
pub(crate) struct Engine {
    child: Child,
    listen: SocketAddr,
    control: Option<SocketAddr>,
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Engine {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_stargate-bench"))
            .arg("mock-engine")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = |key: &str| {
            line.split_whitespace().find_map(|word| word.strip_prefix(key)).map(|text| text.parse().unwrap())
        };
        let (listen, control) = (address("listen="), address("control="));
        Self { child, listen: listen.unwrap_or_else(|| panic!("not ready: {line}")), control }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listen
    }

    pub(crate) fn control_address(&self) -> SocketAddr {
        self.control.unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn state(&self) -> Value {
        request(self.listen, "GET", "/mock/state", "", b"").json()
    }

    pub(crate) fn fault(&self, fault: &Value) {
        let answer = request(self.listen, "POST", "/mock/fault", "", fault.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.json());
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn terminate(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    /// Reads one; `with_body` by its length or chunks.
    pub(crate) fn read(reader: &mut impl BufRead, with_body: bool) -> Self {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(reader.read_line(&mut line).unwrap() > 0, "connection ended after {lines:?}");
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines[1..]
            .iter()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Self { status, headers, body: Vec::new() };
        if !with_body {
            return answer;
        }
        if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            reader.read_exact(&mut answer.body).unwrap();
            return answer;
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let mut chunk = vec![0; usize::from_str_radix(line.trim_end(), 16).unwrap() + 2];
            reader.read_exact(&mut chunk).unwrap();
            if chunk.len() == 2 {
                return answer;
            }
            answer.body.extend_from_slice(&chunk[..chunk.len() - 2]);
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A chat completion request.
pub(crate) fn completion(content: &str, max_tokens: u64, stream: bool) -> Vec<u8> {
    serde_json::json!({
        "model": "mock",
        "messages": [{"role": "user", "content": content}],
        "max_tokens": max_tokens,
        "stream": stream,
    })
    .to_string()
    .into_bytes()
}

/// Sends a chat completion request and returns the connection.
pub(crate) fn send(engine: &Engine, headers: &str, body: &[u8]) -> TcpStream {
    write_request(engine.address(), "POST", "/v1/chat/completions", headers, body)
}

/// Sends a chat completion request and reads its answer.
pub(crate) fn post(engine: &Engine, headers: &str, body: &[u8]) -> Answer {
    request(engine.address(), "POST", "/v1/chat/completions", headers, body)
}

/// Sends any request and reads its answer.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let stream = write_request(address, method, path, headers, body);
    Answer::read(&mut BufReader::new(stream), true)
}

/// Waits until a condition holds.
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "the condition did not hold within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

fn write_request(address: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: mock\r\n{headers}content-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    stream
}
