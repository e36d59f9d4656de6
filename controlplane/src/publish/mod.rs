//! From the registry to snapshots, published only when something in them changed.
//!
//! What must outlive a snapshot lives here: a (target, cluster) pair keeps its identity and its in-flight
//! counters from its first backend's registration to its last one's end, whatever health checks and stats do;
//! so do the weights that it is ranked by ([`held`]), its draw of the room for those who wait ([`room`]) and a target's
//! ranking table ([`tables`]). What is published is the cache of what is published next: the backends and the
//! inclusions in it are taken over while they are the same.

mod held;
mod inclusions;
mod kept;
mod plan;
mod publisher;
mod room;
mod tables;

pub use publisher::Publisher;
pub use tables::{BuiltTable, TableJob};

#[cfg(test)]
mod tests;
