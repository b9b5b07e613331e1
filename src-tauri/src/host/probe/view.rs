//! What a study of probes found, as a page shows it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use models::tasks::probe::{
    folder::{AboutProbes, Kept},
    labelled::Labelled,
    report::Report,
    states::{About, Position, StateRow, States},
};
use serde::Serialize;
use specta::Type;
use specta_typescript::Number;

use crate::wire::error::Result;

/// The most letters of a text that are shown.
const MAX_LETTERS: usize = 600;

/// What a study of probes found.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProbeReportView {
    /// The model whose states were read.
    model: String,
    /// The adapter that changed it.
    adapter: Option<String>,
    /// What was shown to it, with `{text}` where the text stands.
    prompt: String,
    /// Whether that was a turn of a chat.
    is_chat: bool,
    /// Which states were kept of a text.
    position: Position,
    /// What was found.
    report: Report,
    /// The texts of the rows that it names, as far as they are known.
    texts: Vec<TextView>,
    /// Why none are known.
    no_texts: Option<String>,
}

/// What is known of a folder of probes.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum ProbeFolderView {
    /// What a study found.
    Study(Box<ProbeReportView>),
    /// Another program learned them, so nothing is known of how often they are right.
    Imported(ImportedProbesView),
}

/// Probes that another program learned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImportedProbesView {
    /// The model whose states they read.
    model: String,
    /// The adapter that changed it.
    adapter: Option<String>,
    /// What was shown to it, with `{text}` where the text stands.
    prompt: String,
    /// Whether that was a turn of a chat.
    is_chat: bool,
    /// Which states they read of a text.
    position: Position,
    /// How wide their hidden layers are; none of linear ones.
    hidden: Vec<usize>,
    probes: Vec<ImportedProbeView>,
}

/// A probe that another program learned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImportedProbeView {
    label: String,
    site: String,
    /// The name of its file.
    file: String,
}

/// The text of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextView {
    /// Its place among the rows of the states, from 0.
    row: usize,
    /// What the data calls it.
    id: String,
    /// Its beginning.
    text: String,
    /// Whether it goes on.
    is_cut: bool,
    /// Its labels.
    labels: Vec<String>,
}

/// Where the probes of a run are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProbeFoldersView {
    /// Their folder.
    probes: String,
    /// The folder of the states that they were learned from, where it is still there.
    states: Option<String>,
}

impl ProbeFoldersView {
    pub(crate) fn new(probes: &Path, states: Option<&Path>) -> Self {
        Self {
            probes: probes.display().to_string(),
            states: states.map(|it| it.display().to_string()),
        }
    }
}

/// What a probe says of two texts.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextPairView {
    label: String,
    #[specta(type = Number)]
    one: f32,
    #[specta(type = Number)]
    other: f32,
    /// Scores from here on are called so.
    #[specta(type = Number)]
    threshold: f32,
}

impl TextPairView {
    pub(crate) fn new(probe: &Kept, (one, other): (&f32, &f32)) -> Self {
        Self {
            label: probe.label.clone(),
            one: *one,
            other: *other,
            threshold: probe.threshold,
        }
    }
}

/// Labelled data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LabelledView {
    /// For each file, a sentence: which columns were taken.
    read_as: Vec<String>,
    /// Texts that can be used, those of them without a label, and rows that can’t be.
    rows: usize,
    unlabelled: usize,
    problems: usize,
    /// The labels, those with the most texts first.
    labels: Vec<LabelCountView>,
}

/// A label of the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LabelCountView {
    name: String,
    /// Texts that have it.
    rows: usize,
}

impl From<Labelled> for LabelledView {
    fn from(read: Labelled) -> Self {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for label in read.rows.iter().flat_map(|row| &row.labels) {
            *counts.entry(label).or_default() += 1;
        }
        let count = |(name, rows): (&str, usize)| LabelCountView {
            name: name.to_owned(),
            rows,
        };
        let mut labels: Vec<LabelCountView> = counts.into_iter().map(count).collect();
        labels.sort_by_key(|it| Reverse(it.rows));
        Self {
            rows: read.rows.len(),
            unlabelled: read.rows.iter().filter(|row| row.labels.is_empty()).count(),
            problems: read.problems.len(),
            labels,
            read_as: read.read_as,
        }
    }
}

impl ProbeFolderView {
    /// Reads what stands in a folder of probes, and the texts that it speaks of in the folder of their states, where that is still
    /// there.
    pub(crate) fn open(folder: &Path, states: Option<&Path>) -> Result<Self> {
        let mut probes = AboutProbes::read(folder)?;
        Ok(match probes.report.take() {
            Some(report) => {
                let view = ProbeReportView::new(probes.states, report, states);
                Self::Study(Box::new(view))
            }
            None => Self::Imported(probes.into()),
        })
    }
}

impl From<AboutProbes> for ImportedProbesView {
    fn from(about: AboutProbes) -> Self {
        let probes = about.probes.into_iter().zip(about.imported);
        let probes = probes.map(|(probe, file)| ImportedProbeView {
            label: probe.label,
            site: probe.site.to_string(),
            file: file.name,
        });
        Self {
            model: about.states.model.name,
            adapter: about.states.adapter.map(|it| it.name),
            prompt: about.states.prompt.pattern,
            is_chat: about.states.prompt.template.is_some(),
            position: about.states.position,
            hidden: about.hidden,
            probes: probes.collect(),
        }
    }
}

impl ProbeReportView {
    fn new(about: About, report: Report, states: Option<&Path>) -> Self {
        let (texts, no_texts) = match texts(states, &about, &named(&report)) {
            Ok(texts) => (texts, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        Self {
            model: about.model.name,
            adapter: about.adapter.map(|it| it.name),
            prompt: about.prompt.pattern,
            is_chat: about.prompt.template.is_some(),
            position: about.position,
            report,
            texts,
            no_texts,
        }
    }
}

/// The rows that a report names.
fn named(report: &Report) -> BTreeSet<usize> {
    let extremes = report.labels.iter().flat_map(|label| {
        let of = &label.extremes;
        [&of.strongest, &of.weakest, &of.most_wrong]
    });
    let extremes = extremes.flatten().map(|it| it.row);
    extremes
        .chain(report.duplicates.pairs.iter().flatten().copied())
        .collect()
}

/// The texts of rows, or why they are not known.
fn texts(
    folder: Option<&Path>,
    about: &About,
    rows: &BTreeSet<usize>,
) -> Result<Vec<TextView>, String> {
    let folder = folder.ok_or("nobody said where the states of these probes are")?;
    let states = States::open(folder).map_err(|error| error.to_string())?;
    if states.about().rows_sha256 != about.rows_sha256 {
        return Err(format!(
            "the texts are others than those that the probes were learned from: `{}`",
            folder.display()
        ));
    }
    if states.rows().iter().all(|it| it.text.trim().is_empty()) {
        return Err("the states came from a file that has no texts".to_owned());
    }
    let text = |&row: &usize| Some(TextView::new(row, states.rows().get(row)?));
    Ok(rows.iter().filter_map(text).collect())
}

impl TextView {
    fn new(row: usize, state: &StateRow) -> Self {
        let end = state.text.char_indices().nth(MAX_LETTERS);
        Self {
            row,
            id: state.id.clone(),
            text: state.text[..end.map_or(state.text.len(), |(at, _)| at)].to_owned(),
            is_cut: end.is_some(),
            labels: state.labels.clone(),
        }
    }
}
