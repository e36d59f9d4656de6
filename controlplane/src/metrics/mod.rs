//! What `GET /metrics` shows, by the names that the field's dashboards know.
//!
//! One file a group of families: it registers them, and sets or counts them from what it is shown. A new metric is
//! written in its group's file, and in docs/operating.md, which a test holds to what is registered. Label values come
//! from what is configured or registered, never from requests.

mod attempts;
mod backends;
mod cores;
mod families;
mod groups;
mod labels;
mod losses;
mod rankings;
mod requests;
mod reservations;
mod series;
mod snapshots;

pub(crate) use attempts::AttemptSeries;
pub(crate) use families::{Families, render};
pub(crate) use groups::{Gauges, Metrics};
pub(crate) use requests::RequestSeries;

#[cfg(test)]
mod tests;
