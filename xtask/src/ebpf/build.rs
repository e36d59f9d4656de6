//! Building the object, the same bytes on every machine with the same tools.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use super::toolchain::{Compiler, Core, Linker, TARGET, linker};
use crate::workspace::{cargo, run, target_dir};

/// Cargo's profile for it.
pub(super) const PROFILE: &str = "ebpf";

/// Flags for the compiler, separated as cargo wants it. The instruction set is named, since LLVM's default has changed
/// before: v2 is in every kernel since 4.14.
pub(super) const RUSTFLAGS: &str = "-Ctarget-cpu=v2";

/// A compiler and a linker.
pub(super) fn tools() -> Result<(Compiler, Linker)> {
    Ok((Compiler::find()?, linker()?))
}

/// Where the object is built to.
pub(crate) fn object() -> PathBuf {
    target_dir().join("ebpf").join(TARGET).join(PROFILE).join("stargate-ebpf")
}

/// Builds the kernel programs; returns the object.
pub(super) fn build(compiler: &Compiler, linker: &Linker) -> Result<Vec<u8>> {
    let mut build = cargo();
    build
        .args(["build", "--locked", "-p", "stargate-ebpf", "--profile", PROFILE, "--target", TARGET])
        .arg("--target-dir")
        .arg(target_dir().join("ebpf"))
        .env("RUSTC", &compiler.rustc)
        // aya-ebpf uses `asm_experimental_arch`, which a stable compiler has, but locked.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("PATH", &linker.search_path)
        .env("CARGO_ENCODED_RUSTFLAGS", RUSTFLAGS)
        // What is set for the host's compiler would not fit this one.
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTUP_TOOLCHAIN");
    if compiler.core == Core::Source {
        build.args(["-Z", "build-std=core"]);
    }
    run(&mut build)?;
    let object = object();
    fs::read(&object).with_context(|| format!("cargo built no {}", object.display()))
}
