//! Many concurrent SSE streams: opens them at a rate, holds them open together, and reports what failed and what each
//! one cost in memory and descriptors. To see every stream to its end verifies all; to cut them then takes less time.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fmt,
    pin::pin,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Context;
use serde::Serialize;
use stargate_wire::net::{
    notify::Notify,
    race::{First, race},
    timer::PreciseTimer,
};

use super::{link::Observer, message::Target, recorder::Quantiles, session::Session};
use crate::procfs::{self, ProcessSample};

/// What to open.
pub(crate) struct StreamsPlan {
    /// Streams are spread over them in turn. Not empty.
    pub(crate) targets: Vec<Rc<Target>>,
    pub(crate) streams: usize,
    /// Streams opened a second, at most.
    pub(crate) ramp_per_s: f64,
    /// Streams that wait for their first chunk at one time, at most: a slow server gets as long as it takes.
    pub(crate) opening_at_once: usize,
    /// What has not been opened after this time never is.
    pub(crate) opening_timeout: Duration,
    /// Memory is read so long after the last stream opened: what opening took has been given back by then.
    pub(crate) settle: Duration,
    pub(crate) hold: Hold,
    pub(crate) timeout: Duration,
    pub(crate) pids: Vec<u32>,
}

/// How long streams are held open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Each to its end.
    ToTheEnd,
    /// Until memory has been read; then all that are open are cut, which is no failure.
    UntilRead,
}

/// What came of them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StreamsReport {
    pub(crate) streams: usize,
    /// Of these, those that the server was too slow for.
    pub(crate) never_opened: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    /// The most that were open (first chunk seen, last not yet) at one time.
    pub(crate) open_at_once: u64,
    /// Open when memory was read.
    pub(crate) open_when_sampled: u64,
    pub(crate) open_after_s: f64,
    pub(crate) elapsed_s: f64,
    pub(crate) sse_chunks: u64,
    pub(crate) first_byte: Quantiles,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chunk_gap: Option<Quantiles>,
    pub(crate) processes: Vec<ProcessMemory>,
}

/// A process's memory before, during and after.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProcessMemory {
    pub(crate) pid: u32,
    pub(crate) rss_bytes_before: u64,
    pub(crate) rss_bytes_open: u64,
    pub(crate) rss_bytes_after: u64,
    pub(crate) rss_bytes_per_stream: Option<f64>,
    pub(crate) pss_bytes_per_stream: Option<f64>,
    pub(crate) descriptors_before: usize,
    pub(crate) descriptors_open: usize,
    pub(crate) cpu_s: f64,
    pub(crate) cpu_s_per_100k_chunks: Option<f64>,
}

/// Counts streams between their first chunk and their end.
#[derive(Default)]
struct Gauge {
    /// Streams that have a first chunk or have failed.
    settled: Cell<u64>,
    open: Cell<u64>,
    open_max: Cell<u64>,
    changed: Notify,
}

// === impl Gauge ===

impl Gauge {
    /// Waits until so many streams have a first chunk or have failed.
    async fn settled(&self, count: u64) {
        loop {
            let seen = self.changed.version();
            if self.settled.get() >= count {
                return;
            }
            self.changed.changed_since(seen).await;
        }
    }
}

/// One stream's observer.
struct Opened<'a> {
    session: &'a Session,
    gauge: &'a Gauge,
    seen: Cell<bool>,
}

// === impl Opened ===

impl Observer for Opened<'_> {
    fn bytes(&self, count: usize) {
        self.session.bytes(count);
    }

    fn events(&self, count: u64, gap: Option<Duration>) {
        self.session.events(count, gap);
        if !self.seen.replace(true) {
            let gauge = self.gauge;
            gauge.open.set(gauge.open.get() + 1);
            gauge.open_max.set(gauge.open_max.get().max(gauge.open.get()));
            gauge.settled.set(gauge.settled.get() + 1);
            gauge.changed.notify();
        }
    }
}

/// Opens the streams and waits for their ends. Call it inside the runtime.
pub(crate) async fn hold(plan: &StreamsPlan) -> anyhow::Result<StreamsReport> {
    let session = Rc::new(Session::new(plan.timeout, None));
    let work = pin!(hold_watched(plan, &session));
    match race(work, pin!(session.watch())).await {
        First::Left(report) => report,
        First::Right(()) => unreachable!("the watch does not end"),
    }
}

