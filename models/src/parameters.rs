//! The named weights of a model.
//!
//! A parameter's name is its name in the checkpoint, on every floor: files, gradients, optimizer state, events.
//! Deliberately absent: how weights are read from files (`checkpoint`), and how they are updated (`optim`).

use std::{collections::BTreeMap, sync::Arc};

use candle_core::{DType, Device, Tensor, Var};

use crate::{
    Error, Result,
    tape::{Tape, Value},
};

/// One weight tensor. Cheap to clone: clones share the numbers.
#[derive(Debug, Clone)]
pub struct Parameter {
    name: Arc<str>,
    tensor: Tensor,
    /// The same numbers as a `Var`, the tensor candle allows to be written in place. Present if training changes it.
    var: Option<Var>,
    is_embedding: bool,
    is_head: bool,
}

impl Parameter {
    /// A weight under its checkpoint name. The numbers of a trainable one are copied, so that nobody else's change.
    pub fn new(name: &str, tensor: &Tensor, trainable: bool) -> Result<Self> {
        let var = trainable.then(|| Var::from_tensor(tensor)).transpose()?;
        let tensor = var
            .as_ref()
            .map_or_else(|| tensor.clone(), Var::as_detached_tensor);
        Ok(Self {
            name: name.into(),
            tensor,
            var,
            is_embedding: false,
            is_head: false,
        })
    }

    /// The same weight, as a table whose rows are looked up.
    pub fn as_embedding(self) -> Self {
        Self {
            is_embedding: true,
            ..self
        }
    }

    /// The same weight, as what scores come from.
    pub fn as_head(self) -> Self {
        Self {
            is_head: true,
            ..self
        }
    }

    /// The name in the checkpoint: `model.layers.3.self_attn.q_proj.weight`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether training changes it.
    pub fn trainable(&self) -> bool {
        self.var.is_some()
    }

    /// Whether it is a table whose rows are looked up, also where the head reads it too.
    pub fn is_embedding(&self) -> bool {
        self.is_embedding
    }

    /// Whether scores come from it, and it is no table whose rows are looked up as well.
    pub fn is_head(&self) -> bool {
        self.is_head
    }

    /// The numbers now. Shares storage: an update of the parameter shows in tensors taken before it.
    pub fn tensor(&self) -> Tensor {
        self.tensor.clone()
    }

    /// The weight as an input of operations: with a gradient slot if it is trainable and the pass is recorded.
    pub fn on(&self, tape: Option<&Tape>) -> Value {
        match tape {
            Some(tape) if self.trainable() => tape.parameter(&self.name, self.tensor()),
            _ => Value::constant(self.tensor()),
        }
    }

    /// Overwrites the numbers of a trainable weight with those of `tensor`, converted to its dtype and device.
    pub fn assign(&self, tensor: &Tensor) -> Result<()> {
        let Some(var) = self
            .var
            .as_ref()
            .filter(|var| var.shape() == tensor.shape())
        else {
            let (name, dims) = (&self.name, self.tensor.dims());
            let frozen = if self.trainable() { "" } else { ", is frozen" };
            let given = tensor.dims();
            return Err(Error::Data(format!(
                "`{name}` is {dims:?}{frozen}, and can’t take the value of a {given:?}"
            )));
        };
        Ok(var.set(&tensor.to_dtype(var.dtype())?.to_device(var.device())?)?)
    }
}

/// The weights of a model, in the order of their names.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    by_name: BTreeMap<String, Parameter>,
    quantized: BTreeMap<String, InBlocks>,
}

/// The size of a weight in quantized blocks.
#[derive(Debug, Clone, Copy)]
struct InBlocks {
    count: usize,
    bytes: usize,
}

impl Parameters {
    /// Adds a weight. A second one of the same name replaces the first.
    pub fn insert(&mut self, parameter: Parameter) {
        self.by_name.insert(parameter.name().to_owned(), parameter);
    }

    /// Counts a weight of so many numbers in so many bytes of quantized blocks. It is frozen, and none of those that are handed out one by one.
    pub fn count_quantized(&mut self, name: &str, count: usize, bytes: usize) {
        let in_blocks = InBlocks { count, bytes };
        self.quantized.insert(name.to_owned(), in_blocks);
    }

    /// How many weights are in quantized blocks.
    pub fn quantized_count(&self) -> usize {
        self.quantized.len()
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
        self.iter().filter(|parameter| parameter.trainable())
    }

    /// How many numbers the weights hold in all.
    pub fn count(&self) -> usize {
        let dense = self.iter().map(|parameter| parameter.tensor.elem_count());
        let quantized = self.quantized.values().map(|it| it.count);
        dense.chain(quantized).sum()
    }

    /// How many numbers training changes.
    pub fn trainable_count(&self) -> usize {
        self.trainable()
            .map(|parameter| parameter.tensor.elem_count())
            .sum()
    }

    /// Bytes of all weights.
    pub fn bytes(&self) -> usize {
        let dense = self
            .iter()
            .map(|it| it.tensor.elem_count() * it.tensor.dtype().size_in_bytes());
        let quantized = self.quantized.values().map(|it| it.bytes);
        dense.chain(quantized).sum()
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
