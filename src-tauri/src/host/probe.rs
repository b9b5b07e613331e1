//! Hidden states that are captured and probes that are applied, in an engine; and which model probes belong to.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::{
    checkpoint::adapter::ADAPTER_CONFIG,
    device::RequestedDevice,
    tasks::probe::{
        apply::{Applied, ApplyPlan, ApplyRequest},
        capture::{CapturePlan, CaptureProgress, CaptureRequest},
        folder::{AboutProbes, PROBES},
        states::About,
        states_identity::identities,
    },
};

#[cfg(feature = "gui")]
use models::tasks::probe::{states::ABOUT, task::STATES};

use super::{Host, chat::refuse_what_does_not_fit, hub};
use crate::{
    jobs::engine::{Control, Engine},
    store::{
        self,
        in_use::{InUse, Work},
        runs::{self, Run},
    },
    wire::{
        chat::SteerBy,
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// A capture that is asked for.
pub(crate) struct CaptureOrder {
    /// What to capture.
    pub(crate) request: CaptureRequest,
    /// The model, as a person names it.
    pub(crate) model: String,
    /// Where it computes.
    pub(crate) device: Option<RequestedDevice>,
    /// Where the states go. Without it, the capture is only planned.
    pub(crate) states: Option<PathBuf>,
    /// Whether it is opened also where it does not fit into memory.
    pub(crate) force: bool,
}

/// What is heard of a capture.
pub(crate) enum CaptureNews {
    /// What it will do, and what a person should know about where it computes.
    Planned(Box<CapturePlan>, Vec<String>),
    /// How far it is.
    Progress(CaptureProgress),
}

/// Probes that are to be applied to texts.
pub(crate) struct ApplyOrder {
    /// The folder of the probes.
    pub(crate) probes: PathBuf,
    /// To what, and which of them.
    pub(crate) request: ApplyRequest,
    /// The model, as a person names it. Without it, the one that the probes belong to.
    pub(crate) model: Option<String>,
    /// Where it computes.
    pub(crate) device: Option<RequestedDevice>,
    /// Whether they are applied also to another model, and to one that does not fit into memory.
    pub(crate) force: bool,
}

/// What is heard of probes that are applied.
pub(crate) enum ApplyNews {
    /// What is applied to what, and what a person should know of it.
    Planned(Box<ApplyPlan>, Vec<String>),
    /// What they say of some more texts.
    Applied(Vec<Applied>),
}

impl Host {
    /// The folder of the probes that a name means: itself, or what a run has learned.
    pub(crate) fn probes(&self, name: &str) -> Result<PathBuf> {
        let path = Path::new(name);
        if path.join(PROBES).is_file() {
            return Ok(path.to_owned());
        }
        let run = runs::find(&self.paths, name).map_err(|error| {
            AppError::invalid(format!("{error}, and no folder of probes either"))
        })?;
        probes_in(&run).pop().ok_or_else(|| {
            let message = format!(
                "`{}` has no probes: they are there when its last step is done",
                run.id
            );
            AppError::invalid(message)
                .with_hint(format!("`anneal train --resume {}` continues it", run.id))
        })
    }

    /// The model whose states a run read, where the name is that of a run and the model is still there.
    pub(crate) fn model_of_run(&self, name: &str) -> Option<String> {
        let base = runs::find(&self.paths, name)
            .ok()?
            .plan()
            .ok()?
            .task
            .subject()
            .base?;
        base.exists().then(|| base.display().to_string())
    }

    /// The folder with the states that the probes of a run were learned from, where it is still there.
    #[cfg(feature = "gui")]
    pub(crate) fn states_of(&self, run: &str) -> Result<Option<PathBuf>> {
        let run = runs::find(&self.paths, run)?;
        let planned = run.plan().map(|plan| plan.task.data().to_vec());
        let mut folders = [run.folder.join(STATES)]
            .into_iter()
            .chain(planned.unwrap_or_default());
        Ok(folders.find(|it| it.join(ABOUT).is_file()))
    }

    /// Captures hidden states of a model over labelled text. `show` hears the plan before anything starts, then how far it is;
    /// `stop` ends it, and the same order continues. Returns whether all states are there.
    pub(crate) fn capture(
        &self,
        order: CaptureOrder,
        show: &mut dyn FnMut(CaptureNews),
        stop: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let folder = self.model_folder(&order.model)?;
        let (place, choice, checked) = self.place_to_open(order.device)?;
        let mut engine = Engine::start(place.kind, None)?;
        if let Some(needed) = hub::chat_bytes_in(&folder, &choice, 1).filter(|_| !order.force) {
            refuse_what_does_not_fit(needed, engine.devices(), place.used)?;
        }
        let only_planned = order.states.is_none();
        let ask = Ask::Capture {
            folder: absolute(folder)?,
            device: place.device,
            checked,
            request: Box::new(order.request),
            states: order.states.map(absolute).transpose()?,
        };
        let _in_use = InUse::begin(&place.in_use, Work::Probe);
        let mut hear = |reply| match reply {
            Reply::CapturePlanned { plan, warnings } => {
                show(CaptureNews::Planned(plan, warnings));
                only_planned.then_some(false)
            }
            Reply::Captured { progress } => {
                show(CaptureNews::Progress(progress));
                None
            }
            Reply::CaptureEnded { complete } => Some(complete),
            _ => None,
        };
        let ended = engine.ask_for(&ask, &mut hear, stop)?;
        ended.ok_or_else(|| AppError::failed("the engine ended without a word"))
    }

    /// Applies probes to texts. `show` hears what is applied to what, then what they say; `stop` ends it.
    pub(crate) fn apply_probes(
        &self,
        order: ApplyOrder,
        show: &mut dyn FnMut(ApplyNews),
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let folder = match &order.model {
            Some(name) => self.model_folder(name)?,
            None => self.model_of_probes(&order.probes)?,
        };
        let (place, choice, checked) = self.place_to_open(order.device)?;
        let mut engine = Engine::start(place.kind, None)?;
        if let Some(needed) = hub::chat_bytes_in(&folder, &choice, 1).filter(|_| !order.force) {
            refuse_what_does_not_fit(needed, engine.devices(), place.used)?;
        }
        let ask = Ask::ApplyProbes {
            folder: absolute(folder)?,
            device: place.device,
            checked,
            probes: absolute(order.probes)?,
            request: Box::new(order.request),
            force: order.force,
        };
        let _in_use = InUse::begin(&place.in_use, Work::Probe);
        let mut hear = |reply| match reply {
            Reply::ApplyPlanned { plan, warnings } => show(ApplyNews::Planned(plan, warnings)),
            Reply::Applied { texts } => show(ApplyNews::Applied(texts)),
            _ => {}
        };
        engine.ask(&ask, &mut hear, &|| Control::stop_if(stop()))
    }

    /// How long states usually are where a probe reads them. Without a model, the one that it belongs to.
    pub(crate) fn usual_length(
        &self,
        by: SteerBy,
        model: Option<String>,
        device: Option<RequestedDevice>,
    ) -> Result<f64> {
        let model = match model {
            Some(name) => name,
            None => self.model_of_probes(&by.probes)?.display().to_string(),
        };
        let led = self
            .open_model(&model, device, false)?
            .steer(vec![by], false)?;
        let first = led.directions.first().map(|it| it.usual_length);
        first.ok_or_else(|| AppError::failed("the engine said nothing of the direction"))
    }

    /// What probes say of two texts, label by label.
    #[cfg(feature = "gui")]
    pub(crate) fn compare_texts(
        &self,
        probes: PathBuf,
        model: Option<String>,
        texts: [String; 2],
    ) -> Result<Vec<view::TextPairView>> {
        let about = AboutProbes::read(&probes)?;
        let order = ApplyOrder {
            probes,
            request: ApplyRequest {
                texts: texts.into(),
                ..ApplyRequest::default()
            },
            model,
            device: None,
            force: false,
        };
        let (mut planned, mut said) = (Vec::new(), Vec::new());
        let mut hear = |news| match news {
            ApplyNews::Planned(plan, _) => planned = plan.probes,
            ApplyNews::Applied(texts) => said.extend(texts),
        };
        self.apply_probes(order, &mut hear, &|| false)?;
        let [one, other] = &said[..] else {
            return Err(AppError::failed("the engine ended without a word"));
        };
        let scores = one.scores.iter().zip(&other.scores);
        let pairs = planned.iter().zip(scores).filter_map(|(&probe, scores)| {
            Some(view::TextPairView::new(about.probes.get(probe)?, scores))
        });
        Ok(pairs.collect())
    }

    /// Folders of probes for a model, with the runs that they are of. Whether they are of these very weights is told when they are used.
    #[cfg(feature = "gui")]
    pub(crate) fn probes_for(&self, name: &str) -> Result<Vec<(Run, PathBuf, AboutProbes)>> {
        let folder = self.model_folder(name)?;
        let runs = runs::list(&self.paths).into_iter().rev();
        let found = runs.filter_map(|run| {
            let probes = probes_in(&run).pop()?;
            let about = AboutProbes::read(&probes).ok()?;
            may_be_model_of(&about.states, &folder).then_some((run, probes, about))
        });
        Ok(found.collect())
    }

    /// The folder of the model that probes belong to, told by its weights: among the models here and the checkpoints of runs.
    pub(crate) fn model_of_probes(&self, probes: &Path) -> Result<PathBuf> {
        let about = AboutProbes::read(probes)?.states;
        let models = store::models::list(&self.paths, &self.settings()).into_iter();
        let runs = runs::list(&self.paths).into_iter().rev();
        let saved = runs.flat_map(|run| {
            let names = run.checkpoint_names().into_iter().rev();
            names.map(move |name| run.checkpoints().join(name))
        });
        let mut folders = models.map(|it| it.path).chain(saved);
        let found = folders.find(|folder| is_model_of(&about, folder));
        found.ok_or_else(|| {
            let it = about.adapter.as_ref().unwrap_or(&about.model);
            let revision = it.revision.as_ref().map_or(String::new(), |it| format!(" at revision {it}"));
            AppError::invalid(format!(
                "the probes belong to the model `{}`{revision}, and no model or run here has its weights",
                it.name
            ))
            .with_hint("name its folder with `--model`")
        })
    }
}

/// Folders of probes in that of a run, the newest last: in it, in what it saved, and in the folders beside.
fn probes_in(run: &Run) -> Vec<PathBuf> {
    let saved = run.checkpoint_names().into_iter();
    let saved = saved.map(|name| run.checkpoints().join(name));
    let beside = store::folders(&run.folder).into_iter();
    let all = [run.folder.clone()].into_iter().chain(beside).chain(saved);
    all.filter(|it| it.join(PROBES).is_file()).collect()
}

/// Whether a folder has the weights that states are of. Only where files are as long are they read.
fn is_model_of(about: &About, folder: &Path) -> bool {
    may_be_model_of(about, folder)
        && identities(folder).is_ok_and(|(model, adapter)| {
            let same_adapter = match (&about.adapter, &adapter) {
                (Some(expected), Some(found)) => expected.is_same(found),
                (expected, found) => expected.is_none() && found.is_none(),
            };
            same_adapter && about.model.is_same(&model)
        })
}

/// Whether a folder has files as long as those of the weights that states are of.
fn may_be_model_of(about: &About, folder: &Path) -> bool {
    let is_adapter = folder.join(ADAPTER_CONFIG).exists();
    let expected = match is_adapter {
        true => about.adapter.as_ref(),
        false => Some(&about.model).filter(|_| about.adapter.is_none()),
    };
    let length = |name: &str| fs::metadata(folder.join(name)).map(|it| it.len()).ok();
    expected.is_some_and(|it| {
        let mut files = it.weights.iter();
        !it.weights.is_empty() && files.all(|file| length(&file.name) == Some(file.bytes))
    })
}

/// An engine has its own working folder only by chance.
pub(super) fn absolute(path: PathBuf) -> Result<PathBuf> {
    std::path::absolute(&path).map_err(AppError::file("find the folder", &path))
}
