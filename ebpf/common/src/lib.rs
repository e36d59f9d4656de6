//! Types that lie in kernel maps: written by the program on one side, read by the daemon on the other.
//!
//! Plain old data without padding, which `Pod` proves at compile time: the verifier rejects a program that hands
//! uninitialised bytes to a map.

#![cfg_attr(not(test), no_std)]

use bytemuck::{Pod, Zeroable};

/// The most addresses that can be measured at once, unless the loader asks for another number: as many as a gateway
/// takes backends by default. Each that is registered takes [`RttSamples`] once a CPU; room alone takes little.
pub const ENDPOINTS_MAX: u32 = 4096;

/// Name of the map from [`Endpoint`] to [`RttSamples`], one value a CPU.
pub const ENDPOINTS_MAP: &str = "ENDPOINTS";

/// Name of the `sock_ops` program.
pub const PROGRAM: &str = "backend_rtt";

/// Raw samples that each CPU remembers: as many as an estimator looks back over.
pub const RECENT_SAMPLES: usize = 8;

/// An address that connections are made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Endpoint {
    /// IPv6 address, or an IPv4 one mapped to IPv6, in network byte order.
    pub address: [u32; 4],
    /// Port, in host byte order.
    pub port: u32,
}

/// One round trip as it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RttSample {
    /// When, in ns of the monotonic clock; 0 where there is no sample.
    pub at_ns: u64,
    /// How long it took, in µs.
    pub rtt_us: u64,
}

/// Round-trip times of the connections to one endpoint, seen by one CPU since it was registered.
///
/// A CPU may be at it while the value is read. Each field is whole for itself; a [`RttSample`] that was just being
/// written may still have the time of the one that it replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RttSamples {
    /// Samples: those of handshakes, and one each time that a connection's acknowledgements have come full circle.
    pub samples: u64,
    /// Connections established.
    pub connects: u64,
    /// When the last sample came, in ns of the monotonic clock; 0 before.
    pub last_at_ns: u64,
    /// The last handshake's: the one sample that no delayed acknowledgement can stretch.
    pub handshake: RttSample,
    /// The last raw samples of data, handshakes' not among them, in any order. Empty on kernels before 6.10, which do
    /// not tell them.
    pub recent: [RttSample; RECENT_SAMPLES],
    /// Smoothed RTT in µs (RFC 6298) of the connection that the last sample is of.
    pub smoothed_us: u32,
    /// Smallest round trip in µs that the kernel has seen on any of the connections; 0 without samples.
    pub min_us: u32,
    /// The last raw sample in µs, a handshake's or another; 0 without.
    pub last_us: u32,
    /// Raw samples of data so far, wrapping: the next takes its place in `recent` by it.
    pub turn: u32,
}

// === impl RttSample ===

impl RttSample {
    /// Whether there is one.
    pub const fn exists(&self) -> bool {
        self.at_ns > 0
    }
}

// === impl RttSamples ===

