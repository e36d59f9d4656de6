//! Round robin: each request to the next cluster, in the order of their numbers. The default of nginx, HAProxy and
//! Envoy.
//!
//! Left out: weights. A cluster that may not be chosen is passed over. Gateways begin at clusters of their own, as
//! Envoy does, so that a fleet of them does not turn in step. No parameters.

use super::{Asked, Baseline, Choice, View, candidates::is_eligible};

pub(super) struct RoundRobin {
    next: usize,
}

// === impl RoundRobin ===

impl RoundRobin {
    pub(super) fn new(first: usize) -> Self {
        Self { next: first }
    }
}

impl Baseline for RoundRobin {
    fn choose(&mut self, view: &View<'_>, request: &Asked<'_>, _rng: &mut fastrand::Rng) -> Choice {
        let count = view.clusters.len();
        let in_turn = (0..count).map(|step| (self.next + step) % count);
        let cluster = in_turn.into_iter().find(|cluster| is_eligible(view, request, *cluster));
        if let Some(cluster) = cluster {
            self.next = cluster + 1;
        }
        Choice::anywhere(cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::Fleet, *};

    #[test]
    fn clusters_take_turns_and_those_that_may_not_are_passed_over() {
        let mut fleet = Fleet::of(4);
        let mut policy = RoundRobin::new(2);
        assert_eq!(fleet.places(&mut policy, 6), [2, 3, 0, 1, 2, 3].map(Some));
        fleet.clusters[1].is_routable = false;
        fleet.excluded = vec![2];
        assert_eq!(fleet.places(&mut policy, 4), [0, 3, 0, 3].map(Some));
        Fleet::of(5).assert_never_chooses_what_it_may_not(&mut policy);
    }

    #[test]
    fn each_gets_as_many() {
        assert_eq!(Fleet::of(7).shares(&mut RoundRobin::new(3), 700), [100; 7]);
    }
}
