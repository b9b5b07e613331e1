//! Many tensors as one: where each parameter's numbers lie in one long vector.
//!
//! State kept this way is one allocation, and a device without a kernel of ours changes it with one set of operations
//! instead of one per parameter.

use std::{collections::BTreeMap, ops::Range};

use candle_core::{DType, Device, Tensor};

use crate::{Error, Result, parameters::Parameter};

/// The order in which parameters lie in a vector.
#[derive(Debug, Clone)]
pub(super) struct Flat {
    pub(super) slices: Vec<Slice>,
    len: usize,
    device: Device,
}

/// One parameter's place.
#[derive(Debug, Clone)]
pub(super) struct Slice {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) range: Range<usize>,
}

impl Flat {
    /// The places of these parameters, in the given order. All must be f32 and on one device.
    pub(super) fn new<'a>(parameters: impl Iterator<Item = &'a Parameter>) -> Result<Self> {
        let mut flat = Self {
            slices: Vec::new(),
            len: 0,
            device: Device::Cpu,
        };
        for parameter in parameters {
            let tensor = parameter.tensor();
            if tensor.dtype() != DType::F32 {
                return Err(Error::Data(format!(
                    "`{}` is {}; weights that are trained must be f32",
                    parameter.name(),
                    tensor.dtype().as_str()
                )));
            }
            flat.device = tensor.device().clone();
            let end = flat.len + tensor.elem_count();
            flat.slices.push(Slice {
                name: parameter.name().to_owned(),
                shape: tensor.dims().to_vec(),
                range: flat.len..end,
            });
            flat.len = end;
        }
        Ok(flat)
    }

    /// Where the parameters are.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// A vector with a place for every parameter, all 0.
    pub(super) fn zeros(&self) -> Result<Tensor> {
        Ok(Tensor::zeros(self.len, DType::F32, &self.device)?)
    }

    /// The tensors, given in this order, one after the other: always a copy.
    pub(super) fn gather<'a>(&self, tensors: impl Iterator<Item = &'a Tensor>) -> Result<Tensor> {
        let flat: Vec<Tensor> = tensors
            .map(|tensor| tensor.flatten_all())
            .collect::<Result<_, _>>()?;
        // Of one tensor, `cat` makes no copy.
        Ok(match flat.as_slice() {
            [] => self.zeros()?,
            [only] => only.force_contiguous()?,
            several => Tensor::cat(several, 0)?,
        })
    }

    /// Each parameter's part of `vector` by name. They share its numbers.
    pub(super) fn by_name<'a>(
        &'a self,
        vector: &'a Tensor,
    ) -> impl Iterator<Item = Result<(&'a str, Tensor)>> {
        self.slices
            .iter()
            .map(|slice| Ok((slice.name.as_str(), slice.of(vector)?)))
    }

    /// Overwrites `vector` with tensors by name, removing them from `tensors`. `suffix` follows the parameter's name.
    ///
    /// Errors: [`Error::Data`] naming the first that is missing or has another shape.
    pub(super) fn load(
        &self,
        vector: &Tensor,
        suffix: &str,
        tensors: &mut BTreeMap<String, Tensor>,
    ) -> Result<()> {
        for slice in &self.slices {
            let key = format!("{}{suffix}", slice.name);
            let tensor = tensors
                .remove(&key)
                .ok_or_else(|| Error::Data(format!("`{key}` is missing from the saved state")))?;
            if tensor.dims() != slice.shape {
                return Err(Error::Data(format!(
                    "`{key}` is {:?} in the saved state and {:?} in the model",
                    tensor.dims(),
                    slice.shape
                )));
            }
            let tensor = tensor.to_dtype(DType::F32)?.to_device(&self.device)?;
            write(&slice.of(vector)?, &tensor)?;
        }
        Ok(())
    }
}

impl Slice {
    /// This parameter's part of `vector`, in its shape. It shares the numbers.
    pub(super) fn of(&self, vector: &Tensor) -> Result<Tensor> {
        let part = vector.narrow(0, self.range.start, self.range.len())?;
        Ok(part.reshape(self.shape.as_slice())?)
    }
}

/// Overwrites the numbers of `target` with those of `source`, which has the same shape, dtype and device.
pub(super) fn write(target: &Tensor, source: &Tensor) -> Result<()> {
    let (target, source) = (target.flatten_all()?, source.flatten_all()?.contiguous()?);
    Ok(target.slice_set(&source, 0, 0)?)
}

/// Says which tensors are left over after all known ones were loaded.
pub(super) fn refuse_extra(tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    match tensors.keys().next() {
        None => Ok(()),
        Some(key) => Err(Error::Data(format!(
            "`{key}` is in the saved state, with {} tensors in all that this model doesn’t train",
            tensors.len()
        ))),
    }
}
