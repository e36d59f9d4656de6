//! Stargate with everything on: static backends, checked for health and measured for round-trip time, requests routed as
//! docs/routing.md recommends it, by the affinity key that their first message gives.

use std::{fmt::Write, net::SocketAddr};

use anyhow::{Context, ensure};

use super::{Contestant, Kind, Stage};
use crate::peers::stage::ENGINE_CONCURRENCY;

/// What is recommended is what is measured: its setting is read where readers find it.
const ROUTING_PAGE: &str = include_str!("../../../../../docs/routing.md");

/// Prefill that the engines are said to do: they take no time for it.
const INPUT_TPS: f64 = 1e6;

/// Starts it, or the other one, which has settings of its own over the same configuration.
pub(super) fn start(kind: Kind, stage: &Stage<'_>, upstreams: &[SocketAddr]) -> anyhow::Result<Contestant> {
    let other = stage.other.as_ref().filter(|_| kind == Kind::Other);
    let program = other.map(|other| &other.program).or(stage.stargate.as_ref()).context("no program")?;
    let settings = other.map(|other| &other.settings[..]).unwrap_or_default();
    let file = stage.write("stargate.toml", &configuration(upstreams)?)?;
    let mut arguments = vec!["serve".to_owned(), "--config".to_owned(), file];
    // One core of those that it may use, and `run-pinned` leaves it exactly one, its control plane included.
    arguments.extend(["--cores".to_owned(), "1".to_owned(), "--log-level".to_owned(), "warn".to_owned()]);
    arguments.extend(settings.iter().flat_map(|setting| ["--set".to_owned(), setting.clone()]));
    let mut process = stage.start_own(kind, program, &arguments)?;
    let addresses = process.ready_addresses("dataplane")?;
    ensure!(!addresses.is_empty(), "no address");
    Ok(Contestant { kind, addresses, process: Some(process) })
}

/// The recommended setting: a table of TOML, `[routing.default]`.
fn recommended() -> anyhow::Result<&'static str> {
    let setting = ROUTING_PAGE
        .split_once("\nRecommended, one setting for all fleets")
        .and_then(|(_, after)| after.split_once("\n```toml\n")?.1.split_once("```"));
    setting.map(|(setting, _)| setting).context("docs/routing.md shows no recommended setting")
}

fn configuration(upstreams: &[SocketAddr]) -> anyhow::Result<String> {
    let mut text = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n\n[admin]\nlisten = \"127.0.0.1:0\"\n\n\
         {}affinity_from_leading_messages = 1\n",
        recommended()?
    );
    for (number, upstream) in upstreams.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n[[backends]]\nid = \"e{number}\"\nurl = \"http://{upstream}\"\nengine = \"vllm\"\nmodels = [\"mock\"]\n\
             max_engine_concurrency = {ENGINE_CONCURRENCY}\nlast_mean_input_tps = {INPUT_TPS:.1}\n\
             max_input_tps = {INPUT_TPS:.1}\n"
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_every_upstream() {
        let upstreams: Vec<SocketAddr> =
            (1..=3).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let text = configuration(&upstreams).unwrap();
        assert_eq!(text.matches("[[backends]]").count(), 3);
        assert!(text.contains("url = \"http://127.0.0.1:2\""));
    }

    #[test]
    fn it_is_set_up_as_the_page_recommends() {
        let setting = recommended().unwrap();
        assert!(
            setting.starts_with("[routing.default]\nalgorithm = \"pulsar-wait-and-widen\"\n"),
            "{setting}"
        );
        assert!(setting.ends_with('\n') && setting.matches('[').count() == 1, "{setting}");
        assert!(setting.contains("\nprimary_admission = \"capacity\""), "{setting}");
    }
}
