//! A change of the routing configuration: what is asked for, on which condition, and what it comes to.

use std::sync::Arc;

use super::version::Version;
use crate::config::Document;

/// What a caller demands of the version in force before it changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// That it is one of these.
    OneOf(Vec<u64>),
}

/// What is to be in force.
#[derive(Clone, Debug)]
pub enum Change {
    /// This document.
    Put(Arc<Document>),
    /// A version that was; `None` is the one before.
    RollBack(Option<u64>),
}

/// What a change comes to.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The version that is in force afterwards.
    pub version: Version,
    /// Whether anything changed.
    pub is_new: bool,
    /// Whether models without an entry are treated otherwise than before.
    pub is_default_changed: bool,
    /// Models that are treated otherwise than before, as far as they are known.
    pub models: Vec<Arc<str>>,
}
