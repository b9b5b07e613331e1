//! Reads what a file says of itself, and shows the bytes of its tensors where they lie.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use memmap2::Mmap;

use super::{ALIGNMENT, ALIGNMENT_KEY, MAGIC, TensorType, VERSION, Value};
use crate::{Error, Result, figures::count, limits};

/// What is tried with a file.
const READ: &str = "read the model";

/// A file, open: its keys, and its tensors by their names.
#[derive(Debug)]
pub struct Gguf {
    /// Where it lies, as errors name it.
    pub path: PathBuf,
    /// What is said of the model, by key.
    pub keys: BTreeMap<String, Value>,
    /// Its tensors.
    pub tensors: BTreeMap<String, Stored>,
    bytes: Mmap,
}

/// A tensor as it lies in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// How its numbers are kept.
    pub of: TensorType,
    /// Its shape, the outermost dimension first.
    pub shape: Vec<usize>,
    /// Where it begins in the file, in bytes.
    start: usize,
    /// How many bytes it has.
    length: usize,
}

impl Stored {
    /// Where it begins in the file, in bytes.
    pub fn start(&self) -> usize {
        self.start
    }

    /// The rows of blocks it is, and the numbers of each.
    pub fn rows(&self) -> (usize, usize) {
        match self.shape.split_last() {
            Some((width, rows)) => (rows.iter().product(), *width),
            None => (1, 1),
        }
    }
}

impl Gguf {
    /// Whether a path is a file of this format, by its first bytes.
    pub fn is_one(path: &Path) -> bool {
        let mut start = [0; MAGIC.len()];
        let mut read = || File::open(path)?.read_exact(&mut start);
        path.is_file() && read().is_ok() && start == MAGIC
    }

    /// Opens a file.
    ///
    /// Errors: [`Error::File`] when it can't be read, [`Error::Damaged`] when it was cut off or contradicts itself,
    /// [`Error::Format`] when it is of another version or has a type that isn't read.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = || Error::file(READ, path);
        let file = File::open(path).map_err(failed())?;
        #[allow(unsafe_code)]
        // SAFETY: a mapped file must not change while it is read. Files of models are written once and renamed, never changed in
        // place, and each tensor is copied out of the mapping.
        let bytes = unsafe { Mmap::map(&file) }.map_err(failed())?;
        let mut cursor = Cursor {
            bytes: &bytes,
            at: 0,
        };
        let (keys, tensors) = parse(&mut cursor).map_err(|problem| problem.of(path))?;
        Ok(Self {
            path: path.to_owned(),
            keys,
            tensors,
            bytes,
        })
    }

    /// All of the file.
    pub fn whole_file(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of a tensor of this file.
    pub fn bytes(&self, tensor: &Stored) -> &[u8] {
        // It was compared with the file when that was opened.
        let end = tensor.start.saturating_add(tensor.length);
        self.bytes.get(tensor.start..end).unwrap_or_default()
    }

    /// Refuses bytes of the tensor of this name that no model can be computed with.
    pub fn check_finite(&self, name: &str, of: TensorType, bytes: &[u8]) -> Result<()> {
        match of.has_finite_scales(bytes) {
            true => Ok(()),
            false => {
                let problem = format!("`{name}` is NaN or infinite, so the model can’t be used");
                Err(Error::format(&self.path, problem))
            }
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key)
    }

    /// The text of a key that has to be there.
    pub fn text(&self, key: &str) -> Result<&str> {
        let text = self.get(key).and_then(Value::as_str);
        text.ok_or_else(|| self.missing(key, "text"))
    }

    /// The whole number of a key that has to be there.
    pub fn whole(&self, key: &str) -> Result<u64> {
        let value = self.get(key).and_then(Value::as_u64);
        value.ok_or_else(|| self.missing(key, "whole number"))
    }

    fn missing(&self, key: &str, what: &str) -> Error {
        let problem = match self.get(key) {
            Some(_) => format!("`{key}` is no {what}"),
            None => format!("the file has no `{key}`"),
        };
        Error::format(&self.path, problem)
    }
}

/// What is wrong with a file.
enum Problem {
    /// It ends too early.
    Incomplete(String),
    /// It contradicts itself.
    Damaged(String),
    /// It is whole, and can't be read here.
    Unknown(String),
}

