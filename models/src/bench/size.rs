//! Three sizes, so that a small laptop and a server's GPU both do work that means something, and models of that shape.

use std::{fmt, str::FromStr};

use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::{
    Error, Result,
    arch::{Initial, WeightRequest, Weights, config::DecoderConfig, initial::InitialWeights},
    tasks::language::request::Preset,
};

/// How large the models are.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Some millions of parameters: seconds on any processor.
    #[default]
    Small,
    /// A model of 135 million parameters.
    Medium,
    /// A model of 1.5 billion parameters.
    Large,
}

impl Size {
    /// All, from small to large.
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// As in a report and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }

    /// Whose shape the model has that is fine-tuned and talked to.
    pub(super) fn shape_name(self) -> &'static str {
        match self {
            Self::Small => "a shape of 4 M parameters",
            Self::Medium => "shape of SmolLM2-135M",
            Self::Large => "shape of Qwen2.5-1.5B",
        }
    }

    /// The model that is fine-tuned and talked to.
    pub(super) fn config(self) -> Result<DecoderConfig> {
        DecoderConfig::from_json(&match self {
            Self::Small => llama(4096, 256, 4, 4, 4, 688),
            Self::Medium => llama(49_152, 576, 30, 9, 3, 1536),
            Self::Large => json!({
                "model_type": "qwen2", "vocab_size": 151_936, "hidden_size": 1536, "intermediate_size": 8960,
                "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
                "max_position_embeddings": 32_768, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
                "tie_word_embeddings": true,
            }),
        })
    }

    /// The preset of which a new model is trained.
    pub(super) fn preset(self) -> Preset {
        match self {
            Self::Small => Preset::Nano,
            Self::Medium => Preset::Micro,
            Self::Large => Preset::Small,
        }
    }

    /// Tokens in a row that is learned from.
    pub(super) fn row_length(self) -> usize {
        match self {
            Self::Small => 128,
            Self::Medium => 256,
            Self::Large => 512,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Size {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|size| size.name() == text);
        found.ok_or_else(|| {
            let problem = format!("is `{text}`; it can be small, medium or large");
            Error::setting("size", problem)
        })
    }
}

fn llama(
    vocabulary: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    key_value_heads: usize,
    intermediate: usize,
) -> Json {
    json!({
        "model_type": "llama", "vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": intermediate,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": key_value_heads,
        "max_position_embeddings": 8192, "rope_theta": 1e5, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
    })
}

/// So many numbers are drawn for all weights of a deviation.
const DRAWN: usize = 1 << 18;

/// Weights of the right size, from few numbers that are repeated: a billion would take longer to draw than to measure.
pub(super) struct RepeatedWeights {
    pub(super) dtype: DType,
    pub(super) device: Device,
}

impl Weights for RepeatedWeights {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let count: usize = request.shape.iter().product();
        let draws = matches!(request.initial, Initial::Normal(_)) && count > DRAWN;
        let mut initial = InitialWeights {
            seed: 1,
            dtype: self.dtype,
            device: self.device.clone(),
        };
        if !draws {
            return initial.tensor(request);
        }
        let drawn = initial.tensor(&WeightRequest {
            shape: &[DRAWN],
            ..*request
        })?;
        let repeated = drawn
            .unsqueeze(0)?
            .broadcast_as((count.div_ceil(DRAWN), DRAWN))?;
        let flat = repeated.contiguous()?.flatten_all()?;
        // A part of its own: what it was cut from would be kept with it.
        Ok(flat
            .narrow(0, 0, count)?
            .force_contiguous()?
            .reshape(request.shape)?)
    }
}
