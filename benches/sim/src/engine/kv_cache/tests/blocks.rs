//! A cache that keeps every block by itself and frees a sequence's blocks last one first, which the real one is to
//! agree with as long as no two requests compute the same at once and no prompt is a part of a longer one: there the
//! real one differs, as it says.

use proptest::prelude::*;

use super::*;

/// Whose block it is, and which one of the sequence's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Group(u32, u32),
    Session(u32, u32),
    /// Never the same again.
    Own,
}

#[derive(Debug)]
struct Block {
    content: Content,
    users: u32,
    /// When its last user left.
    freed: u64,
}

/// The cache, block by block.
struct Blocks {
    limit: usize,
    block_tokens: u32,
    cached: Vec<Block>,
    /// Blocks of running requests that nobody else can find.
    private: usize,
    time: u64,
}

/// A running request: what it uses of others, and how many blocks it has in all.
struct Holder {
    sequence: Sequence,
    shared: Vec<Content>,
    blocks: usize,
}

impl Blocks {
    fn content(&self, sequence: &Sequence, place: u32) -> Content {
        let runs = sequence.runs(self.block_tokens);
        match place {
            place if place < runs.group => Content::Group(sequence.prompt.group, place),
            place if place < runs.session => Content::Session(sequence.prompt.session, place),
            _ => Content::Own,
        }
    }

    fn find(&self, content: Content) -> Option<usize> {
        self.cached.iter().position(|block| content != Content::Own && block.content == content)
    }

    fn shared(&self, sequence: &Sequence) -> Vec<Content> {
        (0..sequence.tokens())
            .map(|place| self.content(sequence, place))
            .take_while(|&content| self.find(content).is_some())
            .collect()
    }

    fn spared(&self, sequence: &Sequence) -> u32 {
        let whole = (sequence.tokens() - 1) / self.block_tokens;
        whole.min(self.shared(sequence).len() as u32) * self.block_tokens
    }

    fn used(&self) -> usize {
        self.private + self.cached.iter().filter(|block| block.users > 0).count()
    }

    fn admit(&mut self, sequence: &Sequence, tokens: u32) -> Option<Holder> {
        let shared = self.shared(sequence);
        let blocks = tokens.div_ceil(self.block_tokens) as usize;
        let is_idle = |&&content: &&Content| self.find(content).is_some_and(|at| self.cached[at].users == 0);
        if self.used() + shared.iter().filter(is_idle).count() + blocks - shared.len() > self.limit {
            return None;
        }
        for &content in &shared {
            let at = self.find(content)?;
            self.cached[at].users += 1;
        }
        self.private += blocks - shared.len();
        while self.private + self.cached.len() > self.limit {
            let idle = self.cached.iter().enumerate().filter(|(_, block)| block.users == 0);
            let (oldest, _) = idle.min_by_key(|(_, block)| block.freed)?;
            self.cached.remove(oldest);
        }
        Some(Holder { sequence: *sequence, shared, blocks })
    }

    fn computed(&mut self, holder: &mut Holder, tokens: u32) {
        for place in holder.shared.len() as u32..tokens / self.block_tokens {
            let content = self.content(&holder.sequence, place);
            if content == Content::Own {
                return;
            }
            self.private -= 1;
            self.cached.push(Block { content, users: 1, freed: 0 });
            holder.shared.push(content);
        }
    }

    fn release(&mut self, mut holder: Holder, tokens: u32) {
        self.computed(&mut holder, tokens);
        self.private -= holder.blocks - holder.shared.len();
        for _ in holder.shared.len()..(tokens / self.block_tokens) as usize {
            self.time += 1;
            self.cached.push(Block { content: Content::Own, users: 0, freed: self.time });
        }
        for &content in holder.shared.iter().rev() {
            self.time += 1;
            let at = self.find(content).unwrap();
            self.cached[at].users -= 1;
            self.cached[at].freed = self.time;
        }
    }
}

/// What is done next; what does not apply is left out.
#[derive(Clone, Debug)]
enum Act {
    /// A request of one of the sessions, which may go on from where it was.
    Admit {
        session: u32,
        more_tokens: u32,
        output_tokens: u32,
    },
    /// One of the running requests has computed such a part of all, in percent.
    Compute {
        which: prop::sample::Index,
        part: u32,
    },
    Release {
        which: prop::sample::Index,
        part: u32,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (0_u32..9, 0_u32..30, 1_u32..30).prop_map(|(session, more_tokens, output_tokens)| Act::Admit {
            session,
            more_tokens,
            output_tokens
        }),
        (index(), 0_u32..=100).prop_map(|(which, part)| Act::Compute { which, part }),
        (index(), prop_oneof![2 => Just(100), 1 => 0_u32..=100])
            .prop_map(|(which, part)| Act::Release { which, part }),
    ]
}

