use std::time::Duration;

use super::{
    super::testing::{Fleet, home, overflow, session},
    *,
};

const KEY: u32 = 5;

/// The clusters of `fleet` in the order of the ranks that `KEY` gives them, found by filling one after another.
fn ranks(fleet: &Fleet, policy: &mut RankedBands) -> Vec<usize> {
    let view = View { now: Duration::ZERO, clusters: &fleet.clusters, engines: &[] };
    policy.score_all(&view, KEY);
    let mut ranking = policy.ranking.clone();
    ranking.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranking.into_iter().map(|scored| scored.cluster).collect()
}

fn policy(clusters: usize) -> RankedBands {
    RankedBands::new(Parameters::default(), clusters, 0)
}

fn fill(fleet: &mut Fleet, clusters: &[usize]) {
    for cluster in clusters {
        fleet.clusters[*cluster].running = 14;
    }
}

#[test]
fn the_first_rank_is_taken_up_to_its_slots_and_max_queued() {
    let (mut fleet, mut policy) = (Fleet::of(8), policy(8));
    let ranks = ranks(&fleet, &mut policy);
    for running in [0, 10, 13] {
        fleet.clusters[ranks[0]].running = running;
        assert_eq!(fleet.choose(&mut policy, &session(KEY)), home(ranks[0]));
    }
    fleet.clusters[ranks[0]].running = 14;
    assert_ne!(fleet.cluster(&mut policy, &session(KEY)), Some(ranks[0]));
    // No slots reported counts as free.
    fleet.clusters[ranks[0]].slots = 0;
    assert_eq!(fleet.choose(&mut policy, &session(KEY)), home(ranks[0]));
}

#[test]
fn bands_of_1_2_4_and_8_are_tried_in_order() {
    let (mut fleet, mut policy) = (Fleet::of(15), policy(15));
    let ranks = ranks(&fleet, &mut policy);
    for (full, band) in [(1, 1..3), (2, 2..3), (3, 3..7), (6, 6..7), (7, 7..15)] {
        fill(&mut fleet, &ranks[..full]);
        let mut taken: Vec<usize> =
            (0..300).filter_map(|_| fleet.cluster(&mut policy, &session(KEY))).collect();
        taken.sort_unstable();
        taken.dedup();
        let mut expected = ranks[band].to_vec();
        expected.sort_unstable();
        assert_eq!(taken, expected, "with the first {full} full");
    }
    assert!(matches!(fleet.choose(&mut policy, &session(KEY)), Choice::Send { is_overflow: true, .. }));
    fill(&mut fleet, &ranks);
    assert_eq!(fleet.choose(&mut policy, &session(KEY)), Choice::Full);
}

#[test]
fn within_a_band_the_shorter_expected_ttft_wins() {
    let (mut fleet, mut policy) = (Fleet::of(3), policy(3));
    let ranks = ranks(&fleet, &mut policy);
    fill(&mut fleet, &ranks[..1]);
    let (near, far) = (ranks[1], ranks[2]);
    fleet.clusters[far].rtt = Duration::from_millis(30);
    assert_eq!(fleet.choose(&mut policy, &session(KEY)), overflow(near));
    // 100 tokens are 100 ms, which count only where no slot is free.
    fleet.clusters[near].queued_tokens = 100;
    fleet.clusters[near].running = 9;
    assert_eq!(fleet.choose(&mut policy, &session(KEY)), overflow(near));
    fleet.clusters[near].running = 10;
    assert_eq!(fleet.choose(&mut policy, &session(KEY)), overflow(far));
    // Its own 1000 tokens take the faster one 0.9 s less.
    fleet.clusters[near].input_tps = 10_000.0;
    policy = self::policy(3);
    let after = self::ranks(&fleet, &mut policy);
    assert_eq!(after[0], near, "ten times the weight, and full slots are no full queue");
}

#[test]
fn shares_follow_the_highest_weight_seen_and_a_leaver_moves_only_its_own() {
    let (mut fleet, mut policy) = (Fleet::of(5), policy(5));
    fleet.clusters[4].input_tps = 2000.0;
    let before = fleet.places(&mut policy, 6000);
    let share =
        |places: &[Option<usize>], cluster| places.iter().filter(|place| **place == Some(cluster)).count();
    for cluster in 0..4 {
        assert!((900..=1100).contains(&share(&before, cluster)), "{}", share(&before, cluster));
    }
    assert!((1880..=2120).contains(&share(&before, 4)), "{}", share(&before, 4));
    // A slower report moves no key.
    fleet.clusters[4].input_tps = 1000.0;
    assert_eq!(fleet.places(&mut policy, 6000), before);
    fleet.clusters[2].is_routable = false;
    let after = fleet.places(&mut policy, 6000);
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert_eq!(moved, share(&before, 2));
    assert_eq!(share(&after, 2), 0);
    // Another gateway ranks alike; another seed does not.
    fleet.clusters[2].is_routable = true;
    fleet.clusters[4].input_tps = 2000.0;
    assert_eq!(fleet.places(&mut self::policy(5), 6000), before);
    let other = fleet.places(&mut RankedBands::new(Parameters::default(), 5, 1), 6000);
    assert!(before.iter().zip(&other).filter(|(before, other)| before != other).count() > 4000);
}

#[test]
fn a_cluster_that_has_failed_keeps_its_rank_and_one_without_a_weight_has_none() {
    let (mut fleet, mut policy) = (Fleet::of(4), policy(4));
    let ranks = ranks(&fleet, &mut policy);
    fleet.excluded = vec![ranks[0], ranks[1]];
    assert_eq!(fleet.choose(&mut policy, &session(KEY)), overflow(ranks[2]));
    fleet.excluded.clear();
    let mut silent = Fleet::of(4);
    for cluster in [0, 1, 2] {
        silent.clusters[cluster].input_tps = 0.0;
    }
    assert_eq!(silent.shares(&mut self::policy(4), 20), [0, 0, 0, 20]);
    Fleet::of(6).assert_never_chooses_what_it_may_not(&mut self::policy(6));
}
