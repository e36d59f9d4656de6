//! The words of an answer: one a token, the same for the same seed and order of requests.

/// Short everyday words, each with its leading space, as tokenizers have them.
const WORDS: [&str; 32] = [
    " the", " star", " gate", " opens", " and", " light", " falls", " on", " a", " quiet", " world",
    " where", " every", " token", " finds", " its", " way", " through", " cold", " space", " to", " an",
    " engine", " that", " waits", " for", " work", " while", " others", " rest", " or", " dream",
];

/// The words of one answer, in order.
pub(crate) struct Words {
    rng: fastrand::Rng,
}

impl Words {
    /// The answer to the request with this seed.
    pub(crate) fn new(rng: fastrand::Rng) -> Self {
        Self { rng }
    }

    /// The next token's text; never needs escaping in JSON.
    pub(crate) fn next_word(&mut self) -> &'static str {
        WORDS[(self.rng.u32(..) >> 27) as usize]
    }

    /// Appends the text of `tokens` tokens.
    pub(crate) fn append(mut self, tokens: u64, out: &mut Vec<u8>) {
        for _ in 0..tokens {
            out.extend_from_slice(self.next_word().as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_and_whole_answers_are_the_same_text() {
        let mut whole = Vec::new();
        Words::new(fastrand::Rng::with_seed(3)).append(40, &mut whole);
        let mut streamed = Words::new(fastrand::Rng::with_seed(3));
        let words: String = (0..40).map(|_| streamed.next_word()).collect();
        assert_eq!(whole, words.as_bytes());
        assert!(!words.contains(['"', '\\', '\n']));
    }
}
