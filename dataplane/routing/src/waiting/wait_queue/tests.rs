use proptest::{collection::vec, prelude::*};

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The rules by the letter: a list that is sorted anew for every question.
struct Naive {
    order: WaitOrder,
    waiters_max: usize,
    /// (priority, arrival, number, limit), in the order in which they came.
    waiters: Vec<(u32, Duration, u64, Duration)>,
    is_newest_first: bool,
    short_since: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Priority, how long ago it arrived, its limit.
    Insert(u32, u64, u64),
    /// Somebody leaves.
    Remove(usize),
    /// The first is served.
    Serve,
    Pass(u64),
    Update,
    Configure(bool, usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u32, 0..300_u64, 0..3000_u64).prop_map(|(p, ago, limit)| Step::Insert(p, ago, limit)),
        2 => any::<usize>().prop_map(Step::Remove),
        2 => Just(Step::Serve),
        4 => (0..700_u64).prop_map(Step::Pass),
        4 => Just(Step::Update),
        1 => (any::<bool>(), 0..40_usize).prop_map(|(adaptive, max)| Step::Configure(adaptive, max)),
    ]
}

impl Naive {
    fn in_order(&self) -> Vec<u64> {
        let mut sorted = self.waiters.clone();
        sorted.sort_by_key(|(priority, arrived, number, _)| (*priority, *arrived, *number));
        if self.is_newest_first {
            // Turned around within each priority.
            sorted.reverse();
            sorted.sort_by_key(|(priority, ..)| *priority);
        }
        sorted.into_iter().map(|(_, _, number, _)| number).collect()
    }

    fn oldest(&self) -> Option<(Duration, Duration)> {
        let oldest = self.waiters.iter().min_by_key(|(_, arrived, number, _)| (*arrived, *number));
        oldest.map(|(_, arrived, _, limit)| (*arrived, *limit))
    }

    fn resized(&mut self, now: Duration) {
        self.short_since = if self.waiters.len() > 8 { None } else { self.short_since.or(Some(now)) };
    }

    fn update(&mut self, now: Duration) {
        let is_late = self.oldest().is_some_and(|(arrived, limit)| now > arrived + limit / 2);
        let is_calm = self.short_since.is_some_and(|since| now >= since + ms(1000));
        if self.order == WaitOrder::OldestFirst {
            self.is_newest_first = false;
        } else if is_late {
            self.is_newest_first = true;
        } else if is_calm {
            self.is_newest_first = false;
        }
    }
}

