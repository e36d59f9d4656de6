//! From the last measured round trips to the one that counts: the same rule for what the kernel program and
//! what `TCP_INFO` tell.
//!
//! **The quickest of the last five.** Whatever happens to a packet on its way, a queue or a busy scheduler,
//! only ever adds to the time that it takes. A path that got shorter is believed at the first sample, one
//! that got longer at the fifth; a smoothed value (RFC 6298, gain 1/8) is still 10 % off after 20.
//!
//! **Guarded by handshakes.** A round trip of data ends with its acknowledgement, and a receiver may hold
//! that back to put it on an answer (RFC 1122 section 4.2.3.2: for less than 500 ms; Linux: `TCP_DELACK_MIN`,
//! 40 ms, on a connection on which requests and answers alternate, `inet_csk_enter_pingpong_mode`). So on a
//! kept connection to an engine that takes 20 ms to answer *every* sample is the round trip plus 20 ms, and
//! up to 40 ms for slower engines; being the quickest of many does not help. A SYN-ACK is never held back.
//! Hence, where the quickest sample exceeds the last handshake by no more than a held acknowledgement
//! explains, the handshake counts.
//!
//! What that trades: a path that gets longer by up to [`HELD_MAX`] is believed with the next handshake
//! instead of the fifth sample. Health checks make one a second; where there are none for
//! [`HANDSHAKE_AGE_MAX`], samples count alone.

use std::time::Duration;

use stargate_routing::{Nanos, RttSample};

/// Samples of which the quickest counts.
pub(super) const SAMPLES: usize = 5;
/// Samples this much older than the newest measurement say nothing of now: of a quiet time before it.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(10);
/// How long a handshake tells what samples contain of held acknowledgements: five health checks.
const HANDSHAKE_AGE_MAX: Duration = Duration::from_secs(5);
/// Longest that a held acknowledgement adds: 40 ms, and a tick of the receiver's kernel, 10 ms at most
/// (`HZ=100`).
const HELD_MAX: Duration = Duration::from_millis(50);

/// The round trip that counts at `now`, by the last samples, newest first, handshakes among them or not, and
/// the last handshake; `None` while nothing was measured. All times are of one clock.
pub(super) fn estimate(
    newest_first: impl IntoIterator<Item = RttSample>,
    handshake: Option<RttSample>,
    now: Duration,
) -> Option<Nanos> {
    let mut samples = newest_first.into_iter().take(SAMPLES).peekable();
    let newest = samples.peek().copied().into_iter().chain(handshake).map(|sample| sample.at).max()?;
    let quickest =
        samples.filter(|sample| newest.saturating_sub(sample.at) <= SAMPLE_AGE_MAX).map(|s| s.rtt).min();
    let Some(handshake) = handshake else { return quickest };
    let Some(quickest) = quickest else { return Some(handshake.rtt) };
    let is_recent = now.saturating_sub(handshake.at) <= HANDSHAKE_AGE_MAX;
    let excess = Duration::from_nanos(quickest.0.saturating_sub(handshake.rtt.0));
    Some(if is_recent && excess <= HELD_MAX { quickest.min(handshake.rtt) } else { quickest })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn sample(us: u64, ago_ms: u64) -> RttSample {
        RttSample { rtt: Nanos(us * 1000), at: NOW.saturating_sub(Duration::from_millis(ago_ms)) }
    }

    /// Samples in µs, newest first, 10 ms apart.
    fn samples(us: &[u64]) -> Vec<RttSample> {
        us.iter().zip(1..).map(|(us, n)| sample(*us, n * 10)).collect()
    }

    fn estimated_us(samples: &[RttSample], handshake: Option<RttSample>) -> Option<u64> {
        estimate(samples.iter().copied(), handshake, NOW).map(|rtt| rtt.0 / 1000)
    }

    #[test]
    fn nothing_measured_is_nothing_and_one_sample_is_enough() {
        assert_eq!(estimated_us(&[], None), None);
        assert_eq!(estimated_us(&samples(&[700]), None), Some(700));
        assert_eq!(estimated_us(&[], Some(sample(800, 60_000))), Some(800), "however old: there is no other");
    }

    #[test]
    fn queueing_and_scheduling_do_not_count() {
        assert_eq!(estimated_us(&samples(&[10_900, 14_000, 10_100, 250_000, 11_000]), None), Some(10_100));
    }

    #[test]
    fn a_shorter_path_counts_at_the_first_sample_and_a_longer_one_at_the_fifth() {
        assert_eq!(estimated_us(&samples(&[2000, 90_000, 90_000, 90_000, 90_000]), None), Some(2000));
        let longer = |new: usize| {
            let us: Vec<u64> = (0..8).map(|n| if n < new { 90_000 } else { 10_000 }).collect();
            estimated_us(&samples(&us), Some(sample(10_000, 900)))
        };
        assert_eq!((longer(4), longer(5)), (Some(10_000), Some(90_000)));
    }

    #[test]
    fn held_acknowledgements_do_not_count() {
        let handshake = Some(sample(10_000, 900));
        for (held_us, counts_us) in [
            (0, 10_000),
            (20_000, 10_000),
            (40_000, 10_000),
            (50_000, 10_000),
            (50_001, 60_001),
            (200_000, 210_000),
        ] {
            assert_eq!(
                estimated_us(&samples(&[10_000 + held_us; 8]), handshake),
                Some(counts_us),
                "{held_us}"
            );
        }
    }

    #[test]
    fn an_old_handshake_guards_nothing() {
        assert_eq!(estimated_us(&samples(&[50_000; 5]), Some(sample(10_000, 5000))), Some(10_000));
        assert_eq!(estimated_us(&samples(&[50_000; 5]), Some(sample(10_000, 5001))), Some(50_000));
    }

    #[test]
    fn a_slow_handshake_is_no_worse_than_a_slow_sample() {
        assert_eq!(estimated_us(&samples(&[10_200; 5]), Some(sample(31_000, 20))), Some(10_200));
    }

    #[test]
    fn what_was_before_a_quiet_time_does_not_count() {
        let mut all = samples(&[25_000]);
        all.extend([sample(10_000, 10_000), sample(9000, 10_020), sample(9000, 60_000)]);
        assert_eq!(estimated_us(&all, None), Some(10_000));
        let before = [sample(10_000, 60_000), sample(10_000, 60_010)];
        assert_eq!(
            estimated_us(&before, Some(sample(25_000, 10))),
            Some(25_000),
            "nothing but a health check since"
        );
    }
}
