//! `anneal check`: whether the numbers of this machine can be believed.

use std::sync::atomic::Ordering;

use console::style;
use models::{
    check::{CheckRow, Verdict},
    device::RequestedDevice,
    figures::duration,
};

use super::{
    Ended,
    terminal::{Terminal, count_interrupts},
};
use crate::{
    host::{Host, check::CheckNews},
    store::checks::{CheckReport, VERDICT},
    wire::error::{AppError, Result},
};

/// Compare every operation on this device with the CPU, and test everything else a run needs.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// Fail unless everything is exact.
    #[arg(long)]
    strict: bool,
    /// Write a report to paste into a request for help. It has no names and no paths.
    #[arg(long)]
    report: bool,
    /// Have an operation fail, such as rms_norm=wrong, to see what becomes of it. May be repeated.
    #[cfg(debug_assertions)]
    #[arg(long, hide = true, value_parser = fault)]
    fault: Vec<models::check::Fault>,
}

#[cfg(debug_assertions)]
fn fault(words: &str) -> Result<models::check::Fault, String> {
    let (operation, kind) = words
        .split_once('=')
        .ok_or("it looks like rms_norm=wrong")?;
    let kind = serde_json::from_value(kind.into()).map_err(|error| error.to_string())?;
    Ok(models::check::Fault {
        operation: operation.to_owned(),
        kind,
    })
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    #[cfg(debug_assertions)]
    let faults = arguments.fault.as_slice();
    #[cfg(not(debug_assertions))]
    let faults = &[];
    let interrupts = count_interrupts()?;
    let bar = terminal.bar("{pos}/{len}  ", 50);
    terminal.show(&bar);
    let mut tell = |news: CheckNews<'_>| match news {
        CheckNews::Begun { cases } => bar.set_length(cases as u64),
        CheckNews::Tried(row) => {
            bar.inc(1);
            bar.set_message(format!("{} in {}", row.operation, row.dtype));
            if terminal.json {
                let _ = terminal.json(row);
            }
        }
    };
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let report = host.check(arguments.device, faults, &mut tell, &stop);
    bar.finish_and_clear();
    if stop() {
        terminal.note("stopped; nothing was kept");
        return Ok(Ended::Stopped);
    }
    let report = report?;
    match (terminal.json, arguments.report) {
        (true, _) => terminal.json(&report)?,
        (_, true) => terminal.part(report.text()),
        _ => show(&report, terminal),
    }
    if !report.is_ready() {
        return Err(AppError::failed(format!(
            "not ready for training on {}",
            report.device.name
        )));
    }
    let is_exact = report.rows.iter().all(|row| row.verdict.is_exact());
    if arguments.strict && !is_exact {
        return Err(AppError::failed("not everything is exact on this device"));
    }
    if !terminal.json && !arguments.report {
        terminal.line("READY FOR TRAINING");
    }
    Ok(Ended::Done)
}

fn show(report: &CheckReport, terminal: &Terminal) {
    terminal.table(&rows(report));
    terminal.line("");
    for step in &report.steps {
        let (right, wrong) = (style("✓").green(), style("✗").red());
        match &step.problem {
            None => terminal.line(format_args!("{right} {}", step.name)),
            Some(problem) => terminal.line(format_args!("{wrong} {}: {problem}", step.name)),
        }
    }
    terminal.line("");
    for limit in report.limits() {
        terminal.line(format_args!("- {}: {}", limit.what, style(limit.why).dim()));
    }
    for sentence in report.consequences() {
        terminal.warn(sentence);
    }
    let (cases, seconds) = (report.rows.len(), duration(report.seconds));
    terminal.note(format_args!("{cases} cases in {seconds}"));
    terminal.line(report.verdict());
}

/// A line for each operation and dtype.
fn rows(report: &CheckReport) -> Vec<Vec<String>> {
    let row = |row: &CheckRow| {
        let mut cells = report.cells(row);
        let word = &cells[VERDICT];
        let coloured = match row.verdict {
            Verdict::Ok => style(word).green(),
            Verdict::Slow => style(word).yellow(),
            _ => style(word).red(),
        };
        cells[VERDICT] = coloured.to_string();
        cells
    };
    report.rows.iter().map(row).collect()
}
