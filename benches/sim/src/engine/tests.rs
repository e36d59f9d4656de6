//! What engines of slots do with a few requests, as worked out by hand. Other tests use what drives them here.

pub(super) mod random;

use std::time::Duration;

use super::{
    super::model::{AttemptKey, EngineState, Happening, Job, Prompt, What},
    Engine, EngineSpec,
};

pub(super) const MS: Duration = Duration::from_millis(1);

/// What happened, and when.
pub(super) type Timeline = Vec<(Duration, Happening)>;

/// A request whose prompt only it has.
pub(super) fn alone(attempt: u32, prompt_tokens: u32, output_tokens: u32) -> Job {
    let prompt = Prompt {
        group: 0,
        session: attempt,
        group_tokens: 0,
        session_tokens: 0,
        own_tokens: prompt_tokens,
        is_continued: false,
    };
    Job { attempt: AttemptKey(attempt), prompt, output_tokens }
}

/// A request whose prompt is all its session's.
pub(super) fn of_session(attempt: u32, session: u32, prompt_tokens: u32, output_tokens: u32) -> Job {
    let mut job = alone(attempt, 0, output_tokens);
    job.prompt = Prompt { session, session_tokens: prompt_tokens, ..job.prompt };
    job
}

/// Lets an engine go on as it is due until then, and adds what happens.
pub(super) fn run(engine: &mut Engine, until: Duration, timeline: &mut Timeline) {
    let mut happened = Vec::new();
    while let Some(due) = engine.next_due()
        && due <= until
    {
        engine.advance(due, &mut happened);
        timeline.extend(happened.drain(..).map(|happening| (due, happening)));
    }
    engine.advance(until, &mut happened);
    assert_eq!(happened, [], "more is due by {until:?}");
}

/// Lets it go on until the request arrives, and takes that in.
pub(super) fn arrive(engine: &mut Engine, at: Duration, job: Job, timeline: &mut Timeline) {
    run(engine, at, timeline);
    engine.arrive(at, job);
    let mut happened = Vec::new();
    engine.advance(at, &mut happened);
    timeline.extend(happened.drain(..).map(|happening| (at, happening)));
}

/// What becomes of jobs that arrive at these times.
pub(super) fn timeline(spec: &EngineSpec, jobs: impl IntoIterator<Item = (Duration, Job)>) -> Timeline {
    let (mut engine, mut timeline) = (spec.build(), Timeline::new());
    for (at, job) in jobs {
        arrive(&mut engine, at, job, &mut timeline);
    }
    run(&mut engine, 10_000 * MS, &mut timeline);
    assert_eq!(without_capacity(&engine), EngineState::default());
    timeline
}

pub(super) fn without_capacity(engine: &Engine) -> EngineState {
    EngineState { kv_capacity_tokens: 0, ..engine.state() }
}

/// A timeline in words: milliseconds, attempts, and what became of them.
pub(super) fn shown(timeline: &Timeline) -> Vec<String> {
    let one = |(at, happening): &(Duration, Happening)| {
        let Happening { attempt: AttemptKey(attempt), what } = happening;
        let what = match what {
            What::Began { cached_tokens } => format!("begins with {cached_tokens}"),
            What::FirstToken => "first token".to_owned(),
            What::Ended => "ends".to_owned(),
        };
        format!("{}: {attempt} {what}", at.as_nanos() as f64 / 1e6)
    };
    timeline.iter().map(one).collect()
}

/// 1 ms for a token of a prompt, 10 ms for one of an answer.
fn slots(slots: u32, kv_tokens: u64) -> EngineSpec {
    EngineSpec::Slots { slots, prefill_tps: 1_000.0, decode_tps: 100.0, kv_tokens, block_tokens: 10 }
}

/// Two slots with three requests at time 0: one in prefill, one that waits for that, one that waits for a slot.
fn three_in_two_slots() -> (Engine, Timeline) {
    let (mut engine, mut timeline) = (slots(2, 0).build(), Timeline::new());
    for job in [alone(0, 100, 3), alone(1, 50, 1), alone(2, 10, 2)] {
        arrive(&mut engine, Duration::ZERO, job, &mut timeline);
    }
    assert_eq!(shown(&timeline), ["0: 0 begins with 0", "0: 1 begins with 0"]);
    timeline.clear();
    (engine, timeline)
}

