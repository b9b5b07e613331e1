//! What a `config.json` means: the switches of one decoder, with nothing left open.
//!
//! Checkpoints written by different versions of transformers say the same thing in different places (`rope_scaling` and
//! `rope_theta`, or `rope_parameters`; `layer_types`, or a pattern), and leave out what is the default of their family.
//! All of that is settled here, by the row of the family in [`FAMILIES`]; the decoder knows no family.

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::families::{FAMILIES, Family, Slides};
use crate::{
    Error, Result,
    ops::{
        attention::Scoring,
        gated::Activation,
        rope::{Rope, RopeScaling},
    },
};

/// The rotary base of sliding layers that have a rope of their own, when the file has none.
const LOCAL_ROPE_THETA: f64 = 1e4;

/// Every field of a `config.json` that is read here.
const FIELDS: [&str; 32] = [
    "attention_bias",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "head_dim",
    "hidden_act",
    "hidden_activation",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "max_window_layers",
    "mlp_bias",
    "model_type",
    "no_rope_layer_interval",
    "no_rope_layers",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "query_pre_attn_scalar",
    "rms_norm_eps",
    "rope_local_base_freq",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "sliding_window_pattern",
    "tie_word_embeddings",
    "use_sliding_window",
    "vocab_size",
];

/// Fields that are not read, and change nothing about a decoder as long as they have the number beside them, if there is one.
/// True counts as 1, false as 0, and null is a field that is left out.
const OTHER_FIELDS: [(&str, Option<f64>); 19] = [
    ("_name_or_path", None),
    ("_sliding_window_pattern", None),
    ("architectures", None),
    ("attention_dropout", Some(0.0)),
    ("bos_token_id", None),
    ("cache_implementation", None),
    ("dtype", None),
    ("embd_pdrop", Some(0.0)),
    ("eos_token_id", None),
    ("is_decoder", None),
    ("output_attentions", None),
    ("output_hidden_states", None),
    ("pad_token_id", None),
    ("pretraining_tp", Some(1.0)),
    ("resid_pdrop", Some(0.0)),
    ("torch_dtype", None),
    ("transformers_version", None),
    ("use_bidirectional_attention", Some(0.0)),
    ("use_cache", None),
];

/// The most of each size that a model can have. What is far larger than any that exists is a damaged file, and would take
/// memory or overflow before anything was read.
const MOST: [(&str, usize); 8] = [
    ("vocab_size", 1 << 24),
    ("hidden_size", 1 << 18),
    ("intermediate_size", 1 << 20),
    ("num_hidden_layers", 1 << 10),
    ("num_attention_heads", 1 << 10),
    ("num_key_value_heads", 1 << 10),
    ("head_dim", 1 << 13),
    ("max_position_embeddings", 1 << 24),
];

/// Names that share a smaller part of their pairs of letters than this are not alike.
const LIKE: f64 = 0.45;

/// What is wrong with a field of a config that somebody wrote, apart from its value where that is read: a name that nobody reads
/// would change nothing, without a word.
pub fn unread(name: &str, value: &Json) -> Option<String> {
    if FIELDS.contains(&name) {
        return None;
    }
    if let Some((_, only)) = OTHER_FIELDS.iter().find(|(known, _)| *known == name) {
        let number = value.as_f64().or(value.as_bool().map(f64::from));
        return match *only {
            Some(only) if !value.is_null() && number != Some(only) => {
                Some(format!("is {value}, and has no effect here but as {only}"))
            }
            _ => None,
        };
    }
    let likeness = |known| (strsim::sorensen_dice(name, known), known);
    // Of several that are as near, the last is taken: that comes first in the list.
    let nearest = FIELDS.into_iter().rev().map(likeness);
    let nearest = nearest.max_by(|(a, _), (b, _)| a.total_cmp(b));
    Some(match nearest {
        Some((like, nearest)) if like > LIKE => {
            format!("is no field that is known; did you mean `{nearest}`?")
        }
        _ => "is no field that is known".to_owned(),
    })
}

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

