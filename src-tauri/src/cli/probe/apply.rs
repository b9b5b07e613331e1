//! `anneal probe apply`: what probes say of new texts, of a file, or of states that were captured since.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use console::style;
use models::{
    checkpoint::save::name_of,
    device::RequestedDevice,
    figures::counted,
    tasks::probe::{
        apply::{Applied, ApplyPlan, ApplyRequest, Threshold, of_states},
        folder::Probes,
        label_figures::{self, Scored},
        labelled::LabelledRequest,
        states::States,
    },
};
use serde_json::json;

use crate::{
    cli::{
        Ended, hub,
        terminal::{Terminal, count_interrupts, printable},
    },
    host::{
        Host,
        probe::{ApplyNews, ApplyOrder},
    },
    wire::error::{AppError, Result},
};

/// Letters of a text that are shown.
const SHOWN: usize = 60;
/// Columns of the table of all scores.
const COLUMNS: [&str; 7] = [
    "id",
    "text",
    "label",
    "site",
    "score",
    "probability",
    "active",
];

/// Apply probes to texts, a file, or captured states.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Arguments {
    /// A run of probes, or a folder of them.
    #[arg(value_name = "PROBES")]
    probes: PathBuf,
    #[command(flatten)]
    source: Source,
    /// The model of the probes: a run, a folder, or a name. Without it, it is found by its weights.
    #[arg(long, value_name = "MODEL_OR_RUN")]
    model: Option<String>,
    /// The column of the files with the text. Without it, it is found by its name.
    #[arg(long, value_name = "NAME")]
    text_column: Option<String>,
    /// The column of the files with the label or the list of labels. Without it, it is found by its name, and there may be none.
    #[arg(long, value_name = "NAME")]
    label_column: Option<String>,
    /// The encoding of the files, such as latin-1. Without it, UTF-8.
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// Continue without the rows that can’t be used, and list them.
    #[arg(long)]
    skip_bad_rows: bool,
    /// Each label at every site, and not only where it was chosen.
    #[arg(long)]
    all_sites: bool,
    /// Labels of each text to show, the strongest first.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    top: usize,
    /// From where on a label is active: chosen, the score that validation rows chose, or a probability. When it is given, only active
    /// labels are shown; where none is, the strongest.
    #[arg(long, value_name = "chosen|PROBABILITY", value_parser = threshold)]
    threshold: Option<Threshold>,
    /// Write all scores of all texts into a table.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write how often the probes are right into a folder, where the texts have labels: `metrics_{label}.json` and
    /// `aggregate_metrics.json`, and with --all-sites also `per_action_layer_analysis.json`.
    #[arg(long, value_name = "FOLDER")]
    metrics: Option<PathBuf>,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// Download the model from the Hugging Face Hub if it isn’t on this machine, without asking.
    #[arg(long, short)]
    yes: bool,
    /// Apply them to another model, prompt or position, and open a model that does not fit into memory.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// A text. May be repeated.
    #[arg(long, value_name = "TEXT")]
    text: Vec<String>,
    /// A file or folder with texts, as `anneal probe capture` reads them. May be repeated.
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,
    /// A folder of states, captured with the same model, suffix and position.
    #[arg(long, value_name = "STATES")]
    states: Option<PathBuf>,
}

fn threshold(words: &str) -> Result<Threshold, String> {
    match (words, words.parse::<f64>()) {
        ("chosen", _) => Ok(Threshold::Chosen),
        (_, Ok(least)) if (0.0..=1.0).contains(&least) => Ok(Threshold::Probability(least)),
        _ => Err("`chosen`, or a probability from 0 to 1".to_owned()),
    }
}

pub(in crate::cli) fn run(
    mut arguments: Arguments,
    host: &Host,
    terminal: &Terminal,
) -> Result<Ended> {
    let name = arguments.probes.to_string_lossy().into_owned();
    arguments.probes = host.probes(&name)?;
    if arguments.model.is_none() && arguments.source.states.is_none() {
        arguments.model = host.model_of_run(&name);
    }
    if let Some(model) = &arguments.model
        && hub::offer(model, arguments.yes, host, terminal)? == Ended::Stopped
    {
        return Ok(Ended::Stopped);
    }
    let probes = Probes::open(&arguments.probes)?;
    let mut output = Output::begin(&arguments, &probes, terminal)?;
    let ended = match &arguments.source.states {
        Some(folder) => states(folder, &arguments, &probes, &mut output, terminal)?,
        None => texts(&arguments, &mut output, host, terminal)?,
    };
    output.end(ended)?;
    Ok(ended)
}

