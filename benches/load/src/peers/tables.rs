//! Which quantities each scenario's table shows, and what they are set against.

use super::{measured::Quantity, scenario::Scenario};

/// One quantity in a table.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) quantity: Quantity,
    pub(super) digits: usize,
    pub(super) compared: Compared,
}

/// How a quantity is set against others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// On its own.
    Plain,
    /// What it adds to the direct way of the same round.
    Added,
    /// Its ratio to the relay's, to `HAProxy`'s and to the other gateway's in the same round, too.
    Ratios,
}

const fn plain(name: &'static str, quantity: Quantity, digits: usize) -> Column {
    Column { name, quantity, digits, compared: Compared::Plain }
}

const fn ratios(name: &'static str, quantity: Quantity, digits: usize) -> Column {
    Column { name, quantity, digits, compared: Compared::Ratios }
}

const fn added(name: &'static str, quantity: Quantity) -> Column {
    Column { name, quantity, digits: 0, compared: Compared::Added }
}

const JSON: &[Column] = &[
    ratios("CPU-s / 100k requests", Quantity::CpuSPer100kRequests, 2),
    plain("requests/s", Quantity::RequestsPerS, 0),
    plain("requests / CPU-s", Quantity::RequestsPerCpuS, 0),
    ratios("CPU-s / 100k at the open rate", Quantity::CpuSPer100kRequestsOpen, 2),
    added("added p50 µs", Quantity::P50Us),
    added("added p99 µs", Quantity::P99Us),
    plain("RSS KB", Quantity::RssKb, 0),
];

const SSE: &[Column] = &[
    ratios("CPU-s / 100k SSE chunks", Quantity::CpuSPer100kChunks, 2),
    plain("chunks/s", Quantity::ChunksPerS, 0),
    plain("chunk gap p99 µs", Quantity::ChunkGapP99Us, 0),
    plain("RSS KB", Quantity::RssKb, 0),
];

const STREAMS: &[Column] = &[
    plain("RSS KB / stream", Quantity::RssKbPerStream, 2),
    plain("streams held", Quantity::StreamsHeld, 0),
    plain("RSS KB before", Quantity::RssKbBefore, 0),
    plain("RSS KB with them", Quantity::RssKb, 0),
];

const PROMPTS: &[Column] = &[
    ratios("CPU-ms / request", Quantity::CpuMsPerRequest, 3),
    plain("requests/s", Quantity::RequestsPerS, 0),
    added("added p50 µs", Quantity::P50Us),
    plain("RSS KB", Quantity::RssKb, 0),
];

const BACKENDS: &[Column] = &[
    ratios("CPU-s / 100k requests", Quantity::CpuSPer100kRequests, 2),
    plain("requests/s", Quantity::RequestsPerS, 0),
    plain("RSS KB", Quantity::RssKb, 0),
];

/// The columns of a scenario's table; the first is what it is about.
pub(super) fn columns(scenario: Scenario) -> &'static [Column] {
    match scenario {
        Scenario::Json => JSON,
        Scenario::Sse => SSE,
        Scenario::Streams => STREAMS,
        Scenario::Prompts { .. } => PROMPTS,
        Scenario::Backends { .. } => BACKENDS,
    }
}
