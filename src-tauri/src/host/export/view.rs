//! What was written of a network, as the window shows it.

use models::tasks::picture::export::Exported;
use serde::Serialize;
use specta::Type;

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportView {
    /// The file or folder.
    path: String,
    bytes: u64,
    /// Whom it is for: `ONNX Runtime`.
    reader: &'static str,
    /// How many pictures it was compared by with the network.
    pictures: usize,
    /// How far scores are apart at most, as a share of the largest one.
    apart: f64,
    /// What was computed from the file, in a sentence.
    compared: String,
    /// What whoever uses it has to know, in sentences.
    notes: Vec<String>,
}

impl From<Exported> for ExportView {
    fn from(exported: Exported) -> Self {
        let compared = exported.compared;
        Self {
            path: exported.path.display().to_string(),
            bytes: exported.bytes,
            reader: exported.format.about().reader,
            pictures: compared.pictures,
            apart: compared.apart,
            compared: compared.what,
            notes: exported.notes,
        }
    }
}
