//! Processes that this program starts, and that never outlive it: not its normal end, not an error, not Ctrl-C.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

/// How long a process may take to say that it is ready.
const READY_MAX: Duration = Duration::from_secs(30);

/// How long a process may take to end after it was asked to.
const STOP_MAX: Duration = Duration::from_secs(5);

/// Between two looks whether a process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Exit status after a signal, less its number, as shells use it.
const SIGNALLED: i32 = 128;

/// Running processes. Dropping the value stops them.
#[derive(Debug)]
pub(crate) struct Children {
    running: Arc<Mutex<Vec<Child>>>,
    log_dir: PathBuf,
}

// === impl Children ===

impl Children {
    /// No processes yet; from now on Ctrl-C and SIGTERM stop all that are started.
    pub(crate) fn new(log_dir: &Path) -> Result<Self> {
        let running = Arc::<Mutex<Vec<Child>>>::default();
        let to_stop = running.clone();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                stop_all(&to_stop);
                process::exit(SIGNALLED + signal);
            }
        });
        Ok(Self { running, log_dir: log_dir.to_owned() })
    }

    /// Starts a process and waits for its `ready` line, which is returned. Its log goes to a file of its name.
    pub(crate) fn start(&self, name: &str, mut command: Command) -> Result<String> {
        let log = self.log_dir.join(format!("{name}.log"));
        let log_file = File::create(&log).with_context(|| format!("{}", log.display()))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .with_context(|| format!("{name} does not start"))?;
        let stdout = child.stdout.take().context("standard output is piped")?;
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = String::new();
            let _ = stdout.read_line(&mut line);
            let _ = sender.send(line);
            let _ = stdout.read_to_end(&mut Vec::new());
        });
        let line = receiver.recv_timeout(READY_MAX).unwrap_or_default();
        if line.starts_with("ready ") {
            return Ok(line.trim_end().to_owned());
        }
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        bail!("{name} did not get ready:\n{line}{said}");
    }

    /// Waits for as long as the first process lives, or until Ctrl-C ends everything.
    pub(crate) fn wait(&self) -> Result<()> {
        loop {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            for child in running.iter_mut() {
                if let Some(status) = child.try_wait()? {
                    bail!("a process ended by itself: {status}; see {}", self.log_dir.display());
                }
            }
            drop(running);
            thread::sleep(POLL_INTERVAL * 10);
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        stop_all(&self.running);
    }
}

/// Asks all to stop, in reverse order of their start, and ends those that do not.
fn stop_all(running: &Mutex<Vec<Child>>) {
    let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
    for child in running.iter_mut().rev() {
        if !matches!(child.try_wait(), Ok(Some(_))) {
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
    }
    let deadline = Instant::now() + STOP_MAX;
    for mut child in running.drain(..) {
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(POLL_INTERVAL);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
