//! What is counted, when, and what comes of it.

use std::{collections::BTreeMap, time::Duration};

use super::Tally;
use crate::{clients::Ask, model::Prompt, outcome::Outcome};

const S: Duration = Duration::from_secs(1);

fn ask(place: u32) -> Ask {
    let prompt = Prompt {
        group: 0,
        session: 0,
        group_tokens: 0,
        session_tokens: 0,
        own_tokens: 1,
        is_continued: false,
    };
    Ask { prompt, output_tokens: 1, place: Some(place) }
}

fn outcome(tally: Tally) -> Outcome {
    tally.into_outcome(("s", "p", 1), BTreeMap::new(), 3.0, 5, Duration::ZERO)
}

fn is(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 1e-9, "{found}, not {wanted}");
}

#[test]
fn rates_and_shares_are_of_the_measured_time() {
    // From 10 to 30 s, with an SLO of 2 s.
    let mut tally = Tally::new(10 * S, 20 * S, 2 * S);
    tally.offered(9 * S, &ask(0));
    for second in 10..30 {
        for _ in 0..4 {
            tally.offered(second * S, &ask(0));
        }
        tally.completed(second * S, &ask(0), 2 * S, 3 * S);
        tally.completed(second * S, &ask(0), 3 * S, 3 * S);
    }
    tally.completed(9 * S, &ask(0), S, S);
    tally.rejected(12 * S);
    tally.timed_out(13 * S);
    tally.timed_out(14 * S);
    for (is_first, is_overflow) in [(true, false), (true, true), (false, true), (false, false)] {
        tally.sent(15 * S, is_first, is_overflow);
    }
    tally.sent(9 * S, true, true);
    for (finds_slot, is_avoidable) in [(true, false), (false, true), (false, false), (true, false)] {
        tally.arrived(15 * S, finds_slot, is_avoidable);
    }
    tally.began(15 * S, 100, 80);
    tally.began(16 * S, 300, 0);
    tally.began(9 * S, 1000, 1000);
    tally.held_slot(5 * S, 15 * S);
    tally.held_slot(25 * S, 99 * S);
    tally.waiting(16 * S, 7);
    let outcome = outcome(tally);
    is(outcome.offered_per_s, 4.0);
    is(outcome.bound_per_s, 3.0);
    is(outcome.completed_per_s, 2.0);
    is(outcome.goodput_per_s, 1.0);
    is(outcome.rejected_per_s, 0.05);
    is(outcome.timed_out_per_s, 0.1);
    is(outcome.attempts_per_request, 2.0);
    is(outcome.overflow_share, 0.5);
    is(outcome.queued_share, 0.5);
    is(outcome.misrouted_share, 0.25);
    is(outcome.token_reuse, 0.2);
    // 5 s and 5 s of 5 slots for 20 s.
    is(outcome.busy_share, 0.1);
    assert_eq!(outcome.seconds.len(), 30);
    let shown = |second: usize| {
        let second = &outcome.seconds[second];
        (
            second.offered,
            second.good,
            second.rejected,
            second.prompt_tokens,
            second.cached_tokens,
            second.waiting,
        )
    };
    assert_eq!(shown(9), (1, 1, 0, 1000, 1000, 0));
    assert_eq!(shown(12), (4, 1, 1, 0, 0, 0));
    assert_eq!(shown(15), (4, 1, 0, 100, 80, 7));
}

#[test]
fn what_is_offered_bounds_the_bound() {
    let mut tally = Tally::new(Duration::ZERO, 10 * S, S);
    tally.offered(S, &ask(0));
    is(outcome(tally).bound_per_s, 0.1);
}

#[test]
fn fairness_is_that_of_shares_served_in_time() {
    let mut tally = Tally::new(Duration::ZERO, 10 * S, S);
    // All of 2, half of 2, none of 1; session 2 did not ask.
    for place in [0, 0, 1, 1, 3] {
        tally.offered(S, &ask(place));
    }
    for (place, ttft) in [(0, S), (0, S), (1, S), (1, 2 * S)] {
        tally.completed(2 * S, &ask(place), ttft, ttft);
    }
    // (1 + 0.5 + 0)^2 / (3 x 1.25).
    is(outcome(tally).fairness, 0.6);
    is(outcome(Tally::new(Duration::ZERO, 10 * S, S)).fairness, 1.0);
}

#[test]
fn quantiles_are_of_what_was_measured() {
    let mut tally = Tally::new(S, 9 * S, S);
    tally.first_token(Duration::ZERO, 99 * S);
    for ms in 1..=100 {
        tally.first_token(S, Duration::from_millis(ms));
    }
    let ttft = outcome(tally).ttft_ms;
    // To three digits.
    for (found, wanted) in [(ttft.p50, 50.0), (ttft.p90, 90.0), (ttft.p99, 99.0), (ttft.mean, 50.5)] {
        assert!((found / wanted - 1.0).abs() < 2e-3, "{found}, not {wanted}");
    }
}
