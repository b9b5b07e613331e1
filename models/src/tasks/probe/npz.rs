//! Hidden states as one file of NumPy (`.npz`), for notebooks.
//!
//! | array | is |
//! |---|---|
//! | `embed`, `block.14`, `final` | the states of a site, f32 [vectors, width] |
//! | `label_names` | the names of the labels [k] |
//! | `labels` | whether a text has a label, bool [rows, k] |
//! | `ids`, `groups`, `parts` | of the texts [rows]; empty where the data has none |
//! | `rows` | the text of each vector, from 0, int64 [vectors] |
//!
//! The texts themselves are not in it. Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>. Deliberately
//! absent: reading, and compression.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use zip::{CompressionMethod, ZipWriter, result::ZipError, write::SimpleFileOptions};

use super::states::{StateRow, States};
use crate::{Error, Result, checkpoint::save};

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
/// What the numbers begin at a multiple of.
const ALIGNED: usize = 64;
/// Vectors that are converted at once.
const VECTORS_AT_ONCE: usize = 4096;

/// Writes all sites with the labels into a file, which is there as a whole or not at all.
///
/// Errors: [`Error::File`] when the disk refuses; those of [`States::matrix`].
pub fn export(states: &States, path: &Path) -> Result<()> {
    let temporary = path.with_file_name(format!(".{}.writing", save::name_of(path)));
    let file = File::create(&temporary).map_err(Error::file("write the arrays", &temporary))?;
    let mut zip = Npz {
        zip: ZipWriter::new(BufWriter::new(file)),
        path: &temporary,
    };
    for site in states.sites() {
        let matrix = states.matrix(*site)?;
        let (vectors, width) = (matrix.vectors(), matrix.width());
        zip.begin(&site.to_string(), "<f4", &[vectors, width])?;
        for start in (0..vectors).step_by(VECTORS_AT_ONCE) {
            let numbers = matrix.read(start..(start + VECTORS_AT_ONCE).min(vectors));
            zip.write(&bytes(numbers.iter().map(|it| it.to_le_bytes())))?;
        }
    }
    let (rows, names) = (states.rows(), &states.about().labels);
    let has = |row: &StateRow| {
        let has = names.iter().map(|name| row.labels.contains(name));
        has.map(u8::from).collect::<Vec<u8>>()
    };
    zip.begin("labels", "|b1", &[rows.len(), names.len()])?;
    zip.write(&rows.iter().flat_map(has).collect::<Vec<u8>>())?;
    let ranges = states.vectors_of_rows();
    zip.begin("rows", "<i8", &[states.about().vectors])?;
    let numbers = ranges.iter().zip(0i64..);
    let numbers = numbers.flat_map(|(range, row)| range.clone().map(move |_| row));
    zip.write(&bytes(numbers.map(i64::to_le_bytes)))?;
    zip.texts("label_names", names.iter().map(String::as_str))?;
    zip.texts("ids", rows.iter().map(|row| row.id.as_str()))?;
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    let groups: Vec<String> = rows.iter().map(|row| optional(&row.group)).collect();
    zip.texts("groups", groups.iter().map(String::as_str))?;
    let parts: Vec<String> = rows.iter().map(|row| optional(&row.part)).collect();
    zip.texts("parts", parts.iter().map(String::as_str))?;
    let finished = zip
        .zip
        .finish()
        .map_err(|error| failed(&temporary, error))?;
    let file = finished
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error);
    let synced = file.and_then(|file| file.sync_all());
    synced.map_err(Error::file("write the arrays", &temporary))?;
    std::fs::rename(&temporary, path).map_err(Error::file("put the file in its place", path))
}

/// An archive that is being written.
struct Npz<'a> {
    zip: ZipWriter<BufWriter<File>>,
    path: &'a Path,
}

impl Npz<'_> {
    /// Begins an array of a type with this shape.
    fn begin(&mut self, name: &str, descr: &str, shape: &[usize]) -> Result<()> {
        // An entry may be larger than the 4 GiB of a plain zip.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true);
        let begun = self.zip.start_file(format!("{name}.npy"), options);
        begun.map_err(|error| failed(self.path, error))?;
        let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
        let comma = if sizes.len() == 1 { "," } else { "" };
        let sizes = sizes.join(", ");
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}{comma}), }}");
        let begin = MAGIC.len() + 2;
        let length = (begin + header.len() + 1).next_multiple_of(ALIGNED);
        header += &" ".repeat(length - begin - header.len() - 1);
        header.push('\n');
        self.write(MAGIC)?;
        self.write(&(header.len() as u16).to_le_bytes())?;
        self.write(header.as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.zip.write_all(bytes);
        written.map_err(Error::file("write the arrays", self.path))
    }

    /// An array of texts, each of as many letters as the longest has.
    fn texts<'a>(
        &mut self,
        name: &str,
        texts: impl ExactSizeIterator<Item = &'a str> + Clone,
    ) -> Result<()> {
        let longest = texts.clone().map(|text| text.chars().count()).max();
        // NumPy has no text without a letter.
        let longest = longest.unwrap_or_default().max(1);
        self.begin(name, &format!("<U{longest}"), &[texts.len()])?;
        for text in texts {
            let letters = text.chars().map(u32::from);
            let letters = letters.chain(std::iter::repeat(0)).take(longest);
            self.write(&bytes(letters.map(u32::to_le_bytes)))?;
        }
        Ok(())
    }
}

fn bytes<const N: usize>(numbers: impl Iterator<Item = [u8; N]>) -> Vec<u8> {
    numbers.flatten().collect()
}

fn failed(path: &Path, error: ZipError) -> Error {
    Error::file("write the arrays", path)(error.into())
}
