//! Safetensors written a piece at a time, where `safetensors` itself wants all bytes of a tensor at once.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use candle_core::DType;
use serde_json::{Map, Value as Json, json};

use crate::{Error, Result};

/// A tensor that is going to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedTensor {
    /// Its name.
    pub name: String,
    /// What its numbers are.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl StreamedTensor {
    /// The bytes of its data.
    pub fn bytes(&self) -> u64 {
        (self.shape.iter().product::<usize>() * self.dtype.size_in_bytes()) as u64
    }
}

/// The header of a file with these tensors, in this order.
fn header(tensors: &[StreamedTensor]) -> Vec<u8> {
    let mut fields = Map::new();
    // transformers refuses files that don't say what framework they are for.
    fields.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    let mut start = 0;
    for tensor in tensors {
        let end = start + tensor.bytes();
        let dtype = match tensor.dtype {
            DType::F16 => "F16",
            DType::BF16 => "BF16",
            DType::F64 => "F64",
            DType::U32 => "U32",
            DType::U8 => "U8",
            _ => "F32",
        };
        let about = json!({"dtype": dtype, "shape": tensor.shape, "data_offsets": [start, end]});
        fields.insert(tensor.name.clone(), about);
        start = end;
    }
    let mut text = Json::Object(fields).to_string().into_bytes();
    // Numbers begin at a multiple of their size.
    text.resize(text.len().next_multiple_of(8), b' ');
    text
}

/// The bytes of a file with these tensors.
pub fn streamed_bytes(tensors: &[StreamedTensor]) -> u64 {
    let data = tensors.iter().map(StreamedTensor::bytes);
    8 + header(tensors).len() as u64 + data.sum::<u64>()
}

/// Writes tensors into a folder that is being made. `data` puts the bytes of each, in as many pieces as it likes.
pub fn stream_safetensors(
    path: &Path,
    tensors: &[StreamedTensor],
    mut data: impl FnMut(&StreamedTensor, &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let failed = || Error::file("write the weights", path);
    let mut out = BufWriter::new(File::create(path).map_err(failed())?);
    let header = header(tensors);
    let length = (header.len() as u64).to_le_bytes();
    out.write_all(&length).map_err(failed())?;
    out.write_all(&header).map_err(failed())?;
    for tensor in tensors {
        let mut written = 0;
        let mut put = |bytes: &[u8]| {
            written += bytes.len() as u64;
            out.write_all(bytes).map_err(failed())
        };
        data(tensor, &mut put)?;
        if written != tensor.bytes() {
            let (name, planned) = (&tensor.name, tensor.bytes());
            let problem = format!("`{name}` has {written} bytes, and {planned} were planned");
            return Err(Error::Data(problem));
        }
    }
    out.flush().map_err(failed())
}
