//! The architectures, and how a checkpoint's `config.json` finds its own.
//!
//! An architecture is built from a [`Weights`] source that it asks for every tensor by its checkpoint name, so a
//! checkpoint loads without renaming, and a model from scratch is built by the same code from drawn numbers.
//!
//! Deliberately absent: files, optimizers, loops, sampling.

pub mod chat_only;
pub mod config;
pub mod decoder;
pub mod families;
pub mod initial;
pub mod kv_cache;
mod layers;
pub mod lora;
pub mod network;
pub mod picture;
pub mod sites;
mod size;
pub mod steering;
pub mod trm;

use candle_core::Tensor;

use crate::{Result, ops::weight::Quantized};

/// What an architecture asks for: one tensor.
#[derive(Debug, Clone)]
pub struct WeightRequest<'a> {
    /// The name in the checkpoint.
    pub name: &'a str,
    /// The shape it must have.
    pub shape: &'a [usize],
    /// What a model from scratch starts with.
    pub initial: Initial,
}

/// What a tensor of an untrained model holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Initial {
    /// Normal numbers with this standard deviation around 0.
    Normal(f64),
    /// Normal numbers with this standard deviation around 0, none of which is more than 2.2737 deviations away.
    Truncated(f64),
    /// Numbers evenly between ± this.
    Uniform(f64),
    /// The same, but of a convolution [o, c, k, k] the first c outputs pass their input on as it is.
    Identity(f64),
    /// The same number everywhere.
    Constant(f64),
}

/// Where an architecture gets its weights: a checkpoint, or a generator.
pub trait Weights {
    /// The tensor, on the device and in the dtype it is to be kept in. Errors name the tensor.
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor>;

    /// The matrix of a linear layer in quantized blocks, on the device, where the source keeps it so.
    fn quantized(&mut self, _request: &WeightRequest) -> Result<Option<Quantized>> {
        Ok(None)
    }

    /// The same of a table whose numbers were asked for too: scores are found faster in blocks, where they are found on the processor.
    fn table_in_blocks(&mut self, _request: &WeightRequest) -> Result<Option<Quantized>> {
        Ok(None)
    }
}