fn states(
    folder: &Path,
    arguments: &Arguments,
    probes: &Probes,
    output: &mut Output,
    terminal: &Terminal,
) -> Result<Ended> {
    let states = States::open(folder)?;
    match (probes.check(states.about()), arguments.force) {
        (Err(problem), true) => terminal.warn(problem),
        (checked, _) => checked?,
    }
    of_states(probes, &states, arguments.all_sites, &mut |texts| {
        output.add(texts);
    })?;
    Ok(Ended::Done)
}

fn texts(
    arguments: &Arguments,
    output: &mut Output,
    host: &Host,
    terminal: &Terminal,
) -> Result<Ended> {
    let interrupts = count_interrupts()?;
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let mut show = |news| match news {
        ApplyNews::Planned(plan, warnings) => planned(&plan, &warnings, terminal),
        ApplyNews::Applied(texts) => output.add(texts),
    };
    host.apply_probes(arguments.order()?, &mut show, &stop)?;
    Ok(match stop() {
        true => Ended::Stopped,
        false => Ended::Done,
    })
}

fn planned(plan: &ApplyPlan, warnings: &[String], terminal: &Terminal) {
    for warning in warnings {
        terminal.warn(warning);
    }
    for said in &plan.read_as {
        terminal.note(said);
    }
    for reason in &plan.left_out {
        terminal.warn(format_args!("left out: {}", printable(reason)));
    }
}

impl Arguments {
    fn order(&self) -> Result<ApplyOrder> {
        // The engine may work elsewhere.
        let absolute = |path: &PathBuf| {
            std::path::absolute(path).map_err(AppError::file("find the data", path))
        };
        let paths = self.source.data.iter().map(absolute);
        Ok(ApplyOrder {
            probes: self.probes.clone(),
            model: self.model.clone(),
            device: self.device,
            force: self.force,
            request: ApplyRequest {
                texts: self.source.text.clone(),
                data: LabelledRequest {
                    paths: paths.collect::<Result<_>>()?,
                    text_column: self.text_column.clone(),
                    label_column: self.label_column.clone(),
                    encoding: self.encoding.clone(),
                    ..LabelledRequest::default()
                },
                skip_bad_rows: self.skip_bad_rows,
                all_sites: self.all_sites,
            },
        })
    }
}

/// Where what the probes say goes, text by text.
struct Output<'a> {
    arguments: &'a Arguments,
    probes: &'a Probes,
    terminal: &'a Terminal,
    which: Vec<usize>,
    threshold: Threshold,
    csv: Option<csv::Writer<File>>,
    /// Kept only where figures are wanted.
    scored: Vec<Scored>,
    /// What could not be written.
    problem: Option<AppError>,
}

/// What a probe says of a text.
struct Found<'a> {
    label: &'a str,
    site: String,
    score: f32,
    probability: Option<f64>,
    strength: f64,
    is_active: bool,
}

impl<'a> Output<'a> {
    fn begin(arguments: &'a Arguments, probes: &'a Probes, terminal: &'a Terminal) -> Result<Self> {
        let csv = arguments.csv.as_ref().map(|path| -> Result<_> {
            let file = File::create(path).map_err(AppError::file("write the table", path))?;
            let mut csv = csv::Writer::from_writer(file);
            csv.write_record(COLUMNS).map_err(not_written)?;
            Ok(csv)
        });
        Ok(Self {
            arguments,
            probes,
            terminal,
            which: probes.which(arguments.all_sites),
            threshold: arguments.threshold.unwrap_or(Threshold::Chosen),
            csv: csv.transpose()?,
            scored: Vec::new(),
            problem: None,
        })
    }

    fn add(&mut self, texts: Vec<Applied>) {
        for text in texts {
            let mut found = self.found(&text);
            found.sort_by(|a, b| b.strength.total_cmp(&a.strength));
            let shown = self
                .table(&text, &found)
                .and_then(|()| self.show(&text, found));
            self.problem = self.problem.take().or(shown.err());
            if self.arguments.metrics.is_some() {
                self.scored.push((text.labels, text.scores));
            }
        }
    }

