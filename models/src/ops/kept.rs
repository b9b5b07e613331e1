//! Keys and values as a cache keeps them: as they are computed, or in fewer bytes, which are read faster and let longer texts fit.
//!
//! f16 has 11 significant bits, which no model was seen to need more of; numbers of 8 bits have a scale for each 32 of them (Q8_0 of
//! ggml). Deliberately absent: which is kept, which whoever writes chooses, and attention over them.

use candle_core::{
    DType, Device, Tensor,
    quantized::{GgmlDType, QStorage, QTensor},
};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Numbers of 8 bits that share a scale, and the bytes of them all.
pub(crate) const GROUP: usize = 32;
pub(crate) const GROUP_BYTES: usize = 34;

/// How keys and values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "lowercase")]
pub enum CacheType {
    /// In f16 where a processor reads weights in blocks, otherwise as they are computed.
    #[default]
    Auto,
    /// As they are computed.
    Full,
    /// In 2 bytes each. On a GPU, where the dtype of the model decides, as they are computed.
    F16,
    /// In 8 bits each, and 16 for each 32 of them. In f16 where the width of a head is no multiple of that; on a GPU as with f16.
    Q8,
}

impl CacheType {
    /// What it comes to for heads of this width on this device: never [`CacheType::Auto`].
    pub fn resolved(self, width: usize, has_blocks: bool, device: &Device) -> Self {
        match self {
            _ if !device.is_cpu() => Self::Full,
            Self::Auto if has_blocks => Self::F16,
            Self::Auto => Self::Full,
            Self::Q8 if !width.is_multiple_of(GROUP) => Self::F16,
            chosen => chosen,
        }
    }

    /// Keys or values [b, t, k, e] as they are kept: of the same shape, or in 8 bits [b, t, k, bytes].
    pub(crate) fn keep(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Auto | Self::Full => Ok(x.contiguous()?),
            Self::F16 => Ok(x.contiguous()?.to_dtype(DType::F16)?),
            Self::Q8 => {
                let (rows, tokens, heads, width) = x.dims4()?;
                // Blocks are made of all that a tensor's memory holds, and x may be one row of it.
                let x = x.force_contiguous()?;
                let flat = x.reshape((rows * tokens * heads, width))?;
                let kept = QTensor::quantize(&flat, GgmlDType::Q8_0)?
                    .data()?
                    .into_owned();
                let shape = (rows, tokens, heads, width / GROUP * GROUP_BYTES);
                Ok(Tensor::from_vec(kept, shape, x.device())?)
            }
        }
    }
}

/// Numbers in f32, [b, t, k, e], of those that were kept in fewer bytes.
pub(crate) fn widen(kept: &Tensor) -> Result<Tensor> {
    if kept.dtype() != DType::U8 {
        return Ok(kept.to_dtype(DType::F32)?);
    }
    let (rows, tokens, heads, bytes) = kept.dims4()?;
    let width = bytes / GROUP_BYTES * GROUP;
    let all = kept.contiguous()?.flatten_all()?.to_vec1::<u8>()?;
    let storage = QStorage::from_data(all.into(), kept.device(), GgmlDType::Q8_0)?;
    let flat = QTensor::new(storage, (rows * tokens * heads, width))?;
    let wide = flat.dequantize(kept.device())?;
    Ok(wide.reshape((rows, tokens, heads, width))?)
}
