//! How long steps take. Steps in which nothing but decoding happens are taken together, up to the next one that
//! differs: each takes as much longer than the one before as the contexts have grown.

use super::super::clock::Picos;

/// What a step's length is made of.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Costs {
    pub(in super::super) step: Picos,
    /// For each token of a prompt.
    pub(in super::super) prefill_token: Picos,
    /// For each request in decode.
    pub(in super::super) decode: Picos,
    /// For each token that requests in decode have so far.
    pub(in super::super) context_token: Picos,
}

/// A step under way, and those after it that are sure to be like it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) starts: Picos,
    pub(super) ends: Picos,
    pub(super) count: u32,
    /// Of each step, apart from its contexts.
    fixed: Picos,
    context_token: Picos,
    /// Requests in decode, and the tokens that they have together when the first step starts.
    decoding: u64,
    context: u64,
}

// === impl Steps ===

impl Steps {
    /// One step; more are added when it is known how many.
    pub(super) fn one(
        starts: Picos,
        costs: &Costs,
        prefill_tokens: u32,
        decoding: u64,
        context: u64,
    ) -> Self {
        let fixed =
            costs.step + costs.prefill_token.times(prefill_tokens.into()) + costs.decode.times(decoding);
        let context_token = costs.context_token;
        Self { starts, ends: starts, count: 1, fixed, context_token, decoding, context }.cut_to(1)
    }

    /// So many steps like these from the same start.
    pub(super) fn cut_to(self, count: u32) -> Self {
        Self { ends: self.end_of(count), count, ..self }
    }

    /// How many of them are over by then.
    pub(super) fn over_by(&self, now: Picos) -> u32 {
        if self.ends <= now {
            return self.count;
        }
        // The first ones are the shortest: with the contexts as they are, no more than these can be over.
        let most = now.saturating_sub(self.starts).0 / self.end_of(1).saturating_sub(self.starts).0.max(1);
        let (mut over, mut not_over) = (0, most.saturating_add(1).min(self.count.into()) as u32);
        while not_over - over > 1 {
            let middle = over.midpoint(not_over);
            if self.end_of(middle) <= now {
                over = middle;
            } else {
                not_over = middle;
            }
        }
        over
    }

    /// What is left after the first `over` of them.
    pub(super) fn after(self, over: u32) -> Self {
        let context = self.context + self.decoding * u64::from(over);
        Self { starts: self.end_of(over), count: self.count - over, context, ..self }
    }

    fn end_of(&self, count: u32) -> Picos {
        let count = u64::from(count);
        let grown = self.decoding.saturating_mul(count.saturating_mul(count.saturating_sub(1)) / 2);
        let context = self.context.saturating_mul(count).saturating_add(grown);
        self.starts + self.fixed.times(count) + self.context_token.times(context)
    }
}
