//! `anneal train`: teach a model.

mod cost;
mod fields;
mod launched;
mod overrides;

use std::{path::PathBuf, sync::atomic::Ordering, time::Instant};

use console::style;
use indicatif::ProgressBar;
use models::{
    device::RequestedDevice,
    figures::{bytes, count},
    tasks::{AnyRequest, AnyResolved, TASK, language::request::Method, recognized},
    train::{Kind, TrainEvent, estimate::Estimate, event::Showed, forecast::Forecast},
    with_kind,
};
use serde_json::json;

use super::{
    Ended, data, exhibit, hub,
    terminal::{Terminal, count_interrupts},
};
use crate::{
    host::{Host, uses::how_to_use},
    jobs::engine::Control,
    ranks::of_environment,
    store::{
        record::RecordedEvent,
        run_file,
        run_state::RunStatus,
        runs::{self, Run},
        step_times::StepTimes,
    },
    wire::error::{AppError, Result},
};

pub(super) use self::cost::refuse_what_does_not_fit;

/// Train a model: fine-tune one, or train one from scratch.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  anneal train --data notes.txt                          train a small model from scratch on a text
  anneal train --model SmolLM2-135M --data chat.jsonl    fine-tune a model with an adapter
  anneal train run.yaml --set lora.rank=16 --plan        show what would be done, and why
  anneal train arch=trm data_paths=[data/sudoku] ema=True    overrides in the syntax of the original TRM code")]
pub(super) struct Arguments {
    /// A run file in YAML; the plan of any run can be one. Or overrides as Tiny Recursive Models have them, such as arch=trm lr=1e-4.
    #[arg(value_name = "RUN_FILE")]
    words: Vec<String>,
    /// The configuration that overrides begin with: cfg_pretrain for puzzles, cfg_chat for conversations.
    #[arg(long, value_name = "NAME", hide = true)]
    config_name: Option<String>,
    #[arg(long, short, hide = true)]
    multirun: bool,
    /// The model to start from: a folder, or the name of one, here or on the Hugging Face Hub.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// A file to learn from. May be repeated.
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,
    /// Which column of the data is what, such as prompt=question. May be repeated.
    #[arg(long, value_name = "PART=COLUMN", value_parser = data::pair)]
    column: Vec<(String, String)>,
    /// The encoding of the data’s text, such as latin-1. Without it, UTF-8.
    #[arg(long)]
    encoding: Option<String>,
    /// lora, full or scratch.
    #[arg(long, value_parser = method)]
    method: Option<Method>,
    /// What the run is called.
    #[arg(long)]
    name: Option<String>,
    /// How many training steps, each an update of the weights.
    #[arg(long)]
    steps: Option<usize>,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// How many NVIDIA GPUs of this machine train the run together. Under torchrun, srun or mpirun, leave it out:
    /// they decide.
    #[arg(long, value_name = "COUNT")]
    gpus: Option<usize>,
    /// Fail where the device can’t do what is asked, instead of falling back to something else.
    #[arg(long)]
    strict: bool,
    /// Change any field of the run file, such as lora.rank=16. May be repeated.
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// Download the model from the Hugging Face Hub if it isn’t on this machine, without asking.
    #[arg(long, short)]
    yes: bool,
    /// List every field of a run file and what it does. Starts nothing.
    #[arg(long)]
    fields: bool,
    /// Show the plan, with the reason for each value. Starts nothing.
    #[arg(long)]
    plan: bool,
    /// With --plan: take a few real steps, and say what the run will take.
    #[arg(long, requires = "plan")]
    measure: bool,
    /// Continue this run from its last checkpoint.
    #[arg(long, value_name = "RUN", conflicts_with_all = [
        "words", "config_name", "model", "data", "column", "encoding", "method", "name", "steps", "device", "strict", "set", "plan",
    ])]
    resume: Option<String>,
    /// Start even if the run may not fit in memory. With --resume: continue even if the data or the model changed
    /// since the run began.
    #[arg(long)]
    force: bool,
}

fn method(word: &str) -> Result<Method, String> {
    serde_json::from_value(json!(word)).map_err(|_| "it can be lora, full or scratch".to_owned())
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    if arguments.fields {
        return fields::show(terminal);
    }
    match of_environment()? {
        Some(launch) => launched::run(&launch, arguments, host, terminal),
        None => alone(arguments, host, terminal),
    }
}

