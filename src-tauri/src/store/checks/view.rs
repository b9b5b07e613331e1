//! What the device check found, as the window shows it.

use models::check::{CheckRow, Verdict};
use serde::Serialize;
use specta::Type;

use super::{CheckReport, instead};

/// How far a check is.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckProgressView {
    /// As a run asks for it: `cuda:1`.
    pub(crate) device: String,
    pub(crate) done: u32,
    pub(crate) cases: u32,
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
    steps: Vec<CheckStepView>,
    rows: Vec<CheckRowView>,
    /// What can't be done there, or not yet.
    limits: Vec<LimitView>,
    /// The same as text, to paste where help is asked for.
    report: String,
}

/// Something a run needs besides right numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckStepView {
    name: String,
    problem: Option<String>,
}

/// Something that can't be done on a device, or not yet.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitView {
    /// `No 8-bit optimizer`.
    what: String,
    /// A sentence.
    why: String,
}

/// One operation in one dtype.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckRowView {
    group: String,
    operation: String,
    dtype: String,
    verdict: CheckVerdict,
    error: Option<f64>,
    tolerance: Option<f64>,
    device_millis: Option<f64>,
    cpu_millis: Option<f64>,
    /// The device's own words.
    message: Option<String>,
    /// What runs do instead.
    instead: Option<String>,
}

/// What can come out for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckVerdict {
    Ok,
    Slow,
    Inexact,
    Missing,
    Crashed,
}

impl From<&CheckReport> for CheckView {
    fn from(report: &CheckReport) -> Self {
        let steps = report.steps.iter().map(|step| CheckStepView {
            name: step.name.clone(),
            problem: step.problem.clone(),
        });
        let limits = report.limits().into_iter().map(|limit| LimitView {
            what: limit.what,
            why: limit.why.to_owned(),
        });
        Self {
            limits: limits.collect(),
            verdict: report.verdict(),
            ready: report.is_ready(),
            time: report.time.clone(),
            seconds: report.seconds,
            consequences: report.consequences(),
            steps: steps.collect(),
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
            verdict: match row.verdict {
                Verdict::Ok => CheckVerdict::Ok,
                Verdict::Slow => CheckVerdict::Slow,
                Verdict::Inexact => CheckVerdict::Inexact,
                Verdict::Missing => CheckVerdict::Missing,
                Verdict::Crashed => CheckVerdict::Crashed,
            },
            error: row.error,
            tolerance: Some(row.tolerance).filter(|tolerance| *tolerance > 0.0),
            device_millis: row.device_millis,
            cpu_millis: row.cpu_millis,
            message: row.message.clone(),
            instead: row.fallback.map(instead).map(str::to_owned),
        }
    }
}
