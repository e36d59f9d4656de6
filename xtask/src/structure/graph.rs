//! Who needs whom, by name: ways from one to another, and those who need one another.

use std::collections::{BTreeMap, BTreeSet};

/// Names, each with those that it needs.
#[derive(Debug, Default)]
pub(super) struct Graph(BTreeMap<String, BTreeSet<String>>);

// === impl Graph ===

impl Graph {
    /// Enters a name, and that it needs these.
    pub(super) fn add(&mut self, name: &str, needs: impl IntoIterator<Item = String>) {
        self.0.entry(name.to_owned()).or_default().extend(needs);
    }

    /// What a name needs by itself; `None` when it was never entered.
    pub(super) fn needs(&self, name: &str) -> Option<&BTreeSet<String>> {
        self.0.get(name)
    }

    /// Whether a name needs another by itself.
    pub(super) fn has(&self, name: &str, needed: &str) -> bool {
        self.0.get(name).is_some_and(|needs| needs.contains(needed))
    }

    /// The shortest way of needs from one to another, both ends included. From a name to itself it is a circle.
    pub(super) fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut before = BTreeMap::<&str, &str>::new();
        let mut next = vec![from];
        while !next.is_empty() && !before.contains_key(to) {
            let mut found = Vec::new();
            for name in next {
                for needed in self.0.get(name).into_iter().flatten() {
                    if !before.contains_key(needed.as_str()) {
                        before.insert(needed, name);
                        found.push(needed.as_str());
                    }
                }
            }
            next = found;
        }
        let mut way = vec![to.to_owned()];
        let mut at = *before.get(to)?;
        while at != from {
            way.push(at.to_owned());
            at = before[at];
        }
        way.push(from.to_owned());
        way.reverse();
        Some(way)
    }

    /// Groups of names that all need one another, if only by way of others.
    pub(super) fn knots(&self) -> Vec<Vec<String>> {
        let mut knots = Vec::<Vec<String>>::new();
        for name in self.0.keys().filter(|name| self.way(name, name).is_some()) {
            if !knots.iter().any(|knot| knot.contains(name)) {
                let is_in =
                    |other: &&String| self.way(name, other).is_some() && self.way(other, name).is_some();
                knots.push(self.0.keys().filter(is_in).cloned().collect());
            }
        }
        knots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(needs: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        for (from, to) in needs {
            graph.add(from, [(*to).to_owned()]);
        }
        graph
    }

    #[test]
    fn ways_are_the_shortest() {
        let graph = graph(&[("a", "b"), ("b", "c"), ("c", "d"), ("b", "d"), ("d", "a")]);
        assert_eq!(graph.way("a", "d").unwrap(), ["a", "b", "d"]);
        assert_eq!(graph.way("b", "b").unwrap(), ["b", "d", "a", "b"]);
        assert_eq!(graph.way("a", "e"), None);
    }

    #[test]
    fn knots_hold_all_that_need_one_another_and_nobody_else() {
        let graph =
            graph(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "c"), ("f", "a")]);
        assert_eq!(graph.knots(), [vec!["a", "b"], vec!["c", "d", "e"]]);
    }
}
