//! `anneal probe train`: a run that learns what hidden states say of labels, beside what the words say; and `anneal probe show`.

use std::path::PathBuf;

use console::style;
use models::{
    device::RequestedDevice,
    figures::count,
    tasks::{
        AnyRequest,
        probe::{
            bootstrap::Difference,
            fitting::SolverName,
            folder::{self, AboutProbes, Probes},
            report::{CrossValidation, Estimate, LabelReport, Report},
            states::Position,
        },
    },
};
use serde_json::{Value, json};

use super::{Columns, Sites, exchange, position, sites};
use crate::{
    cli::{
        Ended,
        terminal::{Terminal, printable},
        train,
    },
    host::Host,
    store::run_file,
    wire::error::Result,
};

/// Train probes on labelled text or captured states, and say what they know beyond the words alone.
///
/// It is a run like others: Ctrl-C saves, and `anneal train --resume` continues.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Arguments {
    /// Files with labelled text; or a folder of states, made by `anneal probe capture`.
    #[arg(value_name = "DATA", required = true)]
    data: Vec<PathBuf>,
    /// The model whose states are read, where they are not captured yet: a folder, or the name of one, here or on the Hugging Face
    /// Hub.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// What the run is called.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    columns: Columns,
    /// What follows the text directly; or words with {text} in them; or `cognitive-action`, which asks for one.
    #[arg(long, value_name = "WORDS")]
    suffix: Option<String>,
    /// Show the text as a user’s turn of a chat, up to where the answer would begin.
    #[arg(long)]
    chat: bool,
    /// Which states are kept: mean, last, max, mean-and-max, answer, or marked. Without it, mean.
    #[arg(long, value_name = "POSITION", value_parser = position)]
    position: Option<Position>,
    /// all, or sites apart by commas: embed, numbers of blocks from 0, final.
    #[arg(long, value_name = "SITES", value_parser = sites)]
    sites: Option<Sites>,
    /// Labels to learn, such as joy,anger. Without it, all.
    #[arg(long, value_name = "LABELS", value_delimiter = ',')]
    labels: Vec<String>,
    /// How weights are found: exact, the optimum of logistic regression; mean-difference, without learning; adamw, small batches
    /// with early stopping, as others train probes.
    #[arg(long, value_name = "SOLVER", value_parser = solver)]
    solver: Option<SolverName>,
    /// Values of C to choose from on validation rows: a larger one penalises weights less.
    #[arg(long, value_name = "VALUES", value_delimiter = ',')]
    c: Vec<f64>,
    /// Give rows with a label the same total weight as rows without it.
    #[arg(long)]
    balanced: bool,
    /// Judge every text once, by probes that learned and chose everything without it: cross-validation in so many folds, or 0 for none.
    /// Without it, 5 where texts are few.
    #[arg(long, value_name = "NUMBER")]
    folds: Option<usize>,
    /// The random seed for splitting the rows, shuffling and sampling.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// Copy the probes into this folder when they are done. They are in the run in any case.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Show the plan, with the reason for each value. Starts nothing.
    #[arg(long)]
    plan: bool,
    /// Download the model from the Hugging Face Hub if it isn’t on this machine, without asking.
    #[arg(long, short)]
    yes: bool,
}

/// Show what probes know, label by label, beside what the words alone tell.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ShowArguments {
    /// A run of probes, or a folder of them.
    #[arg(value_name = "PROBES")]
    probes: String,
}

fn solver(words: &str) -> Result<SolverName, String> {
    let name = Value::from(words.replace('-', "_"));
    serde_json::from_value(name)
        .map_err(|_| "there are exact, mean-difference and adamw".to_owned())
}

pub(in crate::cli) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let how = train::How {
        only_plan: arguments.plan,
        yes: arguments.yes,
        ..train::How::default()
    };
    let out = arguments.out.clone();
    let (ended, run) = train::start(arguments.request()?, how, host, terminal)?;
    let Some(run) = run.filter(|_| ended == Ended::Done) else {
        return Ok(ended);
    };
    let probes = host.probes(&run.id)?;
    if let Some(out) = &out {
        folder::copy(&probes, out)?;
    }
    say(out.unwrap_or(probes), terminal)?;
    Ok(ended)
}

pub(in crate::cli) fn run_show(
    arguments: &ShowArguments,
    host: &Host,
    terminal: &Terminal,
) -> Result<Ended> {
    say(host.probes(&arguments.probes)?, terminal)?;
    Ok(Ended::Done)
}

