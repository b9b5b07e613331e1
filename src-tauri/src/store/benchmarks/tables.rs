//! A benchmark as CSV, to be read by any program and by this one again, and as Markdown, to be pasted.

use std::path::Path;

use models::{
    bench::{BenchCase, BenchRow, Measured, Size, StepWork, Unit, Variation},
    device::{DeviceKind, FoundDevice},
    figures::count,
};
use serde::{Deserialize, Serialize};

use super::{BenchReport, FORMAT, MeasuredDevice, words_of};
use crate::{
    power::supply::Power,
    wire::error::{AppError, Result},
};

/// What a file of a benchmark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Csv,
    Markdown,
}

impl Kind {
    /// As the name of the file says.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let end = path.extension().map(|end| end.to_ascii_lowercase());
        match end.as_ref().and_then(|end| end.to_str()) {
            Some("json") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            Some("md") => Ok(Self::Markdown),
            _ => Err(AppError::invalid(format!(
                "a benchmark is a file that ends in .json, .csv or .md, and this one does not: `{}`",
                path.display()
            ))),
        }
    }
}

/// A line of CSV: a row with all that is known of where it comes from.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    time: String,
    version: String,
    system: String,
    on_battery: Option<bool>,
    low_power_mode: Option<bool>,
    #[serde(default)]
    is_hot: Option<bool>,
    seconds: f64,
    device: String,
    kind: DeviceKind,
    ordinal: usize,
    sustained: Option<f64>,
    workload: String,
    size: Size,
    dtype: Option<models::device::dtype::Dtype>,
    rows: Option<usize>,
    workers: Option<usize>,
    config: String,
    unit: Unit,
    first_millis: Option<f64>,
    median_millis: Option<f64>,
    low_millis: Option<f64>,
    high_millis: Option<f64>,
    steps: Option<usize>,
    per_second: Option<f64>,
    roofline_share: Option<f64>,
    amount: Option<f64>,
    operations: Option<f64>,
    bytes: Option<f64>,
    peak_bytes: Option<u64>,
    estimated_bytes: Option<u64>,
    problem: Option<String>,
}

impl Line {
    fn new(report: &BenchReport, on: &MeasuredDevice, row: &BenchRow) -> Self {
        let measured = row.measured.as_ref();
        Self {
            time: report.time.clone(),
            version: report.version.clone(),
            system: report.system.clone(),
            on_battery: report.power.on_battery,
            low_power_mode: report.power.low_power_mode,
            is_hot: report.power.is_hot,
            seconds: report.seconds,
            device: on.device.name.clone(),
            kind: on.device.kind,
            ordinal: on.device.ordinal,
            sustained: on.sustained,
            workload: row.case.workload.clone(),
            size: row.case.size,
            dtype: row.case.dtype,
            rows: row.case.variation.rows,
            workers: row.case.variation.workers,
            config: row.config.clone(),
            unit: row.unit,
            first_millis: measured.map(|it| it.first_millis),
            median_millis: measured.map(|it| it.median_millis),
            low_millis: measured.map(|it| it.low_millis),
            high_millis: measured.map(|it| it.high_millis),
            steps: measured.map(|it| it.steps),
            per_second: row.per_second(),
            roofline_share: on.roofline_share(row),
            amount: measured.map(|it| it.step.amount),
            operations: measured.map(|it| it.step.operations),
            bytes: measured.map(|it| it.step.bytes),
            peak_bytes: measured.and_then(|it| it.peak_bytes),
            estimated_bytes: measured.and_then(|it| it.step.estimated_bytes),
            problem: row.problem.clone(),
        }
    }

    /// The row. Its single steps are not in a table.
    fn row(self) -> BenchRow {
        let measured = || {
            Some(Measured {
                first_millis: self.first_millis?,
                median_millis: self.median_millis?,
                low_millis: self.low_millis?,
                high_millis: self.high_millis?,
                steps: self.steps?,
                step_millis: Vec::new(),
                step: StepWork {
                    amount: self.amount?,
                    operations: self.operations?,
                    bytes: self.bytes?,
                    estimated_bytes: self.estimated_bytes,
                },
                peak_bytes: self.peak_bytes,
            })
        };
        BenchRow {
            measured: measured(),
            case: BenchCase {
                workload: self.workload,
                size: self.size,
                dtype: self.dtype,
                variation: Variation {
                    rows: self.rows,
                    workers: self.workers,
                },
            },
            config: self.config,
            unit: self.unit,
            problem: self.problem,
        }
    }
}

/// A line for each row.
pub(super) fn csv(report: &BenchReport) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |error: &dyn std::error::Error| AppError::failed(error.to_string());
    for on in &report.devices {
        for row in &on.rows {
            let line = Line::new(report, on, row);
            writer.serialize(line).map_err(|error| failed(&error))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|error| failed(&error))
}

