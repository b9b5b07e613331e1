//! Models as llama.cpp keeps them: one GGUF file with weights, configuration, tokenizer and template.
//!
//! `names` and `families.json` say once what tensors and switches are called there, and serve both ways. What llama.cpp
//! can't express is refused, and never left out silently.

pub mod config;
mod names;
mod weights;

pub use names::Family;
pub use weights::GgufWeights;
