//! What the window shows: small values, ready to be drawn. JavaScript has no 64-bit integers, so there are none.

mod plan;
mod run;

use serde::Serialize;
use specta::Type;

pub(crate) use plan::{EstimateView, FieldView, MeasureView, PlanView};
pub(crate) use run::{EventsView, FileView, PlanLineView, RunNews, RunView};

use super::error::{AppError, Code};

/// An error as the window shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorView {
    /// What can be done about it.
    code: Code,
    /// What was tried, on what, with which numbers.
    message: String,
    /// What to try next, if we know.
    hint: Option<String>,
    /// The setting at fault, as in a run file, if there is one.
    field: Option<String>,
}

impl From<AppError> for ErrorView {
    fn from(error: AppError) -> Self {
        Self {
            code: error.code,
            message: error.message,
            hint: error.hint,
            field: error.field,
        }
    }
}
