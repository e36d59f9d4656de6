//! A child process: its log in a file, its `ready` line, its signals, its end.
//!
//! Standard error goes to a file under `<target>/stargate-tests`, and is shown when the test fails. A process
//! that panicked fails its test even where no client noticed. Dropping the value kills the process by its
//! handle, so that no test can leave one behind or hit another's.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
};

use rustix::process::{Pid, kill_process};

use crate::{binaries::target_dir, poll::DEADLINE, poll::eventually_some};

/// Lines of a log shown when a test fails.
const LOG_LINES_SHOWN: usize = 200;

/// What is sent to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Please stop.
    Term,
    /// Ctrl-C.
    Int,
    /// Die at once.
    Kill,
    /// Freeze.
    Stop,
    /// Go on.
    Continue,
}

/// A running child process.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    ready_line: String,
    log: PathBuf,
    exit: Option<ExitStatus>,
}

// === impl Signal ===

impl From<Signal> for rustix::process::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Term => Self::TERM,
            Signal::Int => Self::INT,
            Signal::Kill => Self::KILL,
            Signal::Stop => Self::STOP,
            Signal::Continue => Self::CONT,
        }
    }
}

// === impl Process ===

impl Process {
    /// Starts `command` and waits for its first line on standard output, which must start with `ready `.
    pub fn start(name: &str, mut command: Command) -> Self {
        let log = log_dir().join(format!("{name}.log"));
        let log_file = File::create(&log).expect("a log file");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let stdout = child.stdout.take().expect("standard output is piped");
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = String::new();
            let _ = stdout.read_line(&mut line);
            let _ = sender.send(line);
            // Whatever follows is drained, so that the process never blocks on a full pipe.
            let _ = stdout.read_to_end(&mut Vec::new());
        });
        let mut process = Self { name: name.to_owned(), child, ready_line: String::new(), log, exit: None };
        let line = receiver.recv_timeout(DEADLINE).unwrap_or_default();
        // Dropped by the panic, `process` shows its log.
        assert!(line.starts_with("ready "), "{name} did not get ready; it printed {line:?}");
        line.trim_end().clone_into(&mut process.ready_line);
        process
    }

    /// The `ready` line.
    pub fn ready_line(&self) -> &str {
        &self.ready_line
    }

    /// The value of `key=value` in the `ready` line.
    pub fn ready_value(&self, key: &str) -> &str {
        self.ready_line
            .split(' ')
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
            .unwrap_or_else(|| panic!("no {key}= in {:?}", self.ready_line))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        assert!(self.exit.is_none(), "{} has ended already", self.name);
        kill_process(Pid::from_child(&self.child), signal.into()).expect("our own child can be signalled");
    }

    /// Its exit status, if it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.exit.is_none() {
            self.exit = self.child.try_wait().expect("our own child can be waited for");
        }
        self.exit
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let what = format!("{} ends", self.name);
        eventually_some(&what, || self.exited())
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        if self.exited().is_none() {
            self.child.kill().expect("our own child can be killed");
            self.exit = Some(self.child.wait().expect("our own child can be waited for"));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let log = self.log();
        let panicked = log.contains("panicked at");
        if thread::panicking() {
            let lines: Vec<&str> = log.lines().collect();
            let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
            eprintln!(
                "--- {} ({}), last {} lines\n{}",
                self.name,
                self.log.display(),
                shown.len(),
                shown.join("\n")
            );
        } else {
            assert!(!panicked, "{} panicked:\n{log}", self.name);
        }
    }
}

/// A folder for what one process writes, named after the test that runs.
pub(crate) fn log_dir() -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let test = thread::current().name().unwrap_or("unnamed").replace("::", "-");
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let dir = target_dir().join("stargate-tests").join(format!("{test}-{}-{number}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder for logs");
    dir
}

/// Writes `text` to a new file called `name` in a folder of the running test.
pub fn scratch_file(name: &str, text: &str) -> PathBuf {
    let path: PathBuf = Path::join(&log_dir(), name);
    fs::write(&path, text).expect("a scratch file");
    path
}
