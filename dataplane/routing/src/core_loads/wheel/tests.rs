use super::*;
use crate::{
    BackendUid, ClusterStats, RoutingRequest,
    core_loads::{
        attempt::{Charge, Place},
        clusters::ClusterKey,
    },
};

/// A wheel, and attempts to put into it.
#[derive(Default)]
struct Fixture {
    wheel: Wheel,
    attempts: Slab<Attempt>,
}

fn us(count: u64) -> Duration {
    Duration::from_micros(count)
}

impl Fixture {
    fn insert(&mut self, due: Duration) -> u32 {
        let charge = Charge::new(&ClusterStats::default(), &RoutingRequest::default());
        let place = Place { cluster: ClusterKey::default(), charge };
        let mut attempt = Attempt::new(place, BackendUid(1));
        attempt.due = Wheel::tick_at_or_after(due);
        let key = self.attempts.insert(attempt) as u32;
        self.wheel.insert(key, &mut self.attempts);
        key
    }

    /// Takes out what is due, and tells how many slots were looked at.
    fn expire(&mut self, now: Duration) -> (Vec<u32>, usize) {
        let (mut due, mut looks) = (Vec::new(), 0);
        while let Some(first) = self.wheel.next_passed(now) {
            looks += 1;
            let mut next = Some(first);
            while let Some(key) = next {
                next = Chain::after(key, &self.attempts);
                if self.attempts[key as usize].due <= Wheel::tick_at_or_before(now) {
                    self.wheel.remove(key, &mut self.attempts);
                    due.push(key);
                }
            }
        }
        due.sort_unstable();
        (due, looks)
    }
}

#[test]
fn nothing_ends_before_its_time_and_everything_does_within_a_millisecond() {
    let mut fixture = Fixture::default();
    let key = fixture.insert(us(12_300));
    assert_eq!(fixture.expire(us(12_999)).0, []);
    assert_eq!(fixture.wheel.next_due(), Some(us(13_000)));
    assert_eq!(fixture.expire(us(13_000)).0, [key]);
    assert_eq!(fixture.wheel.next_due(), None);
}

#[test]
fn a_later_round_stays_in_its_slot() {
    let mut fixture = Fixture::default();
    let turn = SLOTS as u64 * 1_000;
    let (near, far) = (fixture.insert(us(5_000)), fixture.insert(us(5_000 + 3 * turn)));
    assert_eq!(fixture.expire(us(5_000)).0, [near]);
    assert_eq!(fixture.expire(us(5_000 + turn)).0, []);
    assert_eq!(fixture.expire(us(4_999 + 3 * turn)).0, []);
    assert_eq!(fixture.expire(us(5_000 + 3 * turn)).0, [far]);
}

#[test]
fn a_leap_looks_at_every_slot_at_most_once() {
    let mut fixture = Fixture::default();
    let keys: Vec<u32> = (0..3 * SLOTS as u64).map(|tick| fixture.insert(us(tick * 1_000))).collect();
    let (due, looks) = fixture.expire(us(1_000_000 * 60));
    assert_eq!((due, looks), (keys, SLOTS));
    assert_eq!(fixture.expire(us(1_000_000 * 120)), (Vec::new(), 0));
}

#[test]
fn what_is_due_already_comes_up_with_the_next_tick() {
    let mut fixture = Fixture::default();
    assert_eq!(fixture.expire(us(40_000)).0, []);
    let key = fixture.insert(us(7));
    assert_eq!(fixture.expire(us(40_999)).0, []);
    assert_eq!(fixture.expire(us(41_000)).0, [key]);
}