impl Problem {
    fn of(self, path: &Path) -> Error {
        match self {
            Self::Incomplete(details) => Error::damaged(path, "the model is incomplete", details),
            Self::Damaged(details) => Error::damaged(path, "the model is damaged", details),
            Self::Unknown(problem) => Error::format(path, problem),
        }
    }
}

type Parsed<T> = Result<T, Problem>;
type Keys = BTreeMap<String, Value>;
type Tensors = BTreeMap<String, Stored>;

fn damaged<T>(details: impl Into<String>) -> Parsed<T> {
    Err(Problem::Damaged(details.into()))
}

fn parse(cursor: &mut Cursor) -> Parsed<(Keys, Tensors)> {
    if cursor.take(4)? != MAGIC {
        return Err(Problem::Unknown("the file is not GGUF".to_owned()));
    }
    let version = cursor.u32()?;
    if !matches!(version, 2 | VERSION) {
        let problem = format!("it is version {version} of GGUF, and versions 2 and 3 are read");
        return Err(Problem::Unknown(problem));
    }
    let tensors = cursor.count(&limits::GGUF_TENSORS, 24)?;
    let keys = cursor.count(&limits::GGUF_KEYS, 12)?;
    let mut read: Keys = BTreeMap::new();
    for _ in 0..keys {
        let key = cursor.text()?;
        let kind = cursor.u32()?;
        let value = value(cursor, kind, &key)?;
        if read.insert(key.clone(), value).is_some() {
            return damaged(format!("the key `{key}` is there twice"));
        }
    }
    let alignment = match read.get(ALIGNMENT_KEY).map(Value::as_u64) {
        None => ALIGNMENT,
        Some(Some(alignment))
            if alignment.is_power_of_two() && (8..=1 << 20).contains(&alignment) =>
        {
            alignment
        }
        Some(_) => {
            return damaged(format!(
                "`{ALIGNMENT_KEY}` is no power of two from 8 to 1,048,576"
            ));
        }
    };
    Ok((read, places(cursor, tensors, alignment)?))
}

/// The tensors of a file. They fill all that follows, in their order, each from a multiple of the alignment.
fn places(cursor: &mut Cursor, tensors: usize, alignment: u64) -> Parsed<Tensors> {
    let mut listed = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..tensors {
        let (name, tensor, offset) = described(cursor)?;
        if !names.insert(name.clone()) {
            return damaged(format!("the tensor `{name}` is there twice"));
        }
        listed.push((name, tensor, offset));
    }
    let start = (cursor.at as u64).next_multiple_of(alignment);
    let mut next = 0u64;
    let mut placed = BTreeMap::new();
    for (name, mut tensor, offset) in listed {
        if offset != next {
            let details = format!(
                "`{name}` begins at byte {offset} of the data, and what stands before it ends at {next}"
            );
            return damaged(details);
        }
        let end = start + next + tensor.length as u64;
        if end > cursor.bytes.len() as u64 {
            return Err(Problem::Incomplete(format!(
                "`{name}` ends at byte {}, and the file has {}",
                count(end),
                count(cursor.bytes.len() as u64)
            )));
        }
        tensor.start = (start + next) as usize;
        next = (next + tensor.length as u64).next_multiple_of(alignment);
        placed.insert(name, tensor);
    }
    Ok(placed)
}

/// What a file says of one tensor, and where it says that it begins.
fn described(cursor: &mut Cursor) -> Parsed<(String, Stored, u64)> {
    let name = cursor.text()?;
    let dimensions = cursor.u32()?;
    if !(1..=4).contains(&dimensions) {
        return damaged(format!(
            "`{name}` has {dimensions} dimensions, and a tensor has 1 to 4"
        ));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        shape.push(cursor.u64()?);
    }
    shape.reverse();
    let of = TensorType::of_number(cursor.u32()?).map_err(|other| {
        Problem::Unknown(format!(
            "`{name}` is kept as {other}, which is not read; choose a file with Q8_0, Q4_K_M or another of the usual types"
        ))
    })?;
    let offset = cursor.u64()?;
    let width = shape[dimensions as usize - 1];
    let outer = &shape[..dimensions as usize - 1];
    let rows = outer.iter().try_fold(1u64, |all, it| all.checked_mul(*it));
    let bytes = rows.and_then(|rows| of.bytes(rows, width));
    // More bytes than the file has are said to be missing later; here only what no file has.
    let length = bytes.filter(|it| *it < 1 << 50);
    let Some(length) = length else {
        return damaged(format!("`{name}` of shape {shape:?} is no {}", of.name()));
    };
    let tensor = Stored {
        of,
        shape: shape.iter().map(|it| *it as usize).collect(),
        start: 0,
        length: length as usize,
    };
    Ok((name, tensor, offset))
}

