//! The most and the least that a number of a `config.json` may be, in one table, each with its reason.
//!
//! What is far larger than in any model that exists is a damaged file, and would take memory or overflow before anything
//! was read. What is below these would give numbers that are infinite or no numbers at all.

use std::fmt::Display;

use crate::{Error, Result};

/// The numbers that a field may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// The name in `config.json`, wherever it stands there.
    pub field: &'static str,
    /// The least it may be.
    pub min: f64,
    /// Whether the least itself is not allowed.
    pub above: bool,
    /// The most it may be.
    pub max: f64,
    /// Why not more or less.
    pub why: &'static str,
}

/// The most parameters that a config may describe: in f32 they are half a petabyte, which no disk here holds, and every sum of bytes
/// that is made of them is far from overflowing.
pub const MAX_PARAMETERS: u64 = 1 << 47;

/// The most tokens of a context: the longest there are have 10 million.
pub const MAX_CONTEXT: usize = 1 << 24;
/// The most tokens of a vocabulary: sixty-four times the largest there are.
pub const MAX_VOCABULARY: usize = 1 << 24;

/// Every limit, by field.
pub const LIMITS: [Limit; 29] = [
    size(
        "vocab_size",
        MAX_VOCABULARY as u64,
        "vocabularies have up to 262,208 tokens",
    ),
    size("hidden_size", 1 << 18, "models are up to 16,384 wide"),
    size(
        "intermediate_size",
        1 << 20,
        "models are up to 53,248 wide there",
    ),
    size(
        "num_hidden_layers",
        1 << 10,
        "models have up to 126 layers, and each is listed before it is read",
    ),
    size(
        "num_attention_heads",
        1 << 10,
        "models have up to 128 heads",
    ),
    size(
        "num_key_value_heads",
        1 << 10,
        "no more than attention heads",
    ),
    size("head_dim", 1 << 13, "heads are up to 256 wide"),
    size(
        "max_position_embeddings",
        MAX_CONTEXT as u64,
        "contexts are up to 10 million tokens",
    ),
    size(
        "original_max_position_embeddings",
        MAX_CONTEXT as u64,
        "no longer than the context",
    ),
    size(
        "sliding_window",
        MAX_CONTEXT as u64,
        "no longer than the context",
    ),
    size("sliding_window_pattern", 1 << 10, "no more than layers"),
    size("no_rope_layer_interval", 1 << 10, "no more than layers"),
    Limit {
        min: 0.0,
        ..size("max_window_layers", 1 << 24, "it is compared with layers")
    },
    number("rms_norm_eps", "a root of a negative number is no number").from(0.0),
    number(
        "initializer_range",
        "a deviation is not negative, and above 1 nothing learns",
    )
    .from(0.0)
    .to(1.0),
    number("rope_theta", "it is raised to negative powers"),
    number("rope_local_base_freq", "it is raised to negative powers"),
    number("partial_rotary_factor", "it is a share of a head").to(1.0),
    number("query_pre_attn_scalar", "scores are divided by its root"),
    number("attn_logit_softcapping", "scores are divided by it"),
    number("final_logit_softcapping", "scores are divided by it"),
    number("factor", "angles are divided by it"),
    number(
        "attention_factor",
        "queries and keys are multiplied with it",
    ),
    number("low_freq_factor", "wavelengths are divided by it"),
    number("high_freq_factor", "wavelengths are divided by it"),
    number("beta_fast", "its logarithm is taken").to(MAX_CONTEXT as f64),
    number("beta_slow", "its logarithm is taken").to(MAX_CONTEXT as f64),
    number("mscale", "it is a slope, and 0 is none").from(0.0),
    number("mscale_all_dim", "it is a slope, and 0 is none").from(0.0),
];

const fn size(field: &'static str, max: u64, why: &'static str) -> Limit {
    Limit {
        field,
        min: 1.0,
        above: false,
        max: max as f64,
        why,
    }
}

const fn number(field: &'static str, why: &'static str) -> Limit {
    Limit {
        field,
        min: 0.0,
        above: true,
        max: f64::MAX,
        why,
    }
}

impl Limit {
    const fn from(self, min: f64) -> Self {
        Self {
            min,
            above: false,
            ..self
        }
    }

    const fn to(self, max: f64) -> Self {
        Self { max, ..self }
    }

    /// Refuses a number beyond the limit of its field: by the name of its `place`, with the number as it is `written` and the
    /// limit.
    pub fn check(place: &str, field: &str, number: f64, written: &dyn Display) -> Result<()> {
        let Some(limit) = LIMITS.iter().find(|limit| limit.field == field) else {
            return Ok(());
        };
        let is_low = number < limit.min || (limit.above && number == limit.min);
        let problem = match () {
            () if number > limit.max => {
                format!("is {written}; no model here has more than {}", limit.max)
            }
            () if is_low && limit.above => format!("is {written}; it must be above {}", limit.min),
            () if is_low => format!("is {written}; it must be at least {}", limit.min),
            () => return Ok(()),
        };
        Err(Error::setting(place, problem))
    }
}
