//! Conversations: each request repeats what was said before and adds to it, and those that have ended are followed by new ones.
//!
//! What a router that follows prompts has to do depends on that: equal prompts would all be found, and random ones never.
//! Bodies are rendered once for each turn; a message is a copy with its conversation's number written in.

use serde_json::{Value, json};

use super::body::{MessageOptions, chat, filling};

/// Requests of one conversation.
const TURNS: u64 = 4;

/// What a turn adds, as a fraction of the mean body.
const GROWTH: f64 = 0.125;

/// How each conversation begins. It has no characters that JSON escapes.
const OPENING: &str = "Conversation 0000000000: ";

/// Where the number stands in the opening, and its digits.
const NUMBER_OFFSET: usize = 13;
const NUMBER_DIGITS: usize = 10;

/// Conversations, several at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversations {
    /// They take turns; more than there are connections, or two requests of one are under way together.
    pub(crate) at_once: u64,
    /// Number of the first: runs with other numbers share nothing.
    pub(crate) first: u64,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) conversation: u64,
    pub(super) turn: u64,
}

// === impl Conversations ===

impl Conversations {
    /// The conversation and the turn of a run's request.
    pub(super) fn place(self, number: u64) -> Place {
        let round = number / self.at_once;
        let conversation = self.first + round / TURNS * self.at_once + number % self.at_once;
        Place { conversation, turn: round % TURNS }
    }

    /// The bodies of all turns; their mean is `options.body_bytes`, as far as their fields leave room.
    pub(super) fn bodies(options: &MessageOptions) -> impl Iterator<Item = String> {
        let mean = options.body_bytes as f64;
        let mut messages = vec![json!({"role": "user", "content": OPENING})];
        (0..TURNS).map(move |turn| {
            let size = mean * (1.0 + GROWTH * (turn as f64 - (TURNS - 1) as f64 / 2.0));
            if turn > 0 {
                messages.push(json!({"role": "assistant", "content": ""}));
                messages.push(json!({"role": "user", "content": ""}));
            }
            let missing = (size as usize).saturating_sub(chat(options, &json!(messages)).len());
            if turn == 0 {
                messages[0]["content"] = Value::from(format!("{OPENING}{}", filling(missing)));
            } else {
                let last = messages.len() - 1;
                messages[last - 1]["content"] = Value::from(filling(missing / 2));
                messages[last]["content"] = Value::from(filling(missing - missing / 2));
            }
            chat(options, &json!(messages))
        })
    }

    /// Writes a conversation's number into a message.
    pub(super) fn name(message: &mut [u8], conversation: u64) {
        let opening = memchr::memmem::find(message, OPENING.as_bytes());
        debug_assert!(opening.is_some(), "the message of a conversation has its opening");
        let Some(opening) = opening else { return };
        let digits = format!("{conversation:0NUMBER_DIGITS$}");
        message[opening + NUMBER_OFFSET..][..NUMBER_DIGITS]
            .copy_from_slice(&digits.as_bytes()[digits.len() - NUMBER_DIGITS..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::message::Target;

    fn bodies(target: &Target, numbers: impl Iterator<Item = u64>) -> Vec<String> {
        numbers
            .map(|number| {
                let text = String::from_utf8(target.message(number).to_vec()).unwrap();
                let (head, body) = text.split_once("\r\n\r\n").unwrap();
                assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
                body.to_owned()
            })
            .collect()
    }

    #[test]
    fn each_request_repeats_the_last_and_adds_to_it() {
        let options = MessageOptions {
            model: "m".to_owned(),
            stream: false,
            body_bytes: 1024,
            max_tokens: 3,
            affinity_keys: 0,
            shuffled: false,
            chunks_per_s: None,
            headers: Vec::new(),
        };
        let url = "http://127.0.0.1:1".parse().unwrap();
        let target = Target::of_conversations(&url, &options, Conversations { at_once: 3, first: 70 });
        // The first of three conversations, then the first of the next three.
        let bodies = bodies(&target, (0..8).map(|round| round * 3));
        let sizes: Vec<usize> = bodies.iter().map(String::len).collect();
        assert_eq!(sizes, [832, 960, 1088, 1216, 832, 960, 1088, 1216]);
        let messages = |body: &String| {
            let body: Value = serde_json::from_str(body).unwrap();
            body["messages"].as_array().unwrap().clone()
        };
        for turn in 1..4 {
            let (before, after) = (messages(&bodies[turn - 1]), messages(&bodies[turn]));
            assert_eq!(after.len(), 2 * turn + 1);
            assert_eq!(after[..before.len()], before);
        }
        assert!(bodies[3].contains("Conversation 0000000070: What does"), "{}", bodies[3]);
        assert!(bodies[4].contains("Conversation 0000000073: What does"), "{}", bodies[4]);
    }

    #[test]
    fn conversations_take_turns() {
        let conversations = Conversations { at_once: 2, first: 10 };
        let places: Vec<(u64, u64)> = (0..10)
            .map(|number| conversations.place(number))
            .map(|place| (place.conversation, place.turn))
            .collect();
        let expected =
            [(10, 0), (11, 0), (10, 1), (11, 1), (10, 2), (11, 2), (10, 3), (11, 3), (12, 0), (13, 0)];
        assert_eq!(places, expected);
    }
}
