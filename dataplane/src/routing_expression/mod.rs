//! `x-routing-method`: the method that a request selects, and how it tunes it.
//!
//! The value is an Item with Parameters of RFC 8941: an algorithm, which must be one that the request's model
//! lets requests select, and values for fields of it. What was read is kept per core, for as long as the
//! model's policy is the same; a value that is refused is not, so that nobody fills the cache with nonsense.

mod cache;
mod expression;

use stargate_routing::{AlgorithmKind, FieldError, Method, Policy};

use crate::error::{ErrorCode, Refusal};
pub(crate) use cache::MethodCache;
use expression::Expression;

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

/// The method that `expression` selects where `policy` holds.
///
/// # Errors
/// See [`ExpressionError`].
pub fn method_of(policy: &Policy, expression: &[u8]) -> Result<Method, ExpressionError> {
    let Expression { algorithm, parameters } = Expression::parse(expression)?;
    let kind = AlgorithmKind::parse(algorithm).ok_or_else(|| ExpressionError::Unknown(excerpt(algorithm)))?;
    let method = policy.selectable(kind).ok_or_else(|| ExpressionError::NotSelectable {
        kind,
        allowed: names(AlgorithmKind::ALL.into_iter().filter(|kind| policy.selectable(*kind).is_some())),
    })?;
    method.overlay(parameters).map_err(ExpressionError::Parameter)
}

fn names(kinds: impl IntoIterator<Item = AlgorithmKind>) -> String {
    kinds.into_iter().map(|kind| format!("`{}`", kind.as_str())).collect::<Vec<_>>().join(", ")
}

/// A caller's text in an error: the message stays one readable line.
fn excerpt(text: &str) -> String {
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

#[cfg(test)]
mod tests;
