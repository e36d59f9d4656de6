//! Least request: the cluster with the fewest requests of this gateway's own in flight, one at random where several
//! tie. nginx's `least_conn`, HAProxy's `leastconn`, and Envoy's least request with a full scan.
//!
//! Left out: weights, and slow start. What other gateways have sent is not seen, as it is not there. No parameters.

use super::{
    Asked, Baseline, Choice, View,
    candidates::{eligible, least},
};

pub(super) struct LeastRequest;

// === impl LeastRequest ===

impl Baseline for LeastRequest {
    fn choose(&mut self, view: &View<'_>, request: &Asked<'_>, rng: &mut fastrand::Rng) -> Choice {
        Choice::anywhere(least(eligible(view, request), |cluster| view.clusters[cluster].in_flight, rng))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::testing::{Fleet, home, session},
        *,
    };

    #[test]
    fn the_fewest_in_flight_is_chosen_whatever_is_reported() {
        let mut fleet = Fleet::of(3);
        for (cluster, in_flight) in [5, 4, 6].into_iter().enumerate() {
            fleet.clusters[cluster].in_flight = in_flight;
        }
        fleet.clusters[1].running = 1000;
        assert_eq!(fleet.choose(&mut LeastRequest, &session(0)), home(1));
        fleet.clusters[0].in_flight = 3;
        assert_eq!(fleet.choose(&mut LeastRequest, &session(0)), home(0));
    }

    #[test]
    fn ties_are_spread_and_what_is_sent_counts() {
        let shares = Fleet::of(4).shares(&mut LeastRequest, 4000);
        assert!(shares.iter().all(|share| (900..=1100).contains(share)), "{shares:?}");
        let mut fleet = Fleet::of(4);
        for number in 0..400 {
            fleet.send(&mut LeastRequest, &session(number));
        }
        assert!(fleet.clusters.iter().all(|cluster| cluster.in_flight == 100));
        Fleet::of(4).assert_never_chooses_what_it_may_not(&mut LeastRequest);
    }
}
