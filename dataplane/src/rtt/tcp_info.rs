//! Round trips as the kernel's `TCP_INFO` tells them: of this gateway's own sockets, without any privilege.
//!
//! Taken at two moments, each one system call without any allocation: when a connection is established, the
//! round trip of its handshake; when it goes back into the pool, the kernel's smoothed one, which the answer
//! just read has brought up to date. Cores and health checks share one row of recent ones a backend
//! ([`stargate_routing::RecentRtts`]).
//!
//! `tcpi_min_rtt` is of no use here: it is the smallest of five minutes (`net.ipv4.tcp_min_rtt_wlen`), so a
//! path that got longer would go unnoticed for as long.

use std::{
    io,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use stargate_routing::{Backend, Nanos, RttSample, RttSource};

use super::{clock::monotonic_time, estimate::estimate};
use crate::io::{
    engine::socket::EngineSocket,
    socket::{TcpInfo, tcp_info},
};

/// A connection on which nothing was sent for this long has nothing new to tell: its answer took that long.
const SENT_AGO_MAX: Duration = Duration::from_secs(5);

/// Whether round trips are taken from `TCP_INFO`, and how. Off, it costs a core one load an attempt.
#[derive(Debug, Default)]
pub(crate) struct TcpInfoSource {
    is_on: AtomicBool,
}

// === impl TcpInfoSource ===

impl TcpInfoSource {
    /// Whether this kernel tells.
    pub(super) fn check() -> io::Result<()> {
        let socket = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        tcp_info(&socket).map(|_| ())
    }

    /// From now on they are taken.
    pub(super) fn turn_on(&self) {
        self.is_on.store(true, Relaxed);
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// A connection to `backend` was just established.
    pub(crate) fn connected(&self, backend: &Backend, socket: &EngineSocket) {
        if self.is_on()
            && let Some(sample) = handshake(socket.tcp_info())
        {
            self.handshake(backend, sample);
        }
    }

    /// An answer of `backend` was read to its end.
    pub(crate) fn answered(&self, backend: &Backend, socket: &EngineSocket) {
        if self.is_on()
            && let Ok(info) = socket.tcp_info()
        {
            let ago = Duration::from_millis(info.last_data_sent_ms.into());
            if ago <= SENT_AGO_MAX && info.rtt_us > 0 {
                self.sample(
                    backend,
                    RttSample { rtt: micros(info.rtt_us), at: monotonic_time().saturating_sub(ago) },
                );
            }
        }
    }

    /// Takes a handshake with `backend`. Kept also while this is off: it tells what the kernel program should
    /// have seen.
    pub(super) fn handshake(&self, backend: &Backend, sample: RttSample) {
        backend.rtt.recent().take_handshake(sample);
        self.estimate(backend);
    }

    fn sample(&self, backend: &Backend, sample: RttSample) {
        backend.rtt.recent().take(sample);
        self.estimate(backend);
    }

    fn estimate(&self, backend: &Backend) {
        let recent = backend.rtt.recent();
        if self.is_on()
            && let Some(rtt) = estimate(recent.newest_first(), recent.last_handshake(), monotonic_time())
        {
            backend.rtt.set(RttSource::TcpInfo, rtt);
        }
    }
}

/// The round trip of the handshake that made `socket`, a TCP connection on which nothing was sent yet; `None`
/// where the kernel did not measure it: its SYN was sent more than once (Karn's algorithm).
pub fn handshake_of(socket: impl AsFd) -> Option<RttSample> {
    handshake(tcp_info(socket))
}

fn handshake(info: io::Result<TcpInfo>) -> Option<RttSample> {
    let rtt_us = info.ok().map(|info| info.rtt_us).filter(|us| *us > 0)?;
    Some(RttSample { rtt: micros(rtt_us), at: monotonic_time() })
}

fn micros(us: u32) -> Nanos {
    Nanos(u64::from(us) * 1000)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test may block")]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        sync::Arc,
    };

    use stargate_routing::BackendUid;

    use super::*;

    fn backend() -> Backend {
        Backend {
            uid: BackendUid(1),
            backend_id: Arc::from("b"),
            cluster_id: Arc::from("b"),
            address: ([127, 0, 0, 1], 1).into(),
            authority: "b".into(),
            base_path: "".into(),
            publishes_stats: false,
            rtt: Arc::default(),
        }
    }

    fn sample(us: u32) -> RttSample {
        RttSample { rtt: micros(us), at: monotonic_time() }
    }

    #[test]
    fn the_kernel_of_the_tests_tells() {
        TcpInfoSource::check().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(handshake_of(&listener), None);
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let sample = handshake_of(&near).unwrap();
        assert!((1000..1_000_000_000).contains(&sample.rtt.0), "{sample:?}");
    }

    #[test]
    fn nothing_is_estimated_while_it_is_off() {
        let (source, backend) = (TcpInfoSource::default(), backend());
        source.handshake(&backend, sample(3000));
        assert_eq!((backend.rtt.get(), backend.rtt.recent().handshakes()), (None, 1));
        source.turn_on();
        source.handshake(&backend, sample(4000));
        assert_eq!(backend.rtt.get(), Some((Nanos(3_000_000), RttSource::TcpInfo)));
    }

    #[test]
    fn samples_and_handshakes_make_one_estimate() {
        let (source, backend) = (TcpInfoSource::default(), backend());
        source.turn_on();
        source.handshake(&backend, sample(10_000));
        for _ in 0..8 {
            source.sample(&backend, sample(32_000));
        }
        assert_eq!(backend.rtt.of(RttSource::TcpInfo), Some(Nanos(10_000_000)), "acknowledgements were held");
        source.sample(&backend, sample(9000));
        assert_eq!(backend.rtt.of(RttSource::TcpInfo), Some(Nanos(9_000_000)));
        let recent = backend.rtt.recent();
        assert_eq!((recent.taken(), recent.handshakes()), (10, 1));
    }
}
