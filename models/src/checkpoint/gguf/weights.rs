//! The weights of a GGUF file, by their names in a checkpoint.

use std::{borrow::Cow, cell::RefCell, collections::BTreeSet, sync::Arc};

use candle_core::{
    DType, Device, Tensor,
    quantized::{QStorage, QTensor},
};

use super::names::{Difference, Family, swap_halves};
use crate::{
    Error, Result,
    arch::{WeightRequest, Weights, config::DecoderConfig},
    gguf::{Gguf, Stored, TensorType},
};

/// Tensors that follow from the configuration, in which they were read.
const OF_CONFIG: [&str; 3] = [
    "rope_freqs.weight",
    "rope_factors_long.weight",
    "rope_factors_short.weight",
];

/// A file, from which tensors are taken one by one.
pub struct GgufWeights {
    file: Arc<Gguf>,
    family: &'static Family,
    head_dim: usize,
    /// Whether matrices in quantized blocks stay so.
    keeps_blocks: bool,
    dtype: DType,
    device: Device,
    taken: RefCell<BTreeSet<String>>,
}

impl GgufWeights {
    /// The weights of a file for the decoder that it describes. What is no quantized block is kept in `dtype`; neither are they,
    /// unless `keeps_blocks`.
    pub fn new(
        file: Arc<Gguf>,
        config: &DecoderConfig,
        keeps_blocks: bool,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let family = super::config::family(&file)?;
        Ok(Self {
            file,
            family,
            head_dim: config.head_dim,
            keeps_blocks,
            dtype,
            device: device.clone(),
            taken: RefCell::default(),
        })
    }

    /// An error that names a tensor of which the model that was built knows nothing, if there is one.
    pub fn check_all_taken(&self) -> Result<()> {
        let taken = self.taken.borrow();
        let names = self.file.tensors.keys();
        let left = names.filter(|it| !taken.contains(*it) && !OF_CONFIG.contains(&it.as_str()));
        match left.collect::<Vec<_>>().as_slice() {
            [] => Ok(()),
            [first, more @ ..] => {
                let problem = format!(
                    "`{first}` (and {} more) is in the file, and not in a model of the architecture `{}`",
                    more.len(),
                    self.family.architecture
                );
                Err(Error::format(&self.file.path, problem))
            }
        }
    }

    /// The tensor that was asked for, and its bytes with rows as a checkpoint has them.
    fn stored(&self, request: &WeightRequest) -> Result<(&Stored, Cow<'_, [u8]>)> {
        let missing = || {
            let problem = format!("`{}` is not in the file", request.name);
            Error::format(&self.file.path, problem)
        };
        let name = self.family.name(request.name).ok_or_else(missing)?;
        let stored = self.file.tensors.get(&name).ok_or_else(missing)?;
        if stored.shape != request.shape {
            let (found, expected) = (&stored.shape, request.shape);
            let problem = format!("`{name}` is {found:?}, and its keys say {expected:?}");
            return Err(Error::format(&self.file.path, problem));
        }
        self.taken.borrow_mut().insert(name.clone());
        let bytes = self.file.bytes(stored);
        if !stored.of.has_finite_scales(bytes) {
            let problem = format!("`{name}` is NaN or infinite, so the model can’t be used");
            return Err(Error::format(&self.file.path, problem));
        }
        let is_swapped = matches!(
            self.family.difference(request.name),
            Difference::HalvesOfHeads | Difference::HalvesOfKeyHeads
        );
        if !is_swapped {
            return Ok((stored, Cow::Borrowed(bytes)));
        }
        let rows = stored.shape.first().copied().unwrap_or(1).max(1);
        let swapped = swap_halves(bytes, bytes.len() / rows, self.head_dim, false)?;
        Ok((stored, Cow::Owned(swapped)))
    }

    fn blocks(&self, stored: &Stored, bytes: Cow<[u8]>, device: &Device) -> Result<QTensor> {
        let storage = QStorage::from_data(bytes, device, stored.of.of_candle())?;
        Ok(QTensor::new(storage, stored.shape.as_slice())?)
    }
}

impl Weights for GgufWeights {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let (stored, bytes) = self.stored(request)?;
        let on_host = match stored.of {
            TensorType::F32 => {
                Tensor::from_raw_buffer(&bytes, DType::F32, &stored.shape, &Device::Cpu)?
            }
            TensorType::F16 => {
                Tensor::from_raw_buffer(&bytes, DType::F16, &stored.shape, &Device::Cpu)?
            }
            TensorType::BF16 => {
                Tensor::from_raw_buffer(&bytes, DType::BF16, &stored.shape, &Device::Cpu)?
            }
            _ => self
                .blocks(stored, bytes, &Device::Cpu)?
                .dequantize(&Device::Cpu)?,
        };
        let plain = match self.family.difference(request.name) {
            Difference::Offset => (on_host.to_dtype(DType::F32)? - self.family.norm_offset)?,
            _ => on_host,
        };
        Ok(plain.to_dtype(self.dtype)?.to_device(&self.device)?)
    }

    fn quantized(&mut self, request: &WeightRequest) -> Result<Option<QTensor>> {
        if !self.keeps_blocks {
            return Ok(None);
        }
        let (stored, bytes) = self.stored(request)?;
        match stored.of.is_quantized() {
            true => self.blocks(stored, bytes, &self.device).map(Some),
            false => Ok(None),
        }
    }
}
