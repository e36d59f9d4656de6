//! The daemon: both planes in one process.

mod cli;
mod descriptors;
mod explain;
mod logging;
mod serve;
mod signals;

use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, Command};

/// Exit code of a configuration that cannot be used, as for a wrong flag.
const EXIT_CONFIG: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Before the configuration, whose connection limit is derived from it.
    let descriptors = descriptors::raise_limit();
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let config = match cli.flags.load(&environment) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    match cli.command.unwrap_or_default() {
        Command::CheckConfig => {
            for warning in config.warnings() {
                eprintln!("warning: {warning}");
            }
            println!("ok: {}", config.summary());
            ExitCode::SUCCESS
        }
        Command::Explain(options) => match explain::run(&options, config.admin.listen.0) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        },
        Command::Serve => {
            let (_flush, lines_dropped) = logging::start(&config.log);
            tracing::debug!(?descriptors, "descriptor limit");
            for warning in config.warnings() {
                tracing::warn!("{warning}");
            }
            match serve::serve(config, move || lines_dropped.dropped_lines() as u64) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    tracing::error!("{error:#}");
                    ExitCode::FAILURE
                }
            }
        }
    }
}
