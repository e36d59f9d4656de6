//! Levels and counts of one core, written by it alone and read by anyone.
//!
//! One writer means that a change is a load and a store, without the cost of an atomic read-modify-write.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crossbeam::utils::CachePadded;
use stargate_routing::ReservationCounts;

/// Levels of one core at one moment, for gauges.
#[derive(Clone, Debug, Default)]
pub struct CoreLevels {
    /// CPU number.
    pub cpu: usize,
    /// Which driver it runs on: `io_uring (defer_taskrun)`, `io_uring (coop_taskrun)`, `io_uring`, `epoll`.
    pub driver: &'static str,
    /// Client connections: with a request in progress.
    pub client_active: u64,
    /// Client connections: waiting for a request.
    pub client_idle: u64,
    /// Upstream connections: in use.
    pub upstream_active: u64,
    /// Upstream connections: idle in the pool.
    pub upstream_idle: u64,
    /// Bytes of request bodies held for replay, bodies of 16 KiB and more.
    pub replay_bytes: u64,
    /// Requests that wait for a place.
    pub waiters: u64,
    /// Version of the snapshot that it last looked at.
    pub snapshot_version: u64,
    /// Share of time spent working, 0..=1, over the last second.
    pub busy_ratio: f64,
    /// Observations dropped because the queue was full, since start.
    pub observations_dropped: u64,
    /// Times that accepting paused at a limit, since start.
    pub accept_paused: u64,
    /// Requests that met a panic, since start.
    pub panics: u64,
    /// Routing expressions that were found as they had been read before, since start.
    pub expressions_found: u64,
    /// Routing expressions that were read, since start.
    pub expressions_read: u64,
    /// Routing expressions that were refused, since start.
    pub expressions_refused: u64,
    /// What has become of its reservations, as of some moment within the last tick of 25 ms.
    pub reservations: ReservationCounts,
}

/// A value with one writer.
#[derive(Debug, Default)]
pub(crate) struct Level(AtomicU64);

/// All levels of one core, on cache lines of their own.
#[derive(Debug)]
pub(crate) struct Levels {
    pub(crate) cpu: usize,
    pub(crate) driver: &'static str,
    values: CachePadded<Values>,
}

/// The values behind [`CoreLevels`].
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) client_active: Level,
    pub(crate) client_idle: Level,
    pub(crate) upstream_active: Level,
    pub(crate) upstream_idle: Level,
    pub(crate) replay_bytes: Level,
    pub(crate) waiters: Level,
    pub(crate) snapshot_version: Level,
    pub(crate) busy_permille: Level,
    pub(crate) observations_dropped: Level,
    pub(crate) accept_paused: Level,
    pub(crate) panics: Level,
    pub(crate) expressions_found: Level,
    pub(crate) expressions_read: Level,
    pub(crate) expressions_refused: Level,
    pub(crate) reservations: ReservationLevels,
}

/// [`ReservationCounts`] as they were last told.
#[derive(Debug, Default)]
pub(crate) struct ReservationLevels {
    created: Level,
    expired: Level,
    released: Level,
    dropped: Level,
    handed_over: Level,
    pending: Level,
    ttl: [Level; ReservationCounts::TTL_BOUNDS.len() + 1],
    ttl_sum_ns: Level,
}

/// Something counted in a level for as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted {
    levels: Arc<Levels>,
    level: fn(&Values) -> &Level,
    value: u64,
}

// === impl Level ===

impl Level {
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn add(&self, value: u64) {
        self.set(self.get() + value);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

// === impl ReservationLevels ===

impl ReservationLevels {
    pub(crate) fn set(&self, counts: &ReservationCounts) {
        self.created.set(counts.created);
        self.expired.set(counts.expired);
        self.released.set(counts.released);
        self.dropped.set(counts.dropped);
        self.handed_over.set(counts.handed_over);
        self.pending.set(counts.pending);
        for (level, count) in self.ttl.iter().zip(counts.ttl) {
            level.set(count);
        }
        self.ttl_sum_ns.set(u64::try_from(counts.ttl_sum.as_nanos()).unwrap_or(u64::MAX));
    }

    fn read(&self) -> ReservationCounts {
        ReservationCounts {
            created: self.created.get(),
            expired: self.expired.get(),
            released: self.released.get(),
            dropped: self.dropped.get(),
            handed_over: self.handed_over.get(),
            pending: self.pending.get(),
            ttl: std::array::from_fn(|bucket| self.ttl[bucket].get()),
            ttl_sum: Duration::from_nanos(self.ttl_sum_ns.get()),
        }
    }
}

// === impl Counted ===

impl Counted {
    /// Adds `value` to the level until the result is dropped.
    pub(crate) fn new(levels: &Arc<Levels>, level: fn(&Values) -> &Level, value: u64) -> Self {
        level(levels).add(value);
        Self { levels: levels.clone(), level, value }
    }

    /// Adds `value` more.
    pub(crate) fn grow(&mut self, value: u64) {
        (self.level)(&self.levels).add(value);
        self.value += value;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let level = (self.level)(&self.levels);
        level.set(level.get() - self.value);
    }
}

// === impl Levels ===

impl Levels {
    pub(crate) fn new(cpu: usize, driver: &'static str) -> Self {
        Self { cpu, driver, values: CachePadded::new(Values::default()) }
    }

    pub(crate) fn read(&self) -> CoreLevels {
        CoreLevels {
            cpu: self.cpu,
            driver: self.driver,
            client_active: self.client_active.get(),
            client_idle: self.client_idle.get(),
            upstream_active: self.upstream_active.get(),
            upstream_idle: self.upstream_idle.get(),
            replay_bytes: self.replay_bytes.get(),
            waiters: self.waiters.get(),
            snapshot_version: self.snapshot_version.get(),
            busy_ratio: self.busy_permille.get() as f64 / 1000.0,
            observations_dropped: self.observations_dropped.get(),
            accept_paused: self.accept_paused.get(),
            panics: self.panics.get(),
            expressions_found: self.expressions_found.get(),
            expressions_read: self.expressions_read.get(),
            expressions_refused: self.expressions_refused.get(),
            reservations: self.reservations.read(),
        }
    }
}

impl std::ops::Deref for Levels {
    type Target = Values;

    fn deref(&self) -> &Values {
        &self.values
    }
}
