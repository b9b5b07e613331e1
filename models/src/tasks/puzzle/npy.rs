//! Arrays of whole numbers in files of NumPy (`.npy`, <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).
//!
//! Read a part at a time, so that a file of any size takes little memory. What a header declares is compared with the size of the
//! file before anything is allocated. Deliberately absent: fractions, and columns that stand before rows (Fortran order). They
//! are refused by name.

use std::{
    fs::File,
    io::{BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use crate::{Error, Result, limits};

const MAGIC: &[u8] = b"\x93NUMPY";
/// The most bytes of a header. NumPy writes one of 118 for up to a dozen dimensions.
const MAX_HEADER: usize = limits::ARRAY_HEADER.most as usize;
/// Bytes that are read at once, a multiple of every size of a number.
const PART: usize = 1 << 20;

/// What the numbers of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    bytes: usize,
    is_signed: bool,
    is_big_endian: bool,
}

/// A file that was opened: what it declares, which its size fits.
#[derive(Debug)]
pub struct Npy {
    /// How many numbers there are along each dimension.
    pub shape: Vec<usize>,
    number: Number,
    file: File,
    path: PathBuf,
}

/// What a header says.
#[derive(Debug, PartialEq)]
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Npy {
    /// Opens a file, and reads its header.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = || Error::file("read the array", path);
        let wrong = |problem: String| Error::format(path, problem);
        let mut file = File::open(path).map_err(failed())?;
        let length = file.metadata().map_err(failed())?.len();
        let mut start = [0; 8];
        let cut = |_| wrong("is no array of NumPy: it ends in its header".to_owned());
        file.read_exact(&mut start).map_err(cut)?;
        if &start[..6] != MAGIC {
            return Err(wrong("is no array of NumPy (.npy)".to_owned()));
        }
        let mut size = [0; 4];
        let digits = match start[6] {
            1 => 2,
            2 | 3 => 4,
            version => {
                return Err(wrong(format!(
                    "has version {version} of NumPy’s format, and 1 to 3 are known"
                )));
            }
        };
        file.read_exact(&mut size[..digits]).map_err(cut)?;
        let header_bytes = u32::from_le_bytes(size) as usize;
        if header_bytes > MAX_HEADER {
            let problem =
                format!("declares a header of {header_bytes} bytes, and {MAX_HEADER} is the most");
            return Err(wrong(problem));
        }
        let mut text = vec![0; header_bytes];
        file.read_exact(&mut text).map_err(cut)?;
        let header = Header::parse(&String::from_utf8_lossy(&text)).map_err(wrong)?;
        if header.fortran_order {
            return Err(wrong(
                "has its columns before its rows (Fortran order); write it with numpy.ascontiguousarray".to_owned(),
            ));
        }
        let number = Number::named(&header.descr).map_err(wrong)?;
        let dimensions = header.shape.len() as u64;
        if dimensions > limits::DIMENSIONS.most {
            return Err(wrong(format!("has {dimensions} dimensions")));
        }
        let product = |product: u64, next: &usize| product.checked_mul(*next as u64);
        let declared = header.shape.iter().try_fold(number.bytes as u64, product);
        let held = length.saturating_sub((8 + digits + header_bytes) as u64);
        if declared != Some(held) {
            let shape = header.shape;
            return Err(wrong(format!(
                "declares {shape:?} numbers of {}, and has {held} bytes for them",
                header.descr
            )));
        }
        Ok(Self {
            shape: header.shape,
            number,
            file,
            path: path.to_owned(),
        })
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands over each number, in order, with its index. What is wrong with one is said with its place in the array.
    pub fn each(
        mut self,
        mut take: impl FnMut(usize, i64) -> std::result::Result<(), String>,
    ) -> Result<()> {
        let size = self.number.bytes;
        let mut left = self.len() * size;
        let mut part = vec![0; PART.min(left)];
        let mut index = 0;
        while left > 0 {
            let part = &mut part[..left.min(PART)];
            self.file
                .read_exact(part)
                .map_err(Error::file("read the array", &self.path))?;
            left -= part.len();
            for bytes in part.chunks_exact(size) {
                let number = i64::try_from(self.number.value(bytes));
                let taken = number
                    .map_err(|_| "is too large".to_owned())
                    .and_then(|number| take(index, number));
                taken.map_err(|problem| {
                    let place = self.place(index);
                    Error::format(&self.path, format!("{place} {problem}"))
                })?;
                index += 1;
            }
        }
        Ok(())
    }

    /// All numbers of a file with one dimension, each within a range.
    pub fn numbers(self, most: u32) -> Result<Vec<u32>> {
        let mut numbers = Vec::with_capacity(self.len());
        self.each(|_, number| {
            let found = u32::try_from(number).ok().filter(|it| *it <= most);
            numbers
                .push(found.ok_or_else(|| format!("is {number}, and has to be from 0 to {most}"))?);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Where a number stands, for a person.
    fn place(&self, index: usize) -> String {
        match self.shape[..] {
            [_, width] => format!("row {}, cell {}", index / width + 1, index % width + 1),
            _ => format!("number {}", index + 1),
        }
    }
}

impl Number {
    fn named(descr: &str) -> std::result::Result<Self, String> {
        let unknown = || {
            format!(
                "has numbers of type {descr}, and whole numbers or truth values are needed: b1, i1 to i8, u1 to u8"
            )
        };
        let (order, kind) = descr.split_at_checked(1).ok_or_else(unknown)?;
        let (bytes, is_signed) = match kind {
            "b1" | "u1" => (1, false),
            "u2" => (2, false),
            "u4" => (4, false),
            "u8" => (8, false),
            "i1" => (1, true),
            "i2" => (2, true),
            "i4" => (4, true),
            "i8" => (8, true),
            _ => return Err(unknown()),
        };
        let is_big_endian = match order {
            "<" => false,
            ">" => true,
            "|" if bytes == 1 => false,
            _ => return Err(unknown()),
        };
        Ok(Self {
            bytes,
            is_signed,
            is_big_endian,
        })
    }

    fn value(self, bytes: &[u8]) -> i128 {
        let append = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = match self.is_big_endian {
            true => bytes.iter().fold(0, append),
            false => bytes.iter().rev().fold(0, append),
        };
        match self.is_signed {
            // The sign is the highest bit of as many bytes as there are.
            true => i128::from((value << (64 - 8 * self.bytes)) as i64 >> (64 - 8 * self.bytes)),
            false => i128::from(value),
        }
    }
}

impl Header {
    /// Reads `{'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }`.
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let wrong = |what: &str| format!("has a header without {what}: {}", text.trim_end());
        let after = |key: &str| {
            let quoted = [format!("'{key}'"), format!("\"{key}\"")];
            let rest = quoted.iter().find_map(|it| text.split_once(it.as_str()));
            let rest = rest.and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
            rest.map(str::trim_start).ok_or_else(|| wrong(key))
        };
        let descr = after("descr")?;
        let quote = descr.chars().next().filter(|it| matches!(it, '\'' | '"'));
        let descr = quote.and_then(|quote| descr[1..].split_once(quote));
        let descr = descr
            .ok_or_else(|| wrong("one type (descr) for all numbers"))?
            .0;
        let order = after("fortran_order")?;
        let fortran_order = match (order.starts_with("True"), order.starts_with("False")) {
            (true, _) => true,
            (_, true) => false,
            _ => return Err(wrong("fortran_order")),
        };
        let shape = after("shape")?
            .strip_prefix('(')
            .and_then(|it| it.split_once(')'));
        let shape = shape.ok_or_else(|| wrong("shape"))?.0;
        let sizes = shape.split(',').map(str::trim).filter(|it| !it.is_empty());
        let sizes = sizes.map(str::parse).collect::<std::result::Result<_, _>>();
        Ok(Self {
            descr: descr.to_owned(),
            fortran_order,
            shape: sizes.map_err(|_| wrong("shape"))?,
        })
    }
}

/// An array that is being written.
pub struct NpyWriter {
    out: BufWriter<File>,
    path: PathBuf,
    left: usize,
}

impl NpyWriter {
    /// Begins a file of numbers of a type, `|u1` or `<i4`, with this shape.
    pub fn create(path: &Path, descr: &str, shape: &[usize]) -> Result<Self> {
        let number = Number::named(descr).map_err(|problem| Error::format(path, problem))?;
        let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
        let sizes = match shape.len() {
            1 => sizes.trim_end(),
            _ => sizes.trim_end_matches(", "),
        };
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
        // The numbers begin at a multiple of 64 bytes, after a line break.
        let begin = MAGIC.len() + 4;
        let length = (begin + header.len() + 1).next_multiple_of(64);
        header += &" ".repeat(length - begin - header.len() - 1);
        header.push('\n');
        let file = File::create(path).map_err(Error::file("write the array", path))?;
        let mut writer = Self {
            out: BufWriter::new(file),
            path: path.to_owned(),
            left: usize::MAX,
        };
        writer.write(MAGIC)?;
        writer.write(&[1, 0])?;
        writer.write(&(header.len() as u16).to_le_bytes())?;
        writer.write(header.as_bytes())?;
        writer.left = shape.iter().product::<usize>() * number.bytes;
        Ok(writer)
    }

    /// Writes the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.left = self.left.saturating_sub(bytes.len());
        self.out
            .write_all(bytes)
            .map_err(Error::file("write the array", &self.path))
    }

    /// Writes the next numbers as `<i4`.
    pub fn write_numbers(&mut self, numbers: &[u32]) -> Result<()> {
        numbers
            .iter()
            .try_for_each(|number| self.write(&(*number as i32).to_le_bytes()))
    }

    /// Ends the file. An error when fewer bytes came than were declared.
    pub fn finish(mut self) -> Result<()> {
        if self.left > 0 {
            let problem = format!(
                "{} bytes are missing of what the header declares",
                self.left
            );
            return Err(Error::format(&self.path, problem));
        }
        let flushed = self
            .out
            .flush()
            .and_then(|()| self.out.get_ref().sync_all());
        flushed.map_err(Error::file("write the array", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let size = (header.len() as u16).to_le_bytes();
        let content = [MAGIC, &[1, 0], &size, header.as_bytes(), bytes].concat();
        std::fs::write(&path, content).unwrap();
        (folder, path)
    }

    fn read(descr: &str, bytes: &[u8]) -> Result<Vec<i64>> {
        let count = bytes.len() / descr[2..].parse::<usize>().unwrap_or(1);
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}\n");
        let (_folder, path) = file(&header, bytes);
        let mut numbers = Vec::new();
        Npy::open(&path)?.each(|_, number| {
            numbers.push(number);
            Ok(())
        })?;
        Ok(numbers)
    }

    #[test]
    fn numbers_of_every_type_are_read() {
        let cases: [(&str, &[u8], &[i64]); 9] = [
            ("|b1", &[1, 0], &[1, 0]),
            ("|u1", &[255, 3], &[255, 3]),
            ("|i1", &[255, 3], &[-1, 3]),
            ("<i2", &[156, 255, 1, 2], &[-100, 513]),
            (">i2", &[255, 156, 2, 1], &[-100, 513]),
            ("<u2", &[156, 255], &[65436]),
            (">u4", &[0, 0, 1, 2], &[258]),
            ("<i8", &[156, 255, 255, 255, 255, 255, 255, 255], &[-100]),
            (">i4", &[255, 255, 255, 156], &[-100]),
        ];
        for (descr, bytes, expected) in cases {
            assert_eq!(read(descr, bytes).unwrap(), expected, "{descr}");
        }
        assert!(
            read("<u8", &[255; 8])
                .unwrap_err()
                .to_string()
                .starts_with("number 1 is too large")
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        let types = "has numbers of type <f4, and whole numbers or truth values are needed";
        let cases = [
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
                types,
            ),
            (
                "{'descr': '<i4', 'fortran_order': True, 'shape': (1,), }",
                "has its columns before its rows (Fortran order)",
            ),
            (
                "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }",
                "declares [2] numbers of <i4, and has 4 bytes for them",
            ),
            (
                "{'descr': '<i4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }",
                "declares [9223372036854775807, 9] numbers",
            ),
            (
                "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }",
                "has a header without one type (descr)",
            ),
            (
                "{'fortran_order': False, 'shape': (1,), }",
                "has a header without descr",
            ),
        ];
        for (header, expected) in cases {
            let (_folder, path) = file(header, &[0; 4]);
            let error = Npy::open(&path).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let mut writer = NpyWriter::create(&path, "<i4", &[2, 3]).unwrap();
        writer.write_numbers(&[1, 2, 3, 4, 5]).unwrap();
        assert!(writer.finish().is_err());
        let mut writer = NpyWriter::create(&path, "<i4", &[2, 3]).unwrap();
        writer.write_numbers(&[1, 2, 3, 4, 5, 6]).unwrap();
        writer.finish().unwrap();
        let read = Npy::open(&path).unwrap();
        assert_eq!(read.shape, [2, 3]);
        assert_eq!(read.numbers(9).unwrap(), [1, 2, 3, 4, 5, 6]);
        let error = Npy::open(&path)
            .unwrap()
            .numbers(4)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("row 2, cell 2 is 5, and has to be from 0 to 4"),
            "{error}"
        );
    }
}
