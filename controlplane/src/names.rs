//! The names that operators and engines give to things, checked where they enter.
//!
//! They end up in response headers, URLs, metric labels and log lines, so each has a length and a set of
//! characters that is safe in all of these.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, max $max:literal bytes, $allowed:literal, $rule:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Longest name, in bytes.
            pub const MAX_BYTES: usize = $max;
            /// What is allowed, in words.
            pub const ALLOWED: &'static str = $allowed;

            /// `None` when the text is not allowed.
            pub fn new(text: &str) -> Option<Self> {
                let rule: fn(&str) -> bool = $rule;
                (!text.is_empty() && text.len() <= Self::MAX_BYTES && rule(text)).then(|| Self(text.into()))
            }

            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The name, shared.
            pub fn shared(&self) -> Arc<str> {
                self.0.clone()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl de::Visitor<'_> for Visitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($name::ALLOWED)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::new(text)
                            .ok_or_else(|| E::invalid_value(de::Unexpected::Str(&excerpt(text)), &self))
                    }
                }
                deserializer.deserialize_str(Visitor)
            }
        }
    };
}

name!(
    /// Id of a backend: a segment of a URL and the value of `x-inference-server-id`.
    BackendId,
    max 128 bytes,
    "an id of 1 to 128 characters out of A-Z a-z 0-9 . _ : @ -",
    |text| text.bytes().all(is_id_byte)
);

name!(
    /// Id of a cluster: the value of `x-stargate-cluster-id`.
    ClusterId,
    max 128 bytes,
    "an id of 1 to 128 characters out of A-Z a-z 0-9 . _ : @ - /",
    |text| text.bytes().all(|byte| is_id_byte(byte) || byte == b'/')
);

name!(
    /// Exact id of a model.
    ModelName,
    max 256 bytes,
    "a model name of 1 to 256 bytes without control characters and without spaces at its ends",
    |text| !text.chars().any(char::is_control) && text.trim() == text
);

name!(
    /// Authenticated scope: the value of `x-routing-key`.
    RoutingKey,
    max 256 bytes,
    "a routing key of 1 to 256 printable ASCII characters without spaces",
    |text| text.bytes().all(|byte| byte.is_ascii_graphic())
);

fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'@' | b'-')
}

/// Text of somebody else for an error message: long ones are cut, so that an error stays one readable line.
pub(crate) fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_safe_in_urls_and_headers() {
        for good in ["a", "gpu-7.rack_1:8000", "x@y"] {
            assert!(BackendId::new(good).is_some(), "{good}");
        }
        for bad in ["", "a/b", "a b", "a\r\nx: y", "é", &"x".repeat(129)] {
            assert!(BackendId::new(bad).is_none(), "{bad}");
        }
        assert!(ClusterId::new("eu/rack-1").is_some());
    }

    #[test]
    fn model_names_may_be_paths_and_unicode() {
        for good in ["meta-llama/Llama-3.1-8B", "qwen2:7b", "模型 一"] {
            assert!(ModelName::new(good).is_some(), "{good}");
        }
        for bad in ["", " a", "a\n", &"x".repeat(257)] {
            assert!(ModelName::new(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn errors_say_what_was_found_and_what_is_allowed() {
        let error = serde_json::from_str::<RoutingKey>("\"a b\"").unwrap_err().to_string();
        assert!(error.contains("\"a b\"") && error.contains("printable ASCII"), "{error}");
    }
}
