//! The kernel programs: what builds them, and installing that.

mod setup;
mod toolchain;

use std::path::PathBuf;

use anyhow::{Result, ensure};

pub(crate) use self::setup::set_up;
use self::toolchain::{Compiler, Core, linker};
use crate::workspace::{cargo, run, target_dir};

/// The BPF target for little-endian hosts.
const TARGET: &str = "bpfel-unknown-none";

/// Cargo's profile for it.
const PROFILE: &str = "ebpf";

/// Where the object is built to; the kernel test loads it from there.
pub(crate) fn object() -> PathBuf {
    target_dir().join("ebpf").join(TARGET).join(PROFILE).join("stargate-ebpf")
}

/// Builds the kernel programs.
pub(crate) fn build() -> Result<()> {
    let compiler = Compiler::find()?;
    let linker = linker()?;
    println!("{compiler}; {}", linker.version);
    let mut build = cargo();
    build
        .args([
            "build",
            "--locked",
            "-p",
            "stargate-ebpf",
            "--profile",
            PROFILE,
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(target_dir().join("ebpf"))
        .env("RUSTC", &compiler.rustc)
        // aya-ebpf uses `asm_experimental_arch`, which a stable compiler has, but locked.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("PATH", linker.search_path)
        // What is set for the host's compiler would not fit this one.
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTUP_TOOLCHAIN");
    if compiler.core == Core::Source {
        build.args(["-Z", "build-std=core"]);
    }
    run(&mut build)?;
    let object = object();
    ensure!(object.exists(), "cargo built no {}", object.display());
    println!("{}", object.display());
    Ok(())
}
