//! Named steps with their times: a reader of the output sees at once which one failed, and where the time went.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Steps, one after the other, up to the first that fails.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration)>,
}

// === impl Steps ===

impl Steps {
    /// Runs a step; its failure carries its name.
    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n=== {name}");
        let start = Instant::now();
        let result = step();
        let time = start.elapsed();
        let outcome = if result.is_ok() { "ok" } else { "FAILED" };
        println!("=== {name}: {outcome} in {:.1} s", time.as_secs_f64());
        self.done.push((name, time));
        result.with_context(|| format!("step `{name}` failed"))
    }

    /// Prints all steps with their times.
    pub(crate) fn print_summary(&self) {
        println!();
        for (name, time) in &self.done {
            println!("{:8.1} s  {name}", time.as_secs_f64());
        }
        let total: Duration = self.done.iter().map(|(_, time)| *time).sum();
        println!("{:8.1} s  in all", total.as_secs_f64());
    }
}
