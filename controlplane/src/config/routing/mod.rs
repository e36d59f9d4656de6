//! `[routing]`, and the same document as JSON: how each model is routed, admitted and waited for.
//!
//! A document is first taken as it is written ([`Routing`]), so that its fields may come in any order and an
//! override may replace any of them, and then read as a whole ([`Routing::read`]): nothing of it exists while
//! anything in it is wrong. An error has the path of the fault, which the caller turns into a line of a file
//! or a `param` of an answer.

mod document;
mod place;
mod policies;
mod raw;
mod warnings;
mod written;

pub use document::{Document, Entry, MethodView, Methods};
pub use policies::Policies;
pub use written::Routing;

#[cfg(test)]
mod tests;