#[test]
fn prefills_are_serial_and_decodes_are_not() {
    let (mut engine, mut timeline) = three_in_two_slots();
    run(&mut engine, 1_000 * MS, &mut timeline);
    assert_eq!(
        shown(&timeline),
        [
            "100: 0 first token",
            "120: 0 ends",
            "120: 2 begins with 0",
            "150: 1 first token",
            "150: 1 ends",
            "160: 2 first token",
            "170: 2 ends",
        ]
    );
}

#[test]
fn its_state_says_what_is_left_to_do() {
    let (mut engine, mut timeline) = three_in_two_slots();
    run(&mut engine, 30 * MS, &mut timeline);
    let state = EngineState {
        running: 2,
        queued: 1,
        queued_tokens: 70 + 50 + 10,
        in_prefill: 2,
        in_decode: 0,
        total_tokens: 160,
        kv_capacity_tokens: 0,
        // 102 and 50 tokens in blocks of 10.
        kv_used_tokens: 160,
    };
    assert_eq!((engine.state(), engine.slots(), engine.has_free_slot()), (state, 2, false));
    run(&mut engine, 160 * MS, &mut timeline);
    let state = EngineState {
        running: 1,
        queued: 0,
        queued_tokens: 0,
        in_prefill: 0,
        in_decode: 1,
        total_tokens: 10,
        kv_capacity_tokens: 0,
        kv_used_tokens: 20,
    };
    assert_eq!((engine.state(), engine.has_free_slot()), (state, true));
}

#[test]
fn whoever_leaves_makes_way_in_every_phase() {
    let after_cancelling = |attempt, at: Duration| {
        let (mut engine, mut timeline) = three_in_two_slots();
        run(&mut engine, at, &mut timeline);
        assert!(engine.cancel(at, AttemptKey(attempt)));
        assert!(!engine.cancel(at, AttemptKey(attempt)));
        run(&mut engine, 1_000 * MS, &mut timeline);
        assert_eq!(without_capacity(&engine), EngineState::default());
        shown(&timeline)
    };
    let in_prefill =
        ["30: 2 begins with 0", "80: 1 first token", "80: 1 ends", "90: 2 first token", "100: 2 ends"];
    assert_eq!(after_cancelling(0, 30 * MS), in_prefill);
    let before_prefill =
        ["30: 2 begins with 0", "100: 0 first token", "110: 2 first token", "120: 0 ends", "120: 2 ends"];
    assert_eq!(after_cancelling(1, 30 * MS), before_prefill);
    let queued = ["100: 0 first token", "120: 0 ends", "150: 1 first token", "150: 1 ends"];
    assert_eq!(after_cancelling(2, 30 * MS), queued);
    let in_decode = [
        "100: 0 first token",
        "105: 2 begins with 0",
        "150: 1 first token",
        "150: 1 ends",
        "160: 2 first token",
        "170: 2 ends",
    ];
    assert_eq!(after_cancelling(0, 105 * MS), in_decode);
}

#[test]
fn what_a_cancelled_request_has_computed_stays() {
    let mut engine = slots(1, 1_000).build();
    let mut timeline = Timeline::new();
    arrive(&mut engine, Duration::ZERO, of_session(0, 7, 100, 3), &mut timeline);
    assert!(engine.cancel(35 * MS, AttemptKey(0)));
    assert_eq!(engine.cached_tokens(&of_session(1, 7, 100, 1).prompt), 30);
    arrive(&mut engine, 40 * MS, of_session(1, 7, 100, 1), &mut timeline);
    run(&mut engine, 200 * MS, &mut timeline);
    assert_eq!(
        shown(&timeline),
        ["0: 0 begins with 0", "40: 1 begins with 30", "110: 1 first token", "110: 1 ends"]
    );
}

