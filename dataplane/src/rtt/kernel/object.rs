//! The program as the kernel takes it: built by `cargo xtask build-ebpf`, and part of the daemon, so that nobody needs a
//! BPF toolchain to run it.

use std::{borrow::Cow, fmt};

use aya::include_bytes_aligned;

/// The bytes of an object file with the program.
#[derive(Clone, PartialEq, Eq)]
pub struct Object(Cow<'static, [u8]>);

// === impl Object ===

impl Object {
    /// The embedded one.
    pub fn embedded() -> Self {
        Self(Cow::Borrowed(include_bytes_aligned!("backend_rtt.o")))
    }

    /// Another, as read from a file.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(Cow::Owned(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = if matches!(self.0, Cow::Borrowed(_)) { "embedded" } else { "given" };
        write!(formatter, "Object({origin}, {} bytes)", self.0.len())
    }
}
