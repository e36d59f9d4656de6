//! Runs that differ by their seed alone, taken together: the mean of each figure, and its range.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};

use super::{
    super::outcome::Outcome,
    axis::Axis,
    figure::{self, FIGURES},
    spread::Spread,
};

/// One policy at one point.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// For each axis the index of its value.
    pub(crate) point: Vec<usize>,
    /// Its index.
    pub(crate) policy: usize,
    pub(crate) seeds: Vec<u64>,
    figures: [Option<Spread>; FIGURES.len()],
}

/// What a scenario came to: rows by point, the last axis fastest, and then by policy, all in the scenario's own order.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) axes: Vec<Axis>,
    pub(crate) policies: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

// === impl Row ===

impl Row {
    /// The figure of this name; `None` when no run has it, or there is no such figure.
    pub(crate) fn figure(&self, name: &str) -> Option<Spread> {
        self.figures[figure::position(name)?]
    }

    /// All that there are, by name.
    pub(super) fn figures(&self) -> impl Iterator<Item = (&'static str, Spread)> {
        FIGURES.iter().zip(self.figures).filter_map(|(figure, spread)| Some((figure.name, spread?)))
    }
}

// === impl Summary ===

impl Summary {
    /// Of these outcomes; `axes` and `policies` give the order.
    ///
    /// # Errors
    /// For an outcome of another scenario, of an unknown point or policy, and for two runs of one seed.
    pub(crate) fn new(
        scenario: &str,
        axes: &[Axis],
        policies: &[String],
        outcomes: &[Outcome],
    ) -> anyhow::Result<Self> {
        let mut groups: BTreeMap<(Vec<usize>, usize), Vec<&Outcome>> = BTreeMap::new();
        for outcome in outcomes {
            let place = place(scenario, axes, policies, outcome)
                .with_context(|| format!("an outcome of {}", outcome.scenario))?;
            let group = groups.entry(place).or_default();
            ensure!(
                group.iter().all(|other| other.seed != outcome.seed),
                "{scenario}: {} at {:?} was run twice with seed {}",
                outcome.policy,
                outcome.point,
                outcome.seed
            );
            group.push(outcome);
        }
        let rows = groups
            .into_iter()
            .map(|((point, policy), group)| Row {
                point,
                policy,
                seeds: group.iter().map(|outcome| outcome.seed).collect(),
                figures: FIGURES.map(|figure| {
                    let values: Vec<f64> = group.iter().filter_map(|outcome| figure.of(outcome)).collect();
                    Spread::of(&values)
                }),
            })
            .collect();
        Ok(Self { axes: axes.to_vec(), policies: policies.to_vec(), rows })
    }

    /// The row of this policy where the axes have these values; what is not named must have one value only.
    pub(crate) fn row(&self, policy: &str, point: &[(&str, &str)]) -> Option<&Row> {
        let named: Option<Vec<(usize, usize)>> = point
            .iter()
            .map(|(name, value)| {
                let axis = self.axes.iter().position(|axis| axis.name == *name)?;
                Some((axis, self.axes[axis].position(value)?))
            })
            .collect();
        let named = named?;
        let mut rows = self.rows.iter().filter(|row| {
            self.policies[row.policy] == policy
                && named.iter().all(|(axis, value)| row.point[*axis] == *value)
        });
        rows.next().filter(|_| rows.next().is_none())
    }

    /// A row's point, in words.
    pub(crate) fn point<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = (&'a Axis, &'a str)> {
        self.axes.iter().zip(&row.point).map(|(axis, value)| (axis, axis.values[*value].as_str()))
    }
}

/// Where an outcome belongs.
fn place(
    scenario: &str,
    axes: &[Axis],
    policies: &[String],
    outcome: &Outcome,
) -> anyhow::Result<(Vec<usize>, usize)> {
    ensure!(outcome.scenario == scenario, "it does not belong to {scenario}");
    ensure!(
        outcome.point.len() == axes.len(),
        "it names {} axes, and the scenario has {}",
        outcome.point.len(),
        axes.len()
    );
    let point = axes.iter().map(|axis| {
        let value =
            outcome.point.get(&axis.name).with_context(|| format!("no value of axis {}", axis.name))?;
        axis.position(value).with_context(|| format!("axis {} has no value {value:?}", axis.name))
    });
    let policy = policies.iter().position(|policy| *policy == outcome.policy);
    Ok((
        point.collect::<anyhow::Result<_>>()?,
        policy.with_context(|| format!("no policy {:?}", outcome.policy))?,
    ))
}

#[cfg(test)]
mod tests {
    use super::{
        super::synthetic::{self, axes, policies},
        *,
    };

    #[test]
    fn seeds_are_taken_together_in_the_scenarios_order() {
        let outcomes = [
            synthetic::outcome("1.3", "b", 1, 50.0),
            synthetic::outcome("0.8", "b", 2, 40.0),
            synthetic::outcome("0.8", "a", 1, 70.0),
            synthetic::outcome("0.8", "b", 1, 10.0),
        ];
        let summary = Summary::new("small", &axes(), &policies(), &outcomes).expect("a summary");
        let rows: Vec<_> =
            summary.rows.iter().map(|row| (row.point[0], row.policy, row.seeds.clone())).collect();
        assert_eq!(rows, [(0, 0, vec![1]), (0, 1, vec![2, 1]), (1, 1, vec![1])]);
        let goodput = summary.rows[1].figure("goodput");
        assert_eq!(goodput, Some(Spread { mean: 25.0, min: 10.0, max: 40.0 }));
        assert_eq!(summary.rows[1].figure("nothing"), None);
        let found = summary.row("b", &[("load", "1.30")]).and_then(|row| row.figure("goodput"));
        assert_eq!(found.map(|spread| spread.mean), Some(50.0));
        assert!(summary.row("b", &[]).is_none(), "two points, and neither was chosen");
        assert!(summary.row("a", &[("load", "1.3")]).is_none(), "it was not run");
    }

    #[test]
    fn an_outcome_that_does_not_belong_is_an_error() {
        let error = |outcome: Outcome| {
            let summary = Summary::new("small", &axes(), &policies(), &[outcome]);
            format!("{:#}", summary.expect_err("an error"))
        };
        assert!(error(synthetic::outcome("2", "a", 1, 1.0)).contains("axis load has no value \"2\""));
        assert!(error(synthetic::outcome("0.8", "c", 1, 1.0)).contains("no policy \"c\""));
        let twice = vec![synthetic::outcome("0.8", "a", 1, 1.0); 2];
        let summary = Summary::new("small", &axes(), &policies(), &twice);
        assert!(format!("{:#}", summary.expect_err("an error")).contains("was run twice with seed 1"));
    }
}
