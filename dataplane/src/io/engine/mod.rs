//! The engine's side: its connections, and those that are kept between two requests. What is said on one is
//! `http`'s, and what its end proves about a request is `stages::attempt`'s.

pub(crate) mod pool;
pub(crate) mod socket;
