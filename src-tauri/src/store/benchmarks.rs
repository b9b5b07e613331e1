//! Benchmarks that were done here or brought from elsewhere, one file each; and the same as tables for others to read.

mod tables;
#[cfg(test)]
mod tests;
#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{fs, path::Path};

use models::{
    bench::{
        BenchRow, Size,
        advice::{self, Advice, OnDevice},
        compare::{self, Change},
    },
    device::{DeviceKind, FoundDevice},
    figures::counted,
};
use serde::{Deserialize, Serialize};

use super::{limits, paths::Paths, write_file, write_json};
use crate::{
    power::supply::Power,
    wire::error::{AppError, Result},
};

/// The version of the layout that is described in `docs/guide/benchmark.md`.
pub(crate) const FORMAT: u32 = 1;
/// A median that grew by this share while a case was measured, or from the beginning to the end of all, is told.
const SLOWING: f64 = 0.1;

/// What a benchmark found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BenchReport {
    /// The version of this layout.
    pub(crate) format: u32,
    /// When it ended, in UTC. Two reports of one machine never have the same.
    pub(crate) time: String,
    /// The app's version.
    pub(crate) version: String,
    /// The system and its version: `macOS 15.1`.
    pub(crate) system: String,
    /// How large the models were.
    pub(crate) size: Size,
    /// How long it took.
    pub(crate) seconds: f64,
    /// What fed the machine, at its beginning or its end.
    pub(crate) power: Power,
    /// What was odd while it ran: whole sentences.
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
    /// Whether it was brought from elsewhere.
    #[serde(default)]
    pub(crate) imported: bool,
    /// What was measured, by device.
    pub(crate) devices: Vec<MeasuredDevice>,
}

/// What was measured on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeasuredDevice {
    /// What was measured, as it was found then.
    pub(crate) device: FoundDevice,
    /// The rate of matrix products at the end over that at the beginning: below 1 when it got hot or saved power.
    pub(crate) sustained: Option<f64>,
    /// What was measured, in order.
    pub(crate) rows: Vec<BenchRow>,
}

/// How two benchmarks differ on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
pub(crate) struct Comparison {
    /// The device of the earlier one, and that of the later.
    pub(crate) devices: [String; 2],
    /// Each case that both measured: title and configuration, both rates, and the change in words.
    pub(crate) rows: Vec<ComparedRow>,
    /// The geometric mean of all ratios of rates: above 1 is faster.
    pub(crate) mean: Option<f64>,
}

/// How one case differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
pub(crate) struct ComparedRow {
    /// `LoRA step, shape of SmolLM2-135M, 4 x 256 tokens, f32`.
    pub(crate) config: String,
    /// `413 tokens/s`.
    pub(crate) before: String,
    /// The same after.
    pub(crate) after: String,
    /// `3 % slower`.
    pub(crate) message: String,
    /// The rate after over the rate before.
    pub(crate) ratio: f64,
    /// Whether it is more than chance.
    pub(crate) is_clear: bool,
}

impl MeasuredDevice {
    /// What a sentence calls it: `Metal`, `the CPU`.
    pub(crate) fn short_name(&self) -> String {
        match (self.device.kind, self.device.ordinal) {
            (DeviceKind::Cpu, _) => "the CPU".to_owned(),
            (kind, 0) => kind.to_string(),
            (kind, ordinal) => format!("{kind} {ordinal}"),
        }
    }

    /// The share of the roofline that a row reaches.
    pub(crate) fn roofline_share(&self, row: &BenchRow) -> Option<f64> {
        advice::roofline_share(row, &self.rows)
    }
}

impl BenchReport {
    /// What names it among others: its time, as far as a file can be called by it.
    pub(crate) fn id(&self) -> String {
        self.time.replace([':', '.'], "-")
    }

    /// How devices compare: whole sentences.
    pub(crate) fn ratios(&self) -> Vec<String> {
        let mut sentences = self.with_devices(advice::ratios);
        sentences.extend(self.with_devices(advice::headrooms));
        sentences
    }

    /// What to choose on this machine.
    pub(crate) fn advice(&self) -> Vec<Advice> {
        self.with_devices(advice::advice)
    }