/// Read access to a `config.json` that knows the difference between absent and null.
struct Fields<'a> {
    fields: &'a Map<String, Json>,
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

    /// Reads a `config.json`. Errors name the field.
    pub fn from_json(json: &Json) -> Result<Self> {
        let map = json
            .as_object()
            .ok_or_else(|| Error::setting("config", "is not an object"))?;
        let fields = Fields { fields: map };
        let model_type = fields.text("model_type").unwrap_or_default();
        let Some(family) = FAMILIES.iter().find(|it| it.model_type == model_type) else {
            let known: Vec<&str> = FAMILIES.iter().map(|it| it.model_type.as_str()).collect();
            let known = known.join("`, `");
            let problem = format!("is `{model_type}`; known are `{known}`");
            return Err(Error::setting("model_type", problem));
        };
        let hidden_size = fields.required("hidden_size")?;
        let num_attention_heads = fields.required("num_attention_heads")?;
        let head_dim = fields.count("head_dim")?.or(family.head_dim);
        let head_dim = head_dim.unwrap_or(hidden_size / num_attention_heads.max(1));
        let attention_bias = fields.flag("attention_bias", false)?;
        let (layers, ropes) = layers(&fields, family, head_dim)?;
        let cap = |name: &str| Ok::<_, Error>(fields.number(name)?.filter(|_| family.soft_caps));
        let query_scale = cap("query_pre_attn_scalar")?;
        let config = Self {
            model_type: model_type.to_owned(),
            vocab_size: fields.required("vocab_size")?,
            hidden_size,
            intermediate_size: fields.required("intermediate_size")?,
            num_attention_heads,
            num_key_value_heads: fields
                .count("num_key_value_heads")?
                .unwrap_or(num_attention_heads),
            head_dim,
            max_position_embeddings: fields.count("max_position_embeddings")?.unwrap_or(2048),
            rms_norm_eps: fields.number_or("rms_norm_eps", 1e-6)?,
            norm_offset: family.norm_offset,
            activation: activation(&fields, &family.activation)?,
            tie_word_embeddings: fields.flag("tie_word_embeddings", family.tied)?,
            qkv_bias: family.qkv_bias || attention_bias,
            output_bias: attention_bias && !family.qkv_bias,
            mlp_bias: fields.flag("mlp_bias", false)?,
            qk_norm: family.qk_norm,
            post_norms: family.post_norms,
            fused_projections: family.fused_projections,
            embedding_scale: family
                .scaled_embeddings
                .then(|| (hidden_size as f64).sqrt()),
            scoring: Scoring {
                scale: query_scale.unwrap_or(head_dim as f64).powf(-0.5),
                soft_cap: cap("attn_logit_softcapping")?,
            },
            final_soft_cap: cap("final_logit_softcapping")?,
            initializer_range: fields.number_or("initializer_range", 0.02)?,
            layers,
            ropes,
        };
        config.check()?;
        Ok(config)
    }

    /// Whether the sizes fit together.
    fn check(&self) -> Result<()> {
        let sizes = [
            self.vocab_size,
            self.hidden_size,
            self.intermediate_size,
            self.layers.len(),
            self.num_attention_heads,
            self.num_key_value_heads,
            self.head_dim,
            self.max_position_embeddings,
        ];
        if let Some(((field, _), _)) = MOST.iter().zip(sizes).find(|(_, size)| *size == 0) {
            return Err(Error::setting(*field, "is 0"));
        }
        let (heads, keys) = (self.num_attention_heads, self.num_key_value_heads);
        if !heads.is_multiple_of(keys) {
            let problem = format!("is {keys}, which does not divide the {heads} attention heads");
            return Err(Error::setting("num_key_value_heads", problem));
        }
        if self.layers.iter().any(|layer| layer.window == Some(0)) {
            return Err(Error::setting("sliding_window", "is 0"));
        }
        Ok(())
    }
}

/// The kinds of the layers, and the ropes they refer to.
fn layers(
    fields: &Fields,
    family: &Family,
    head_dim: usize,
) -> Result<(Vec<LayerKind>, Vec<Rope>)> {
    let count = fields.required("num_hidden_layers")?;
    let has_rope = |layer| !family.layers_without_rope || uses_rope(fields, layer);
    let window = match family.window {
        Some(it) if it.needs_switch && !fields.flag("use_sliding_window", false)? => None,
        Some(_) if fields.has("sliding_window") => fields.count("sliding_window")?,
        it => it.and_then(|it| it.default),
    };
    let slides: Vec<bool> = match fields.list("layer_types") {
        Some(types) => {
            let slides = |kind: &Json| kind.as_str() == Some("sliding_attention");
            types.iter().map(slides).collect()
        }
        None => {
            let pattern = fields.count("sliding_window_pattern")?;
            let first = fields.count("max_window_layers")?;
            let rule = family.window.map_or(Slides::All, |it| it.slides);
            let slides = |layer: usize| match rule {
                Slides::All => true,
                Slides::ExceptEvery(usual) => !(layer + 1).is_multiple_of(pattern.unwrap_or(usual)),
                Slides::From(usual) => layer >= first.unwrap_or(usual),
                Slides::WithoutRope => !has_rope(layer),
            };
            (0..count).map(slides).collect()
        }
    };
    if slides.len() != count {
        let named = slides.len();
        let problem = format!("names {named} layers, and `num_hidden_layers` is {count}");
        return Err(Error::setting("layer_types", problem));
    }
    let mut ropes = vec![rope(fields, family.rope_theta, head_dim, false)?];
    if family.local_rope {
        ropes.push(rope(fields, LOCAL_ROPE_THETA, head_dim, true)?);
    }
    let kind = |(layer, slides): (usize, bool)| LayerKind {
        window: window.filter(|_| slides),
        rope: has_rope(layer).then_some(usize::from(family.local_rope && slides)),
    };
    Ok((slides.into_iter().enumerate().map(kind).collect(), ropes))
}

