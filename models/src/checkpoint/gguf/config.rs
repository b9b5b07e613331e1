//! The `config.json` that the keys of a GGUF file stand for.
//!
//! Every key of the architecture has to be known: what changes a model and is not understood is refused by its name.

use serde_json::{Map, Value as Json, json};

use super::{
    chat_only,
    names::Family,
    reading::{Keys, shortened},
};
use crate::{
    Error, Result,
    gguf::{Gguf, Value},
};

/// The key that says which family a file is of.
const ARCHITECTURE: &str = "general.architecture";
/// Where llama.cpp has no key.
const DEFAULT_THETA: f64 = 10_000.0;

/// The family of a file.
///
/// Errors: [`Error::Format`] with the name of an architecture that is not known.
pub(super) fn family(file: &Gguf) -> Result<&'static Family> {
    let architecture = file.text(ARCHITECTURE)?;
    Family::of_architecture(architecture).ok_or_else(|| {
        let known: Vec<&str> = super::names::FAMILIES
            .iter()
            .map(|it| it.architecture.as_str())
            .collect();
        Error::format(
            &file.path,
            format!(
                "the architecture is `{architecture}`, and those that are known are {}",
                known.join(", ")
            ),
        )
    })
}

/// The `config.json` of a file.
///
/// Errors: [`Error::Format`] with the key that is missing, contradicts a tensor, or is not known.
pub fn config(file: &Gguf) -> Result<Json> {
    let kind = file.get("general.type").and_then(Value::as_str);
    if let Some(kind) = kind.filter(|it| *it != "model") {
        let problem = format!("the file is of the type `{kind}`, and a model is needed");
        return Err(Error::format(&file.path, problem));
    }
    let architecture = file.text(ARCHITECTURE)?;
    if let Some(config) = chat_only::config(file, architecture) {
        return config;
    }
    let family = family(file)?;
    let mut keys = Keys::new(file, architecture);
    let mut config = keys.sizes(family)?;
    keys.biases(family, &mut config)?;
    keys.ropes(family, &mut config)?;
    keys.of_family(family, &mut config)?;
    keys.tokens(&mut config);
    keys.check_all_read()?;
    Ok(Json::Object(config))
}

