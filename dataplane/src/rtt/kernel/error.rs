//! What can fail between here and the kernel, each in one line that says what is missing.

use std::{io, path::PathBuf};

/// Why the program is not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is no cgroup to attach to.
    #[error("no cgroup to attach to: {0}")]
    NoCgroup(#[source] io::Error),
    /// The cgroup's folder cannot be opened.
    #[error("cannot open the cgroup {}: {source}", cgroup.display())]
    CgroupNotOpened {
        /// Its folder.
        cgroup: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The folder is none of a cgroup of version 2.
    #[error("{} is not a cgroup of version 2", .0.display())]
    NotACgroup(PathBuf),
    /// This process lacks capabilities.
    #[error("not permitted: this process lacks {}", missing.join(" and "))]
    NotPermitted {
        /// What would permit it.
        missing: Vec<&'static str>,
    },
    /// It has the capabilities that count, yet is refused.
    #[error(
        "not permitted ({step}) though this process has CAP_BPF and CAP_NET_ADMIN: a seccomp filter, a security module or \
         a user namespace forbids it"
    )]
    Forbidden {
        /// What was refused.
        step: &'static str,
    },
    /// The kernel has no such thing, or refuses what it was given.
    #[error("the kernel refuses it ({step}): {reason}")]
    Refused {
        /// What was refused.
        step: &'static str,
        /// What it said.
        reason: String,
    },
    /// The object holds no program that could be loaded.
    #[error("the object cannot be used: {0}")]
    Object(String),
}

/// Why an address is not measured, or what was measured is not read.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// There is no room for all.
    #[error("no room for {without_room} addresses beside the {followed} that are measured")]
    Full {
        /// Addresses that are measured.
        followed: usize,
        /// Addresses that are not.
        without_room: usize,
    },
    /// The kernel refused.
    #[error("the kernel refuses to {action}: {source}")]
    Refused {
        /// What it refused.
        action: &'static str,
        /// What it said.
        source: io::Error,
    },
}
