//! A file that is read in blocks, each of them once.
//!
//! A Parquet file is asked for in many small pieces that stand close together. Over a network a request takes longer
//! than the bytes of a block, so what follows a piece is read along with it.

use std::{
    io::{self, Read},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::{Bytes, BytesMut};
use parquet::{
    errors::{ParquetError, Result},
    file::reader::{ChunkReader, Length},
};

use super::ReadAt;

/// How much is read at least: as much as a page of most files has.
const BLOCK_BYTES: u64 = 512 * 1024;

/// A file, and what was read of it.
#[derive(Clone)]
pub(super) struct Blocks(Arc<Inner>);

struct Inner {
    file: Box<dyn ReadAt>,
    file_bytes: u64,
    /// Where each block starts, and what it holds. There are a few.
    read: Mutex<Vec<(u64, Bytes)>>,
}

/// Reads a file from one place on.
pub(super) struct BlocksReader {
    blocks: Blocks,
    at: u64,
}

impl Blocks {
    pub(super) fn new(file: impl ReadAt + 'static) -> Self {
        Self(Arc::new(Inner {
            file_bytes: file.bytes(),
            file: Box::new(file),
            read: Mutex::default(),
        }))
    }

    /// What is at hand from this place on, at least a byte. If that is nothing, at least so many bytes are read.
    fn from(&self, start: u64, wanted: u64) -> io::Result<Bytes> {
        let mut read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner);
        let at_hand = read.iter().find_map(|(block_start, block)| {
            let skipped = usize::try_from(start.checked_sub(*block_start)?).ok()?;
            (skipped < block.len()).then(|| block.slice(skipped..))
        });
        if let Some(bytes) = at_hand {
            return Ok(bytes);
        }
        // Near the end, what stands before is read along: the footer is found from the last bytes.
        let end = self.0.file_bytes.min(start + wanted.max(BLOCK_BYTES));
        let block_start = start.min(end.saturating_sub(BLOCK_BYTES));
        let length = (end - block_start) as usize;
        let block = Bytes::from(self.0.file.read_at(block_start, length)?);
        if block.len() != length {
            let words = format!(
                "{} of {length} bytes came from byte {block_start} on",
                block.len()
            );
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, words));
        }
        read.push((block_start, block.clone()));
        Ok(block.slice((start - block_start) as usize..))
    }
}

impl Length for Blocks {
    fn len(&self) -> u64 {
        self.0.file_bytes
    }
}

impl ChunkReader for Blocks {
    type T = BlocksReader;

    fn get_read(&self, start: u64) -> Result<BlocksReader> {
        Ok(BlocksReader {
            blocks: self.clone(),
            at: start,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64);
        let Some(end) = end.filter(|&end| end <= self.0.file_bytes) else {
            return Err(ParquetError::EOF(format!(
                "{length} bytes from byte {start} on reach past its end"
            )));
        };
        let mut at = start;
        let mut bytes = BytesMut::new();
        while at < end {
            let mut more = self.from(at, end - at)?;
            more.truncate((end - at) as usize);
            if more.len() == length {
                return Ok(more);
            }
            at += more.len() as u64;
            bytes.extend_from_slice(&more);
        }
        Ok(bytes.freeze())
    }
}

impl Read for BlocksReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.blocks.0.file_bytes.saturating_sub(self.at);
        if left == 0 || into.is_empty() {
            return Ok(0);
        }
        let bytes = self.blocks.from(self.at, 1)?;
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        self.at += count as u64;
        Ok(count)
    }
}
