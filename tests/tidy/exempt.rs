//! What may break a budget, and why. An entry that is not needed any more is a violation itself.

use crate::budget::Exempt;

/// Files and functions that are longer than their budget on purpose.
///
/// A reason says why the thing is easier to read in one piece: a flat list, a table, a generated file.
pub(crate) const LONG: &[Exempt] = &[];
