//! `anneal train`: teach a model.

mod cost;

use std::{
    path::PathBuf,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use console::style;
use indicatif::ProgressBar;
use models::{
    device::RequestedDevice,
    figures::{count, duration},
    train::{
        Resolved, TrainEvent, TrainRequest,
        estimate::Estimate,
        forecast::{Forecast, words_for_cost},
        request::Method,
    },
};
use serde_json::json;

use super::{
    Ended, data, hub,
    terminal::{Terminal, bytes, count_interrupts, printable},
};
use crate::{
    host::Host,
    jobs::engine::Wish,
    store::{record::RecordedEvent, run_file, run_state::RunStatus, runs::Run},
    wire::error::{AppError, Result},
};

/// Without a terminal there is no progress bar, but a line this often.
const LINE_EVERY: Duration = Duration::from_secs(15);

/// Teach a model, or make a new one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  anneal train --data notes.txt                          a new small model, learned from a text
  anneal train --model SmolLM2-135M --data chat.jsonl    an adapter for an existing model
  anneal train run.yaml --set lora.rank=16 --plan        show what would be done, and why")]
pub(super) struct Arguments {
    /// A run file in YAML. The plan of any run can be one.
    run_file: Option<PathBuf>,
    /// The model to start from: a folder, or the name of one, here or on the Hugging Face Hub.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// A file to learn from. Can be given several times.
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,
    /// Which column of the data is what, such as prompt=question. Can be given several times.
    #[arg(long, value_name = "PART=COLUMN", value_parser = data::pair)]
    column: Vec<(String, String)>,
    /// How the bytes of the data become letters, such as latin-1. Without it, the text must be UTF-8.
    #[arg(long)]
    encoding: Option<String>,
    /// lora, full or scratch.
    #[arg(long, value_parser = method)]
    method: Option<Method>,
    /// What the run is called.
    #[arg(long)]
    name: Option<String>,
    /// How many times the weights are updated.
    #[arg(long)]
    steps: Option<usize>,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// Refuse what the device can't do safely, instead of taking the next best.
    #[arg(long)]
    strict: bool,
    /// Change any field of the run file, such as lora.rank=16. Can be given several times.
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// Fetch a model of the Hugging Face Hub that is not here, without asking.
    #[arg(long, short)]
    yes: bool,
    /// Show the plan with the reason for each value, and start nothing.
    #[arg(long)]
    plan: bool,
    /// With --plan: take a few real steps, and say what the run will take.
    #[arg(long, requires = "plan")]
    measure: bool,
    /// Continue this run from its last checkpoint.
    #[arg(long, value_name = "RUN", conflicts_with_all = [
        "run_file", "model", "data", "column", "encoding", "method", "name", "steps", "device", "strict", "set", "plan",
    ])]
    resume: Option<String>,
    /// Start a run that does not fit into memory all the same. With --resume: go on although data or model are not what they
    /// were when the run began.
    #[arg(long)]
    force: bool,
}

fn method(word: &str) -> Result<Method, String> {
    serde_json::from_value(json!(word)).map_err(|_| "it can be lora, full or scratch".to_owned())
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    if let Some(run) = &arguments.resume {
        return resume(run, arguments.force, host, terminal);
    }
    let (only_plan, yes) = (arguments.plan, arguments.yes);
    let (measure, force) = (arguments.measure, arguments.force);
    let request = request(arguments)?;
    if let Some(model) = request.model.as_ref().and_then(|model| model.to_str())
        && request.method_or_default().value != Method::Scratch
        && !only_plan
        && hub::offer(model, yes, host, terminal)? == Ended::Stopped
    {
        return Ok(Ended::Stopped);
    }
    let resolved = host.plan(request)?;
    for warning in &resolved.warnings {
        terminal.warn(warning);
    }
    if only_plan {
        return show_plan(&resolved, measure, host, terminal);
    }
    if !force {
        cost::refuse_what_does_not_fit(&resolved)?;
    }
    if let Some(line) = cost::estimate(&resolved) {
        terminal.note(line);
    }
    let run = host.create_run(&resolved)?;
    follow(&run, false, host, terminal)
}

