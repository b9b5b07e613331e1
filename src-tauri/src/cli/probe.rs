//! `anneal probe`: hidden states of a model over labelled text, the files they lie in, and what is learned from them.

mod apply;
mod exchange;
mod train;

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Instant,
};

use console::style;
use models::{
    arch::sites::Site,
    device::RequestedDevice,
    figures::{bytes, count, counted, duration},
    tasks::probe::{
        capture::{CapturePlan, CaptureProgress, CaptureRequest},
        capture_prompt::PromptRequest,
        labelled::LabelledRequest,
        states::{Position, States},
    },
};
use serde_json::{Value, json};

use super::{
    Ended, hub,
    terminal::{Terminal, count_interrupts, printable},
};
use crate::{
    host::{
        Host,
        probe::{CaptureNews, CaptureOrder},
    },
    wire::error::{AppError, Result},
};

/// How many labels a plan shows.
const LABELS_SHOWN: usize = 12;
/// How many tokens of the first text a plan shows, those at its end.
const PIECES_SHOWN: usize = 24;

/// Train probes: what a model’s hidden states say about texts.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Capture hidden states of a model over labelled text into a folder. The same command continues one that was stopped.
    Capture(Box<CaptureArguments>),
    Train(Box<train::Arguments>),
    Show(train::ShowArguments),
    Apply(Box<apply::Arguments>),
    Export(Box<exchange::ExportArguments>),
    Import(Box<exchange::ImportArguments>),
}

#[derive(Debug, clap::Args)]
struct Columns {
    /// The column with the text. Without it, it is found by its name.
    #[arg(long, value_name = "NAME")]
    text_column: Option<String>,
    /// The column with the label or the list of labels. Without it, it is found by its name.
    #[arg(long, value_name = "NAME")]
    label_column: Option<String>,
    /// The column with what belongs together, such as a conversation. Without it, it is found by its name.
    #[arg(long, value_name = "NAME")]
    group_column: Option<String>,
}

#[derive(Debug, clap::Args)]
struct CaptureArguments {
    /// A run, the folder of a model or of an adapter, or the name of a model, here or on the Hugging Face Hub.
    #[arg(long, value_name = "MODEL_OR_RUN")]
    model: String,
    /// A file or folder with labelled text: JSON lines, JSON, CSV, Parquet, or lines of `LABEL text`. May be repeated.
    #[arg(long, value_name = "FILE", required = true)]
    data: Vec<PathBuf>,
    /// The folder for the states.
    #[arg(long, value_name = "FOLDER", required_unless_present = "dry_run")]
    out: Option<PathBuf>,
    #[command(flatten)]
    columns: Columns,
    /// The encoding of the text, such as latin-1. Without it, UTF-8.
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// What follows the text directly; or words with {text} in them; or `cognitive-action`, which asks for one.
    #[arg(long, value_name = "WORDS")]
    suffix: Option<String>,
    /// Show the text as a user’s turn of a chat, up to where the answer would begin.
    #[arg(long)]
    chat: bool,
    /// Which states are kept: last, mean, max, mean-and-max, tokens, answer, or marked.
    #[arg(long, value_name = "POSITION", default_value = "last", value_parser = position)]
    position: Position,
    /// all, or sites apart by commas: embed, numbers of blocks from 0, final.
    #[arg(long, value_name = "SITES", default_value = "all", value_parser = sites)]
    sites: Sites,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// How many tokens in one pass. Without it, what suits the device.
    #[arg(long, value_name = "TOKENS")]
    tokens_at_once: Option<usize>,
    /// Continue without the rows that can’t be used, and list them.
    #[arg(long)]
    skip_bad_rows: bool,
    /// Say what would be done. Does nothing.
    #[arg(long)]
    dry_run: bool,
    /// Download the model from the Hugging Face Hub if it isn’t on this machine, without asking.
    #[arg(long, short)]
    yes: bool,
    /// Open the model even if it may not fit in memory.
    #[arg(long)]
    force: bool,
}

/// Sites that were asked for. None are all.
#[derive(Debug, Clone)]
struct Sites(Vec<Site>);

fn sites(words: &str) -> Result<Sites, String> {
    if words == "all" {
        return Ok(Sites(Vec::new()));
    }
    let site = |word: &str| match word.trim().parse::<usize>() {
        Ok(block) => Ok(Site::Block(block)),
        Err(_) => word.trim().parse(),
    };
    let sites: Vec<Site> = words.split(',').map(site).collect::<Result<_, String>>()?;
    Ok(Sites(sites))
}

