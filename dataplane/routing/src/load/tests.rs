use std::thread;

use proptest::{collection::vec, prelude::*};

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Enter(u64),
    FirstByte(usize),
    End(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let tokens = prop_oneof![0..10_000_u64, Just(u64::MAX)];
    prop_oneof![
        tokens.prop_map(Step::Enter),
        any::<usize>().prop_map(Step::FirstByte),
        any::<usize>().prop_map(Step::End),
    ]
}

fn counters(load: &ClusterLoad) -> (u64, u64, Tokens) {
    (load.running(), load.queued(), load.queued_input())
}

proptest! {
    #[test]
    fn counters_follow_every_sequence_and_end_at_zero(steps in vec(any_step(), 0..60)) {
        let load = Arc::new(ClusterLoad::default());
        let mut attempts: Vec<(Counted, Option<u64>)> = Vec::new();
        for step in steps {
            match step {
                Step::Enter(tokens) => {
                    let charged = tokens.min(INPUT_TOKENS_CHARGED_MAX);
                    attempts.push((load.enter(Tokens(tokens)), Some(charged)));
                }
                Step::FirstByte(which) if !attempts.is_empty() => {
                    let which = which % attempts.len();
                    attempts[which].0.first_byte();
                    attempts[which].1 = None;
                }
                Step::End(which) if !attempts.is_empty() => {
                    attempts.swap_remove(which % attempts.len());
                }
                Step::FirstByte(_) | Step::End(_) => {}
            }
            let queued = attempts.iter().filter_map(|(_, queued)| *queued);
            let expected =
                (attempts.len() as u64, queued.clone().count() as u64, Tokens(queued.sum()));
            prop_assert_eq!(counters(&load), expected);
        }
        drop(attempts);
        prop_assert_eq!(counters(&load), (0, 0, Tokens(0)));
    }
}

#[test]
fn counters_end_at_zero_when_attempts_move_between_threads() {
    const THREADS: u64 = 4;
    const ATTEMPTS: u64 = 5_000;
    let load = Arc::new(ClusterLoad::default());
    let handoff = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (load, handoff) = (&load, &handoff);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                for _ in 0..ATTEMPTS {
                    let mut attempt = load.enter(Tokens(rng.u64(..)));
                    if rng.bool() {
                        attempt.first_byte();
                    }
                    let mut others = handoff.lock().unwrap();
                    others.push(attempt);
                    if rng.bool() {
                        let other = rng.usize(0..others.len());
                        others.swap_remove(other);
                    }
                }
            });
        }
    });
    let left = handoff.into_inner().unwrap();
    assert_eq!(load.running(), left.len() as u64);
    drop(left);
    assert_eq!(counters(&load), (0, 0, Tokens(0)));
}

#[test]
fn entering_fails_when_more_run_or_queue_than_was_seen_and_only_then() {
    let load = Arc::new(ClusterLoad::default());
    let seen = || load.in_flight.read().attempts;
    let mine = Amount::entering(Tokens(5));
    let idle = seen();
    let mut other = load.enter(Tokens(3));
    other.first_byte();
    assert!(!load.enter_unless_raised(mine, idle), "one more runs, and none is queued");
    assert_eq!(counters(&load), (1, 0, Tokens(0)));
    let answered = seen();
    drop(other);
    assert!(load.enter_unless_raised(mine, answered), "fewer run");
    assert!(!load.enter_unless_raised(mine, answered), "as many run, and one more is queued");
    assert_eq!(counters(&load), (1, 1, Tokens(5)));
    let queued = seen();
    load.in_flight.add(mine.reversed());
    assert!(load.enter_unless_raised(mine, queued), "who left is in nobody's way");
    load.in_flight.add(mine.reversed());
    assert_eq!(counters(&load), (0, 0, Tokens(0)));
}