impl RttSamples {
    /// What several CPUs have seen, as one: counts add up, the smallest and the latest count, and of all recent samples
    /// the newest are kept, newest first.
    pub fn fold<'a>(per_cpu: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for cpu in per_cpu {
            all.samples += cpu.samples;
            all.connects += cpu.connects;
            all.turn = all.turn.wrapping_add(cpu.turn);
            if cpu.min_us > 0 && (all.min_us == 0 || cpu.min_us < all.min_us) {
                all.min_us = cpu.min_us;
            }
            if cpu.last_at_ns > all.last_at_ns {
                all.last_at_ns = cpu.last_at_ns;
                all.smoothed_us = cpu.smoothed_us;
            }
            if cpu.handshake.at_ns > all.handshake.at_ns {
                all.handshake = cpu.handshake;
            }
            for sample in &cpu.recent {
                all.keep_if_recent(*sample);
            }
        }
        // A CPU's own last one has no time by which to choose; those that have are ordered now.
        let [newest, ..] = all.recent;
        let last = if newest.at_ns > all.handshake.at_ns { newest } else { all.handshake };
        all.last_us = u32::try_from(last.rtt_us).unwrap_or(u32::MAX);
        all
    }

    /// The recent samples that exist; newest first when [`Self::fold`] made this.
    pub fn recent(&self) -> impl Iterator<Item = RttSample> {
        self.recent.into_iter().filter(RttSample::exists)
    }

    /// Puts a sample into `recent`, ordered newest first, where it is newer than the oldest there.
    fn keep_if_recent(&mut self, sample: RttSample) {
        let place = self.recent.partition_point(|kept| kept.at_ns >= sample.at_ns);
        if let Some(rest) = self.recent.get_mut(place..).filter(|rest| !rest.is_empty()) {
            rest.rotate_right(1);
            rest[0] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ns: u64, rtt_us: u64) -> RttSample {
        RttSample { at_ns, rtt_us }
    }

    /// A CPU whose samples came at these times; each took a tenth of its time.
    fn seen(times: &[u64]) -> RttSamples {
        let mut cpu = RttSamples { connects: 1, ..RttSamples::default() };
        for time in times {
            let us = time / 10;
            cpu.recent[cpu.turn as usize % RECENT_SAMPLES] = sample(*time, us);
            cpu.turn += 1;
            cpu.samples += 1;
            cpu.last_at_ns = *time;
            cpu.last_us = us as u32;
            cpu.smoothed_us = us as u32 + 1;
            cpu.min_us = if cpu.min_us == 0 { us as u32 } else { cpu.min_us.min(us as u32) };
        }
        cpu
    }

    #[test]
    fn cpus_that_saw_nothing_change_nothing() {
        let one = RttSamples { handshake: sample(20, 2), ..seen(&[50]) };
        assert_eq!(RttSamples::fold(&[RttSamples::default(), one, RttSamples::default()]), one);
        assert_eq!(RttSamples::fold(&[]), RttSamples::default());
        assert_eq!(RttSamples::default().recent().count(), 0);
    }

    #[test]
    fn counts_add_up_and_the_latest_and_the_smallest_count() {
        let late = RttSamples { handshake: sample(15, 3), ..seen(&[100, 900]) };
        let early = RttSamples { handshake: sample(14, 9), ..seen(&[50, 700, 800]) };
        for order in [[late, early], [early, late]] {
            let all = RttSamples::fold(&order);
            assert_eq!((all.samples, all.connects, all.turn, all.min_us), (5, 2, 5, 5));
            assert_eq!((all.last_us, all.smoothed_us, all.last_at_ns), (90, 91, 900));
            assert_eq!(all.handshake, sample(15, 3));
        }
    }

    #[test]
    fn the_last_raw_sample_counts_though_a_later_one_was_not_told() {
        let told =
            RttSamples { handshake: sample(30, 3), last_us: 3, last_at_ns: 30, ..RttSamples::default() };
        let not_told = RttSamples { samples: 1, last_at_ns: 40, smoothed_us: 9, ..RttSamples::default() };
        let all = RttSamples::fold(&[told, not_told]);
        assert_eq!((all.last_us, all.last_at_ns, all.smoothed_us), (3, 40, 9));
        let all = RttSamples::fold(&[told, seen(&[20, 50])]);
        assert_eq!((all.last_us, all.last_at_ns), (5, 50));
        let all = RttSamples::fold(&[told, seen(&[20])]);
        assert_eq!((all.last_us, all.last_at_ns), (3, 30));
    }

    #[test]
    fn the_newest_samples_of_all_cpus_are_kept_newest_first() {
        // Rings that have turned: positions say nothing.
        let even: Vec<u64> = (1..=10).map(|n| n * 20).collect();
        let odd: Vec<u64> = (0..11).map(|n| n * 20 + 10).collect();
        let all = RttSamples::fold(&[seen(&even), seen(&odd), seen(&[10])]);
        let times: Vec<u64> = all.recent().map(|sample| sample.at_ns).collect();
        assert_eq!(times, [210, 200, 190, 180, 170, 160, 150, 140]);
        assert!(all.recent().all(|sample| sample.rtt_us == sample.at_ns / 10));
        let few = RttSamples::fold(&[seen(&[30]), seen(&[20, 40])]);
        assert_eq!(few.recent().map(|sample| sample.at_ns).collect::<Vec<_>>(), [40, 30, 20]);
    }

    #[test]
    fn the_layout_is_the_kernel_maps() {
        assert_eq!((size_of::<Endpoint>(), align_of::<Endpoint>()), (20, 4));
        // The kernel rounds values of per-CPU maps up to 8 bytes; nothing is to be rounded.
        assert_eq!((size_of::<RttSamples>(), align_of::<RttSamples>()), (184, 8));
    }
}
