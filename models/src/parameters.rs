//! The named weights of a model.
//!
//! A parameter's name is its name in the checkpoint, on every floor: files, gradients, optimizer state, events.
//! Deliberately absent: how weights are read from files (`checkpoint`), and how they are updated (`optim`).

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};

use crate::{
    Error, Result,
    tape::{Tape, Value},
};

/// One weight tensor. Cheap to clone: clones share the numbers.
#[derive(Debug, Clone)]
pub struct Parameter {
    name: std::sync::Arc<str>,
    /// A `Var`, since that is the tensor candle allows to be written in place.
    var: Var,
    trainable: bool,
}

impl Parameter {
    /// A weight under its checkpoint name. `tensor` is copied only if it already is somebody's variable.
    pub fn new(name: &str, tensor: &Tensor, trainable: bool) -> Result<Self> {
        Ok(Self {
            name: name.into(),
            var: Var::from_tensor(tensor)?,
            trainable,
        })
    }

    /// The name in the checkpoint: `model.layers.3.self_attn.q_proj.weight`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether training changes it.
    pub fn trainable(&self) -> bool {
        self.trainable
    }

    /// The numbers now. Shares storage: an update of the parameter shows in tensors taken before it.
    pub fn tensor(&self) -> Tensor {
        self.var.as_detached_tensor()
    }

    /// The weight as an input of operations: with a gradient slot if it is trainable and the pass is recorded.
    pub fn on(&self, tape: Option<&Tape>) -> Value {
        match tape {
            Some(tape) if self.trainable => tape.parameter(self),
            _ => Value::constant(self.tensor()),
        }
    }

    /// Overwrites the numbers with those of `tensor`, converted to this parameter's dtype and device.
    pub fn assign(&self, tensor: &Tensor) -> Result<()> {
        if tensor.shape() != self.var.shape() {
            return Err(Error::Data(format!(
                "`{}` is {:?} and can't take the value of a {:?}",
                self.name,
                self.var.dims(),
                tensor.dims()
            )));
        }
        let tensor = tensor
            .to_dtype(self.var.dtype())?
            .to_device(self.var.device())?;
        Ok(self.var.set(&tensor)?)
    }
}

/// The weights of a model, in the order of their names.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    by_name: BTreeMap<String, Parameter>,
}

impl Parameters {
    /// Adds a weight. A second one of the same name replaces the first.
    pub fn insert(&mut self, parameter: Parameter) {
        self.by_name.insert(parameter.name().to_owned(), parameter);
    }

    /// The weight of this name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.by_name.get(name)
    }

    /// All weights, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.by_name.values()
    }

    /// The weights that training changes, in the order of their names.
    pub fn trainable(&self) -> impl Iterator<Item = &Parameter> {
        self.iter().filter(|parameter| parameter.trainable)
    }

    /// How many numbers the weights hold in all.
    pub fn count(&self) -> usize {
        self.iter()
            .map(|parameter| parameter.var.elem_count())
            .sum()
    }

    /// How many numbers training changes.
    pub fn trainable_count(&self) -> usize {
        self.trainable()
            .map(|parameter| parameter.var.elem_count())
            .sum()
    }

    /// Bytes of all weights.
    pub fn bytes(&self) -> usize {
        self.iter()
            .map(|it| it.var.elem_count() * it.var.dtype().size_in_bytes())
            .sum()
    }
}

/// A tensor from numbers made on the host, in `dtype`, on `device`.
pub fn tensor_from_host(
    numbers: Vec<f32>,
    shape: &[usize],
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    Ok(Tensor::from_vec(numbers, shape, &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(device)?)
}