/// Three groups of three sessions each; the first one of each goes on with every request, the others' prompts have a
/// part of their own.
struct Sessions {
    group_tokens: [u32; 3],
    session_tokens: [u32; 9],
}

impl Sessions {
    fn sequence(&self, session: u32, more_tokens: u32) -> Sequence {
        let group = session / 3;
        let is_continued = session.is_multiple_of(3);
        let (more, own_tokens) = if is_continued { (more_tokens, 0) } else { (0, more_tokens) };
        let prompt = Prompt {
            group,
            session,
            group_tokens: self.group_tokens[group as usize],
            session_tokens: self.session_tokens[session as usize] + more,
            own_tokens,
            is_continued,
        };
        Sequence { prompt, generated: 0 }
    }
}

struct Running {
    lease: Lease,
    holder: Holder,
    all_tokens: u32,
    computed: u32,
}

proptest! {
    #[test]
    fn runs_of_blocks_are_as_good_as_blocks(
        limit in 4_usize..40,
        block_tokens in 1_u32..9,
        group_tokens in prop::array::uniform3(0_u32..30),
        session_tokens in prop::array::uniform9(1_u32..40),
        acts in prop::collection::vec(act(), 1..120),
    ) {
        let mut cache = KvCache::new(limit as u64 * u64::from(block_tokens), block_tokens);
        let mut blocks = Blocks { limit, block_tokens, cached: Vec::new(), private: 0, time: 0 };
        let mut sessions = Sessions { group_tokens, session_tokens };
        let mut all_running: Vec<Running> = Vec::new();
        for act in acts {
            match act {
                Act::Admit { session, more_tokens, output_tokens } => {
                    let sequence = sessions.sequence(session, more_tokens);
                    let all_tokens = sequence.tokens() + output_tokens - 1;
                    let runs = sequence.runs(block_tokens);
                    let is_continued = sequence.prompt.is_continued;
                    let shared = blocks.shared(&sequence).len() as u32;
                    let computes_the_same = all_running.iter().any(|running| {
                        let other = running.holder.sequence.prompt;
                        other.group == session / 3 && shared < runs.group
                            || other.session == session && (shared < runs.session || is_continued)
                    });
                    if computes_the_same || all_tokens.div_ceil(block_tokens) as usize > limit {
                        continue;
                    }
                    let spared = blocks.spared(&sequence);
                    let holder = blocks.admit(&sequence, all_tokens);
                    let admitted = cache.admit(&sequence, all_tokens, None);
                    prop_assert_eq!(admitted.as_ref().map(|&(_, cached)| cached), holder.as_ref().map(|_| spared));
                    if let (Some((lease, computed)), Some(holder)) = (admitted, holder) {
                        all_running.push(Running { lease, holder, all_tokens, computed });
                    }
                }
                Act::Compute { which, part } if !all_running.is_empty() => {
                    let which = which.index(all_running.len());
                    let running = &mut all_running[which];
                    let prompt_tokens = running.holder.sequence.tokens();
                    running.computed = running.computed.max(prompt_tokens * part / 100);
                    blocks.computed(&mut running.holder, running.computed);
                    cache.computed(&mut running.lease, &running.holder.sequence, running.computed);
                }
                Act::Release { which, part } if !all_running.is_empty() => {
                    let mut running = all_running.swap_remove(which.index(all_running.len()));
                    let prompt = running.holder.sequence.prompt;
                    let computed = running.computed.max(running.all_tokens * part / 100);
                    running.holder.sequence.generated = computed.saturating_sub(prompt.tokens());
                    cache.release(running.lease, &running.holder.sequence, computed);
                    blocks.release(running.holder, computed);
                    if prompt.is_continued {
                        let tokens = &mut sessions.session_tokens[prompt.session as usize];
                        *tokens = prompt.session_tokens.max(computed.saturating_sub(prompt.group_tokens));
                    }
                }
                Act::Compute { .. } | Act::Release { .. } => {}
            }
            for session in 0..9 {
                let sequence = sessions.sequence(session, 0);
                prop_assert_eq!(cache.cached_tokens(&sequence), blocks.spared(&sequence), "session {}", session);
            }
            let used = blocks.used();
            prop_assert_eq!(cache.used_tokens(), used as u64 * u64::from(block_tokens));
            prop_assert_eq!(cache.available(), (limit - used) as u64);
        }
    }
}
