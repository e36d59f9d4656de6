//! The tokens of one request, as the cache sees them: how many there are, and up to where they are shared with its
//! group and its session. Only whole blocks are shared; one across a border belongs to what follows the border.

use super::super::super::model::Prompt;

/// What a request's KV memory is for: its prompt and the tokens generated so far.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sequence {
    pub(in super::super) prompt: Prompt,
    pub(in super::super) generated: u32,
}

/// Where a sequence's shared runs of blocks end, counted in blocks.
pub(super) struct Runs {
    pub(super) group: u32,
    pub(super) session: u32,
}

// === impl Sequence ===

impl Sequence {
    /// At least 1.
    pub(in super::super) fn tokens(&self) -> u32 {
        (self.prompt.tokens() + self.generated).max(1)
    }

    pub(super) fn runs(&self, block_tokens: u32) -> Runs {
        let prompt = &self.prompt;
        let answer = if prompt.is_continued { self.generated } else { 0 };
        Runs {
            group: prompt.group_tokens / block_tokens,
            session: (prompt.group_tokens + prompt.session_tokens + answer) / block_tokens,
        }
    }
}
