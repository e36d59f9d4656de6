//! What a measurement found, as JSON and as text.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use super::recorder::{Quantiles, Recorder};
use crate::procfs::{self, ProcessSample};

/// Threads of a process that are listed, those that spent most.
const THREADS_LISTED: usize = 8;

/// What a measurement found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) elapsed_s: f64,
    pub(crate) connections: usize,
    pub(crate) completed: u64,
    /// Of these, those whose first byte came within --slo-ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_time: Option<u64>,
    pub(crate) failed: u64,
    pub(crate) requests_per_s: f64,
    pub(crate) response_bytes: u64,
    pub(crate) sse_chunks: u64,
    pub(crate) sse_chunks_per_s: f64,
    pub(crate) first_byte: Quantiles,
    pub(crate) total: Quantiles,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chunk_gap: Option<Quantiles>,
    pub(crate) errors: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) open: Option<Open>,
    pub(crate) processes: Vec<ProcessCost>,
}

/// What is particular to an open loop.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Open {
    pub(crate) rate: f64,
    pub(crate) arrivals: String,
    /// Requests that were sent.
    pub(crate) dispatched: u64,
    /// Of these, sent more than 1 ms after they were due.
    pub(crate) late: u64,
    /// Requests that were due and never sent.
    pub(crate) unsent: u64,
}

/// What a process spent within the window.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProcessCost {
    pub(crate) pid: u32,
    pub(crate) cpu_s: f64,
    pub(crate) cpu_s_per_100k_requests: Option<f64>,
    pub(crate) cpu_s_per_100k_chunks: Option<f64>,
    pub(crate) threads: Vec<ThreadCost>,
    pub(crate) rss_bytes_before: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) pss_bytes: Option<u64>,
    pub(crate) descriptors: usize,
}

/// One thread's part.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ThreadCost {
    pub(crate) name: String,
    pub(crate) tid: u32,
    pub(crate) cpu_s: f64,
}

// === impl Report ===

impl Report {
    /// Sums a recorder up.
    pub(crate) fn new(
        recorder: &Recorder,
        elapsed: Duration,
        connections: usize,
        processes: Vec<ProcessCost>,
        open: Option<Open>,
    ) -> Self {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        Self {
            elapsed_s: seconds,
            connections,
            completed: recorder.completed,
            in_time: recorder.in_time(),
            failed: recorder.failed,
            requests_per_s: recorder.completed as f64 / seconds,
            response_bytes: recorder.response_bytes,
            sse_chunks: recorder.sse_events,
            sse_chunks_per_s: recorder.sse_events as f64 / seconds,
            first_byte: recorder.first_byte(),
            total: recorder.total(),
            chunk_gap: recorder.gap(),
            errors: recorder.failures(),
            open,
            processes,
        }
    }
}

// === impl ProcessCost ===

impl ProcessCost {
    /// What was spent between two samples, for so many requests and SSE chunks.
    pub(crate) fn between(before: &ProcessSample, after: &ProcessSample, requests: u64, chunks: u64) -> Self {
        let spent = procfs::cpu_between(before, after);
        let cpu_s = spent.iter().map(|thread| thread.ns).sum::<u64>() as f64 / 1e9;
        let per_100k = |count: u64| (count > 0).then(|| cpu_s * 1e5 / count as f64);
        Self {
            pid: after.pid,
            cpu_s,
            cpu_s_per_100k_requests: per_100k(requests),
            cpu_s_per_100k_chunks: per_100k(chunks),
            threads: spent
                .into_iter()
                .take(THREADS_LISTED)
                .filter(|thread| thread.ns > 0)
                .map(|thread| ThreadCost {
                    name: thread.name,
                    tid: thread.tid,
                    cpu_s: thread.ns as f64 / 1e9,
                })
                .collect(),
            rss_bytes_before: before.rss_bytes,
            rss_bytes: after.rss_bytes,
            pss_bytes: after.pss_bytes,
            descriptors: after.descriptors,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "requests      {} completed, {} failed in {:.2} s over {} connections: {:.0}/s",
            self.completed, self.failed, self.elapsed_s, self.connections, self.requests_per_s
        )?;
        if let Some(in_time) = self.in_time {
            writeln!(out, "in time       {in_time}: {:.0}/s", in_time as f64 / self.elapsed_s)?;
        }
        if self.sse_chunks > 0 {
            writeln!(out, "sse chunks    {}: {:.0}/s", self.sse_chunks, self.sse_chunks_per_s)?;
        }
        if let Some(open) = &self.open {
            writeln!(
                out,
                "open loop     {} at {}/s ({}), {} late by over 1 ms, {} never sent",
                open.dispatched, open.rate, open.arrivals, open.late, open.unsent
            )?;
        }
        writeln!(
            out,
            "{:14}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "µs", "min", "p50", "p90", "p99", "p99.9", "max"
        )?;
        write_quantiles(out, "first byte", &self.first_byte)?;
        write_quantiles(out, "last byte", &self.total)?;
        if let Some(gap) = &self.chunk_gap {
            write_quantiles(out, "chunk gap", gap)?;
        }
        for (kind, count) in &self.errors {
            writeln!(out, "error         {kind}: {count}")?;
        }
        for process in &self.processes {
            process.fmt(out)?;
        }
        Ok(())
    }
}

impl fmt::Display for ProcessCost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "pid {:<10}{:.3} CPU-s", self.pid, self.cpu_s)?;
        if let Some(cost) = self.cpu_s_per_100k_requests {
            write!(out, ", {cost:.3} per 100k requests")?;
        }
        if let Some(cost) = self.cpu_s_per_100k_chunks {
            write!(out, ", {cost:.3} per 100k SSE chunks")?;
        }
        let pss = self.pss_bytes.map_or(String::new(), |bytes| format!(", PSS {}", bytes / 1024));
        writeln!(
            out,
            "; RSS {} -> {} KB{pss}; {} descriptors",
            self.rss_bytes_before / 1024,
            self.rss_bytes / 1024,
            self.descriptors
        )?;
        for thread in &self.threads {
            writeln!(out, "  {:<18}{:>8}{:>10.3} CPU-s", thread.name, thread.tid, thread.cpu_s)?;
        }
        Ok(())
    }
}

fn write_quantiles(out: &mut fmt::Formatter<'_>, name: &str, quantiles: &Quantiles) -> fmt::Result {
    writeln!(
        out,
        "{name:14}{:>10.1}{:>10.1}{:>10.1}{:>10.1}{:>10.1}{:>10.1}",
        quantiles.min_us,
        quantiles.p50_us,
        quantiles.p90_us,
        quantiles.p99_us,
        quantiles.p999_us,
        quantiles.max_us
    )
}
