//! An attempt without a response: what went wrong, and whether the engine can have begun.
//!
//! Where nothing proves that it has not, it may have; the code that fails says which it is.

use stargate_routing::Backend;

use crate::{
    error::{ErrorCode, Refusal},
    observation::AttemptResult,
};

/// An attempt without a response.
#[derive(Debug)]
pub(crate) struct AttemptFailure {
    pub(crate) result: AttemptResult,
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    /// The engine can't have begun.
    pub(crate) is_safe_to_retry: bool,
    /// Only the kept connection is at fault, not the backend.
    pub(crate) is_stale: bool,
}

// === impl AttemptFailure ===

impl AttemptFailure {
    pub(crate) fn into_refusal(self) -> Refusal {
        Refusal::new(self.code, self.message)
    }

    /// Names the backend in its message.
    pub(super) fn at(mut self, backend: &Backend) -> Self {
        self.message = format!("backend `{}`: {}", backend.backend_id, self.message);
        self
    }
}
