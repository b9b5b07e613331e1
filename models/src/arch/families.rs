//! The families of checkpoints that the decoder can be: one row for each `model_type`, its switches in `families.json`.
//!
//! A row says what `config.json` leaves out because its family has it always, or has it unless the file says otherwise.
//! Every family is written as what differs from Llama.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::embedded::table;

/// What a `model_type` means beyond what stands in its `config.json`.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Family {
    /// The `model_type` of `config.json`.
    pub model_type: String,
    /// e when the file has none; `hidden_size / num_attention_heads` when absent here too.
    pub head_dim: Option<usize>,
    /// Whether embeddings are multiplied with √d.
    pub scaled_embeddings: bool,
    /// Whether the head is the embedding table, unless the file says otherwise.
    pub tied: bool,
    /// The field that names φ, and its value when it is missing.
    pub activation: (String, String),
    /// Added to norm weights.
    pub norm_offset: f64,
    /// Norms after attention and feed-forward too, before the sums.
    pub post_norms: bool,
    /// Norms of queries and keys, per head.
    pub qk_norm: bool,
    /// Biases of q, k and v always, and of the output never; otherwise `attention_bias` speaks for all four.
    pub qkv_bias: bool,
    /// q, k, v in one projection, and gate and up in one.
    pub fused_projections: bool,
    /// Whether the file may scale queries and squeeze scores and logits: `query_pre_attn_scalar` and the soft caps.
    pub soft_caps: bool,
    /// The rotary base when the file has none.
    pub rope_theta: f64,
    /// Whether sliding layers have a rope of their own.
    pub local_rope: bool,
    /// Whether layers may be without positions: `no_rope_layers`.
    pub layers_without_rope: bool,
    /// How sliding layers are sized and chosen; none slide when absent.
    pub window: Option<Window>,
}

/// The sliding windows of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its size when the file has no `sliding_window`.
    pub default: Option<usize>,
    /// Whether windows count only with `use_sliding_window`.
    #[serde(default)]
    pub needs_switch: bool,
    /// Which layers slide when the file has no `layer_types`.
    pub slides: Slides,
}

/// Which layers see a window only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slides {
    /// All.
    All,
    /// All but every n-th, where n is `sliding_window_pattern` or this number.
    ExceptEvery(usize),
    /// Those from `max_window_layers` on, or from this one.
    From(usize),
    /// Those without positions.
    WithoutRope,
}

impl Default for Family {
    /// Llama.
    fn default() -> Self {
        Self {
            model_type: String::new(),
            head_dim: None,
            scaled_embeddings: false,
            tied: false,
            activation: ("hidden_act".to_owned(), "silu".to_owned()),
            norm_offset: 0.0,
            post_norms: false,
            qk_norm: false,
            qkv_bias: false,
            fused_projections: false,
            soft_caps: false,
            rope_theta: 1e4,
            local_rope: false,
            layers_without_rope: false,
            window: None,
        }
    }
}

/// Every family that can be trained and talked to.
pub static FAMILIES: LazyLock<Vec<Family>> =
    LazyLock::new(|| table("families.json", include_str!("families.json")));
