//! `/v1/chat/completions`: `chat.completion` and `chat.completion.chunk`.

use super::{Facts, Words, append, append_usage, finish_reason};

pub(super) fn whole(facts: &Facts, words: Words, out: &mut Vec<u8>) {
    append!(
        out,
        "{{\"id\":\"chatcmpl-{}\",\"object\":\"chat.completion\",\"created\":{},\"model\":{},\"choices\":[{{\"index\":0,\
         \"message\":{{\"role\":\"assistant\",\"content\":\"",
        facts.ordinal,
        facts.created,
        facts.model
    );
    words.append(facts.output_tokens, out);
    append!(out, "\"}},\"finish_reason\":\"{}\"}}],\"usage\":", finish_reason(facts));
    append_usage(facts, out);
    out.push(b'}');
}

pub(super) fn token(facts: &Facts, index: u64, word: &str, out: &mut Vec<u8>) {
    append_chunk_start(facts, out);
    let role = if index == 0 { "\"role\":\"assistant\"," } else { "" };
    append!(out, "[{{\"index\":0,\"delta\":{{{role}\"content\":\"{word}\"}},\"finish_reason\":null}}]}}\n\n");
}

pub(super) fn closing(facts: &Facts, out: &mut Vec<u8>) {
    append_chunk_start(facts, out);
    append!(out, "[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{}\"}}]", finish_reason(facts));
    if facts.include_usage {
        out.extend_from_slice(b"}\n\n");
        append_chunk_start(facts, out);
        out.extend_from_slice(b"[]");
    }
    out.extend_from_slice(b",\"usage\":");
    append_usage(facts, out);
    out.extend_from_slice(b"}\n\n");
}

fn append_chunk_start(facts: &Facts, out: &mut Vec<u8>) {
    append!(
        out,
        "data: {{\"id\":\"chatcmpl-{}\",\"object\":\"chat.completion.chunk\",\"created\":{},\"model\":{},\"choices\":",
        facts.ordinal,
        facts.created,
        facts.model
    );
}
