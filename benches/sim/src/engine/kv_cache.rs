//! An engine's KV memory and the prefix cache in it, as in vLLM: requests hold whole blocks, what they have computed can
//! be used by others, and blocks that nobody uses stay until the room is needed.
//!
//! Blocks are not kept one by one but in runs: what a group's prompts begin with, what a session's prompts go on with,
//! and what is a request's alone. So a request costs the same whatever its length. Runs that no running request uses are
//! given up from their ends, the least recently used first; that is what vLLM does, since it frees a sequence's blocks
//! last one first, and a session's go before its group's. What differs:
//! - A run is used and kept as a whole, also by a prompt that needs only its beginning, unless that prompt then has no
//!   room.
//! - When two requests compute the same blocks at once, the first one's become the shared run, the second one's are its
//!   own: held as long, but never found again.
//! - Room that holds nothing is taken before anything is given up; vLLM keeps to the order in which blocks were freed.
//! - A sequence that is larger than the memory holds all of it, and no more.

mod entries;
mod lookup;
mod sequence;

use std::collections::HashMap;

pub(super) use self::sequence::Sequence;
use self::{
    entries::{Entries, EntryId, Owner},
    lookup::{Found, Place},
};

/// What a running request holds.
#[derive(Debug)]
pub(super) struct Lease {
    group: Option<EntryId>,
    session: Option<EntryId>,
    /// Blocks of this sequence that are in the two.
    shared: u32,
    /// Blocks that are its own so far.
    private: u32,
    /// Tokens that there is room for in all of these.
    room: u32,
}

/// A request's own blocks that were left in the cache when it was preempted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leftover {
    entry: EntryId,
    number: u64,
    /// Blocks in it before those that follow the session's.
    ahead: u32,
}

/// The KV memory of one engine.
pub(super) struct KvCache {
    block_tokens: u32,
    /// None: as much as anyone likes.
    limit_blocks: Option<u32>,
    free: u64,
    /// Blocks of the entries that no running request uses.
    evictable: u64,
    entries: Entries,
    groups: HashMap<u32, EntryId>,
    sessions: HashMap<u32, EntryId>,
    leftovers: u64,
}

// === impl KvCache ===

impl KvCache {
    /// An empty one for `kv_tokens` in blocks of `block_tokens` (at least 1); 0 tokens: without a limit.
    pub(super) fn new(kv_tokens: u64, block_tokens: u32) -> Self {
        let limit_blocks = match kv_tokens / u64::from(block_tokens) {
            0 => None,
            blocks => Some(u32::try_from(blocks).unwrap_or(u32::MAX)),
        };
        Self {
            block_tokens,
            limit_blocks,
            free: limit_blocks.map_or(u64::MAX, u64::from),
            evictable: 0,
            entries: Entries::default(),
            groups: HashMap::new(),
            sessions: HashMap::new(),
            leftovers: 0,
        }
    }

