//! The requests that are sent, rendered once: a JSON body of a given size, in as many variants as there are affinity keys.

use std::{fmt::Write, net::SocketAddr, rc::Rc};

use stargate_wire::http::url::Url;

use super::{
    body::{MessageOptions, body},
    conversation::Conversations,
};

/// Where a URL without a path goes.
const DEFAULT_PATH: &str = "/v1/chat/completions";

/// Where to send what.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// One message for each affinity key; not empty.
    messages: Vec<Rc<Vec<u8>>>,
    order: Order,
}

/// Which message comes when.
#[derive(Clone, Debug)]
enum Order {
    InTurn,
    /// As if drawn at random, the same at every run.
    Shuffled,
    /// The messages are the turns of conversations.
    Conversations(Conversations),
}

// === impl Target ===

impl Target {
    /// Renders the messages for `url`.
    pub(crate) fn new(url: &Url, options: &MessageOptions) -> Self {
        let head = head(url, options);
        let messages = (0..options.affinity_keys.max(1))
            .map(|key| {
                let mut message = head.clone();
                // What differs comes first: prompts that share nothing share no prefix.
                let opening = if options.affinity_keys > 0 {
                    let _ = write!(message, "x-cache-affinity-key: key-{key}\r\n");
                    format!("[key {key:06}] ")
                } else {
                    String::new()
                };
                let body = body(options, &opening);
                let _ = write!(message, "content-length: {}\r\n\r\n{body}", body.len());
                Rc::new(message.into_bytes())
            })
            .collect();
        let order = if options.shuffled { Order::Shuffled } else { Order::InTurn };
        Self { address: url.address, messages, order }
    }

    /// Renders the turns of `conversations` for `url`; `options.body_bytes` is their mean size, and there are no other keys.
    pub(crate) fn of_conversations(
        url: &Url,
        options: &MessageOptions,
        conversations: Conversations,
    ) -> Self {
        let head = head(url, options);
        let messages = Conversations::bodies(options)
            .map(|body| Rc::new(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()))
            .collect();
        Self { address: url.address, messages, order: Order::Conversations(conversations) }
    }

    /// The message of the request with this number.
    pub(crate) fn message(&self, number: u64) -> Rc<Vec<u8>> {
        let at = |turn: u64| &self.messages[(turn % self.messages.len() as u64) as usize];
        match &self.order {
            Order::InTurn => at(number).clone(),
            Order::Shuffled => at(fastrand::Rng::with_seed(number).u64(..)).clone(),
            Order::Conversations(conversations) => {
                let place = conversations.place(number);
                let mut message = at(place.turn).to_vec();
                Conversations::name(&mut message, place.conversation);
                Rc::new(message)
            }
        }
    }
}

fn head(url: &Url, options: &MessageOptions) -> String {
    let path = if url.path.is_empty() { DEFAULT_PATH } else { &url.path };
    let mut head =
        format!("POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n", url.authority);
    // Writing to a string cannot fail.
    if let Some(rate) = options.chunks_per_s {
        let _ = write!(head, "x-mock-decode-tps: {rate}\r\n");
    }
    for header in &options.headers {
        let _ = write!(head, "{header}\r\n");
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> MessageOptions {
        MessageOptions {
            model: "m".to_owned(),
            stream: true,
            body_bytes: 1024,
            max_tokens: 3,
            affinity_keys: 2,
            shuffled: false,
            chunks_per_s: Some(50.0),
            headers: vec!["x-a: b".to_owned()],
        }
    }

    #[test]
    fn bodies_have_the_size_asked_for_and_keys_alternate() {
        let target = Target::new(&"http://127.0.0.1:1".parse().unwrap(), &options());
        let text = |number| String::from_utf8(target.message(number).to_vec()).unwrap();
        let first = text(0);
        assert!(first.starts_with("POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:1\r\n"), "{first}");
        assert!(first.contains("\r\nx-mock-decode-tps: 50\r\nx-a: b\r\n"), "{first}");
        assert!(first.contains("x-cache-affinity-key: key-0\r\ncontent-length: 1024\r\n\r\n{"), "{first}");
        assert!(text(1).contains("key-1") && text(2).contains("key-0"));
        assert!(text(0).contains("[key 000000] What") && text(1).contains("[key 000001] What"));
        let body = first.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(body.len(), 1024);
        let value: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((value["stream"].as_bool(), value["max_tokens"].as_u64()), (Some(true), Some(3)));
    }

    #[test]
    fn shuffled_keys_come_at_random_but_alike_at_every_run() {
        let options = MessageOptions { affinity_keys: 4, shuffled: true, ..options() };
        let url: Url = "http://127.0.0.1:1".parse().unwrap();
        let (one, other) = (Target::new(&url, &options), Target::new(&url, &options));
        let mut counts = [0; 4];
        for number in 0..4000 {
            let message = one.message(number);
            assert_eq!(message, other.message(number));
            counts[one.messages.iter().position(|known| *known == message).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
