//! Sockets, threads and clocks: what the kernel gives, made safe to use from one monoio thread.
//!
//! Nothing here knows HTTP, or what a connection is for.

pub mod accept;
pub mod cpu;
pub mod notify;
pub mod race;
pub mod runtime;
pub mod signals;
pub mod socket;
pub mod timer;
