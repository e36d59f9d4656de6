//! The policies that every scenario may name, and how a scenario's own are made of them.
//!
//! A policy is written once: what differs from it elsewhere is said alone, as a change of it or as another that is `like` it.

use anyhow::{Context, anyhow, ensure};
use toml::{Table, Value};

const POLICIES: &str = include_str!("../../scenarios/policies.toml");

/// Adds them to the policies of a scenario. One of the scenario's that says neither `algorithm`, `baseline` nor `like` changes
/// the one of its name; `like` takes over the fields of another that it does not say itself.
pub(super) fn complete(policies: &mut Table) -> anyhow::Result<()> {
    let library: Table = POLICIES.parse().context("policies.toml")?;
    for (name, policy) in &mut *policies {
        let Value::Table(own) = policy else { continue };
        let model = match own.remove("like") {
            Some(Value::String(model)) => {
                ensure!(
                    !own.contains_key("algorithm") && !own.contains_key("baseline"),
                    "policy.{name}: allowed: either `like`, or `algorithm` or `baseline`"
                );
                let found = library.get(&model);
                let known: Vec<&str> = library.keys().map(String::as_str).collect();
                Some(found.ok_or_else(|| {
                    anyhow!("policy.{name}.like: found {model:?}, allowed: {}", known.join(", "))
                })?)
            }
            Some(other) => return Err(anyhow!("policy.{name}.like: found {other}, allowed: a text")),
            None if own.contains_key("algorithm") || own.contains_key("baseline") => None,
            None => library.get(name),
        };
        for (field, value) in model.and_then(Value::as_table).into_iter().flatten() {
            own.entry(field).or_insert_with(|| value.clone());
        }
    }
    for (name, policy) in library {
        policies.entry(name).or_insert(policy);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(text: &str) -> anyhow::Result<Table> {
        let mut policies = text.parse().expect("TOML");
        complete(&mut policies).map(|()| policies)
    }

    #[test]
    fn a_policy_takes_over_what_it_does_not_say() {
        let policies =
            completed("[mine]\nlike = 'recommended'\nmax_queued = 3\n[pulsar]\nmax_x = 1").expect("policies");
        let field = |policy: &str, field: &str| policies[policy].get(field).cloned();
        assert_eq!(field("mine", "max_queued"), Some(Value::Integer(3)));
        assert_eq!(field("mine", "cache_affinity_wait_ms"), field("recommended", "cache_affinity_wait_ms"));
        assert_eq!(field("mine", "like"), None);
        assert_eq!(field("pulsar", "algorithm"), Some(Value::String("pulsar".to_owned())));
        assert_eq!(field("pulsar", "max_x"), Some(Value::Integer(1)));
        let own = completed("[pulsar]\nbaseline = 'round-robin'").expect("policies");
        assert_eq!(own["pulsar"].as_table().map(Table::len), Some(1));
    }

    #[test]
    fn what_is_simulated_as_recommended_is_what_the_page_recommends() {
        let page = include_str!("../../../../docs/routing.md");
        let (_, page) =
            page.split_once("\nRecommended, one setting for all fleets").expect("the page recommends one");
        let (setting, _) =
            page.split_once("```toml\n").and_then(|(_, page)| page.split_once("```")).expect("a block");
        let mut setting: Table = setting.parse().expect("TOML");
        let setting = setting["routing"]["default"].as_table_mut().expect("a table");
        // It is the clients who say it in a scenario.
        assert_eq!(setting.remove("slo_ms"), Some(Value::Integer(10_000)));
        let library: Table = POLICIES.parse().expect("TOML");
        assert_eq!(library["recommended"].as_table(), Some(&*setting));
    }

    #[test]
    fn a_model_that_is_none_is_refused() {
        let error = |text: &str| format!("{:#}", completed(text).expect_err("an error"));
        assert!(
            error("[mine]\nlike = 'best'")
                .starts_with("policy.mine.like: found \"best\", allowed: bounded-loads")
        );
        assert!(error("[mine]\nlike = 3").starts_with("policy.mine.like: found 3"));
        assert!(
            error("[mine]\nlike = 'pulsar'\nbaseline = 'oracle'").starts_with("policy.mine: allowed: either")
        );
    }
}
