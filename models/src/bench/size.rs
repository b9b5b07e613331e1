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

    /// Its name, whose shape the model has that is fine-tuned and talked to, the preset of which a new model is trained, and
    /// tokens in a row that is learned from.
    fn row(self) -> (&'static str, &'static str, Preset, usize) {
        match self {
            Self::Small => ("small", "a shape of 4 M parameters", Preset::Nano, 128),
            Self::Medium => ("medium", "shape of SmolLM2-135M", Preset::Micro, 256),
            Self::Large => ("large", "shape of Qwen2.5-1.5B", Preset::Small, 512),
        }
    }

    /// As in a report and on the command line.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    pub(super) fn shape_name(self) -> &'static str {
        self.row().1
    }

    pub(super) fn preset(self) -> Preset {
        self.row().2
    }

    pub(super) fn row_length(self) -> usize {
        self.row().3
    }

    /// The model that is fine-tuned and talked to.
    pub(super) fn config(self) -> Result<DecoderConfig> {
        DecoderConfig::from_json(&match self {
            Self::Small => llama([4096, 256, 4, 4, 4, 688]),
            Self::Medium => llama([49_152, 576, 30, 9, 3, 1536]),
            Self::Large => json!({
                "model_type": "qwen2", "vocab_size": 151_936, "hidden_size": 1536, "intermediate_size": 8960,
                "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
                "max_position_embeddings": 32_768, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
                "tie_word_embeddings": true,
            }),
        })
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
    [
        vocabulary,
        width,
        layers,
        heads,
        key_value_heads,
        feed_forward,
    ]: [usize; 6],
) -> Json {
    json!({
        "model_type": "llama", "vocab_size": vocabulary, "hidden_size": width, "intermediate_size": feed_forward,
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
        let times = count.div_ceil(DRAWN);
        let repeated = drawn.unsqueeze(0)?.broadcast_as((times, DRAWN))?;
        let repeated = repeated.contiguous()?.flatten_all()?;
        // A part of its own: what it was cut from would be kept with it.
        let part = repeated.narrow(0, 0, count)?.force_contiguous()?;
        Ok(part.reshape(request.shape)?)
    }
}
