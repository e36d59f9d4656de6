//! How often requests come, of which sessions, and what prompts are.

use std::{fs, time::Duration};

use super::{Ask, Source};
use crate::{
    scenario::Clients,
    testing::{Changes, small},
};

const CAPACITY_PER_S: f64 = 50.0;

fn clients(changes: &Changes<'_>) -> Clients {
    small(changes).scenario.clients
}

/// When the requests of so many seconds come, and what they are.
fn asked(clients: &Clients, seconds: u64) -> Vec<(f64, Ask)> {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut source = Source::new(clients, CAPACITY_PER_S, &mut rng).expect("a source");
    let (mut now, mut asked) = (Duration::ZERO, Vec::new());
    while let Some(pause) = source.next_pause(now, &mut rng) {
        now += pause;
        if now > Duration::from_secs(seconds) {
            break;
        }
        asked.push((now.as_secs_f64(), source.next(now, &mut rng)));
    }
    asked
}

fn share(asked: &[(f64, Ask)], is_meant: impl Fn(&(f64, Ask)) -> bool) -> f64 {
    asked.iter().filter(|asked| is_meant(asked)).count() as f64 / asked.len() as f64
}

#[test]
fn requests_come_as_often_as_they_are_to() {
    // 10 000 are expected; three standard deviations are 300.
    let asked_at = asked(&clients(&[("clients.arrivals", "{ rate = 100 }")]), 100);
    assert!((9_700..10_300).contains(&asked_at.len()), "{}", asked_at.len());
    let pauses: Vec<f64> = asked_at.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
    let squares = pauses.iter().map(|pause| (pause - mean).powi(2)).sum::<f64>() / pauses.len() as f64;
    // Exponential: the deviation is the mean.
    assert!((squares.sqrt() / mean - 1.0).abs() < 0.05, "{}", squares.sqrt() / mean);
    let of_load = asked(&clients(&[("clients.arrivals", "{ load = 2 }")]), 100).len();
    assert!((9_700..10_300).contains(&of_load), "{of_load}");
}

#[test]
fn stages_have_their_loads_in_their_times() {
    let stages =
        "{ stages = [{ from_s = 10, load = 1 }, { from_s = 50, load = 0 }, { from_s = 60, load = 4 }] }";
    let asked = asked(&clients(&[("clients.arrivals", stages)]), 100);
    let between = |from: f64, to: f64| asked.iter().filter(|(at, _)| (from..to).contains(at)).count();
    assert_eq!((between(0.0, 10.0), between(50.0, 60.0)), (0, 0));
    // 2 000 and 8 000 are expected.
    assert!((1_860..2_140).contains(&between(10.0, 50.0)), "{}", between(10.0, 50.0));
    assert!((7_730..8_270).contains(&between(60.0, 100.0)), "{}", between(60.0, 100.0));
}

#[test]
fn sessions_have_their_shares() {
    let many = ("clients.arrivals.rate", "1000");
    let place = |place: u32| move |asked: &(f64, Ask)| asked.1.place == Some(place);
    let uniform = asked(&clients(&[many]), 40);
    assert!((share(&uniform, place(3)) - 0.25).abs() < 0.01);
    // 1, 1/2, 1/3 and 1/4 of 25/12.
    let zipf = asked(&clients(&[many, ("clients.popularity", "{ zipf = 1 }")]), 40);
    for (rank, wanted) in [(0, 0.48), (1, 0.24), (2, 0.16), (3, 0.12)] {
        let found = share(&zipf, place(rank));
        assert!((found - wanted).abs() < 0.01, "{rank}: {found}");
    }
    let hot = "{ from_s = 10, until_s = 30, sessions = 1, share = 0.5 }";
    let hot = asked(&clients(&[many, ("clients.hot", hot)]), 40);
    let (during, beside): (Vec<_>, Vec<_>) = hot.into_iter().partition(|(at, _)| (10.0..30.0).contains(at));
    // A half, and a quarter of the other half.
    assert!((share(&during, place(0)) - 0.625).abs() < 0.02);
    assert!((share(&beside, place(0)) - 0.25).abs() < 0.02);
}

