//! A network with the pictures that it learns from.
//!
//! What norms saw of a batch moves their running numbers after the step, once for each micro-batch, in order; a step that is not
//! taken moves nothing.

mod features_steps;
mod pass;
mod shown;

use std::{collections::HashMap, path::Path, sync::Arc};

use candle_core::{Device, Tensor};
use serde_json::{Value as Json, json};

use self::shown::SHOWN;
use super::{
    baselines,
    classifier::About,
    evaluate::{ACCURACY, Said},
    features::Features,
    loader::{Batch, Loader},
    lookahead::Slower,
    published::Published,
    request::{Head as HeadStart, Method, PicturePlan, Settings},
    source::{Choice, PictureSet},
    whitening,
};
use crate::{
    Error, Result,
    arch::{
        initial::InitialWeights,
        picture::{Architecture, Network},
    },
    checkpoint::{folder::WEIGHTS, save::write_safetensors, tensors::read_tensors},
    optim::{DecayScope, OwnRule, OwnRules, sgd::Sgd},
    parameters::Parameters,
    random::Random,
    tape::{FixedPass, Left, Tape, Value},
    train::{
        Measuring, RunPlace, TrainPlan,
        exhibit::Exhibit,
        plan::RunPlan,
        request::OptimizerKind,
        task::{BatchSize, Evaluation, Metric, OwnStep, OwnTrial, Task},
    },
};

/// The folder in a run’s folder with the pixels of its pictures.
const PIXELS: &str = "pictures";
/// What a head that was kept was right about before it learned.
const BEFORE: &str = "accuracy_before";
/// The weight of the first layer that follows from the pictures, and its bias.
const WHITENED: &str = "whiten.weight";
const WHITENED_BIAS: &str = "whiten.bias";

/// What is read of pictures whose network stays as it is, and what came of it.
#[derive(Default)]
struct Reading {
    train: Features,
    /// Steps that were taken.
    steps: usize,
    metrics: Vec<Metric>,
}

/// Mean and variance of a batch at each norm, by its name: [2, c].
type Moments = Vec<(String, Tensor)>;

/// A network that learns pictures.
pub struct PictureTask {
    network: Network,
    set: Arc<PictureSet>,
    settings: Settings,
    loader: Loader,
    device: Device,
    own_rules: OwnRules,
    rows: usize,
    steps: usize,
    /// Batches that were taken.
    batches: usize,
    /// Held-out pictures, in the order in which they are measured with.
    held_out: Vec<usize>,
    /// What norms saw of the micro-batches of this step, each with its number of pictures.
    pending: Vec<(usize, Moments)>,
    /// The bias of a first layer that follows from the pictures, as it was at the beginning of the step.
    whitening_bias: Option<Tensor>,
    slower: Option<Slower>,
    /// What was said when it was measured last, and after how many batches that was.
    measured: Option<(usize, Said)>,
    temperature: f64,
    /// How many held-out pictures a head that was kept was right about before it learned, as a metric.
    before: Option<Metric>,
    /// Where a published network stays as it is.
    reading: Option<Reading>,
    /// Those to learn from, by their places in the set.
    train: Vec<usize>,
    seed: u64,
}

impl PictureTask {
    pub(super) fn open(plan: &TrainPlan<PicturePlan>, place: &RunPlace) -> Result<Self> {
        let (run, task) = (&plan.run, &plan.task);
        let settings = &task.picture;
        let choice = Choice {
            held_out: task.data.held_out,
            side: Some(settings.side),
            short_side: (settings.short_side > settings.side).then_some(settings.short_side),
            crop_mode: settings.crop_mode,
            usual_side: None,
            channels: Some(settings.channels),
            filter: settings.filter,
            alpha: settings.alpha,
            seed: run.seed,
        };
        let cache = place.folder.join(PIXELS);
        let set = PictureSet::read(&task.data.files, &choice, Some(&cache))?;
        Self::new(plan, place, set)
    }

