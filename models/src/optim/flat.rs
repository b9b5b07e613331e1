//! Many tensors as one: where each parameter's numbers lie in one long vector.
//!
//! State kept this way is one allocation, and a device without a kernel of ours changes it with one set of operations
//! instead of one per parameter. What is kept in 8 bits lies in blocks, and no block is of two parameters.

use std::{collections::BTreeMap, ops::Range};

use candle_core::{DType, Device, Tensor};

use crate::{Error, Result, parameters::Parameter};

/// How many weights share a scale in what is kept in 8 bits.
pub(super) const BLOCK: usize = 256;

/// How what is kept of weights lies in its vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A number for each weight, in f32.
    Number,
    /// A byte for each weight, in blocks.
    Code,
    /// A number for each block, in f32.
    Scale,
}

impl Form {
    pub(super) fn dtype(self) -> DType {
        match self {
            Self::Number | Self::Scale => DType::F32,
            Self::Code => DType::U8,
        }
    }
}

/// The order in which parameters lie in a vector.
#[derive(Debug, Clone)]
pub(super) struct Flat {
    pub(super) slices: Vec<Slice>,
    /// Behind the last.
    end: Extent,
    device: Device,
}

/// One parameter's place.
#[derive(Debug, Clone)]
pub(super) struct Slice {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) place: Extent,
}

/// Which numbers and which blocks are a parameter's.
#[derive(Debug, Clone, Default)]
pub(super) struct Extent {
    numbers: Range<usize>,
    blocks: Range<usize>,
}

impl Extent {
    /// The place behind it, of so many numbers.
    fn next(&self, count: usize) -> Self {
        let (number, block) = (self.numbers.end, self.blocks.end);
        Self {
            numbers: number..number + count,
            blocks: block..block + count.div_ceil(BLOCK),
        }
    }

    /// Where it lies in a vector of this form, whole blocks of codes.
    pub(super) fn range(&self, form: Form) -> Range<usize> {
        match form {
            Form::Number => self.numbers.clone(),
            Form::Code => self.blocks.start * BLOCK..self.blocks.end * BLOCK,
            Form::Scale => self.blocks.clone(),
        }
    }

    /// This part of a vector, whole blocks of codes. It shares the numbers.
    pub(super) fn of(&self, vector: &Tensor, form: Form) -> Result<Tensor> {
        let range = self.range(form);
        Ok(vector.narrow(0, range.start, range.len())?)
    }
}

impl Flat {
    /// The places of these parameters, in the given order. All must be f32 and on one device.
    pub(super) fn new<'a>(parameters: impl Iterator<Item = &'a Parameter>) -> Result<Self> {
        let mut flat = Self {
            slices: Vec::new(),
            end: Extent::default(),
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
            flat.end = flat.end.next(tensor.elem_count());
            flat.slices.push(Slice {
                name: parameter.name().to_owned(),
                shape: tensor.dims().to_vec(),
                place: flat.end.clone(),
            });
        }
        Ok(flat)
    }

    /// Where the parameters are.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// A vector with a place for every parameter, all 0.
    pub(super) fn zeros(&self, form: Form) -> Result<Tensor> {
        let length = self.end.range(form).end;
        Ok(Tensor::zeros(length, form.dtype(), &self.device)?)
    }

    /// The tensors, given in this order, one after the other: always a copy.
    pub(super) fn gather<'a>(&self, tensors: impl Iterator<Item = &'a Tensor>) -> Result<Tensor> {
        let flat: Vec<Tensor> = tensors
            .map(|tensor| tensor.flatten_all())
            .collect::<Result<_, _>>()?;
        // Of one tensor, `cat` makes no copy.
        Ok(match flat.as_slice() {
            [] => self.zeros(Form::Number)?,
            [only] => only.force_contiguous()?,
            several => Tensor::cat(several, 0)?,
        })
    }

    /// Each parameter's part of `vector` by name. They share its numbers.
    pub(super) fn by_name<'a>(
        &'a self,
        vector: &'a Tensor,
        form: Form,
    ) -> impl Iterator<Item = Result<(&'a str, Tensor)>> {
        self.slices
            .iter()
            .map(move |slice| Ok((slice.name.as_str(), slice.of(vector, form)?)))
    }

    /// Overwrites `vector` with tensors by name, removing them from `tensors`. `suffix` follows the parameter's name.
    ///
    /// Errors: those of [`Slice::take`].
    pub(super) fn load(
        &self,
        vector: &Tensor,
        form: Form,
        suffix: &str,
        tensors: &mut BTreeMap<String, Tensor>,
    ) -> Result<()> {
        for slice in &self.slices {
            let tensor = slice.take(form, suffix, tensors)?;
            let tensor = tensor.to_dtype(form.dtype())?.to_device(&self.device)?;
            write(&slice.of(vector, form)?, &tensor)?;
        }
        Ok(())
    }
}

impl Slice {
    /// This parameter's part of `vector`, in its shape, or one number for each block. It shares the numbers.
    pub(super) fn of(&self, vector: &Tensor, form: Form) -> Result<Tensor> {
        let part = self.place.of(vector, form)?;
        Ok(match form {
            Form::Scale => part,
            Form::Number | Form::Code => {
                let count = self.place.numbers.len();
                part.narrow(0, 0, count)?.reshape(self.shape.as_slice())?
            }
        })
    }

    /// The shape of [`Slice::of`].
    pub(super) fn dims(&self, form: Form) -> Vec<usize> {
        match form {
            Form::Scale => vec![self.place.blocks.len()],
            Form::Number | Form::Code => self.shape.clone(),
        }
    }

    /// Removes this parameter’s tensor from `tensors`. `suffix` follows the parameter’s name.
    ///
    /// Errors: [`Error::Data`] naming it where it is missing, has another shape, or is no bytes where these are kept.
    pub(super) fn take(
        &self,
        form: Form,
        suffix: &str,
        tensors: &mut BTreeMap<String, Tensor>,
    ) -> Result<Tensor> {
        let key = format!("{}{suffix}", self.name);
        let tensor = tensors
            .remove(&key)
            .ok_or_else(|| Error::Data(format!("`{key}` is missing from the saved state")))?;
        let dims = self.dims(form);
        if tensor.dims() != dims {
            return Err(Error::Data(format!(
                "`{key}` is {:?} in the saved state and {dims:?} in the model",
                tensor.dims()
            )));
        }
        if (form == Form::Code) != (tensor.dtype() == DType::U8) {
            return Err(Error::Data(format!(
                "`{key}` is {} in the saved state and {} in this optimizer",
                tensor.dtype().as_str(),
                form.dtype().as_str()
            )));
        }
        Ok(tensor)
    }
}

/// Overwrites the numbers of `target` with those of `source`, which has the same shape, dtype and device.
pub(super) fn write(target: &Tensor, source: &Tensor) -> Result<()> {
    let (target, source) = (target.flatten_all()?, source.flatten_all()?.contiguous()?);
    Ok(target.slice_set(&source, 0, 0)?)
}

/// Overwrites some rows [n] of a table with those of `source` [n, width]. No row is among them twice.
pub(crate) fn write_rows(table: &Tensor, rows: &Tensor, source: &Tensor) -> Result<()> {
    let places = rows.unsqueeze(1)?.broadcast_as(source.shape())?;
    Ok(table.scatter_set(&places.contiguous()?, source, 0)?)
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