/// The value of a key, of the type with this number.
fn value(cursor: &mut Cursor, kind: u32, key: &str) -> Parsed<Value> {
    Ok(match kind {
        4 => Value::U32(cursor.u32()?),
        6 => Value::F32(cursor.f32()?),
        7 => Value::Bool(cursor.bool(key)?),
        8 => Value::Text(cursor.text()?),
        9 => list(cursor, key)?,
        12 => Value::F64(f64::from_le_bytes(cursor.array()?)),
        _ => Value::Integer(cursor.integer(kind, key)?),
    })
}

/// The value of a key that is a list.
fn list(cursor: &mut Cursor, key: &str) -> Parsed<Value> {
    let kind = cursor.u32()?;
    let bytes_of_one = match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        8 | 10..=12 => 8,
        9 => return damaged(format!("`{key}` is a list of lists")),
        _ => return damaged(format!("`{key}` is a list of the unknown type {kind}")),
    };
    let count = cursor.count(&limits::GGUF_LIST, bytes_of_one)?;
    let all = 0..count;
    Ok(match kind {
        5 => Value::I32s(all.map(|_| cursor.i32()).collect::<Parsed<_>>()?),
        6 => Value::F32s(all.map(|_| cursor.f32()).collect::<Parsed<_>>()?),
        7 => Value::Bools(all.map(|_| cursor.bool(key)).collect::<Parsed<_>>()?),
        8 => Value::Texts(all.map(|_| cursor.text()).collect::<Parsed<_>>()?),
        12 => return damaged(format!("`{key}` is a list of f64, which no key is")),
        _ => {
            let one = |_| {
                let value = cursor.integer(kind, key)?;
                i64::try_from(value)
                    .or_else(|_| damaged(format!("`{key}` has {value}, which is too large")))
            };
            Value::Integers(all.map(one).collect::<Parsed<_>>()?)
        }
    })
}

/// Goes through the bytes of a file.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Parsed<&'a [u8]> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| {
            let (has, needed) = (self.bytes.len(), self.at.saturating_add(count));
            Problem::Incomplete(format!("the file has {has} bytes, and {needed} are needed"))
        })?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Parsed<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Parsed<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn u64(&mut self) -> Parsed<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn f32(&mut self) -> Parsed<f32> {
        self.array().map(f32::from_le_bytes)
    }

    fn bool(&mut self, key: &str) -> Parsed<bool> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => damaged(format!("`{key}` is {other}, and has to be 0 or 1")),
        }
    }

    fn integer(&mut self, kind: u32, key: &str) -> Parsed<i128> {
        Ok(match kind {
            0 => self.array().map(u8::from_le_bytes)?.into(),
            1 => self.array().map(i8::from_le_bytes)?.into(),
            2 => self.array().map(u16::from_le_bytes)?.into(),
            3 => self.array().map(i16::from_le_bytes)?.into(),
            4 => self.u32()?.into(),
            5 => self.i32()?.into(),
            10 => self.u64()?.into(),
            11 => self.array().map(i64::from_le_bytes)?.into(),
            _ => return damaged(format!("`{key}` is of the unknown type {kind}")),
        })
    }

    /// How many of something follow, each of so many bytes at least.
    fn count(&mut self, limit: &limits::Limit, bytes_of_one: u64) -> Parsed<usize> {
        let count = self.u64()?;
        if let Some(problem) = limit.exceeded(count) {
            return damaged(format!("the number of {} {problem}", limit.what));
        }
        let left = (self.bytes.len() - self.at) as u64;
        if count.saturating_mul(bytes_of_one) > left {
            return Err(Problem::Incomplete(format!(
                "{count} {} are announced, and {left} bytes follow",
                limit.unit
            )));
        }
        Ok(count as usize)
    }

    fn text(&mut self) -> Parsed<String> {
        let length = self.count(&limits::GGUF_TEXT, 1)?;
        let bytes = self.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => damaged(format!(
                "a text before byte {} is not UTF-8: {error}",
                self.at
            )),
        }
    }
}
