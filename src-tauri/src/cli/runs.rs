//! `anneal runs`: what was trained.

use std::path::PathBuf;

use console::style;
use models::{
    checkpoint::folder::WEIGHTS,
    figures::bytes,
    tasks::puzzle::exchange,
    train::{TrainEvent, task::Metric},
};
use serde_json::json;

use super::{
    Ended,
    terminal::{Terminal, table},
    train,
};
use crate::{
    host::Host,
    store::{
        run_checkpoints::CheckpointFolder,
        run_state::{RunState, RunStatus},
        runs,
    },
    wire::error::Result,
};

/// List runs, look at one, continue, rename or delete it.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

/// A run is named by its id, or by any part of it that no other has.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List all runs, the newest last.
    List,
    /// Show a run: how far it is, its evaluations, its checkpoints, its plan.
    Show {
        /// The run: its id, a part of its id that no other has, or its folder.
        run: String,
    },
    /// Continue a run from its last checkpoint, like `anneal train --resume`.
    Resume {
        /// The run: its id, a part of its id that no other has, or its folder.
        run: String,
    },
    /// Write the best checkpoint of a run of puzzles as the program that Tiny Recursive Models come from reads it.
    Export {
        /// The run: its id, a part of its id that no other has, or its folder.
        run: String,
        /// The file to write, such as step_1000.
        file: PathBuf,
        /// Name weights as in a compiled model.
        #[arg(long)]
        compiled: bool,
    },
    /// Give a run another name.
    Rename {
        /// The run: its id, or a part of its id that no other has.
        run: String,
        /// Its new name.
        name: String,
    },
    /// Delete runs with everything they learned. Asks, unless the whole id is given.
    Rm {
        /// The runs, one or several: for each its id, or a part of its id that no other has.
        #[arg(required = true)]
        runs: Vec<String>,
        /// Don’t ask.
        #[arg(long, short)]
        yes: bool,
    },
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    match arguments.command.unwrap_or(Command::List) {
        Command::List => list(host, terminal)?,
        Command::Show { run } => show(&run, host, terminal)?,
        Command::Resume { run } => return train::resume(&run, false, host, terminal),
        Command::Export {
            run,
            file,
            compiled,
        } => {
            let run = runs::find(&host.paths, &run)?;
            let weights = run.best_checkpoint()?.join(WEIGHTS);
            let dtype = run.plan()?.run.tensor_dtype().into();
            exchange::export(&weights, &file, dtype, compiled)?;
            terminal.line(file.display());
        }
        Command::Rename { run, name } => {
            let renamed = runs::find_stored(&host.paths, &run)?.rename(&host.paths, &name)?;
            terminal.line(renamed.id);
        }
        Command::Rm { runs, yes } => remove(&runs, yes, host, terminal)?,
    }
    Ok(Ended::Done)
}

fn remove(words: &[String], yes: bool, host: &Host, terminal: &Terminal) -> Result<()> {
    // All are looked up before the first is deleted, so that a typing error deletes nothing.
    let mut runs = words
        .iter()
        .map(|words| runs::find_stored(&host.paths, words))
        .collect::<Result<Vec<_>>>()?;
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    runs.dedup();
    for run in runs {
        let named = yes || words.contains(&run.id);
        let question = format_args!("delete {} with all it learned?", run.id);
        if !named && !terminal.confirm(question, "give the whole id, or --yes")? {
            terminal.note(format_args!("kept {}", run.id));
            continue;
        }
        run.delete()?;
        terminal.note(format_args!("deleted {}", run.id));
    }
    Ok(())
}

fn list(host: &Host, terminal: &Terminal) -> Result<()> {
    let mut states = Vec::new();
    for run in runs::list(&host.paths) {
        // One unreadable run must not hide the others.
        match run.state() {
            Ok(state) => states.push(state),
            Err(error) => terminal.warn(format_args!("{}: {error}", run.id)),
        }
    }
    if terminal.json {
        return terminal.json(&states);
    }
    if states.is_empty() {
        terminal.note("there are no runs yet; `anneal starter` makes one in a few minutes");
        return Ok(());
    }
    let heading =
        ["run", "status", "step", "loss", "best"].map(|word| style(word).dim().to_string());
    let mut rows = vec![heading.to_vec()];
    rows.extend(states.iter().map(row));
    terminal.table(&rows);
    for state in &states {
        for damage in &state.damage {
            terminal.warn(format_args!("{}: {damage}", state.id));
        }
    }
    Ok(())
}

