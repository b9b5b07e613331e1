//! The weights of a whole model, with its adapter added to them, some rows at a time.
//!
//! W + s B A is computed in f32 from whatever the base model is kept in. No more of a weight is there at once than is asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::Path,
};

use candle_core::{DType, Device, Tensor};

use super::{
    adapter::load_adapter,
    folder::ModelFolder,
    gguf::GgufWeights,
    load::{StoredWeights, decoder_config},
    quantize::Quantization,
};
use crate::{
    Result,
    arch::{
        Initial, WeightRequest, Weights, config::DecoderConfig, decoder::Decoder, lora::LoraConfig,
    },
    ops::weight::Quantized,
};

/// The most numbers of a weight that are there at once: 16 MiB in f32.
const PART_NUMBERS: usize = 1 << 22;

/// A model on disk whose weights are read by rows.
pub struct MergedWeights {
    base: Base,
    config: DecoderConfig,
    list: Vec<(String, Vec<usize>)>,
    adapter: Option<Adapter>,
    /// The names of the matrices of layers, which may be in blocks.
    matrices: BTreeSet<String>,
    /// The last of them that is, whose rows are asked for one part after the other.
    last: Option<(String, Quantized)>,
}

/// Where the weights of the base model lie.
enum Base {
    Safetensors(StoredWeights),
    Gguf(GgufWeights),
}

/// What is added to them.
struct Adapter {
    config: LoraConfig,
    /// A [r, i] and B [o, r] by the name of the weight.
    layers: BTreeMap<String, (Tensor, Tensor)>,
}

impl MergedWeights {
    /// The weights of `model`, with those of the adapter in a folder, if one is given. They are rounded to `quantize` first, where the
    /// adapter learned beside weights like that.
    ///
    /// Errors: those of a model or adapter that can't be loaded. Shapes are compared when a weight is read.
    pub fn open(
        model: &ModelFolder,
        adapter: Option<&Path>,
        quantize: Option<Quantization>,
    ) -> Result<Self> {
        let config = decoder_config(model)?;
        let mut outline = Outline::default();
        let mut decoder = Decoder::new(
            config.clone(),
            &mut outline,
            false,
            DType::F32,
            &Device::Cpu,
        )?;
        let adapter = adapter.map(|folder| {
            let config = load_adapter(&mut decoder, folder)?;
            let layers = layers(&decoder);
            Ok::<_, crate::Error>(Adapter { config, layers })
        });
        let base = match &model.gguf {
            Some(file) => {
                let file = file.clone();
                Base::Gguf(GgufWeights::new(
                    file,
                    &config,
                    false,
                    DType::F32,
                    &Device::Cpu,
                )?)
            }
            None => {
                let weights = StoredWeights::of(model, DType::F32, &Device::Cpu)?;
                Base::Safetensors(weights.in_blocks(quantize))
            }
        };
        Ok(Self {
            base,
            list: outline.list,
            adapter: adapter.transpose()?,
            config,
            matrices: outline.matrices,
            last: None,
        })
    }

    /// What the model is.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// Every weight by its name in a checkpoint, with its shape, in the order in which the model is built.
    pub fn list(&self) -> &[(String, Vec<usize>)] {
        &self.list
    }

    /// What the adapter is, where there is one.
    pub fn adapter(&self) -> Option<&LoraConfig> {
        self.adapter.as_ref().map(|it| &it.config)
    }

    /// The layers with an adapter, by the names of their weights: A [r, i] and B [o, r].
    pub fn adapted(&self) -> impl Iterator<Item = (&str, &Tensor, &Tensor)> {
        let layers = self.adapter.iter().flat_map(|it| &it.layers);
        layers.map(|(name, (a, b))| (name.as_str(), a, b))
    }

    /// The dtype in which a merged copy loses as little as its size allows: that of the files, or 16 bits for quantized blocks.
    pub fn dtype(&self) -> DType {
        let is_gemma = self.config.norm_offset != 0.0;
        match &self.base {
            Base::Safetensors(weights) => {
                // A norm has the dtype of the model where matrices are packed.
                let last = self.list.last().map(|(name, _)| name.as_str());
                let dtype = last.and_then(|name| weights.dtype_of(name));
                dtype
                    .filter(|it| matches!(it, DType::BF16 | DType::F16))
                    .unwrap_or(DType::F32)
            }
            // What such models compute goes beyond what F16 holds.
            Base::Gguf(_) if is_gemma => DType::BF16,
            Base::Gguf(_) => DType::F16,
        }
    }

