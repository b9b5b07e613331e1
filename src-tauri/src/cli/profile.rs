//! `anneal profile`: where a training step, or an answer, spends its time and memory.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use clap::ValueEnum;
use console::style;
use models::{
    bench::{Size, Unit},
    device::RequestedDevice,
    figures::{bytes, count, counted, duration},
    profile::{Ceilings, GpuTime, KernelTime, Span},
    train::profile::{Profile, ProfilePart},
};
use serde_json::{Value as Json, json};

use super::{
    Ended,
    chat::say_how_to_force,
    hub,
    terminal::{Terminal, count_interrupts},
    train::{has_its_model, refuse_what_does_not_fit},
};
use crate::{
    host::{Host, bench::words_of_case, trial::Profiled},
    store::{benchmarks::rate, run_file, runs},
    wire::error::{AppError, Result},
};

/// Show where a training step or an answer spends its time and memory, operation by operation.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  anneal profile run.yaml                    take a few steps of a run that was not started
  anneal profile my-run --by memory          the same for a run that was, by what each operation keeps
  anneal profile run.yaml --set batch.rows=8 --trace step.json    write a timeline for https://ui.perfetto.dev
  anneal profile SmolLM2-135M --chat         read a prompt and write some tokens
  anneal profile lora_step --bench           take steps of a case of the benchmark, on random data")]
pub(super) struct Arguments {
    /// A run file, or the id of a run. Nothing of it is changed. With `--chat` a run or a model, with `--bench` a workload.
    #[arg(value_name = "RUN_FILE|RUN|MODEL")]
    run: String,
    /// Instead of a training step, profile an answer: reading a prompt, and writing a token after it.
    #[arg(long, conflicts_with_all = ["set", "trace"])]
    chat: bool,
    /// Instead of a run, profile a workload of the benchmark: lora_step, generation and so on.
    #[arg(long, conflicts_with_all = ["set", "chat"])]
    bench: bool,
    /// Size of the model of a workload: small, medium or large.
    #[arg(long, value_name = "SIZE", requires = "bench")]
    size: Option<Size>,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// Change any field of the run file, such as batch.rows=8. May be repeated.
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// Show the operations by time or by memory.
    #[arg(long, value_enum, default_value_t = By::Time)]
    by: By,
    /// Also write one step as a timeline, which Perfetto and Chrome open.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Download the model from the Hugging Face Hub if it isn’t on this machine, without asking.
    #[arg(long, short)]
    yes: bool,
    /// Take the steps even if they may not fit in memory.
    #[arg(long)]
    force: bool,
}

/// So much of a kernel's name is shown, in columns.
const KERNEL_WIDTH: usize = 64;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    Time,
    Memory,
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    match (arguments.chat, arguments.bench) {
        (true, _) => answer(&arguments, host, terminal),
        (_, true) => workload(&arguments, host, terminal),
        _ => step(&arguments, host, terminal),
    }
}

/// Profiles a workload of the benchmark.
fn workload(arguments: &Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let interrupts = count_interrupts()?;
    terminal.note("taking a few steps …");
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let (name, size) = (&arguments.run, arguments.size);
    let profiled = host.profile_workload(name, size, arguments.device, &stop)?;
    let Some((case, profiled)) = profiled else {
        return Ok(Ended::Stopped);
    };
    let what = format!("A step of {} takes", words_of_case(&case));
    tell(&what, &profiled, arguments, terminal)
}

/// Profiles an answer of a model.
fn answer(arguments: &Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    if hub::offer(&arguments.run, arguments.yes, host, terminal)? == Ended::Stopped {
        return Ok(Ended::Stopped);
    }
    let opened = host.open_model(&arguments.run, arguments.device, arguments.force);
    let mut model = opened.map_err(say_how_to_force)?;
    for warning in model.warnings() {
        terminal.warn(warning);
    }
    let interrupts = count_interrupts()?;
    terminal.note("reading a prompt, and writing some tokens …");
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let Some((profile, ceilings)) = model.profile(&stop)? else {
        return Ok(Ended::Stopped);
    };
    let ceilings = ceilings.as_ref();
    if terminal.json {
        terminal.json(&json!({
            "prompt_tokens": profile.prompt_tokens,
            "prompt": as_json(&profile.prompt, ceilings),
            "token": as_json(&profile.token, ceilings),
        }))?;
        return Ok(Ended::Done);
    }
    let tokens = counted(profile.prompt_tokens as u64, "token");
    let parts = [
        (
            format!("Reading a prompt of {tokens} takes"),
            &profile.prompt,
        ),
        ("Writing a token after it takes".to_owned(), &profile.token),
    ];
    for (at, (what, profile)) in parts.into_iter().enumerate() {
        if at > 0 {
            terminal.line("");
        }
        show(&what, profile, ceilings, arguments.by, terminal);
    }
    note_unknown(&profile.prompt, terminal);
    note_best(ceilings, terminal);
    Ok(Ended::Done)
}

