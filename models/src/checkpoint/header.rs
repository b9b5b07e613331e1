//! The header of a safetensors file: which tensors it holds, read and checked by ourselves before a library trusts it.
//!
//! Weight files come from the network, so an error should say in words what is wrong: the file is a web page, it is shorter
//! than its header says, or two tensors share a name. Only the header is read here.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{ErrorKind, Read},
    path::Path,
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use crate::{Error, Result, figures::count, instead, limits};

/// The field that is no tensor.
const METADATA: &str = "__metadata__";
/// What the length of the header takes.
const LENGTH_BYTES: u64 = 8;
/// The dtypes of the format that hold floating-point values as wide as they are stored.
const FLOATS: [&str; 4] = ["F64", "F32", "F16", "BF16"];

/// What a header says of one tensor.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct StoredTensor {
    /// As the format writes it: `BF16`.
    dtype: String,
    shape: Vec<u64>,
    /// The first byte, and the one after the last, counted from the end of the header.
    data_offsets: (u64, u64),
}

/// The tensors of a file, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) tensors: BTreeMap<String, StoredTensor>,
}

impl StoredTensor {
    /// How many values there are. Nothing when no memory holds them.
    fn values(&self) -> Option<u64> {
        let mut shape = self.shape.iter();
        shape.try_fold(1u64, |product, it| product.checked_mul(*it))
    }

    /// The dtype, if its values are no floating-point values that can be learned from.
    pub(super) fn other_dtype(&self) -> Option<&str> {
        (!FLOATS.contains(&self.dtype.as_str())).then_some(&self.dtype)
    }
}

impl Header {
    /// Reads the header of a file, and compares it with the length of the file.
    ///
    /// Errors: [`Error::Damaged`] when the file is missing, shorter or longer than its header says, or has no header that can be
    /// true; [`Error::Format`] when it is something else.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let damaged = |details: String| Error::damaged(path, "the weights are damaged", details);
        let incomplete =
            |details: String| Error::damaged(path, "the weights are incomplete", details);
        let failed = || Error::file("look at the weights", path);
        let mut file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(incomplete(format!("{}: {error}", path.display())));
            }
            opened => opened.map_err(failed())?,
        };
        let bytes = file.metadata().map_err(failed())?.len();
        if let Some(what) = other_file(&mut file).map_err(failed())? {
            return Err(Error::Damaged {
                problem: what.to_owned(),
                details: format!("the file has {} bytes", count(bytes)),
                path: path.to_owned(),
            });
        }
        let mut length = [0; LENGTH_BYTES as usize];
        if bytes < LENGTH_BYTES {
            return Err(incomplete(format!("the file has {bytes} bytes")));
        }
        file.read_exact(&mut length).map_err(failed())?;
        let length = u64::from_le_bytes(length);
        if let Some(problem) = limits::HEADER.exceeded(length) {
            return Err(damaged(format!("the length of its header {problem}")));
        }
        let mut header = Vec::new();
        let read = file.take(length).read_to_end(&mut header);
        read.map_err(failed())?;
        if (header.len() as u64) < length {
            return Err(incomplete(format!(
                "the file ends in its header of {length} bytes"
            )));
        }
        let header = Self::parse(&header).map_err(damaged)?;
        let whole = header
            .end()
            .map_err(damaged)?
            .saturating_add(LENGTH_BYTES + length);
        let details = format!("the header speaks of {whole} bytes, and the file has {bytes}");
        match bytes.cmp(&whole) {
            Ordering::Less => Err(incomplete(details)),
            Ordering::Equal => Ok(header),
            Ordering::Greater => Err(damaged(details)),
        }
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let header: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        for (name, tensor) in &header.tensors {
            let dimensions = limits::DIMENSIONS.exceeded(tensor.shape.len() as u64);
            if let Some(problem) = dimensions {
                return Err(format!("the number of dimensions of `{name}` {problem}"));
            }
            let (start, end) = tensor.data_offsets;
            if tensor.values().is_none() || start > end {
                return Err(format!("the tensor `{name}` has no size"));
            }
        }
        Ok(header)
    }

    /// How many values all tensors have. Nothing when no memory holds them.
    pub(super) fn values(&self) -> Option<u64> {
        let mut tensors = self.tensors.values();
        tensors.try_fold(0u64, |sum, it| sum.checked_add(it.values()?))
    }

    /// Where the last tensor ends. An error where two share bytes, or some bytes are of none.
    fn end(&self) -> Result<u64, String> {
        let mut places: Vec<(u64, u64, &str)> = self
            .tensors
            .iter()
            .map(|(name, it)| (it.data_offsets.0, it.data_offsets.1, name.as_str()))
            .collect();
        places.sort_unstable();
        places
            .iter()
            .try_fold(0, |end, &(start, next, name)| match start == end {
                true => Ok(next),
                false => Err(format!(
                    "`{name}` begins at byte {start}, and what stands before it ends at {end}"
                )),
            })
    }
}

/// What a file is that has no weights in it, where its beginning says so, as a sentence. Leaves the file at its start.
fn other_file(file: &mut File) -> std::io::Result<Option<&'static str>> {
    use std::io::Seek;
    let mut start = Vec::new();
    let looked_at = instead::LOOKED_AT as u64;
    file.by_ref().take(looked_at).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(match &start[..] {
        start if start.starts_with(b"PK\x03\x04") => Some(
            "the file is a ZIP archive, as PyTorch’s pickles are, and not safetensors; pickles are not opened",
        ),
        start if start.starts_with(b"GGUF") => Some("the file is GGUF and not safetensors"),
        start => instead::found(start),
    })
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Tensors)
    }
}

/// Reads a header with every name once.
struct Tensors;

impl<'de> Visitor<'de> for Tensors {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("tensors by their names")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Header, M::Error> {
        let mut tensors = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let tensor: StoredTensor = map.next_value()?;
            if tensors.contains_key(&name) {
                return Err(serde::de::Error::custom(format!(
                    "two tensors have the name `{name}`"
                )));
            }
            tensors.insert(name, tensor);
        }
        Ok(Header { tensors })
    }
}