    /// A run on pictures that were read.
    pub fn new(plan: &TrainPlan<PicturePlan>, place: &RunPlace, set: PictureSet) -> Result<Self> {
        let (run, settings) = (&plan.run, &plan.task.picture);
        if set.classes.len() != settings.classes {
            return Err(Error::Data(format!(
                "the plan is for {} classes, and the data has {}",
                settings.classes,
                set.classes.len()
            )));
        }
        let mut train = set.train.clone();
        if settings.subsample_size > 0 && settings.subsample_size < train.len() {
            Random::for_purpose(run.seed, "pictures drawn").shuffle(&mut train);
            train.truncate(settings.subsample_size);
            train.sort_unstable();
        }
        let mut held_out = set.held_out.clone();
        Random::for_purpose(run.seed, "order of held-out pictures").shuffle(&mut held_out);
        let mut network = network(plan, place)?;
        if settings.architecture == Architecture::Airbench94 && settings.method == Method::Scratch {
            whiten(&mut network, settings, &set, &train)?;
        }
        let set = Arc::new(set);
        let loader = Loader::new(
            set.clone(),
            train.clone(),
            settings,
            run.seed,
            run.batch.rows,
        );
        Ok(Self {
            own_rules: own_rules(&network, settings, run),
            slower: Slower::new(settings.lookahead(), &network)?,
            network,
            set,
            settings: settings.clone(),
            loader,
            device: place.device.clone(),
            rows: run.batch.rows,
            steps: run.steps,
            batches: 0,
            held_out,
            pending: Vec::new(),
            whitening_bias: None,
            measured: None,
            temperature: 1.0,
            before: None,
            reading: (settings.method == Method::Features).then(Reading::default),
            train,
            seed: run.seed,
        })
    }

    /// What a checkpoint says of its network.
    fn about(&self) -> About {
        About {
            net: self.network.config().clone(),
            classes: self.set.classes.clone(),
            view: self.settings.view(),
            temperature: self.temperature,
        }
    }

    /// What the network says of some pictures.
    fn ask(&self, pictures: &[usize], measuring: &mut Measuring) -> Result<Said> {
        let (view, classes) = (self.settings.view(), self.set.classes.len());
        let mut said = Said::default();
        let mut scores = Vec::with_capacity(pictures.len() * classes);
        for (index, some) in pictures.chunks(self.rows.max(1)).enumerate() {
            if measuring.takes(index)? {
                let pixels: Vec<&[u8]> = some.iter().map(|at| self.set.pixels(*at)).collect();
                let own = view.scores(&self.network, &pixels, self.set.shape, &self.device)?;
                let own = own.flatten_all()?.to_vec1::<f32>()?;
                scores.extend(own.into_iter().map(f64::from));
            } else {
                scores.resize(scores.len() + some.len() * classes, 0.0);
            }
            said.pictures.extend(some);
            said.labels
                .extend(some.iter().map(|at| self.set.labels[*at]));
        }
        let scores = measuring.of_all(scores)?;
        let of_each = scores.chunks(classes.max(1));
        let of_each = of_each.map(|scores| scores.iter().map(|it| *it as f32).collect());
        said.scores = of_each.collect();
        Ok(said)
    }

    /// The pictures that are measured with during a run: so many batches, all for 0.
    fn measured_with(&self, batches: usize) -> &[usize] {
        let most = match batches {
            0 => usize::MAX,
            batches => batches.saturating_mul(self.rows),
        };
        &self.held_out[..self.held_out.len().min(most)]
    }
}

impl Task for PictureTask {
    type Batch = Batch;

    fn parameters(&self) -> &Parameters {
        self.network.parameters()
    }

    fn own_rules(&self) -> OwnRules {
        self.own_rules.clone()
    }

    fn decays(&self) -> DecayScope {
        match self.settings.method {
            // As in the recipes of networks from scratch, which say so.
            Method::Scratch => DecayScope::All,
            Method::Features | Method::FineTune => DecayScope::Matrices,
        }
    }

    fn own_step(&mut self, done: usize, goes_on: &dyn Fn() -> bool) -> Result<Option<OwnStep>> {
        let Some(mut reading) = self.reading.take() else {
            return Ok(None);
        };
        let stepped = self.step_of_features(&mut reading, done, goes_on);
        self.reading = Some(reading);
        let (units, head) = stepped?;
        if let Some(head) = head {
            head.put_into(&mut self.network)?;
            self.batches += 1;
        }
        Ok(Some(OwnStep { units }))
    }

