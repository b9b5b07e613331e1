//! What a `config.json` means: the switches of one decoder, with nothing left open.
//!
//! Checkpoints written by different versions of transformers say the same thing in different places (`rope_scaling` and
//! `rope_theta`, or `rope_parameters`; `layer_types`, or a pattern), and leave out what is the default of their family.
//! All of that is settled here, by the row of the family in [`FAMILIES`]; the decoder knows no family.

mod fields;
mod layers;
pub mod limits;
mod ropes;

use serde_json::Value as Json;

use super::{
    chat_only::{CHAT_ONLY, only_for_chat},
    families::{FAMILIES, Family},
};
use crate::{
    Error, Result,
    ops::{attention::Scoring, gated::Activation, rope::Rope},
};
use fields::Fields;
pub use fields::{harmful, unread};
use limits::{Limit, MAX_PARAMETERS};

/// The size and the switches of a decoder. Names as in `config.json` where it has one.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderConfig {
    /// The family: `llama`.
    pub model_type: String,
    /// v: tokens known.
    pub vocab_size: usize,
    /// d: width of the model.
    pub hidden_size: usize,
    /// f: width of the feed-forward part.
    pub intermediate_size: usize,
    /// h: query heads.
    pub num_attention_heads: usize,
    /// k: key heads.
    pub num_key_value_heads: usize,
    /// e: width of a head.
    pub head_dim: usize,
    /// The longest context it was made for, in tokens.
    pub max_position_embeddings: usize,
    /// ε of every norm.
    pub rms_norm_eps: f64,
    /// Added to norm weights: 1 for the Gemma family.
    pub norm_offset: f64,
    /// φ of the feed-forward part.
    pub activation: Activation,
    /// Whether the head is the embedding table.
    pub tie_word_embeddings: bool,
    /// Biases of the q, k and v projections.
    pub qkv_bias: bool,
    /// Bias of the output projection of attention.
    pub output_bias: bool,
    /// Biases of the feed-forward part.
    pub mlp_bias: bool,
    /// Norms of queries and keys, per head.
    pub qk_norm: bool,
    /// Norms after attention and feed-forward too, before the sums.
    pub post_norms: bool,
    /// q, k, v in one projection, and gate and up in one.
    pub fused_projections: bool,
    /// What embeddings are multiplied with.
    pub embedding_scale: Option<f64>,
    /// How scores become weights.
    pub scoring: Scoring,
    /// Logits are squeezed into (-c, c).
    pub final_soft_cap: Option<f64>,
    /// Standard deviation of an untrained weight.
    pub initializer_range: f64,
    /// What differs from layer to layer.
    pub layers: Vec<LayerKind>,
    /// The kinds of rotary positions that layers refer to.
    pub ropes: Vec<Rope>,
}

/// What differs from layer to layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerKind {
    /// How many keys a query sees at most.
    pub window: Option<usize>,
    /// Which of the model's ropes, or none for a layer without positions.
    pub rope: Option<usize>,
}

