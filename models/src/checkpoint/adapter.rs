//! Adapters in peft's files: `adapter_model.safetensors` and `adapter_config.json`.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use candle_core::{DType, Device, Tensor};
use serde_json::{Value as Json, json};

use super::{folder::read_json, load::StoredWeights, save};
use crate::{
    Error, Result,
    arch::{
        WeightRequest, Weights,
        decoder::Decoder,
        lora::{self, LoraConfig},
    },
};

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
    let text = format!("{:#}\n", peft_config(config, base));
    save::write_file(&folder.join(ADAPTER_CONFIG), text.as_bytes())
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
    lora::attach(decoder, &config, &mut weights)?;
    weights.stored.check_all_taken(|_| false)?;
    Ok(config)
}

/// Reads peft's `adapter_config.json`. What can't be served here is an error that says so.
pub fn read_adapter_config(folder: &Path) -> Result<LoraConfig> {
    let path = folder.join(ADAPTER_CONFIG);
    let json = read_json(&path, "read the adapter’s config")?;
    let wrong = |problem: String| Error::format(&path, problem);
    let kind = json
        .get("peft_type")
        .and_then(Json::as_str)
        .unwrap_or_default();
    if kind != "LORA" {
        return Err(wrong(format!(
            "is a `{kind}` adapter; only `LORA` is known"
        )));
    }
    for switch in ["use_dora", "fan_in_fan_out", "lora_bias"] {
        if json.get(switch).and_then(Json::as_bool) == Some(true) {
            return Err(wrong(format!("has `{switch}` on, which is not supported")));
        }
    }
    for pattern in ["rank_pattern", "alpha_pattern"] {
        let patterns = json.get(pattern).and_then(Json::as_object);
        if patterns.is_some_and(|it| !it.is_empty()) {
            return Err(wrong(format!(
                "has a `{pattern}`; only one rank and one alpha for all layers are supported"
            )));
        }
    }
    let strings = |field: &str| -> Option<Vec<String>> {
        let list = json.get(field)?.as_array()?;
        Some(
            list.iter()
                .filter_map(Json::as_str)
                .map(str::to_owned)
                .collect(),
        )
    };
    let layers = json
        .get("layers_to_transform")
        .and_then(|layers| match layers {
            Json::Array(layers) => Some(
                layers
                    .iter()
                    .filter_map(Json::as_u64)
                    .map(|it| it as usize)
                    .collect(),
            ),
            single => single.as_u64().map(|layer| vec![layer as usize]),
        });
    let rank = json
        .get("r")
        .and_then(Json::as_u64)
        .filter(|rank| *rank > 0);
    Ok(LoraConfig {
        rank: rank.ok_or_else(|| wrong("has no rank `r`".to_owned()))? as usize,
        alpha: json.get("lora_alpha").and_then(Json::as_f64).unwrap_or(8.0),
        dropout: json
            .get("lora_dropout")
            .and_then(Json::as_f64)
            .unwrap_or(0.0),
        rank_stabilized: json
            .get("use_rslora")
            .and_then(Json::as_bool)
            .unwrap_or(false),
        targets: strings("target_modules")
            .ok_or_else(|| wrong("has no list `target_modules`".to_owned()))?,
        layers,
    })
}

fn peft_config(config: &LoraConfig, base: &str) -> Json {
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
        "target_modules": config.targets,
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
