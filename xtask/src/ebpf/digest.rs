//! Hashes as the record of the embedded object has them.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The hash of these bytes, as records have it.
pub(super) fn of(bytes: &[u8]) -> String {
    shown(&Sha256::digest(bytes))
}

/// A hash as text.
pub(super) fn shown(hash: &[u8]) -> String {
    hash.iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
