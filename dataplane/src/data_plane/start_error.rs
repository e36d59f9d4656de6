//! Why a data plane did not start.
//!
//! Each says what to mend: a setting, an address, a CPU, or what the kernel refuses.

use std::{io, net::SocketAddr};

use crate::{
    rtt::{RttError, RttStartError},
    settings::SettingsError,
};

/// Why the data plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// `cores` names a CPU that this process may not use.
    #[error("cannot run on CPU {cpu}: this process may use {allowed:?}")]
    Core {
        /// The CPU asked for.
        cpu: usize,
        /// Those allowed.
        allowed: Vec<usize>,
    },
    /// The kernel interface cannot be used.
    #[error("{0}")]
    Driver(String),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// Round-trip times cannot be measured as asked for.
    #[error(transparent)]
    Rtt(#[from] RttError),
}

// === impl StartError ===

impl From<RttStartError> for StartError {
    fn from(error: RttStartError) -> Self {
        match error {
            RttStartError::Source(error) => Self::Rtt(error),
            RttStartError::Thread(error) => Self::Thread(error),
        }
    }
}
