//! The file of a set's pixels: all pictures one after another, then JSON that says what became of each, the length of that JSON,
//! a checksum of everything before it, and a closing mark.
//!
//! Nothing in it is used until it matches the checksum and what is expected. Deliberately absent: changing a file in place. It is
//! written whole, or made again.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process,
};

use memmap2::Mmap;
use serde::{Deserialize, Serialize};

use super::{pixels::Shape, store::Pixels};
use crate::{Error, Result};

/// How the names of these files end.
pub(super) const ENDING: &str = "pictures";
/// How a file ends.
const MARK: &[u8; 8] = b"ANNEALPX";
/// What stands behind the description: its length in eight bytes, the sum in four, and the mark.
const TAIL_BYTES: usize = 8 + 4 + MARK.len();

/// What became of a picture: its identity, or why it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Outcome {
    Read(u64),
    Unread(String),
}

/// What a file says of itself.
#[derive(Serialize, Deserialize)]
struct Description {
    shape: Shape,
    outcomes: Vec<Outcome>,
}

/// A file that is being made.
pub(super) struct Writer {
    file: BufWriter<File>,
    sum: crc32fast::Hasher,
    temporary: PathBuf,
    path: PathBuf,
}

impl Writer {
    pub(super) fn new(path: &Path) -> Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::file("make the folder of pixels", folder))?;
        }
        // Two programs that make the same file don't write into one another's.
        let temporary = path.with_extension(format!("{}.part", process::id()));
        let file = File::create(&temporary).map_err(Error::file("write the pixels", &temporary))?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 20, file),
            sum: crc32fast::Hasher::new(),
            temporary,
            path: path.to_owned(),
        })
    }

    /// Adds the pixels of a picture.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum.update(bytes);
        let written = self.file.write_all(bytes);
        written.map_err(Error::file("write the pixels", &self.temporary))
    }

    /// Ends the file, and gives it its name.
    pub(super) fn finish(mut self, shape: Shape, outcomes: &[Outcome]) -> Result<()> {
        let description = Description {
            shape,
            outcomes: outcomes.to_vec(),
        };
        let description = serde_json::to_vec(&description)
            .map_err(|error| Error::format(&self.path, error.to_string()))?;
        self.add(&description)?;
        self.add(&(description.len() as u64).to_le_bytes())?;
        let sum = self.sum.clone().finalize();
        self.add(&sum.to_le_bytes())?;
        self.add(MARK)?;
        let failed = || Error::file("write the pixels", &self.temporary);
        self.file.flush().map_err(failed())?;
        self.file.get_ref().sync_all().map_err(failed())?;
        fs::rename(&self.temporary, &self.path)
            .map_err(Error::file("put the pixels in their place", &self.path))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After it got its name, there is none any more.
        drop(fs::remove_file(&self.temporary));
    }
}

/// The pixels of a file and what became of each picture, if it is whole and about so many pictures of this shape.
pub(super) fn read(path: &Path, shape: Shape, count: usize) -> Option<(Pixels, Vec<Outcome>)> {
    let file = File::open(path).ok()?;
    // SAFETY: a mapped file must not change while it is read. One that has its name is never written to: another takes its place.
    let map = unsafe { Mmap::map(&file) }.ok()?;
    let (rest, mark) = map.split_last_chunk::<{ MARK.len() }>()?;
    let (summed, sum) = rest.split_last_chunk::<4>()?;
    if mark != MARK || crc32fast::hash(summed) != u32::from_le_bytes(*sum) {
        return None;
    }
    let (rest, length) = summed.split_last_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let bytes = rest.len().checked_sub(length)?;
    let Description {
        shape: found,
        outcomes,
    } = serde_json::from_slice(&rest[bytes..]).ok()?;
    let read = outcomes
        .iter()
        .filter(|it| matches!(it, Outcome::Read(_)))
        .count();
    let is_whole = found == shape
        && outcomes.len() == count
        && read.checked_mul(shape.bytes()) == Some(bytes)
        && map.len() == bytes + length + TAIL_BYTES;
    is_whole.then_some((Pixels::Mapped { map, bytes }, outcomes))
}