/// What the command does in one process, or in the first of several.
fn alone(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    if let Some(run) = &arguments.resume {
        if let Some(devices) = arguments.gpus {
            runs::find(&host.paths, run)?.train_on(devices)?;
        }
        return resume(run, arguments.force, host, terminal);
    }
    let how = How {
        only_plan: arguments.plan,
        measure: arguments.measure,
        yes: arguments.yes,
        force: arguments.force,
    };
    let request = request(arguments, terminal)?;
    Ok(start(request, how, host, terminal)?.0)
}

/// How a run is started.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct How {
    /// Show the plan, and start nothing.
    pub(super) only_plan: bool,
    /// Measure what it would take.
    pub(super) measure: bool,
    /// Fetch its model without asking.
    pub(super) yes: bool,
    /// Start it although it does not fit into memory.
    pub(super) force: bool,
}

/// Plans a run, starts it and follows it to its end. Returns the run, if there is one.
pub(super) fn start(
    mut request: AnyRequest,
    how: How,
    host: &Host,
    terminal: &Terminal,
) -> Result<(Ended, Option<Run>)> {
    if !how.only_plan && !has_its_model(&mut request, how.yes, host, terminal)? {
        return Ok((Ended::Stopped, None));
    }
    let resolved = host.plan(request)?;
    for warning in &resolved.warnings {
        terminal.warn(warning);
    }
    if how.only_plan {
        return Ok((show_plan(&resolved, how.measure, host, terminal)?, None));
    }
    if !how.force {
        refuse_what_does_not_fit(&resolved)?;
    }
    if let Some(line) = cost::estimate(&resolved) {
        terminal.note(line);
    }
    let run = runs::create(&host.paths, &resolved)?;
    Ok((follow(&run, false, host, terminal)?, Some(run)))
}

/// Whether the model of a request is on this machine, after it was offered to fetch it.
pub(super) fn has_its_model(
    request: &mut AnyRequest,
    yes: bool,
    host: &Host,
    terminal: &Terminal,
) -> Result<bool> {
    let model = with_kind!(TaskRequest, &mut request.task, K, task => K::model(task));
    match model.and_then(|model| model.to_str()) {
        Some(model) => Ok(hub::offer(model, yes, host, terminal)? != Ended::Stopped),
        None => Ok(true),
    }
}

/// Shows a plan and what it costs. That it does not fit is said, and no reason not to show it.
fn show_plan(
    resolved: &AnyResolved,
    measure: bool,
    host: &Host,
    terminal: &Terminal,
) -> Result<Ended> {
    if !terminal.json {
        terminal.part(run_file::write(resolved)?);
    }
    if let Some(line) = cost::estimate(resolved) {
        terminal.note(line);
    }
    if let Some(fit) = resolved.misfit() {
        terminal.warn(fit.refusal());
        for fix in cost::fixes(&fit.fixes) {
            terminal.note(fix);
        }
    }
    let mut forecast = None;
    if measure {
        let interrupts = count_interrupts()?;
        terminal.note("taking a few real steps …");
        let stop = || interrupts.load(Ordering::SeqCst) > 0;
        let Some(tried) = host.try_steps(&resolved.plan, &stop)? else {
            return Ok(Ended::Stopped);
        };
        if let Some(warning) = tried.warning {
            terminal.warn(warning);
        }
        forecast = Some(tried.found);
    }
    match (&forecast, terminal.json) {
        (Some(forecast), false) => terminal.part(cost::forecast(forecast, resolved)),
        (None, false) => {}
        (forecast, true) => {
            #[derive(serde::Serialize)]
            struct Shown<'a> {
                #[serde(flatten)]
                resolved: &'a AnyResolved,
                estimated_bytes: Option<u64>,
                #[serde(skip_serializing_if = "Option::is_none")]
                forecast: &'a Option<Forecast>,
            }
            terminal.json(&Shown {
                resolved,
                estimated_bytes: resolved.estimate.as_ref().map(Estimate::bytes),
                forecast,
            })?;
        }
    }
    Ok(Ended::Done)
}

/// Continues a run from its last checkpoint.
pub(super) fn resume(run: &str, force: bool, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let run = runs::find(&host.paths, run)?;
    let state = run.state()?;
    // Whoever raised its `steps` wants more of it.
    let is_longer = run.plan().is_ok_and(|plan| plan.run.steps > state.step);
    if state.status == RunStatus::Finished && !is_longer {
        return Err(
            AppError::invalid(format!("`{}` has done all its steps", run.id))
                .with_hint(how_to_use(&run)),
        );
    }
    follow(&run, force, host, terminal)
}

