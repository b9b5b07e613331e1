//! The families of checkpoints that the decoder can be: one row for each `model_type`, its switches in `families.json`.
//!
//! A row says what is so in every model of its family, and which fields of a `config.json` it reads besides its sizes, with what
//! they are where the file leaves them out. The defaults are those of transformers, with which a test compares them.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::embedded::table;

/// What a `model_type` means beyond what stands in its `config.json`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Family {
    /// The `model_type` of `config.json`.
    pub model_type: String,
    /// What transformers calls its models: `LlamaForCausalLM`.
    pub class: String,
    /// Whether embeddings are multiplied with √d.
    pub scaled_embeddings: bool,
    /// Added to norm weights.
    pub norm_offset: f64,
    /// Norms after attention and feed-forward too, before the sums.
    pub post_norms: bool,
    /// Norms of queries and keys, per head.
    pub qk_norm: bool,
    /// Biases of q, k and v always, and of the output never; otherwise `attention_bias` speaks for all four, where it is read.
    pub qkv_bias: bool,
    /// q, k, v in one projection, and gate and up in one.
    pub fused_projections: bool,
    /// Which layers slide when the file has no `layer_types`; none ever do when absent.
    pub slides: Option<Slides>,
    /// The types of rope that it knows, each with what it means; all mean themselves when absent.
    pub rope_types: Option<BTreeMap<String, String>>,
    /// The fields that it reads besides its sizes, with their values when they are missing; null is none.
    pub defaults: Map<String, Json>,
}

/// Which layers see a window only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slides {
    /// All.
    All,
    /// All but every n-th, where n is `sliding_window_pattern`, or this number where the family does not read that.
    ExceptEvery(usize),
    /// Those from `max_window_layers` on.
    FromLayer,
    /// Those without positions.
    WithoutRope,
}

impl Family {
    /// Whether it reads this field of a `config.json`, besides its sizes.
    pub fn reads(&self, field: &str) -> bool {
        self.defaults.contains_key(field)
    }

    /// The field that names the activation.
    pub fn activation_field(&self) -> &'static str {
        match self.reads("hidden_activation") {
            true => "hidden_activation",
            false => "hidden_act",
        }
    }

    /// Whether sliding layers have a rope of their own.
    pub fn has_local_rope(&self) -> bool {
        self.reads("rope_local_base_freq")
    }
}

/// Every family that can be trained and used for chat.
pub static FAMILIES: LazyLock<Vec<Family>> =
    LazyLock::new(|| table("families.json", include_str!("families.json")));
