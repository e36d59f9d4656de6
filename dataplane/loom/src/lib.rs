//! Nothing but tests, of files that belong to the data plane, each small and without dependencies: so they build
//! in seconds with loom's atomics in place of the real ones.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p stargate-loom --release`
