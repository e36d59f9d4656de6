//! Doubly linked lists through the attempts themselves: to link and to unlink one costs the same few writes however
//! many there are, and nothing is allocated.

use slab::Slab;

/// The neighbours of an attempt in the one chain that it is part of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    previous: u32,
    next: u32,
}

/// The two ends of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    first: u32,
    last: u32,
}

/// What has a place in a chain.
pub(super) trait Linked {
    fn links(&self) -> Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// No attempt. There are never so many.
const NONE: u32 = u32::MAX;

// === impl Chain ===

impl Chain {
    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }

    pub(super) fn first(self) -> Option<u32> {
        Some(self.first).filter(|key| *key != NONE)
    }

    /// The one after `key`, which is part of a chain.
    pub(super) fn after(key: u32, attempts: &Slab<impl Linked>) -> Option<u32> {
        Some(attempts[key as usize].links().next).filter(|key| *key != NONE)
    }

    pub(super) fn push_last(&mut self, key: u32, attempts: &mut Slab<impl Linked>) {
        *attempts[key as usize].links_mut() = Links { previous: self.last, next: NONE };
        match self.last {
            NONE => self.first = key,
            last => attempts[last as usize].links_mut().next = key,
        }
        self.last = key;
    }

    /// Takes out one that is part of this chain.
    pub(super) fn remove(&mut self, key: u32, attempts: &mut Slab<impl Linked>) {
        let Links { previous, next } = attempts[key as usize].links();
        match previous {
            NONE => self.first = next,
            previous => attempts[previous as usize].links_mut().next = next,
        }
        match next {
            NONE => self.last = previous,
            next => attempts[next as usize].links_mut().previous = previous,
        }
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

// === impl Links ===

impl Default for Links {
    fn default() -> Self {
        Self { previous: NONE, next: NONE }
    }
}
