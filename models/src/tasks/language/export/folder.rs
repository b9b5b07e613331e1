//! The whole model as a folder in the layout of the Hub, for Transformers and mlx-lm.

use std::{collections::BTreeMap, path::Path};

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use super::Exporter;
use crate::{
    Error, Result,
    checkpoint::{
        folder::{CONFIG, WEIGHTS},
        merged::MergedWeights,
        model::public_config,
        packed::{GROUP, pack_groups},
        save::write_json,
        stream::{StreamedTensor, stream_safetensors, streamed_bytes},
    },
    figures::count,
    ops::rope::RopeScaling,
};

/// The tensors of the file. Packed matrices have two more beside them.
fn tensors(weights: &MergedWeights, packed: bool) -> Vec<StreamedTensor> {
    let dtype = weights.dtype();
    let mut tensors = Vec::new();
    for (name, shape) in weights.list() {
        let mut put = |name: String, dtype, shape: &[usize]| {
            tensors.push(StreamedTensor {
                name,
                dtype,
                shape: shape.to_vec(),
            });
        };
        match shape.as_slice() {
            &[rows, width] if packed && width.is_multiple_of(GROUP) => {
                let layer = name.trim_end_matches(".weight");
                put(name.clone(), DType::U32, &[rows, width / CODES_OF_WORD]);
                for beside in ["scales", "biases"] {
                    put(format!("{layer}.{beside}"), dtype, &[rows, width / GROUP]);
                }
            }
            _ => put(name.clone(), dtype, shape),
        }
    }
    tensors
}

/// The codes of 4 bits of a word.
const CODES_OF_WORD: usize = 8;

/// The bytes of the weights. What stands beside them is small.
pub(super) fn bytes(exporter: &Exporter, packed: bool) -> u64 {
    streamed_bytes(&tensors(&exporter.weights, packed))
}

/// Writes weights, config, tokenizer and template into a folder that is being made.
pub(super) fn write(
    exporter: &mut Exporter,
    folder: &Path,
    packed: bool,
    done: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    write_weights(&mut exporter.weights, folder, packed, done)?;
    let mut config = public_config(&exporter.model.config, exporter.weights.config())?;
    let dtype = exporter.weights.dtype();
    config["torch_dtype"] = json!(match dtype {
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        _ => "float32",
    });
    if packed {
        let said = json!({"group_size": GROUP, "bits": 4, "mode": "affine"});
        config["quantization"] = said.clone();
        config["quantization_config"] = said;
    }
    write_json(&folder.join(CONFIG), &config)?;
    let special = &exporter.tokenizer.special;
    let generation = json!({
        "bos_token_id": special.begin, "eos_token_id": exporter.stop_tokens(), "pad_token_id": special.pad,
    });
    write_json(&folder.join("generation_config.json"), &generation)?;
    let template = exporter.chats.then_some(exporter.template.source.as_str());
    exporter.tokenizer.save(folder, template)
}

fn write_weights(
    weights: &mut MergedWeights,
    folder: &Path,
    packed: bool,
    done: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let tensors = tensors(weights, packed);
    let shapes: BTreeMap<String, Vec<usize>> = weights.list().iter().cloned().collect();
    let dtype = weights.dtype();
    let mut written = 0;
    // Scales and biases follow the words that they belong to.
    let mut beside: [Vec<f32>; 2] = Default::default();
    stream_safetensors(&folder.join(WEIGHTS), &tensors, |tensor, put| {
        let name = &tensor.name;
        match (tensor.dtype, shapes.get(name)) {
            (DType::U32, Some(shape)) => {
                beside = Default::default();
                weights.parts(name, shape, |numbers| {
                    for row in numbers.to_vec2::<f32>()? {
                        let (words, scales, biases) = pack_groups(&row, dtype);
                        beside[0].extend(scales);
                        beside[1].extend(biases);
                        put(&flat(&words, |it| it.to_le_bytes()))?;
                    }
                    Ok(())
                })?;
            }
            (_, Some(shape)) => {
                weights.parts(name, shape, |numbers| put(&raw(&numbers, dtype, name)?))?;
            }
            (_, None) => {
                let numbers = &beside[usize::from(name.ends_with(".biases"))];
                let numbers = Tensor::from_slice(numbers, numbers.len(), &Device::Cpu)?;
                put(&raw(&numbers, dtype, name)?)?;
            }
        }
        written += tensor.bytes();
        done(written)
    })
}

/// The bytes of numbers in this dtype.
fn raw(numbers: &Tensor, dtype: DType, name: &str) -> Result<Vec<u8>> {
    let numbers = numbers.flatten_all()?;
    if dtype == DType::F16 {
        let largest = numbers.abs()?.max(0)?.to_scalar::<f32>()?;
        if largest > f32::from(half::f16::MAX) {
            let problem = format!("`{name}` has a number beyond what float16 holds: {largest}");
            return Err(Error::Data(problem));
        }
    }
    let numbers = numbers.to_dtype(dtype)?;
    Ok(match dtype {
        DType::F16 => flat(&numbers.to_vec1::<half::f16>()?, |it| it.to_le_bytes()),
        DType::BF16 => flat(&numbers.to_vec1::<half::bf16>()?, |it| it.to_le_bytes()),
        _ => flat(&numbers.to_vec1::<f32>()?, |it| it.to_le_bytes()),
    })
}

fn flat<T, const N: usize>(numbers: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    numbers.iter().flat_map(bytes).collect()
}

/// What mlx-lm loses of a model, in sentences.
///
/// Errors: [`Error::Data`] with what it computes otherwise at any length, or does not load.
pub(super) fn mlx_losses(weights: &MergedWeights) -> Result<Vec<String>> {
    let config = weights.config();
    let cant = |what: &str| {
        Err(Error::Data(format!(
            "mlx-lm computes this model otherwise: {what}; export it as GGUF"
        )))
    };
    let name = config.model_type.as_str();
    let slides = config.layers.iter().any(|it| it.window.is_some());
    if name == "mistral" && slides && config.layers.iter().all(|it| it.window.is_some()) {
        return cant("it does not load models whose layers all slide");
    }
    if matches!(name, "qwen3" | "smollm3") && config.output_bias {
        return cant("it knows no biases of attention in this family");
    }
    if name == "gemma2" && (config.scoring.soft_cap.is_none() || config.final_soft_cap.is_none()) {
        return cant("it needs the soft caps of this family");
    }
    let mut losses = Vec::new();
    for rope in &config.ropes {
        match &rope.scaling {
            RopeScaling::LongRope {
                original_context,
                short_factors,
                long_factors,
                ..
            } if short_factors != long_factors => losses.push(format!(
                "mlx-lm turns positions as for long texts at every length: within {} tokens it computes something else.",
                count(*original_context as u64)
            )),
            RopeScaling::Yarn {
                factor,
                attention_factor,
                ..
            } if (attention_factor - (0.1 * factor.ln() + 1.0)).abs() > 1e-6 => {
                return cant("it does not know the attention factor of its positions");
            }
            _ => {}
        }
    }
    if let Some(window) = config.shortest_window().filter(|_| name != "gemma3_text") {
        losses.push(format!(
            "mlx-lm does not know that layers of this model see no further than {} tokens back: within so many it computes the same, and \
             for longer texts something else.",
            count(window as u64)
        ));
    }
    if name == "gemma3_text" {
        losses.push(
            "mlx-lm rounds a factor of this family’s embeddings to 16 bits, so its numbers are near and not equal.".to_owned(),
        );
    }
    Ok(losses)
}
