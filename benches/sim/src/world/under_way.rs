//! The attempts that are under way, by keys that no later attempt has: an event about one that is over finds nothing.

use std::collections::VecDeque;

use crate::model::AttemptKey;

/// Numbered in the order in which they begin; the few that are over while older ones are not leave gaps.
pub(super) struct UnderWay<A> {
    attempts: VecDeque<Option<A>>,
    /// Key of the first of them.
    first: u32,
}

// === impl UnderWay ===

impl<A> UnderWay<A> {
    pub(super) fn new() -> Self {
        Self { attempts: VecDeque::new(), first: 0 }
    }

    /// Adds the attempt that is made for its key.
    pub(super) fn begin(&mut self, attempt: impl FnOnce(AttemptKey) -> A) -> AttemptKey {
        let key = AttemptKey(self.first + self.attempts.len() as u32);
        self.attempts.push_back(Some(attempt(key)));
        key
    }

    /// `None` once it is over.
    pub(super) fn get_mut(&mut self, key: AttemptKey) -> Option<&mut A> {
        self.attempts.get_mut(key.0.checked_sub(self.first)? as usize)?.as_mut()
    }

    /// Takes it out, since it is over.
    pub(super) fn end(&mut self, key: AttemptKey) -> Option<A> {
        let ended = self.attempts.get_mut(key.0.checked_sub(self.first)? as usize)?.take();
        while let Some(None) = self.attempts.front() {
            self.attempts.pop_front();
            self.first += 1;
        }
        ended
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &A> {
        self.attempts.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_used_again() {
        let mut under_way = UnderWay::new();
        let keys: Vec<AttemptKey> = (0..3).map(|_| under_way.begin(|key| key.0 * 10)).collect();
        assert_eq!(under_way.end(keys[1]), Some(10));
        assert_eq!((under_way.end(keys[1]), under_way.get_mut(keys[1])), (None, None));
        assert_eq!(under_way.end(keys[0]), Some(0));
        assert_eq!(under_way.attempts.len(), 1, "what is over before all others takes no memory");
        let next = under_way.begin(|key| key.0 * 10);
        assert_eq!(
            (next, under_way.end(keys[0]), under_way.get_mut(next)),
            (AttemptKey(3), None, Some(&mut 30))
        );
        assert_eq!(under_way.iter().copied().collect::<Vec<_>>(), [20, 30]);
        assert_eq!((under_way.end(keys[2]), under_way.end(next)), (Some(20), Some(30)));
        assert_eq!(under_way.begin(|key| key.0), AttemptKey(4));
    }
}
