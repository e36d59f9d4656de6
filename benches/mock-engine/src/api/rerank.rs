//! `/v1/rerank`: scores drawn from a hash of query and document, best first.

use serde::Deserialize;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

#[derive(Deserialize)]
struct Body {
    query: Value,
    documents: Vec<Value>,
    top_n: Option<usize>,
}

/// The answer's body, or what is wrong with the request.
pub(crate) fn answer(body: &[u8], model: &str, ordinal: u64, input_tokens: u64) -> Result<Value, String> {
    let body: Body = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let query = xxh3_64_with_seed(body.query.to_string().as_bytes(), 0);
    let mut scored: Vec<(usize, f64)> =
        body.documents.iter().enumerate().map(|(index, document)| (index, score(query, document))).collect();
    scored.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    scored.truncate(body.top_n.unwrap_or(usize::MAX));
    let results: Vec<Value> = scored
        .into_iter()
        .map(|(index, relevance_score)| {
            let text = body.documents[index].get("text").unwrap_or(&body.documents[index]);
            json!({"index": index, "document": {"text": text}, "relevance_score": relevance_score})
        })
        .collect();
    Ok(json!({
        "id": format!("rerank-{ordinal}"),
        "model": model,
        "results": results,
        "usage": {
            "prompt_tokens": input_tokens,
            "total_tokens": input_tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }))
}

fn score(query: u64, document: &Value) -> f64 {
    fastrand::Rng::with_seed(xxh3_64_with_seed(document.to_string().as_bytes(), query)).f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_first_and_the_same_every_time() {
        let body = br#"{"query":"q","documents":["a",{"text":"b"},"c"],"top_n":2}"#;
        let first = answer(body, "m", 0, 1).unwrap();
        assert_eq!(first, answer(body, "m", 0, 1).unwrap());
        let results = first["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        assert!(results[0]["relevance_score"].as_f64() >= results[1]["relevance_score"].as_f64());
        assert!(answer(br#"{"query":"q"}"#, "m", 0, 1).is_err());
    }
}