fn position(words: &str) -> Result<Position, String> {
    let name = Value::from(words.replace('-', "_"));
    serde_json::from_value(name).map_err(|_| {
        "there are last, mean, max, mean-and-max, tokens, answer and marked".to_owned()
    })
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    match arguments.command {
        Command::Capture(asked) => capture(*asked, host, terminal),
        Command::Train(asked) => train::run(*asked, host, terminal),
        Command::Show(asked) => train::run_show(&asked, host, terminal),
        Command::Apply(asked) => apply::run(*asked, host, terminal),
        Command::Export(asked) => exchange::export(&asked, host, terminal),
        Command::Import(asked) => exchange::import(*asked, host, terminal),
    }
}

fn capture(asked: CaptureArguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    if hub::offer(&asked.model, asked.yes, host, terminal)? == Ended::Stopped {
        return Ok(Ended::Stopped);
    }
    let states = asked.out.clone().filter(|_| !asked.dry_run);
    let order = CaptureOrder {
        model: asked.model.clone(),
        device: asked.device,
        force: asked.force,
        states: states.clone(),
        request: request(asked)?,
    };
    let interrupts = count_interrupts()?;
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let bar = terminal.bar("{pos}/{len} texts  {eta} left  ", 60);
    let (mut all, mut noted) = (0, None);
    let mut problem = None;
    let mut show = |news| match news {
        CaptureNews::Planned(plan, warnings) => {
            all = plan.about.rows;
            for warning in warnings {
                terminal.warn(warning);
            }
            let shown = match terminal.json {
                true => terminal
                    .json(&json!({"kind": "planned", "seconds": plan.seconds(), "plan": plan})),
                false => {
                    show_plan(&plan, terminal);
                    Ok(())
                }
            };
            problem = shown.err();
            bar.set_length(all as u64);
            if states.is_some() {
                terminal.show(&bar);
            }
        }
        CaptureNews::Progress(progress) => {
            bar.set_position(progress.rows as u64);
            bar.set_message(speed(&progress));
            let text = || {
                format!(
                    "{} of {} texts, {}",
                    count(progress.rows as u64),
                    count(all as u64),
                    speed(&progress)
                )
            };
            terminal.note_without_bar(&bar, &mut noted, text);
            if terminal.json {
                problem = terminal
                    .json(&json!({"kind": "captured", "progress": progress}))
                    .err();
            }
        }
    };
    let started = Instant::now();
    let complete = host.capture(order, &mut show, &stop);
    bar.finish_and_clear();
    let complete = complete?;
    if let Some(problem) = problem {
        return Err(problem);
    }
    match states {
        None => Ok(Ended::Done),
        Some(folder) => told(&folder, complete, started, terminal),
    }
}

fn request(asked: CaptureArguments) -> Result<CaptureRequest> {
    // The engine may work elsewhere.
    let absolute =
        |path: &PathBuf| std::path::absolute(path).map_err(AppError::file("find the data", path));
    Ok(CaptureRequest {
        data: LabelledRequest {
            paths: asked.data.iter().map(absolute).collect::<Result<_>>()?,
            text_column: asked.columns.text_column,
            label_column: asked.columns.label_column,
            group_column: asked.columns.group_column,
            encoding: asked.encoding,
        },
        prompt: PromptRequest {
            suffix: asked.suffix,
            chat: asked.chat,
        },
        position: asked.position,
        sites: asked.sites.0,
        skip_bad_rows: asked.skip_bad_rows,
        tokens_at_once: asked.tokens_at_once,
    })
}

/// What came of a capture.
fn told(folder: &Path, complete: bool, started: Instant, terminal: &Terminal) -> Result<Ended> {
    let seconds = started.elapsed().as_secs_f64();
    if terminal.json {
        let done =
            json!({"kind": "ended", "complete": complete, "folder": folder, "seconds": seconds});
        terminal.json(&done)?;
    } else if complete {
        let states = States::open(folder)?;
        terminal.line(format_args!(
            "{} at {} are in {} after {}",
            counted(states.about().rows as u64, "text"),
            counted(states.sites().len() as u64, "site"),
            folder.display(),
            duration(seconds)
        ));
    } else {
        terminal.note("stopped; the same command continues where it was");
    }
    Ok(match complete {
        true => Ended::Done,
        false => Ended::Stopped,
    })
}

fn speed(progress: &CaptureProgress) -> String {
    format!(
        "{:.1} texts/s, {} tokens/s",
        progress.rows_per_second,
        count(progress.tokens_per_second as u64)
    )
}

