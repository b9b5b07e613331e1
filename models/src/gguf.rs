//! GGUF, the file format of llama.cpp: what is said of a model by keys, and its tensors, in one file.
//!
//! All numbers are little endian. A text is its length in bytes (u64) and UTF-8.
//!
//! | part | content |
//! |---|---|
//! | header | `GGUF`, version u32, tensors u64, keys u64 |
//! | each key | name, type u32, value |
//! | each tensor | name, dimensions u32, each of them u64 with the innermost first, type u32, where it begins u64 |
//! | padding | zeros up to a multiple of the alignment |
//! | data | the tensors in that order, each padded likewise |
//!
//! After the description of the format in ggml (docs/gguf.md) and the checks of llama.cpp's reader, which this one makes too.
//! Deliberately absent: what keys and names of tensors mean, which is that of `checkpoint` and `data`.

mod quantize;
mod read;
mod types;
mod write;

pub use read::{Gguf, Stored};
pub use types::TensorType;
pub use write::{Planned, Sink, Writer};

/// What a file begins with.
const MAGIC: [u8; 4] = *b"GGUF";
/// The version that is written. Version 2 has the same layout, and is read.
const VERSION: u32 = 3;
/// What tensors are aligned to where a file doesn't say it.
const ALIGNMENT: u64 = 32;
/// The key that says it.
const ALIGNMENT_KEY: &str = "general.alignment";
/// The bytes of a name that llama.cpp reads, at most.
const NAME_BYTES: usize = 63;

/// A key with what it says.
pub type Key = (String, Value);

/// What a key says.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number of 32 bits, as which sizes are written.
    U32(u32),
    /// A whole number of any other width.
    Integer(i128),
    /// A number of 32 bits.
    F32(f32),
    /// A number of 64 bits.
    F64(f64),
    /// Yes or no.
    Bool(bool),
    /// A string of any length, in UTF-8.
    Text(String),
    /// Whole numbers of 32 bits with their signs, as which most lists are written.
    I32s(Vec<i32>),
    /// Whole numbers of any other width.
    Integers(Vec<i64>),
    /// Numbers.
    F32s(Vec<f32>),
    /// Each yes or no.
    Bools(Vec<bool>),
    /// Texts.
    Texts(Vec<String>),
}

impl Value {
    /// A whole number that is not negative, of whatever width.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::U32(value) => Some(u64::from(*value)),
            Self::Integer(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// A number, whole or not.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::F32(value) => Some(f64::from(*value)),
            Self::F64(value) => Some(*value),
            _ => self.as_u64().map(|it| it as f64),
        }
    }

    /// Yes or no.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// What it says, if it is a text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }

    /// A list of texts.
    pub fn as_texts(&self) -> Option<&[String]> {
        match self {
            Self::Texts(values) => Some(values),
            _ => None,
        }
    }

    /// A list of numbers.
    pub fn as_f32s(&self) -> Option<&[f32]> {
        match self {
            Self::F32s(values) => Some(values),
            _ => None,
        }
    }

    /// A list of whole numbers, of whatever width.
    pub fn to_integers(&self) -> Option<Vec<i64>> {
        match self {
            Self::I32s(values) => Some(values.iter().map(|it| i64::from(*it)).collect()),
            Self::Integers(values) => Some(values.clone()),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
