//! The steps of a run that trains probes: texts are read, then sites are learned one after another, then all of it is judged.
//!
//! Hidden states lie in the folder of the run, where a capture that was stopped continues to the same bytes; a checkpoint holds what
//! was learned of them. The model is open only while texts are read. Deliberately absent: everything that a step of gradients has.

mod trial;

use std::{
    convert::Infallible,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use candle_core::Device;
use serde_json::{Value as Json, json};

use super::{
    capture::Capture,
    course::LEARNED,
    examples::Examples,
    folder::{Probes, WRITTEN_BY},
    kind::folder_of_states,
    report::Report,
    request::ProbePlan,
    states::{About, States},
    study::{Course, Progress, Settings, Source, Study},
};
use crate::{
    Error, Result,
    checkpoint::load::LoadDtypes,
    parameters::Parameters,
    tape::{Tape, Value},
    tasks::language::model::LanguageModel,
    train::{
        Measuring, RunPlace, Task, TrainPlan,
        task::{BatchSize, Evaluation, Metric, OwnStep, OwnTrial},
    },
};

/// Where the states of a run lie in its folder.
pub const STATES: &str = "states";

/// Probes in the making.
pub struct ProbeTask {
    plan: ProbePlan,
    settings: Settings,
    device: Device,
    dtypes: LoadDtypes,
    /// Where the states are, or will be.
    folder: PathBuf,
    /// Steps in which texts are read, and the texts that have states so far.
    reading_steps: usize,
    texts_read: usize,
    /// The model with what it will read, while it does.
    reading: Option<(LanguageModel, Capture)>,
    /// The states with what is learned of them, as soon as all are there.
    learning: Option<Learning>,
    /// What a checkpoint has of it, until the states are open.
    saved: Option<PathBuf>,
    /// What is measured after the last step.
    measured: Option<Evaluation>,
    /// None: what learns has no gradients.
    parameters: Parameters,
}

/// States that are learned from.
struct Learning {
    states: States,
    examples: Examples,
    course: Course,
    study: Option<Study>,
}

impl ProbeTask {
    /// Before the first step. Neither model nor states are opened before they are needed.
    pub fn open(plan: &TrainPlan<ProbePlan>, place: &RunPlace) -> Result<Self> {
        let (run, task) = (&plan.run, &plan.task);
        let captured = folder_of_states(&task.data.files);
        let others = task.probe.sites.len() + 1;
        Ok(Self {
            settings: task.settings(run.seed),
            device: place.device.clone(),
            dtypes: LoadDtypes {
                storage: run.dtype.storage.into(),
                compute: run.tensor_dtype().into(),
                quantize: None,
                most_bytes_unpacked: 0,
            },
            folder: captured.map_or_else(|| place.folder.join(STATES), Path::to_owned),
            reading_steps: run.steps.saturating_sub(others),
            plan: task.clone(),
            texts_read: 0,
            reading: None,
            learning: None,
            saved: None,
            measured: None,
            parameters: Parameters::default(),
        })
    }

    /// What was found, as soon as the last step is done.
    pub fn report(&self) -> Option<&Report> {
        let study = self.learning.as_ref()?.study.as_ref();
        study.map(|it| &it.report)
    }

    /// The model with what it will read.
    fn open_model(&self) -> Result<(LanguageModel, Capture)> {
        let missing = || Error::setting("model", "is missing from the plan");
        let model = self.plan.model.as_ref().ok_or_else(missing)?;
        let opened = LanguageModel::open(model, self.dtypes, &self.device)?;
        let request = self.plan.capture();
        let capture = Capture::plan(&opened, self.dtypes, model, &request, WRITTEN_BY)?;
        Ok((opened, capture))
    }

    /// Reads texts until so many have states. Returns how many have.
    fn read_until(&mut self, rows: usize, goes_on: &dyn Fn() -> bool) -> Result<usize> {
        let (model, capture) = match self.reading.take() {
            Some(reading) => self.reading.insert(reading),
            None => {
                let opened = self.open_model()?;
                self.reading.insert(opened)
            }
        };
        let rows = rows.min(capture.planned().about.rows);
        let mut watch = |_| match goes_on() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        match capture.run(model, &self.folder, rows, &mut watch)? {
            read if read < rows => Err(Error::Interrupted),
            read => Ok(read),
        }
    }

    /// The states, all of them. What is missing of those that the run reads itself is read now.
    fn states(&mut self, goes_on: &dyn Fn() -> bool) -> Result<States> {
        // Whoever learns from the states needs the memory of the model.
        self.reading = None;
        match States::open(&self.folder) {
            Err(_) if self.plan.model.is_some() => {
                self.read_until(usize::MAX, goes_on)?;
                self.reading = None;
                States::open(&self.folder)
            }
            opened => opened,
        }
    }

    /// The states, all of them, with what was learned so far.
    fn learning(&mut self, goes_on: &dyn Fn() -> bool) -> Result<&mut Learning> {
        if self.learning.is_none() {
            let states = self.states(goes_on)?;
            let examples = Examples::of(&states, &self.plan.probe.labels, self.settings.seed)?;
            let mut course = Course::new(&examples, &self.settings)?;
            if let Some(saved) = &self.saved {
                course.load(saved, &self.settings)?;
            }
            self.learning = Some(Learning {
                states,
                examples,
                course,
                study: None,
            });
        }
        self.learning.as_mut().ok_or(Error::Interrupted)
    }

    fn learn(&mut self, site: usize, goes_on: &dyn Fn() -> bool) -> Result<OwnStep> {
        let (settings, sites) = (self.settings.clone(), self.plan.probe.sites.clone());
        let Learning {
            states,
            examples,
            course,
            ..
        } = self.learning(goes_on)?;
        let mut read = |site: usize, rows: &[usize]| states.read_rows(sites[site], rows);
        let mut source = Source::of(states, &sites, &mut read);
        // A checkpoint that was lost is made up for.
        while course.sites().len() <= site {
            if !goes_on() {
                return Err(Error::Interrupted);
            }
            course.learn(examples, &mut source, &settings)?;
        }
        let (learned, units) = (&course.sites()[site], examples.rows());
        let measured = Evaluation {
            loss: learned.validation_loss,
            metrics: vec![auc(
                VALIDATION,
                "AUC on validation rows",
                learned.validation(),
            )],
            targets: course.validation_targets(),
        };
        self.measured = Some(measured);
        Ok(OwnStep { units })
    }

    fn judge(&mut self, goes_on: &dyn Fn() -> bool) -> Result<OwnStep> {
        let (settings, sites) = (self.settings.clone(), self.plan.probe.sites.clone());
        if let Some(last) = sites.len().checked_sub(1) {
            self.learn(last, goes_on)?;
        }
        let Learning {
            states,
            examples,
            course,
            study,
        } = self.learning(goes_on)?;
        let mut read = |site: usize, rows: &[usize]| states.read_rows(sites[site], rows);
        let mut source = Source::of(states, &sites, &mut read);
        let mut tell = |_: &Progress| goes_on();
        let judged = course.judge(examples, &mut source, &settings, &mut tell)?;
        let judged = judged.ok_or(Error::Interrupted)?;
        let chosen = sites
            .iter()
            .position(|it| it.to_string() == judged.report.site);
        let chosen = chosen.and_then(|at| course.sites().get(at));
        let measured = chosen.map(|it| Evaluation {
            loss: it.validation_loss,
            metrics: figures(&judged.report, it.validation()),
            targets: course.validation_targets(),
        });
        *study = Some(judged);
        let units = examples.rows();
        self.measured = measured;
        Ok(OwnStep { units })
    }
}

/// The figure that a site is chosen by.
const VALIDATION: &str = "validation_auc";

/// What a run came to: of the rows that nothing was chosen on.
fn figures(report: &Report, validation: f64) -> Vec<Metric> {
    let site = report.sites.iter().find(|it| it.site == report.site);
    let mut metrics = vec![auc(VALIDATION, "AUC on validation rows", validation)];
    metrics.extend(site.map(|it| auc("auc", "AUC", it.test.value)));
    metrics.extend(
        report
            .words
            .map(|it| auc("words_auc", "AUC of the words alone", it.value)),
    );
    if let Some(classes) = &report.classes {
        metrics.push(Metric {
            of: Some(report.rows[2] as usize),
            ..auc("accuracy", "right", classes.accuracy.value)
        });
    }
    metrics
}

fn auc(name: &str, label: &str, value: f64) -> Metric {
    Metric {
        name: name.to_owned(),
        label: label.to_owned(),
        value,
        higher_is_better: true,
        of: None,
    }
}

impl Task for ProbeTask {
    /// There are none.
    type Batch = Infallible;

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn own_step(&mut self, done: usize, goes_on: &dyn Fn() -> bool) -> Result<Option<OwnStep>> {
        self.measured = None;
        let sites = self.plan.probe.sites.len();
        let step = match done.checked_sub(self.reading_steps) {
            None => {
                let per_step = self.plan.probe.texts_per_step;
                let before = self.texts_read.max(done * per_step);
                self.texts_read = self.read_until((done + 1) * per_step, goes_on)?;
                OwnStep {
                    units: self.texts_read.saturating_sub(before),
                }
            }
            Some(site) if site < sites => self.learn(site, goes_on)?,
            Some(_) => self.judge(goes_on)?,
        };
        Ok(Some(step))
    }

    fn own_trial(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<OwnTrial>> {
        self.trial(stop).map(Some)
    }

    fn next_batch(&mut self) -> Result<Infallible> {
        Err(Error::Data(
            "probes are not learned from batches".to_owned(),
        ))
    }

    fn size(&self, batch: &Infallible) -> BatchSize {
        match *batch {}
    }

    fn loss(&mut self, _: &Tape, batch: &Infallible, _: f64) -> Result<Value> {
        match *batch {}
    }

    fn evaluate(&mut self, _: usize, _: &mut Measuring) -> Result<Option<Evaluation>> {
        Ok(self.measured.clone())
    }

    fn judged_by(&self) -> Option<&'static str> {
        Some(VALIDATION)
    }

    fn state(&self) -> Json {
        json!({})
    }

    fn restore(&mut self, _: &Json) -> Result<()> {
        Ok(())
    }

    fn save(&self, folder: &Path) -> Result<()> {
        match &self.learning {
            Some(Learning {
                states,
                examples,
                study: Some(study),
                ..
            }) => {
                // Of the sites that have states, those that were asked for.
                let about = About {
                    sites: self.plan.probe.sites.clone(),
                    ..states.about().clone()
                };
                Probes::learned(study, (examples, &about)).write(folder)
            }
            Some(Learning { course, .. }) => course.save(folder),
            None => Ok(()),
        }
    }

    fn load(&mut self, folder: &Path) -> Result<()> {
        self.saved = folder.join(LEARNED).is_file().then(|| folder.to_owned());
        self.learning = None;
        Ok(())
    }
}
