//! Everything in Anneal that learns: devices, operations, architectures, data, training, generation.
//!
//! Deliberately absent: network, window, async, printing, environment variables, the home folder. This crate gets
//! paths, a seed and an observer, and returns values and errors.

pub mod arch;
pub mod bench;
pub mod check;
pub mod checkpoint;
pub mod data;
pub mod device;
pub mod embedded;
pub mod error;
pub mod figures;
pub mod generate;
pub mod gguf;
mod instead;
#[cfg(feature = "cuda")]
mod library;
pub mod limits;
pub mod ops;
pub mod optim;
pub mod parameters;
pub mod profile;
pub mod random;
pub mod tape;
pub mod tasks;
pub mod train;

pub use error::{Error, ReadAs, Result, caught, on_a_deep_stack, panic_message};
