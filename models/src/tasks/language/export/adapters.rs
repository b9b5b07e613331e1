//! An adapter alone: in peft's files, in those of mlx-lm, and as GGUF.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
};

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use super::Exporter;
use crate::{
    Error, Result,
    arch::lora::{LoraConfig, Targets},
    checkpoint::{
        adapter::{ADAPTER_CONFIG, ADAPTER_WEIGHTS},
        folder::read_json,
        gguf::{Family, factor_of_change, order_heads},
        merged::MergedWeights,
        save::{write_json, write_safetensors},
        tensors::read_tensors,
    },
    data::tokenizer::{COMPANIONS, TOKENIZER},
    gguf::{Gguf, Key, Planned, TensorType, Value, Writer},
};

/// What mlx-lm calls the weights.
const MLX_WEIGHTS: &str = "adapters.safetensors";

fn config_of(weights: &MergedWeights) -> Result<&LoraConfig> {
    let none = || Error::Data("the model has no adapter".to_owned());
    weights.adapter().ok_or_else(none)
}

/// The adapter as peft reads it. The base model is named as the Hub names it, where it is from there.
pub(super) fn peft(exporter: &Exporter, folder: &Path) -> Result<()> {
    let from = exporter.folder.join(ADAPTER_WEIGHTS);
    let copied = fs::copy(&from, folder.join(ADAPTER_WEIGHTS));
    copied.map_err(Error::file("copy the adapter", &from))?;
    let path = exporter.folder.join(ADAPTER_CONFIG);
    let mut config = read_json(&path, "read the adapter’s config")?;
    let base = exporter.base();
    if base.contains('/') {
        config["base_model_name_or_path"] = json!(base);
    }
    write_json(&folder.join(ADAPTER_CONFIG), &config)?;
    let template = exporter.chats.then_some(exporter.template.source.as_str());
    exporter.tokenizer.save(folder, template)
}

/// The bytes of its files. Others that lie beside them in a checkpoint stay there.
pub(super) fn peft_bytes(weights: &MergedWeights, folder: &Path) -> Result<u64> {
    config_of(weights)?;
    let own = [ADAPTER_CONFIG, ADAPTER_WEIGHTS, TOKENIZER];
    let files = own.iter().chain(&COMPANIONS).map(|name| folder.join(name));
    let sizes = files.filter(|it| it.exists()).map(|path| {
        let about = path.metadata();
        about.map_err(Error::file("look at the adapter", &path))
    });
    let sizes: Vec<u64> = sizes.map(|it| Ok(it?.len())).collect::<Result<_>>()?;
    Ok(sizes.iter().sum())
}

/// The adapter as mlx-lm reads it: A and B the other way round, and the product of its scale as one number.
pub(super) fn mlx(exporter: &Exporter, folder: &Path) -> Result<()> {
    let weights = &exporter.weights;
    let config = config_of(weights)?;
    let Placed { keys, layers } = placed(weights)?;
    let mut tensors = BTreeMap::new();
    for (name, a, b) in weights.adapted() {
        let layer = name.trim_end_matches(".weight");
        for (part, tensor) in [("lora_a", a), ("lora_b", b)] {
            let turned = tensor.t()?.contiguous()?;
            tensors.insert(format!("{layer}.{part}"), turned);
        }
    }
    let metadata = HashMap::from([("format".to_owned(), "mlx".to_owned())]);
    write_safetensors(&folder.join(MLX_WEIGHTS), &tensors, metadata)?;
    let about = json!({
        "fine_tune_type": "lora",
        "num_layers": layers,
        "model": exporter.base(),
        "lora_parameters": {
            "rank": config.rank, "scale": config.scale(), "dropout": config.dropout, "keys": keys,
        },
    });
    write_json(&folder.join(ADAPTER_CONFIG), &about)
}

