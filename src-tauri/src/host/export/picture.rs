//! A network that learned pictures, written for other programs.

use std::path::Path;

use models::{
    figures::counted,
    tasks::picture::export::{self, FORMATS, Format},
};

use super::{Offered, Written, told};
use crate::wire::error::Result;

/// Every format, none of which says its size before.
pub(super) fn offers() -> Vec<Offered> {
    let offer = |about: &export::AboutFormat| Offered {
        name: about.name,
        title: about.title,
        ending: about.ending,
        bytes: None,
        readers: about.reader,
        losses: Vec::new(),
        refused: None,
    };
    FORMATS.iter().map(offer).collect()
}

/// Writes the network of a checkpoint.
pub(super) fn export(checkpoint: &Path, format: Format, out: &Path) -> Result<Written> {
    let exported = export::export(checkpoint, format, out)?;
    let details = told(&exported)?;
    let compared = &exported.compared;
    Ok(Written {
        compared: format!(
            "compared by {}: scores are at most {:.1e} of the largest apart; {}",
            counted(compared.pictures as u64, "drawn picture"),
            compared.apart,
            compared.what
        ),
        path: exported.path,
        bytes: exported.bytes,
        readers: format.about().reader,
        notes: exported.notes,
        details,
    })
}
