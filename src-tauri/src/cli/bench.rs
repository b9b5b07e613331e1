//! `anneal bench`: how fast this machine is, and what to choose on it.

use std::{path::PathBuf, sync::atomic::Ordering, time::Instant};

use console::style;
use indicatif::ProgressBar;
use models::{
    bench::{Size, Unit, WORKLOADS, published::PUBLISHED},
    device::RequestedDevice,
    figures::duration,
};

use super::{
    Ended,
    terminal::{Terminal, count_interrupts},
};
use crate::{
    host::{
        Host,
        bench::{BenchNews, BenchRequest, SECONDS, words_of_case},
    },
    store::benchmarks::{self, BenchReport, Comparison, cells, words_of},
    wire::error::{AppError, Result},
};

/// Measure how fast this machine trains and generates, and recommend settings.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Devices to measure, such as metal,cpu. Without it, every usable one.
    #[arg(long, value_name = "DEVICES", value_delimiter = ',')]
    device: Vec<RequestedDevice>,
    /// Size of the models: small, medium or large. Without it, small on a CPU and medium on a GPU.
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,
    /// How long each case is measured.
    #[arg(long, value_name = "SECONDS", default_value_t = SECONDS, value_parser = seconds)]
    seconds: f64,
    /// Workloads to measure, such as lora_step,generation. Without it, all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Also write the result to this file: .json, .csv or .md.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Compare two benchmarks exported as .json or .csv. Measures nothing.
    #[arg(long, value_names = ["EARLIER", "LATER"], num_args = 2, conflicts_with_all = ["import", "list", "published"])]
    compare: Vec<PathBuf>,
    /// Keep a benchmark exported elsewhere. Measures nothing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "published"])]
    import: Option<PathBuf>,
    /// List the benchmarks that were kept. Measures nothing.
    #[arg(long, conflicts_with = "published")]
    list: bool,
    /// Show speeds that other tools have published. Measures nothing.
    #[arg(long)]
    published: bool,
}

fn seconds(words: &str) -> Result<f64, String> {
    let seconds = words.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.0..=600.0).contains(seconds));
    seconds.ok_or_else(|| "it is a number from 0 to 600".to_owned())
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    match (arguments.compare.as_slice(), &arguments.import) {
        ([earlier, later], _) => {
            let (earlier, later) = (benchmarks::read(earlier)?, benchmarks::read(later)?);
            compare(&earlier, &later, terminal)?;
        }
        ([_, ..], _) => {
            let count = arguments.compare.len();
            let problem = format!("two benchmarks can be compared, and {count} are named");
            return Err(AppError::invalid(problem));
        }
        ([], Some(path)) => {
            let report = benchmarks::import(&host.paths, path)?;
            terminal.note("imported");
            if let Some(path) = &arguments.export {
                benchmarks::export(&report, path)?;
            }
            show(&report, host, terminal)?;
        }
        ([], None) if arguments.list => list(host, terminal)?,
        ([], None) if arguments.published => published(terminal)?,
        ([], None) => return measure(arguments, host, terminal),
    }
    Ok(Ended::Done)
}

fn measure(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let interrupts = count_interrupts()?;
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let request = BenchRequest {
        devices: arguments.device,
        size: arguments.size,
        seconds: Some(arguments.seconds),
        only: arguments.only,
    };
    // A file that could not be written is known before anything takes long.
    if let Some(path) = &arguments.export {
        benchmarks::Kind::of(path)?;
    }
    let bar = terminal.bar("{pos}/{len}  ", 50);
    terminal.show(&bar);
    let mut began = None;
    let mut tell = |news: BenchNews<'_>| tell(&news, &bar, &mut began, terminal);
    let report = host.bench(&request, &mut tell, &stop);
    bar.finish_and_clear();
    let report = report?;
    show(&report, host, terminal)?;
    if let Some(path) = &arguments.export {
        benchmarks::export(&report, path)?;
    }
    match stop() {
        true => Ok(Ended::Stopped),
        false => Ok(Ended::Done),
    }
}

/// Shows how far it is. `began` is when the first case did.
fn tell(news: &BenchNews<'_>, bar: &ProgressBar, began: &mut Option<Instant>, terminal: &Terminal) {
    match news {
        BenchNews::Waits { run } => {
            terminal.note_above(bar, format_args!("waiting until `{}` has ended", run.id));
        }
        BenchNews::WaitsFor { work, device } => {
            let (work, device) = (work.describe(), &device.name);
            let words = format_args!("waiting until {work} on {device} has ended");
            terminal.note_above(bar, words);
        }
        BenchNews::Checks { device } => {
            terminal.note_above(bar, format_args!("{} is checked first", device.name));
        }
        BenchNews::Begun { cases } => bar.set_length(*cases as u64),
        BenchNews::Measures { case, .. } => {
            let started = *began.get_or_insert_with(Instant::now);
            let left = match bar.position() {
                0 => String::new(),
                done => {
                    let each = started.elapsed().as_secs_f64() / done as f64;
                    let left = bar.length().unwrap_or(done).saturating_sub(done);
                    format!("  {} left", duration(each * left as f64))
                }
            };
            bar.set_message(format!("{}{left}", words_of_case(case)));
        }
        BenchNews::Measured { device, row } => {
            bar.inc(1);
            if terminal.json {
                let row = serde_json::json!({ "device": device.setting(), "row": row });
                let _ = terminal.json(&row);
            }
        }
    }
}

