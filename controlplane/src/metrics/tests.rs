use std::collections::BTreeSet;

use super::{Families, Metrics};

const DOCUMENT: &str = include_str!("../../../docs/operating.md");

/// The names in the first column of the tables that follow the heading.
fn documented() -> BTreeSet<String> {
    let (_, section) = DOCUMENT.split_once("\n## Watching it\n").unwrap();
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let names = cells.flat_map(|(cell, _)| cell.trim_end_matches('`').split("`, `"));
    names.map(|name| name.split('{').next().unwrap().to_owned()).collect()
}

#[test]
fn every_metric_is_documented_and_every_documented_one_is_there() {
    let mut families = Families::new("any_");
    let _ = Metrics::register(&mut families);
    assert_eq!(families.names(), documented());
}
