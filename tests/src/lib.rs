//! Harness of the black-box tests: real processes, real sockets, HTTP spoken byte by byte.
//!
//! A test starts a [`Gateway`] and engines ([`Engine`], the mock engine's process, or [`RawEngine`], a
//! script in the test), talks to it through a [`Client`], and waits for conditions with [`eventually`].
//! Nothing here knows the gateway's code: what it asserts is what a user sees. Faults are panics, because a
//! test has nobody to hand an error to; whatever was started is stopped when its value is dropped.

// A harness reports by panicking; a section on it in every function would say nothing.
#![allow(clippy::missing_panics_doc)]

mod binaries;
mod blackhole;
mod cgroup;
mod client;
mod connection;
mod delayed_path;
mod engine;
mod gate;
mod gateway;
mod http;
mod poll;
mod process;
mod raw_engine;
mod read_error;
mod request;
mod response;
mod sse;
mod tun;

pub use binaries::{Binary, target_dir, workspace_dir};
pub use blackhole::Blackhole;
pub use cgroup::Cgroup;
pub use client::Client;
pub use connection::Connection;
pub use delayed_path::DelayedPath;
pub use engine::{Engine, EngineBuilder};
pub use gate::Gate;
pub use gateway::{Gateway, GatewayBuilder};
pub use http::{Head, Headers};
pub use poll::{DEADLINE, eventually, eventually_some};
pub use process::{Process, Signal, scratch_file};
pub use raw_engine::{Exchange, RawEngine, Received, Then};
pub use read_error::ReadError;
pub use request::Request;
pub use response::{Body, BodyReader, Piece, Response};
pub use sse::{SseEvent, SseItem, SseReader};
