//! `cargo xtask setup-ebpf`: all that a machine with rustup lacks to build the kernel programs, in about a minute.
//!
//! Debian has a compiler with `core` for BPF as packages. Ubuntu has none; there a nightly toolchain of rustup's takes
//! its place. Elsewhere this says what to do, rather than guess at a package manager.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use super::toolchain::{Compiler, DEBIAN_RUSTC, LINKER_VERSION, linker};
use crate::workspace::{apt_install, cargo, output, run, target_dir};

/// Debian's compiler, with `core` for BPF.
const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "libstd-rust-web-dev-bpf"];

/// What compiles bpf-linker.
const C_TOOLCHAIN: [&str; 2] = ["gcc", "libc6-dev"];

/// A toolchain with the sources of `core`. rustup itself is left as it is.
const NIGHTLY: [&str; 8] = [
    "toolchain",
    "install",
    "nightly",
    "--no-self-update",
    "--profile",
    "minimal",
    "--component",
    "rust-src",
];

/// Installs a compiler and a linker, as far as they are missing.
pub(crate) fn set_up() -> Result<()> {
    let compiler = match Compiler::find() {
        Ok(compiler) => compiler,
        Err(_) => install_compiler()?,
    };
    if linker().is_err() {
        install_linker(&compiler)?;
    }
    println!("{compiler}; {}", linker()?.version);
    Ok(())
}

fn install_compiler() -> Result<Compiler> {
    if !has_apt() {
        bail!(
            "installing is for Debian and Ubuntu. Here: `rustup {}`, then `cargo xtask setup-ebpf` again for bpf-linker \
             {LINKER_VERSION}, which needs a C toolchain",
            NIGHTLY.join(" ")
        );
    }
    if DEBIAN_PACKAGES.into_iter().all(apt_offers) {
        apt_install(&DEBIAN_PACKAGES)?;
        Compiler::at(Path::new(DEBIAN_RUSTC)).context("Debian's compiler has no `core` for BPF")
    } else {
        run(Command::new("rustup").args(NIGHTLY))?;
        Compiler::find()
    }
}

/// Builds bpf-linker against the compiler's own LLVM, whose bitcode it reads. It needs no more of LLVM than the shared
/// library to link against, so a folder with a symbolic link or two stands in for LLVM's development packages (half a
/// gigabyte).
fn install_linker(compiler: &Compiler) -> Result<()> {
    if output(Command::new("cc").arg("--version")).is_none() {
        if !has_apt() {
            bail!("a C toolchain is needed to build bpf-linker: `cc` does not start");
        }
        apt_install(&C_TOOLCHAIN)?;
    }
    let major = compiler.llvm_major().context("the compiler names no LLVM")?;
    let llvm = compiler.llvm_library()?;
    let prefix = target_dir().join("tools/llvm");
    let libraries = prefix.join("lib");
    fs::create_dir_all(&libraries).with_context(|| format!("{}", prefix.display()))?;
    // By the first name it is linked, by the second it is found when the linker runs.
    for name in ["libLLVM.so".as_ref(), llvm.file_name().context("the library has no name")?] {
        let link = libraries.join(name);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        symlink(&llvm, &link).with_context(|| format!("{}", link.display()))?;
    }
    run(cargo()
        .args(["install", "bpf-linker", "--version", LINKER_VERSION, "--locked", "--no-default-features"])
        .args(["--features", &format!("llvm-{major}")])
        .env("LLVM_PREFIX", &prefix)
        // It links one small object: building it fast matters more than how fast it runs.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0"))
}

fn has_apt() -> bool {
    output(Command::new("apt-get").arg("--version")).is_some()
}

/// Whether this distribution has such a package, also when its lists have never been fetched: then Debian is taken at its
/// word.
fn apt_offers(package: &str) -> bool {
    let known =
        output(Command::new("apt-cache").args(["show", package])).is_some_and(|text| !text.is_empty());
    known
        || fs::read_to_string("/etc/os-release")
            .is_ok_and(|text| text.lines().any(|line| line == "ID=debian"))
}
