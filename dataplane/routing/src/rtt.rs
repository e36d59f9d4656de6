//! The round-trip time to one backend, as measured: written by whoever measures it, read by every core.
//!
//! One place a source, since sources come and go while a gateway runs: what the kernel program measures counts
//! before what this gateway's own sockets tell, and that before the connect times of health checks.

pub(crate) mod recent;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use self::recent::RecentRtts;
use crate::Nanos;

/// Who measured a round-trip time, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RttSource {
    /// The kernel program: raw samples of every connection.
    Ebpf,
    /// `TCP_INFO` of this gateway's own sockets.
    TcpInfo,
    /// TCP connect times of health checks.
    Probe,
}

/// Round-trip time to one backend, by source. It lives as long as the backend's registration.
#[derive(Debug, Default)]
pub struct BackendRtt {
    /// In ns; 0 where nothing was measured.
    by_source: [AtomicU64; RttSource::ALL.len()],
    /// Of this gateway's own sockets, as `TCP_INFO` tells; [`RttSource::TcpInfo`] is estimated by them.
    recent: RecentRtts,
}

// === impl RttSource ===

impl RttSource {
    /// All, best first.
    pub const ALL: [Self; 3] = [Self::Ebpf, Self::TcpInfo, Self::Probe];

    /// Its name in metrics and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ebpf => "ebpf",
            Self::TcpInfo => "tcp_info",
            Self::Probe => "probe",
        }
    }
}

// === impl BackendRtt ===

impl BackendRtt {
    /// Takes what `source` has measured. Nothing takes no time: 0 counts as 1 ns.
    pub fn set(&self, source: RttSource, rtt: Nanos) {
        self.by_source[source as usize].store(rtt.0.max(1), Relaxed);
    }

    /// Forgets what `source` has measured.
    pub fn clear(&self, source: RttSource) {
        self.by_source[source as usize].store(0, Relaxed);
    }

    /// What `source` has measured.
    pub fn of(&self, source: RttSource) -> Option<Nanos> {
        Some(self.by_source[source as usize].load(Relaxed)).filter(|ns| *ns > 0).map(Nanos)
    }

    /// Round trips of this gateway's own sockets. Cores share them, since each alone may have too few.
    pub fn recent(&self) -> &RecentRtts {
        &self.recent
    }

    /// What the best source that has any has measured.
    pub fn get(&self) -> Option<(Nanos, RttSource)> {
        RttSource::ALL.into_iter().find_map(|source| Some((self.of(source)?, source)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_source_that_has_measured_counts() {
        let rtt = BackendRtt::default();
        assert_eq!(rtt.get(), None);
        rtt.set(RttSource::Probe, Nanos(3));
        assert_eq!(rtt.get(), Some((Nanos(3), RttSource::Probe)));
        rtt.set(RttSource::Ebpf, Nanos(0));
        rtt.set(RttSource::TcpInfo, Nanos(2));
        assert_eq!(rtt.get(), Some((Nanos(1), RttSource::Ebpf)));
        rtt.clear(RttSource::Ebpf);
        assert_eq!(rtt.get(), Some((Nanos(2), RttSource::TcpInfo)));
        assert_eq!((rtt.of(RttSource::Ebpf), rtt.of(RttSource::Probe)), (None, Some(Nanos(3))));
    }
}
