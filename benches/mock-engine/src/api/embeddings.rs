//! `/v1/embeddings`: unit vectors drawn from a hash of each input, so that equal inputs have equal vectors.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

/// Dimensions of a vector when the request does not say.
const DEFAULT_DIMENSIONS: usize = 16;

/// Dimensions that a request may ask for.
const MAX_DIMENSIONS: usize = 8192;

#[derive(Deserialize)]
struct Body {
    input: Value,
    dimensions: Option<usize>,
    encoding_format: Option<String>,
}

/// The answer's body, or what is wrong with the request.
pub(crate) fn answer(body: &[u8], model: &str, input_tokens: u64) -> Result<Value, String> {
    let body: Body = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let dimensions = body.dimensions.unwrap_or(DEFAULT_DIMENSIONS);
    if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        return Err(format!("dimensions: {dimensions} is not within 1..={MAX_DIMENSIONS}"));
    }
    let as_base64 = match body.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => return Err(format!("encoding_format: {other} is neither float nor base64")),
    };
    let single = [body.input];
    let inputs = match &single[0] {
        // A list of token ids is one input.
        Value::Array(list) if !list.iter().all(Value::is_number) => list.as_slice(),
        Value::Null => return Err("input: missing".to_owned()),
        _ => &single[..],
    };
    let data: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(index, input)| {
            let vector = embed(&input.to_string(), dimensions);
            let embedding = if as_base64 {
                let bytes: Vec<u8> = vector.iter().flat_map(|component| component.to_le_bytes()).collect();
                json!(STANDARD.encode(bytes))
            } else {
                json!(vector)
            };
            json!({"object": "embedding", "index": index, "embedding": embedding})
        })
        .collect();
    Ok(json!({
        "object": "list",
        "data": data,
        "model": model,
        "usage": {
            "prompt_tokens": input_tokens,
            "total_tokens": input_tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }))
}

fn embed(input: &str, dimensions: usize) -> Vec<f32> {
    let mut rng = fastrand::Rng::with_seed(xxh3_64(input.as_bytes()));
    let vector: Vec<f32> = (0..dimensions).map(|_| rng.f32() * 2.0 - 1.0).collect();
    let norm =
        vector.iter().map(|component| component * component).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    vector.into_iter().map(|component| component / norm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_inputs_have_equal_vectors_in_either_encoding() {
        let floats = answer(br#"{"input":["a","b","a"],"dimensions":4}"#, "m", 3).unwrap();
        assert_eq!(floats["data"][0]["embedding"], floats["data"][2]["embedding"]);
        assert_ne!(floats["data"][0]["embedding"], floats["data"][1]["embedding"]);
        let encoded = answer(br#"{"input":"a","dimensions":4,"encoding_format":"base64"}"#, "m", 1).unwrap();
        let bytes = STANDARD.decode(encoded["data"][0]["embedding"].as_str().unwrap()).unwrap();
        let decoded: Vec<f32> =
            bytes.chunks(4).map(|part| f32::from_le_bytes(part.try_into().unwrap())).collect();
        assert_eq!(json!(decoded), floats["data"][0]["embedding"]);
        let norm: f32 = decoded.iter().map(|component| component * component).sum();
        assert!((norm - 1.0).abs() < 1e-5);
    }

    #[test]
    fn token_ids_are_one_input_and_faults_are_named() {
        assert_eq!(answer(br#"{"input":[1,2,3]}"#, "m", 3).unwrap()["data"].as_array().unwrap().len(), 1);
        assert!(answer(br#"{"input":"a","dimensions":0}"#, "m", 1).unwrap_err().contains("dimensions"));
        assert!(answer(b"{}", "m", 1).unwrap_err().contains("input"));
    }
}
