use std::collections::BTreeSet;

use proptest::{collection, prelude::*};

use super::*;

fn stamp(core: u16, sequence: u64) -> Stamp {
    Stamp { gateway: 0xbeef, core, sequence }
}

fn noted(handover: &mut Handover, core: u16, sequences: impl IntoIterator<Item = u64>, now: Instant) {
    sequences.into_iter().for_each(|sequence| handover.note(stamp(core, sequence), now));
}

/// What a report includes of a core's attempts, as a gateway reads it.
fn included(report: &Value, core: u16) -> impl Fn(u64) -> bool + use<> {
    let marks = &report["0000beef"][core.to_string()];
    let through = marks["through"].as_u64().unwrap_or(0);
    let except: BTreeSet<u64> =
        marks["except"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    move |sequence| sequence <= through && !except.contains(&sequence)
}

#[test]
fn a_stamp_is_three_numbers() {
    assert_eq!(Stamp::parse(b"000000ab.1.9"), Some(Stamp { gateway: 0xab, core: 1, sequence: 9 }));
    assert_eq!(
        Stamp::parse(b"ffffffff.65535.18446744073709551615"),
        Some(Stamp { gateway: u32::MAX, core: u16::MAX, sequence: u64::MAX })
    );
    for text in [
        "",
        "ab.1.9",
        "000000ab.1",
        "000000ab.1.9.",
        "000000AB.1.9",
        "000000ab.65536.9",
        "000000ab.1.0",
        "000000ab.+1.9",
        "000000ab.1.-9",
        "000000ab..9",
        "000000ab.1.",
        "000000ab.1. 9",
        "000000ab.1.18446744073709551616",
    ] {
        assert_eq!(Stamp::parse(text.as_bytes()), None, "{text}");
    }
    assert_eq!(Stamp::parse(b"000000ab.1.\xff"), None);
}

#[test]
fn the_worked_example_of_the_documentation() {
    let (mut handover, start) = (Handover::default(), Instant::now());
    noted(&mut handover, 2, [1, 2, 3, 5, 8], start);
    noted(&mut handover, 5, [1], start);
    let first = json!({"0000beef": {
        "2": {"through": 8, "except": [4, 6, 7]},
        "5": {"through": 1, "except": []},
    }});
    assert_eq!(handover.report(start), first);
    noted(&mut handover, 2, [6, 7, 9], start + Duration::from_secs(1));
    let second = json!({"through": 9, "except": [4]});
    assert_eq!(
        handover.report(start + Duration::from_secs(10))["0000beef"]["2"],
        second,
        "still on its way?"
    );
    let third = json!({"through": 9, "except": []});
    assert_eq!(handover.report(start + Duration::from_millis(10_001))["0000beef"]["2"], third, "lost");
}

#[test]
fn a_number_that_cannot_come_again_begins_anew() {
    let (mut handover, now) = (Handover::default(), Instant::now());
    noted(&mut handover, 0, 1..=500, now);
    // Of the new registration the third has overtaken the first two.
    noted(&mut handover, 0, [3], now);
    let report = handover.report(now);
    assert_eq!(report["0000beef"]["0"], json!({"through": 3, "except": [1, 2]}));
    noted(&mut handover, 0, [1, 2, 4], now);
    assert_eq!(handover.report(now)["0000beef"]["0"], json!({"through": 4, "except": []}));
    handover.forget();
    assert_eq!(handover.report(now), json!({}));
}

#[test]
fn everything_has_a_bound() {
    let (mut handover, now) = (Handover::default(), Instant::now());
    handover.note(stamp(0, u64::MAX), now);
    let report = handover.report(now);
    assert_eq!(report["0000beef"]["0"]["except"].as_array().unwrap().len(), EXCEPTIONS_MAX);
    assert!(included(&report, 0)(u64::MAX) && !included(&report, 0)(u64::MAX - 1));
    handover.note(stamp(0, 7), now);
    handover.note(stamp(0, 7 + 300), now);
    let report = handover.report(now);
    assert_eq!(report["0000beef"]["0"]["except"], json!((51..307).collect::<Vec<u64>>()));

    for core in 0..2000 {
        handover.note(stamp(core, 1), now);
    }
    assert_eq!(handover.report(now)["0000beef"].as_object().unwrap().len(), CORES_MAX);
    for gateway in 0..100 {
        let later = now + Duration::from_millis(u64::from(gateway) + 1);
        handover.note(Stamp { gateway, core: 0, sequence: 1 }, later);
    }
    let report = handover.report(now);
    let kept: Vec<&String> = report.as_object().unwrap().keys().collect();
    let latest: Vec<String> = (36..100).map(|gateway| format!("{gateway:08x}")).collect();
    assert_eq!(kept, latest.iter().collect::<Vec<_>>(), "those that were silent longest are gone");
}

#[derive(Clone, Debug)]
enum Step {
    /// Attempts are sent.
    Send { core: u16, count: u64 },
    /// One of those on their way arrives.
    Arrive { core: u16, which: prop::sample::Index },
    /// Time passes, in ms.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let arrive =
        || (0u16..2, any::<prop::sample::Index>()).prop_map(|(core, which)| Step::Arrive { core, which });
    prop_oneof![
        2 => (0u16..2, 1u64..200).prop_map(|(core, count)| Step::Send { core, count }),
        8 => arrive(),
        1 => (0u64..6000).prop_map(Step::Wait),
    ]
}

/// One core's attempts, remembered without a bound.
#[derive(Default)]
struct Naive {
    sent: u64,
    on_their_way: BTreeSet<u64>,
    noted: BTreeSet<u64>,
    missing: BTreeMap<u64, Instant>,
}

impl Naive {
    fn arrive(&mut self, sequence: u64, now: Instant) {
        self.on_their_way.remove(&sequence);
        self.missing.remove(&sequence);
        let highest = self.noted.last().copied().unwrap_or(0);
        self.missing.extend((highest + 1..sequence).map(|sequence| (sequence, now)));
        self.noted.insert(sequence);
        while self.missing.len() > EXCEPTIONS_MAX {
            self.missing.pop_first();
        }
    }

    fn given_up(&self, sequence: u64) -> bool {
        let highest = self.noted.last().copied().unwrap_or(0);
        sequence < highest && !self.noted.contains(&sequence) && !self.missing.contains_key(&sequence)
    }
}

proptest! {
    /// Whatever overtakes what: while nothing is given up, what is reported is what has arrived, no more and no less.
    #[test]
    fn what_is_included_is_what_has_arrived(order in Just((1..=200u64).collect::<Vec<_>>()).prop_shuffle()) {
        let (mut handover, now) = (Handover::default(), Instant::now());
        let mut arrived = BTreeSet::new();
        for sequence in order {
            handover.note(stamp(0, sequence), now);
            arrived.insert(sequence);
            let is_included = included(&handover.report(now), 0);
            for sequence in 1..=201 {
                prop_assert_eq!(is_included(sequence), arrived.contains(&sequence), "{}", sequence);
            }
        }
        let whole = json!({"through": 200, "except": []});
        prop_assert_eq!(&handover.report(now)["0000beef"]["0"], &whole);
    }

    /// And in the long run nothing is included but what has arrived, or has been missing for long, or is one of many.
    #[test]
    fn what_is_given_up_is_old_or_one_of_many(steps in collection::vec(step(), 1..80)) {
        let mut handover = Handover::default();
        let mut now = Instant::now();
        let mut cores = [Naive::default(), Naive::default()];
        for step in steps {
            match step {
                Step::Send { core, count } => {
                    let naive = &mut cores[usize::from(core)];
                    naive.on_their_way.extend(naive.sent + 1..=naive.sent + count);
                    naive.sent += count;
                }
                Step::Arrive { core, which } => {
                    let naive = &mut cores[usize::from(core)];
                    let arriving: Vec<u64> =
                        naive.on_their_way.iter().copied().filter(|sequence| !naive.given_up(*sequence)).collect();
                    if !arriving.is_empty() {
                        let sequence = *which.get(&arriving);
                        naive.arrive(sequence, now);
                        handover.note(stamp(core, sequence), now);
                    }
                }
                Step::Wait(ms) => now += Duration::from_millis(ms),
            }
            let report = handover.report(now);
            for (core, naive) in (0..).zip(&mut cores) {
                naive.missing.retain(|_, since| now - *since <= MISSING_TIME_MAX);
                let is_included = included(&report, core);
                for sequence in 1..=naive.sent + 1 {
                    let expected = naive.noted.contains(&sequence) || naive.given_up(sequence);
                    prop_assert_eq!(is_included(sequence), expected, "{} of core {}", sequence, core);
                }
            }
        }
    }
}