async fn hold_watched(plan: &StreamsPlan, session: &Rc<Session>) -> anyhow::Result<StreamsReport> {
    let gauge = Rc::new(Gauge::default());
    let before = samples(&plan.pids)?;
    session.open_window(None);
    let start = Instant::now();
    let timer = PreciseTimer::new().context("timer")?;
    let mut tasks = Vec::with_capacity(plan.streams);
    for index in 0..plan.streams {
        let due = start + Duration::from_secs_f64(index as f64 / plan.ramp_per_s);
        timer.sleep(due.saturating_duration_since(Instant::now())).await.context("timer")?;
        let target = plan.targets[index % plan.targets.len()].clone();
        let left = plan.opening_timeout.saturating_sub(start.elapsed());
        let others = (index as u64).saturating_sub(plan.opening_at_once as u64 - 1);
        if left.is_zero() || monoio::time::timeout(left, gauge.settled(others)).await.is_err() {
            break;
        }
        tasks.push(monoio::spawn(stream(session.clone(), gauge.clone(), target, index as u64)));
    }
    gauge.settled(tasks.len() as u64).await;
    let never_opened = (plan.streams - tasks.len()) as u64;
    let open_after = start.elapsed();
    monoio::time::sleep(plan.settle).await;
    let open_when_sampled = gauge.open.get();
    let during = samples(&plan.pids)?;
    if plan.hold == Hold::UntilRead {
        session.recording.set(false);
        session.abort_all();
    }
    for task in tasks {
        task.await;
    }
    let elapsed = start.elapsed();
    let after = samples(&plan.pids)?;
    let recorder = session.recorder.borrow();
    let processes = before
        .iter()
        .zip(&during)
        .zip(&after)
        .map(|((before, during), after)| {
            memory(before, during, after, open_when_sampled, recorder.sse_events)
        })
        .collect();
    Ok(StreamsReport {
        streams: plan.streams,
        never_opened,
        completed: recorder.completed,
        failed: recorder.failed,
        errors: recorder.failures(),
        open_at_once: gauge.open_max.get(),
        open_when_sampled,
        open_after_s: open_after.as_secs_f64(),
        elapsed_s: elapsed.as_secs_f64(),
        sse_chunks: recorder.sse_events,
        first_byte: recorder.first_byte(),
        chunk_gap: recorder.gap(),
        processes,
    })
}

async fn stream(session: Rc<Session>, gauge: Rc<Gauge>, target: Rc<Target>, number: u64) {
    let mut link = session.link(&target);
    let begun = Instant::now();
    let observer = Opened { session: &session, gauge: &gauge, seen: Cell::new(false) };
    let outcome = link.exchange(target.message(number), &observer).await;
    link.disconnect();
    if session.recording.get() {
        let mut recorder = session.recorder.borrow_mut();
        match outcome {
            Ok(arrival) => recorder.completed(
                arrival.first_byte.saturating_duration_since(begun),
                arrival.last_byte.saturating_duration_since(begun),
            ),
            Err(failure) => recorder.failed(failure),
        }
    }
    if observer.seen.get() {
        gauge.open.set(gauge.open.get() - 1);
    } else {
        gauge.settled.set(gauge.settled.get() + 1);
        gauge.changed.notify();
    }
}

fn samples(pids: &[u32]) -> anyhow::Result<Vec<ProcessSample>> {
    pids.iter().map(|pid| procfs::sample(*pid)).collect()
}

fn memory(
    before: &ProcessSample,
    during: &ProcessSample,
    after: &ProcessSample,
    open: u64,
    chunks: u64,
) -> ProcessMemory {
    let per_stream =
        |before: u64, during: u64| (open > 0).then(|| (during as f64 - before as f64) / open as f64);
    let cpu_s = procfs::cpu_between(before, after).iter().map(|thread| thread.ns).sum::<u64>() as f64 / 1e9;
    ProcessMemory {
        pid: before.pid,
        rss_bytes_before: before.rss_bytes,
        rss_bytes_open: during.rss_bytes,
        rss_bytes_after: after.rss_bytes,
        rss_bytes_per_stream: per_stream(before.rss_bytes, during.rss_bytes),
        pss_bytes_per_stream: before
            .pss_bytes
            .zip(during.pss_bytes)
            .and_then(|(before, during)| per_stream(before, during)),
        descriptors_before: before.descriptors,
        descriptors_open: during.descriptors,
        cpu_s,
        cpu_s_per_100k_chunks: (chunks > 0).then(|| cpu_s * 1e5 / chunks as f64),
    }
}

impl fmt::Display for StreamsReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "streams       {} opened within {:.1} s, {} open at once, {} completed, {} failed in {:.1} s",
            self.streams as u64 - self.never_opened,
            self.open_after_s,
            self.open_at_once,
            self.completed,
            self.failed,
            self.elapsed_s
        )?;
        writeln!(
            out,
            "sse chunks    {}; first byte p50 {:.1} ms, p99 {:.1} ms",
            self.sse_chunks,
            self.first_byte.p50_us / 1e3,
            self.first_byte.p99_us / 1e3
        )?;
        for (kind, count) in &self.errors {
            writeln!(out, "error         {kind}: {count}")?;
        }
        for process in &self.processes {
            let kilobytes = |bytes: Option<f64>| {
                bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.2}", bytes / 1024.0))
            };
            writeln!(
                out,
                "pid {:<10}RSS {} -> {} KB with {} streams open ({} KB a stream, PSS {}), {} KB after; \
                 {} -> {} descriptors; {:.3} CPU-s, {:.3} per 100k SSE chunks",
                process.pid,
                process.rss_bytes_before / 1024,
                process.rss_bytes_open / 1024,
                self.open_when_sampled,
                kilobytes(process.rss_bytes_per_stream),
                kilobytes(process.pss_bytes_per_stream),
                process.rss_bytes_after / 1024,
                process.descriptors_before,
                process.descriptors_open,
                process.cpu_s,
                process.cpu_s_per_100k_chunks.unwrap_or(0.0)
            )?;
        }
        Ok(())
    }
}
