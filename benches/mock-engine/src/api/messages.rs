//! `/v1/messages`: Anthropic's message object and its named events, in minimal valid form.

use super::{Facts, Words, append};

pub(super) fn whole(facts: &Facts, words: Words, out: &mut Vec<u8>) {
    append_start(facts, out);
    out.extend_from_slice(b"[{\"type\":\"text\",\"text\":\"");
    words.append(facts.output_tokens, out);
    append!(out, "\"}}],\"stop_reason\":\"{}\",\"stop_sequence\":null,\"usage\":", stop_reason(facts));
    append_usage(facts, facts.output_tokens, out);
    out.push(b'}');
}

pub(super) fn opening(facts: &Facts, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    append_start(facts, out);
    out.extend_from_slice(b"[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
    append_usage(facts, 1, out);
    out.extend_from_slice(
        b"}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\
          \"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    );
}

pub(super) fn token(word: &str, out: &mut Vec<u8>) {
    append!(
        out,
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
         \"delta\":{{\"type\":\"text_delta\",\"text\":\"{word}\"}}}}\n\n"
    );
}

pub(super) fn closing(facts: &Facts, out: &mut Vec<u8>) {
    append!(
        out,
        "event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n\
         event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{}\",\
         \"stop_sequence\":null}},\"usage\":{{\"output_tokens\":{}}}}}\n\n\
         event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n",
        stop_reason(facts),
        facts.output_tokens
    );
}

fn append_start(facts: &Facts, out: &mut Vec<u8>) {
    append!(
        out,
        "{{\"id\":\"msg_{}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":{},\"content\":",
        facts.ordinal,
        facts.model
    );
}

/// Anthropic counts cached input tokens apart from the others.
fn append_usage(facts: &Facts, output_tokens: u64, out: &mut Vec<u8>) {
    append!(
        out,
        "{{\"input_tokens\":{},\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":{},\"output_tokens\":{}}}",
        facts.input_tokens - facts.cached_tokens,
        facts.cached_tokens,
        output_tokens
    );
}

fn stop_reason(facts: &Facts) -> &'static str {
    if facts.truncated { "max_tokens" } else { "end_turn" }
}