/// Whether a layer of SmolLM3 has rotary positions; every fourth has none unless the config says otherwise.
fn uses_rope(fields: &Fields, layer: usize) -> bool {
    match fields.list("no_rope_layers") {
        Some(layers) => layers.get(layer).and_then(Json::as_u64) != Some(0),
        None => {
            let interval = fields.get("no_rope_layer_interval");
            let interval = interval.and_then(Json::as_u64).unwrap_or(4);
            interval == 0 || !(layer as u64 + 1).is_multiple_of(interval)
        }
    }
}

/// The rope of a model, or for `local` that of its sliding layers.
fn rope(fields: &Fields, default_theta: f64, head_dim: usize, local: bool) -> Result<Rope> {
    let empty = Map::new();
    // transformers 5 has everything in `rope_parameters`, by layer type where types differ; 4 has it in two places.
    let parameters = fields.get("rope_parameters").and_then(Json::as_object);
    let by_type = |name: &str| parameters?.get(name)?.as_object();
    let older = || fields.get("rope_scaling").and_then(Json::as_object);
    let scaling = match local {
        true => by_type("sliding_attention").or(parameters),
        false => by_type("full_attention").or(parameters).or_else(older),
    };
    let scaling = Fields {
        fields: scaling.unwrap_or(&empty),
    };
    let theta_field = match local && parameters.is_none() {
        true => "rope_local_base_freq",
        false => "rope_theta",
    };
    let theta = fields.number_or(theta_field, default_theta)?;
    let theta = scaling.number_or("rope_theta", theta)?;
    let partial = fields.number_or("partial_rotary_factor", 1.0)?;
    let partial = scaling.number_or("partial_rotary_factor", partial)?;
    if !(0.0..=1.0).contains(&partial) {
        let problem = format!("is {partial}; it must be from 0 to 1");
        return Err(Error::setting("partial_rotary_factor", problem));
    }
    let width = (head_dim as f64 * partial) as usize;
    Ok(Rope::new(
        width - width % 2,
        theta,
        &rope_scaling(&scaling, fields, width / 2)?,
    ))
}

fn rope_scaling(scaling: &Fields, fields: &Fields, pairs: usize) -> Result<RopeScaling> {
    let context = fields.number_or("max_position_embeddings", 2048.0)?;
    let original = scaling.number("original_max_position_embeddings")?;
    let original = original.or(fields.number("original_max_position_embeddings")?);
    let factor = || -> Result<f64> {
        let ratio = original.map(|original| context / original);
        let factor = scaling.number("factor")?.or(ratio);
        let missing = || Error::setting("rope_scaling.factor", "is missing");
        factor.filter(|factor| *factor > 0.0).ok_or_else(missing)
    };
    let kind = scaling.text("rope_type").or(scaling.text("type"));
    Ok(match kind.unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: factor()? },
        "llama3" => RopeScaling::Llama3 {
            factor: factor()?,
            low_frequency_factor: scaling.number_or("low_freq_factor", 1.0)?,
            high_frequency_factor: scaling.number_or("high_freq_factor", 4.0)?,
            original_context: original.unwrap_or(context),
        },
        "yarn" => yarn(scaling, factor()?, original.unwrap_or(context))?,
        "longrope" | "su" => {
            let field = "rope_scaling.original_max_position_embeddings";
            let original = original.ok_or_else(|| Error::setting(field, "is missing"))?;
            longrope(scaling, factor()?, original, pairs)?
        }
        other => {
            let problem = format!(
                "is `{other}`; known are `default`, `linear`, `llama3`, `longrope`, `yarn`"
            );
            return Err(Error::setting("rope_scaling.rope_type", problem));
        }
    })
}

