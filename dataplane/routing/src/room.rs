//! Whether going through those who wait can serve anybody.
//!
//! Of many waiters each decision looks at several clusters, and in overload nearly all come to nothing. One look at all
//! clusters tells when every decision must: then none is made.

use crate::{Algorithm, CoreLoads, PrimaryAdmission, Target};

/// Whether some cluster has capacity by the widest bound that `algorithm` has. `false` says that no request finds a
/// place, whatever its key, its time waited and its tokens; `true` promises nothing.
pub fn has_room(target: &Target, algorithm: &Algorithm, loads: &CoreLoads) -> bool {
    let (max_queued, unknown_concurrency) = match algorithm {
        Algorithm::PowerOfN(_) | Algorithm::RoundRobin | Algorithm::Random | Algorithm::Pulsar(_) => return true,
        Algorithm::WaitAndWiden(parameters) => {
            (parameters.widening.max_queued, parameters.widening.unknown_concurrency)
        }
        Algorithm::PulsarWaitAndWiden(parameters) => {
            let widening = &parameters.widening;
            // An eligible primary is taken full or not.
            if parameters.primary_admission == PrimaryAdmission::Eligible && widening.queue_slo.is_none() {
                return true;
            }
            (widening.max_queued.max(parameters.fallback_max_queued), widening.unknown_concurrency)
        }
    };
    let unflushed = loads.unflushed();
    target.clusters.iter().any(|cluster| {
        // Capacity knows no priority.
        unflushed.effective(cluster, 0).has_capacity(max_queued, unknown_concurrency)
    })
}