/// Shows a plan and what it costs. That it does not fit is said, and no reason not to show it.
fn show_plan(
    resolved: &Resolved,
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
        for way in cost::ways(&fit.ways) {
            terminal.note(way);
        }
    }
    let forecast = match measure {
        true => {
            let interrupts = count_interrupts()?;
            terminal.note("taking a few real steps …");
            let stop = || interrupts.load(Ordering::SeqCst) > 0;
            match host.try_steps(&resolved.plan, &stop)? {
                None => return Ok(Ended::Stopped),
                tried => tried.map(|tried| tried.forecast),
            }
        }
        false => None,
    };
    match (&forecast, terminal.json) {
        (Some(forecast), false) => terminal.part(cost::forecast(forecast, resolved)),
        (None, false) => {}
        (forecast, true) => {
            #[derive(serde::Serialize)]
            struct Shown<'a> {
                #[serde(flatten)]
                resolved: &'a Resolved,
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
    let run = host.find_run(run)?;
    let state = run.state()?;
    // Whoever raised its `steps` wants more of it.
    let is_longer = run.plan().is_ok_and(|plan| plan.steps > state.step);
    if state.status == RunStatus::Finished && !is_longer {
        return Err(
            AppError::invalid(format!("`{}` has done all its steps", run.id))
                .with_hint(format!("talk to it with `anneal chat {}`", run.id)),
        );
    }
    follow(&run, force, host, terminal)
}

/// What was asked: the run file, changed by the options, changed by `--set`.
fn request(arguments: Arguments) -> Result<TrainRequest> {
    let mut request = match &arguments.run_file {
        Some(path) => run_file::read(path)?,
        None => TrainRequest::default(),
    };
    request.model = arguments.model.or(request.model);
    request.method = arguments.method.or(request.method);
    request.name = arguments.name.or(request.name);
    request.device = arguments.device.or(request.device);
    if !arguments.data.is_empty() {
        request.data.files = arguments.data;
    }
    request.data.columns.extend(arguments.column);
    request.data.encoding = arguments.encoding.or(request.data.encoding);
    if arguments.steps.is_some() {
        request.steps = arguments.steps;
        request.epochs = None;
    }
    if arguments.strict {
        request.strict = Some(true);
    }
    run_file::set(request, &arguments.set)
}

/// Trains a run in this process and shows how it goes. Ctrl-C saves and leaves.
pub(super) fn follow(run: &Run, force: bool, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let interrupts = count_interrupts()?;
    if !terminal.json {
        terminal.note(format_args!("run {}", style(&run.id).for_stderr().bold()));
    }
    if let Some(words) = host.never_checked(run.plan()?.device) {
        terminal.note(words);
    }
    if host.tries_first(run) && !terminal.json {
        terminal.note("a few steps are tried first");
    }
    let mut view = View::new(terminal);
    let wish = || Wish::stop_if(interrupts.load(Ordering::SeqCst) > 0);
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
        &wish,
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
            terminal.line(format_args!("talk to it with `anneal chat {}`", run.id));
        }
    }
    Ok(ended(state.status))
}

/// Adds the command that goes on all the same, where there is one.
fn say_how_to_force(error: AppError, run: &Run) -> AppError {
    if !error.force_helps {
        return error;
    }
    let forced = format!("anneal train --resume {} --force", run.id);
    let hint = error.hint.as_deref().unwrap_or_default();
    let hint = format!("{hint}, or go on all the same with `{forced}`");
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
    /// Whether the disk took nothing when it was last heard of.
    waits: bool,
}

