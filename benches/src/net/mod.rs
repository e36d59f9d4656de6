//! Sockets, threads and clocks: what the kernel gives, made safe to use from one monoio thread.

pub(crate) mod accept;
pub(crate) mod cpu;
pub(crate) mod notify;
pub(crate) mod race;
pub(crate) mod runtime;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod timer;