fn yarn(scaling: &Fields, factor: f64, original_context: f64) -> Result<RopeScaling> {
    let number = |name: &str, default: f64| scaling.number_or(name, default);
    let magnitude = |slope: f64| match factor <= 1.0 {
        true => 1.0,
        false => 0.1 * slope * factor.ln() + 1.0,
    };
    let (mscale, all) = (number("mscale", 0.0)?, number("mscale_all_dim", 0.0)?);
    let default = match mscale != 0.0 && all != 0.0 {
        true => magnitude(mscale) / magnitude(all),
        false => magnitude(1.0),
    };
    Ok(RopeScaling::Yarn {
        factor,
        beta_fast: number("beta_fast", 32.0)?,
        beta_slow: number("beta_slow", 1.0)?,
        original_context,
        attention_factor: number("attention_factor", default)?,
        truncate: scaling.flag("truncate", true)?,
    })
}

fn longrope(
    scaling: &Fields,
    factor: f64,
    original_context: f64,
    pairs: usize,
) -> Result<RopeScaling> {
    let factors = |name: &str| {
        let factors = scaling.numbers(name)?;
        if factors.len() != pairs || factors.iter().any(|factor| *factor <= 0.0) {
            let problem = format!("has {} numbers; it needs {pairs} above 0", factors.len());
            return Err(Error::setting(format!("rope_scaling.{name}"), problem));
        }
        Ok(factors)
    };
    let default = match factor <= 1.0 {
        true => 1.0,
        false => (1.0 + factor.ln() / original_context.ln()).sqrt(),
    };
    Ok(RopeScaling::LongRope {
        short_factors: factors("short_factor")?,
        long_factors: factors("long_factor")?,
        original_context,
        attention_factor: scaling.number_or("attention_factor", default)?,
    })
}

fn activation(fields: &Fields, (field, default): &(String, String)) -> Result<Activation> {
    match fields.text(field).unwrap_or(default) {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu" => Ok(Activation::Gelu),
        "gelu_pytorch_tanh" | "gelu_new" => Ok(Activation::GeluTanh),
        other => {
            let problem = format!("is `{other}`; known are `silu`, `gelu`, `gelu_pytorch_tanh`");
            Err(Error::setting(field, problem))
        }
    }
}

impl Fields<'_> {
    fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    fn get(&self, name: &str) -> Option<&Json> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    fn list(&self, name: &str) -> Option<&Vec<Json>> {
        self.get(name)?.as_array()
    }

    fn read<'a, T: Deserialize<'a>>(&'a self, name: &str, what: &str) -> Result<Option<T>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let wrong = |_| Error::setting(name, format!("is {value}, which is not {what}"));
        T::deserialize(value).map(Some).map_err(wrong)
    }

    fn number(&self, name: &str) -> Result<Option<f64>> {
        self.read(name, "a number")
    }

    fn number_or(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.number(name)?.unwrap_or(default))
    }

    fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        Ok(self.read(name, "a list of numbers")?.unwrap_or_default())
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.read(name, "true or false")?.unwrap_or(default))
    }

    fn count(&self, name: &str) -> Result<Option<usize>> {
        let count = self.read(name, "a whole number")?;
        let most = MOST.iter().find(|(field, _)| *field == name);
        match (count, most) {
            (Some(count), Some((_, most))) if count > *most => {
                let problem = format!("is {count}; no model here has more than {most}");
                Err(Error::setting(name, problem))
            }
            _ => Ok(count),
        }
    }

    fn required(&self, name: &str) -> Result<usize> {
        let missing = || Error::setting(name, "is missing from the model’s config");
        self.count(name)?.ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_size_that_no_model_has_is_refused_by_its_field() {
        let problem = |field: &str, value: Json| {
            let mut config = json!({
                "model_type": "llama", "vocab_size": 7, "hidden_size": 4, "intermediate_size": 4,
                "num_hidden_layers": 2, "num_attention_heads": 2,
            });
            config[field] = value;
            let config = DecoderConfig::from_json(&config);
            config.map_or_else(|error| error.to_string(), |_| String::new())
        };
        for (field, most) in MOST {
            let expected =
                format!("`{field}` is 1000000000000; no model here has more than {most}");
            assert_eq!(problem(field, json!(1_000_000_000_000u64)), expected);
        }
        assert_eq!(problem("head_dim", json!(2)), "");
        assert_eq!(problem("head_dim", json!(0)), "`head_dim` is 0");
        let words = "`head_dim` is \"2\", which is not a whole number";
        assert_eq!(problem("head_dim", json!("2")), words);
        let words = "`mlp_bias` is 1, which is not true or false";
        assert_eq!(problem("mlp_bias", json!(1)), words);
    }
}