/// Shows the report of a folder of probes.
fn say(folder: PathBuf, terminal: &Terminal) -> Result<()> {
    let about = Probes::open(&folder)?.about;
    match (terminal.json, &about.report) {
        (true, Some(report)) => {
            return terminal.json(&json!({ "folder": folder, "report": report }));
        }
        (true, None) => {
            let told = json!({ "folder": folder, "report": null, "imported": about.imported, "probes": about.probes });
            return terminal.json(&told);
        }
        (false, Some(report)) => show(report, terminal),
        (false, None) => show_imported(&about, terminal),
    }
    terminal.note(format_args!("the probes are in {}", folder.display()));
    Ok(())
}

impl Arguments {
    /// The same as a run file would ask.
    fn request(self) -> Result<AnyRequest> {
        let set = |is_set: bool| json!(is_set.then_some(true));
        let list = |is_empty: bool, values: Value| if is_empty { Value::Null } else { values };
        let fields = [
            ("task", json!("probe")),
            ("model", json!(self.model)),
            ("name", json!(self.name)),
            ("device", json!(self.device)),
            ("seed", json!(self.seed)),
            ("data.files", json!(self.data)),
            ("data.text_column", json!(self.columns.text_column)),
            ("data.label_column", json!(self.columns.label_column)),
            ("data.group_column", json!(self.columns.group_column)),
            ("probe.suffix", json!(self.suffix)),
            ("probe.chat", set(self.chat)),
            ("probe.position", json!(self.position)),
            (
                "probe.sites",
                json!(self.sites.map(|it| it.0).filter(|it| !it.is_empty())),
            ),
            (
                "probe.labels",
                list(self.labels.is_empty(), json!(self.labels)),
            ),
            ("probe.solver", json!(self.solver)),
            ("probe.penalties", list(self.c.is_empty(), json!(self.c))),
            ("probe.balanced", set(self.balanced)),
            ("probe.folds", json!(self.folds)),
        ];
        let asked = fields.into_iter().filter(|(_, value)| !value.is_null());
        run_file::of_fields(asked.map(|(field, value)| (field.to_owned(), value)))
    }
}

/// `0.951 (0.932–0.968)`.
fn estimate(it: &Estimate) -> String {
    match it.interval {
        Some(interval) => format!("{:.3} ({:.3}–{:.3})", it.value, interval.low, interval.high),
        None => format!("{:.3}", it.value),
    }
}

pub(super) fn show(report: &Report, terminal: &Terminal) {
    terminal.line(style(&report.headline).bold());
    let [train, validation, test] = report.rows.map(count);
    terminal.line(format_args!(
        "{train} rows to train on, {validation} to choose on, {test} to report on, in {} groups.",
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
    if let Some(folds) = &report.folds {
        show_folds(folds, report, terminal);
    }
    for warning in &report.warnings {
        terminal.warn(warning);
    }
}

/// Shows what cross-validation says of each label.
fn show_folds(found: &CrossValidation, report: &Report, terminal: &Terminal) {
    terminal.line("");
    let heads = [
        "Label, every row judged",
        "AUC (95 %)",
        "words",
        "beyond words",
        "sites chosen",
    ];
    let mut lines = vec![heads.map(|head| style(head).dim().to_string()).to_vec()];
    lines.extend(report.labels.iter().zip(&found.labels).map(|(label, it)| {
        let name = printable(&label.label);
        let Some(it) = it else {
            let few = format!("too few rows for {} folds", found.folds);
            return vec![name, style(few).dim().to_string()];
        };
        let beyond = it.over_words.map(|over| beyond(&over, ""));
        let words = it
            .words
            .map_or(String::new(), |it| format!("{:.3}", it.value));
        let mut sites: Vec<&str> = Vec::new();
        for site in &it.sites {
            if !sites.contains(&&site[..]) {
                sites.push(site);
            }
        }
        vec![
            name,
            estimate(&it.auc),
            words,
            beyond.unwrap_or_default(),
            sites.join(", "),
        ]
    }));
    terminal.table(&lines);
}

/// Shows probes of which nothing was found, since another program learned them.
fn show_imported(about: &AboutProbes, terminal: &Terminal) {
    terminal.line(exchange::sentence(about));
    let heads = ["Label", "site", "file"];
    let mut lines = vec![heads.map(|head| style(head).dim().to_string()).to_vec()];
    lines.extend(about.probes.iter().zip(&about.imported).map(|(it, file)| {
        vec![
            printable(&it.label),
            it.site.to_string(),
            printable(&file.name),
        ]
    }));
    terminal.table(&lines);
    terminal.note("`anneal probe apply` with `--data` and `--metrics` says how often they are right on labelled texts");
}

/// How much more the states know than the words, with a star where it has one.
fn beyond(over: &Difference, star: &str) -> String {
    let difference = format!("{:+.3}{star}", over.difference);
    match over.is_clear() {
        true => difference,
        false => style(difference + " within chance").dim().to_string(),
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
        (Some(over), Some(corrected)) => beyond(&over, if corrected < 0.05 { "*" } else { "" }),
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
