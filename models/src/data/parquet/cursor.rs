//! Walks over untrusted bytes. Past their end there is nothing, and no panic.

/// The bytes that are left.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A number, seven bits in each byte, the lowest first. Where numbers have a sign, it is the lowest bit.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Passes over numbers in the encoding of small steps, which stands before texts in some files. Nothing is given if
    /// there are more than `most`, or if they break off. The layout:
    /// <https://parquet.apache.org/docs/file-format/data-pages/encodings/#delta-encoding-delta_binary_packed--5>
    pub(super) fn pass_numbers(&mut self, most: u64) -> Option<()> {
        let block_values = self.number()?;
        let blocks_inside = self.number()?;
        let count = self.number()?;
        let _first = self.number()?;
        // A smaller block packs its numbers: so many bytes for each bit that a number of it has.
        let bytes_per_bit = usize::try_from(block_values.checked_div(blocks_inside)? / 8).ok()?;
        if count > most || bytes_per_bit == 0 {
            return None;
        }
        let mut left = count.saturating_sub(1);
        while left > 0 {
            let _smallest_step = self.number()?;
            let widths = self.bytes(usize::try_from(blocks_inside).ok()?)?;
            // Of the last block, only what is needed is there.
            for &bits in widths {
                if left > 0 {
                    self.bytes(bytes_per_bit.checked_mul(bits.into())?)?;
                }
                left = left.saturating_sub(bytes_per_bit as u64 * 8);
            }
        }
        Some(())
    }
}
