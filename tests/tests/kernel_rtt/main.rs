//! The kernel program that measures round-trip times, in a real kernel, through the door that the daemon uses.
//!
//! Runs on the object that the daemon embeds, or on the one that `STARGATE_TEST_KERNEL_OBJECT` names, which is how CI tries
//! the one that it has built. Skipped, with its reason, where the kernel or the privilege is missing; never in CI.

mod accuracy;
mod isolation;
mod lifetime;
mod map;
mod peer;
mod support;