impl<'a> View<'a> {
    fn new(terminal: &'a Terminal) -> Self {
        let bar = terminal.bar("{pos}/{len}  {msg}  {eta} left", 70);
        Self {
            terminal,
            bar,
            last_line: None,
            steps: 0,
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
            TrainEvent::Started {
                step,
                steps,
                trainable_parameters,
                parameters,
                device,
            } => {
                self.steps = *steps;
                self.line(format!(
                    "{} of {} parameters learn, on {device}",
                    count(*trainable_parameters),
                    count(*parameters)
                ));
                self.terminal.show(&self.bar);
                self.bar.set_length(*steps as u64);
                self.bar.set_position(*step as u64);
                self.bar.reset_eta();
            }
            TrainEvent::Tried {
                steps,
                seconds,
                peak_bytes,
                free_bytes,
            } => {
                let cost = words_for_cost(*seconds, *peak_bytes, *free_bytes);
                self.line(format!("{cost}, measured in {steps} steps"));
            }
            TrainEvent::Stepped { step, .. } => self.stepped(*step, &recorded.event),
            TrainEvent::Evaluated { .. } => self.line(evaluation(&recorded.event)),
            TrainEvent::Sampled { step, prompt, text } => {
                let step = style(format!("step {step} writes")).for_stderr().dim();
                let prompt = style(printable(prompt)).for_stderr().dim();
                self.line(format!("{step}\n{prompt}{}", printable(text)));
            }
            TrainEvent::Saved {
                step, bytes: size, ..
            } => {
                let words = format!("step {step} saved, {}", bytes(*size));
                self.line(style(words).for_stderr().dim().to_string());
            }
            event @ (TrainEvent::RolledBack { .. }
            | TrainEvent::Relieved { .. }
            | TrainEvent::Waiting { .. }
            | TrainEvent::Warned { .. }) => self.warn(warning(event)),
            TrainEvent::Paused { step, why } => {
                let why = why.as_ref().map(|why| format!(": {why}"));
                self.line(format!("paused at step {step}{}", why.unwrap_or_default()));
            }
            TrainEvent::Continued { .. } => self.line("goes on".to_owned()),
            TrainEvent::Stopped { .. } | TrainEvent::Failed { .. } => {}
            TrainEvent::Finished { step, seconds, .. } => {
                self.line(format!("{step} steps in {}", duration(*seconds)));
            }
        }
    }

    fn stepped(&mut self, step: usize, event: &TrainEvent) {
        let TrainEvent::Stepped {
            loss,
            tokens_per_second,
            memory_bytes,
            ..
        } = event
        else {
            return;
        };
        let rate = count(*tokens_per_second as u64);
        let mut message = format!("loss {loss:.3}  {rate} tokens/s");
        if *memory_bytes > 0 {
            message += &format!("  {}", bytes(*memory_bytes));
        }
        self.bar.set_position(step as u64);
        if self.bar.is_hidden()
            && self
                .last_line
                .is_none_or(|last| last.elapsed() > LINE_EVERY)
        {
            let left = duration(self.bar.eta().as_secs_f64());
            self.line(format!(
                "step {step}/{}  {message}  {left} left",
                self.steps
            ));
            self.last_line = Some(Instant::now());
        }
        self.bar.set_message(message);
    }

    fn warn(&self, message: String) {
        let word = style("warning:").for_stderr().yellow().bold();
        self.line(format!("{word} {message}"));
    }

    /// A line that stays, above the bar.
    fn line(&self, text: String) {
        match self.bar.is_hidden() {
            true => self.terminal.note(text),
            false => self.bar.println(text),
        }
    }
}

/// What did not go as it should, and what the run does about it.
fn warning(event: &TrainEvent) -> String {
    match event {
        TrainEvent::RolledBack {
            step,
            to_step,
            why,
            learning_rate,
        } => format!(
            "step {step}: {why}; back to step {to_step}, on with learning rate {learning_rate:.1e}"
        ),
        TrainEvent::Relieved {
            to_step, why, how, ..
        } => format!("{why}; on from step {to_step}: {how}"),
        TrainEvent::Waiting {
            step,
            why,
            missing_bytes,
        } => {
            let missing = missing_bytes.map(|size| format!(", {} are missing", bytes(size)));
            let missing = missing.unwrap_or_default();
            format!("step {step} waits for the disk: {why}{missing}; what was saved before stands")
        }
        TrainEvent::Warned { message } => message.clone(),
        _ => String::new(),
    }
}

fn evaluation(event: &TrainEvent) -> String {
    let TrainEvent::Evaluated {
        step,
        loss,
        loss_per_character,
        accuracy,
        best,
        ..
    } = event
    else {
        return String::new();
    };
    let mut text = format!("step {step}  held-out loss {loss:.4}");
    if let Some(loss) = loss_per_character {
        text += &format!("  {loss:.4} per character");
    }
    if let Some(accuracy) = accuracy {
        text += &format!("  {:.1} % right", accuracy * 100.0);
    }
    if *best {
        text += &format!("  {}", style("best so far").for_stderr().green());
    }
    text
}
