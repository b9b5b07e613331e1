//! What the device check found, as the window shows it.

use models::{
    check::{CheckRow, Verdict},
    device::defaults::Limit,
};
use serde::Serialize;
use specta::Type;

use super::{CheckReport, Step, instead};

/// How far a check is.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckProgressView {
    /// As a run asks for it: `cuda:1`.
    pub(crate) device: String,
    pub(crate) done: usize,
    pub(crate) cases: usize,
    /// What was tried last: `attention in bf16`.
    pub(crate) last: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckView {
    /// What came out, in one line: `Ready to train on Apple M3 Max (Metal)`.
    verdict: String,
    /// Whether runs may use the device.
    ready: bool,
    /// When it ended, in UTC.
    time: String,
    seconds: f64,
    /// What plans do with it: whole sentences.
    consequences: Vec<String>,
    steps: Vec<Step>,
    rows: Vec<CheckRowView>,
    /// What can't be done there, or not yet.
    limits: Vec<Limit>,
    /// The same as text, to paste where help is asked for.
    report: String,
}

/// One operation in one dtype.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckRowView {
    group: String,
    operation: String,
    dtype: String,
    verdict: Verdict,
    error: Option<f64>,
    tolerance: Option<f64>,
    device_millis: Option<f64>,
    /// The same without the kernel that we have for it, where that was measured.
    composed_millis: Option<f64>,
    cpu_millis: Option<f64>,
    /// The device's own words.
    message: Option<String>,
    /// What runs do instead.
    instead: Option<String>,
}

impl From<&CheckReport> for CheckView {
    fn from(report: &CheckReport) -> Self {
        Self {
            limits: report.limits(),
            verdict: report.verdict(),
            ready: report.is_ready(),
            time: report.time.clone(),
            seconds: report.seconds,
            consequences: report.consequences(),
            steps: report.steps.clone(),
            rows: report.rows.iter().map(CheckRowView::from).collect(),
            report: report.text(),
        }
    }
}

impl From<&CheckRow> for CheckRowView {
    fn from(row: &CheckRow) -> Self {
        Self {
            group: row.group.clone(),
            operation: row.operation.clone(),
            dtype: row.dtype.to_string(),
            verdict: row.verdict,
            error: row.error,
            tolerance: Some(row.tolerance).filter(|tolerance| *tolerance > 0.0),
            device_millis: row.device_millis,
            composed_millis: row.composed_millis,
            cpu_millis: row.cpu_millis,
            message: row.message.clone(),
            instead: row.fallback.map(instead).map(str::to_owned),
        }
    }
}