fn show_plan(plan: &CapturePlan, terminal: &Terminal) {
    let about = &plan.about;
    let adapter = about
        .adapter
        .as_ref()
        .map_or(String::new(), |it| format!(" with {}", it.name));
    let mut rows = vec![
        [
            "model",
            &format!("{}{adapter}, in {}", about.model.name, about.compute_dtype),
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), printable(&text)]);
    for said in &plan.read_as {
        row("data", said.clone());
    }
    row("texts", texts(plan));
    if !plan.label_counts.is_empty() {
        row("labels", labels(plan));
    }
    row("shown", about.prompt.pattern.replace('\n', "⏎"));
    if about.prompt.template.is_some() {
        row(
            "",
            "as a turn of a chat, up to where the answer begins".to_owned(),
        );
    }
    row("kept", kept(about.position).to_owned());
    row(
        "sites",
        format!(
            "{} of {} numbers in {}, {} in all",
            counted(about.sites.len() as u64, "site"),
            count(about.width as u64),
            about.dtype.name(),
            bytes(plan.bytes)
        ),
    );
    row(
        "time",
        format!(
            "about {} at {} tokens a second",
            duration(plan.seconds()),
            count(plan.tokens_per_second as u64)
        ),
    );
    for line in super::terminal::table(&rows) {
        terminal.line(line);
    }
    terminal.line("");
    terminal.line(format_args!(
        "The first text as the model reads it; {} is kept:",
        style("⟦this⟧").bold()
    ));
    terminal.line(pieces(plan));
    terminal.line("");
}

fn texts(plan: &CapturePlan) -> String {
    let groups = match plan.groups {
        Some(groups) => format!(", {}", counted(groups as u64, "group")),
        None => String::new(),
    };
    let left_out = match plan.left_out {
        0 => String::new(),
        left_out => format!(
            "; {} can’t be used, the first: {}",
            counted(left_out as u64, "row"),
            plan.about.left_out.first().map_or("", String::as_str)
        ),
    };
    format!(
        "{}{groups}, {} tokens, the longest {}{left_out}",
        counted(plan.about.rows as u64, "text"),
        count(plan.tokens as u64),
        count(plan.longest as u64)
    )
}

fn labels(plan: &CapturePlan) -> String {
    let mut counts: Vec<(&String, &usize)> = plan.label_counts.iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), name.as_str()));
    let shown = counts.iter().take(LABELS_SHOWN);
    let shown: Vec<String> = shown
        .map(|(name, rows)| format!("{name} {}", count(**rows as u64)))
        .collect();
    let more = match counts.len().saturating_sub(LABELS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let without = match plan.without_label {
        0 => String::new(),
        rows => format!("; {} without a label", counted(rows as u64, "text")),
    };
    format!("{}: {}{more}{without}", counts.len(), shown.join(", "))
}

fn kept(position: Position) -> &'static str {
    match position {
        Position::Last => "the state of the last token",
        Position::Mean => "the mean over the text’s own tokens",
        Position::Max => "the largest values over the text’s own tokens",
        Position::MeanAndMax => "the mean and the largest values over the text’s own tokens",
        Position::Tokens => "the state of each of the text’s own tokens",
        Position::Answer => "the mean over the answer’s tokens",
        Position::Marked => "the mean over the tokens of marked parts",
    }
}

/// The tokens at the end of the first text, with those marked whose states are kept.
fn pieces(plan: &CapturePlan) -> String {
    let skipped = plan.pieces.len().saturating_sub(PIECES_SHOWN);
    let pieces = plan.pieces.iter().enumerate().skip(skipped);
    let piece = |(at, piece): (usize, &String)| {
        let piece = printable(&piece.replace('\n', "⏎"));
        match plan.picked.contains(&(at as u32)) {
            true => style(format!("⟦{piece}⟧")).bold().to_string(),
            false => piece,
        }
    };
    let before = if skipped > 0 { "…" } else { "" };
    format!(
        "  {before}{}",
        pieces.map(piece).collect::<Vec<_>>().join("·")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_named_by_words_or_numbers() {
        let read = |words| sites(words).map(|it| it.0);
        assert_eq!(read("all"), Ok(Vec::new()));
        let expected = vec![Site::Block(8), Site::Embed, Site::Block(14), Site::Final];
        assert_eq!(read("8, embed,block.14,final"), Ok(expected));
        assert!(read("8,last").unwrap_err().starts_with("`last` is no site"));
        assert_eq!(position("mean-and-max"), Ok(Position::MeanAndMax));
    }
}
