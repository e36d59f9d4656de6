//! `cargo xtask setup-ebpf`: all that a bare Debian machine with rustup lacks, in about a minute.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use anyhow::{Context, Result};

use super::toolchain::{Compiler, DEBIAN_RUSTC, LINKER_VERSION, linker};
use crate::workspace::{apt_install, cargo, output, run, target_dir};

/// Installs Debian's compiler with `core` for BPF, and a bpf-linker built against its LLVM.
pub(crate) fn set_up() -> Result<()> {
    if Compiler::find().is_ok() && linker().is_ok() {
        return Ok(());
    }
    if Compiler::at(Path::new(DEBIAN_RUSTC)).is_none() {
        apt_install(&["rustc-web", "libstd-rust-web-dev-bpf", "gcc", "libc6-dev"])?;
    }
    let compiler =
        Compiler::at(Path::new(DEBIAN_RUSTC)).context("Debian's compiler has no `core` for BPF")?;
    if linker().is_err() {
        install_linker(compiler.llvm_major().context("the compiler names no LLVM")?)?;
    }
    linker().map(drop)
}

/// Builds bpf-linker. It needs no more of LLVM than the shared library to link against, so a folder with one
/// symbolic link stands in for LLVM's development packages (half a gigabyte).
fn install_linker(llvm_major: &str) -> Result<()> {
    let multiarch = output(Command::new("gcc").arg("-print-multiarch")).context("gcc names no folder")?;
    let llvm = format!("/usr/lib/{multiarch}/libLLVM.so.{llvm_major}.1");
    let prefix = target_dir().join("tools/llvm");
    let library = prefix.join("lib/libLLVM.so");
    fs::create_dir_all(prefix.join("lib")).with_context(|| format!("{}", prefix.display()))?;
    if library.symlink_metadata().is_ok() {
        fs::remove_file(&library)?;
    }
    symlink(&llvm, &library).with_context(|| format!("{}", library.display()))?;
    run(cargo()
        .args(["install", "bpf-linker", "--version", LINKER_VERSION, "--locked", "--no-default-features"])
        .args(["--features", &format!("llvm-{llvm_major}")])
        .env("LLVM_PREFIX", &prefix)
        // It links one small object: building it fast matters more than how fast it runs.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0"))
}