/// Profiles a training step of a run.
fn step(arguments: &Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let path = Path::new(&arguments.run);
    let request = match path.is_file() {
        true => run_file::read(path)?,
        false => {
            let run = runs::find(&host.paths, &arguments.run).map_err(|error| AppError {
                message: error.message.replacen(
                    "there is no run",
                    "there is no file and no run",
                    1,
                ),
                ..error
            })?;
            run_file::read(&run.plan_file())?
        }
    };
    let device = arguments.device;
    let device = device.map(|device| ("device".to_owned(), json!(device)));
    let request = run_file::put_fields(request, device)?;
    let mut request = run_file::set(request, &arguments.set)?;
    if !has_its_model(&mut request, arguments.yes, host, terminal)? {
        return Ok(Ended::Stopped);
    }
    let resolved = host.plan(request)?;
    for warning in &resolved.warnings {
        terminal.warn(warning);
    }
    if !arguments.force {
        refuse_what_does_not_fit(&resolved)?;
    }
    let interrupts = count_interrupts()?;
    terminal.note("taking a few real steps …");
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let Some(tried) = host.profile(&resolved.plan, &stop)? else {
        return Ok(Ended::Stopped);
    };
    if let Some(warning) = &tried.warning {
        terminal.warn(warning);
    }
    tell("A step takes", &tried.found, arguments, terminal)
}

/// Shows a profile, and writes its timeline where that was asked for.
fn tell(
    what: &str,
    Profiled { profile, ceilings }: &Profiled,
    arguments: &Arguments,
    terminal: &Terminal,
) -> Result<Ended> {
    if let Some(path) = &arguments.trace {
        let written = fs::write(path, trace(&profile.spans).to_string());
        written.map_err(AppError::file("write the timeline", path))?;
    }
    if terminal.json {
        terminal.json(&as_json(profile, ceilings.as_ref()))?;
        return Ok(Ended::Done);
    }
    let ceilings = ceilings.as_ref();
    show(what, profile, ceilings, arguments.by, terminal);
    note_unknown(profile, terminal);
    note_best(ceilings, terminal);
    if let Some(path) = &arguments.trace {
        terminal.note(format_args!(
            "the timeline of a step is in `{}`; open it at https://ui.perfetto.dev",
            path.display()
        ));
    }
    Ok(Ended::Done)
}

fn show(what: &str, profile: &Profile, ceilings: Option<&Ceilings>, by: By, terminal: &Terminal) {
    for line in summary(what, profile) {
        terminal.line(line);
    }
    terminal.line("");
    terminal.table(&rows(profile, ceilings, by));
    if let Some(gpu) = &profile.gpu {
        terminal.line("");
        terminal.line(format_args!(
            "The GPU is busy for {} of it",
            millis(gpu.busy_millis)
        ));
        terminal.line("");
        terminal.table(&kernel_rows(gpu));
    }
}

fn note_unknown(profile: &Profile, terminal: &Terminal) {
    if let Some(why) = &profile.gpu_unknown {
        terminal.note(format_args!("no kernels by name: {why}"));
    }
}

/// A kernel's name, without its middle where it is long: what its end says tells it from others.
fn shortened(name: &str) -> String {
    let count = name.chars().count();
    if count <= KERNEL_WIDTH {
        return name.to_owned();
    }
    let half = KERNEL_WIDTH / 2;
    let start: String = name.chars().take(half).collect();
    let end: String = name.chars().skip(count - half + 1).collect();
    format!("{start}…{end}")
}

/// What a GPU did, kernel by kernel.
fn kernel_rows(gpu: &GpuTime) -> Vec<Vec<String>> {
    let header = ["kernel", "launches", "time", "share"];
    let header = header.map(|it| style(it).dim().to_string()).to_vec();
    let (told, others) = gpu.told();
    let row = |kernel: &KernelTime| {
        vec![
            shortened(&kernel.name),
            right(count(kernel.launches.round() as u64), 8),
            right(format!("{:.3} ms", kernel.millis), 11),
            right(format!("{:.1} %", gpu.share(kernel) * 100.0), 9),
        ]
    };
    let rows = told.iter().chain(&others).map(row);
    std::iter::once(header).chain(rows).collect()
}

