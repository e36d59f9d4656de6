//! `x-routing-method`: the method that a request selects, and how it tunes it.
//!
//! The value is an Item with Parameters of RFC 8941: an algorithm, which must be one that the request's model
//! lets requests select, and values for fields of it. What was read is kept per core, for as long as the
//! model's policy is the same; a value that is refused is not, so that nobody fills the cache with nonsense.

mod cache;
mod error;
mod expression;

use stargate_routing::{AlgorithmKind, Method, Policy};

pub(crate) use self::cache::MethodCache;
pub use self::error::ExpressionError;
use self::{
    error::{excerpt, names},
    expression::Expression,
};

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

#[cfg(test)]
mod tests;
