//! The versions that this gateway speaks, and what a peer said that it does.

/// `HTTP/1.x` minor version of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    Http11,
}
