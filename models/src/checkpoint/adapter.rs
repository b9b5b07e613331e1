//! Adapters in peft's files: `adapter_model.safetensors` and `adapter_config.json`.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use candle_core::{DType, Device, Tensor};
use serde_json::{Value as Json, json};

use super::{load::StoredWeights, save};
use crate::{
    Result,
    arch::{
        WeightRequest, Weights,
        decoder::Decoder,
        lora::{self, LoraConfig, Targets},
    },
};

mod config;

pub use config::read_adapter_config;

/// peft's name of the configuration.
pub const ADAPTER_CONFIG: &str = "adapter_config.json";
/// peft's name of the weights.
pub const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";
/// What peft puts before the name of a layer of the base model.
pub const PREFIX: &str = "base_model.model.";

/// Writes the adapter of `decoder` into `folder` so that peft loads it on `base`, the base model's folder or name.
pub fn save_adapter(
    decoder: &Decoder,
    config: &LoraConfig,
    base: &str,
    folder: &Path,
) -> Result<()> {
    let tensors: BTreeMap<String, Tensor> = decoder
        .parameters()
        .trainable()
        .map(|parameter| (format!("{PREFIX}{}", parameter.name()), parameter.tensor()))
        .collect();
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    save::write_safetensors(&folder.join(ADAPTER_WEIGHTS), &tensors, metadata)?;
    save::write_json(&folder.join(ADAPTER_CONFIG), &peft_config(config, base))
}

/// Attaches the adapter in `folder` to `decoder`, in f32, on the decoder's device. Returns what it is.
pub fn load_adapter(decoder: &mut Decoder, folder: &Path) -> Result<LoraConfig> {
    let config = read_adapter_config(folder)?;
    let file = folder.join(ADAPTER_WEIGHTS);
    let device: Device = decoder.device().clone();
    let stored = StoredWeights::open(
        std::slice::from_ref(&file),
        file.clone(),
        DType::F32,
        &device,
    )?;
    let mut weights = PrefixedWeights { stored };
    lora::attach(decoder, &config, &mut weights)
        .map_err(|error| config::in_words_of_peft(error, folder))?;
    weights.stored.check_all_taken(|_| false)?;
    Ok(config)
}

fn peft_config(config: &LoraConfig, base: &str) -> Json {
    let targets = match &config.targets {
        Targets::Named(names) => json!(names),
        Targets::Matching(pattern) => json!(pattern),
    };
    json!({
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "layers_pattern": null,
        "layers_to_transform": config.layers,
        "lora_alpha": config.alpha,
        "lora_dropout": config.dropout,
        "modules_to_save": null,
        "peft_type": "LORA",
        "r": config.rank,
        "target_modules": targets,
        "task_type": "CAUSAL_LM",
        "use_dora": false,
        "use_rslora": config.rank_stabilized,
    })
}

/// Weights whose names carry peft's prefix.
struct PrefixedWeights {
    stored: StoredWeights,
}

impl Weights for PrefixedWeights {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let name = format!("{PREFIX}{}", request.name);
        self.stored.tensor(&WeightRequest {
            name: &name,
            ..request.clone()
        })
    }
}
