//! Label values of targets: what names no target counts as model `unknown`.

use std::sync::Arc;

use stargate_routing::TargetName;

/// Names of the labels of a target.
pub(super) const TARGET: [&str; 2] = ["routing_key", "model"];
/// Names of the labels of a target and one backend.
pub(super) const TARGET_AND_BACKEND: [&str; 3] = [TARGET[0], TARGET[1], "inference_server_id"];

/// Model of requests that name no known target.
const UNKNOWN_MODEL: &str = "unknown";

/// The values of [`TARGET`].
pub(super) fn of_target(target: Option<&TargetName>) -> [Arc<str>; 2] {
    match target {
        None => ["".into(), UNKNOWN_MODEL.into()],
        Some(target) => [target.routing_key.clone().unwrap_or_else(|| "".into()), target.model.clone()],
    }
}
