//! The headers of pages, each looked at before the library reads it.
//!
//! The library skips fields that it does not know, even a list that claims two billion values past the end of the file: a few
//! bytes keep it busy for hours. A header that does not end is refused here, and so is one with a list, since the format has
//! none. The library also allocates whatever size a page says it unpacks to, and one wrong byte makes that two billion bytes.

use std::io::{Cursor, Read};

use bytes::Bytes;
use parquet::{
    errors::{ParquetError, Result},
    file::reader::{ChunkReader, Length},
};

use super::footer::{Fields, TAIL_BYTES};
use crate::limits;

/// So many bytes hold almost every header.
const FIRST_BYTES: u64 = 512;

/// A file that gives only headers that can be read.
pub(super) struct CheckedFile<F>(pub(super) F);

impl<F: Length> Length for CheckedFile<F> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<F: ChunkReader> ChunkReader for CheckedFile<F> {
    type T = Cursor<Vec<u8>>;

    /// The header of the page that begins there. It is the only thing that the library reads so, beside the end of a file.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut from = self.0.get_read(start)?;
        let mut header = Vec::new();
        let is_end = start.checked_add(TAIL_BYTES as u64) == Some(self.len());
        let mut most = FIRST_BYTES;
        loop {
            let missing = most - header.len() as u64;
            from.by_ref().take(missing).read_to_end(&mut header)?;
            let unpacked_bytes = match is_end {
                true => Some(0),
                false => Fields::pass_header(&header),
            };
            if let Some(bytes) = unpacked_bytes {
                return match limits::PARQUET_PAGE.exceeded(bytes) {
                    Some(problem) => Err(ParquetError::General(format!(
                        "the size of a page without its compression {problem}"
                    ))),
                    None => Ok(Cursor::new(header)),
                };
            }
            let is_all = (header.len() as u64) < most;
            if is_all || most == limits::PARQUET_HEADER.most {
                return Err(ParquetError::General(
                    "the header of a page makes no sense".to_owned(),
                ));
            }
            most = (most * 8).min(limits::PARQUET_HEADER.most);
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the library may read of a header in a file with enough behind it.
    #[track_caller]
    fn check(header: &[u8], is_good: bool) {
        let file = Bytes::from([header, &[1; 2000]].concat());
        let read = CheckedFile(file).get_read(0);
        assert_eq!(read.is_ok(), is_good, "{header:?}");
    }

    #[test]
    fn a_header_with_a_list_or_without_an_end_is_refused() {
        // Two numbers, a struct with one, and the end.
        check(&[0x15, 2, 0x15, 4, 0x2c, 0x15, 6, 0, 0], true);
        // Another field: a list of 2^31 - 1 truths, and one of as many numbers.
        check(&[0x15, 2, 0x19, 0xf1, 255, 255, 255, 255, 7, 0], false);
        check(&[0x15, 2, 0x19, 0xf7, 255, 255, 255, 255, 7, 0], false);
        // A text that is longer than the file.
        check(&[0x18, 255, 255, 255, 255, 7, 0], false);
    }

    /// The first field is the kind of page, the second its size; both are written twice as large, for the sign.
    #[test]
    fn a_page_that_says_it_unpacks_to_more_than_the_limit_is_refused() {
        check(&[0x15, 0, 0x15, 0x80, 0x80, 0x80, 0x80, 0x02, 0], true);
        check(&[0x15, 0, 0x15, 0x82, 0x80, 0x80, 0x80, 0x02, 0], false);
        // More bits than the library keeps: what it makes of them may be anything.
        let endless = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        check(&[&[0x15, 0, 0x15], &endless[..], &[0]].concat(), false);
    }

    #[test]
    fn a_header_with_long_texts_is_read() {
        let text = vec![b'a'; 4000];
        let header = [&[0x18, 0xa0, 0x1f], text.as_slice(), &[0]].concat();
        check(&header, true);
    }
}
