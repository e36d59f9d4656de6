//! What an attempt comes to: a response, a failure, or nobody to answer.
//!
//! Of the first two it says what kept it from serving its request, as `retry` judges it.

use std::{sync::Arc, time::Duration};

use super::{failure::AttemptFailure, upstream::Upstream};
use crate::{core::placing::Reserved, http::ResponseHead, retry::Setback};

/// A response of which the head has been read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) upstream: Upstream,
    pub(crate) head: ResponseHead,
    /// Status line and end-to-end headers for the client.
    pub(crate) forward: Vec<u8>,
    /// What was read behind the head.
    pub(crate) rest: Vec<u8>,
    /// From sending to the head.
    pub(crate) first_byte: Duration,
}

/// A response to relay, with the reservation that it holds.
pub(crate) struct Answered {
    pub(crate) response: Box<Response>,
    pub(crate) reserved: Reserved,
    pub(crate) cluster_id: Arc<str>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    Responded(Box<Response>),
    Failed(AttemptFailure),
    ClientLeft,
}

// === impl AttemptEnd ===

impl AttemptEnd {
    /// What kept it from serving its request, if that is not the client's leaving.
    pub(crate) fn setback(&self) -> Option<Setback> {
        match self {
            Self::Responded(response) if response.head.retryable => {
                Some(Setback::Rejected { is_queue_mismatch: response.head.queue_estimate_mismatch })
            }
            Self::Failed(AttemptFailure { is_safe_to_retry, is_stale, .. }) => {
                Some(Setback::Failed { is_safe_to_retry: *is_safe_to_retry, is_stale: *is_stale })
            }
            Self::Responded(_) | Self::ClientLeft => None,
        }
    }
}