#[test]
fn prompts_have_what_sessions_and_groups_share() {
    let shares = [("clients.shared", "0.6"), ("clients.group_tokens", "100"), ("clients.groups", "3")];
    for (_, ask) in asked(&clients(&shares), 20) {
        let prompt = ask.prompt;
        assert_eq!((prompt.group_tokens, prompt.session_tokens, prompt.own_tokens), (100, 500, 400));
        assert_eq!((prompt.group, prompt.is_continued, ask.output_tokens), (prompt.session % 3, false, 1));
    }
    let distinct =
        asked(&clients(&[("clients.popularity", "'distinct'"), ("clients.arrivals.rate", "9")]), 20);
    let sessions: Vec<u32> = distinct.iter().map(|(_, ask)| ask.prompt.session).collect();
    assert_eq!(sessions, (0..sessions.len() as u32).collect::<Vec<_>>());
    let sizes = "{ median = 100, sigma = 1, max = 400 }";
    let drawn = asked(&clients(&[("clients.output_tokens", sizes), ("clients.arrivals.rate", "1000")]), 20);
    let below = share(&drawn, |(_, ask)| ask.output_tokens < 100);
    assert!((below - 0.5).abs() < 0.02, "{below}");
    assert!(drawn.iter().all(|(_, ask)| (1..=400).contains(&ask.output_tokens)));
}

#[test]
fn a_prompt_grows_by_the_answer_and_the_next_turn_until_it_is_too_long() {
    let growth = [
        ("clients.sessions", "1"),
        ("clients.prompt_tokens", "100"),
        ("clients.output_tokens", "30"),
        ("clients.growth", "{ turn_tokens = 20, prompt_tokens_max = 100 }"),
    ];
    let mut longer = growth;
    longer[3].1 = "{ turn_tokens = 20, prompt_tokens_max = 210 }";
    let clients = clients(&longer);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut source = Source::new(&clients, 1.0, &mut rng).expect("a source");
    let mut next = || source.next(Duration::ZERO, &mut rng);
    let first = next();
    assert!(first.prompt.is_continued && (100..=210).contains(&first.prompt.tokens()));
    let overlapping = next();
    assert_eq!(overlapping.prompt, first.prompt, "it has not been answered yet");
    source.over(&first, true, &mut rng);
    source.over(&overlapping, true, &mut rng);
    let mut last = source.next(Duration::ZERO, &mut rng);
    // One of the two answers counts.
    let grown = first.prompt.tokens() + 50;
    if grown <= 210 {
        assert_eq!((last.prompt.session, last.prompt.tokens()), (first.prompt.session, grown));
    }
    source.over(&last, false, &mut rng);
    assert_eq!(source.next(Duration::ZERO, &mut rng).prompt, last.prompt, "without an answer nothing grows");
    for _ in 0..4 {
        source.over(&last, true, &mut rng);
        last = source.next(Duration::ZERO, &mut rng);
    }
    assert!(last.prompt.session > first.prompt.session, "a session has ended, and another begun");
    assert!(last.prompt.tokens() <= 210);
}

#[test]
fn a_trace_is_followed_and_its_errors_name_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.csv");
    let read = |text: &str| {
        fs::write(&path, text).expect("a file");
        let clients = clients(&[("clients.arrivals", &format!("{{ trace = '{}' }}", path.display()))]);
        Source::new(&clients, 1.0, &mut fastrand::Rng::with_seed(1)).map(|_| {
            let trace = asked(&clients, 100);
            trace.iter().map(|(at, ask)| (*at, ask.prompt.session, ask.output_tokens)).collect::<Vec<_>>()
        })
    };
    assert_eq!(read("0.5, 9, 10, 3\n\n2,8,10,4\n").expect("a trace"), [(0.5, 9, 3), (2.0, 8, 4)]);
    let error = |text: &str| format!("{:#}", read(text).expect_err("an error"));
    let form = "allowed: at_s,session,prompt_tokens,output_tokens";
    for (text, part) in [
        ("1,2,3", "line 1: found \"1,2,3\""),
        ("1,2,3,4\n-1,2,3,4", "line 2: found \"-1,2,3,4\""),
        ("1,2,x,4", "line 1: found"),
        ("1,2,0,4", "line 1: found"),
    ] {
        let found = error(text);
        assert!(found.contains(part) && found.contains(form), "{text}: {found}");
    }
    assert!(error("2,1,1,1\n1,1,1,1").contains("line 2: before the one above"));
    fs::remove_file(&path).expect("removed");
    let gone = clients(&[("clients.arrivals", &format!("{{ trace = '{}' }}", path.display()))]);
    let error = Source::new(&gone, 1.0, &mut fastrand::Rng::with_seed(1)).map(drop).expect_err("an error");
    assert!(format!("{error:#}").contains("trace.csv"));
}
