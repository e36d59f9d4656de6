//! What the mock engine and the load generator both need of the network: HTTP/1.1 messages, sockets, threads and clocks.
//!
//! Lenient where a benchmark's tools may be: the gateway's own codec is stricter, and the black-box tests speak through a
//! third, so that a mistake in one of them shows in the others.

pub mod http;
pub mod net;