/// The bytes of its weights.
pub(super) fn mlx_bytes(weights: &MergedWeights) -> Result<u64> {
    config_of(weights)?;
    placed(weights)?;
    let numbers = weights
        .adapted()
        .map(|(_, a, b)| a.elem_count() + b.elem_count());
    Ok(4 * numbers.sum::<usize>() as u64)
}

/// Where an adapter sits, as mlx-lm says it.
struct Placed {
    /// Paths within a layer.
    keys: BTreeSet<String>,
    /// How many layers have it, counted from the last.
    layers: usize,
}

/// Errors: [`Error::Data`] where layers differ, or where some between have none.
fn placed(weights: &MergedWeights) -> Result<Placed> {
    let mut by_layer: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (name, ..) in weights.adapted() {
        let path = name.trim_end_matches(".weight");
        let split = path
            .strip_prefix("model.layers.")
            .and_then(|it| it.split_once('.'));
        if let Some((layer, key)) = split
            && let Ok(layer) = layer.parse()
        {
            by_layer.entry(layer).or_default().insert(key.to_owned());
        }
    }
    let all = weights.config().layers.len();
    let first = by_layer.keys().next().copied().unwrap_or(0);
    let keys = by_layer.values().next().cloned().unwrap_or_default();
    let is_last = (first..all).all(|layer| by_layer.get(&layer) == Some(&keys));
    match is_last {
        true => Ok(Placed {
            keys,
            layers: all - first,
        }),
        false => Err(Error::Data(
            "mlx-lm knows only adapters on the same parts of all layers from some layer on, and this one is on others; export the merged \
             model"
                .to_owned(),
        )),
    }
}

/// A GGUF file with the adapter alone.
///
/// llama.cpp multiplies with alpha / r, whatever the adapter was trained with.
pub(super) fn gguf_writer(weights: &MergedWeights, about: &[Key]) -> Result<Writer> {
    let config = config_of(weights)?;
    let family = family_of(weights)?;
    let alpha = config.scale() * config.rank as f64;
    let text = |key: &str, text: &str| (key.to_owned(), Value::from(text));
    let keys = [
        vec![
            text("general.architecture", &family.architecture),
            text("general.type", "adapter"),
            text("adapter.type", "lora"),
            ("adapter.lora.alpha".to_owned(), Value::F32(alpha as f32)),
            ("general.file_type".to_owned(), Value::U32(0)),
        ],
        about.to_vec(),
    ]
    .concat();
    let mut planned = Vec::new();
    for (name, a, b) in weights.adapted() {
        let there = family.name(name);
        let there = there
            .ok_or_else(|| Error::Data(format!("llama.cpp has no weight such as `{name}`")))?;
        for (part, tensor) in [("lora_a", a), ("lora_b", b)] {
            planned.push(Planned {
                name: format!("{there}.{part}"),
                of: TensorType::F32,
                shape: tensor.dims().to_vec(),
            });
        }
    }
    Writer::new(&keys, planned)
}

fn family_of(weights: &MergedWeights) -> Result<&'static Family> {
    let model_type = &weights.config().model_type;
    Family::of_model_type(model_type)
        .ok_or_else(|| Error::Data(format!("llama.cpp does not know the family `{model_type}`")))
}

/// The bytes of that file.
pub(super) fn gguf(weights: &MergedWeights, about: &[Key]) -> Result<Vec<u8>> {
    let (family, head_dim) = (family_of(weights)?, weights.config().head_dim);
    // In the order in which they were planned.
    let parts = weights
        .adapted()
        .flat_map(|(name, a, b)| [(name, a, false), (name, b, true)]);
    let mut parts = parts.into_iter();
    let mut file = Vec::new();
    gguf_writer(weights, about)?.write(&mut file, |_, sink| {
        let Some((name, tensor, is_b)) = parts.next() else {
            return Ok(());
        };
        if !is_b {
            return sink.put(&f32_bytes(tensor)?);
        }
        let factor = factor_of_change(weights.config(), family, name);
        let bytes = f32_bytes(&tensor.affine(factor, 0.0)?)?;
        let row_bytes = 4 * tensor.dim(1)?;
        sink.put(&order_heads(
            family, name, bytes, row_bytes, head_dim, true,
        )?)
    })?;
    Ok(file)
}

