//! What probes say as a kind of learning.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    fields::FIELDS,
    labelled::{self, LabelledRequest},
    request::{ProbePlan, ProbeRequest},
    resolve,
    states::{ABOUT, About, ROWS, States},
    task::ProbeTask,
};
use crate::{
    Error, Result,
    arch::sites::Site,
    checkpoint::{folder::ModelFolder, load::network_config, save::name_of},
    data::source::{Changed, changed, places},
    tasks::language::{files_of_model, model::base_of_model},
    train::{
        TrainPlan, TrainRequest,
        estimate::Estimate,
        fields::Field,
        kind::{Basis, Kind, RunPlace, Subject},
        resolve::Resolver,
    },
};

/// Linear classifiers learn what the hidden states of a language model say about a text.
pub enum Probe {}

/// Labelled data that was read for a plan.
#[derive(Default)]
pub struct ReadLabelled {
    request: LabelledRequest,
    changed: Vec<Changed>,
    rows: usize,
    labels: Vec<String>,
    rarest: usize,
    names_parts: bool,
    /// What the states are of, where they are there already.
    states: Option<About>,
}

/// What a plan depends on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeFacts {
    /// Texts that can be used.
    pub rows: usize,
    /// Names of all labels, sorted.
    pub labels: Vec<String>,
    /// Rows with the label that fewest have.
    pub rarest: usize,
    /// Whether the data says itself which rows to learn from and which to report on.
    pub names_parts: bool,
    /// Sites that there are.
    pub sites: Vec<Site>,
    /// What the states are of, where they are there already.
    pub states: Option<About>,
}

