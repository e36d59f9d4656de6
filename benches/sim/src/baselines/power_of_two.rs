//! Power of two choices (Mitzenmacher, 2001): the better of two clusters at random. Envoy's default least request,
//! nginx's `random two least_conn`, and `power_of_two` of SGLang's router.
//!
//! By default the one with fewer requests of this gateway's own in flight, as proxies do; with `by = "reported"` the
//! one that reports fewer requests, which SGLang's router polls. Ties are broken at random. Left out: weights.

use serde::Deserialize;

use super::{
    Asked, Baseline, Choice, View,
    candidates::{better_of_two, eligible},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    by: By,
}

/// What two clusters are compared by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum By {
    /// Requests that this gateway has sent and that have not ended.
    #[default]
    InFlight,
    /// Requests that the cluster reports.
    Reported,
}

pub(super) struct PowerOfTwo {
    by: By,
}

// === impl PowerOfTwo ===

impl PowerOfTwo {
    pub(super) fn new(parameters: Parameters) -> Self {
        Self { by: parameters.by }
    }
}

impl Baseline for PowerOfTwo {
    fn choose(&mut self, view: &View<'_>, request: &Asked<'_>, rng: &mut fastrand::Rng) -> Choice {
        let load = |cluster: usize| match self.by {
            By::InFlight => view.clusters[cluster].in_flight,
            By::Reported => view.clusters[cluster].running,
        };
        Choice::anywhere(better_of_two(eligible(view, request), load, rng))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::Fleet, *};

    #[test]
    fn the_better_of_two_is_chosen_by_what_is_asked_for() {
        // With two clusters both are always sampled.
        let mut fleet = Fleet::of(2);
        fleet.clusters[0].in_flight = 2;
        fleet.clusters[1].in_flight = 1;
        fleet.clusters[1].running = 7;
        assert_eq!(fleet.shares(&mut PowerOfTwo { by: By::InFlight }, 50), [0, 50]);
        assert_eq!(fleet.shares(&mut PowerOfTwo { by: By::Reported }, 50), [50, 0]);
    }

    #[test]
    fn equals_are_spread_and_the_most_loaded_is_left_out() {
        let mut fleet = Fleet::of(5);
        let mut policy = PowerOfTwo::new(Parameters::default());
        let shares = fleet.shares(&mut policy, 5000);
        assert!(shares.iter().all(|share| (900..=1100).contains(share)), "{shares:?}");
        fleet.clusters[3].in_flight = 1;
        assert_eq!(fleet.shares(&mut policy, 500)[3], 0);
        Fleet::of(4).assert_never_chooses_what_it_may_not(&mut policy);
    }
}