fn f32_bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let numbers: Vec<f32> = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
    Ok(numbers.iter().flat_map(|it| it.to_le_bytes()).collect())
}

/// An adapter as it was written for somebody else: what it is, and A and B by the names that they have here.
type Given = (LoraConfig, BTreeMap<String, Tensor>);

fn given(rank: usize, scale: f64, tensors: BTreeMap<String, Tensor>) -> Given {
    let layer = |name: &String| name.split(".lora_").next().map(str::to_owned);
    let layers: BTreeSet<String> = tensors.keys().filter_map(layer).collect();
    let config = LoraConfig {
        rank,
        alpha: scale * rank as f64,
        dropout: 0.0,
        rank_stabilized: false,
        targets: Targets::Named(layers.into_iter().collect()),
        layers: None,
    };
    (config, tensors)
}

/// Reads an adapter that was written for mlx-lm.
pub(super) fn read_mlx(folder: &Path) -> Result<Given> {
    let path = folder.join(ADAPTER_CONFIG);
    let about = read_json(&path, "read the adapter’s config")?;
    let parameters = &about["lora_parameters"];
    let rank = parameters["rank"].as_u64().unwrap_or_default() as usize;
    let scale = parameters["scale"].as_f64().unwrap_or_default();
    let stored = read_tensors(&folder.join(MLX_WEIGHTS))?;
    let mut tensors = BTreeMap::new();
    for (name, tensor) in stored {
        let name = name
            .replace(".lora_a", ".lora_A")
            .replace(".lora_b", ".lora_B");
        tensors.insert(format!("{name}.weight"), tensor.t()?.contiguous()?);
    }
    Ok(given(rank, scale, tensors))
}

/// Reads an adapter that was written as GGUF.
pub(super) fn read_gguf(path: &Path, weights: &MergedWeights) -> Result<Given> {
    let file = Gguf::open(path)?;
    let architecture = file.text("general.architecture")?;
    let family = Family::of_architecture(architecture);
    let family = family.ok_or_else(|| Error::format(path, "its architecture is not known"))?;
    let alpha = file.get("adapter.lora.alpha").and_then(Value::as_f64);
    let mut tensors = BTreeMap::new();
    let mut rank = 1;
    for (name, a, b) in weights.adapted() {
        let there = family.name(name).unwrap_or_default();
        let layer = name.trim_end_matches(".weight");
        for (part, other, own) in [("lora_a", "lora_A", a), ("lora_b", "lora_B", b)] {
            let found = file.tensors.get(&format!("{there}.{part}"));
            let found = found.ok_or_else(|| {
                Error::format(path, format!("`{there}.{part}` is not in the file"))
            })?;
            let bytes = file.bytes(found).to_vec();
            let row_bytes = 4 * own.dim(1)?;
            let bytes = match part {
                "lora_b" => order_heads(
                    family,
                    name,
                    bytes,
                    row_bytes,
                    weights.config().head_dim,
                    false,
                )?,
                _ => bytes,
            };
            let tensor = Tensor::from_raw_buffer(&bytes, DType::F32, &found.shape, &Device::Cpu)?;
            let tensor = match part {
                "lora_a" => tensor,
                _ => tensor.affine(1.0 / factor_of_change(weights.config(), family, name), 0.0)?,
            };
            if part == "lora_a" {
                rank = tensor.dim(0)?;
            }
            tensors.insert(format!("{layer}.{other}.weight"), tensor);
        }
    }
    let scale = alpha.unwrap_or_default() / rank as f64;
    Ok(given(rank, scale, tensors))
}
