//! The atomics that cores meet at: the standard ones, or loom's, which explore every interleaving.
//!
//! Only what a loom test reaches is taken from here. Under `--cfg loom` nothing else of this crate runs.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
