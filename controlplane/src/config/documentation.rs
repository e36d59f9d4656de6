//! Tests that keep the documentation true: every example in it parses, the defaults that it names are the
//! defaults, no key is missing.

use std::collections::BTreeSet;

use stargate_routing::{AlgorithmKind, Method, PolicyFields, Scalar};
use toml::{Table, Value};

use super::*;
use crate::{
    engine::Engine,
    health_path::HealthPath,
    names::{BackendId, ClusterId, ModelName, RoutingKey},
    ranged::{Throughput, Whole},
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

/// Lines "#key = value" without their "#", and the indented examples that follow [routing] without theirs.
fn with_examples() -> String {
    let text = with_defaults();
    let (before, examples) = text.split_once("\n# One model's own routing").unwrap();
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
            // What may stand in some entry; whether it may stand in this one is the parser's business.
            Value::Table(table) if path == "routing.models" || path.ends_with("request_algorithms") => {
                for entry in table.values().filter(|entry| entry.is_table()) {
                    collect("routing.entry", entry, keys);
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
    Config { backends: vec![backend], ..Config::default() }
}

#[test]
fn as_it_is_it_sets_nothing() {
    assert_eq!(parse(DOCUMENT), Config::default());
}

#[test]
fn uncommented_it_gives_exactly_the_defaults() {
    let mut documented = parse(&with_defaults());
    assert_eq!(documented.routing.read().unwrap(), Document::default());
    // What is set and what is not makes no difference to [routing] but this.
    documented.routing = Routing::default();
    assert_eq!(documented, Config::default());
}

#[test]
fn its_examples_are_valid() {
    let config = parse(&with_examples());
    assert_eq!(config.backends.len(), 1);
    assert_eq!(config.routing.read().unwrap().models.len(), 2);
    assert_eq!(config.warnings(), Vec::<String>::new());
}

#[test]
fn no_key_is_missing_and_none_is_made_up() {
    let documented = keys(&toml::from_str(&with_examples()).unwrap());
    let mut expected = keys(&Table::try_from(complete()).unwrap());
    expected.extend(["routing.default".to_owned(), "routing.entry.algorithm".to_owned()]);
    let fields = AlgorithmKind::ALL.iter().flat_map(|kind| Method::field_names(*kind));
    expected.extend(fields.chain(PolicyFields::names()).map(|name| format!("routing.entry.{name}")));
    assert_eq!(documented, expected);
}

#[test]
fn every_key_with_a_default_shows_it() {
    let shown = keys(&toml::from_str(&with_defaults()).unwrap());
    let with_default = keys(&Table::try_from(Config::default()).unwrap());
    let missing: Vec<_> = with_default.difference(&shown).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The files with examples.
const PAGES: [(&str, &str); 7] = [
    ("README.md", include_str!("../../../README.md")),
    ("docs/api.md", include_str!("../../../docs/api.md")),
    ("docs/architecture.md", include_str!("../../../docs/architecture.md")),
    ("docs/operating.md", include_str!("../../../docs/operating.md")),
    ("docs/performance.md", include_str!("../../../docs/performance.md")),
    ("docs/routing.md", include_str!("../../../docs/routing.md")),
    ("xtask/src/demo/stargate.toml", include_str!("../../../xtask/src/demo/stargate.toml")),
];

/// The fenced blocks of a page in this language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("```{language}\n");
    let after = page.split(start.as_str()).skip(1);
    after.map(|rest| rest.split_once("```").expect("a block that ends").0).collect()
}

/// A block of TOML is a piece of the configuration file; one of JSON is a routing document.
#[test]
fn every_example_of_every_page_is_valid() {
    let mut count = 0;
    for (page, text) in PAGES {
        let whole = if page == PAGES[6].0 { vec![text] } else { blocks(text, "toml") };
        for example in whole {
            let mut layers = Layers::default();
            layers.file_text(std::path::Path::new(page), example.to_owned());
            let config = layers.load().unwrap_or_else(|error| panic!("{error} of:\n{example}"));
            assert_eq!(config.warnings(), Vec::<String>::new(), "{example}");
            count += 1;
        }
        for example in blocks(text, "json") {
            let routing = Routing::from_json(example).unwrap_or_else(|error| panic!("{error} of {example}"));
            let document = routing.read().unwrap_or_else(|violation| panic!("{violation:?} of {example}"));
            assert_eq!(document.warnings(&[]), Vec::<String>::new(), "{example}");
            count += 1;
        }
    }
    assert!(count >= 4, "only {count} examples are found");
}

/// The table of fields in docs/routing.md: `| \`name\` | algorithms | default | … |`.
#[test]
fn the_table_of_fields_is_complete_and_its_defaults_are_the_defaults() {
    let (_, page) = PAGES[5];
    let (_, page) = page.split_once("\n## Configuration\n").expect("a section on configuration");
    let shown = |value: &Scalar<'_>| match value {
        Scalar::Text(text) if text.is_empty() => "empty".to_owned(),
        Scalar::Text(text) => format!("`{text}`"),
        Scalar::Decimal(number) => number.to_string(),
        other => other.to_string(),
    };
    let row = |name: &str| -> Vec<&str> {
        let start = format!("| `{name}` |");
        let line = page.lines().find(|line| line.starts_with(&start));
        line.unwrap_or_else(|| panic!("no row for {name}")).split('|').map(str::trim).collect()
    };
    for kind in AlgorithmKind::ALL {
        let method = Method { algorithm: kind.with_defaults(), ..Method::default() };
        let values = method.fields();
        for name in Method::field_names(kind) {
            let cells = row(name);
            let default = values.iter().find(|(known, _)| *known == name).map(|(_, value)| shown(value));
            let of_kind = format!("{} {}", default.as_deref().unwrap_or("none"), kind.as_str());
            assert!(
                cells[3] == default.as_deref().unwrap_or("none") || cells[3].contains(&of_kind),
                "{name} of {}: {} in {:?}",
                kind.as_str(),
                default.as_deref().unwrap_or("none"),
                cells[3]
            );
            assert!(
                cells[2] == "all" || cells[2].split(", ").any(|known| known == kind.as_str()),
                "{name} of {}: {:?}",
                kind.as_str(),
                cells[2]
            );
        }
    }
    let values = PolicyFields::default().fields();
    for name in PolicyFields::names() {
        let default = values.iter().find(|(known, _)| *known == name).map(|(_, value)| shown(value));
        assert_eq!(row(name)[3], default.as_deref().unwrap_or("none"), "{name}");
    }
}
