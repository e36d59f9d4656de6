//! A policy under comparison: one of ours, written as in a routing document, or a baseline.

use std::collections::BTreeMap;

use anyhow::{anyhow, ensure};
use serde::Deserialize;
use stargate_routing::{Algorithm, AlgorithmKind, Method, PolicyFields, Scalar, Waiting};
use toml::Value;

use crate::baselines::BaselineSpec;

/// A policy as TOML: the fields of a model in a routing document, or `baseline` and its parameters; besides these how
/// requests wait, `reservations` and `shares_room`.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct PolicySpec(pub(super) BTreeMap<String, Value>);

/// A policy, read.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) router: Router,
    pub(crate) waiting: Waiting,
    pub(crate) accounted: Accounted,
    /// Waiters of a gateway take only its share of the room that a report shows.
    pub(crate) shares_room: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Router {
    /// Ours, decided by `stargate-routing`.
    Ours(Algorithm),
    Baseline(BaselineSpec),
}

/// Until when a gateway adds what it has sent to what an engine reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Accounted {
    /// Not at all.
    Never,
    /// The engine's next report, whatever that includes.
    NextReport,
    /// One round trip.
    RoundTrip,
    /// The report that includes it, as the engine says.
    Exact,
    /// Its end: the larger of the report and what is in flight counts.
    InFlight,
}

// === impl PolicySpec ===

impl PolicySpec {
    /// `accounted` is what the gateway does that is told nothing else.
    pub(crate) fn read(&self, accounted: Accounted) -> anyhow::Result<Policy> {
        let mut fields = self.0.clone();
        let accounted = match fields.remove("reservations") {
            Some(value) => Accounted::deserialize(value).map_err(|error| anyhow!("reservations: {error}"))?,
            None => accounted,
        };
        let shares_room = match fields.remove("shares_room") {
            Some(Value::Boolean(shares)) => shares,
            Some(other) => return Err(anyhow!("shares_room: found {other}, allowed: true or false")),
            None => true,
        };
        let scalars = |fields: &BTreeMap<String, Value>, is_of_policy: bool| {
            let chosen = fields.iter().filter(move |(name, _)| PolicyFields::has(name) == is_of_policy);
            chosen
                .map(|(name, value)| Ok((name.clone(), scalar(name, value)?)))
                .collect::<anyhow::Result<Vec<_>>>()
        };
        let waiting = scalars(&fields, true)?;
        let waiting =
            PolicyFields::with_fields(waiting.iter().map(|(name, value)| (name.as_str(), value.clone())))?;
        fields.retain(|name, _| !PolicyFields::has(name));
        let router = if fields.contains_key("baseline") {
            let table: toml::Table = fields.into_iter().collect();
            let baseline = BaselineSpec::deserialize(Value::Table(table))?;
            baseline.validate()?;
            Router::Baseline(baseline)
        } else {
            let name = fields.remove("algorithm");
            let kind = name.as_ref().and_then(Value::as_str).and_then(AlgorithmKind::parse);
            ensure!(kind.is_some(), "found neither `algorithm` nor `baseline`, or an unknown algorithm");
            let kind = kind.unwrap_or(AlgorithmKind::Random);
            let own = scalars(&fields, false)?;
            let method =
                Method::with_fields(kind, own.iter().map(|(name, value)| (name.as_str(), value.clone())))?;
            Router::Ours(method.algorithm)
        };
        Ok(Policy { router, waiting: waiting.waiting, accounted, shares_room })
    }
}

fn scalar(name: &str, value: &Value) -> anyhow::Result<Scalar<'static>> {
    Ok(match value {
        Value::Integer(value) => Scalar::Integer((*value).into()),
        Value::Float(value) => Scalar::Decimal(*value),
        Value::Boolean(value) => Scalar::Boolean(*value),
        Value::String(value) => Scalar::Text(value.clone().into()),
        _ => return Err(anyhow!("{name}: allowed: a number, a text, true or false")),
    })
}
