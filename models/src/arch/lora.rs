//! Attaching low-rank adapters to the linear layers of a decoder.
//!
//! An adapter's parameters are named after the layer it sits on, `model.layers.0.self_attn.q_proj.lora_A.weight`: the
//! name peft gives it, less peft's own prefix. Deliberately absent: adapters on the embedding and the head.

use candle_core::DType;
use fancy_regex::Regex;

use super::{Initial, WeightRequest, Weights, decoder::Decoder, layers::LinearAdapter};
use crate::{Error, Result, parameters::Parameter};

/// Which layers get adapters, and of what size. Fields as in peft's `LoraConfig`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraConfig {
    /// r: the width of the adapter.
    pub rank: usize,
    /// The adapter's output is multiplied with alpha / rank.
    pub alpha: f64,
    /// Probability of dropout on the adapter's input.
    pub dropout: f64,
    /// Multiply with alpha / √rank instead (<https://arxiv.org/abs/2312.03732>).
    pub rank_stabilized: bool,
    /// Which linear layers.
    pub targets: Targets,
    /// Layer numbers; all when absent.
    pub layers: Option<Vec<usize>>,
}

/// Linear layers, in the two ways peft names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// Whole paths, or what stands in them after a dot: `q_proj`, `self_attn.q_proj`, `model.layers.0.self_attn.q_proj`.
    Named(Vec<String>),
    /// A regular expression of whole paths, or [`ALL_LINEAR`].
    Matching(String),
}

/// peft's word for every linear layer but the head.
pub const ALL_LINEAR: &str = "all-linear";

impl LoraConfig {
    /// s: what the adapter's output is multiplied with.
    pub fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        self.alpha
            / if self.rank_stabilized {
                rank.sqrt()
            } else {
                rank
            }
    }
}

impl Targets {
    /// Whether the layer with this path gets an adapter.
    ///
    /// Errors: [`Error::Setting`] of `lora.targets` when a regular expression is none, or takes too long.
    pub fn contain(&self, path: &str) -> Result<bool> {
        let pattern = match self {
            Self::Named(names) => {
                let is_end = |name: &String| {
                    let before = path.strip_suffix(name.as_str());
                    before.is_some_and(|it| it.is_empty() || it.ends_with('.'))
                };
                return Ok(names.iter().any(is_end));
            }
            Self::Matching(pattern) if pattern.eq_ignore_ascii_case(ALL_LINEAR) => {
                return Ok(path != "lm_head" && !path.ends_with("embed_tokens"));
            }
            Self::Matching(pattern) => pattern,
        };
        // Compiled for each path: a model has some hundred, and is loaded once.
        let matched = Regex::new(&format!(r"\A(?:{pattern})\z")).and_then(|it| it.is_match(path));
        matched.map_err(|error| {
            let problem =
                format!("is the regular expression `{pattern}`, which can’t be used: {error}");
            Error::setting("lora.targets", problem)
        })
    }
}

/// Puts an adapter on every layer that `config` names. Adapters are trainable and kept in f32.
///
/// A is drawn as in peft, uniformly within ±1/√i for i inputs, here with the same deviation from a normal distribution;
/// B starts at zero, so that the first step begins at the base model.
pub fn attach(decoder: &mut Decoder, config: &LoraConfig, weights: &mut dyn Weights) -> Result<()> {
    let mut attached = 0;
    let mut known: Vec<String> = Vec::new();
    let layers = decoder.config().layers.len();
    if let Some(layer) = config
        .layers
        .iter()
        .flatten()
        .find(|layer| **layer >= layers)
    {
        return Err(Error::setting(
            "lora.layers",
            format!("names layer {layer}; the model has {layers}, from 0"),
        ));
    }
    decoder.for_each_linear(|layer, name, linear, parameters| {
        if !known.iter().any(|it| it == name) {
            known.push(name.to_owned());
        }
        let wanted = config
            .layers
            .as_ref()
            .is_none_or(|layers| layers.contains(&layer));
        let path = linear.name().to_owned();
        if !wanted || !config.targets.contain(&path)? {
            return Ok(());
        }
        let (outputs, inputs) = linear.dims2()?;
        let deviation = (1.0 / (3.0 * inputs as f64)).sqrt();
        let mut weight = |part: &str, shape: &[usize], initial| {
            let name = format!("{path}.{part}.weight");
            let tensor = weights.tensor(&WeightRequest {
                name: &name,
                shape,
                initial,
            })?;
            let parameter = Parameter::new(&name, &tensor.to_dtype(DType::F32)?, true)?;
            parameters.insert(parameter.clone());
            Ok::<_, Error>(parameter)
        };
        let a = weight("lora_A", &[config.rank, inputs], Initial::Normal(deviation))?;
        let b = weight("lora_B", &[outputs, config.rank], Initial::Constant(0.0))?;
        linear.adapter = Some(LinearAdapter {
            a,
            b,
            scale: config.scale(),
            dropout: config.dropout,
        });
        attached += 1;
        Ok(())
    })?;
    if attached == 0 {
        let problem = format!(
            "names none of the model’s linear layers; they are `{}`",
            known.join("`, `")
        );
        return Err(Error::setting("lora.targets", problem));
    }
    decoder.join_adapted()
}
