//! What the keys of a GGUF file say of a decoder, and what llama.cpp can't be told of one.
//!
//! A model that it would compute otherwise without a word is refused, or, where only long texts differ, written with a sentence.

use super::{mix::Mix, names::Family};
use crate::{
    Error, Result,
    arch::config::DecoderConfig,
    figures::count,
    gguf::{Key, Value},
    ops::{
        gated::Activation,
        rope::{Rope, RopeScaling},
    },
};

/// A decoder as llama.cpp is told of it.
#[derive(Debug)]
pub(super) struct Described {
    /// What its family is there.
    pub(super) family: &'static Family,
    /// What is said of it.
    pub(super) keys: Vec<Key>,
    /// Small tensors that follow from its configuration.
    pub(super) tensors: Vec<(&'static str, Vec<f32>)>,
    /// What q, or its norm, is multiplied with, where scores are scaled otherwise than llama.cpp does.
    pub(super) query_factor: f64,
    /// What is lost, in sentences.
    pub(super) losses: Vec<String>,
    /// The longest text, in tokens, of which a file says enough to compute the same.
    pub(super) longest_text: Option<usize>,
}

/// What is said of a decoder.
///
/// Errors: [`Error::Data`] with what llama.cpp can't compute.
pub(super) fn describe(config: &DecoderConfig, mix: Mix) -> Result<Described> {
    let family = Family::of_model_type(&config.model_type);
    let family = family.ok_or_else(|| cant(format!("the family `{}`", config.model_type)))?;
    check(config, family)?;
    let mut described = Described {
        family,
        keys: Vec::new(),
        tensors: Vec::new(),
        query_factor: query_factor(config, family),
        losses: losses(config),
        longest_text: lost_window(config).filter(|_| family.model_type != "phi3"),
    };
    sizes(config, family, mix, &mut described.keys);
    of_family(config, family, &mut described.keys);
    let rope = config.ropes.first().ok_or_else(|| cant("no positions"))?;
    scaling(rope, config, family, &mut described)?;
    Ok(described)
}

fn cant(what: impl std::fmt::Display) -> Error {
    Error::Data(format!(
        "llama.cpp can’t compute this model: it has no way to say {what}; export the merged model for Transformers"
    ))
}

/// Errors for what would be computed otherwise, or not be loaded.
fn check(config: &DecoderConfig, family: &Family) -> Result<()> {
    let name = family.model_type.as_str();
    let is_gemma = family.norm_offset != 0.0;
    let usual = if is_gemma {
        Activation::GeluTanh
    } else {
        Activation::Silu
    };
    if config.activation != usual {
        return Err(cant(format!(
            "that its activation is not {}",
            if is_gemma { "GELU" } else { "SiLU" }
        )));
    }
    let qkv_alone = config.qkv_bias && !config.output_bias && name == "qwen2";
    if config.output_bias && !family.output_bias
        || config.qkv_bias && !config.output_bias && !qkv_alone
    {
        return Err(cant("that its attention has biases"));
    }
    if config.mlp_bias && !family.mlp_bias {
        return Err(cant("that its feed-forward part has biases"));
    }
    if matches!(name, "phi3" | "qwen2") && config.query_width() != config.hidden_size {
        let (heads, width) = (config.query_width(), config.hidden_size);
        return Err(cant(format!(
            "that its heads are {heads} wide together and the model {width}"
        )));
    }
    let is_rotated = |layer: usize| !(name == "smollm3" && (layer + 1).is_multiple_of(4));
    let mut layers = config.layers.iter().enumerate();
    if layers.any(|(layer, kind)| kind.rope.is_some() != is_rotated(layer)) {
        return Err(cant(
            "which of its layers have positions, other than all but every fourth",
        ));
    }
    if name == "gemma2" && (config.scoring.soft_cap.is_none() || config.final_soft_cap.is_none()) {
        return Err(cant("that it has no soft caps"));
    }
    if name == "gemma2" && !config.tie_word_embeddings {
        return Err(cant("that its head is not its table of tokens"));
    }
    let local = config.ropes.get(1);
    if local.is_some_and(|rope| rope.scaling != RopeScaling::None) {
        return Err(cant("that positions of its sliding layers are stretched"));
    }
    Ok(())
}

/// What queries have to be multiplied with, so that scores are those of the model.
pub(super) fn query_factor(config: &DecoderConfig, family: &Family) -> f64 {
    let layers = config.layers.len() as u64;
    let width = match family.largest_blocks == Some(layers) {
        true => config.hidden_size / config.num_attention_heads.max(1),
        false => config.head_dim,
    };
    config.scoring.scale * (width as f64).sqrt()
}

/// The shortest window of a family for which llama.cpp has none, if texts can be longer.
fn lost_window(config: &DecoderConfig) -> Option<usize> {
    if matches!(config.model_type.as_str(), "gemma2" | "gemma3_text") {
        return None;
    }
    config.shortest_window()
}

fn losses(config: &DecoderConfig) -> Vec<String> {
    let sentence = |window: usize| {
        format!(
            "llama.cpp does not know that layers of this model see no further than {} tokens back: within so many it computes the same, \
             and for longer texts something else.",
            count(window as u64)
        )
    };
    lost_window(config).map(sentence).into_iter().collect()
}

fn sizes(config: &DecoderConfig, family: &Family, mix: Mix, keys: &mut Vec<Key>) {
    let whole = |number: usize| Value::U32(u32::try_from(number).unwrap_or(u32::MAX));
    keys.push((
        "general.architecture".to_owned(),
        Value::from(&*family.architecture),
    ));
    keys.push(("general.type".to_owned(), Value::from("model")));
    keys.push(("general.quantization_version".to_owned(), Value::U32(2)));
    keys.push((
        "general.file_type".to_owned(),
        Value::U32(mix.about().file_type),
    ));
    let epsilon = config.rms_norm_eps as f32;
    let rope = config.ropes.first();
    let (width, theta) = rope.map_or((config.head_dim, 1.0), |rope| (rope.width, rope.theta));
    for (name, value) in [
        ("vocab_size", whole(config.vocab_size)),
        ("block_count", whole(config.layers.len())),
        ("context_length", whole(config.max_position_embeddings)),
        ("embedding_length", whole(config.hidden_size)),
        ("feed_forward_length", whole(config.intermediate_size)),
        ("attention.head_count", whole(config.num_attention_heads)),
        ("attention.head_count_kv", whole(config.num_key_value_heads)),
        ("attention.key_length", whole(config.head_dim)),
        ("attention.value_length", whole(config.head_dim)),
        ("attention.layer_norm_rms_epsilon", Value::F32(epsilon)),
        ("rope.dimension_count", whole(width)),
        ("rope.freq_base", Value::F32(theta as f32)),
    ] {
        keys.push((format!("{}.{name}", family.architecture), value));
    }
}

fn of_family(config: &DecoderConfig, family: &Family, keys: &mut Vec<Key>) {
    let mut put = |name: &str, value| keys.push((format!("{}.{name}", family.architecture), value));
    if let Some(cap) = config.scoring.soft_cap {
        put("attn_logit_softcapping", Value::F32(cap as f32));
    }
    if let Some(cap) = config.final_soft_cap {
        put("final_logit_softcapping", Value::F32(cap as f32));
    }
    if let Some(local) = config.ropes.get(1) {
        put("rope.freq_base_swa", Value::F32(local.theta as f32));
    }
    let windows = config.layers.iter().map(|it| it.window);
    match family.model_type.as_str() {
        "phi3" => {
            let window = windows.flatten().min().unwrap_or(0);
            put("attention.sliding_window", Value::U32(window as u32));
        }
        "gemma2" | "gemma3_text" => {
            let window = windows.clone().flatten().min();
            let window = window.unwrap_or(config.max_position_embeddings);
            put("attention.sliding_window", Value::U32(window as u32));
            let slides = windows.map(|it| it.is_some()).collect();
            put("attention.sliding_window_pattern", Value::Bools(slides));
        }
        _ => {}
    }
}

/// How positions are stretched.
fn scaling(
    rope: &Rope,
    config: &DecoderConfig,
    family: &Family,
    described: &mut Described,
) -> Result<()> {
    let mut keys = scaling_keys(&rope.scaling)?;
    let narrow = |numbers: &[f64]| numbers.iter().map(|it| *it as f32).collect();
    match &rope.scaling {
        RopeScaling::None if family.model_type == "phi3" => {
            let context = config.max_position_embeddings as f64;
            keys.push(("original_context_length", tokens(context)));
        }
        RopeScaling::Llama3 { .. } => {
            let divisors = narrow(&rope.divisors());
            described.tensors.push(("rope_freqs.weight", divisors));
        }
        RopeScaling::LongRope {
            short_factors,
            long_factors,
            original_context,
            ..
        } => {
            for (name, factors) in [
                ("rope_factors_long.weight", long_factors),
                ("rope_factors_short.weight", short_factors),
            ] {
                described.tensors.push((name, narrow(factors)));
            }
            // Of equal lists, which is taken makes no difference.
            if short_factors != long_factors {
                described.losses.push(format!(
                    "llama.cpp chooses how positions turn by the context that is opened, not by the text: opened with up to {} tokens of \
                     context it computes as here on texts that fit, with more as here on longer texts.",
                    count(*original_context as u64)
                ));
            }
        }
        _ => {}
    }
    for (name, value) in keys {
        let name = format!("{}.rope.scaling.{name}", family.architecture);
        described.keys.push((name, value));
    }
    Ok(())
}

fn tokens(context: f64) -> Value {
    Value::U32(context as u32)
}

/// The keys of a scaling, after `rope.scaling.`.
fn scaling_keys(scaling: &RopeScaling) -> Result<Vec<(&'static str, Value)>> {
    let number = |number: f64| Value::F32(number as f32);
    Ok(match scaling {
        RopeScaling::None | RopeScaling::Llama3 { .. } => Vec::new(),
        RopeScaling::Linear { factor } => {
            vec![("type", Value::from("linear")), ("factor", number(*factor))]
        }
        RopeScaling::Yarn {
            truncate: false, ..
        } => return Err(cant("that YaRN rounds no bounds")),
        RopeScaling::Yarn {
            factor,
            beta_fast,
            beta_slow,
            original_context,
            attention_factor,
            ..
        } => vec![
            ("type", Value::from("yarn")),
            ("factor", number(*factor)),
            ("original_context_length", tokens(*original_context)),
            ("yarn_beta_fast", number(*beta_fast)),
            ("yarn_beta_slow", number(*beta_slow)),
            // llama.cpp multiplies with the other factor by itself.
            (
                "attn_factor",
                number(attention_factor / (0.1 * factor.ln() + 1.0)),
            ),
        ],
        RopeScaling::LongRope {
            original_context,
            attention_factor,
            ..
        } => vec![
            ("type", Value::from("longrope")),
            ("original_context_length", tokens(*original_context)),
            ("attn_factor", number(*attention_factor)),
        ],
    })
}
