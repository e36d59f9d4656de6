//! `cargo xtask ci`: everything that must hold before a change lands, on a bare machine with rustup.

use std::process::Command;

use anyhow::Result;

use crate::{
    cargo_deny, ebpf, fuzz, interleavings, python,
    step::Steps,
    structure,
    workspace::{self, apt_install, cargo, output},
};

/// Fuzzing of each target: enough to find what a change breaks at once.
const FUZZ_SECONDS: u32 = 10;

/// Names another object than the embedded one to the kernel tests.
const KERNEL_OBJECT_VARIABLE: &str = "STARGATE_TEST_KERNEL_OBJECT";

/// Runs all checks, up to the first that fails.
pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    steps.run("set up", set_up)?;
    steps.run("formatting", || {
        workspace::run(cargo().args(["fmt", "--all", "--check"]))?;
        workspace::run(cargo().args(["fmt", "--manifest-path", "tests/fuzz/Cargo.toml", "--check"]))
    })?;
    steps.run("structure", structure::check)?;
    steps.run("lints", || {
        workspace::run(cargo().args([
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    steps.run("kernel programs", ebpf::check_and_build)?;
    // As the tests' harness builds them, and by itself: otherwise its time would be the first test's.
    steps.run("programs under test", || {
        workspace::run(
            cargo().args(["build", "--locked", "-p", "stargate-controlplane", "--bin", "stargate"]).args([
                "-p",
                "stargate-bench",
                "--bin",
                "stargate-bench",
            ]),
        )
    })?;
    steps.run("tests", || {
        workspace::run(cargo().args(["test", "--locked", "--workspace", "--no-fail-fast"]))
    })?;
    steps.run("kernel program, as built here", || {
        // The tests before had the embedded program.
        if ebpf::built_is_embedded()? {
            println!("the same bytes as those that were tested");
            return Ok(());
        }
        workspace::run(
            cargo()
                .args(["test", "--locked", "-p", "stargate-tests", "--test", "kernel_rtt"])
                .env(KERNEL_OBJECT_VARIABLE, ebpf::built_object()),
        )
    })?;
    steps.run("interleavings", interleavings::check)?;
    steps.run("fuzzing, briefly", || fuzz::run_all(FUZZ_SECONDS))?;
    steps.run("dependencies", cargo_deny::check)?;
    steps.print_summary();
    Ok(())
}

/// Installs what a fresh machine lacks.
fn set_up() -> Result<()> {
    // Crates with a build script, and every link, need a C toolchain's linker.
    if output(Command::new("cc").arg("--version")).is_none() {
        apt_install(&["gcc", "libc6-dev"])?;
    }
    ebpf::set_up()?;
    python::prepare_test_environment()
}