    fn own_trial(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<OwnTrial>> {
        self.trial_of_features(stop)
    }

    fn next_batch(&mut self) -> Result<Batch> {
        let number = self.batches;
        self.batches += 1;
        self.loader.batch(number, &self.device)
    }

    fn size(&self, batch: &Batch) -> BatchSize {
        let count = batch.labels.elem_count();
        BatchSize {
            targets: count,
            units: count,
        }
    }

    fn loss(&mut self, tape: &Tape, batch: &Batch, targets: f64) -> Result<Value> {
        let (loss, moments) = self.pass_of(batch, targets).loss_and_moments(tape)?;
        self.pending.push((batch.labels.elem_count(), moments));
        Ok(loss)
    }

    fn fixed_pass<'a>(
        &'a self,
        batch: &'a Batch,
        targets: f64,
    ) -> Result<Option<Box<dyn FixedPass + 'a>>> {
        Ok(Some(Box::new(self.pass_of(batch, targets))))
    }

    fn passed(&mut self, batch: &Batch, left: Left) -> Result<()> {
        let moments = self.network.norms().map(str::to_owned).zip(left);
        let moments = moments.collect();
        self.pending.push((batch.labels.elem_count(), moments));
        Ok(())
    }

    fn begin_losses(&mut self) -> Result<()> {
        self.pending.clear();
        let bias = self.parameters().get(WHITENED_BIAS);
        self.whitening_bias = bias.map(|it| it.tensor().force_contiguous()).transpose()?;
        Ok(())
    }

    fn undo_losses(&mut self) -> Result<()> {
        self.pending.clear();
        Ok(())
    }

    fn stepped(&mut self, done: usize) -> Result<()> {
        for (count, moments) in std::mem::take(&mut self.pending) {
            self.network
                .follow(&moments, count, self.settings.norm_momentum)?;
        }
        // It learns in the first steps alone, and then stays as it is.
        let bias = self.whitening_bias.take();
        if let Some(bias) = bias.filter(|_| done > self.settings.whitening_steps) {
            self.network.set(WHITENED_BIAS, &bias)?;
        }
        if let Some(slower) = &mut self.slower {
            slower.stepped(&mut self.network, done, self.steps)?;
        }
        Ok(())
    }

    fn evaluate(
        &mut self,
        batches: usize,
        measuring: &mut Measuring,
    ) -> Result<Option<Evaluation>> {
        let said = self.ask(self.measured_with(batches), measuring)?;
        if said.labels.is_empty() {
            return Ok(None);
        }
        self.temperature = said.temperature();
        let evaluation = Evaluation {
            loss: said.loss(1.0),
            metrics: said.metrics(self.set.classes.len(), self.temperature, "", ""),
            targets: said.labels.len(),
        };
        if self.batches == 0 && self.settings.head == HeadStart::Kept {
            let accuracy = evaluation.metrics.iter().find(|it| it.name == ACCURACY);
            self.before = accuracy.map(|it| Metric {
                name: BEFORE.to_owned(),
                label: "accuracy before it learned".to_owned(),
                ..it.clone()
            });
        }
        self.measured = Some((self.batches, said));
        Ok(Some(evaluation))
    }

    fn judged_by(&self) -> Option<&'static str> {
        Some(ACCURACY)
    }

    fn examine(&mut self, measuring: &mut Measuring) -> Result<Vec<Metric>> {
        let classes = self.set.classes.len();
        let mut metrics = Vec::new();
        let measured = self.measured.as_ref().map_or(0, |it| it.1.labels.len());
        if measured < self.held_out.len() {
            let said = self.ask(&self.held_out, measuring)?;
            self.temperature = said.temperature();
            metrics.extend(said.metrics(classes, self.temperature, "_at_end", " at the end"));
        }
        if !self.set.test.is_empty() {
            let said = self.ask(&self.set.test, measuring)?;
            let of_test = said.metrics(classes, self.temperature, "", " on test pictures");
            metrics.extend(of_test.into_iter().map(|it| Metric {
                name: format!("test_{}", it.name),
                ..it
            }));
        }
        metrics.extend(self.reading.iter().flat_map(|it| it.metrics.clone()));
        metrics.extend(self.before.clone());
        if measuring.is_told() {
            metrics.extend(baselines::metrics(&self.set, measuring.goes_on())?);
        }
        Ok(metrics)
    }

    fn show(&mut self) -> Result<Vec<Exhibit>> {
        let known = self.measured.take().filter(|it| it.0 == self.batches);
        let (at, said) = match known {
            Some(known) => known,
            None => {
                let some =
                    self.held_out[..self.held_out.len().min(SHOWN * self.rows.max(1))].to_vec();
                (
                    self.batches,
                    self.ask(&some, &mut Measuring::alone(&|| true))?,
                )
            }
        };
        if said.labels.is_empty() {
            return Ok(Vec::new());
        }
        let mut exhibits = vec![Exhibit::Confusion {
            title: "Held-out pictures".to_owned(),
            classes: self.set.classes.clone(),
            counts: said.confusion(self.set.classes.len()),
            examples: self.examples(&said),
        }];
        exhibits.extend(self.mistakes(&said)?);
        self.measured = Some((at, said));
        Ok(exhibits)
    }

    fn state(&self) -> Json {
        json!({"batches": self.batches, "temperature": self.temperature, "before": self.before})
    }

    fn restore(&mut self, state: &Json) -> Result<()> {
        let batches = state["batches"].as_u64();
        let batches = batches.and_then(|it| usize::try_from(it).ok());
        let missing =
            || Error::Data("the checkpoint does not say how far the pictures were".to_owned());
        self.batches = batches.ok_or_else(missing)?;
        self.temperature = state["temperature"].as_f64().unwrap_or(1.0);
        // Runs of before this was measured don’t have it.
        self.before = serde_json::from_value(state["before"].clone()).unwrap_or_default();
        self.pending.clear();
        self.measured = None;
        Ok(())
    }

    fn save(&self, folder: &Path) -> Result<()> {
        let weights = self.parameters().iter();
        let weights = weights.map(|it| (it.name().to_owned(), it.tensor()));
        write_safetensors(&folder.join(WEIGHTS), &weights.collect(), HashMap::new())?;
        if let Some(slower) = &self.slower {
            slower.save(folder)?;
        }
        self.about().save(folder)
    }

    fn load(&mut self, folder: &Path) -> Result<()> {
        let path = folder.join(WEIGHTS);
        let mut read = read_tensors(&path)?;
        let names: Vec<String> = self
            .parameters()
            .iter()
            .map(|it| it.name().to_owned())
            .collect();
        for name in names {
            let missing = || Error::format(&path, format!("`{name}` is missing"));
            self.network
                .set(&name, &read.remove(&name).ok_or_else(missing)?)?;
        }
        if let Some(slower) = &mut self.slower {
            slower.load(folder, &self.network)?;
        }
        Ok(())
    }

    fn full_batch(&mut self, rows: usize, _length: usize) -> Result<Batch> {
        self.loader.some(rows, &self.device)
    }

    fn held_out_batches(&self) -> usize {
        self.held_out.len().div_ceil(self.rows.max(1))
    }
}

