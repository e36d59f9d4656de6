//! Round-trip times to backends, measured.

pub mod kernel;
