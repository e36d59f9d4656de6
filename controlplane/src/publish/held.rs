//! Weights that noise does not move.
//!
//! A cluster's measured throughput wobbles with every report, and each change of a weight would move sessions
//! away from their warm caches. So a weight is held until what is reported has left it by more than the
//! noise: shares of keys are then off by at most that much, and no key moves for nothing.

use stargate_routing::RendezvousWeights;

/// How far a reported weight may be from the held one, relative to that, before it takes its place.
const HYSTERESIS: f64 = 0.10;

/// The weights to hold from now on. A weight that appears or disappears does so at once.
pub(super) fn follow(held: RendezvousWeights, reported: RendezvousWeights) -> RendezvousWeights {
    RendezvousWeights {
        max_input_tps: follow_one(held.max_input_tps, reported.max_input_tps),
        last_mean_input_tps: follow_one(held.last_mean_input_tps, reported.last_mean_input_tps),
    }
}

fn follow_one(held: f64, reported: f64) -> f64 {
    let is_noise = held > 0.0 && reported > 0.0 && (reported - held).abs() <= held * HYSTERESIS;
    if is_noise { held } else { reported }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_follows_only_what_leaves_it_by_more_than_a_tenth() {
        for (held, reported, expected) in [
            (100.0, 95.0, 100.0),
            (100.0, 105.0, 100.0),
            (100.0, 110.0, 100.0),
            (100.0, 90.0, 100.0),
            (100.0, 110.1, 110.1),
            (100.0, 89.9, 89.9),
            (0.0, 1.0, 1.0),
            (1.0, 0.0, 0.0),
            (0.0, 0.0, 0.0),
        ] {
            let weights = |max, mean| RendezvousWeights { max_input_tps: max, last_mean_input_tps: mean };
            assert_eq!(follow(weights(held, 7.0), weights(reported, 7.5)), weights(expected, 7.0));
            assert_eq!(follow(weights(7.0, held), weights(7.5, reported)), weights(7.0, expected));
        }
    }

    #[test]
    fn a_drift_is_followed_in_steps() {
        let mut held = RendezvousWeights { max_input_tps: 100.0, last_mean_input_tps: 0.0 };
        let mut steps = 0;
        for percent in 101..=200 {
            let reported = RendezvousWeights { max_input_tps: f64::from(percent), ..held };
            let next = follow(held, reported);
            steps += usize::from(next != held);
            held = next;
            assert!((held.max_input_tps / reported.max_input_tps - 1.0).abs() <= HYSTERESIS);
        }
        assert_eq!(steps, 6, "111, 123, 136, 150, 166, 183");
    }
}
