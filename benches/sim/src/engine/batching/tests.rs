//! Steps as worked out by hand, and that steps taken together come to the same as one by one.

use std::time::Duration;

use proptest::prelude::*;

use super::super::{
    EngineSpec, Kind,
    tests::{
        MS, Timeline, alone, arrive, of_session,
        random::{acts, assert_alike, batching_spec, time},
        run, shown, timeline,
    },
};
use super::*;

/// A step takes 10 ms, and for each token of a prompt 1 ms, for each request in decode 2 ms.
fn spec(slots: u32, batched_tokens: u32, kv_tokens: u64) -> EngineSpec {
    EngineSpec::Batching {
        slots,
        batched_tokens,
        kv_tokens,
        block_tokens: 4,
        step_ms: 10.0,
        prefill_us_per_token: 1_000.0,
        decode_us_per_request: 2_000.0,
        context_us_per_1k_tokens: 0.0,
    }
}

#[test]
fn prefills_in_chunks_take_turns_with_decodes() {
    // 0–20: 10 tokens of the first prompt. 20–40: 5 of each. 40–55: 3 of the second, and a token for the first.
    // 55–69: a token for both. 69–81: one for the first.
    let jobs = [(Duration::ZERO, alone(0, 15, 4)), (5 * MS, alone(1, 8, 2))];
    assert_eq!(
        shown(&timeline(&spec(3, 10, 0), jobs)),
        [
            "0: 0 begins with 0",
            "20: 1 begins with 0",
            "40: 0 first token",
            "55: 1 first token",
            "69: 1 ends",
            "81: 0 ends",
        ]
    );
}

#[test]
fn who_finds_no_budget_waits_for_the_next_step() {
    // Three tokens a step. 0–13: the first prompt. 13–27: one token, 2 of the second prompt. 27–41: a token, the second
    // prompt's last, 1 of the third prompt. 41–56: two tokens, the third prompt's last. 56–70, 70–82, 82–94.
    let jobs = [(Duration::ZERO, alone(0, 3, 5)), (MS, alone(1, 3, 5)), (2 * MS, alone(2, 2, 1))];
    assert_eq!(
        shown(&timeline(&spec(3, 3, 0), jobs)),
        [
            "0: 0 begins with 0",
            "13: 0 first token",
            "13: 1 begins with 0",
            "27: 2 begins with 0",
            "41: 1 first token",
            "56: 2 first token",
            "56: 2 ends",
            "70: 0 ends",
            "94: 1 ends",
        ]
    );
}

#[test]
fn who_began_last_gives_way_and_goes_on_where_it_was() {
    // Four blocks. 17–36 both hold two; for its ninth token the first takes one of the second's, whose other one stays.
    // 36–84: four tokens. 84–101: the second's prompt and first token again, but for the block that is left, and the
    // third, which came before the second gave way but waits behind it. 101–113.
    let jobs = [(Duration::ZERO, alone(0, 7, 6)), (MS, alone(1, 7, 3)), (20 * MS, alone(2, 3, 1))];
    let spec = spec(2, 10, 16);
    assert_eq!(
        shown(&timeline(&spec, jobs)),
        [
            "0: 0 begins with 0",
            "17: 0 first token",
            "17: 1 begins with 0",
            "36: 1 first token",
            "84: 0 ends",
            "84: 1 begins with 4",
            "84: 2 begins with 0",
            "101: 2 first token",
            "101: 2 ends",
            "113: 1 ends",
        ]
    );
    let (mut engine, mut timeline) = (spec.build(), Timeline::new());
    for (at, job) in jobs {
        arrive(&mut engine, at, job, &mut timeline);
    }
    run(&mut engine, 40 * MS, &mut timeline);
    let state = EngineState {
        running: 1,
        queued: 2,
        queued_tokens: 8 + 3,
        in_prefill: 0,
        in_decode: 1,
        total_tokens: 17,
        kv_capacity_tokens: 16,
        kv_used_tokens: 12,
    };
    assert_eq!((engine.state(), engine.has_free_slot()), (state, false));
}

