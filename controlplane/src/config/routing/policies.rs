//! From a document to the policies that are published: one for each model with an entry, one for all others.

use std::{collections::BTreeMap, sync::Arc};

use stargate_routing::{AlgorithmKind, Method, Policy};

use super::document::{Document, Entry, Methods};
use crate::names::ModelName;

/// What holds for each model.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    default: Arc<Policy>,
    models: BTreeMap<ModelName, Arc<Policy>>,
}

// === impl Policies ===

impl Policies {
    /// The policies of a document. Those that are as `before` are the very same: what is kept for a policy
    /// by its identity stays good.
    pub fn of(document: &Document, before: Option<&Self>) -> Self {
        let top = document.request_algorithms.as_ref();
        let share = |policy: Policy, same: Option<&Arc<Policy>>| match same {
            Some(same) if **same == policy => same.clone(),
            _ => Arc::new(policy),
        };
        let default = policy(&document.default, top, false);
        let models = document
            .models
            .iter()
            .map(|(model, entry)| {
                let same = before.and_then(|before| before.models.get(model));
                (model.clone(), share(policy(entry, top, true), same))
            })
            .collect();
        Self { default: share(default, before.map(|before| &before.default)), models }
    }

    /// What holds for `model`.
    pub fn policy(&self, model: &str) -> &Arc<Policy> {
        self.models.get(model).unwrap_or(&self.default)
    }

    /// Whether models without an entry are treated otherwise in `other`.
    pub fn has_other_default(&self, other: &Self) -> bool {
        self.default != other.default
    }

    /// The models of these or of `other` that have an entry.
    pub fn models<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a ModelName> {
        self.models.keys().chain(other.models.keys())
    }
}

/// The policy of an entry. What the entry says of an algorithm goes before what the top level says of it, and
/// that before the defaults, which may be selected only where the top level is silent.
fn policy(entry: &Entry, top: Option<&Methods>, is_model: bool) -> Policy {
    let own = entry.method.algorithm.kind();
    let mut methods = match top {
        Some(methods) => methods.clone(),
        None => AlgorithmKind::ALL
            .iter()
            .map(|kind| (*kind, Method { algorithm: kind.with_defaults(), ..Method::default() }))
            .collect(),
    };
    if is_model || top.is_none() {
        methods.remove(&own);
    }
    methods.extend(entry.request_algorithms.iter().map(|(kind, method)| (*kind, method.clone())));
    Policy {
        method: entry.method.clone(),
        request_methods: methods.into_values().collect(),
        waiting: entry.fields.waiting.clone(),
        affinity_from_leading_messages: entry.fields.affinity_from_leading_messages,
    }
}
