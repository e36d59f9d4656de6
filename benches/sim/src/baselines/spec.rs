//! Which baseline a scenario asks for, with what parameters.
//!
//! A spec is a table with the policy's name under `baseline` and its parameters beside it. Each has a default, which is
//! that of the paper or router; one that the policy does not have is an error.

use std::{cell::RefCell, rc::Rc};

use serde::Deserialize;

use super::{
    Baseline, bounded_loads, least_request, oracle, power_of_two, prefix_tree, prequal, ranked_bands,
    round_robin,
};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "baseline", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum BaselineSpec {
    RankedBands(ranked_bands::Parameters),
    // Braces, since a variant without them would take any field and ignore it.
    RoundRobin {},
    LeastRequest {},
    PowerOfTwo(power_of_two::Parameters),
    BoundedLoads(bounded_loads::Parameters),
    PrefixTree(prefix_tree::Parameters),
    Prequal(prequal::Parameters),
    Oracle(oracle::Parameters),
}

// === impl BaselineSpec ===

impl BaselineSpec {
    /// Checks the bounds of all parameters; an error names the parameter, and whoever read it knows where it stands.
    pub(crate) fn validate(&self) -> anyhow::Result<()> {
        match self {
            Self::RankedBands(_) | Self::RoundRobin {} | Self::LeastRequest {} | Self::PowerOfTwo(_) => {
                Ok(())
            }
            Self::BoundedLoads(parameters) => parameters.validate(),
            Self::PrefixTree(parameters) => parameters.validate(),
            Self::Prequal(parameters) => parameters.validate(),
            Self::Oracle(parameters) => parameters.validate(),
        }
    }

    /// One policy for each gateway of a fleet with so many clusters. Those that hash do it alike under the same `seed`.
    pub(crate) fn build(&self, clusters: usize, gateways: usize, seed: u64) -> Vec<Box<dyn Baseline>> {
        let mut rng = fastrand::Rng::with_seed(seed);
        match *self {
            Self::RankedBands(parameters) => {
                each(gateways, || ranked_bands::RankedBands::new(parameters, clusters, seed))
            }
            Self::RoundRobin {} => {
                each(gateways, || round_robin::RoundRobin::new(rng.usize(..clusters.max(1))))
            }
            Self::LeastRequest {} => each(gateways, || least_request::LeastRequest),
            Self::PowerOfTwo(parameters) => each(gateways, || power_of_two::PowerOfTwo::new(parameters)),
            Self::BoundedLoads(parameters) => {
                let ring = Rc::new(bounded_loads::Ring::new(parameters, clusters, seed));
                each(gateways, || bounded_loads::BoundedLoads::new(parameters, ring.clone()))
            }
            Self::PrefixTree(parameters) => {
                each(gateways, || prefix_tree::PrefixTree::new(parameters, clusters))
            }
            Self::Prequal(parameters) => each(gateways, || prequal::Prequal::new(parameters, clusters)),
            Self::Oracle(parameters) => {
                let shared = Rc::new(RefCell::new(oracle::OnTheWay::new(clusters)));
                each(gateways, || oracle::Oracle::new(parameters, shared.clone()))
            }
        }
    }
}

fn each<B: Baseline + 'static>(gateways: usize, mut new: impl FnMut() -> B) -> Vec<Box<dyn Baseline>> {
    (0..gateways).map(|_| Box::new(new()) as Box<dyn Baseline>).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::testing::{Fleet, session};

    const NAMES: [&str; 8] = [
        "ranked-bands",
        "round-robin",
        "least-request",
        "power-of-two",
        "bounded-loads",
        "prefix-tree",
        "prequal",
        "oracle",
    ];

    fn read(fields: &str) -> Result<BaselineSpec, serde_json::Error> {
        serde_json::from_str(&format!("{{{fields}}}"))
    }

    #[test]
    fn every_policy_is_read_with_its_defaults_and_is_valid() {
        for name in NAMES {
            let spec = read(&format!(r#""baseline": "{name}""#)).unwrap();
            spec.validate().unwrap();
            assert_eq!(spec.build(5, 3, 1).len(), 3);
        }
        let expected = BaselineSpec::RankedBands(ranked_bands::Parameters::default());
        assert_eq!(read(r#""baseline": "ranked-bands""#).unwrap(), expected);
    }

    #[test]
    fn parameters_are_read_and_unknown_ones_are_errors() {
        for fields in [
            r#""baseline": "ranked-bands", "max_queued": 12"#,
            r#""baseline": "power-of-two", "by": "reported""#,
            r#""baseline": "bounded-loads", "load_factor": 1.5, "points": 100"#,
            r#""baseline": "prefix-tree", "cache_threshold": 0.5, "otherwise": "least-load""#,
            r#""baseline": "prequal", "probes": 2.5, "age_limit_ms": 500"#,
            r#""baseline": "oracle", "ahead": 2"#,
        ] {
            let spec = read(fields).unwrap();
            let name = fields.split(',').next().unwrap();
            assert_ne!(spec, read(name).unwrap(), "{fields}");
        }
        for name in NAMES {
            assert!(read(&format!(r#""baseline": "{name}", "surprise": 1"#)).is_err(), "{name}");
        }
        assert!(read(r#""baseline": "least-of-all""#).is_err());
        assert!(read(r#""max_queued": 12"#).is_err());
        assert!(read(r#""baseline": "bounded-loads", "load_factor": 0.5"#).unwrap().validate().is_err());
    }

    #[test]
    fn choices_follow_from_the_seed_alone() {
        for name in NAMES {
            let spec = read(&format!(r#""baseline": "{name}""#)).unwrap();
            let run = |seed| {
                let (mut fleet, mut policies) = (Fleet::of(8), spec.build(8, 2, seed));
                let mut sent = Vec::new();
                for number in 0..200 {
                    let policy = &mut policies[number as usize % 2];
                    sent.push(fleet.send(&mut **policy, &session(number % 50)));
                }
                sent
            };
            assert_eq!(run(1), run(1), "{name}");
        }
    }
}
