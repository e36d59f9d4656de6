//! Runs of cached blocks, and the order in which those that no request uses are given up: a linked list through the
//! slab that holds them, so that no operation costs more the more there are.

use slab::Slab;

/// Where an entry is; another one may be there once it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryId(u32);

/// Whose blocks these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Group(u32),
    Session(u32),
    /// One request's own, by a number that is given out once.
    Request(u64),
}

/// Whole blocks in a row.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    /// Blocks of the sequence before the first of these.
    pub(super) start: u32,
    pub(super) blocks: u32,
    /// Running requests that use it: it is in the list while there is none.
    pub(super) pins: u32,
    older: Option<EntryId>,
    newer: Option<EntryId>,
}

/// All entries of one cache.
#[derive(Default)]
pub(super) struct Entries {
    slab: Slab<Entry>,
    oldest: Option<EntryId>,
    newest: Option<EntryId>,
}

// === impl Entries ===

impl Entries {
    /// A new entry, which is not in the list.
    pub(super) fn insert(&mut self, owner: Owner, start: u32, blocks: u32) -> EntryId {
        EntryId(self.slab.insert(Entry { owner, start, blocks, pins: 0, older: None, newer: None }) as u32)
    }

    /// Takes out an entry that is not in the list.
    pub(super) fn remove(&mut self, id: EntryId) -> Entry {
        self.slab.remove(id.0 as usize)
    }

    /// The entry that is there, whichever it is.
    pub(super) fn find(&self, id: EntryId) -> Option<&Entry> {
        self.slab.get(id.0 as usize)
    }

    pub(super) fn get(&self, id: EntryId) -> &Entry {
        &self.slab[id.0 as usize]
    }

    pub(super) fn get_mut(&mut self, id: EntryId) -> &mut Entry {
        &mut self.slab[id.0 as usize]
    }

    /// The entry in the list that was put there first.
    pub(super) fn oldest(&self) -> Option<EntryId> {
        self.oldest
    }

    /// Puts an entry at the list's end.
    pub(super) fn link(&mut self, id: EntryId) {
        let older = self.newest.replace(id);
        let entry = self.get_mut(id);
        (entry.older, entry.newer) = (older, None);
        match older {
            Some(older) => self.get_mut(older).newer = Some(id),
            None => self.oldest = Some(id),
        }
    }

    /// Takes an entry out of the list.
    pub(super) fn unlink(&mut self, id: EntryId) {
        let (older, newer) = (self.get(id).older, self.get(id).newer);
        match older {
            Some(older) => self.get_mut(older).newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.get_mut(newer).older = older,
            None => self.newest = older,
        }
    }
}
