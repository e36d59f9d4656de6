//! Which way the dependencies of the crates point that make up the product, and what must not get into them.
//!
//! Read from what cargo resolves for this platform. Tests and build scripts may use what they like, and the crates around the product
//! (tests, benchmarks, this one) whatever they need; nothing that is shipped may need one of those.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::graph::Graph;

/// What one crate may use.
#[derive(Debug)]
struct Layer {
    name: &'static str,
    /// Crates of this workspace.
    ours: &'static [&'static str],
    /// Nothing but these, where its dependencies are listed.
    only: Option<&'static [&'static str]>,
    /// Not these by itself.
    not_itself: &'static [&'static str],
    /// Not these by whatever way.
    never: &'static [&'static str],
}

/// From the lowest up.
const LAYERS: [Layer; 4] = [
    Layer { name: "stargate-ebpf-common", ours: &[], only: Some(&["bytemuck"]), not_itself: &[], never: &[] },
    // Decisions follow from their arguments: nothing that does I/O or tells the time.
    Layer {
        name: "stargate-routing",
        ours: &[],
        only: Some(&["fastrand", "slab", "xxhash-rust"]),
        not_itself: &[],
        never: &[],
    },
    // A core knows no configuration file, no REST, and no runtime but its own.
    Layer {
        name: "stargate-dataplane",
        ours: &["stargate-ebpf-common", "stargate-routing"],
        only: None,
        not_itself: &[],
        never: &["axum", "clap", "hyper", "prometheus", "tokio", "toml", "tracing-subscriber"],
    },
    // Connections of clients, and rings, are the data plane's.
    Layer {
        name: "stargate-controlplane",
        ours: &["stargate-dataplane", "stargate-routing"],
        only: None,
        not_itself: &["httparse", "io-uring", "monoio"],
        never: &[],
    },
];

/// Who uses what, outside of tests and build scripts.
#[derive(Debug, Default)]
struct Packages {
    /// By names; versions of one package count as one.
    uses: Graph,
    ours: BTreeSet<String>,
}

/// What is wrong by `cargo metadata`, a line each.
pub(super) fn faults(metadata: &Value) -> Vec<String> {
    Packages::read(metadata).faults()
}

// === impl Packages ===

impl Packages {
    fn read(metadata: &Value) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names: BTreeMap<String, String> = list(&metadata["packages"])
            .iter()
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        let name = |id: &Value| names.get(&text(id)).cloned().unwrap_or_default();
        // A kind of null is a dependency of the code itself.
        let is_of_code =
            |dependency: &Value| list(&dependency["dep_kinds"]).iter().any(|it| it["kind"].is_null());
        let mut packages = Self::default();
        packages.ours.extend(list(&metadata["workspace_members"]).iter().map(name));
        for node in list(&metadata["resolve"]["nodes"]) {
            let used = list(&node["deps"]).into_iter().filter(|dependency| is_of_code(dependency));
            packages.uses.add(&name(&node["id"]), used.map(|dependency| name(&dependency["pkg"])));
        }
        packages
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for Layer { name, ours, only, not_itself, never } in LAYERS {
            let Some(uses) = self.uses.needs(name) else {
                faults.push(format!("{name} is not in this workspace any more"));
                continue;
            };
            for used in uses {
                let is_ours = self.ours.contains(used);
                let used = used.as_str();
                if is_ours && !ours.contains(&used) {
                    faults.push(format!("{name} must not use {used}: it lies beside or above it"));
                } else if !is_ours && only.is_some_and(|only| !only.contains(&used)) {
                    faults
                        .push(format!("{name} uses {used}, which is not among the few crates it is to use"));
                } else if not_itself.contains(&used) {
                    faults.push(format!("{name} must not use {used} by itself"));
                }
            }
            let ways = never.iter().filter_map(|used| self.uses.way(name, used));
            faults.extend(
                ways.map(|way| format!("{name} must not need {}: {}", way[way.len() - 1], way.join(" → "))),
            );
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product as it should be, and what is added to it.
    fn faults_with(added: &[(&str, &str)]) -> Vec<String> {
        let mut packages = Packages::default();
        packages.ours.insert("stargate-tests".to_owned());
        for Layer { name, ours, .. } in LAYERS {
            packages.ours.insert(name.to_owned());
            packages.uses.add(name, ours.iter().map(|name| (*name).to_owned()));
        }
        for (package, used) in added {
            packages.uses.add(package, [(*used).to_owned()]);
        }
        packages.faults()
    }

    #[test]
    fn the_order_itself_is_no_fault() {
        assert!(faults_with(&[("stargate-routing", "slab"), ("stargate-controlplane", "axum")]).is_empty());
    }

    #[test]
    fn each_rule_finds_what_breaks_it() {
        for added in [
            ("stargate-routing", "stargate-dataplane"),
            ("stargate-routing", "monoio"),
            ("stargate-dataplane", "stargate-tests"),
            ("stargate-controlplane", "monoio"),
        ] {
            assert_eq!(faults_with(&[added]).len(), 1, "{added:?}");
        }
        let hidden = [("stargate-dataplane", "aya"), ("aya", "inner"), ("inner", "tokio")];
        assert_eq!(
            faults_with(&hidden),
            ["stargate-dataplane must not need tokio: stargate-dataplane → aya → inner → tokio"]
        );
    }
}
