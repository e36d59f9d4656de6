//! How bytes come and go: connections to clients and to engines, waits that end, and the ring below them.
//!
//! It knows no request and no core: what a wait is bounded by, and where buffers are kept, is handed to it. That a
//! client's connection or an engine's is plain TCP, only `client::socket` and `engine::socket` know.

pub(crate) mod buffers;
pub(crate) mod client;
pub(crate) mod deadlines;
pub(crate) mod driver;
pub(crate) mod engine;
pub(crate) mod first;
pub(crate) mod socket;
