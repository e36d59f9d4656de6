//! Runs the points of a grid under all policies and seeds, on as many cores as it is given.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use anyhow::anyhow;

use super::{
    bound::Bound,
    outcome::Outcome,
    scenario::{Arrivals, Clients, Point},
    world::{Run, run},
};

/// Outcomes in the order of points, policies and seeds, whichever ran first.
pub(super) fn run_all(
    name: &str,
    points: &[Point],
    bounds: &[Bound],
    jobs: usize,
) -> anyhow::Result<Vec<Outcome>> {
    let mut runs = Vec::new();
    for (point, bound) in points.iter().zip(bounds) {
        for policy in &point.policies {
            runs.extend(point.scenario.seeds.iter().map(|seed| (point, bound, policy, *seed)));
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((Point { labels, scenario, .. }, bound, (policy_name, policy), seed)) = runs.get(index)
            else {
                return done;
            };
            let named = Run { scenario: name, policy: policy_name, point: labels, seed: *seed };
            done.push((index, run(named, scenario, policy, bound)));
        }
    };
    let mut outcomes = Vec::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.clamp(1, runs.len().max(1))).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            outcomes.extend(worker.join().map_err(|_| anyhow!("a run of {name} panicked"))?);
        }
        anyhow::Ok(())
    })?;
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The bound of each point: it depends on engines and prompts, which most points have in common.
pub(super) fn bounds(points: &[Point]) -> anyhow::Result<Vec<Bound>> {
    let mut known: HashMap<String, Bound> = HashMap::new();
    let mut bounds = Vec::new();
    for Point { scenario, .. } in points {
        let clients = Clients { arrivals: Arrivals::default(), hot: None, ..scenario.clients.clone() };
        let key = format!("{:?} {clients:?}", scenario.engines);
        let bound = match known.get(&key) {
            Some(bound) => bound.clone(),
            None => Bound::of(scenario)?,
        };
        known.insert(key, bound.clone());
        bounds.push(bound);
    }
    Ok(bounds)
}