impl DecoderConfig {
    /// The linear weights of a layer, by the last part of their names in a checkpoint.
    pub fn linears(&self) -> &'static [&'static str] {
        match self.fused_projections {
            true => &["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
            false => &[
                "q_proj",
                "k_proj",
                "v_proj",
                "o_proj",
                "gate_proj",
                "up_proj",
                "down_proj",
            ],
        }
    }

    /// Reads a `config.json`. Errors name the field: one that is missing, beyond its limits, or not known to change nothing.
    pub fn from_json(json: &Json) -> Result<Self> {
        let map = json
            .as_object()
            .ok_or_else(|| Error::setting("config", "is not an object"))?;
        let family = family(map.get("model_type"))?;
        let fields = Fields {
            fields: map,
            defaults: &family.defaults,
            place: "",
        };
        for (name, value) in map {
            if let Some(problem) = fields::unknown(name, value) {
                return Err(fields.error(name, problem));
            }
        }
        // What is left out has the value of its family; what a family does not read is nothing.
        let flag = |name: &str| Ok::<_, Error>(family.reads(name) && fields.flag(name)?);
        let none = |name: &str| match family.reads(name) {
            true => fields.number_or_none(name),
            false => Ok(None),
        };
        let hidden_size = fields.required("hidden_size")?;
        let num_attention_heads = fields.required("num_attention_heads")?;
        let head_dim = fields.count("head_dim")?;
        let head_dim = head_dim.unwrap_or(hidden_size / num_attention_heads);
        Limit::check("head_dim", "head_dim", head_dim as f64, &head_dim)?;
        let attention_bias = flag("attention_bias")?;
        let query_scale = none("query_pre_attn_scalar")?.unwrap_or(head_dim as f64);
        let config = Self {
            model_type: family.model_type.clone(),
            vocab_size: fields.required("vocab_size")?,
            hidden_size,
            intermediate_size: fields.required("intermediate_size")?,
            num_attention_heads,
            num_key_value_heads: fields
                .count_or_none("num_key_value_heads")?
                .unwrap_or(num_attention_heads),
            head_dim,
            max_position_embeddings: fields.required("max_position_embeddings")?,
            rms_norm_eps: fields.required_number("rms_norm_eps")?,
            norm_offset: family.norm_offset,
            activation: activation(&fields, family)?,
            tie_word_embeddings: fields.flag("tie_word_embeddings")?,
            qkv_bias: family.qkv_bias || attention_bias,
            output_bias: attention_bias,
            mlp_bias: flag("mlp_bias")?,
            qk_norm: family.qk_norm,
            post_norms: family.post_norms,
            fused_projections: family.fused_projections,
            embedding_scale: family
                .scaled_embeddings
                .then(|| (hidden_size as f64).sqrt()),
            scoring: Scoring {
                scale: query_scale.powf(-0.5),
                soft_cap: none("attn_logit_softcapping")?,
            },
            final_soft_cap: none("final_logit_softcapping")?,
            initializer_range: fields.required_number("initializer_range")?,
            layers: layers::layers(&fields, family, fields.required("num_hidden_layers")?)?,
            ropes: ropes::ropes(&fields, family, head_dim)?,
        };
        config.check()?;
        Ok(config)
    }

    /// Whether the sizes fit together. Each is within its limit, so no product of them overflows.
    fn check(&self) -> Result<()> {
        let (heads, keys) = (self.num_attention_heads, self.num_key_value_heads);
        if !heads.is_multiple_of(keys) {
            let problem = format!("is {keys}, which does not divide the {heads} attention heads");
            return Err(Error::setting("num_key_value_heads", problem));
        }
        let parameters = self.parameters();
        if parameters > MAX_PARAMETERS {
            let problem = format!(
                "describes {parameters} parameters; no model here has more than {MAX_PARAMETERS}"
            );
            return Err(Error::setting("config", problem));
        }
        Ok(())
    }
}

/// The family that a `model_type` names.
fn family(model_type: Option<&Json>) -> Result<&'static Family> {
    let wanted = model_type.and_then(Json::as_str).unwrap_or_default();
    let family = FAMILIES.iter().find(|it| it.model_type == wanted);
    family.ok_or_else(|| {
        if CHAT_ONLY.iter().any(|it| it.model_type == wanted) {
            return Error::setting("model_type", only_for_chat(wanted));
        }
        let known: Vec<&str> = FAMILIES.iter().map(|it| it.model_type.as_str()).collect();
        let known = known.join("`, `");
        let problem = format!("is `{wanted}`; known are `{known}`");
        Error::setting("model_type", problem)
    })
}

fn activation(fields: &Fields, family: &Family) -> Result<Activation> {
    let field = family.activation_field();
    match fields.text(field)?.unwrap_or_default() {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu" => Ok(Activation::Gelu),
        "gelu_pytorch_tanh" | "gelu_new" => Ok(Activation::GeluTanh),
        other => {
            let problem = format!("is `{other}`; known are `silu`, `gelu`, `gelu_pytorch_tanh`");
            Err(Error::setting(field, problem))
        }
    }
}
