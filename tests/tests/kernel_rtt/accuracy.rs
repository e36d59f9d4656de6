//! What is measured is what the path takes.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use stargate_dataplane::rtt::kernel::{KernelRtt, Options, RECENT_SAMPLES, RttSample, RttSamples};
use stargate_tests::{DEADLINE, DelayedPath};

use crate::support::{Echo, Talk, attach, has_paths, options, patched, samples};

/// How far a sample may be from the path's round trip, beside a tenth of it: threads must get to run.
const SLACK_US: u64 = 300;

/// A path, and addresses across it that are followed: of IPv4 and of IPv6.
struct Setup {
    /// Dropped first: the ends of their connections come by the path.
    echoes: [Echo; 2],
    path: DelayedPath,
    rtt: KernelRtt,
}

// === impl Setup ===

impl Setup {
    fn new(first: Duration) -> Option<Self> {
        let mut rtt = attach()?;
        if !has_paths() {
            return None;
        }
        let path = DelayedPath::new(first);
        let echoes = path.near().map(Echo::at);
        rtt.follow(echoes.iter().map(|echo| path.far(echo.address()))).expect("room");
        Some(Self { echoes, path, rtt })
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        [0, 1].map(|index| self.path.far(self.echoes[index].address()))
    }
}

fn is_close(sample: RttSample, path: Duration) -> bool {
    let path_us = path.as_micros() as u64;
    sample.exists() && sample.rtt_us.abs_diff(path_us) <= path_us / 10 + SLACK_US
}

/// Lets `step` have something measured until what was measured satisfies `holds`. On a quiet machine once is enough; on a busy one packets
/// are late now and then, but no load makes a wrong unit or a wrong field right. What a step opens stays open while it is
/// looked at: its end would be one more sample.
#[track_caller]
fn measure<T>(
    setup: &Setup,
    address: SocketAddr,
    mut step: impl FnMut() -> T,
    holds: impl Fn(&RttSamples) -> bool,
) -> RttSamples {
    let start = Instant::now();
    loop {
        let _open = step();
        let measured = samples(&setup.rtt, address);
        if holds(&measured) {
            return measured;
        }
        assert!(start.elapsed() < DEADLINE, "{address}: {measured:?}");
    }
}

#[test]
fn handshakes_and_raw_samples_are_the_round_trip_of_the_path() {
    let Some(setup) = Setup::new(Duration::from_millis(1)) else { return };
    for millis in [1, 10, 50] {
        let configured = Duration::from_millis(millis);
        setup.path.set_rtt(configured);
        for address in setup.addresses() {
            let step = || Talk::to(address).exchanges(RECENT_SAMPLES + 1);
            let measured = measure(&setup, address, step, |measured| {
                let recent: Vec<RttSample> = measured.recent().collect();
                recent.len() == RECENT_SAMPLES
                    && recent.iter().all(|sample| is_close(*sample, configured))
                    && is_close(measured.handshake, configured)
            });
            let recent: Vec<u64> = measured.recent().map(|sample| sample.rtt_us).collect();
            println!(
                "{configured:?} to {address}: handshake {} us, then {recent:?} us",
                measured.handshake.rtt_us
            );
            assert!(measured.recent().map(|sample| sample.at_ns).is_sorted_by(|a, b| a > b), "{measured:?}");
            let newest = measured.recent().next().expect("samples");
            assert_eq!((measured.last_us.into(), measured.last_at_ns), (newest.rtt_us, newest.at_ns));
            assert!(measured.handshake.at_ns < newest.at_ns, "{measured:?}");
            // One a handshake, one a round trip.
            assert_eq!(measured.samples, measured.connects + u64::from(measured.turn), "{measured:?}");
            // No packet is ever early, over none of the round trips that there were.
            assert!((1_000..=newest.rtt_us).contains(&measured.min_us.into()), "{measured:?}");
        }
    }
}

