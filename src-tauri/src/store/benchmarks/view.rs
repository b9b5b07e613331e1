//! What a benchmark found, as the window shows it.

use models::bench::{BenchRow, Unit, advice::Advice};
use serde::Serialize;
use specta::Type;

use super::{BenchReport, MeasuredDevice, words_of};

/// How far a benchmark is.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BenchProgressView {
    pub(crate) done: usize,
    /// How many cases there are. 0 before that is known.
    pub(crate) cases: usize,
    /// What happens now: `LoRA step, 4 rows, f32 on Apple M3 Max`, or what it waits for.
    pub(crate) now: String,
    /// Whether it waits, for a run or for other work on a device.
    pub(crate) is_waiting: bool,
    /// Nothing before the first case is done.
    pub(crate) seconds_left: Option<f64>,
    /// What was measured so far, by device.
    pub(crate) devices: Vec<BenchDeviceView>,
}

/// What a benchmark found.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BenchView {
    /// What names it among others.
    id: String,
    /// When it ended, in UTC.
    time: String,
    version: String,
    system: String,
    /// `small`, `medium` or `large`.
    size: String,
    seconds: f64,
    /// Whether it was brought from elsewhere.
    imported: bool,
    /// What was odd about the machine's power: `on battery`.
    power: Option<String>,
    devices: Vec<BenchDeviceView>,
    /// How devices compare: `LoRA step: Metal is 1.69x faster than the CPU.`
    ratios: Vec<String>,
    advice: Vec<Advice>,
    /// What may have made it slower than the machine is: whole sentences.
    warnings: Vec<String>,
    /// How it compares with the one before it on this machine: whole sentences.
    since: Vec<String>,
}

/// What was measured on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BenchDeviceView {
    /// `Apple M3 Max`.
    name: String,
    /// `Metal`.
    kind: String,
    /// How a run asks for it: `cuda:1`.
    setting: String,
    rows: Vec<BenchRowView>,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BenchRowView {
    /// `lora_step`.
    workload: String,
    /// `LoRA step`.
    title: String,
    /// `shape of SmolLM2-135M, 4 x 256 tokens`, with the workers where there are some.
    config: String,
    /// Nothing where nothing is computed.
    dtype: Option<String>,
    /// Rows in a batch, where there are batches.
    rows: Option<usize>,
    unit: Unit,
    /// Why it was not measured.
    problem: Option<String>,
    measured: Option<BenchMeasuredView>,
}

/// What a case took.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BenchMeasuredView {
    first_millis: f64,
    median_millis: f64,
    /// A quarter of the steps took less, a quarter more.
    low_millis: f64,
    high_millis: f64,
    /// What of the unit was done each second, in a median step, and at the quartiles.
    per_second: f64,
    low_per_second: f64,
    high_per_second: f64,
    peak_bytes: Option<u64>,
    /// The share of what the device could do at best.
    roofline_share: Option<f64>,
    /// How many steps there were after the warm-up.
    steps: usize,
    /// Milliseconds of these steps, in order; of many, evenly spaced ones. None of a benchmark that was read from a table.
    step_millis: Vec<f64>,
}

impl BenchView {
    /// The view; `since` is how it compares with the one before it.
    pub(crate) fn new(report: &BenchReport, since: Vec<String>) -> Self {
        Self {
            id: report.id(),
            time: report.time.clone(),
            version: report.version.clone(),
            system: report.system.clone(),
            size: report.size.to_string(),
            seconds: report.seconds,
            imported: report.imported,
            power: report.power.describe(),
            devices: report.devices.iter().map(BenchDeviceView::from).collect(),
            ratios: report.ratios(),
            advice: report.advice(),
            warnings: report.all_warnings(),
            since,
        }
    }
}

impl From<&MeasuredDevice> for BenchDeviceView {
    fn from(on: &MeasuredDevice) -> Self {
        Self {
            name: on.device.name.clone(),
            kind: on.device.kind.to_string(),
            setting: on.device.setting(),
            rows: on
                .rows
                .iter()
                .map(|row| BenchRowView::new(row, on))
                .collect(),
        }
    }
}

impl BenchRowView {
    fn new(row: &BenchRow, on: &MeasuredDevice) -> Self {
        let measured = row.measured.as_ref().map(|it| BenchMeasuredView {
            first_millis: it.first_millis,
            median_millis: it.median_millis,
            low_millis: it.low_millis,
            high_millis: it.high_millis,
            per_second: it.per_second(),
            low_per_second: it.step.amount / it.high_millis * 1e3,
            high_per_second: it.step.amount / it.low_millis * 1e3,
            peak_bytes: it.peak_bytes,
            roofline_share: on.roofline_share(row),
            steps: it.steps,
            step_millis: it.step_millis.clone(),
        });
        // Title and dtype have places of their own.
        let words = words_of(&BenchRow {
            case: models::bench::BenchCase {
                dtype: None,
                ..row.case.clone()
            },
            ..row.clone()
        });
        let title = row.case.title().to_owned();
        let config = words
            .strip_prefix(&format!("{title}, "))
            .unwrap_or_default();
        Self {
            workload: row.case.workload.clone(),
            config: config.to_owned(),
            title,
            dtype: row.case.dtype.map(|dtype| dtype.to_string()),
            rows: row.case.variation.rows,
            unit: row.unit,
            problem: row.problem.clone(),
            measured,
        }
    }
}
