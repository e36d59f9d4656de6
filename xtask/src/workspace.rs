//! Where things are, and how cargo is called.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the workspace")
}

/// Cargo's target folder.
pub(crate) fn target_dir() -> PathBuf {
    // This program lies in `<target>/<profile>/`.
    let own = env::current_exe().ok();
    own.as_deref()
        .and_then(|own| own.ancestors().nth(2))
        .map_or_else(|| root().join("target"), Path::to_owned)
}

/// Cargo, to be run in the workspace with this target folder.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).env("CARGO_TARGET_DIR", target_dir());
    cargo
}

/// Runs a command with the terminal's streams; an unsuccessful end is an error that shows the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{} does not start", shown(command)))?;
    ensure!(status.success(), "{} failed: {status}", shown(command));
    Ok(())
}

/// What a command that succeeds prints, trimmed; `None` when it fails or does not exist.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The triple of this machine.
pub(crate) fn host() -> Result<String> {
    let version = output(Command::new("rustc").arg("-vV")).context("rustc does not start")?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).context("rustc does not name its host")
}

/// Whether this process may install packages of the operating system.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Installs packages of Debian or Ubuntu.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    let wanted = packages.join(" ");
    ensure!(is_root(), "{wanted} is needed: `sudo apt-get install {wanted}`");
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    run(apt().args(["update", "-qq"]))?;
    run(apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
