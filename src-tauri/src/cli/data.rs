//! `anneal data`: what there is to learn from.

use std::path::PathBuf;

use console::style;
use models::{
    data::{
        DataRequest, TextRows,
        encode::Learn,
        format::Format,
        summary::{LengthSummary, Segment},
    },
    figures::{count, counted},
};
use serde::de::DeserializeOwned;

use super::{
    Ended, pictures, puzzles,
    terminal::{Terminal, table},
};
use crate::{
    host::{
        Host,
        inspect::{Content, Inspection},
    },
    wire::error::{AppError, Result},
};

/// How many problems are listed before the rest is only counted.
const PROBLEMS_SHOWN: usize = 20;
/// The longest bar of the histogram, in letters.
const BAR_WIDTH: usize = 40;

/// Look at data before training on it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show how files are read, what is wrong with them, how long their rows are, and one example.
    Inspect(Inspect),
    /// Make puzzles to train on.
    #[command(subcommand)]
    Build(puzzles::Build),
}

#[derive(Debug, clap::Args)]
struct Inspect {
    /// JSON lines, JSON, CSV, TSV, Parquet or plain text; or folders of them. Puzzles are shown as grids, and of pictures
    /// what each class has.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// messages, sharegpt, prompt_completion, alpaca or text. Without it, it is found from the columns.
    #[arg(long, value_parser = word::<Format>)]
    format: Option<Format>,
    /// Which column is what, such as prompt=question. May be repeated.
    #[arg(long, value_name = "PART=COLUMN", value_parser = pair)]
    column: Vec<(String, String)>,
    /// How bytes become letters, such as latin-1. Without it, the text must be UTF-8.
    #[arg(long)]
    encoding: Option<String>,
    /// What a row of plain text is: whole, lines or paragraphs.
    #[arg(long, value_parser = word::<TextRows>)]
    rows: Option<TextRows>,
    /// Count tokens and write conversations as this model does.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Learn from the assistant’s words only, or from all.
    #[arg(long, value_parser = word::<Learn>, default_value = "assistant")]
    learn: Learn,
    /// Show how many rows would be cut at so many tokens.
    #[arg(
        long,
        value_name = "TOKENS",
        default_value_t = 0,
        hide_default_value = true
    )]
    max_length: usize,
}

/// A word as it would stand in a run file.
fn word<T: DeserializeOwned>(word: &str) -> Result<T, String> {
    serde_json::from_value(word.into()).map_err(|error| error.to_string())
}

/// `part=column`.
pub(super) fn pair(words: &str) -> Result<(String, String), String> {
    let (part, column) = words
        .split_once('=')
        .ok_or("write it like prompt=question")?;
    Ok((part.to_owned(), column.to_owned()))
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let asked = match arguments.command {
        Command::Inspect(asked) => asked,
        Command::Build(build) => return puzzles::build(build, host, terminal),
    };
    if let Some((set, board)) = host.look_at_puzzles(&asked.files)? {
        return puzzles::inspect(&set, &board, terminal);
    }
    if let Some(set) = host.look_at_pictures(&asked.files)? {
        return pictures::inspect(&set, terminal);
    }
    let request = DataRequest {
        paths: asked.files,
        format: asked.format,
        columns: asked.column.into_iter().collect(),
        encoding: asked.encoding,
        rows: asked.rows,
        skip_bad_rows: true,
    };
    let model = asked.model.as_deref();
    let found = host.inspect_data(&request, model, asked.learn, asked.max_length)?;
    match terminal.json {
        true => terminal.json(&found)?,
        false => show(&found, terminal),
    }
    match found.files.iter().any(|file| file.rows > 0) {
        true => Ok(Ended::Done),
        false => Err(AppError::failed("no row can be used")),
    }
}

