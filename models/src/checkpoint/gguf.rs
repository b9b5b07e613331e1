//! Models as llama.cpp keeps them: one GGUF file with weights, configuration, tokenizer and template.
//!
//! `names` and `families.json` say once what tensors and switches are called there, and serve both ways. What llama.cpp
//! can't express is refused, and never left out silently.

pub mod config;
mod keys;
mod mix;
mod names;
mod weights;
mod write;

pub use mix::{AboutMix, MIXES, Mix};
pub use names::{Family, order_heads};
pub use weights::GgufWeights;
pub use write::{GgufPlan, factor_of_change};
