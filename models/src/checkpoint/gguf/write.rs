//! Writes a whole model as one GGUF file, some rows of a weight at a time.

use std::{fs::File, io::BufWriter, path::Path};

use candle_core::Tensor;

use super::{
    keys::{Described, describe, query_factor},
    mix::Mix,
    names::{Difference, Family, order_heads},
};
use crate::{
    Error, Result,
    arch::config::DecoderConfig,
    checkpoint::{merged::MergedWeights, save::replace_with},
    gguf::{Key, Planned, Sink, TensorType, Writer},
};

/// A model that is going to be written.
pub struct GgufPlan {
    described: Described,
    writer: Writer,
    head_dim: usize,
    /// What each tensor is called in a checkpoint; nothing for those that follow from the configuration.
    names: Vec<Option<String>>,
}

impl GgufPlan {
    /// A file with these weights in this mix. `more` are keys beside those of the decoder: names, and the tokenizer.
    ///
    /// Errors: [`Error::Data`] with what llama.cpp can't compute.
    pub fn new(weights: &MergedWeights, mix: Mix, more: &[Key]) -> Result<Self> {
        let config = weights.config();
        let described = describe(config, mix)?;
        let mut names = Vec::new();
        let mut tensors = Vec::new();
        for (name, shape) in weights.list() {
            let there = described
                .family
                .name(name)
                .ok_or_else(|| Error::Data(format!("llama.cpp has no weight such as `{name}`")))?;
            let of = mix.of_weight(name, shape, config);
            tensors.push(Planned {
                name: there,
                of,
                shape: shape.clone(),
            });
            names.push(Some(name.clone()));
        }
        for (name, numbers) in &described.tensors {
            tensors.push(Planned {
                name: (*name).to_owned(),
                of: TensorType::F32,
                shape: vec![numbers.len()],
            });
            names.push(None);
        }
        let keys = [&described.keys, more].concat();
        Ok(Self {
            writer: Writer::new(&keys, tensors)?,
            head_dim: config.head_dim,
            described,
            names,
        })
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// What is lost, in sentences.
    pub fn losses(&self) -> &[String] {
        &self.described.losses
    }

    /// The longest text, in tokens, of which the file says enough to compute the same; nothing where any is.
    pub fn longest_text(&self) -> Option<usize> {
        self.described.longest_text
    }

    /// Writes the file as a whole, in the place of whatever is there. `wrote` hears how many bytes of weights are done, and ends
    /// it with an error.
    pub fn write(
        &self,
        weights: &mut MergedWeights,
        to: &Path,
        mut wrote: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        replace_with(to, |file: &File| {
            let mut out = BufWriter::new(file);
            let mut tensors = self.names.iter();
            let mut done = 0;
            self.writer.write(&mut out, |tensor, sink| {
                match tensors.next() {
                    Some(Some(name)) => self.weight(weights, name, tensor, sink)?,
                    _ => self.small(tensor, sink)?,
                }
                done += tensor.bytes()?;
                wrote(done)
            })?;
            let flushed = out
                .into_inner()
                .map_err(std::io::IntoInnerError::into_error);
            flushed
                .map_err(Error::file("write the model", to))
                .map(drop)
        })
    }

    fn small(&self, tensor: &Planned, sink: &mut Sink) -> Result<()> {
        let small = self.described.tensors.iter();
        let numbers = small.filter(|(name, _)| *name == tensor.name);
        let bytes = numbers.flat_map(|(_, numbers)| numbers.iter().flat_map(|it| it.to_le_bytes()));
        sink.put(&bytes.collect::<Vec<u8>>())
    }

    /// A weight of a checkpoint, by parts of whole heads.
    fn weight(
        &self,
        weights: &mut MergedWeights,
        name: &str,
        tensor: &Planned,
        sink: &mut Sink,
    ) -> Result<()> {
        let Planned { of, shape, .. } = tensor;
        weights.parts(name, shape, |numbers| {
            let rows = numbers.dim(0)?.max(1);
            let numbers: Vec<f32> = self.changed(name, numbers)?.flatten_all()?.to_vec1()?;
            if *of == TensorType::F16 && numbers.iter().any(|it| it.abs() > MAX_F16) {
                let problem = format!(
                    "`{name}` has a number beyond {MAX_F16}, which F16 does not hold; export it as BF16"
                );
                return Err(Error::Data(problem));
            }
            let blocks = of.blocks(&numbers);
            let blocks = blocks.ok_or_else(|| {
                Error::Data(format!("weights are not written as {}", of.name()))
            })?;
            let row_bytes = blocks.len() / rows;
            let family = self.described.family;
            sink.put(&order_heads(family, name, blocks, row_bytes, self.head_dim, true)?)
        })
    }

    /// The numbers that llama.cpp wants for those of a checkpoint.
    fn changed(&self, name: &str, numbers: Tensor) -> Result<Tensor> {
        let Described {
            family,
            query_factor,
            ..
        } = &self.described;
        let offset = match family.difference(name) {
            Difference::Offset => family.norm_offset,
            _ => 0.0,
        };
        let numbers = numbers.affine(1.0, offset)?;
        match takes_query_factor(family, name) && *query_factor != 1.0 {
            true => Ok(numbers.affine(*query_factor, 0.0)?),
            false => Ok(numbers),
        }
    }
}

/// The largest number of F16.
const MAX_F16: f32 = 65_504.0;

/// Whether this weight takes a scale of scores that llama.cpp has no key for: the norm of queries, or queries where there is none.
fn takes_query_factor(family: &Family, name: &str) -> bool {
    match family.model_type.as_str() {
        "gemma3_text" => name.ends_with(".q_norm.weight"),
        "gemma2" => name.ends_with(".q_proj.weight"),
        _ => false,
    }
}

/// What a change of this weight is multiplied with in a file, as the weight itself is.
pub fn factor_of_change(config: &DecoderConfig, family: &Family, name: &str) -> f64 {
    match takes_query_factor(family, name) {
        true => query_factor(config, family),
        false => 1.0,
    }
}
