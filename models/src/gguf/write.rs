//! Writes a file, a tensor at a time: its size is known before, and two files of the same model are equal byte for byte.

use std::io::{self, Write};

use super::{ALIGNMENT, MAGIC, NAME_BYTES, TensorType, VERSION, Value};
use crate::{Error, Result};

/// A tensor that is going to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// What it is called there.
    pub name: String,
    /// How its numbers are kept.
    pub of: TensorType,
    /// Its shape, the outermost dimension first.
    pub shape: Vec<usize>,
}

impl Planned {
    /// The bytes of its data.
    ///
    /// Errors: [`Error::Data`] when a row is not filled by whole blocks, or the name is too long.
    pub fn bytes(&self) -> Result<u64> {
        let Self { name, of, shape } = self;
        let (width, rows) = match shape.split_last() {
            Some((width, rows)) => (*width as u64, rows.iter().product::<usize>() as u64),
            None => (1, 1),
        };
        let bytes = of.bytes(rows, width);
        let bytes = bytes.filter(|_| (1..=4).contains(&shape.len()) && name.len() <= NAME_BYTES);
        bytes.ok_or_else(|| {
            let of = of.name();
            Error::Data(format!(
                "`{name}` of shape {shape:?} can’t be written as {of}"
            ))
        })
    }
}

/// Writes what is planned, in that order.
#[derive(Debug)]
pub struct Writer {
    header: Vec<u8>,
    tensors: Vec<Planned>,
    bytes: u64,
}

impl Writer {
    /// A file with these keys and tensors, both in this order.
    pub fn new(keys: &[(String, Value)], tensors: Vec<Planned>) -> Result<Self> {
        let mut header = Vec::new();
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend((tensors.len() as u64).to_le_bytes());
        header.extend((keys.len() as u64).to_le_bytes());
        for (key, value) in keys {
            put_text(&mut header, key);
            put_value(&mut header, value);
        }
        let mut offset = 0u64;
        for tensor in &tensors {
            put_text(&mut header, &tensor.name);
            header.extend((tensor.shape.len() as u32).to_le_bytes());
            for size in tensor.shape.iter().rev() {
                header.extend((*size as u64).to_le_bytes());
            }
            header.extend(tensor.of.number().to_le_bytes());
            header.extend(offset.to_le_bytes());
            offset += tensor.bytes()?.next_multiple_of(ALIGNMENT);
        }
        pad(&mut header);
        let bytes = header.len() as u64 + offset;
        Ok(Self {
            header,
            tensors,
            bytes,
        })
    }

    /// The bytes of the whole file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The tensors, in their order.
    pub fn tensors(&self) -> &[Planned] {
        &self.tensors
    }

    /// Writes the file. `data` puts the bytes of each tensor, in as many pieces as it likes.
    pub fn write(
        &self,
        to: &mut dyn Write,
        mut data: impl FnMut(&Planned, &mut Sink) -> Result<()>,
    ) -> Result<()> {
        let mut sink = Sink { to, written: 0 };
        sink.put(&self.header)?;
        for tensor in &self.tensors {
            sink.written = 0;
            data(tensor, &mut sink)?;
            let (found, planned) = (sink.written, tensor.bytes()?);
            if found != planned {
                let name = &tensor.name;
                let problem = format!("`{name}` has {found} bytes, and {planned} were planned");
                return Err(Error::Data(problem));
            }
            let padding = planned.next_multiple_of(ALIGNMENT) - planned;
            sink.put(&[0; ALIGNMENT as usize][..padding as usize])?;
        }
        Ok(())
    }
}

/// Where the bytes of a tensor go.
pub struct Sink<'a> {
    to: &'a mut dyn Write,
    written: u64,
}

impl Sink<'_> {
    /// The next of them.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        let failed = |error: io::Error| Error::file("write the model", "")(error);
        self.to.write_all(bytes).map_err(failed)
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u64).to_le_bytes());
    to.extend(text.as_bytes());
}

/// The type of a value and the value itself.
fn put_value(to: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U32(value) => put(to, 4, &value.to_le_bytes()),
        Value::Integer(value) => put(to, 11, &(*value as i64).to_le_bytes()),
        Value::F32(value) => put(to, 6, &value.to_le_bytes()),
        Value::F64(value) => put(to, 12, &value.to_le_bytes()),
        Value::Bool(value) => put(to, 7, &[u8::from(*value)]),
        Value::Text(text) => {
            put(to, 8, &[]);
            put_text(to, text);
        }
        Value::I32s(values) => put_list(to, 5, values, |to, it| to.extend(it.to_le_bytes())),
        Value::Integers(values) => put_list(to, 11, values, |to, it| to.extend(it.to_le_bytes())),
        Value::F32s(values) => put_list(to, 6, values, |to, it| to.extend(it.to_le_bytes())),
        Value::Bools(values) => put_list(to, 7, values, |to, it| to.push(u8::from(*it))),
        Value::Texts(values) => put_list(to, 8, values, |to, it| put_text(to, it)),
    }
}

fn put(to: &mut Vec<u8>, kind: u32, bytes: &[u8]) {
    to.extend(kind.to_le_bytes());
    to.extend(bytes);
}

fn put_list<T>(to: &mut Vec<u8>, kind: u32, values: &[T], one: impl Fn(&mut Vec<u8>, &T)) {
    put(to, 9, &kind.to_le_bytes());
    to.extend((values.len() as u64).to_le_bytes());
    values.iter().for_each(|it| one(to, it));
}