    /// What may have made it slower than the machine is, and what could not be measured: whole sentences.
    pub(crate) fn all_warnings(&self) -> Vec<String> {
        let mut sentences = self.warnings.clone();
        if let Some(message) = self.power.describe() {
            sentences.push(format!("Measured {message}; it may be faster otherwise."));
        }
        for measured in &self.devices {
            let name = measured.short_name();
            let lost = measured.sustained.map_or(0.0, |ratio| 1.0 - ratio);
            if lost >= SLOWING {
                sentences.push(format!(
                    "Matrix products on {name} were {:.0} % slower at the end than at the beginning, because of heat, saved \
                     power or other work.",
                    lost * 100.0
                ));
            }
            let slowing = |row: &&BenchRow| {
                row.case.dtype.is_some() && {
                    let slowing = row.measured.as_ref().and_then(|it| it.slowing());
                    slowing.is_some_and(|share| share >= SLOWING)
                }
            };
            let slower: Vec<String> = measured.rows.iter().filter(slowing).map(words_of).collect();
            if !slower.is_empty() {
                sentences.push(format!(
                    "Slowed down on {name} while being measured: {}.",
                    slower.join("; ")
                ));
            }
        }
        sentences
    }

    fn with_devices<T>(&self, report: impl FnOnce(&[OnDevice]) -> T) -> T {
        let names = self
            .devices
            .iter()
            .map(|it| (it.short_name(), it.device.setting()));
        let names: Vec<(String, String)> = names.collect();
        let devices = self.devices.iter().zip(&names);
        let devices: Vec<OnDevice> = devices
            .map(|(measured, (name, setting))| OnDevice {
                name,
                setting,
                rows: &measured.rows,
            })
            .collect();
        report(&devices)
    }

    /// How it compares with an earlier one: device by device of the same setting, or the only two.
    pub(crate) fn since(&self, earlier: &Self) -> Vec<Comparison> {
        let compared = self.devices.iter().filter_map(|after| {
            let same = |it: &&MeasuredDevice| it.device.setting() == after.device.setting();
            let before = match (earlier.devices.as_slice(), self.devices.as_slice()) {
                ([only], [_]) => only,
                (devices, _) => devices.iter().find(same)?,
            };
            let changes = compare::changes(&before.rows, &after.rows);
            if changes.is_empty() {
                return None;
            }
            let ratios: Vec<f64> = changes.iter().map(Change::ratio).collect();
            Some(Comparison {
                devices: [before, after].map(|it| it.device.name.clone()),
                rows: changes.iter().map(compared_row).collect(),
                mean: compare::mean(&ratios),
            })
        });
        compared.collect()
    }

    /// How it compares with one of the same machine before it, in a sentence for each device.
    pub(crate) fn since_messages(&self, earlier: &Self) -> Vec<String> {
        let day = earlier.time.parse::<jiff::Timestamp>();
        let day = day.map_or(earlier.time.clone(), |time| {
            time.strftime("%-d %B %Y").to_string()
        });
        let power = earlier.power.describe();
        let power = power.map_or(String::new(), |message| format!(", {message} then"));
        let report = |comparison: Comparison| {
            // Of another machine, the day says nothing.
            let then = match &comparison.devices {
                [before, after] if before == after => format!("on {day}"),
                [before, _] => format!("on {before}"),
            };
            let clear = comparison.rows.iter().filter(|row| row.is_clear).count();
            let of = comparison.rows.len();
            let change = match comparison.mean {
                Some(mean) if clear > 0 => {
                    let message = compare::describe(mean);
                    let message = message.replace("as fast", "as fast on average");
                    format!("{message} than {then}").replace("average than", "average as")
                }
                _ => format!("as fast as {then}, within the spread of the steps"),
            };
            format!(
                "{}: {change}{power} ({clear} of {of} cases by more than the spread of their steps).",
                comparison.devices[1]
            )
        };
        self.since(earlier).into_iter().map(report).collect()
    }

    /// Whether another is of the same machine and the same work.
    fn is_like(&self, other: &Self) -> bool {
        let is_same = |one: &MeasuredDevice, it: &MeasuredDevice| {
            one.device.setting() == it.device.setting() && one.device.name == it.device.name
        };
        let mut devices = self.devices.iter();
        self.size == other.size
            && devices.any(|one| other.devices.iter().any(|it| is_same(one, it)))
    }
}

fn compared_row(change: &Change) -> ComparedRow {
    ComparedRow {
        config: words_of(change.row),
        before: rate(change.before, change.row.unit),
        after: rate(change.after, change.row.unit),
        message: change.describe(),
        ratio: change.ratio(),
        is_clear: change.is_clear,
    }
}

