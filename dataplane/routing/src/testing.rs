//! What this crate's tests share: fleets to decide about, and a second implementation of every algorithm to compare
//! decisions with.

pub(crate) mod fleet;
pub(crate) mod naive;
