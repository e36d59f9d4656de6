//! The engine's side: its connections, and those that are kept between two requests.

pub(crate) mod pool;
pub(crate) mod socket;
