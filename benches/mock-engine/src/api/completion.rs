//! `/v1/completions`: `text_completion`, the same object in whole and in pieces.

use super::{Facts, Words, append, append_usage, finish_reason};

pub(super) fn whole(facts: &Facts, words: Words, out: &mut Vec<u8>) {
    append_start(facts, out);
    out.extend_from_slice(b"[{\"index\":0,\"text\":\"");
    words.append(facts.output_tokens, out);
    append!(out, "\",\"logprobs\":null,\"finish_reason\":\"{}\"}}],\"usage\":", finish_reason(facts));
    append_usage(facts, out);
    out.push(b'}');
}

pub(super) fn token(facts: &Facts, word: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    append_start(facts, out);
    append!(out, "[{{\"index\":0,\"text\":\"{word}\",\"logprobs\":null,\"finish_reason\":null}}]}}\n\n");
}

pub(super) fn closing(facts: &Facts, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    append_start(facts, out);
    append!(
        out,
        "[{{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"{}\"}}]",
        finish_reason(facts)
    );
    if facts.include_usage {
        out.extend_from_slice(b"}\n\ndata: ");
        append_start(facts, out);
        out.extend_from_slice(b"[]");
    }
    out.extend_from_slice(b",\"usage\":");
    append_usage(facts, out);
    out.extend_from_slice(b"}\n\n");
}

fn append_start(facts: &Facts, out: &mut Vec<u8>) {
    append!(
        out,
        "{{\"id\":\"cmpl-{}\",\"object\":\"text_completion\",\"created\":{},\"model\":{},\"choices\":",
        facts.ordinal,
        facts.created,
        facts.model
    );
}