/// The network of a plan, before it has learned.
fn network(plan: &TrainPlan<PicturePlan>, place: &RunPlace) -> Result<Network> {
    let (settings, seed) = (&plan.task.picture, plan.run.seed);
    let dtype = plan.run.tensor_dtype().into();
    match &plan.task.model {
        Some(model) => {
            let published = Published::open(model)?;
            let classes = match settings.head {
                HeadStart::New => Some(settings.classes),
                HeadStart::Kept => None,
            };
            let mut weights = published.weights(classes, seed, place.device)?;
            Network::new(settings.net(Some(&published.net)), &mut weights, dtype)
        }
        None => {
            let mut weights = InitialWeights::new(seed, place.device);
            Network::new(settings.net(None), &mut weights, dtype)
        }
    }
}

/// Has the first layer follow from the pictures.
fn whiten(
    network: &mut Network,
    settings: &Settings,
    set: &PictureSet,
    train: &[usize],
) -> Result<()> {
    let view = settings.view();
    let some = train.iter().take(whitening::PICTURES);
    let pixels: Vec<&[u8]> = some.map(|at| set.pixels(*at)).collect();
    let numbers = view.plain(&pixels, set.shape, &Device::Cpu)?;
    let numbers: Vec<f32> = numbers.flatten_all()?.to_vec1()?;
    let missing = || Error::Data(format!("the network has no `{WHITENED}`"));
    let weight = network.parameters().get(WHITENED).ok_or_else(missing)?;
    let side = weight.tensor().dim(3)?;
    network.set(WHITENED, &whitening::weights(&numbers, view.shape, side)?)
}

/// Weights that learn faster or slower than others. Only SGD knows what that means for its decay.
fn own_rules(network: &Network, settings: &Settings, run: &RunPlan) -> OwnRules {
    let mut rules = OwnRules::new();
    if run.optimizer.kind != OptimizerKind::Sgd {
        return rules;
    }
    for parameter in network.parameters().trainable() {
        let is_norm_bias = network.is_norm_bias(parameter.name());
        let ratio = match (is_norm_bias, parameter.is_head()) {
            (true, _) => settings.bias_rate_ratio * settings.body_rate_ratio,
            (false, true) => 1.0,
            (false, false) => settings.body_rate_ratio,
        };
        if ratio == 1.0 {
            continue;
        }
        let decay = match is_norm_bias {
            // So that a step takes as much of a bias away as of any other weight.
            true => run.optimizer.weight_decay / settings.bias_rate_ratio,
            false => run.optimizer.weight_decay,
        };
        let rule = Sgd {
            momentum: run.optimizer.momentum,
            nesterov: run.optimizer.nesterov,
            weight_decay: decay,
        };
        rules.insert(
            parameter.name().to_owned(),
            OwnRule {
                rule: rule.into(),
                rate_ratio: ratio,
            },
        );
    }
    rules
}
