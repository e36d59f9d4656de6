//! The versions of HTTP that this gateway speaks. Whatever else a peer says that it speaks is refused where its head
//! is read.

/// `HTTP/1.x` minor version of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    Http11,
}
