//! Whether a request is tried again.

pub(crate) mod budget;
