//! A compiler that has `core` for the BPF target, and bpf-linker.
//!
//! rustup's stable toolchains have none. Debian's `rustc-web` has a compiled one; nightly with `rust-src` has the
//! sources. The first that is found is taken.

use std::{
    env,
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::workspace::output;

/// The BPF target for little-endian hosts.
pub(super) const TARGET: &str = "bpfel-unknown-none";

/// The linker's release: it must be built against the LLVM of the compiler, and understand its bitcode.
pub(super) const LINKER_VERSION: &str = "0.13.0";

/// Debian's compiler.
pub(super) const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// Names a compiler explicitly.
const RUSTC_VARIABLE: &str = "STARGATE_EBPF_RUSTC";

/// How a compiler has `core`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Core {
    /// Compiled.
    Prebuilt,
    /// As sources, to be compiled with `-Z build-std`.
    Source,
}

/// A usable compiler.
#[derive(Debug)]
pub(super) struct Compiler {
    /// Its path.
    pub(super) rustc: PathBuf,
    /// How it has `core`.
    pub(super) core: Core,
    version: String,
}

/// A usable linker.
#[derive(Debug)]
pub(super) struct Linker {
    /// As it says.
    pub(super) version: String,
    /// `PATH` in which it is found.
    pub(super) search_path: OsString,
}

// === impl Compiler ===

impl Compiler {
    /// Finds one.
    pub(super) fn find() -> Result<Self> {
        let candidates = match env::var_os(RUSTC_VARIABLE) {
            Some(rustc) => vec![PathBuf::from(rustc)],
            None => [Some(PathBuf::from(DEBIAN_RUSTC)), rustup_nightly()].into_iter().flatten().collect(),
        };
        for rustc in &candidates {
            if let Some(compiler) = Self::at(rustc) {
                return Ok(compiler);
            }
        }
        let tried = candidates.iter().map(|rustc| rustc.display().to_string()).collect::<Vec<_>>().join(", ");
        bail!(
            "no compiler with `core` for {TARGET} (tried {tried}): run `cargo xtask setup-ebpf` (Debian, Ubuntu), or \
             `rustup toolchain install nightly --component rust-src`, or name one in {RUSTC_VARIABLE}"
        )
    }

    /// The compiler at this path, if it is usable.
    pub(super) fn at(rustc: &Path) -> Option<Self> {
        let sysroot = PathBuf::from(output(Command::new(rustc).args(["--print", "sysroot"]))?);
        let rustlib = sysroot.join("lib/rustlib");
        let has_compiled_core = fs::read_dir(rustlib.join(TARGET).join("lib")).is_ok_and(|entries| {
            entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
        });
        let core = if has_compiled_core {
            Core::Prebuilt
        } else if rustlib.join("src/rust/library/core/src/lib.rs").exists() {
            Core::Source
        } else {
            return None;
        };
        let version = output(Command::new(rustc).arg("-vV"))?;
        Some(Self { rustc: rustc.to_owned(), core, version })
    }

    /// The major version of its LLVM.
    pub(super) fn llvm_major(&self) -> Option<&str> {
        self.line("LLVM version: ").split('.').next().filter(|major| !major.is_empty())
    }

    /// The shared library of its LLVM: in its own folder as rustup lays it out, or where the distribution has it.
    pub(super) fn llvm_library(&self) -> Result<PathBuf> {
        let sysroot = output(Command::new(&self.rustc).args(["--print", "sysroot"])).context("no sysroot")?;
        let multiarch = output(Command::new("gcc").arg("-print-multiarch")).unwrap_or_default();
        let major = self.llvm_major().context("the compiler names no LLVM")?;
        let start = format!("libLLVM.so.{major}.");
        let folders = [Path::new(&sysroot).join("lib"), Path::new("/usr/lib").join(multiarch)];
        let libraries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        libraries
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start)))
            .with_context(|| format!("no {start}* of {}", self.rustc.display()))
    }

    /// What it is, wherever it lies: two with the same identity build the same object.
    pub(super) fn identity(&self) -> String {
        let core = match self.core {
            Core::Prebuilt => "compiled",
            Core::Source => "from source",
        };
        let hash = self.line("commit-hash: ").get(..9).unwrap_or("?");
        format!(
            "rustc {} ({hash}), LLVM {}, core {core}",
            self.line("release: "),
            self.line("LLVM version: ")
        )
    }

    fn line(&self, key: &str) -> &str {
        self.version.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default()
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is {}", self.rustc.display(), self.identity())
    }
}

/// Finds bpf-linker, in `PATH` or where cargo installs.
pub(super) fn linker() -> Result<Linker> {
    let mut folders = vec![cargo_bin().context("cargo has no home")?];
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let search_path = env::join_paths(folders)?;
    let version = output(Command::new("bpf-linker").arg("--version").env("PATH", &search_path))
        .filter(|version| version.contains(LINKER_VERSION))
        .with_context(|| format!("no bpf-linker {LINKER_VERSION}: run `cargo xtask setup-ebpf`"))?;
    Ok(Linker { version, search_path })
}

fn cargo_bin() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    Some(home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))?.join("bin"))
}

/// The real compiler behind rustup's proxy.
fn rustup_nightly() -> Option<PathBuf> {
    output(Command::new("rustup").args(["which", "rustc", "--toolchain", "nightly"])).map(PathBuf::from)
}