#[test]
fn raw_samples_follow_a_step_at_once_and_the_smoothed_do_not() {
    let Some(setup) = Setup::new(Duration::from_millis(10)) else { return };
    for address in setup.addresses() {
        setup.path.set_rtt(Duration::from_millis(10));
        let mut talk = Talk::to(address).exchanges(RECENT_SAMPLES);
        // Up and down by less, and more, than what looks like a delayed acknowledgement.
        for millis in [25, 5, 80, 10] {
            let configured = Duration::from_millis(millis);
            setup.path.set_rtt(configured);
            let before = samples(&setup.rtt, address).samples;
            let measured = measure(
                &setup,
                address,
                || talk.exchange(),
                |measured| measured.recent().next().is_some_and(|newest| is_close(newest, configured)),
            );
            let smoothed = RttSample { at_ns: 1, rtt_us: measured.smoothed_us.into() };
            println!(
                "to {configured:?} ({address}): {} us after {} samples, smoothed {} us",
                measured.last_us,
                measured.samples - before,
                measured.smoothed_us
            );
            assert!(!is_close(smoothed, configured), "raw samples were no faster: {measured:?}");
            // A handshake tells the new round trip by itself.
            measure(
                &setup,
                address,
                || drop(Talk::to(address)),
                |measured| is_close(measured.handshake, configured),
            );
            // The smoothed one comes there in the end.
            measure(
                &setup,
                address,
                || talk.exchange(),
                |measured| is_close(RttSample { at_ns: 1, rtt_us: measured.smoothed_us.into() }, configured),
            );
        }
    }
}

/// As Linux before 6.10 is: it calls back, but without the sample. There is no such kernel here, so the program is made to
/// read zeroes where the sample would be.
#[test]
fn a_kernel_that_does_not_tell_samples_leaves_handshakes_and_the_smoothed() {
    const CONTEXT_LOAD: u8 = 0x61;
    const STACK: u8 = 10;
    const MOVE_IMMEDIATE: u8 = 0xb7;
    let Some(_) = attach() else { return };
    if !has_paths() {
        return;
    }
    let object = [4, 8].into_iter().fold(options().object, |object, argument_offset| {
        let is_load = |instruction: [u8; 8]| {
            instruction[0] == CONTEXT_LOAD
                && instruction[1] >> 4 != STACK
                && instruction[2..] == [argument_offset, 0, 0, 0, 0, 0]
        };
        patched(&object, is_load, |instruction| {
            let register = instruction[1] & 0x0f;
            instruction.copy_from_slice(&[MOVE_IMMEDIATE, register, 0, 0, 0, 0, 0, 0]);
        })
    });
    let mut rtt = KernelRtt::attach(Options { object, ..options() }).expect("it attaches");
    let configured = Duration::from_millis(20);
    let path = DelayedPath::new(configured);
    let echo = Echo::at(path.near()[0]);
    let address = path.far(echo.address());
    rtt.follow([address].into_iter()).expect("room");
    let setup = Setup { echoes: [echo, Echo::at(path.near()[1])], path, rtt };
    let measured = measure(
        &setup,
        address,
        || Talk::to(address).exchanges(RECENT_SAMPLES),
        |measured| is_close(measured.handshake, configured),
    );
    assert_eq!(measured.recent().count(), 0, "{measured:?}");
    assert_eq!(measured.turn, 0, "{measured:?}");
    assert!(measured.samples > RECENT_SAMPLES as u64, "callbacks are counted: {measured:?}");
    assert_eq!(u64::from(measured.last_us), measured.handshake.rtt_us, "{measured:?}");
    assert!(measured.last_at_ns > measured.handshake.at_ns, "{measured:?}");
    assert!((20_000..=measured.handshake.rtt_us).contains(&measured.min_us.into()), "{measured:?}");
    assert!(measured.smoothed_us >= measured.min_us, "{measured:?}");
}