#[test]
fn steps_take_longer_as_contexts_grow() {
    let mut spec = spec(2, 1_000, 0);
    if let EngineSpec::Batching {
        prefill_us_per_token,
        decode_us_per_request,
        context_us_per_1k_tokens,
        ..
    } = &mut spec
    {
        (*prefill_us_per_token, *decode_us_per_request, *context_us_per_1k_tokens) = (0.0, 0.0, 1_000.0);
    }
    // 10 ms each, and 1 us for each of 1001, 1002 and 1003 tokens. The second comes in the middle of the third step.
    let jobs = [(Duration::ZERO, alone(0, 1_000, 4)), (25 * MS, alone(1, 10, 2))];
    assert_eq!(shown(&timeline(&spec, jobs[..1].to_vec())).last().unwrap(), "43.006: 0 ends");
    assert_eq!(
        shown(&timeline(&spec, jobs)),
        [
            "0: 0 begins with 0",
            "10: 0 first token",
            "32.003: 1 begins with 0",
            "43.006: 0 ends",
            "43.006: 1 first token",
            "53.017: 1 ends",
        ]
    );
}

#[test]
fn whoever_leaves_makes_way_from_the_next_step_on() {
    let after_cancelling = |attempt, at| {
        let (mut engine, mut timeline) = (spec(2, 10, 0).build(), Timeline::new());
        for job in [alone(0, 15, 3), alone(1, 8, 1), alone(2, 5, 1)] {
            arrive(&mut engine, Duration::ZERO, job, &mut timeline);
        }
        run(&mut engine, at, &mut timeline);
        timeline.clear();
        assert!(engine.cancel(at, AttemptKey(attempt)));
        assert!(!engine.cancel(at, AttemptKey(attempt)));
        run(&mut engine, 1_000 * MS, &mut timeline);
        shown(&timeline)
    };
    // Until 20 a chunk of the first; until 40 the rest, and 5 of the second; until 55 a token, and the second's rest.
    // The step that is under way takes as long as with the one who leaves.
    assert_eq!(
        after_cancelling(0, 30 * MS),
        ["40: 2 begins with 0", "58: 1 first token", "58: 1 ends", "58: 2 first token", "58: 2 ends"]
    );
    assert_eq!(
        after_cancelling(1, 30 * MS),
        ["40: 0 first token", "40: 2 begins with 0", "57: 2 first token", "57: 2 ends", "69: 0 ends"]
    );
    assert_eq!(
        after_cancelling(2, 30 * MS),
        ["40: 0 first token", "55: 1 first token", "55: 1 ends", "67: 0 ends"]
    );
    assert_eq!(
        after_cancelling(0, 50 * MS),
        ["55: 1 first token", "55: 1 ends", "55: 2 begins with 0", "70: 2 first token", "70: 2 ends"]
    );
}

#[test]
fn a_crash_takes_all_out() {
    let (mut engine, mut timeline) = (spec(1, 10, 400).build(), Timeline::new());
    arrive(&mut engine, Duration::ZERO, of_session(0, 7, 10, 5), &mut timeline);
    arrive(&mut engine, MS, of_session(1, 7, 10, 5), &mut timeline);
    run(&mut engine, 30 * MS, &mut timeline);
    assert_eq!(engine.cached_tokens(&of_session(2, 7, 10, 1).prompt), 8);
    assert_eq!(engine.crash(), [AttemptKey(0), AttemptKey(1)]);
    assert_eq!(engine.state(), EngineState { kv_capacity_tokens: 400, ..EngineState::default() });
    timeline.clear();
    arrive(&mut engine, 50 * MS, of_session(2, 7, 10, 1), &mut timeline);
    run(&mut engine, 1_000 * MS, &mut timeline);
    assert_eq!(shown(&timeline), ["50: 2 begins with 0", "70: 2 first token", "70: 2 ends"]);
}

#[test]
fn what_is_under_way_goes_on_at_the_new_speed() {
    let (mut engine, mut timeline) = (spec(1, 10, 0).build(), Timeline::new());
    arrive(&mut engine, Duration::ZERO, alone(0, 10, 6), &mut timeline);
    run(&mut engine, 10 * MS, &mut timeline);
    engine.set_speed(10 * MS, 0.5);
    // The first token comes at 40. Of 60 ms for five more, 18 are over.
    run(&mut engine, 76 * MS, &mut timeline);
    engine.set_speed(76 * MS, 2.0);
    run(&mut engine, 1_000 * MS, &mut timeline);
    assert_eq!(shown(&timeline), ["0: 0 begins with 0", "30: 0 first token", "94.5: 0 ends"]);
}

proptest! {
    #[test]
    fn steps_together_are_as_steps_one_by_one(
        spec in batching_spec(),
        acts in acts(),
        mut looks in prop::collection::vec(time(), 0..20),
    ) {
        looks.sort();
        let mut one_by_one = spec.build();
        if let Kind::Batching(engine) = &mut one_by_one.kind {
            engine.steps_max = 1;
        }
        assert_alike([&mut one_by_one, &mut spec.build()], &acts, &looks)?;
    }
}