/// A row as a person reads it: `LoRA step, shape of SmolLM2-135M, 4 x 256 tokens, f32`.
pub(crate) fn words_of(row: &BenchRow) -> String {
    let dtype = row.case.dtype.map(|dtype| dtype.to_string());
    let workers = row.case.variation.workers;
    let workers = workers.map(|count| match count {
        0 => "no worker".to_owned(),
        1 => "1 worker".to_owned(),
        _ => format!("{count} workers"),
    });
    // What could not be measured has no configuration; its rows say which it was.
    let rows = row.case.variation.rows.filter(|_| row.config.is_empty());
    let rows = rows.map(|rows| counted(rows as u64, "row"));
    let parts = [
        Some(row.case.title().to_owned()),
        Some(row.config.clone()).filter(|it| !it.is_empty()),
        rows,
        workers,
        dtype,
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub(crate) use tables::{Kind, cells, rate};

/// All benchmarks that are kept, the newest first. A file that can't be read is left out, and stays.
pub(crate) fn list(paths: &Paths) -> Vec<BenchReport> {
    let files = fs::read_dir(&paths.benchmarks)
        .into_iter()
        .flatten()
        .flatten();
    let read = files.filter_map(|file| read(&file.path()).ok());
    let mut reports: Vec<BenchReport> = read.collect();
    reports.sort_by(|one, other| other.time.cmp(&one.time));
    reports
}

/// How a benchmark compares with the one before it on this machine, of the same work: whole sentences. One from elsewhere
/// has none before it.
pub(crate) fn since_last(report: &BenchReport, kept: &[BenchReport]) -> Vec<String> {
    let before = before(report, kept);
    before.map_or_else(Vec::new, |before| report.since_messages(before))
}

fn before<'a>(report: &BenchReport, kept: &'a [BenchReport]) -> Option<&'a BenchReport> {
    let earlier = |it: &&BenchReport| it.time < report.time && !it.imported && report.is_like(it);
    kept.iter().find(earlier).filter(|_| !report.imported)
}

/// Keeps a benchmark.
pub(crate) fn keep(paths: &Paths, report: &BenchReport) -> Result<()> {
    write_json(&file(paths, &report.id()), report)
}

/// The benchmark with this name.
pub(crate) fn find(paths: &Paths, id: &str) -> Result<BenchReport> {
    let found = list(paths).into_iter().find(|report| report.id() == id);
    found.ok_or_else(|| AppError::invalid(format!("there is no benchmark `{id}`")))
}

/// Forgets a benchmark.
pub(crate) fn delete(paths: &Paths, id: &str) -> Result<()> {
    let path = file(paths, &find(paths, id)?.id());
    fs::remove_file(&path).map_err(AppError::file("delete the benchmark", &path))
}

/// Reads a benchmark from a file that was exported as JSON or CSV.
pub(crate) fn read(path: &Path) -> Result<BenchReport> {
    let text = limits::BENCHMARK.read(path, "read the benchmark")?;
    let wrong =
        |what: String| AppError::invalid(format!("not a benchmark: {what}: `{}`", path.display()));
    let report = match Kind::of(path)? {
        Kind::Csv => tables::from_csv(&text).map_err(wrong)?,
        _ => serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?,
    };
    if report.format > FORMAT {
        return Err(wrong(format!(
            "its layout is version {}, and this Anneal knows {FORMAT}",
            report.format
        )));
    }
    tables::check(&report).map_err(wrong)?;
    Ok(report)
}

/// Reads a benchmark from elsewhere, and keeps it.
pub(crate) fn import(paths: &Paths, path: &Path) -> Result<BenchReport> {
    let mut report = read(path)?;
    let kept = list(paths);
    if kept.iter().any(|it| it.id() == report.id()) {
        return Err(AppError::invalid(format!(
            "this benchmark is here already: `{}`",
            path.display()
        )));
    }
    report.imported = true;
    keep(paths, &report)?;
    Ok(report)
}

/// Writes a benchmark as JSON, CSV or Markdown, as the name of the file says.
pub(crate) fn export(report: &BenchReport, path: &Path) -> Result<()> {
    let text = match Kind::of(path)? {
        Kind::Json => return write_json(path, report),
        Kind::Csv => tables::csv(report)?,
        Kind::Markdown => tables::markdown(report),
    };
    write_file(path, text.as_bytes())
}

fn file(paths: &Paths, id: &str) -> std::path::PathBuf {
    paths.benchmarks.join(format!("{id}.json"))
}
