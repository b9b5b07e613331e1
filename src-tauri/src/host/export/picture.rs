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
        uncomparable: None,
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
            "compared by {}: {}; {}",
            counted(compared.pictures as u64, "drawn picture"),
            apart_in_words(compared.apart),
            compared.what
        ),
        path: exported.path,
        bytes: exported.bytes,
        readers: format.about().reader,
        notes: exported.notes,
        details,
    })
}

/// How far scores are from those of the network, as a share of the largest of these.
fn apart_in_words(apart: f64) -> String {
    if apart <= 0.0 {
        return "all scores are equal".to_owned();
    }
    // The next power of ten says as much as digits of a rounding do.
    let power = (100.0 * apart).log10().ceil().clamp(-9.0, 2.0) as i32;
    let digits = power.min(0).unsigned_abs() as usize;
    let percent = format!("{:.digits$}", 10f64.powi(power));
    format!("scores are less than {percent} % of the largest apart")
}

#[cfg(test)]
mod tests {
    use super::apart_in_words;

    #[test]
    fn small_differences_are_said_as_shares_that_people_read() {
        for (apart, expected) in [
            (0.0, "all scores are equal"),
            (3.1e-7, "scores are less than 0.0001 % of the largest apart"),
            (1.2e-3, "scores are less than 1 % of the largest apart"),
            (0.02, "scores are less than 10 % of the largest apart"),
        ] {
            assert_eq!(apart_in_words(apart), expected);
        }
    }
}
