//! Tests that keep docs/stargate.toml true: it parses, its defaults are the defaults, no key is missing.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::*;
use crate::{
    health::HealthPath,
    names::{BackendId, ClusterId, ModelName, RoutingKey},
    registry::Engine,
};

const DOCUMENT: &str = include_str!("../../../docs/stargate.toml");

/// Lines "#key = value" without their "#".
fn with_defaults() -> String {
    let uncomment = |line: &'static str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_lowercase()) => rest,
        _ => line,
    };
    DOCUMENT.lines().map(uncomment).collect::<Vec<_>>().join("\n")
}

/// The same, and the indented examples that follow [routing].
fn with_examples() -> String {
    let text = with_defaults();
    let (before, examples) = text.split_once("\n# One model's own routing.").unwrap();
    let uncomment = |line: &str| line.strip_prefix("#   ").unwrap_or("").to_owned();
    let examples: Vec<String> = examples.lines().map(uncomment).collect();
    format!("{before}\n{}", examples.join("\n"))
}

fn parse(text: &str) -> Config {
    let mut layers = Layers::default();
    layers.file_text(std::path::Path::new("docs/stargate.toml"), text.to_owned());
    layers.load().unwrap()
}

/// Every key, as a path; what stands in for a model name is left out.
fn keys(table: &Table) -> BTreeSet<String> {
    fn collect(path: &str, value: &Value, keys: &mut BTreeSet<String>) {
        match value {
            Value::Table(table) if path == "routing.models" => {
                for model in table.values() {
                    collect("routing", model, keys);
                }
            }
            Value::Table(table) => {
                for (key, value) in table {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    collect(&path, value, keys);
                }
            }
            Value::Array(items) if items.iter().any(Value::is_table) => {
                for item in items {
                    collect(path, item, keys);
                }
            }
            _ => {
                keys.insert(path.to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    collect("", &Value::Table(table.clone()), &mut found);
    found
}

/// A configuration in which every key is set. Written out, so that a new field does not compile without one.
fn complete() -> Config {
    let routing = Routing {
        algorithm: Some(AlgorithmName::Pulsar),
        sample_count: Some(Whole::new(2)),
        comparator: Some(Comparator::Ttft),
        seed: Some(Whole::new(0)),
        rendezvous_weight: Some(RendezvousWeight::MaxInputTps),
        consider_kv_free_tokens: Some(false),
        affinity_from_leading_messages: Some(Whole::new(0)),
        models: std::collections::BTreeMap::new(),
    };
    let backend = StaticBackend {
        id: BackendId::new("a").unwrap(),
        url: crate::backend_url::BackendUrl::parse("http://a").unwrap(),
        cluster_id: ClusterId::new("c"),
        routing_key: RoutingKey::new("k"),
        engine: Some(Engine::Vllm),
        health_path: HealthPath::new("/"),
        models: vec![ModelName::new("m").unwrap()],
        max_engine_concurrency: Some(Whole::new(1)),
        last_mean_input_tps: Throughput::new(1.0),
        max_input_tps: Throughput::new(1.0),
    };
    Config { routing, backends: vec![backend], ..Config::default() }
}

#[test]
fn as_it_is_it_sets_nothing() {
    assert_eq!(parse(DOCUMENT), Config::default());
}

#[test]
fn uncommented_it_gives_exactly_the_defaults() {
    let mut documented = parse(&with_defaults());
    assert_eq!(documented.routing.policy("any"), Config::default().routing.policy("any"));
    // What is set and what is not makes no difference to [routing] but this.
    documented.routing = Routing::default();
    assert_eq!(documented, Config::default());
}

#[test]
fn its_examples_are_valid() {
    let config = parse(&with_examples());
    assert_eq!(config.backends.len(), 1);
    assert_eq!(config.routing.models.len(), 2);
    assert_eq!(config.warnings(), Vec::<String>::new());
}

#[test]
fn no_key_is_missing_and_none_is_made_up() {
    let documented = keys(&toml::from_str(&with_examples()).unwrap());
    assert_eq!(documented, keys(&Table::try_from(complete()).unwrap()));
}

#[test]
fn every_key_with_a_default_shows_it() {
    let shown = keys(&toml::from_str(&with_defaults()).unwrap());
    let with_default = keys(&Table::try_from(Config::default()).unwrap());
    let missing: Vec<_> = with_default.difference(&shown).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
