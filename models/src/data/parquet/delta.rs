//! How many numbers there are in the encoding of small steps, which stands before texts in some files.
//!
//! The library makes room for as many as the encoding says there are. The layout:
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/#delta-encoding-delta_binary_packed--5>

use super::cursor::Cursor;

/// Passes over the numbers, and gives their count. Nothing is given if there are more than `most`, or if they break off.
pub(super) fn count_numbers(cursor: &mut Cursor<'_>, most: u64) -> Option<u64> {
    let block_values = cursor.number()?;
    let blocks_inside = cursor.number()?;
    let count = cursor.number()?;
    let _first = cursor.number()?;
    // A smaller block packs its numbers: so many bytes for each bit that a number of it has.
    let bytes_per_bit = usize::try_from(block_values.checked_div(blocks_inside)? / 8).ok()?;
    if count > most || bytes_per_bit == 0 {
        return None;
    }
    let mut left = count.saturating_sub(1);
    while left > 0 {
        let _smallest_step = cursor.number()?;
        let widths = cursor.bytes(usize::try_from(blocks_inside).ok()?)?;
        // Of the last block, only what is needed is there.
        for &bits in widths {
            if left > 0 {
                cursor.bytes(bytes_per_bit.checked_mul(bits.into())?)?;
            }
            left = left.saturating_sub(bytes_per_bit as u64 * 8);
        }
    }
    Some(count)
}
