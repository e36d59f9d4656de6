//! The threads of a data plane.

pub(crate) mod core_thread;
