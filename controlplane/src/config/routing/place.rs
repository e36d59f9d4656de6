//! Where in a document something stands, as TOML writes it: the path that errors and warnings name.

use crate::names::excerpt;

/// `key` within `path`, as TOML writes it.
pub(super) fn join(path: &str, key: &str) -> String {
    let is_bare = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let key = if is_bare { key.to_owned() } else { format!("{:?}", excerpt(key)) };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}
