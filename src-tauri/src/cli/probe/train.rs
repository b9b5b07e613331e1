//! `anneal probe train`: what hidden states say of labels, site by site, beside what the words say.

use std::{path::PathBuf, sync::atomic::Ordering};

use console::style;
use models::{
    checkpoint::save::name_of,
    figures::count,
    tasks::probe::{
        adamw::Recipe,
        examples::Examples,
        fitting::Solver,
        folder,
        report::{Estimate, LabelReport, Report},
        states::States,
        study::{PENALTIES, Progress, Settings, Source, Study, study},
    },
};
use serde_json::json;

use crate::{
    cli::{
        Ended,
        terminal::{Terminal, count_interrupts, printable},
    },
    wire::error::{AppError, Result},
};

/// Learn probes of captured states, and say what they know beyond the words.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Arguments {
    /// A folder of states, made by `anneal probe capture`.
    #[arg(value_name = "STATES")]
    states: PathBuf,
    /// Where the probes go. Without it, beside the states.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Labels to learn, such as joy,anger. Without it, all.
    #[arg(long, value_name = "LABELS", value_delimiter = ',')]
    labels: Vec<String>,
    /// How weights are found: exact, the optimum of logistic regression; mean-difference, without learning; adamw, small batches
    /// with early stopping, as others train probes.
    #[arg(long, value_enum, default_value = "exact")]
    solver: SolverName,
    /// Values of C to choose from on validation rows: a larger one penalises weights less.
    #[arg(long, value_name = "VALUES", value_delimiter = ',', default_values_t = PENALTIES)]
    c: Vec<f64>,
    /// Have rows with a label count as much in all as rows without it.
    #[arg(long)]
    balanced: bool,
    /// Divide the rows, shuffle and draw by another seed.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

/// A solver, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SolverName {
    Exact,
    MeanDifference,
    Adamw,
}