proptest! {
    #[test]
    fn it_serves_by_the_letter_and_loses_nobody(steps in vec(any_step(), 0..150)) {
        let mut queue = WaitQueue::new(WaitOrder::Adaptive, 30);
        let mut naive = Naive {
            order: WaitOrder::Adaptive,
            waiters_max: 30,
            waiters: Vec::new(),
            is_newest_first: false,
            short_since: Some(Duration::ZERO),
        };
        let mut tickets: Vec<(u64, Ticket)> = Vec::new();
        let (mut now, mut number) = (ms(1000), 0);
        for step in steps {
            match step {
                Step::Insert(priority, ago, limit) => {
                    let arrived = now.saturating_sub(ms(ago));
                    number += 1;
                    match queue.insert(priority, arrived, ms(limit), number) {
                        Ok(ticket) => {
                            prop_assert!(naive.waiters.len() < naive.waiters_max);
                            tickets.push((number, ticket));
                            naive.waiters.push((priority, arrived, number, ms(limit)));
                        }
                        Err(given_back) => {
                            prop_assert_eq!(given_back, number);
                            prop_assert!(naive.waiters.len() >= naive.waiters_max);
                        }
                    }
                }
                Step::Remove(which) if !tickets.is_empty() => {
                    let (leaves, ticket) = tickets.swap_remove(which % tickets.len());
                    prop_assert_eq!(queue.remove(ticket, now), Some(leaves));
                    prop_assert_eq!(queue.remove(ticket, now), None, "once");
                    naive.waiters.retain(|(_, _, number, _)| *number != leaves);
                }
                Step::Serve => {
                    let first = queue.first();
                    let served = first.and_then(|first| queue.remove(first, now));
                    prop_assert_eq!(served, naive.in_order().first().copied());
                    tickets.retain(|(number, _)| Some(*number) != served);
                    naive.waiters.retain(|(_, _, number, _)| Some(*number) != served);
                }
                Step::Pass(by) => now += ms(by),
                Step::Update => {
                    queue.update(now);
                    naive.update(now);
                }
                Step::Configure(is_adaptive, max) => {
                    let order = if is_adaptive { WaitOrder::Adaptive } else { WaitOrder::OldestFirst };
                    queue.configure(order, max);
                    (naive.order, naive.waiters_max) = (order, max);
                }
                Step::Remove(_) => {}
            }
            naive.resized(now);
            prop_assert_eq!(queue.is_newest_first(), naive.is_newest_first);
            prop_assert_eq!(queue.len(), naive.waiters.len());
            let served: Vec<u64> = queue.iter().map(|(_, number)| *number).collect();
            prop_assert_eq!(served, naive.in_order());
        }
    }

    #[test]
    fn a_pass_goes_on_past_those_that_it_serves(
        waiters in vec((0..3_u32, 0..50_u64), 0..40),
        served in any::<u64>(),
        is_late in any::<bool>(),
    ) {
        let mut queue = WaitQueue::new(WaitOrder::Adaptive, 100);
        for (number, (priority, arrived)) in waiters.iter().enumerate() {
            queue.insert(*priority, ms(*arrived), ms(1000), number).unwrap();
        }
        let now = if is_late { ms(2000) } else { ms(60) };
        queue.update(now);
        let expected: Vec<usize> = queue.iter().map(|(_, number)| *number).collect();
        let (mut seen, mut next) = (Vec::new(), queue.first());
        while let Some(ticket) = next {
            seen.push(*queue.get(ticket).unwrap());
            if served >> (seen.len() % 64) & 1 == 1 {
                queue.remove(ticket, now);
            }
            next = queue.after(ticket);
        }
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn those_ahead_of_a_newcomer_are_those_served_before_it(
        waiters in vec((0..3_u32, 0..20_u64), 0..20),
        newcomer in (0..3_u32, 0..20_u64),
        is_late in any::<bool>(),
    ) {
        let mut queue = WaitQueue::new(WaitOrder::Adaptive, 100);
        for (priority, arrived) in waiters {
            queue.insert(priority, ms(arrived), ms(1000), false).unwrap();
        }
        queue.update(if is_late { ms(2000) } else { ms(60) });
        let (priority, arrived) = (newcomer.0, ms(newcomer.1));
        let ahead = queue.iter().filter(|(ticket, _)| queue.is_ahead(*ticket, priority, arrived)).count();
        queue.insert(priority, arrived, ms(1000), true).unwrap();
        prop_assert_eq!(queue.iter().position(|(_, is_newcomer)| *is_newcomer), Some(ahead));
    }
}

fn order(queue: &WaitQueue<&'static str>) -> Vec<&'static str> {
    queue.iter().map(|(_, name)| *name).collect()
}

#[test]
fn overload_turns_the_order_around_and_a_calm_second_turns_it_back() {
    let mut queue = WaitQueue::new(WaitOrder::Adaptive, 100);
    let first = queue.insert(1, ms(0), ms(100), "first").unwrap();
    let second = queue.insert(1, ms(10), ms(100), "second").unwrap();
    queue.insert(0, ms(20), ms(1000), "urgent").unwrap();
    queue.update(ms(50));
    assert_eq!(order(&queue), ["urgent", "first", "second"], "half a limit is not longer than that");
    queue.update(ms(51));
    assert_eq!(order(&queue), ["urgent", "second", "first"]);
    for (ticket, at) in [(first, 60), (second, 61)] {
        queue.remove(ticket, ms(at)).unwrap();
    }
    let crowd: Vec<Ticket> = (0..8).map(|_| queue.insert(1, ms(62), ms(5000), "crowd").unwrap()).collect();
    queue.remove(crowd[0], ms(100)).unwrap();
    // Nobody is late, but the queue was long a moment ago.
    queue.update(ms(500));
    assert!(queue.is_newest_first());
    queue.insert(1, ms(501), ms(5000), "ninth").unwrap();
    queue.remove(crowd[1], ms(502)).unwrap();
    queue.remove(queue.first().unwrap(), ms(502)).unwrap();
    queue.update(ms(1501));
    assert!(queue.is_newest_first(), "the ninth broke the calm");
    queue.update(ms(1502));
    assert!(!queue.is_newest_first());
}

#[test]
fn oldest_first_stays_so() {
    let mut queue = WaitQueue::new(WaitOrder::OldestFirst, 2);
    queue.insert(0, ms(0), ms(10), "first").unwrap();
    queue.insert(0, ms(1), ms(10), "second").unwrap();
    assert_eq!(queue.insert(0, ms(2), ms(10), "third"), Err("third"));
    queue.update(ms(1000));
    assert_eq!(order(&queue), ["first", "second"]);
    queue.configure(WaitOrder::Adaptive, 2);
    queue.update(ms(1000));
    assert_eq!(order(&queue), ["second", "first"]);
    queue.configure(WaitOrder::OldestFirst, 2);
    queue.update(ms(1001));
    assert_eq!(order(&queue), ["first", "second"]);
}
