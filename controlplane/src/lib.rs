//! Control plane.

pub mod backend_url;
pub mod config;
pub mod health;
pub mod names;
pub mod registry;
