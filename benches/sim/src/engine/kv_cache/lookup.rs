//! Finding what the cache has of a sequence: its group's run of blocks, and its session's if that goes on from there.
//! Changes nothing, so that it can be asked from outside as well.

use super::{
    KvCache,
    entries::EntryId,
    sequence::{Runs, Sequence},
};

/// Where a shared run is.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// There is none to be, or it does not fit the sequence.
    Nowhere,
    /// Not there yet.
    New,
    At(EntryId),
}

/// What the cache has of a sequence.
pub(super) struct Found {
    pub(super) runs: Runs,
    pub(super) group: Place,
    pub(super) session: Place,
    /// Blocks from the sequence's beginning on that are in these two, and whether that is all that could be.
    pub(super) shared: u32,
    pub(super) is_whole: bool,
}

impl KvCache {
    /// Both runs, whether they are there or to be made.
    pub(super) fn find(&self, sequence: &Sequence) -> Found {
        let runs = sequence.runs(self.block_tokens);
        let prompt = &sequence.prompt;
        let group = match self.groups.get(&prompt.group) {
            _ if runs.group == 0 => Place::Nowhere,
            None => Place::New,
            Some(&id) => Place::At(id),
        };
        let session = match self.sessions.get(&prompt.session) {
            _ if runs.session == runs.group && !prompt.is_continued => Place::Nowhere,
            None => Place::New,
            Some(&id) if self.entries.get(id).start == runs.group => Place::At(id),
            Some(_) => Place::Nowhere,
        };
        let mut shared = self.cached(group).min(runs.group);
        if shared == runs.group {
            shared += self.cached(session).min(runs.session - runs.group);
        }
        let end = if matches!(session, Place::Nowhere) { runs.group } else { runs.session };
        Found { runs, group, session, shared, is_whole: shared == end }
    }

    /// Blocks of a run.
    pub(super) fn cached(&self, place: Place) -> u32 {
        match place {
            Place::At(id) => self.entries.get(id).blocks,
            Place::Nowhere | Place::New => 0,
        }
    }

    /// Blocks of a run that could be given up.
    pub(super) fn idle(&self, place: Place) -> u64 {
        match place {
            Place::At(id) if self.entries.get(id).pins == 0 => u64::from(self.entries.get(id).blocks),
            _ => 0,
        }
    }
}
