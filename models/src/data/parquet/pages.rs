//! The pages of a row group, each looked at before the library decodes it.
//!
//! The library makes room for as many values as a dictionary says it has, and for as many lengths of texts as a page
//! does, before it looks for them. A wrong byte in one of these counts would end the program.

use parquet::{
    basic::Encoding,
    bloom_filter::Sbbf,
    column::page::{Page, PageMetadata, PageReader},
    errors::{ParquetError, Result},
    file::{metadata::RowGroupMetaData, reader::RowGroupReader},
    record::reader::RowIter,
    schema::types::Type,
};

use super::{cursor::Cursor, delta};

/// So many texts can be in a page whose lengths stand before them. Pages of most files have a few thousand.
const MAX_LENGTHS: u64 = 1 << 26;

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
        let is_possible = match &page {
            None => true,
            // No value is shorter than a byte: a text has its length, and truth is never in a dictionary.
            Some(Page::DictionaryPage {
                buf, num_values, ..
            }) => *num_values as usize <= buf.len(),
            Some(page) => self.has_its_lengths(page).is_some(),
        };
        match is_possible {
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

impl CheckedPages {
    /// Whether the lengths of a page's texts are there. A page without such lengths has them all.
    fn has_its_lengths(&self, page: &Page) -> Option<()> {
        let times = match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            // What two neighbours have in common, and then what is new.
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => return Some(()),
        };
        let mut values = Cursor(self.values(page)?);
        if values.0.is_empty() {
            return Some(());
        }
        let most = MAX_LENGTHS.min(page.num_values().into());
        for _ in 0..times {
            delta::count_numbers(&mut values, most)?;
        }
        Some(())
    }

    /// The bytes of a page behind its levels.
    fn values<'a>(&self, page: &'a Page) -> Option<&'a [u8]> {
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
                for _ in 0..self.kinds_of_levels {
                    let length = u32::from_le_bytes(*bytes.bytes(4)?.first_chunk()?);
                    bytes.bytes(length as usize)?;
                }
            }
        }
        Some(bytes.0)
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Gives one page.
    struct One(Option<Page>);

    impl PageReader for One {
        fn get_next_page(&mut self) -> Result<Option<Page>> {
            Ok(self.0.take())
        }

        fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
            Ok(None)
        }

        fn skip_next_page(&mut self) -> Result<()> {
            Ok(())
        }
    }

    impl Iterator for One {
        type Item = Result<Page>;

        fn next(&mut self) -> Option<Self::Item> {
            self.get_next_page().transpose()
        }
    }

    #[track_caller]
    fn check(page: Page, is_possible: bool) {
        let mut pages = CheckedPages {
            pages: Box::new(One(Some(page))),
            kinds_of_levels: 1,
        };
        assert_eq!(pages.get_next_page().is_ok(), is_possible);
    }

    #[test]
    fn a_dictionary_of_more_values_than_bytes_is_refused() {
        let page = |num_values| Page::DictionaryPage {
            buf: Bytes::from_static(b"\x01\0\0\0a"),
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        check(page(1), true);
        check(page(u32::MAX), false);
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
        check(page(127, 200, 1), true);
        check(page(127, 200, 2), true);
        check(page(127, 100, 1), false);
        check(page(127, 100, 2), false);
    }
}
