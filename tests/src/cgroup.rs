//! A cgroup of a test's own, below the one that the test runs in.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::poll::eventually;

/// A cgroup of version 2. Removed when dropped, by when its processes must have ended.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

// === impl Cgroup ===

impl Cgroup {
    /// Makes one inside `parent`, the folder of another.
    pub fn new(parent: &Path) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("stargate-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Moves a process into it. Sockets that the process has opened stay where they were.
    pub fn take(&self, process: u32) {
        fs::write(self.0.join("cgroup.procs"), process.to_string()).expect("the process can be moved");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = fs::remove_dir(&self.0);
        } else {
            // A process that has ended leaves its cgroup a moment later.
            eventually("the cgroup is empty", || fs::remove_dir(&self.0).is_ok());
        }
    }
}
