//! The program as the kernel takes it: built by `cargo xtask build-ebpf`, and part of the daemon, so that nobody needs a
//! BPF toolchain to run it.
//!
//! The record beside it tells what it was built from, and by what. xtask's tests hold the two together and to the sources: a
//! stale object fails `cargo test`.

use std::{borrow::Cow, fmt};

use aya::include_bytes_aligned;

/// The bytes of an object file with the program.
#[derive(Clone, PartialEq, Eq)]
pub struct Object(Cow<'static, [u8]>);

// === impl Object ===

impl Object {
    /// What `cargo xtask build-ebpf` wrote about the embedded object: hashes and versions, as TOML.
    pub const RECORD: &'static str = include_str!("backend_rtt.toml");

    /// Hash of the sources that the embedded object was built from: names it in a log or a report.
    pub fn sources_hash() -> &'static str {
        let value = Self::RECORD.lines().find_map(|line| line.strip_prefix("sources = \""));
        value.and_then(|value| value.strip_suffix('"')).unwrap_or_default()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_tells_the_sources() {
        let hash = Object::sources_hash().strip_prefix("sha256:").expect("a hash");
        assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    }

    #[test]
    fn the_embedded_object_is_aligned_as_its_readers_want_it() {
        assert_eq!(Object::embedded().bytes().as_ptr().align_offset(8), 0);
        assert_eq!(&Object::embedded().bytes()[..4], b"\x7fELF");
    }
}