fn show(found: &Inspection, terminal: &Terminal) {
    for file in &found.files {
        terminal.line(style(file.path.display()).bold());
        terminal.line(format_args!("  {}", file.reason));
        let problems = match file.problems {
            0 => "all usable".to_owned(),
            problems => format!("{} more can’t be used", count(problems as u64)),
        };
        if file.layout.is_some() || file.problems > 0 {
            terminal.line(format_args!(
                "  {}, {problems}",
                counted(file.rows as u64, "row")
            ));
        }
    }
    if !found.problems.is_empty() {
        heading("Problems", terminal);
        let several = found.files.len() > 1;
        for problem in found.problems.iter().take(PROBLEMS_SHOWN) {
            match several {
                true => terminal.line(format_args!("  {problem}: {}", problem.path.display())),
                false => terminal.line(format_args!("  {problem}")),
            }
        }
        let more = found.problems.len().saturating_sub(PROBLEMS_SHOWN);
        if more > 0 {
            terminal.line(format_args!("  and {} more", count(more as u64)));
        }
    }
    if let Some(content) = &found.content {
        show_content(content, terminal);
    }
}

fn show_content(content: &Content, terminal: &Terminal) {
    heading("Tokens", terminal);
    terminal.line(format_args!("  counted with {}", content.tokenizer));
    for line in lengths(&content.lengths, content.is_stream) {
        terminal.line(format!("  {line}").trim_end());
    }
    let line = content.example_line;
    heading(
        &format!("Example, line {line}, with what is learned marked"),
        terminal,
    );
    if let Some(template) = &content.template {
        terminal.line(format_args!("  chat template: {template}"));
    }
    let text: String = content.example.iter().map(marked).collect();
    for line in text.lines() {
        terminal.line(format!("  {line}").trim_end());
    }
}

fn heading(text: &str, terminal: &Terminal) {
    terminal.line("");
    terminal.line(style(text).bold());
}

/// A stretch of the example, coloured when it is learned, or in double brackets where there are no colours.
fn marked(segment: &Segment) -> String {
    if !segment.learned {
        return segment.text.clone();
    }
    if !console::colors_enabled() {
        return format!("[[{}]]", segment.text);
    }
    // Each line gets its own colour codes, so that the indentation between them stays plain.
    let lines = segment
        .text
        .split('\n')
        .map(|line| style(line).green().to_string());
    lines.collect::<Vec<_>>().join("\n")
}

fn lengths(lengths: &LengthSummary, is_stream: bool) -> Vec<String> {
    let number = |value: usize| count(value as u64);
    if is_stream {
        return vec![
            format!("{}, all learned", counted(lengths.tokens as u64, "token")),
            "`--rows lines` or `--rows paragraphs` makes rows of it".to_owned(),
        ];
    }
    let mut lines = vec![
        format!(
            "{} in {}",
            counted(lengths.tokens as u64, "token"),
            counted(lengths.rows as u64, "row")
        ),
        format!("{} of them trained on", number(lengths.target_tokens)),
        format!(
            "a row has {} to {}, {:.0} on average",
            number(lengths.shortest),
            number(lengths.longest),
            lengths.mean
        ),
    ];
    let shares = lengths.percentiles.iter();
    let shares: Vec<String> = shares
        .map(|it| format!("{} % ≤ {}", it.percent, number(it.tokens)))
        .collect();
    lines.push(shares.join("   "));
    if lengths.truncated > 0 {
        lines.push(format!(
            "{} would be cut",
            counted(lengths.truncated as u64, "row")
        ));
    }
    lines.push(String::new());
    let most = lengths
        .histogram
        .iter()
        .map(|bin| bin.rows)
        .max()
        .unwrap_or_default()
        .max(1);
    let rows: Vec<Vec<String>> = lengths
        .histogram
        .iter()
        .map(|bin| {
            let range = match bin.to - bin.from {
                1 => number(bin.from),
                _ => format!("{}-{}", number(bin.from), number(bin.to - 1)),
            };
            // A bin with any row has a bar that can be seen.
            let width = (bin.rows * BAR_WIDTH).div_ceil(most);
            vec![range, format!("{} {}", "█".repeat(width), number(bin.rows))]
        })
        .collect();
    lines.extend(table(&rows));
    lines
}