    /// Forgets everything; what leases there were is void.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.capacity_tokens(), self.block_tokens);
    }

    /// 0: without a limit.
    pub(super) fn capacity_tokens(&self) -> u64 {
        self.limit_blocks.map_or(0, |blocks| u64::from(blocks) * u64::from(self.block_tokens))
    }

    /// Held by running requests.
    pub(super) fn used_tokens(&self) -> u64 {
        let limit = self.limit_blocks.map_or(u64::MAX, u64::from);
        (limit - self.free - self.evictable) * u64::from(self.block_tokens)
    }

    /// Blocks that a sequence of so many tokens holds.
    fn blocks(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_tokens).min(self.limit_blocks.unwrap_or(u32::MAX))
    }

    /// Blocks that running requests can still be given.
    pub(super) fn available(&self) -> u64 {
        self.free + self.evictable
    }

    /// Tokens of the beginning of a sequence that need not be computed: never the last one, since the next token comes
    /// out of its computation.
    pub(super) fn cached_tokens(&self, sequence: &Sequence) -> u32 {
        self.spared(self.find(sequence).shared, sequence)
    }

    /// Gives a sequence room for `tokens`, no fewer than it has now, and says how many of these need not be computed;
    /// nothing when there is no room.
    pub(super) fn admit(
        &mut self,
        sequence: &Sequence,
        tokens: u32,
        leftover: Option<Leftover>,
    ) -> Option<(Lease, u32)> {
        let found = self.find(sequence);
        let private = self.blocks(tokens).saturating_sub(found.shared);
        let kept = self.idle(found.group) + self.idle(found.session);
        if u64::from(private) > self.available() - kept && !self.cut_to_room(&found, private) {
            return None;
        }
        let group = self.pin(found.group, Owner::Group(sequence.prompt.group), 0);
        let session = self.pin(found.session, Owner::Session(sequence.prompt.session), found.runs.group);
        let own = leftover.filter(|_| found.is_whole).map_or(0, |leftover| self.take_back(leftover));
        self.take(private);
        let room = self.room(found.shared + private);
        let lease = Lease { group, session, shared: found.shared, private, room };
        Some((lease, self.spared(found.shared + own, sequence)))
    }

    /// Blocks that a sequence lacks to have room for so many tokens.
    pub(super) fn lacks(&self, lease: &Lease, tokens: u32) -> u32 {
        if tokens <= lease.room {
            return 0;
        }
        self.blocks(tokens) - lease.room / self.block_tokens
    }

    /// Gives a sequence the room for so many tokens; what it lacks is [`Self::available`].
    pub(super) fn grow(&mut self, lease: &mut Lease, tokens: u32) {
        let more = self.lacks(lease, tokens);
        if more > 0 {
            self.take(more);
            lease.private += more;
            lease.room = self.room(self.blocks(tokens));
        }
    }

    /// The first `tokens` of a sequence are computed: others find what they share with it.
    pub(super) fn computed(&mut self, lease: &mut Lease, sequence: &Sequence, tokens: u32) {
        let runs = sequence.runs(self.block_tokens);
        let full = tokens / self.block_tokens;
        if let Some(group) = lease.group
            && self.share(lease, group, full.min(runs.group)) < runs.group
        {
            return;
        }
        if let Some(session) = lease.session {
            self.share(lease, session, full.min(runs.session).saturating_sub(runs.group));
        }
    }

    /// Takes back what a sequence holds, of which the first `tokens` are computed. What of that is its own stays in the
    /// cache until the room is needed: only the sequence itself can make use of it.
    pub(super) fn release(&mut self, mut lease: Lease, sequence: &Sequence, tokens: u32) -> Option<Leftover> {
        self.computed(&mut lease, sequence, tokens);
        let full = tokens / self.block_tokens;
        let own = full.saturating_sub(lease.shared).min(lease.private);
        self.free += u64::from(lease.private);
        let leftover = (own > 0 && self.limit_blocks.is_some()).then(|| {
            let runs = sequence.runs(self.block_tokens);
            let start = if lease.session.is_some() { runs.session } else { runs.group };
            self.leave(start, own, full.saturating_sub(start))
        });
        for entry in [lease.session, lease.group].into_iter().flatten() {
            self.unpin(entry);
        }
        leftover
    }

    /// Tokens that so many blocks have room for: any number, when these are all there are.
    fn room(&self, blocks: u32) -> u32 {
        match self.limit_blocks {
            Some(limit) if blocks >= limit => u32::MAX,
            _ => blocks.saturating_mul(self.block_tokens),
        }
    }

    /// Gives up what a sequence does not need of the runs that it begins with, when it lacks just that to have room.
    fn cut_to_room(&mut self, found: &Found, private: u32) -> bool {
        let group = self.cached(found.group).min(found.runs.group);
        let needed = [(found.session, found.shared - group), (found.group, group)];
        let kept: u64 = needed.iter().map(|&(place, blocks)| self.idle(place).min(blocks.into())).sum();
        if u64::from(private) > self.available() - kept {
            return false;
        }
        for (place, blocks) in needed {
            if let Place::At(id) = place
                && self.entries.get(id).pins == 0
            {
                let entry = self.entries.get_mut(id);
                let cut = u64::from(entry.blocks - blocks);
                entry.blocks = blocks;
                self.free += cut;
                self.evictable -= cut;
                // It stays as a place for what is about to be computed.
                if blocks == 0 && cut > 0 {
                    self.entries.unlink(id);
                }
            }
        }
        true
    }

    fn spared(&self, blocks: u32, sequence: &Sequence) -> u32 {
        let computed = (sequence.tokens() - 1) / self.block_tokens;
        blocks.min(computed) * self.block_tokens
    }

    fn pin(&mut self, place: Place, owner: Owner, start: u32) -> Option<EntryId> {
        let id = match place {
            Place::Nowhere => return None,
            Place::At(id) => id,
            Place::New => {
                let id = self.entries.insert(owner, start, 0);
                match owner {
                    Owner::Group(number) => self.groups.insert(number, id),
                    Owner::Session(number) => self.sessions.insert(number, id),
                    Owner::Request(_) => None,
                };
                id
            }
        };
        let entry = self.entries.get_mut(id);
        entry.pins += 1;
        if entry.pins == 1 && entry.blocks > 0 {
            self.evictable -= u64::from(entry.blocks);
            self.entries.unlink(id);
        }
        Some(id)
    }

    fn unpin(&mut self, id: EntryId) {
        let entry = self.entries.get_mut(id);
        entry.pins -= 1;
        if entry.pins > 0 {
            return;
        }
        if entry.blocks == 0 {
            self.remove(id);
        } else {
            self.evictable += u64::from(entry.blocks);
            self.entries.link(id);
        }
    }

    /// Moves a sequence's own blocks to a run that is to have so many, as far as the run lacks them; how many it has.
    fn share(&mut self, lease: &mut Lease, run: EntryId, blocks: u32) -> u32 {
        let entry = self.entries.get_mut(run);
        let moved = blocks.saturating_sub(entry.blocks).min(lease.private);
        entry.blocks += moved;
        lease.private -= moved;
        lease.shared += moved;
        entry.blocks
    }

    /// Leaves `blocks` of one request in the cache, the last `own` of which follow all that it shares.
    fn leave(&mut self, start: u32, blocks: u32, own: u32) -> Leftover {
        self.leftovers += 1;
        let number = self.leftovers;
        let entry = self.entries.insert(Owner::Request(number), start, blocks);
        self.entries.link(entry);
        self.free -= u64::from(blocks);
        self.evictable += u64::from(blocks);
        Leftover { entry, number, ahead: blocks.saturating_sub(own) }
    }

    /// Frees what is still there of a request that goes on, so that it can be given to it: how many blocks of that
    /// follow what it shares.
    fn take_back(&mut self, leftover: Leftover) -> u32 {
        let owner = Owner::Request(leftover.number);
        if self.entries.find(leftover.entry).is_none_or(|entry| entry.owner != owner) {
            return 0;
        }
        self.entries.unlink(leftover.entry);
        let blocks = self.entries.remove(leftover.entry).blocks;
        self.evictable -= u64::from(blocks);
        self.free += u64::from(blocks);
        blocks.saturating_sub(leftover.ahead)
    }

    /// Takes blocks of those that are available.
    fn take(&mut self, blocks: u32) {
        let blocks = u64::from(blocks);
        while self.free < blocks {
            let Some(oldest) = self.entries.oldest() else { break };
            let entry = self.entries.get_mut(oldest);
            let given_up = u64::from(entry.blocks).min(blocks - self.free);
            entry.blocks -= given_up as u32;
            self.free += given_up;
            self.evictable -= given_up;
            if entry.blocks == 0 {
                self.entries.unlink(oldest);
                self.remove(oldest);
            }
        }
        self.free -= blocks;
    }

    fn remove(&mut self, id: EntryId) {
        match self.entries.remove(id).owner {
            Owner::Group(number) => self.groups.remove(&number),
            Owner::Session(number) => self.sessions.remove(&number),
            Owner::Request(_) => None,
        };
    }
}

#[cfg(test)]
mod tests;
