//! The models of candle-transformers, each as a [`Reader`].

use candle_core::{Result, Tensor};
pub use candle_nn;
use candle_nn::VarBuilder;
use candle_transformers::models::{
    gemma, glm4_new, helium, mixtral, olmo, olmo2, qwen2_moe, qwen3_moe, starcoder2,
};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::Reader;
use crate::Error;

/// A model with how it reads.
struct Of<M> {
    model: M,
    forward: Forward<M>,
}

type Forward<M> = fn(&mut M, &Tensor, usize) -> Result<Tensor>;

impl<M: Clone + 'static> Reader for Of<M> {
    fn read(&mut self, tokens: &Tensor, seen: usize) -> Result<Tensor> {
        (self.forward)(&mut self.model, tokens, seen)
    }

    fn copy(&self) -> Box<dyn Reader> {
        Box::new(Self {
            model: self.model.clone(),
            forward: self.forward,
        })
    }
}

/// The model of a family that a config describes.
pub(super) fn open(
    model_type: &str,
    config: &Json,
    weights: VarBuilder,
) -> crate::Result<Box<dyn Reader>> {
    match model_type {
        "gemma" => of(
            config,
            |config: &_, weights| gemma::Model::new(false, config, weights),
            weights,
            gemma::Model::forward,
        ),
        "glm4" => of(
            config,
            glm4_new::ModelForCausalLM::new,
            weights,
            glm4_new::ModelForCausalLM::forward,
        ),
        "helium" => of(config, helium::Model::new, weights, helium::Model::forward),
        "mixtral" => of(
            config,
            mixtral::Model::new,
            weights,
            mixtral::Model::forward,
        ),
        "olmo" => of(config, olmo::Model::new, weights, olmo::Model::forward),
        "olmo2" => of(config, olmo2::Model::new, weights, olmo2::Model::forward),
        "qwen2_moe" => of(
            config,
            qwen2_moe::Model::new,
            weights,
            qwen2_moe::Model::forward,
        ),
        "qwen3_moe" => of(
            config,
            qwen3_moe::ModelForCausalLM::new,
            weights,
            qwen3_moe::ModelForCausalLM::forward,
        ),
        "starcoder2" => of(
            config,
            starcoder2::Model::new,
            weights,
            starcoder2::Model::forward,
        ),
        _ => Err(Error::setting(
            "model_type",
            super::only_for_chat(model_type),
        )),
    }
}

fn of<C: DeserializeOwned, M: Clone + 'static>(
    config: &Json,
    new: impl Fn(&C, VarBuilder) -> Result<M>,
    weights: VarBuilder,
    forward: Forward<M>,
) -> crate::Result<Box<dyn Reader>> {
    let config = C::deserialize(config);
    let config = config.map_err(|error| Error::setting("config", error.to_string()))?;
    let model = new(&config, weights)?;
    Ok(Box::new(Of { model, forward }))
}