impl Kind for Probe {
    const NAME: &'static str = "probe";
    const UNIT: &'static str = "texts";
    const FIELDS: &'static [Field] = FIELDS;
    const SHAPED_BY: &'static [&'static str] = &["model", "probe"];
    const ORDERED_BY: &'static [&'static str] = &["data"];
    const NAMES_OF_FILES: &'static [&'static str] = &["model", "data.files"];

    type Request = ProbeRequest;
    type Plan = ProbePlan;
    type Facts = ProbeFacts;
    type Read = ReadLabelled;
    type Shape = ();
    type Task = ProbeTask;

    fn files(request: &mut ProbeRequest) -> &mut Vec<PathBuf> {
        &mut request.data.files
    }

    fn data(plan: &ProbePlan) -> &[PathBuf] {
        &plan.data.files
    }

    fn resolve(resolver: &mut Resolver<Self>) -> (ProbePlan, Basis) {
        resolve::resolve(resolver)
    }

    fn shape(_: &ProbePlan, _: &ProbeFacts) -> Option<()> {
        None
    }

    fn read_shape(_: &ProbePlan) -> Result<()> {
        Ok(())
    }

    fn estimate(_: &TrainPlan<ProbePlan>, (): &()) -> Estimate {
        Estimate::default()
    }

    fn model(request: &mut ProbeRequest) -> Option<&mut PathBuf> {
        request.model.as_mut()
    }

    fn read(
        request: &TrainRequest<ProbeRequest>,
        known: Option<&Arc<ReadLabelled>>,
    ) -> Result<Option<Arc<ReadLabelled>>> {
        let data = &request.task.data;
        if data.files.is_empty() {
            return Ok(None);
        }
        let asked = data.planned().labelled();
        let changed = changed(&data.files);
        if let Some(known) = known.filter(|it| it.request == asked && it.changed == changed) {
            return Ok(Some(known.clone()));
        }
        let mut read = match folder_of_states(&data.files) {
            Some(folder) => {
                let states = States::open(folder)?;
                let about = states.about().clone();
                let rows = states.rows();
                ReadLabelled {
                    rows: about.rows,
                    labels: about.labels.clone(),
                    rarest: rarest(&about.labels, rows.iter().map(|it| &it.labels)),
                    names_parts: rows.iter().any(|it| it.part.is_some()),
                    states: Some(about),
                    ..ReadLabelled::default()
                }
            }
            None => {
                let read = labelled::read(&asked)?;
                ReadLabelled {
                    rows: read.rows.len(),
                    rarest: rarest(&read.labels, read.rows.iter().map(|it| &it.labels)),
                    names_parts: read.rows.iter().any(|it| it.part.is_some()),
                    labels: read.labels,
                    ..ReadLabelled::default()
                }
            }
        };
        if read.labels.is_empty() {
            let problem = "has no labels, and a probe learns from them; name their column with `data.label_column`";
            return Err(Error::Data(format!("the data {problem}")));
        }
        (read.request, read.changed) = (asked, changed);
        Ok(Some(Arc::new(read)))
    }

    fn facts(
        request: &TrainRequest<ProbeRequest>,
        read: Option<&ReadLabelled>,
    ) -> Result<ProbeFacts> {
        let states = read.and_then(|it| it.states.clone());
        let sites = match (&states, &request.task.model) {
            (Some(about), _) => about.sites.clone(),
            (None, Some(model)) => sites_of(model)?,
            (None, None) => Vec::new(),
        };
        Ok(ProbeFacts {
            rows: read.map_or(0, |it| it.rows),
            labels: read.map(|it| it.labels.clone()).unwrap_or_default(),
            rarest: read.map_or(0, |it| it.rarest),
            names_parts: read.is_some_and(|it| it.names_parts),
            sites,
            states,
        })
    }

    fn open(plan: &TrainPlan<ProbePlan>, place: &RunPlace) -> Result<ProbeTask> {
        ProbeTask::open(plan, place)
    }

    fn sources(plan: &ProbePlan) -> BTreeMap<String, PathBuf> {
        let mut sources = match folder_of_states(&plan.data.files) {
            Some(folder) => [ABOUT, ROWS]
                .map(|name| (format!("data/{name}"), folder.join(name)))
                .into(),
            None => places(&plan.data.files),
        };
        sources.extend(plan.model.iter().flat_map(|it| files_of_model(it)));
        sources
    }

    fn uses(_: &ProbePlan) -> &'static [&'static str] {
        &["probe"]
    }

    fn subject(plan: &ProbePlan) -> Subject {
        let name = match (&plan.model, folder_of_states(&plan.data.files)) {
            (Some(model), _) => name_of(model),
            (None, Some(folder)) => {
                About::read(folder).map_or_else(|_| name_of(folder), |it| it.model.name)
            }
            (None, None) => String::new(),
        };
        Subject {
            model: plan
                .model
                .as_ref()
                .map(|it| it.display().to_string())
                .unwrap_or_default(),
            method: Self::NAME.to_owned(),
            what: format!("probes of {name}"),
            base: plan.model.clone(),
        }
    }
}

/// How many rows have the label that fewest have.
fn rarest<'a>(labels: &[String], rows: impl Iterator<Item = &'a Vec<String>>) -> usize {
    let mut counts: BTreeMap<&str, usize> = labels.iter().map(|it| (&it[..], 0)).collect();
    for label in rows.flatten() {
        if let Some(count) = counts.get_mut(&label[..]) {
            *count += 1;
        }
    }
    counts.into_values().min().unwrap_or_default()
}

/// The folder, where the data is one of captured states.
pub(super) fn folder_of_states(files: &[PathBuf]) -> Option<&Path> {
    match files {
        [folder] if folder.join(ABOUT).is_file() => Some(folder),
        _ => None,
    }
}

/// The sites of the model in a folder, or of the one that its adapter belongs to.
fn sites_of(folder: &Path) -> Result<Vec<Site>> {
    let config = network_config(&ModelFolder::open(&base_of_model(folder)?)?)?;
    let blocks = config.decoder().map(|it| it.layers.len());
    blocks.map(Site::all).ok_or_else(|| {
        let problem = "is a recursive model, which has no blocks whose states stand side by side; take a decoder";
        Error::setting("model", problem)
    })
}
