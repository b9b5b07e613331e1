//! Models and runs on disk: what is read and written, in which files, and never half of it.

pub mod adapter;
#[cfg(feature = "chat-only")]
mod chat_only;
pub mod folder;
pub mod gguf;
mod header;
pub mod keep;
pub mod load;
pub mod merged;
pub mod model;
pub mod packed;
pub mod pytorch;
pub mod quantize;
pub mod save;
pub mod stream;
pub mod tensors;
pub mod whole;