/// What was asked: the run file or the overrides, changed by the options, changed by `--set`.
fn request(arguments: Arguments, terminal: &Terminal) -> Result<AnyRequest> {
    let request = match overrides::request(&arguments, terminal)? {
        Some(request) => request,
        None => match overrides::run_file(&arguments.words)? {
            Some(path) => run_file::read(&path)?,
            None => by_data(&arguments)?,
        },
    };
    let mut fields = vec![
        ("model".to_owned(), json!(arguments.model)),
        ("method".to_owned(), json!(arguments.method)),
        ("name".to_owned(), json!(arguments.name)),
        ("device".to_owned(), json!(arguments.device)),
        ("devices".to_owned(), json!(arguments.gpus)),
        ("data.encoding".to_owned(), json!(arguments.encoding)),
        ("steps".to_owned(), json!(arguments.steps)),
        ("strict".to_owned(), json!(arguments.strict.then_some(true))),
    ];
    if !arguments.data.is_empty() {
        fields.push(("data.files".to_owned(), json!(arguments.data)));
    }
    let columns = arguments.column.into_iter();
    fields.extend(columns.map(|(part, column)| (format!("data.columns.{part}"), json!(column))));
    fields.retain(|(_, value)| !value.is_null());
    if arguments.steps.is_some() {
        fields.push(("epochs".to_owned(), json!(null)));
    }
    let request = run_file::put_fields(request, fields)?;
    run_file::set(request, &arguments.set)
}

/// What a request without a run file begins with: the kind of learning whose data is named, unless an option is for text.
fn by_data(arguments: &Arguments) -> Result<AnyRequest> {
    let is_text =
        arguments.method.is_some() || arguments.encoding.is_some() || !arguments.column.is_empty();
    let known = arguments.data.iter().find_map(|path| recognized(path));
    let Some(kind) = known.filter(|_| !is_text) else {
        return Ok(AnyRequest::default());
    };
    run_file::of_fields([(TASK.to_owned(), json!(kind))])
}

/// Trains a run in this process and shows how it goes. Ctrl-C saves and leaves.
pub(super) fn follow(run: &Run, force: bool, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let interrupts = count_interrupts()?;
    if !terminal.json {
        terminal.note(format_args!("run {}", style(&run.id).for_stderr().bold()));
    }
    if let Some(words) = host.never_checked(run.plan()?.run.device) {
        terminal.note(words);
    }
    if host.tries_first(run) && !terminal.json {
        terminal.note("a few steps are tried first");
    }
    let mut view = View::new(terminal, run.plan()?.task.unit());
    let control = || Control::stop_if(interrupts.load(Ordering::SeqCst) > 0);
    let mut started = |engine| {
        if terminal.json {
            let opened =
                json!({"kind": "opened", "run": run.id, "folder": run.folder, "engine": engine});
            let _ = terminal.json(&opened);
        }
    };
    let trained = host.train(
        run,
        force,
        &mut started,
        &mut |event| view.show(event),
        &control,
    );
    view.bar.finish_and_clear();
    trained.map_err(|error| say_how_to_force(error, run))?;
    let state = run.state()?;
    if terminal.json {
        return Ok(ended(state.status));
    }
    match state.status {
        RunStatus::Stopped if !state.saved => terminal.line(format_args!(
            "nothing was saved yet; begin with `anneal train --resume {}`",
            state.id
        )),
        RunStatus::Stopped => terminal.line(format_args!(
            "saved at step {} of {}; continue with `anneal train --resume {}`",
            state.step, state.steps, run.id
        )),
        _ => {
            if let Some(loss) = state.best_loss {
                terminal.line(format_args!("best held-out loss {loss:.4}"));
            }
            terminal.line(how_to_use(run));
        }
    }
    Ok(ended(state.status))
}

/// Adds the command that is running all the same, where there is one.
fn say_how_to_force(error: AppError, run: &Run) -> AppError {
    if !error.force_helps {
        return error;
    }
    let forced = format!("anneal train --resume {} --force", run.id);
    let hint = error.hint.as_deref().unwrap_or_default();
    let hint = format!("{hint}, or continue anyway with `{forced}`");
    error.with_hint(hint.trim_start_matches(", ").to_owned())
}