    fn found(&self, text: &Applied) -> Vec<Found<'a>> {
        let of = |(&probe, &score): (&usize, &f32)| {
            let about = &self.probes.about.probes[probe];
            Found {
                label: &about.label,
                site: about.site.to_string(),
                score,
                probability: self.probes.probability(probe, score),
                strength: self.probes.strength(probe, score),
                is_active: self.probes.is_active(probe, score, self.threshold),
            }
        };
        self.which.iter().zip(&text.scores).map(of).collect()
    }

    /// Writes a text into the table.
    fn table(&mut self, text: &Applied, found: &[Found]) -> Result<()> {
        let Some(csv) = &mut self.csv else {
            return Ok(());
        };
        for it in found {
            let score = it.score.to_string();
            let probability = it.probability.map_or(String::new(), |it| it.to_string());
            let active = it.is_active.to_string();
            let cells: [&str; COLUMNS.len()] = [
                &text.id,
                &text.text,
                it.label,
                &it.site,
                &score,
                &probability,
                &active,
            ];
            csv.write_record(cells).map_err(not_written)?;
        }
        Ok(())
    }

    fn show(&self, text: &Applied, mut found: Vec<Found>) -> Result<()> {
        if self.arguments.threshold.is_some() && found.iter().any(|it| it.is_active) {
            found.retain(|it| it.is_active);
        }
        found.truncate(self.arguments.top.max(1));
        if self.terminal.json {
            let labels = found.iter().map(|it| {
                json!({
                    "label": it.label,
                    "site": it.site,
                    "score": it.score,
                    "probability": it.probability,
                    "active": it.is_active,
                })
            });
            let labels: Vec<_> = labels.collect();
            return self.terminal.json(&json!({
                "id": text.id, "expected": text.labels, "labels": labels, "far": text.far,
            }));
        }
        let shown: String = text.text.chars().take(SHOWN).collect();
        let shown = if shown.is_empty() { &text.id } else { &shown };
        let expected = match text.labels.as_slice() {
            [] => String::new(),
            labels => format!("  labelled {}", labels.join(", ")),
        };
        self.terminal.line(format_args!(
            "{}{}",
            style(printable(&shown.replace('\n', "⏎"))).bold(),
            style(printable(&expected)).dim()
        ));
        self.terminal
            .table(&found.iter().map(Found::row).collect::<Vec<_>>());
        if !text.far.is_empty() {
            let sites: Vec<String> = text.far.iter().map(ToString::to_string).collect();
            self.terminal.warn(format_args!(
                "this text lies farther out than 999 of 1,000 texts that the probes learned from, at {}; don’t rely on its scores",
                sites.join(", ")
            ));
        }
        Ok(())
    }

    /// Ends the table, and writes the figures, unless texts are missing.
    fn end(mut self, ended: Ended) -> Result<()> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if let (Some(csv), Some(path)) = (&mut self.csv, &self.arguments.csv) {
            csv.flush()
                .map_err(AppError::file("write the table", path))?;
            self.terminal
                .note(format_args!("all scores are in {}", path.display()));
        }
        if let Some(folder) = self
            .arguments
            .metrics
            .as_ref()
            .filter(|_| ended == Ended::Done)
        {
            let (which, scored) = (&self.which, &self.scored);
            let files = label_figures::write(folder, self.probes, which, scored, self.threshold)?;
            self.terminal.note(format_args!(
                "{} with figures of {} in {}",
                counted(files.len() as u64, "file"),
                name_of(&self.arguments.probes),
                folder.display()
            ));
        }
        Ok(())
    }
}

impl Found<'_> {
    fn row(&self) -> Vec<String> {
        let probability = self
            .probability
            .map_or(String::new(), |it| format!("{it:.3}"));
        let mark = match self.is_active {
            true => style("yes").green().to_string(),
            false => String::new(),
        };
        vec![
            format!("  {}", printable(self.label)),
            format!("{:+.2}", self.score),
            probability,
            self.site.clone(),
            mark,
        ]
    }
}

fn not_written(error: csv::Error) -> AppError {
    AppError::failed(format!("could not write the table: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_the_chosen_one_or_a_probability() {
        assert_eq!(threshold("chosen"), Ok(Threshold::Chosen));
        assert_eq!(threshold("0.1"), Ok(Threshold::Probability(0.1)));
        for wrong in ["1.5", "-0.1", "high", "NaN"] {
            assert!(threshold(wrong).is_err(), "{wrong}");
        }
    }
}
