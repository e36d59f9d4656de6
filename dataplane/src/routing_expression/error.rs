//! Why a routing expression selects nothing, told so that its caller can mend it: with what is allowed, and with the
//! caller's own text cut short.

use stargate_routing::{AlgorithmKind, FieldError};

use crate::error::{ErrorCode, Refusal};

/// Why an expression selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It is no expression.
    #[error("{0}")]
    Malformed(String),
    /// It names no algorithm.
    #[error("`{0}` is no routing algorithm; there are {all}", all = names(AlgorithmKind::ALL))]
    Unknown(String),
    /// It names one that may not be selected.
    #[error("`{}` may not be selected for this model; what may is {allowed}", kind.as_str())]
    NotSelectable {
        /// The algorithm.
        kind: AlgorithmKind,
        /// Those that may.
        allowed: String,
    },
    /// A parameter cannot be taken.
    #[error("parameter {0}")]
    Parameter(FieldError),
}

pub(super) fn names(kinds: impl IntoIterator<Item = AlgorithmKind>) -> String {
    kinds.into_iter().map(|kind| format!("`{}`", kind.as_str())).collect::<Vec<_>>().join(", ")
}

/// A caller's text in an error: the message stays one readable line.
pub(super) fn excerpt(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl From<ExpressionError> for Refusal {
    fn from(error: ExpressionError) -> Self {
        Self::new(ErrorCode::InvalidRoutingMethod, format!("header `x-routing-method`: {error}"))
    }
}
