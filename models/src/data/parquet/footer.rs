//! A look at the footer of a Parquet file before the library reads it.
//!
//! The library allocates room for as many columns as a footer claims, and recurses as deep as its columns are nested.
//! A few bytes are enough to make it request all memory or overflow the stack, and neither can be caught, so the tree
//! of columns is counted here first. The library checks the rest of the footer.
//!
//! The footer is a struct in Thrift's compact protocol:
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

use parquet::file::reader::ChunkReader;

use super::{MARK, caught, cursor::Cursor, damaged};
use crate::limits;

/// The length of the footer in four bytes, and the mark.
pub(super) const TAIL_BYTES: usize = 8;
/// How deep columns may be nested.
const MAX_DEPTH: usize = limits::PARQUET_DEPTH.most as usize;

const ENCRYPTED: &str = "the Parquet file is encrypted; decrypt it first";

/// Fields of the footer and of a column, by the numbers the format gives them.
const SCHEMA: i16 = 2;
const ENCRYPTION: i16 = 8;
const NUM_CHILDREN: i16 = 5;

/// The field of a page's header that says how many bytes its values have without compression.
const UNPACKED_BYTES: i16 = 2;

/// Kinds of values in the protocol.
const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// An error says why the library must not read this file.
pub(super) fn check(file: &impl ChunkReader) -> Result<(), String> {
    let cut_off = "the Parquet file is cut off: its end, which says what it holds, is missing; download or copy it \
                   again";
    let tail_start = file.len().checked_sub(TAIL_BYTES as u64).ok_or(cut_off)?;
    let tail = caught(|| file.get_bytes(tail_start, TAIL_BYTES))?;
    if tail.ends_with(b"PARE") {
        return Err(ENCRYPTED.to_owned());
    }
    let length = tail.first_chunk().filter(|_| tail.ends_with(MARK));
    let length = length.map(|it| u32::from_le_bytes(*it)).ok_or(cut_off)?;
    if let Some(problem) = limits::PARQUET_FOOTER.exceeded(length.into()) {
        return Err(damaged(&format!("the length of its footer {problem}")));
    }
    let start = tail_start.checked_sub(length.into()).ok_or(cut_off)?;
    let footer = caught(|| file.get_bytes(start, length as usize))?;
    let fields = Fields {
        bytes: Cursor(&footer),
        has_lists: true,
    };
    match fields.footer() {
        Some(footer) if footer.is_encrypted => Err(ENCRYPTED.to_owned()),
        Some(footer) if is_a_tree(&footer.children) => Ok(()),
        _ => Err(damaged("its footer makes no sense")),
    }
}

/// What has to be known of a footer.
struct Footer {
    is_encrypted: bool,
    /// How many columns each column has inside, in the order in which a tree is written down.
    children: Vec<u64>,
}

/// Whether these numbers of children are those of one tree that is not too deep.
fn is_a_tree(children: &[u64]) -> bool {
    // How many children are still to come, for each column that is open.
    let mut open: Vec<u64> = vec![1];
    for &count in children {
        let Some(left) = open.last_mut() else {
            return false;
        };
        *left -= 1;
        if count > children.len() as u64 || open.len() > MAX_DEPTH {
            return false;
        }
        open.push(count);
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    open.is_empty()
}

/// What is left to read of a footer, or of the header of a page.
pub(super) struct Fields<'a> {
    bytes: Cursor<'a>,
    /// Whether there may be lists.
    has_lists: bool,
}

impl<'a> Fields<'a> {
    /// Passes over the header of a page, which has no lists. Gives how many bytes the page says it has without compression.
    pub(super) fn pass_header(bytes: &'a [u8]) -> Option<u64> {
        let mut fields = Self {
            bytes: Cursor(bytes),
            has_lists: false,
        };
        let (mut number, mut unpacked_bytes) = (0, 0);
        loop {
            match fields.field(&mut number)? {
                STOP => return Some(unpacked_bytes),
                // The sign is the lowest bit. Less than nothing is refused by the library.
                I32 if number == UNPACKED_BYTES => unpacked_bytes = fields.bytes.number()? / 2,
                kind => fields.skip(kind, 1)?,
            }
        }
    }

    fn footer(mut self) -> Option<Footer> {
        let mut footer = Footer {
            is_encrypted: false,
            children: Vec::new(),
        };
        let mut number = 0;
        loop {
            match self.field(&mut number)? {
                STOP => return Some(footer),
                LIST if number == SCHEMA => {
                    let (count, _) = self.list()?;
                    for _ in 0..count {
                        footer.children.push(self.num_children()?);
                    }
                }
                kind => {
                    footer.is_encrypted |= number == ENCRYPTION;
                    self.skip(kind, 0)?;
                }
            }
        }
    }

    /// Reads one column of the schema.
    fn num_children(&mut self) -> Option<u64> {
        let (mut number, mut children) = (0, 0);
        loop {
            match self.field(&mut number)? {
                STOP => return Some(children),
                I32 if number == NUM_CHILDREN => children = self.bytes.number()? / 2,
                kind => self.skip(kind, 0)?,
            }
        }
    }

    /// The kind of the next field. Its number is given as the distance from the one before, if that is short.
    fn field(&mut self, number: &mut i16) -> Option<u8> {
        let head = self.bytes.bytes(1)?[0];
        let (distance, kind) = (i16::from(head >> 4), head & 0x0f);
        *number = match distance {
            _ if kind == STOP => *number,
            0 => i16::try_from(self.bytes.number()? / 2).ok()?,
            _ => number.checked_add(distance)?,
        };
        Some(kind)
    }

    /// How many values a list has, and of which kind.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.bytes.bytes(1)?[0];
        let count = match head >> 4 {
            15 => self.bytes.number()?,
            count => u64::from(count),
        };
        Some((count, head & 0x0f))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            TRUE | FALSE => {}
            BYTE => _ = self.bytes.bytes(1)?,
            I16 | I32 | I64 => _ = self.bytes.number()?,
            DOUBLE => _ = self.bytes.bytes(8)?,
            BINARY => {
                let length = self.bytes.number()?;
                self.bytes.bytes(usize::try_from(length).ok()?)?;
            }
            LIST | SET if self.has_lists => {
                let (count, kind) = self.list()?;
                // For the library, truths in a list take no bytes: a billion of them would fit into a few.
                if matches!(kind, TRUE | FALSE) {
                    return None;
                }
                for _ in 0..count {
                    self.skip(kind, depth + 1)?;
                }
            }
            STRUCT => {
                let mut number = 0;
                loop {
                    match self.field(&mut number)? {
                        STOP => return Some(()),
                        kind => self.skip(kind, depth + 1)?,
                    }
                }
            }
            // Parquet has no maps in its footer.
            _ => return None,
        }
        Some(())
    }
}