#[test]
fn a_crash_takes_all_out_and_leaves_an_empty_cache() {
    let (mut engine, mut timeline) = three_in_two_slots();
    run(&mut engine, 105 * MS, &mut timeline);
    assert_eq!(engine.crash(), [AttemptKey(0), AttemptKey(1), AttemptKey(2)]);
    assert_eq!((engine.next_due(), engine.state()), (None, EngineState::default()));
    timeline.clear();
    arrive(&mut engine, 200 * MS, of_session(3, 0, 100, 2), &mut timeline);
    run(&mut engine, 1_000 * MS, &mut timeline);
    assert_eq!(shown(&timeline), ["200: 3 begins with 0", "300: 3 first token", "310: 3 ends"]);
    assert_eq!(engine.cached_tokens(&of_session(4, 0, 100, 2).prompt), 90);
    assert_eq!(engine.crash(), []);
    assert_eq!(engine.cached_tokens(&of_session(4, 0, 100, 2).prompt), 0);
}

#[test]
fn what_is_under_way_goes_on_at_the_new_speed() {
    let mut engine = slots(1, 0).build();
    let mut timeline = Timeline::new();
    arrive(&mut engine, Duration::ZERO, alone(0, 100, 3), &mut timeline);
    run(&mut engine, 50 * MS, &mut timeline);
    engine.set_speed(50 * MS, 0.5);
    run(&mut engine, 155 * MS, &mut timeline);
    // Of the answer's 20 ms, 2.5 are over.
    engine.set_speed(155 * MS, 2.0);
    run(&mut engine, 1_000 * MS, &mut timeline);
    assert_eq!(shown(&timeline), ["0: 0 begins with 0", "150: 0 first token", "163.75: 0 ends"]);
}

#[test]
fn a_free_slot_is_no_use_without_memory() {
    // 150 tokens are set aside for the first, 200 there are.
    let jobs = [(Duration::ZERO, alone(0, 100, 51)), (10 * MS, alone(1, 60, 1)), (20 * MS, alone(2, 5, 1))];
    assert_eq!(
        shown(&timeline(&slots(3, 200), jobs)),
        [
            "0: 0 begins with 0",
            "100: 0 first token",
            "600: 0 ends",
            "600: 1 begins with 0",
            "600: 2 begins with 0",
            "660: 1 first token",
            "660: 1 ends",
            "665: 2 first token",
            "665: 2 ends",
        ]
    );
}

#[test]
fn a_second_request_of_a_session_finds_what_the_first_has_computed_by_then() {
    let jobs = [(Duration::ZERO, of_session(0, 7, 100, 1)), (55 * MS, of_session(1, 7, 100, 1))];
    assert_eq!(
        shown(&timeline(&slots(2, 0), jobs)),
        [
            "0: 0 begins with 0",
            "55: 1 begins with 50",
            "100: 0 first token",
            "100: 0 ends",
            "150: 1 first token",
            "150: 1 ends",
        ]
    );
}

/// Requests a second of the simple engine that the published set-up is calibrated to, when it always has enough to do.
fn capacity(job: impl Fn(u32) -> Job) -> f64 {
    let spec = EngineSpec::Slots {
        slots: 25,
        prefill_tps: 66_610.0,
        decode_tps: 128.6,
        kv_tokens: 400_000,
        block_tokens: 16,
    };
    let (mut engine, mut timeline, mut sent, mut ended) = (spec.build(), Timeline::new(), 0, 0);
    for second in 0..240 {
        while engine.state().queued < 20 {
            arrive(&mut engine, second * 1_000 * MS, job(sent), &mut timeline);
            sent += 1;
        }
        run(&mut engine, (second + 1) * 1_000 * MS, &mut timeline);
        if second >= 40 {
            ended += timeline.iter().filter(|(_, happening)| happening.what == What::Ended).count();
        }
        timeline.clear();
    }
    ended as f64 / 200.0
}

#[test]
fn slots_bound_what_is_done_warm_and_prefill_what_is_done_cold() {
    let warm = capacity(|attempt| of_session(attempt, attempt % 38, 6_661, 256));
    let cold = capacity(|attempt| alone(attempt, 6_661, 256));
    assert!((12.375..12.625).contains(&warm) && (9.9..10.1).contains(&cold), "{warm} {cold}");
}
