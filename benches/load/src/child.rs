//! A process that a measurement started: watched until it is ready, and stopped when this value goes.

use std::{
    fs::File,
    io::Read,
    net::SocketAddr,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
};

/// A process has this long to say that it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(15);

/// A process has this long to end when asked, before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Lines of a log that an error shows.
const LOG_TAIL_LINES: usize = 20;

/// A process that was started.
pub(crate) struct Started {
    name: String,
    child: Child,
    /// What it says of itself; `None` where that goes to its log, too.
    stdout: Option<ChildStdout>,
    log: PathBuf,
}

/// This program, which is engine, generator and starter at once.
pub(crate) fn own_path() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("own path")
}

// === impl Started ===

impl Started {
    /// Starts `program`, on `cpu` alone where one is given, its log in `folder`. It dies with this process,
    /// whatever ends that.
    pub(crate) fn new(
        name: &str,
        cpu: Option<usize>,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        Self::spawn(name, cpu, (program, arguments), folder, true)
    }

    /// Starts a program that has no `ready` line: whatever it says goes to its log.
    pub(crate) fn logged(
        name: &str,
        cpu: Option<usize>,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        Self::spawn(name, cpu, (program, arguments), folder, false)
    }

    fn spawn(
        name: &str,
        cpu: Option<usize>,
        (program, arguments): (&Path, &[String]),
        folder: &Path,
        says_ready: bool,
    ) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let stderr = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let stdout = if says_ready { Stdio::piped() } else { stderr.try_clone().context("log")?.into() };
        let mut command = Command::new(own_path()?);
        command.args(["run-pinned", "--parent", &std::process::id().to_string()]);
        if let Some(cpu) = cpu {
            command.args(["--core", &cpu.to_string()]);
        }
        let mut child = command
            .arg("--")
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdout = child.stdout.take();
        Ok(Self { name: name.to_owned(), child, stdout, log })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its `ready key=value …` line and returns the addresses under `key`.
    pub(crate) fn ready_addresses(&mut self, key: &str) -> anyhow::Result<Vec<SocketAddr>> {
        let line = self.ready_line()?;
        self.addresses(&line, key)
    }

    /// The addresses under `key` in its `ready` line.
    pub(crate) fn addresses(&self, line: &str, key: &str) -> anyhow::Result<Vec<SocketAddr>> {
        let list = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
            .with_context(|| format!("{}: no {key}= in its line: {line}", self.name))?;
        list.split(',')
            .map(|address| {
                address.parse().with_context(|| format!("{}: not an address: {address}", self.name))
            })
            .collect()
    }

    /// Waits for its `ready key=value …` line.
    pub(crate) fn ready_line(&mut self) -> anyhow::Result<String> {
        let stdout = self.stdout.as_mut().context("it has no ready line")?;
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut line = Vec::new();
        loop {
            if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                line.truncate(end);
                let line = String::from_utf8_lossy(&line).into_owned();
                if line.starts_with("ready ") {
                    return Ok(line);
                }
                bail!("{} said something else than ready: {line}", self.name);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let mut watched = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)];
            if poll(&mut watched, Some(&timeout)).context("poll")? == 0 {
                bail!(
                    "{} was not ready within {READY_TIMEOUT:?}; its log ends:\n{}",
                    self.name,
                    log_tail(&self.log)
                );
            }
            let mut part = [0; 512];
            match stdout.read(&mut part).context("read")? {
                0 => bail!("{} ended before it was ready; its log ends:\n{}", self.name, log_tail(&self.log)),
                count => line.extend_from_slice(&part[..count]),
            }
        }
    }

    /// An error when it has ended.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait().context("wait")? {
            bail!("{} ended with {status}; its log ends:\n{}", self.name, self.log_tail());
        }
        Ok(())
    }

    /// The last lines of its log.
    pub(crate) fn log_tail(&self) -> String {
        log_tail(&self.log)
    }
}

fn log_tail(log: &Path) -> String {
    let log = std::fs::read(log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

impl Drop for Started {
    fn drop(&mut self) {
        // Not reaped yet, so the id is still this child's.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
