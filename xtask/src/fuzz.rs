//! Runs the fuzz targets of `tests/fuzz`, by the toolchain of this workspace.
//!
//! `cargo fuzz` wants a nightly toolchain for its sanitizers. The coverage that libFuzzer is guided by needs none:
//! it is an LLVM pass, asked for here. What is lost is the address sanitizer, which safe code has little use for.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace::{apt_install, cargo, host, output, root, run, target_dir};

/// The targets.
const TARGETS: [&str; 4] =
    ["routing_expression", "routing_document_json", "routing_document_toml", "config_toml"];

/// What `cargo fuzz` passes, but for the sanitizer.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                         -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                         -Cllvm-args=-sanitizer-coverage-pc-table \
                         -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Longest input, in bytes: a few times an expression, a handful of sections.
const INPUT_BYTES_MAX: &str = "4096";
/// Seconds that one input may take before it is a finding.
const INPUT_SECONDS_MAX: &str = "10";

/// What can be chosen.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Only this target.
    target: Option<String>,
}

/// Fuzzes as chosen.
pub(crate) fn run_chosen(options: &Options) -> Result<()> {
    match &options.target {
        None => run_targets(&TARGETS, options.seconds),
        Some(target) if TARGETS.contains(&target.as_str()) => run_targets(&[target], options.seconds),
        Some(other) => bail!("no target {other:?}; there are {}", TARGETS.join(", ")),
    }
}

/// Fuzzes each target for so many seconds.
pub(crate) fn run_all(seconds: u32) -> Result<()> {
    run_targets(&TARGETS, seconds)
}

fn run_targets(targets: &[&str], seconds: u32) -> Result<()> {
    // libFuzzer is C++.
    if output(Command::new("c++").arg("--version")).is_none() {
        apt_install(&["g++"])?;
    }
    let (folder, build) = (root().join("tests/fuzz"), target_dir().join("fuzz"));
    let host = host()?;
    let mut cargo = cargo();
    cargo
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", &build)
        .env("RUSTFLAGS", RUSTFLAGS)
        // With a target named, build scripts and macros stay without instrumentation.
        .args(["build", "--locked", "--release", "--target", &host]);
    run(&mut cargo)?;
    for target in targets {
        let corpus = build.join("corpus").join(target);
        let findings = build.join("findings");
        for folder in [&corpus, &findings] {
            fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        let program = build.join(&host).join("release").join(target);
        let mut fuzzer = Command::new(program);
        fuzzer
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={INPUT_BYTES_MAX}"))
            .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
            .arg(format!("-artifact_prefix={}/", findings.display()))
            .args(["-verbosity=0", "-print_final_stats=1"])
            .arg(corpus)
            .arg(seeds(&folder, target));
        run(&mut fuzzer).with_context(|| format!("{target}: see {}", findings.display()))?;
    }
    Ok(())
}

/// Inputs to start from.
fn seeds(folder: &Path, target: &str) -> std::path::PathBuf {
    folder.join("seeds").join(target)
}
