//! What can be configured: every field's name, its bounds, how it is read and written.
//!
//! Whatever is configured lists its fields once, beside it. The configuration file, the REST API, routing expressions and
//! everything that prints a method go through these lists, so that a field cannot be known to one of them and not to
//! another. Nothing here knows TOML, JSON or headers: these hand in [`Scalar`](crate::Scalar)s, and get a [`FieldError`]
//! that they add their own place to.

pub(crate) mod configured;
pub(crate) mod field;
pub(crate) mod scalar;

use std::fmt;

/// Why a field cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Name of the field, as it was given.
    pub field: String,
    /// What was found, in words.
    pub found: String,
    /// What is allowed, in words.
    pub allowed: String,
}

/// Longest piece of somebody else's text in an error, in characters.
const EXCERPT_CHARS: usize = 80;

// === impl FieldError ===

impl FieldError {
    pub(crate) fn new(field: &str, found: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { field: excerpt(field), found: found.into(), allowed: allowed.into() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found {}, allowed: {}", self.field, self.found, self.allowed)
    }
}

impl std::error::Error for FieldError {}

/// Text of somebody else for an error: an error stays one readable line.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Names for a message: `a`, `b` and `c`.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}