fn ended(status: RunStatus) -> Ended {
    match status {
        RunStatus::Stopped => Ended::Stopped,
        _ => Ended::Done,
    }
}

/// A run as it is seen in a terminal: a bar at the bottom, and lines above it for what is worth keeping.
struct View<'a> {
    terminal: &'a Terminal,
    bar: ProgressBar,
    last_line: Option<Instant>,
    steps: usize,
    times: StepTimes,
    /// What the kind of learning learns from.
    unit: &'static str,
    /// Whether the disk took nothing when it was last heard of.
    waits: bool,
}

impl<'a> View<'a> {
    fn new(terminal: &'a Terminal, unit: &'static str) -> Self {
        let bar = terminal.bar("{pos}/{len}  ", 70);
        Self {
            terminal,
            bar,
            last_line: None,
            steps: 0,
            times: StepTimes::default(),
            unit,
            waits: false,
        }
    }

    fn show(&mut self, recorded: &RecordedEvent) {
        if self.terminal.json {
            // Standard output that is gone is found out by the next signal, not here.
            let _ = self.terminal.json(recorded);
            return;
        }
        let waits = recorded.number == 0;
        if std::mem::replace(&mut self.waits, waits) && !waits {
            self.line("the disk takes it again".to_owned());
        }
        match &recorded.event {
            TrainEvent::Started { step, steps, .. } => {
                self.steps = *steps;
                if let Some(sentence) = recorded.event.sentence() {
                    self.line(sentence.text);
                }
                self.terminal.show(&self.bar);
                self.bar.set_length(*steps as u64);
                self.bar.set_position(*step as u64);
                self.times = StepTimes::default();
            }
            TrainEvent::Stepped { step, .. } => self.stepped(*step, &recorded.event),
            TrainEvent::Evaluated { .. } => self.line(evaluation(&recorded.event)),
            TrainEvent::Showed(Showed { step, exhibits }) => {
                let step = style(format!("step {step} shows")).for_stderr().dim();
                let drawn: Vec<String> = exhibits.iter().map(exhibit::drawn).collect();
                self.line(format!("{step}\n{}", drawn.join("\n")));
            }
            TrainEvent::Stopped { .. } | TrainEvent::Failed { .. } => {}
            event => match event.sentence() {
                Some(sentence) if sentence.is_bad => {
                    self.terminal.warn_above(&self.bar, sentence.text);
                }
                Some(sentence) => self.line(sentence.text),
                None => {}
            },
        }
    }

    fn stepped(&mut self, step: usize, event: &TrainEvent) {
        let TrainEvent::Stepped {
            loss,
            units,
            millis,
            memory_bytes,
            ..
        } = event
        else {
            return;
        };
        self.times.stepped(*millis, *units);
        let loss = loss.map(|it| format!("loss {it:.3}"));
        let rate = self.times.rate().filter(|it| *it > 0.0);
        let rate = rate.map(|it| format!("{} {}/s", count(it as u64), self.unit));
        let memory = (*memory_bytes > 0).then(|| bytes(*memory_bytes));
        let left = self.times.words(self.steps.saturating_sub(step));
        let parts: Vec<String> = [loss, rate, memory, left].into_iter().flatten().collect();
        let message = parts.join("  ");
        self.bar.set_position(step as u64);
        let line = || format!("step {step}/{}  {message}", self.steps);
        let last = &mut self.last_line;
        self.terminal.note_without_bar(&self.bar, last, line);
        self.bar.set_message(message);
    }

    /// A line that stays, above the bar.
    fn line(&self, text: String) {
        self.terminal.note_above(&self.bar, text);
    }
}

fn evaluation(event: &TrainEvent) -> String {
    let TrainEvent::Evaluated {
        step,
        loss,
        metrics,
        best,
        ..
    } = event
    else {
        return String::new();
    };
    let mut text = format!("step {step}  held-out loss {loss:.4}");
    for metric in metrics {
        text += &format!("  {} {:.4}", metric.label, metric.value);
        if let Some((low, high)) = metric.interval() {
            text += &format!(" ({low:.3} to {high:.3})");
        }
    }
    if *best {
        text += &format!("  {}", style("best so far").for_stderr().green());
    }
    text
}
