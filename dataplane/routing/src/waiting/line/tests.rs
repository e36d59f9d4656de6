use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[derive(Debug, PartialEq)]
struct Waiter {
    name: u64,
    due: Duration,
}

impl Waits for Waiter {
    fn due(&self) -> Duration {
        self.due
    }
}

type Outcome = Result<(), ()>;

/// A line of `count`, named and arrived in order from 1 ms on, due never.
fn line(count: u64) -> Line<Waiter> {
    let mut line = Line::new(WaitOrder::OldestFirst, 10_000);
    for name in 1..=count {
        join(&mut line, name, Duration::MAX);
    }
    line
}

fn join(line: &mut Line<Waiter>, name: u64, due: Duration) -> Ticket {
    line.join(0, ms(name), ms(1_000_000), Waiter { name, due }).unwrap()
}

/// Who was asked, in order, and who left.
fn serve(
    line: &mut Line<Waiter>,
    now: Duration,
    ask: impl Fn(u64) -> Option<Outcome>,
) -> (Vec<u64>, Vec<u64>) {
    let (mut asked, mut left) = (Vec::new(), Vec::new());
    let note = |waiter: &Waiter, is_one_of_many: bool| {
        assert!(is_one_of_many);
        asked.push(waiter.name);
        ask(waiter.name)
    };
    line.serve(now, note, |waiter, _| left.push(waiter.name));
    (asked, left)
}

#[test]
fn nobody_is_asked_while_nothing_has_happened() {
    assert_eq!(serve(&mut line(3), ms(10), |_| Some(Ok(()))), (vec![], vec![]));
}

#[test]
fn a_place_that_became_free_ends_with_the_first_that_takes_it() {
    let mut line = line(5);
    line.freed(1);
    // One that is refused takes no place.
    let outcome = |name| match name {
        1 => None,
        2 => Some(Err(())),
        _ => Some(Ok(())),
    };
    assert_eq!(serve(&mut line, ms(10), outcome), (vec![1, 2, 3], vec![2, 3]));
    assert_eq!(serve(&mut line, ms(10), outcome), (vec![], vec![]));
    line.freed(2);
    assert_eq!(serve(&mut line, ms(10), outcome), (vec![1, 4, 5], vec![4, 5]));
}

#[test]
fn a_free_place_that_is_for_nobody_asks_so_many_at_most() {
    let mut line = line(ASKED_MAX as u64 + 10);
    line.freed(1);
    assert_eq!(serve(&mut line, ms(10), |_| None).0.len(), ASKED_MAX);
}

#[test]
fn time_concerns_those_whose_time_has_come() {
    let mut line = line(1);
    join(&mut line, 2, ms(20));
    join(&mut line, 3, ms(30));
    assert_eq!(line.next_due(), Some(ms(20)));
    assert_eq!(serve(&mut line, ms(19), |_| Some(Ok(()))).0, vec![0; 0]);
    assert_eq!(serve(&mut line, ms(20), |_| Some(Ok(()))), (vec![2], vec![2]));
    assert_eq!(line.next_due(), Some(ms(30)));
}

#[test]
fn a_crowd_is_gone_through_in_slices_and_from_the_start_where_something_happened_meanwhile() {
    let count = SLICE as u64 + 5;
    let mut line = line(count);
    line.refresh();
    assert_eq!(serve(&mut line, ms(10), |_| None).0, (1..=SLICE as u64).collect::<Vec<_>>());
    assert_eq!(line.next_due(), Some(ms(11)));
    line.refresh();
    assert_eq!(serve(&mut line, ms(11), |_| None).0, (SLICE as u64 + 1..=count).collect::<Vec<_>>());
    assert_eq!(line.next_due(), Some(ms(12)));
    assert_eq!(serve(&mut line, ms(12), |_| None).0.len(), SLICE);
    assert_eq!(serve(&mut line, ms(13), |_| None).0.len(), 5);
    assert_eq!(line.next_due(), Some(Duration::MAX));
}

#[test]
fn who_is_to_go_on_with_may_have_left() {
    let mut line = line(SLICE as u64);
    let last = join(&mut line, SLICE as u64 + 1, Duration::MAX);
    join(&mut line, SLICE as u64 + 2, Duration::MAX);
    line.refresh();
    serve(&mut line, ms(10), |_| None);
    assert!(line.leave(last, ms(10)).is_some());
    assert_eq!(serve(&mut line, ms(11), |_| None).0, [SLICE as u64 + 2]);
}

#[test]
fn a_newcomers_right_passes_to_the_first_of_those_ahead_who_can_use_it() {
    let mut line = line(4);
    let mut asked = Vec::new();
    let ask = |waiter: &Waiter, is_one_of_many: bool| {
        asked.push((waiter.name, is_one_of_many));
        (waiter.name >= 2).then_some(Outcome::Ok(()))
    };
    // Those who arrived no later than it are ahead.
    let mut left = Vec::new();
    assert!(line.serve_ahead(0, ms(3), ms(10), ask, |waiter, _| left.push(waiter.name)));
    assert_eq!(asked, [(1, false), (2, false), (3, true)]);
    assert_eq!(left, [2, 3]);
    assert!(!line.serve_ahead(0, ms(0), ms(10), |_, _| Some(Outcome::Ok(())), |_, _| ()));
}
