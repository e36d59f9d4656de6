//! Types that lie in kernel maps: written by the program on one side, read by the daemon on the other.
//!
//! Plain old data without padding, which `Pod` proves at compile time: the verifier rejects a program that hands
//! uninitialised bytes to a map.

#![cfg_attr(not(test), no_std)]

use bytemuck::{Pod, Zeroable};

/// The most addresses that can be measured at once: as many as a gateway takes backends by default.
pub const ENDPOINTS_MAX: u32 = 4096;

/// Name of the map from [`Endpoint`] to [`RttSamples`], one value a CPU.
pub const ENDPOINTS_MAP: &str = "ENDPOINTS";

/// Name of the `sock_ops` program.
pub const PROGRAM: &str = "backend_rtt";

/// An address that connections are made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Endpoint {
    /// IPv6 address, or an IPv4 one mapped to IPv6, in network byte order.
    pub address: [u32; 4],
    /// Port, in host byte order.
    pub port: u32,
}

/// Round-trip times of the connections to one endpoint, seen by one CPU since it was registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RttSamples {
    /// Samples folded in.
    pub samples: u64,
    /// Their sum, of the smoothed RTT in µs.
    pub sum_us: u64,
    /// When the last came, in ns of the monotonic clock.
    pub last_at_ns: u64,
    /// Connections established.
    pub connects: u32,
    /// Smoothed RTT (RFC 6298) in µs after the last sample.
    pub smoothed_us: u32,
    /// Smallest smoothed RTT in µs; 0 without samples.
    pub min_us: u32,
    /// The last sample as it was measured, in µs; 0 for a handshake's.
    pub last_us: u32,
}

// === impl RttSamples ===

impl RttSamples {
    /// What several CPUs have seen, as one: sums add up, the latest sample counts.
    pub fn fold<'a>(per_cpu: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for cpu in per_cpu {
            all.connects += cpu.connects;
            if cpu.samples == 0 {
                continue;
            }
            all.min_us = if all.samples == 0 { cpu.min_us } else { all.min_us.min(cpu.min_us) };
            all.samples += cpu.samples;
            all.sum_us += cpu.sum_us;
            if cpu.last_at_ns >= all.last_at_ns {
                all.last_at_ns = cpu.last_at_ns;
                all.smoothed_us = cpu.smoothed_us;
                all.last_us = cpu.last_us;
            }
        }
        all
    }

    /// Mean of the smoothed RTT in µs; `None` without samples.
    pub fn mean_us(&self) -> Option<u64> {
        self.sum_us.checked_div(self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(samples: u64, smoothed_us: u32, min_us: u32, last_at_ns: u64) -> RttSamples {
        let sum_us = samples * u64::from(smoothed_us);
        RttSamples { samples, sum_us, last_at_ns, connects: 1, smoothed_us, min_us, last_us: smoothed_us }
    }

    #[test]
    fn cpus_that_saw_nothing_change_nothing() {
        let one = seen(3, 50, 40, 7);
        assert_eq!(RttSamples::fold(&[RttSamples::default(), one, RttSamples::default()]), one);
        assert_eq!(RttSamples::fold(&[]), RttSamples::default());
        assert_eq!(RttSamples::default().mean_us(), None);
    }

    #[test]
    fn sums_add_up_and_the_latest_counts() {
        let (late, early) = (seen(2, 100, 90, 20), seen(4, 40, 10, 10));
        for order in [[late, early], [early, late]] {
            let all = RttSamples::fold(&order);
            assert_eq!((all.samples, all.connects, all.min_us), (6, 2, 10));
            assert_eq!((all.smoothed_us, all.last_at_ns), (100, 20));
            assert_eq!(all.mean_us(), Some((200 + 160) / 6));
        }
    }
}
