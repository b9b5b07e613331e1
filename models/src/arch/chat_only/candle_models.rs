//! The models of candle-transformers, each as a [`Reader`].

use std::{
    collections::HashMap,
    io::{Read, Seek},
};

use candle_core::{
    DType, Device, Result, Tensor,
    quantized::gguf_file::{Content, TensorInfo, Value, VersionedMagic},
};
pub use candle_nn;
use candle_nn::VarBuilder;
use candle_transformers::models::{
    gemma, glm4_new, helium, mixtral, olmo, olmo2, quantized_glm4, quantized_phi, qwen2_moe,
    qwen3_moe, starcoder2,
};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::Reader;
use crate::Error;

/// The keys of an architecture that the library reads, and the fields that say the same.
const KEYS: [(&str, &str); 10] = [
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("attention.layer_norm_epsilon", "layer_norm_eps"),
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("block_count", "num_hidden_layers"),
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("rope.dimension_count", "rotary_dim"),
    ("rope.freq_base", "rope_theta"),
];

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

/// The model of a family whose GGUF file has these tensors. The library is told what `config` says, and nothing else of the file.
pub(super) fn open_gguf(
    model_type: &str,
    config: &Json,
    tensors: HashMap<String, TensorInfo>,
    file: &mut (impl Read + Seek),
    device: &Device,
) -> crate::Result<Box<dyn Reader>> {
    let said = KEYS.iter().filter_map(|(key, field)| {
        let field = config.get(field)?;
        let value = match field.as_u64() {
            Some(whole) => Value::U32(u32::try_from(whole).ok()?),
            None => Value::F32(field.as_f64()? as f32),
        };
        Some((format!("{model_type}.{key}"), value))
    });
    let content = Content {
        magic: VersionedMagic::GgufV3,
        metadata: said.collect(),
        tensor_infos: tensors,
        tensor_data_offset: 0,
    };
    match model_type {
        "glm4" => Ok(Box::new(Of {
            model: quantized_glm4::ModelWeights::from_gguf(content, file, device, DType::F32)?,
            forward: quantized_glm4::ModelWeights::forward,
        })),
        "phi2" => Ok(Box::new(Of {
            model: quantized_phi::ModelWeights::from_gguf(content, file, device)?,
            forward: quantized_phi::ModelWeights::forward,
        })),
        _ => Err(Error::setting(
            "model_type",
            format!("is `{model_type}`, of which GGUF files are not opened"),
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