/// The benchmark in a table that [`csv`] made. The errors are the ends of sentences.
pub(super) fn from_csv(text: &[u8]) -> Result<BenchReport, String> {
    let mut report: Option<BenchReport> = None;
    for line in csv::Reader::from_reader(text).into_deserialize::<Line>() {
        let line = line.map_err(|error| error.to_string())?;
        let report = report.get_or_insert_with(|| BenchReport {
            format: FORMAT,
            time: line.time.clone(),
            version: line.version.clone(),
            system: line.system.clone(),
            size: line.size,
            seconds: line.seconds,
            power: Power {
                on_battery: line.on_battery,
                low_power_mode: line.low_power_mode,
                is_hot: line.is_hot,
                percent: None,
            },
            warnings: Vec::new(),
            imported: false,
            devices: Vec::new(),
        });
        if line.time != report.time {
            return Err(format!(
                "it has lines of {} and of {}",
                report.time, line.time
            ));
        }
        let device = FoundDevice::named(line.kind, line.ordinal, &line.device);
        if report.devices.last().is_none_or(|it| it.device != device) {
            report.devices.push(MeasuredDevice {
                device,
                sustained: line.sustained,
                rows: Vec::new(),
            });
        }
        if let Some(on) = report.devices.last_mut() {
            on.rows.push(line.row());
        }
    }
    report.ok_or_else(|| "it has no lines".to_owned())
}

/// Refuses what no machine could have measured, and names that are none.
pub(super) fn check(report: &BenchReport) -> Result<(), String> {
    let is_time = report.time.parse::<jiff::Timestamp>().is_ok();
    if !is_time || report.id().contains(['/', '\\']) {
        return Err(format!("`{}` is no time", report.time));
    }
    let of_all = report.devices.iter().map(|on| on.sustained.unwrap_or(1.0));
    if !of_all.chain([report.seconds]).all(f64::is_finite) {
        return Err("it has a number that is none".to_owned());
    }
    for row in report.devices.iter().flat_map(|on| &on.rows) {
        if let Some(it) = &row.measured {
            let positive = [
                it.first_millis,
                it.median_millis,
                it.low_millis,
                it.high_millis,
                it.step.amount,
            ];
            let has_sense = |&number: &f64| number.is_finite() && number > 0.0;
            if !positive.iter().chain(&it.step_millis).all(has_sense) {
                return Err(format!("{} has a time that is none", words_of(row)));
            }
            let is_work = [it.step.operations, it.step.bytes]
                .iter()
                .all(|it| it.is_finite());
            let is_ordered =
                it.low_millis <= it.median_millis && it.median_millis <= it.high_millis;
            if !is_work || !is_ordered {
                return Err(format!(
                    "{} has figures that contradict each other",
                    words_of(row)
                ));
            }
        }
    }
    Ok(())
}

/// A table for each device, as people know them from other tools.
pub(super) fn markdown(report: &BenchReport) -> String {
    let BenchReport {
        version, system, ..
    } = report;
    let day = report.time.get(..10).unwrap_or_default();
    let power = report.power.describe();
    let power = power.map_or(String::new(), |message| format!(", {message}"));
    let mut text = format!(
        "Anneal {version} on {system}, size {}, {day}{power}.\n",
        report.size
    );
    for on in &report.devices {
        text += &format!("\n### {} ({})\n\n", on.device.name, on.device.kind);
        text += "| Config | Step, median (ms) | Middle half (ms) | Throughput | First step (ms) | Peak memory | Roofline |\n\
                 |---|---|---|---|---|---|---|\n";
        for row in &on.rows {
            let cells = cells(on, row).join(" | ");
            text += &format!("| {} | {cells} |\n", words_of(row));
        }
    }
    for sentence in report.ratios().iter().chain(&report.all_warnings()) {
        text += &format!("\n{sentence}\n");
    }
    text
}

/// What is told of a row beside its name: step, spread, rate, first step, peak, share. Only why, when it was not measured.
pub(crate) fn cells(on: &MeasuredDevice, row: &BenchRow) -> Vec<String> {
    let Some(measured) = &row.measured else {
        let problem = row.problem.clone().unwrap_or_default();
        let mut cells = vec![String::new(); 6];
        cells[0] = problem;
        return cells;
    };
    let share = on.roofline_share(row);
    vec![
        millis(measured.median_millis),
        format!(
            "{} to {}",
            millis(measured.low_millis),
            millis(measured.high_millis)
        ),
        rate(measured.per_second(), row.unit),
        millis(measured.first_millis),
        measured.peak_bytes.map_or(String::new(), |bytes| {
            format!("{:.2} GB", bytes as f64 / 1e9)
        }),
        share.map_or(String::new(), |share| format!("{:.0} %", share * 100.0)),
    ]
}

/// Three figures, whatever their size.
fn millis(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// A rate with its unit: `413 tokens/s`, `1.24 TFLOP/s`, `38.1 GB/s`.
pub(crate) fn rate(per_second: f64, unit: Unit) -> String {
    match unit {
        Unit::Tokens => format!("{} tokens/s", whole(per_second)),
        Unit::Batches => format!("{} batches/s", whole(per_second)),
        Unit::Pictures => format!("{} pictures/s", whole(per_second)),
        Unit::Operations if per_second >= 1e12 => format!("{} TFLOP/s", millis(per_second / 1e12)),
        Unit::Operations => format!("{} GFLOP/s", millis(per_second / 1e9)),
        Unit::Bytes => format!("{} GB/s", millis(per_second / 1e9)),
    }
}

/// A number in three figures or whole, with commas between thousands.
fn whole(number: f64) -> String {
    if number < 100.0 {
        return millis(number);
    }
    count(number.round_ties_even() as u64)
}
