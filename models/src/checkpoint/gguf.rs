//! Models as llama.cpp keeps them: one GGUF file with weights, configuration, tokenizer and template.
//!
//! `names` and `families.json` say once what tensors and switches are called there, and serve both ways. What llama.cpp
//! can't express is refused, and never left out silently.

use crate::gguf::Gguf;

mod chat_only;
pub mod config;
#[cfg(feature = "chat-only")]
mod joined;
mod keys;
mod mix;
mod names;
mod reading;
mod weights;
mod write;

#[cfg(feature = "chat-only")]
pub(super) use joined::Joined;
pub use mix::{AboutMix, MIXES, Mix};
pub use names::{Family, order_heads};
pub use weights::GgufWeights;
pub use write::{GgufPlan, factor_of_change};

/// How many numbers of its layers a file has in quantized blocks, and the bytes of those.
pub fn layers_in_blocks(file: &Gguf) -> (u64, u64) {
    let layers = file.tensors.iter().filter(|(name, stored)| {
        name.starts_with("blk.") && stored.shape.len() == 2 && stored.of.is_quantized()
    });
    layers.fold((0, 0), |(count, bytes), (_, stored)| {
        let numbers: usize = stored.shape.iter().product();
        (
            count + numbers as u64,
            bytes + file.bytes(stored).len() as u64,
        )
    })
}