    /// The dtype that holds every number of the base model before it is rounded: that of its files, or f32 where blocks or packed weights
    /// are widened.
    pub fn exact_dtype(&self) -> DType {
        match &self.base {
            Base::Safetensors(weights) if !weights.is_packed() => self.dtype(),
            _ => DType::F32,
        }
    }

    /// A weight of [`Self::list`] in f32, in parts that are whole heads and not larger than they have to be.
    pub fn parts(
        &mut self,
        name: &str,
        shape: &[usize],
        mut each: impl FnMut(Tensor) -> Result<()>,
    ) -> Result<()> {
        let rows = shape.first().copied().unwrap_or(1);
        let width: usize = shape.iter().skip(1).product();
        let part = (PART_NUMBERS / width.max(1)).next_multiple_of(self.config.head_dim.max(1));
        for start in (0..rows).step_by(part.max(1)) {
            each(self.rows(name, shape, start..(start + part).min(rows))?)?;
        }
        Ok(())
    }

    /// Some rows of a weight of [`Self::list`], in f32. All but the last part of a weight have to be whole heads.
    fn rows(&mut self, name: &str, shape: &[usize], rows: Range<usize>) -> Result<Tensor> {
        let request = WeightRequest {
            name,
            shape,
            initial: Initial::Constant(0.0),
        };
        let base = match self.rounded(&request)? {
            Some(weight) => weight.widen(rows.clone())?,
            None => self.base.rows(&request, rows.clone())?,
        };
        let Some(adapter) = &self.adapter else {
            return Ok(base);
        };
        let Some((a, b)) = adapter.layers.get(name) else {
            return Ok(base);
        };
        let change = b.narrow(0, rows.start, rows.len())?.matmul(a)?;
        Ok((base + change.affine(adapter.config.scale(), 0.0)?)?)
    }
}

impl MergedWeights {
    /// A matrix in the blocks that it is rounded to, where it is.
    fn rounded(&mut self, request: &WeightRequest) -> Result<Option<&Quantized>> {
        let Base::Safetensors(weights) = &mut self.base else {
            return Ok(None);
        };
        if !self.matrices.contains(request.name) {
            return Ok(None);
        }
        if self.last.as_ref().is_none_or(|it| it.0 != request.name) {
            let name = request.name.to_owned();
            self.last = weights.quantized(request)?.map(|it| (name, it));
        }
        Ok(self.last.as_ref().map(|(_, weight)| weight))
    }
}

impl Base {
    fn rows(&mut self, request: &WeightRequest, rows: Range<usize>) -> Result<Tensor> {
        match self {
            Self::Safetensors(weights) => weights.rows(request, rows),
            Self::Gguf(weights) => weights.rows(request, rows),
        }
    }
}

/// The two parts of each layer’s adapter, by the name of the layer’s weight.
fn layers(decoder: &Decoder) -> BTreeMap<String, (Tensor, Tensor)> {
    let parts = decoder.parameters().trainable();
    let parts: BTreeMap<&str, Tensor> = parts.map(|it| (it.name(), it.tensor())).collect();
    let pair = |(name, a): (&&str, &Tensor)| {
        let layer = name.strip_suffix(".lora_A.weight")?;
        let b = parts.get(format!("{layer}.lora_B.weight").as_str())?;
        Some((format!("{layer}.weight"), (a.clone(), b.clone())))
    };
    parts.iter().filter_map(pair).collect()
}

/// A list of what a model asks for, which gets zeros that take no memory.
#[derive(Default)]
struct Outline {
    list: Vec<(String, Vec<usize>)>,
    /// Those that could be in blocks.
    matrices: BTreeSet<String>,
}

impl Weights for Outline {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        self.list
            .push((request.name.to_owned(), request.shape.to_vec()));
        let zero = Tensor::zeros(1, DType::F32, &Device::Cpu)?;
        Ok(zero.broadcast_as(request.shape)?)
    }

    fn quantized(&mut self, request: &WeightRequest) -> Result<Option<Quantized>> {
        self.matrices.insert(request.name.to_owned());
        Ok(None)
    }
}