fn note_best(ceilings: Option<&Ceilings>, terminal: &Terminal) {
    if let Some(ceilings) = ceilings {
        terminal.note(format_args!(
            "\nbest: of what this device does at most, as measured: {} and {}",
            rate(ceilings.operations_per_second, Unit::Operations),
            rate(ceilings.bytes_per_second, Unit::Bytes),
        ));
    }
}

fn millis(millis: f64) -> String {
    match millis < 1e3 {
        true => format!("{millis:.1} ms"),
        false => duration(millis / 1e3),
    }
}

/// What it takes as a whole.
fn summary(what: &str, profile: &Profile) -> Vec<String> {
    let mut lines = vec![format!(
        "{}, the median of {}",
        style(format!("{what} {}", millis(profile.step_millis))).bold(),
        count(profile.steps as u64),
    )];
    if profile.waited() {
        lines.push(format!(
            "Profiled it takes {}: each operation waits for the one before it, which they don’t otherwise.",
            millis(profile.profiled_millis)
        ));
    }
    if let Some(peak) = &profile.peak {
        lines.push(format!(
            "At most {} are in use, in {} ({})",
            bytes(peak.bytes),
            peak.operation,
            peak.place.name()
        ));
    }
    lines
}

fn rows(profile: &Profile, ceilings: Option<&Ceilings>, by: By) -> Vec<Vec<String>> {
    let mut parts: Vec<&ProfilePart> = profile.parts.iter().collect();
    let kept = |part: &ProfilePart| part.kept_bytes.unwrap_or_default();
    if matches!(by, By::Memory) {
        parts.sort_by_key(|part| std::cmp::Reverse(kept(part)));
    }
    let header = [
        "operation",
        "where",
        "calls",
        "time",
        "share",
        "kept",
        "moved",
        "best",
    ];
    let header = header.map(|it| style(it).dim().to_string()).to_vec();
    let (small, large): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.is_small());
    let row = |part: &&ProfilePart| {
        let best = ceilings.and_then(|it| part.share_of_best(it));
        vec![
            part.operation.clone(),
            part.place.name().to_owned(),
            right(count(part.calls as u64), 6),
            right(format!("{:.2} ms", part.millis), 11),
            right(format!("{:.1} %", part.share * 100.0), 7),
            right(part.kept_bytes.map_or(String::new(), signed), 9),
            right(moved(part.moved_bytes), 8),
            right(
                best.map_or(String::new(), |it| format!("{:.0} %", it * 100.0)),
                6,
            ),
        ]
    };
    let mut rows = vec![header];
    rows.extend(large.iter().map(row));
    if !small.is_empty() {
        let millis: f64 = small.iter().map(|part| part.millis).sum();
        let share: f64 = small.iter().map(|part| part.share).sum();
        rows.push(vec![
            format!("{} more", small.len()),
            String::new(),
            String::new(),
            right(format!("{millis:.2} ms"), 11),
            right(format!("{:.1} %", share * 100.0), 7),
        ]);
    }
    rows
}

fn right(words: String, width: usize) -> String {
    format!("{words:>width$}")
}

fn signed(count: i64) -> String {
    let sign = if count < 0 { "-" } else { "" };
    format!("{sign}{}", bytes(count.unsigned_abs()))
}

fn moved(count: u64) -> String {
    match count {
        0 => String::new(),
        count => bytes(count),
    }
}

fn as_json(profile: &Profile, ceilings: Option<&Ceilings>) -> Json {
    let part = |part: &ProfilePart| {
        let mut made = json!(part);
        made["share_of_best"] = json!(ceilings.and_then(|it| part.share_of_best(it)));
        made
    };
    json!({
        "steps": profile.steps,
        "step_millis": profile.step_millis,
        "profiled_millis": profile.profiled_millis,
        "peak": profile.peak,
        "best": ceilings,
        "parts": profile.parts.iter().map(part).collect::<Vec<_>>(),
        "gpu": profile.gpu,
        "gpu_unknown": profile.gpu_unknown,
    })
}

/// A step in the format of Chrome's trace viewer: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
fn trace(spans: &[Span]) -> Json {
    let event = |span: &Span| {
        json!({
            "name": span.operation,
            "cat": span.place.name(),
            "ph": "X",
            "ts": span.start_micros,
            "dur": span.micros,
            "pid": 1,
            "tid": 1,
            "args": {
                "place": span.place.name(),
                "moved_bytes": span.moved_bytes,
                "operations": span.operations,
            },
        })
    };
    let events: Vec<Json> = spans.iter().map(event).collect();
    json!({"displayTimeUnit": "ms", "traceEvents": events})
}
