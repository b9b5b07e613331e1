//! The pages of a row group, each looked at before the library decodes it.
//!
//! Before it reads any of them, the library allocates room for all values that a dictionary claims to have, and for
//! all string lengths that a page claims. One wrong byte in such a count would end the program.

use parquet::{
    basic::Encoding,
    bloom_filter::Sbbf,
    column::page::{Page, PageMetadata, PageReader},
    errors::{ParquetError, Result},
    file::{metadata::RowGroupMetaData, reader::RowGroupReader},
    record::reader::RowIter,
    schema::types::Type,
};

use super::cursor::Cursor;
use crate::limits;

/// A row group that gives only pages that can be true.
pub(super) struct CheckedGroup<'a>(pub(super) Box<dyn RowGroupReader + 'a>);

struct CheckedPages {
    pages: Box<dyn PageReader>,
    /// How many kinds of levels stand before the values: one for what is missing, one for lists.
    kinds_of_levels: usize,
}

impl RowGroupReader for CheckedGroup<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.0.metadata()
    }

    fn num_columns(&self) -> usize {
        self.0.num_columns()
    }

    fn get_column_page_reader(&self, column: usize) -> Result<Box<dyn PageReader>> {
        let about = self.metadata().column(column).column_descr();
        Ok(Box::new(CheckedPages {
            pages: self.0.get_column_page_reader(column)?,
            kinds_of_levels: [about.max_def_level(), about.max_rep_level()]
                .into_iter()
                .filter(|&it| it > 0)
                .count(),
        }))
    }

    fn get_column_bloom_filter(&self, column: usize) -> Option<&Sbbf> {
        self.0.get_column_bloom_filter(column)
    }

    fn get_row_iter(&self, columns: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(columns, self)
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        let kinds_of_levels = self.kinds_of_levels;
        match page
            .as_ref()
            .is_none_or(|it| can_be_true(it, kinds_of_levels))
        {
            true => Ok(page),
            false => Err(ParquetError::General(
                "a page is too short for what it says it holds".to_owned(),
            )),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// Whether a page is long enough for what it says it holds.
fn can_be_true(page: &Page, kinds_of_levels: usize) -> bool {
    match (page, page.encoding()) {
        // No value is shorter than a byte: a text has its length, and truth is never in a dictionary.
        (Page::DictionaryPage { .. }, _) => page.num_values() as usize <= page.buffer().len(),
        (_, Encoding::DELTA_LENGTH_BYTE_ARRAY) => has_lengths(page, kinds_of_levels, 1).is_some(),
        // What two neighbours have in common, and then what is new.
        (_, Encoding::DELTA_BYTE_ARRAY) => has_lengths(page, kinds_of_levels, 2).is_some(),
        _ => true,
    }
}

/// Whether the lengths of a page's texts are there, so many times, behind its levels.
fn has_lengths(page: &Page, kinds_of_levels: usize, times: usize) -> Option<()> {
    let mut bytes = Cursor(page.buffer());
    match page {
        Page::DataPageV2 {
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => {
            bytes.bytes(*def_levels_byte_len as usize)?;
            bytes.bytes(*rep_levels_byte_len as usize)?;
        }
        _ => {
            for _ in 0..kinds_of_levels {
                let length = u32::from_le_bytes(*bytes.bytes(4)?.first_chunk()?);
                bytes.bytes(length as usize)?;
            }
        }
    }
    if !bytes.0.is_empty() {
        let most = limits::PARQUET_TEXTS.most.min(page.num_values().into());
        for _ in 0..times {
            bytes.pass_numbers(most)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_dictionary_of_more_values_than_bytes_is_refused() {
        let page = |num_values| Page::DictionaryPage {
            buf: Bytes::from_static(b"\x01\0\0\0a"),
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        assert_eq!(
            [1, u32::MAX].map(|it| can_be_true(&page(it), 1)),
            [true, false]
        );
    }

    /// Levels of one byte; blocks of 128 numbers in 4 parts; the count; the first, 3; a step of 0 in no bits.
    #[test]
    fn more_lengths_than_values_or_bytes_are_refused() {
        let page = |count: u8, num_values, times: usize| {
            let lengths = [&[0x80, 1, 4, count, 6][..], &[0; 5]]
                .concat()
                .repeat(times);
            Page::DataPage {
                buf: [&[1, 0, 0, 0, 9], lengths.as_slice()].concat().into(),
                num_values,
                encoding: match times {
                    1 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
                    _ => Encoding::DELTA_BYTE_ARRAY,
                },
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            }
        };
        for times in [1, 2] {
            assert!(can_be_true(&page(127, 200, times), 1));
            assert!(!can_be_true(&page(127, 100, times), 1));
        }
    }
}
