//! Accounts for what the data plane observed: counters, histograms, one log line per failed request, and
//! samples of prefill throughput.

mod failure_log;
mod observer;

pub(crate) use observer::Observer;

#[cfg(test)]
mod tests;
