//! The direction of a probe as a GGUF file, which llama.cpp adds to the states of a model while it writes: a control vector.
//!
//! | there | is |
//! |---|---|
//! | `general.architecture` | `controlvector` |
//! | `controlvector.model_hint` | the model’s `model_type` |
//! | `controlvector.layer_count` | how many layers can have a direction: all but the first |
//! | `direction.K` | f32 [d], added to what comes out of block K, counted from 0: to our `block.K` |
//!
//! llama.cpp has none for block 0, and none for what enters the first block or leaves the final norm. It adds them at every token, the
//! first one of a text too.

use std::{io::Cursor, path::Path};

use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value},
    },
};

use super::{direction::Direction, folder::Probes};
use crate::{Error, Result, arch::sites::Site, checkpoint::save::replace_file};

/// Writes the direction of a probe into a file, so long, which is there as a whole or not at all.
///
/// Errors: those of [`Probes::direction`]; [`Error::Data`] where llama.cpp can’t add it; [`Error::File`] when the disk refuses.
pub fn export(probes: &Probes, probe: usize, length: f64, path: &Path) -> Result<Direction> {
    let direction = probes.direction(probe)?;
    let layer = match direction.site {
        Site::Block(layer @ 1..) => layer,
        site => {
            return Err(Error::Data(format!(
                "the probe of `{}` reads `{site}`, and a control vector can be added after the blocks from `block.1` on",
                direction.label
            )));
        }
    };
    let numbers: Vec<f32> = direction
        .unit
        .iter()
        .map(|it| (f64::from(*it) * length) as f32)
        .collect();
    if numbers.iter().any(|it| !it.is_finite()) {
        let problem = format!(
            "a direction {length} long has numbers that are too large for f32; ask for less strength"
        );
        return Err(Error::Data(problem));
    }
    let width = numbers.len();
    let tensor = Tensor::from_vec(numbers, width, &Device::Cpu)?;
    let tensor = QTensor::quantize(&tensor, GgmlDType::F32)?;
    let states = &probes.about.states;
    let layers = i32::try_from(states.blocks.saturating_sub(1)).unwrap_or(i32::MAX);
    let metadata = [
        (
            "general.architecture",
            Value::String("controlvector".to_owned()),
        ),
        (
            "controlvector.model_hint",
            Value::String(states.model.family.clone()),
        ),
        ("controlvector.layer_count", Value::I32(layers)),
    ];
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(name, it)| (*name, it)).collect();
    let name = format!("direction.{layer}");
    let mut bytes = Cursor::new(Vec::new());
    gguf_file::write(&mut bytes, &metadata, &[(&name, &tensor)])?;
    replace_file(path, &bytes.into_inner())?;
    Ok(direction)
}
