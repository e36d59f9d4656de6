//! Which report a gateway sees when.

use std::time::Duration;

use super::Pylon;
use crate::model::EngineState;

const MS: Duration = Duration::from_millis(1);

fn report(pylon: &mut Pylon, at: Duration, running: u64) {
    pylon.report(at, EngineState { running, ..EngineState::default() }, 1000.0);
}

#[test]
fn the_latest_visible_report_is_seen_and_none_twice() {
    let mut pylon = Pylon::new(1, false, 5000 * MS);
    assert!(pylon.latest_after(0, |_| true).is_none() && pylon.first_after(0).is_none());
    for second in 1..=3 {
        report(&mut pylon, second * 1000 * MS, u64::from(second));
    }
    let seen = |seen, now: Duration| {
        let latest = pylon.latest_after(seen, |at| at + 100 * MS <= now);
        latest.map(|(number, report)| (number, report.state.running))
    };
    assert_eq!(seen(0, 1099 * MS), None);
    assert_eq!(seen(0, 1100 * MS), Some((1, 1)));
    assert_eq!(
        (seen(0, 2100 * MS), seen(1, 2100 * MS), seen(2, 2100 * MS)),
        (Some((2, 2)), Some((2, 2)), None)
    );
    assert_eq!(
        (pylon.first_after(0), pylon.first_after(2), pylon.first_after(3)),
        (Some(1000 * MS), Some(3000 * MS), None)
    );
}

#[test]
fn reports_that_all_have_got_are_gone_but_for_the_last() {
    let mut pylon = Pylon::new(1, false, 100 * MS);
    for second in 1..=50 {
        report(&mut pylon, second * 1000 * MS, u64::from(second));
    }
    assert_eq!(pylon.reports.len(), 2);
    let latest = pylon.latest_after(3, |at| at <= 49_000 * MS);
    assert_eq!(latest.map(|(number, report)| (number, report.state.running)), Some((49, 49)));
}

#[test]
fn a_report_says_which_attempts_it_includes() {
    let mut pylon = Pylon::new(2, true, 100 * MS);
    pylon.arrived(1, Some(4));
    pylon.arrived(1, None);
    report(&mut pylon, MS, 1);
    pylon.arrived(0, Some(7));
    report(&mut pylon, 2 * MS, 2);
    report(&mut pylon, 3 * MS, 3);
    let through: Vec<&[u64]> = pylon.reports.iter().map(|report| &*report.through).collect();
    assert_eq!(through, [[0, 4], [7, 4], [7, 4]]);
    let mut silent = Pylon::new(2, false, 100 * MS);
    silent.arrived(1, Some(4));
    report(&mut silent, MS, 1);
    assert_eq!(*silent.reports[0].through, [0, 0]);
}
