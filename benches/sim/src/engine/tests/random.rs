//! What holds for engines of either kind whatever they are sent.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What is done to an engine, and when.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Act {
    Arrive(Job),
    Cancel(AttemptKey),
    Speed(f64),
}

/// So many milliseconds and nanoseconds, so that not all fall on the same ones.
pub(in super::super) fn time() -> impl Strategy<Value = Duration> {
    (0_u32..600, prop_oneof![3 => Just(0), 1 => 0_u32..1_000_000])
        .prop_map(|(ms, ns)| ms * MS + Duration::from_nanos(ns.into()))
}

/// Few sessions of two groups, so that prompts have much in common; the first group has nothing in common.
fn job() -> impl Strategy<Value = Job> {
    (0_u32..5, prop_oneof![Just(13), 0_u32..40], 0_u32..30, any::<bool>(), 1_u32..15).prop_map(
        |(session, session_tokens, own_tokens, is_continued, output_tokens)| {
            let prompt = Prompt {
                group: session % 2,
                session,
                group_tokens: 9 * (session % 2),
                session_tokens: session_tokens.max(1),
                own_tokens: if is_continued { 0 } else { own_tokens },
                is_continued,
            };
            Job { attempt: AttemptKey(0), prompt, output_tokens }
        },
    )
}

/// Attempts are numbered in the order of the jobs; some are cancelled sooner or later.
pub(in super::super) fn acts() -> impl Strategy<Value = Vec<(Duration, Act)>> {
    let jobs = prop::collection::vec((time(), job(), prop::option::weighted(0.2, time())), 1..40);
    let speeds = prop::collection::vec((time(), prop_oneof![Just(0.0), 0.1..3.0]), 0..3);
    (jobs, speeds).prop_map(|(jobs, speeds)| {
        let mut acts = Vec::new();
        for (number, (at, mut job, cancelled)) in jobs.into_iter().enumerate() {
            job.attempt = AttemptKey(number as u32);
            acts.push((at, Act::Arrive(job)));
            acts.extend(cancelled.map(|after| (at + after, Act::Cancel(job.attempt))));
        }
        acts.extend(speeds.into_iter().map(|(at, speed)| (at, Act::Speed(speed))));
        acts.push((2_000 * MS, Act::Speed(1.0)));
        acts.sort_by_key(|&(at, _)| at);
        acts
    })
}

pub(in super::super) fn slots_spec() -> impl Strategy<Value = EngineSpec> {
    let kv_tokens = prop_oneof![Just(0), 30_u64..300];
    (1_u32..5, kv_tokens, 1_u32..9).prop_map(|(slots, kv_tokens, block_tokens)| EngineSpec::Slots {
        slots,
        prefill_tps: 1_100.0,
        decode_tps: 130.0,
        kv_tokens,
        block_tokens,
    })
}

pub(in super::super) fn batching_spec() -> impl Strategy<Value = EngineSpec> {
    let kv_tokens = prop_oneof![Just(0), 30_u64..300];
    let context = prop_oneof![Just(0.0), Just(9_876.5)];
    (1_u32..5, 0_u32..20, kv_tokens, 1_u32..9, context).prop_map(
        |(slots, beyond, kv_tokens, block_tokens, context_us_per_1k_tokens)| EngineSpec::Batching {
            slots,
            batched_tokens: slots + beyond,
            kv_tokens,
            block_tokens,
            step_ms: 7.0,
            prefill_us_per_token: 300.7,
            decode_us_per_request: 500.3,
            context_us_per_1k_tokens,
        },
    )
}

/// What an engine that is told all this does, asked how it is at these times and whenever it is told something.
fn timeline_of(
    engine: &mut Engine,
    acts: &[(Duration, Act)],
    looks: &[Duration],
    check: &mut dyn FnMut(&Engine, Duration),
) -> (Timeline, Vec<AttemptKey>) {
    let (mut timeline, mut cancelled) = (Timeline::new(), Vec::new());
    let mut looks = looks.iter().copied().peekable();
    for &(at, act) in acts {
        while let Some(look) = looks.next_if(|&look| look < at) {
            run(engine, look, &mut timeline);
            check(engine, look);
        }
        match act {
            Act::Arrive(job) => arrive(engine, at, job, &mut timeline),
            Act::Cancel(attempt) => {
                run(engine, at, &mut timeline);
                if engine.cancel(at, attempt) {
                    cancelled.push(attempt);
                }
                run(engine, at, &mut timeline);
            }
            Act::Speed(speed) => {
                run(engine, at, &mut timeline);
                engine.set_speed(at, speed);
            }
        }
        check(engine, at);
    }
    run(engine, 1_000_000 * MS, &mut timeline);
    (timeline, cancelled)
}

/// Fails when not the same becomes of what two engines are told, the second of which is looked at in between.
pub(in super::super) fn assert_alike(
    engines: [&mut Engine; 2],
    acts: &[(Duration, Act)],
    looks: &[Duration],
) -> Result<(), TestCaseError> {
    let [first, second] = engines;
    let expected = timeline_of(first, acts, &[], &mut |_, _| {});
    let actual = timeline_of(second, acts, looks, &mut |_, _| {});
    prop_assert_eq!(&expected.1, &actual.1);
    prop_assert_eq!(shown(&expected.0), shown(&actual.0));
    prop_assert_eq!(expected.0, actual.0);
    Ok(())
}

