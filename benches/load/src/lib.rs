//! What puts load on a gateway and accounts for what it costs: the generator by itself, around several proxies in turn
//! (`peers`), and around one gateway whose routing is at stake (`scenario`).
//!
//! Processes under measurement are children that die with this one. Nothing here knows what a gateway is made of: it is
//! driven over HTTP, and read through its metrics and the kernel's accounts.

mod child;
pub mod generator;
pub mod peers;
mod procfs;
pub mod relay;
pub mod run_pinned;
pub mod scenario;
