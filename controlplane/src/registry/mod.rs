//! Registry.
mod engine;
pub use engine::Engine;
