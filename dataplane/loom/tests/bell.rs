//! No interleaving of a publisher and a core that begins to wait loses the core's wake-up.
#![cfg(loom)]
#![allow(unreachable_pub, missing_docs)]

use std::sync::Arc;

use loom::{
    sync::atomic::{
        AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread,
};

#[path = "../../src/core/bell/armed.rs"]
mod armed;

use armed::Armed;

/// What the two threads share: a bell, its byte on the wire, and the version of the snapshot.
struct Shared {
    armed: Armed,
    rung: AtomicUsize,
    version: AtomicUsize,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { armed: Armed::new(), rung: AtomicUsize::new(0), version: AtomicUsize::new(0) })
}

fn publish(shared: &Shared, version: usize) {
    // As weak as can be: the handshake must not rely on how snapshots are stored.
    shared.version.store(version, Relaxed);
    if shared.armed.take() {
        // A byte through the kernel is ordered after what came before it was written.
        shared.rung.fetch_add(1, Release);
    }
}

#[test]
fn a_core_that_arms_sees_the_snapshot_or_is_rung() {
    loom::model(|| {
        let shared = shared();
        let publisher = thread::spawn({
            let shared = shared.clone();
            move || publish(&shared, 1)
        });
        shared.armed.arm();
        let seen = shared.version.load(Relaxed);
        publisher.join().unwrap();
        assert!(seen == 1 || shared.rung.load(Relaxed) == 1, "it would sleep on");
    });
}

#[test]
fn arming_again_after_a_ring_misses_no_later_snapshot() {
    loom::model(|| {
        let shared = shared();
        let publisher = thread::spawn({
            let shared = shared.clone();
            move || {
                publish(&shared, 1);
                publish(&shared, 2);
            }
        });
        shared.armed.arm();
        let mut seen = shared.version.load(Relaxed);
        let heard = shared.rung.load(Acquire);
        if heard > 0 {
            shared.armed.arm();
            seen = shared.version.load(Relaxed);
        }
        publisher.join().unwrap();
        assert!(seen == 2 || shared.rung.load(Relaxed) > heard, "it would sleep on");
    });
}

#[test]
fn two_publishers_ring_once_for_one_arming() {
    loom::model(|| {
        let shared = shared();
        shared.armed.arm();
        let publishers: Vec<_> = (1..=2)
            .map(|version| {
                let shared = shared.clone();
                thread::spawn(move || publish(&shared, version))
            })
            .collect();
        for publisher in publishers {
            publisher.join().unwrap();
        }
        assert_eq!(shared.rung.load(Relaxed), 1);
    });
}

#[test]
fn a_core_that_has_stopped_waiting_is_rung_once_at_most() {
    loom::model(|| {
        let shared = shared();
        shared.armed.arm();
        let publisher = thread::spawn({
            let shared = shared.clone();
            move || {
                publish(&shared, 1);
                publish(&shared, 2);
            }
        });
        shared.armed.disarm();
        publisher.join().unwrap();
        assert!(shared.rung.load(Relaxed) <= 1);
        assert!(!shared.armed.take());
    });
}