fn show(report: &BenchReport, host: &Host, terminal: &Terminal) -> Result<()> {
    if terminal.json {
        return terminal.json(report);
    }
    for on in &report.devices {
        terminal.line(style(format!("{} ({})", on.device.name, on.device.kind)).bold());
        let heads = [
            "Config",
            "Step (ms), median",
            "middle half",
            "Throughput",
            "first step",
            "peak",
            "roofline",
        ];
        let mut lines = vec![heads.map(|head| style(head).dim().to_string()).to_vec()];
        lines.extend(on.rows.iter().map(|row| {
            let mut line = vec![words_of(row)];
            line.extend(cells(on, row));
            line
        }));
        terminal.table(&lines);
        terminal.line("");
    }
    for sentence in report.ratios() {
        terminal.line(sentence);
    }
    for advice in report.advice() {
        let (setting, value) = (style(advice.setting).bold(), style(&advice.value).green());
        terminal.line(format_args!("{setting} {value}: {}", advice.why));
    }
    for sentence in host.since_last(report) {
        terminal.line(sentence);
    }
    for sentence in report.all_warnings() {
        terminal.warn(sentence);
    }
    let seconds = duration(report.seconds);
    terminal.note(format_args!("size {}, {seconds}; kept", report.size));
    Ok(())
}

fn compare(earlier: &BenchReport, later: &BenchReport, terminal: &Terminal) -> Result<()> {
    let comparisons = later.since(earlier);
    if terminal.json {
        return terminal.json(&comparisons);
    }
    if comparisons.is_empty() {
        terminal.line("They have no case in common: other sizes, devices, or dtypes.");
    }
    for Comparison {
        devices: [before, after],
        rows,
        ..
    } in &comparisons
    {
        let title = match before == after {
            true => after.clone(),
            false => format!("{after} beside {before}"),
        };
        terminal.line(style(title).bold());
        let heads = ["Config", day(earlier), day(later), ""];
        let mut lines = vec![heads.map(|head| style(head).dim().to_string()).to_vec()];
        lines.extend(rows.iter().map(|row| {
            let words = match (row.is_clear, row.ratio < 1.0) {
                (false, _) => style(&row.message).dim(),
                (true, true) => style(&row.message).red(),
                (true, false) => style(&row.message).green(),
            };
            let [config, before, after] = [&row.config, &row.before, &row.after].map(String::clone);
            vec![config, before, after, words.to_string()]
        }));
        terminal.table(&lines);
        terminal.line("");
    }
    for sentence in later.since_messages(earlier) {
        terminal.line(sentence);
    }
    Ok(())
}

fn day(report: &BenchReport) -> &str {
    report.time.get(..10).unwrap_or(&report.time)
}

fn list(host: &Host, terminal: &Terminal) -> Result<()> {
    let reports = benchmarks::list(&host.paths);
    if terminal.json {
        return terminal.json(&reports);
    }
    if reports.is_empty() {
        terminal.note("no benchmark is kept; `anneal bench` makes one");
    }
    let row = |report: &BenchReport| {
        let devices = report.devices.iter().map(|it| it.device.name.as_str());
        let origin = if report.imported { "imported" } else { "" };
        vec![
            report.time.get(..16).unwrap_or_default().replace('T', " "),
            report.size.to_string(),
            devices.collect::<Vec<_>>().join(", "),
            report.power.describe().unwrap_or_default(),
            origin.to_owned(),
        ]
    };
    terminal.table(&reports.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

fn published(terminal: &Terminal) -> Result<()> {
    if terminal.json {
        return terminal.json(&*PUBLISHED);
    }
    terminal.note(
        "From the pages that are named. Nothing of it was measured here, and the work differs.",
    );
    let title = |name: &str| {
        let found = WORKLOADS.iter().find(|it| it.name == name);
        found.map_or(name.to_owned(), |it| it.title.to_owned())
    };
    let rows = PUBLISHED.iter().map(|it| {
        let rate = benchmarks::rate(it.tokens_per_second, Unit::Tokens);
        vec![
            title(&it.workload),
            it.tool.clone(),
            it.work.clone(),
            it.hardware.clone(),
            rate,
            it.date.clone(),
            it.source.clone(),
        ]
    });
    terminal.table(&rows.collect::<Vec<_>>());
    Ok(())
}