fn row(state: &RunState) -> Vec<String> {
    let loss = |loss: Option<f64>| loss.map_or("-".to_owned(), |loss| format!("{loss:.3}"));
    vec![
        state.id.clone(),
        status(state.status),
        format!("{}/{}", state.step, state.steps),
        loss(state.loss),
        loss(state.best_loss),
    ]
}

fn status(status: RunStatus) -> String {
    let word = style(status.word());
    let word = match status {
        RunStatus::Running => word.cyan(),
        RunStatus::Finished => word.green(),
        RunStatus::Paused | RunStatus::Stopped => word.yellow(),
        RunStatus::Failed | RunStatus::Interrupted => word.red(),
    };
    word.to_string()
}

fn show(run: &str, host: &Host, terminal: &Terminal) -> Result<()> {
    let run = runs::find(&host.paths, run)?;
    let (state, plan, events) = (run.state()?, run.plan().ok(), run.events()?);
    let checkpoints = run.checkpoint_folders();
    if terminal.json {
        return terminal.json(&json!({
            "state": state, "plan": plan, "checkpoints": run.checkpoint_names(), "kept": checkpoints,
            "folder": run.folder,
        }));
    }
    terminal.line(style(&state.id).bold());
    let (status, step, steps) = (status(state.status), state.step, state.steps);
    terminal.line(format_args!("{status}, step {step} of {steps}"));
    if let Some(problem) = &state.problem {
        terminal.line(problem);
    }
    if let Some(peak) = state.peak_memory_bytes {
        terminal.line(format_args!("{} of memory at most", bytes(peak)));
    }
    for (rank, figures) in state.ranks.iter().enumerate() {
        let peak = figures
            .peak_bytes
            .map(|peak| format!(", {} at most", bytes(peak)));
        let (device, peak) = (&figures.device, peak.unwrap_or_default());
        terminal.line(format_args!("rank {rank}: {device}{peak}"));
    }
    for damage in &state.damage {
        terminal.warn(damage);
    }
    terminal.line(run.folder.display());
    let evaluated = events.iter().filter_map(|recorded| match &recorded.event {
        TrainEvent::Evaluated {
            step,
            loss,
            metrics,
            best,
            ..
        } => {
            let mark = if *best { "best so far" } else { "" };
            let (step, loss) = (format!("step {step}"), format!("loss {loss:.4}"));
            let figure = |it: &Metric| format!("{} {:.4}", it.label, it.value);
            let figures = metrics.iter().map(figure);
            Some(
                [step, loss, mark.to_owned()]
                    .into_iter()
                    .chain(figures)
                    .collect(),
            )
        }
        _ => None,
    });
    let evaluated = table(&evaluated.collect::<Vec<_>>());
    section("Evaluations", evaluated, terminal);
    section("Checkpoints", checkpoint_lines(&checkpoints), terminal);
    let text = run.plan_text().unwrap_or_default();
    section("Plan", text.lines().map(str::to_owned).collect(), terminal);
    Ok(())
}

/// Each checkpoint with its size and what it is kept for, and the size of all.
fn checkpoint_lines(checkpoints: &[CheckpointFolder]) -> Vec<String> {
    let row = |it: &CheckpointFolder| vec![it.name.clone(), bytes(it.bytes), it.kept_for.clone()];
    let mut rows: Vec<Vec<String>> = checkpoints.iter().map(row).collect();
    if rows.len() > 1 {
        let sum = checkpoints.iter().map(|it| it.bytes).sum();
        rows.push(vec!["all".to_owned(), bytes(sum), String::new()]);
    }
    table(&rows)
}

fn section(title: &str, lines: Vec<String>, terminal: &Terminal) {
    if lines.is_empty() {
        return;
    }
    terminal.line("");
    terminal.line(style(title).bold());
    for line in lines {
        terminal.line(format_args!("  {line}"));
    }
}
