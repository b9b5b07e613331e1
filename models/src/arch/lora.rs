//! Attaching low-rank adapters to the linear layers of a decoder.
//!
//! An adapter's parameters are named after the layer it sits on, `model.layers.0.self_attn.q_proj.lora_A.weight`: the
//! name peft gives it, less peft's own prefix.

use candle_core::DType;

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
    /// Names of linear layers: `q_proj`.
    pub targets: Vec<String>,
    /// Layer numbers; all when absent.
    pub layers: Option<Vec<usize>>,
}

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
        if !wanted || !config.targets.iter().any(|target| target == name) {
            return Ok(());
        }
        let path = linear.name().to_owned();
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
    Ok(())
}
