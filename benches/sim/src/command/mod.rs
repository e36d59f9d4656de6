//! What the subcommands of `sim` do: read scenarios, run them, and print or write what they came to.

mod evidence;
mod list;
mod run;
mod setting;
mod study;

pub(super) use self::{evidence::evidence, list::list, run::run};
