//! Virtual time: what is going to happen, in order.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

/// Events to come. Of two at the same time the one that was scheduled first comes first, but for those with a turn, so that
/// a run follows from its seed alone.
pub(super) struct Events<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    scheduled: u64,
    now: Duration,
}

struct Entry<E> {
    at: Duration,
    turn: usize,
    number: u64,
    event: E,
}

// === impl Events ===

impl<E> Events<E> {
    /// None yet, at time 0.
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0, now: Duration::ZERO }
    }

    /// The time of the event that is being handled.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Schedules an event this much later.
    pub(super) fn after(&mut self, delay: Duration, event: E) {
        self.schedule(delay, 0, event);
    }

    /// Schedules one that comes after all others of that moment, and those in the order of their turns: so it does not
    /// matter how often somebody who looks in at that moment did so before.
    pub(super) fn after_others(&mut self, delay: Duration, turn: usize, event: E) {
        self.schedule(delay, turn + 1, event);
    }

    fn schedule(&mut self, delay: Duration, turn: usize, event: E) {
        self.scheduled += 1;
        self.heap.push(Reverse(Entry { at: self.now + delay, turn, number: self.scheduled, event }));
    }

    /// Moves on to the next event, unless that is after `end`.
    pub(super) fn next(&mut self, end: Duration) -> Option<E> {
        if self.heap.peek()?.0.at > end {
            return None;
        }
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }
}

// === impl Entry ===

impl<E> Entry<E> {
    fn order(&self) -> (Duration, usize, u64) {
        (self.at, self.turn, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_scheduling() {
        let ms = Duration::from_millis;
        let mut events = Events::new();
        events.after(ms(2), 'c');
        events.after(ms(1), 'a');
        events.after(ms(1), 'b');
        assert_eq!(events.next(ms(2)), Some('a'));
        events.after(ms(1), 'd');
        let rest: String = std::iter::from_fn(|| events.next(ms(2))).collect();
        assert_eq!((rest.as_str(), events.now()), ("bcd", ms(2)));
        events.after(ms(1), 'e');
        assert_eq!(events.next(ms(2)), None);
    }

    #[test]
    fn those_with_a_turn_come_last_and_in_its_order() {
        let mut events = Events::new();
        events.after_others(Duration::ZERO, 1, 'd');
        events.after_others(Duration::ZERO, 0, 'c');
        events.after(Duration::ZERO, 'a');
        events.after(Duration::ZERO, 'b');
        let all: String = std::iter::from_fn(|| events.next(Duration::ZERO)).collect();
        assert_eq!(all, "abcd");
    }
}