/// What an engine says of itself adds up at any time.
fn check_state(engine: &Engine, is_limited: bool, at: Duration) {
    let state = engine.state();
    assert_eq!(state.in_prefill + state.in_decode, state.running, "at {at:?}");
    assert!(state.running <= engine.slots(), "at {at:?}: {state:?}");
    assert!(!is_limited || state.kv_used_tokens <= state.kv_capacity_tokens, "at {at:?}: {state:?}");
    assert!(
        state.queued_tokens >= state.queued && state.total_tokens >= state.running,
        "at {at:?}: {state:?}"
    );
    let due = engine.next_due();
    assert!(due.is_none_or(|due| due >= at), "at {at:?}: due at {due:?}");
    // With memory enough, a slot is never free while somebody waits in an engine that does one prefill after the other.
    let is_free = state.queued > 0 && state.running < engine.slots();
    assert!(!is_free || is_limited || matches!(engine.kind, super::super::Kind::Batching(_)), "at {at:?}");
}

/// Every request begins, has its first token, and ends, each in its turn, or is cancelled.
fn check_timeline(timeline: &Timeline, cancelled: &[AttemptKey], acts: &[(Duration, Act)]) {
    assert!(timeline.is_sorted_by_key(|(at, _)| at));
    let mut by_attempt: BTreeMap<AttemptKey, Vec<(Duration, What)>> = BTreeMap::new();
    for &(at, Happening { attempt, what }) in timeline {
        by_attempt.entry(attempt).or_default().push((at, what));
    }
    for &(arrived, act) in acts {
        let Act::Arrive(Job { attempt, prompt, .. }) = act else { continue };
        let happened = by_attempt.remove(&attempt).unwrap_or_default();
        assert!(happened.iter().all(|&(at, _)| at >= arrived));
        let count = |wanted: fn(&What) -> bool| happened.iter().filter(|(_, what)| wanted(what)).count();
        let ended = count(|what| matches!(what, What::Ended));
        let first_tokens = count(|what| matches!(what, What::FirstToken));
        let is_cancelled = cancelled.contains(&attempt);
        assert_eq!(ended + usize::from(is_cancelled), 1, "{attempt:?}: {happened:?}");
        assert!(first_tokens == 1 || is_cancelled && first_tokens == 0, "{attempt:?}: {happened:?}");
        if let Some((_, first)) = happened.first() {
            assert!(matches!(first, What::Began { .. }), "{attempt:?}: {happened:?}");
        }
        if ended == 1 {
            assert_eq!(happened.last().map(|&(_, what)| what), Some(What::Ended));
        }
        for &(_, what) in &happened {
            assert!(!matches!(what, What::Began { cached_tokens } if cached_tokens >= prompt.tokens()));
        }
    }
    assert!(by_attempt.is_empty());
}

fn check(spec: &EngineSpec, acts: &[(Duration, Act)], looks: &[Duration]) -> Result<(), TestCaseError> {
    spec.validate().unwrap();
    let mut engine = spec.build();
    let is_limited = engine.state().kv_capacity_tokens > 0;
    let mut check = |engine: &Engine, at| check_state(engine, is_limited, at);
    let (timeline, cancelled) = timeline_of(&mut engine, acts, &[], &mut check);
    check_timeline(&timeline, &cancelled, acts);
    assert_eq!(without_capacity(&engine), EngineState::default());
    assert_alike([&mut spec.build(), &mut spec.build()], acts, looks)
}

fn looks() -> impl Strategy<Value = Vec<Duration>> {
    prop::collection::vec(time(), 0..200).prop_map(|mut looks| {
        looks.sort();
        looks
    })
}

proptest! {
    #[test]
    fn every_request_of_slots_ends_once(spec in slots_spec(), acts in acts(), looks in looks()) {
        check(&spec, &acts, &looks)?;
    }

    #[test]
    fn every_request_of_a_batch_ends_once(spec in batching_spec(), acts in acts(), looks in looks()) {
        check(&spec, &acts, &looks)?;
    }

    /// From what each request found in the cache when it began, all else follows.
    #[test]
    fn prefill_is_never_idle_and_decode_takes_its_time(spec in slots_spec(), acts in acts()) {
        let EngineSpec::Slots { prefill_tps, decode_tps, .. } = spec else { unreachable!("only slots") };
        let arrivals = acts.into_iter().filter_map(|(at, act)| match act {
            Act::Arrive(job) => Some((at, job)),
            _ => None,
        });
        let arrivals: Vec<_> = arrivals.collect();
        let timeline = timeline(&spec, arrivals.iter().copied());
        let mut expected = BTreeMap::new();
        let mut prefilled = 0.0_f64;
        for &(at, Happening { attempt, what }) in &timeline {
            let (_, job) = arrivals.iter().find(|(_, job)| job.attempt == attempt).unwrap();
            let at = at.as_secs_f64();
            match what {
                What::Began { cached_tokens } => {
                    let prefill = f64::from(job.prompt.tokens() - cached_tokens) / prefill_tps;
                    prefilled = prefilled.max(at) + prefill;
                    let decode = f64::from(job.output_tokens - 1) / decode_tps;
                    expected.insert(attempt, (prefilled, prefilled + decode));
                }
                What::FirstToken => prop_assert!((expected[&attempt].0 - at).abs() < 1e-7),
                What::Ended => prop_assert!((expected[&attempt].1 - at).abs() < 1e-7),
            }
        }
    }
}
