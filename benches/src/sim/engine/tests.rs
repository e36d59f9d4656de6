use std::time::Duration;

use super::{
    super::model::{AttemptKey, Happening, Job, Prompt, What},
    Engine, EngineSpec,
};

const MS: Duration = Duration::from_millis(1);

/// A request whose prompt only it has.
fn alone(attempt: u32, prompt_tokens: u32, output_tokens: u32) -> Job {
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

/// Lets an engine go on until it has nothing to do or the time is over, and appends what happens, with its time.
fn run(engine: &mut Engine, until: Duration, timeline: &mut Vec<(Duration, Happening)>) {
    let mut happened = Vec::new();
    while let Some(due) = engine.next_due()
        && due <= until
    {
        engine.advance(due, &mut happened);
        timeline.extend(happened.drain(..).map(|happening| (due, happening)));
    }
}

/// What is shown of a timeline: milliseconds, attempts, and what became of them.
fn shown(timeline: &[(Duration, Happening)]) -> Vec<String> {
    let one = |(at, happening): &(Duration, Happening)| {
        let Happening { attempt: AttemptKey(attempt), what } = happening;
        let what = match what {
            What::Began { cached_tokens } => format!("begins with {cached_tokens}"),
            What::FirstToken => "first token".to_owned(),
            What::Ended => "ends".to_owned(),
        };
        format!("{}: {attempt} {what}", at.as_secs_f64() * 1e3)
    };
    timeline.iter().map(one).collect()
}

fn slots(slots: u32) -> EngineSpec {
    EngineSpec::Slots { slots, prefill_tps: 1_000.0, decode_tps: 100.0, kv_tokens: 0, block_tokens: 10 }
}

#[test]
fn prefills_are_serial_and_decodes_are_not() {
    let mut engine = slots(2).build();
    let mut timeline = Vec::new();
    for job in [alone(0, 100, 3), alone(1, 50, 1), alone(2, 10, 2)] {
        engine.arrive(Duration::ZERO, job);
        run(&mut engine, Duration::ZERO, &mut timeline);
    }
    run(&mut engine, 1_000 * MS, &mut timeline);
    assert_eq!(
        shown(&timeline),
        [
            "0: 0 begins with 0",
            "0: 1 begins with 0",
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