pub(in crate::cli) fn run(arguments: Arguments, terminal: &Terminal) -> Result<Ended> {
    let settings = arguments.settings()?;
    let out = arguments.out.clone().unwrap_or_else(|| {
        let name = format!("{}-probes", name_of(&arguments.states));
        arguments.states.with_file_name(name)
    });
    let states = States::open(&arguments.states)?;
    let examples = Examples::of(&states, &arguments.labels, arguments.seed)?;
    let interrupts = count_interrupts()?;
    let bar = terminal.bar("{pos}/{len}  ", 50);
    terminal.show(&bar);
    let mut tell = |progress: &Progress| {
        bar.set_length(progress.all as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(progress.doing.clone());
        interrupts.load(Ordering::SeqCst) == 0
    };
    let found = learn(&states, &examples, &settings, &mut tell);
    bar.finish_and_clear();
    let Some(found) = found? else {
        return Ok(Ended::Stopped);
    };
    let written_by = format!("anneal {}", env!("CARGO_PKG_VERSION"));
    folder::save(&out, &found, (&examples, states.about()), &written_by)?;
    if terminal.json {
        let value = json!({ "folder": out, "report": found.report });
        terminal.json(&value)?;
    } else {
        show(&found.report, terminal);
        terminal.note(format_args!("the probes are in {}", out.display()));
    }
    Ok(Ended::Done)
}

impl Arguments {
    fn settings(&self) -> Result<Settings> {
        let mut penalties = self.c.clone();
        penalties.sort_by(f64::total_cmp);
        if let Some(wrong) = penalties.iter().find(|c| !(1e-9..=1e9).contains(*c)) {
            return Err(AppError::invalid(format!(
                "--c has {wrong}, and values of C are from 1e-9 to 1e9"
            )));
        }
        Ok(Settings {
            solver: match self.solver {
                SolverName::Exact => Solver::Exact,
                SolverName::MeanDifference => Solver::MeanDifference,
                SolverName::Adamw => Solver::Adamw(Recipe::default()),
            },
            penalties,
            balanced: self.balanced,
            seed: self.seed,
            ..Settings::default()
        })
    }
}

/// Does the study, with one site in memory at a time.
fn learn(
    states: &States,
    examples: &Examples,
    settings: &Settings,
    tell: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Option<Study>> {
    let width = states.about().width;
    let mut read = |site: usize, rows: &[usize]| {
        let matrix = states.matrix(states.sites()[site])?;
        let mut numbers = vec![0.0; rows.len() * width];
        for (into, &row) in numbers.chunks_mut(width.max(1)).zip(rows) {
            matrix.copy_vector(row, into);
        }
        Ok(numbers)
    };
    let mut source = Source {
        sites: states.sites().iter().map(ToString::to_string).collect(),
        width,
        read: &mut read,
    };
    Ok(study(examples, &mut source, settings, tell)?)
}

/// `0.951 (0.932–0.968)`.
fn estimate(it: &Estimate) -> String {
    match it.interval {
        Some(interval) => format!("{:.3} ({:.3}–{:.3})", it.value, interval.low, interval.high),
        None => format!("{:.3}", it.value),
    }
}

fn show(report: &Report, terminal: &Terminal) {
    terminal.line(style(&report.headline).bold());
    let [train, validation, test] = report.rows.map(count);
    terminal.line(format_args!(
        "{train} rows to learn from, {validation} to choose on, {test} to report on, in {} groups.",
        count(report.groups)
    ));
    if let Some(classes) = &report.classes {
        let words = classes.words.as_ref();
        let words = words.map_or(String::new(), |it| {
            format!("words alone {:.3}; ", it.accuracy)
        });
        terminal.line(format_args!(
            "One answer among {}: accuracy {}; {words}always the most frequent {:.3}; macro F1 {:.3}.",
            report.labels.len(),
            estimate(&classes.accuracy),
            classes.majority,
            classes.probe.macro_f1,
        ));
    }
    terminal.line("");
    let heads = ["Site", "validation", "test AUC (95 %)", ""];
    let mut lines = vec![heads.map(|head| style(head).dim().to_string()).to_vec()];
    lines.extend(report.sites.iter().map(|it| {
        let mark = match (it.site == report.site, it.is_as_good) {
            (true, _) => style("chosen on validation").green().to_string(),
            (_, true) => style("can’t be told from it").dim().to_string(),
            _ => String::new(),
        };
        let validation = format!("{:.3}", it.validation);
        vec![it.site.clone(), validation, estimate(&it.test), mark]
    }));
    terminal.table(&lines);
    terminal.line("");
    let heads = [
        "Label",
        "rows",
        "site",
        "AUC (95 %)",
        "words",
        "AP (share)",
        "F1",
        "control",
        "beyond words",
    ];
    let mut lines = vec![heads.map(|head| style(head).dim().to_string()).to_vec()];
    lines.extend(report.labels.iter().map(line));
    terminal.table(&lines);
    for warning in &report.warnings {
        terminal.warn(warning);
    }
}

/// A label’s line of the table.
fn line(it: &LabelReport) -> Vec<String> {
    let rows = count(it.positives.iter().sum());
    let name = printable(&it.label);
    let Some(probe) = &it.probe else {
        return vec![name, rows, style("too few rows").dim().to_string()];
    };
    let mark = if probe.converged { "" } else { " (not solved)" };
    let test = &probe.test;
    let beyond = match (it.over_words, it.corrected) {
        (Some(over), Some(corrected)) => {
            let star = if corrected < 0.05 { "*" } else { "" };
            let difference = format!("{:+.3}{star}", over.difference);
            match over.is_clear() {
                true => difference,
                false => style(difference + " within chance").dim().to_string(),
            }
        }
        _ => String::new(),
    };
    vec![
        name,
        rows,
        format!("{}{mark}", probe.site),
        estimate(&test.auc),
        it.words
            .as_ref()
            .map_or(String::new(), |it| format!("{:.3}", it.auc.value)),
        format!("{:.3} ({:.3})", test.average_precision, test.prevalence),
        format!("{:.3}", test.at_threshold.f1),
        it.control.map_or(String::new(), |it| format!("{it:.3}")),
        beyond,
    ]
}