impl Keys<'_> {
    /// What every family has.
    fn sizes(&mut self, family: &Family) -> Result<Map<String, Json>> {
        let blocks = self.blocks()?;
        let heads = self.whole("attention.head_count")?;
        let width = self.whole("embedding_length")?;
        let head_dim = self.whole_or("attention.key_length", width / heads.max(1))?;
        let values = self.whole_or("attention.value_length", head_dim)?;
        if values != head_dim {
            return self.refuse(format!(
                "keys are {head_dim} wide and values {values}, and both have to be equal"
            ));
        }
        let epsilon = self.number("attention.layer_norm_rms_epsilon");
        let Some(epsilon) = epsilon else {
            return self.refuse("the file doesn’t say the epsilon of its norms");
        };
        let vocabulary = self.vocabulary()?;
        let activation = match family.norm_offset == 0.0 {
            true => ("hidden_act", "silu"),
            false => ("hidden_activation", "gelu_pytorch_tanh"),
        };
        let fields = json!({
            "model_type": family.model_type,
            "hidden_size": width,
            "intermediate_size": self.whole("feed_forward_length")?,
            "num_hidden_layers": blocks,
            "num_attention_heads": heads,
            "num_key_value_heads": self.whole_or("attention.head_count_kv", heads)?,
            "head_dim": head_dim,
            "max_position_embeddings": self.whole("context_length")?,
            "rms_norm_eps": epsilon,
            "vocab_size": vocabulary,
            "tie_word_embeddings": !self.has("output.weight"),
            activation.0: activation.1,
        });
        Ok(fields.as_object().cloned().unwrap_or_default())
    }

    /// Biases are where their tensors are.
    fn biases(&mut self, family: &Family, config: &mut Map<String, Json>) -> Result<()> {
        let [qkv, output, mlp] =
            ["attn_q", "attn_output", "ffn_up"].map(|part| self.has(&format!("blk.0.{part}.bias")));
        match family.model_type.as_str() {
            // Always with biases of q, k and v, and never with others.
            "qwen2" => return Ok(()),
            "llama" if mlp => {
                config.insert("mlp_bias".to_owned(), json!(true));
            }
            _ => {}
        }
        if qkv != output {
            return self.refuse("q, k and v have biases and the output of attention has none, or the other way round, which the family does not know");
        }
        if qkv {
            config.insert("attention_bias".to_owned(), json!(true));
        }
        Ok(())
    }

    /// How positions turn.
    fn ropes(&mut self, family: &Family, config: &mut Map<String, Json>) -> Result<()> {
        let theta = self.number("rope.freq_base").unwrap_or(DEFAULT_THETA);
        config.insert("rope_theta".to_owned(), json!(theta));
        let head_dim = config["head_dim"].as_u64().unwrap_or(1).max(1);
        let turned = self.whole_or("rope.dimension_count", head_dim)?;
        if turned != head_dim {
            if family.model_type != "phi3" {
                return self.refuse(format!(
                    "{turned} of {head_dim} numbers of a head are turned, and in this family all are"
                ));
            }
            let share = turned as f64 / head_dim as f64;
            config.insert("partial_rotary_factor".to_owned(), json!(share));
        }
        if let Some(scaling) = self.scaling(family, config, theta, turned as usize)? {
            config.insert("rope_scaling".to_owned(), scaling);
        }
        Ok(())
    }

    /// `rope_scaling`, where there is any.
    fn scaling(
        &mut self,
        family: &Family,
        config: &mut Map<String, Json>,
        theta: f64,
        turned: usize,
    ) -> Result<Option<Json>> {
        let original = self
            .get("rope.scaling.original_context_length")
            .and_then(Value::as_u64);
        let factor = self.number("rope.scaling.factor");
        let attention = self.number("rope.scaling.attn_factor");
        let kind = self
            .get("rope.scaling.type")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let long = self.factors("rope_factors_long.weight")?;
        if let Some(original) = original.filter(|_| family.model_type == "phi3") {
            config.insert(
                "original_max_position_embeddings".to_owned(),
                json!(original),
            );
        }
        if let (Some(long), Some(short)) = (long, self.factors("rope_factors_short.weight")?) {
            let mut scaling =
                json!({"type": "longrope", "long_factor": long, "short_factor": short});
            if let Some(attention) = attention {
                scaling["attention_factor"] = json!(attention);
            }
            return Ok(Some(scaling));
        }
        if let Some(factors) = self.factors("rope_freqs.weight")? {
            return Ok(Some(llama3(&factors, theta, turned)));
        }
        let fields = ["yarn_beta_fast", "yarn_beta_slow"];
        let betas = fields.map(|name| self.number(&format!("rope.scaling.{name}")));
        match (kind.as_deref(), factor) {
            (None | Some("none"), _) => Ok(None),
            (Some("linear"), Some(factor)) => Ok(Some(
                json!({"rope_type": "linear", "type": "linear", "factor": factor}),
            )),
            (Some("yarn"), Some(factor)) => {
                let mut scaling = json!({
                    "rope_type": "yarn", "type": "yarn", "factor": factor, "original_max_position_embeddings": original,
                });
                if let Some(attention) = attention {
                    scaling["attention_factor"] = json!(attention * (0.1 * factor.ln() + 1.0));
                }
                for (field, beta) in ["beta_fast", "beta_slow"].iter().zip(betas) {
                    if let Some(beta) = beta {
                        scaling[field] = json!(beta);
                    }
                }
                Ok(Some(scaling))
            }
            (Some(kind), _) => self.refuse(format!(
                "its positions are scaled by `{kind}`, which is not known here or lacks its factor"
            )),
        }
    }

    /// The numbers of a small tensor of f32.
    fn factors(&self, name: &str) -> Result<Option<Vec<f64>>> {
        let Some(tensor) = self.file.tensors.get(name) else {
            return Ok(None);
        };
        let (numbers, _) = self.file.bytes(tensor).as_chunks::<4>();
        let numbers = numbers
            .iter()
            .map(|it| shortened(f64::from(f32::from_le_bytes(*it))));
        match tensor.of == crate::gguf::TensorType::F32 {
            true => Ok(Some(numbers.collect())),
            false => self.refuse(format!("`{name}` is not F32")),
        }
    }

    /// What only some families have.
    fn of_family(&mut self, family: &Family, config: &mut Map<String, Json>) -> Result<()> {
        let mut set = |field: &str, value: Json| config.insert(field.to_owned(), value);
        let model_type = family.model_type.as_str();
        if model_type == "smollm3" {
            set("no_rope_layer_interval", json!(4));
        }
        if matches!(model_type, "qwen2" | "qwen3") {
            set("use_sliding_window", json!(false));
        }
        if model_type == "phi3" {
            let window = self.whole_or("attention.sliding_window", 0)?;
            set(
                "sliding_window",
                if window == 0 {
                    Json::Null
                } else {
                    json!(window)
                },
            );
            // The default of the family lies beyond the vocabulary of small ones.
            set("pad_token_id", Json::Null);
        }
        if model_type == "gemma2" {
            let attention = self.number("attn_logit_softcapping").unwrap_or(50.0);
            let last = self.number("final_logit_softcapping").unwrap_or(30.0);
            set("attn_logit_softcapping", json!(attention));
            set("final_logit_softcapping", json!(last));
        }
        if model_type == "gemma3_text" {
            let local = self.number("rope.freq_base_swa").unwrap_or(DEFAULT_THETA);
            let last = self.number("final_logit_softcapping");
            set("rope_local_base_freq", json!(local));
            set("final_logit_softcapping", json!(last));
        }
        if let Some(largest) = family.largest_blocks {
            let number = |field: &str| config[field].as_u64().unwrap_or(1);
            let (blocks, head_dim) = (number("num_hidden_layers"), number("head_dim"));
            let width = number("hidden_size") / number("num_attention_heads").max(1);
            let scalar = if blocks == largest { width } else { head_dim };
            config.insert("query_pre_attn_scalar".to_owned(), json!(scalar));
            self.windows(family, config, blocks)?;
        }
        Ok(())
    }

    /// Which layers of the Gemma family see a window only.
    fn windows(
        &mut self,
        family: &Family,
        config: &mut Map<String, Json>,
        blocks: u64,
    ) -> Result<()> {
        let window = self.whole_or("attention.sliding_window", 4096)?;
        config.insert("sliding_window".to_owned(), json!(window));
        let usual = if family.model_type == "gemma2" { 2 } else { 6 };
        let pattern = self.get("attention.sliding_window_pattern").cloned();
        let slides: Vec<bool> = match pattern {
            Some(Value::Bools(slides)) => slides,
            other => {
                let every = other.and_then(|it| it.as_u64()).unwrap_or(usual);
                let is_full = |layer: u64| every > 0 && (layer + 1).is_multiple_of(every);
                (0..blocks).map(|layer| !is_full(layer)).collect()
            }
        };
        let name = |slides: &bool| {
            if *slides {
                "sliding_attention"
            } else {
                "full_attention"
            }
        };
        let types: Vec<&str> = slides.iter().map(name).collect();
        config.insert("layer_types".to_owned(), json!(types));
        Ok(())
    }
}

/// The rope of Llama 3, of which a file has only what follows from it. Where that does not follow from the numbers that all published
/// models have, each angle has a divisor of its own, for texts of any length.
fn llama3(factors: &[f64], theta: f64, turned: usize) -> Json {
    let largest = factors.iter().copied().fold(1.0, f64::max);
    let [low, high, original] = [1.0, 4.0, 8192.0];
    let expected = |i: usize| {
        let wave = 2.0 * std::f64::consts::PI * theta.powf(2.0 * i as f64 / turned as f64);
        let t = (original / wave - low) / (high - low);
        match wave {
            _ if wave < original / high => 1.0,
            _ if wave > original / low => largest,
            _ => 1.0 / ((1.0 - t) / largest + t),
        }
    };
    let is_close = |(i, it): (usize, &f64)| (it - expected(i)).abs() < 1e-4 * it.abs();
    if factors.len() == turned / 2 && factors.iter().enumerate().all(is_close) {
        return json!({
            "rope_type": "llama3", "factor": largest, "low_freq_factor": low, "high_freq_factor": high,
            "original_max_position_embeddings": original as u64,
        });
    }
    json!({"type": "longrope", "long_factor": factors, "short_factor": factors, "attention_factor": 1.0})
}
