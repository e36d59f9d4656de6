//! What is wrong with a configuration whose values are each in range, and where.

use stargate_dataplane as dataplane;

/// Something that cannot be used although each of its values is in range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the key.
    pub key: String,
    /// What was found.
    pub found: String,
    /// What is allowed.
    pub allowed: String,
}

// === impl Violation ===

impl From<dataplane::SettingsError> for Violation {
    /// The data plane names settings by its own fields; times carry their unit in the file.
    fn from(error: dataplane::SettingsError) -> Self {
        let key = match error.setting {
            "listen" => "server.listen".to_owned(),
            "pool.idle_timeout" | "reservations.ttl_min" => format!("{}_ms", error.setting),
            time if time.starts_with("timeouts.") => format!("{time}_ms"),
            other => other.to_owned(),
        };
        Self { key, found: error.found, allowed: error.allowed.to_owned() }
    }
}
