//! `/v1/responses`: the response object and its numbered events, in minimal valid form.

use super::{Facts, Words, append};

/// Events before the first token: created, in progress, item added, part added.
const OPENING_EVENTS: u64 = 4;

pub(super) fn whole(facts: &Facts, words: Words, out: &mut Vec<u8>) {
    append_response(facts, Some(words), out);
}

pub(super) fn opening(facts: &Facts, out: &mut Vec<u8>) {
    for (number, name) in ["response.created", "response.in_progress"].into_iter().enumerate() {
        append!(out, "event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{number},\"response\":");
        append_response(facts, None, out);
        out.extend_from_slice(b"}\n\n");
    }
    append!(
        out,
        "event: response.output_item.added\ndata: {{\"type\":\"response.output_item.added\",\"sequence_number\":2,\
         \"output_index\":0,\"item\":{{\"id\":\"msg_{id}\",\"type\":\"message\",\"status\":\"in_progress\",\
         \"role\":\"assistant\",\"content\":[]}}}}\n\n\
         event: response.content_part.added\ndata: {{\"type\":\"response.content_part.added\",\"sequence_number\":3,\
         \"item_id\":\"msg_{id}\",\"output_index\":0,\"content_index\":0,\
         \"part\":{{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[]}}}}\n\n",
        id = facts.ordinal
    );
}

pub(super) fn token(facts: &Facts, index: u64, word: &str, out: &mut Vec<u8>) {
    append!(
        out,
        "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"sequence_number\":{},\
         \"item_id\":\"msg_{}\",\"output_index\":0,\"content_index\":0,\"delta\":\"{word}\",\"logprobs\":[]}}\n\n",
        OPENING_EVENTS + index,
        facts.ordinal
    );
}

pub(super) fn closing(facts: &Facts, words: Words, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    words.append(facts.output_tokens, &mut text);
    let text = String::from_utf8_lossy(&text);
    let (id, number) = (facts.ordinal, OPENING_EVENTS + facts.output_tokens);
    append!(
        out,
        "event: response.output_text.done\ndata: {{\"type\":\"response.output_text.done\",\"sequence_number\":{},\
         \"item_id\":\"msg_{id}\",\"output_index\":0,\"content_index\":0,\"text\":\"{text}\",\"logprobs\":[]}}\n\n\
         event: response.content_part.done\ndata: {{\"type\":\"response.content_part.done\",\"sequence_number\":{},\
         \"item_id\":\"msg_{id}\",\"output_index\":0,\"content_index\":0,\
         \"part\":{{\"type\":\"output_text\",\"text\":\"{text}\",\"annotations\":[]}}}}\n\n\
         event: response.output_item.done\ndata: {{\"type\":\"response.output_item.done\",\"sequence_number\":{},\
         \"output_index\":0,\"item\":",
        number,
        number + 1,
        number + 2
    );
    append_item(facts, &text, out);
    let name = if facts.truncated { "response.incomplete" } else { "response.completed" };
    append!(
        out,
        "}}\n\nevent: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{},\"response\":",
        number + 3
    );
    append_response_with(facts, Some(&text), out);
    out.extend_from_slice(b"}\n\n");
}

fn append_response(facts: &Facts, words: Option<Words>, out: &mut Vec<u8>) {
    let text = words.map(|words| {
        let mut text = Vec::new();
        words.append(facts.output_tokens, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    append_response_with(facts, text.as_deref(), out);
}

/// The response object; without a text it is still in progress.
fn append_response_with(facts: &Facts, text: Option<&str>, out: &mut Vec<u8>) {
    let status = match text {
        None => "in_progress",
        Some(_) if facts.truncated => "incomplete",
        Some(_) => "completed",
    };
    let details = if status == "incomplete" { "{\"reason\":\"max_output_tokens\"}" } else { "null" };
    append!(
        out,
        "{{\"id\":\"resp_{}\",\"object\":\"response\",\"created_at\":{},\"status\":\"{status}\",\"error\":null,\
         \"incomplete_details\":{details},\"instructions\":null,\"metadata\":{{}},\"model\":{},\
         \"parallel_tool_calls\":true,\"temperature\":1.0,\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":1.0,\
         \"output\":[",
        facts.ordinal,
        facts.created,
        facts.model
    );
    if let Some(text) = text {
        append_item(facts, text, out);
    }
    out.extend_from_slice(b"],\"usage\":");
    if text.is_some() {
        append!(
            out,
            "{{\"input_tokens\":{},\"input_tokens_details\":{{\"cached_tokens\":{}}},\"output_tokens\":{},\
             \"output_tokens_details\":{{\"reasoning_tokens\":0}},\"total_tokens\":{}}}",
            facts.input_tokens,
            facts.cached_tokens,
            facts.output_tokens,
            facts.input_tokens + facts.output_tokens
        );
    } else {
        out.extend_from_slice(b"null");
    }
    out.push(b'}');
}

fn append_item(facts: &Facts, text: &str, out: &mut Vec<u8>) {
    append!(
        out,
        "{{\"id\":\"msg_{}\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[\
         {{\"type\":\"output_text\",\"text\":\"{text}\",\"annotations\":[]}}]}}",
        facts.ordinal
    );
}
