//! Which engine a backend is, as far as the control plane treats them differently.

use serde::{Deserialize, Serialize};

use crate::health_path::HealthPath;

/// An inference engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// vLLM.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// llama.cpp's server.
    Llamacpp,
    /// TensorRT-LLM's server.
    #[serde(rename = "tensorrt-llm")]
    TensorRtLlm,
    /// Anything else with `OpenAI`'s API.
    Openai,
}

// === impl Engine ===

impl Engine {
    /// Where its health is asked, if that is not the configured default: only `/v1/models` is sure to be
    /// answered by everything with `OpenAI`'s API.
    pub fn health_path(self) -> Option<HealthPath> {
        match self {
            Self::Openai => HealthPath::new("/v1/models"),
            Self::Vllm | Self::Sglang | Self::Llamacpp | Self::TensorRtLlm => None,
        }
    }
}
