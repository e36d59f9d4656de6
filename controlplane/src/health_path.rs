//! Where a backend's health is asked.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de};

/// Longest path, in bytes.
const MAX_BYTES: usize = 1024;

/// An absolute path, with a query if need be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct HealthPath(Arc<str>);

impl HealthPath {
    /// `None` when it is no absolute path of printable ASCII.
    pub fn new(text: &str) -> Option<Self> {
        let is_path = text.starts_with('/')
            && text.len() <= MAX_BYTES
            && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        is_path.then(|| Self(text.into()))
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for HealthPath {
    fn default() -> Self {
        Self("/health".into())
    }
}

impl<'de> Deserialize<'de> for HealthPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = HealthPath;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an absolute path such as \"/health\", of up to 1024 printable ASCII characters")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<HealthPath, E> {
                HealthPath::new(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}
