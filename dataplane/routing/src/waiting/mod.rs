//! How requests wait for a place: for how long, who is decided when and in what order, and what a decision means for a
//! request.
//!
//! The gateway and the simulator run this one code, each with a clock, queues and outcomes of its own. Times are counted
//! from one moment that the caller chooses, but for those of a [`Hold`] and of [`Patience`], which count from a request's arrival.

mod claim;
mod decides;
mod line;
mod patience;
mod ruling;
mod wait_queue;

pub use claim::Claim;
pub use decides::{Decides, Deciding, Taken};
pub use line::{Line, Waits};
pub use patience::{Patience, PatienceSource};
pub use ruling::{Hold, Refused, Ruling, WaitedFor};
pub use wait_queue::{Ticket, WaitQueue};
