//! The loop: what it does when everything is fine, and what it does when a number is not.
//!
//! The task here is as small as one can be: find the two weights of a line. What language models add is in `language`.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use candle_core::{Device, Tensor};
use models::{
    Error, Result,
    checkpoint::{keep::Checkpoints, save::write_safetensors},
    device::dtype::Dtype,
    ops::linear::linear,
    parameters::{Parameter, Parameters},
    random::Random,
    tape::{Tape, Value},
    tasks::language::LanguagePlan,
    train::{
        Measuring, Observer, Outcome, TrainEvent, TrainPlan, TrainState,
        exhibit::Exhibit,
        task::{BatchSize, Evaluation, Task},
        train,
    },
};
use serde_json::{Value as Json, json};

use crate::plan::with;

/// y = 2 x₁ - 3 x₂, to be found from examples.
pub(crate) struct Line {
    parameters: Parameters,
    /// How many batches were taken.
    pub(crate) position: u64,
    /// The batch whose loss is not finite, and how often it is met before it is.
    pub(crate) broken: Option<u64>,
    pub(crate) times: u32,
    /// The batches whose gradient is too large, and how many times.
    pub(crate) poisoned: Vec<u64>,
    poison: f32,
    /// Whether held-out losses are not numbers, and nothing can be written.
    blind: bool,
    /// After how many batches measuring held-out data takes for ever.
    slow: Option<u64>,
    /// How many batches of held-out data were measured here.
    pub(crate) measured: Arc<AtomicUsize>,
}

impl Line {
    pub(crate) fn new() -> Self {
        let mut parameters = Parameters::default();
        let zeros = Tensor::zeros((1, 2), candle_core::DType::F32, &Device::Cpu).unwrap();
        parameters.insert(Parameter::new("line.weight", &zeros, true).unwrap());
        Self {
            parameters,
            position: 0,
            broken: None,
            times: u32::MAX,
            poisoned: Vec::new(),
            poison: 1e6,
            blind: false,
            slow: None,
            measured: Arc::default(),
        }
    }

    pub(crate) fn weight(&self) -> Vec<f32> {
        numbers(&self.parameters.get("line.weight").unwrap().tensor())
    }
}

/// Batches of held-out data.
pub(crate) const BATCHES_MEASURED: usize = 4;

pub(crate) fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

impl Task for Line {
    type Batch = (Tensor, Tensor, f32, f32);

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn next_batch(&mut self) -> Result<Self::Batch> {
        let mut random = Random::new(self.position);
        let mut factor = 1.0;
        if self.broken == Some(self.position) && self.times > 0 {
            self.times -= 1;
            factor = f32::NAN;
        }
        let poison = match self.poisoned.contains(&self.position) {
            true => self.poison,
            false => 1.0,
        };
        self.position += 1;
        let x: Vec<f32> = (0..16).map(|_| random.normal() as f32).collect();
        let y: Vec<f32> = x.chunks(2).map(|x| 2.0 * x[0] - 3.0 * x[1]).collect();
        Ok((
            Tensor::from_vec(x, (8, 2), &Device::Cpu)?,
            Tensor::from_vec(y, (8, 1), &Device::Cpu)?,
            factor,
            poison,
        ))
    }

    fn size(&self, _: &Self::Batch) -> BatchSize {
        let (targets, units) = (8, 8);
        BatchSize { targets, units }
    }

    fn loss(
        &mut self,
        tape: &Tape,
        (x, y, factor, poison): &Self::Batch,
        targets: f64,
    ) -> Result<Value> {
        let weight = self.parameters.get("line.weight").unwrap().on(Some(tape));
        let found = linear(&Value::constant(x.clone()), &weight, None)?;
        let error = (found.tensor() - y)?;
        let loss = ((error.sqr()?.sum_all()? / targets)? * f64::from(*factor))?;
        let factor = 2.0 * f64::from(*poison) / targets;
        Ok(Value::record(loss, &[&found], move |g| {
            Ok(vec![Some((error.broadcast_mul(&g)? * factor)?)])
        }))
    }

    fn evaluate(&mut self, _: usize, measuring: &mut Measuring) -> Result<Option<Evaluation>> {
        while self.slow == Some(self.position) {
            measuring.takes(0)?;
            thread::sleep(Duration::from_millis(10));
        }
        // Batches that are the farther from the line the later they come, and lie around it.
        let mut losses = Vec::new();
        for batch in 0..BATCHES_MEASURED {
            losses.push(match measuring.takes(batch)? {
                true => {
                    self.measured.fetch_add(1, Ordering::Relaxed);
                    distance(&self.weight()) * 2.0 * (batch + 1) as f64
                        / (BATCHES_MEASURED + 1) as f64
                }
                false => 0.0,
            });
        }
        let losses = measuring.of_all(losses)?;
        let loss = match self.blind {
            true => f64::NAN,
            false => losses.iter().sum::<f64>() / BATCHES_MEASURED as f64,
        };
        Ok(Some(Evaluation {
            loss,
            metrics: Vec::new(),
            targets: 1,
        }))
    }

    fn show(&mut self) -> Result<Vec<Exhibit>> {
        match self.blind {
            true => Err(Error::Data("there are no words".to_owned())),
            false => Ok(Vec::new()),
        }
    }

    fn state(&self) -> Json {
        json!({ "position": self.position })
    }

    fn restore(&mut self, state: &Json) -> Result<()> {
        self.position = state["position"].as_u64().unwrap();
        Ok(())
    }

    fn save(&self, folder: &Path) -> Result<()> {
        let weights = self.parameters.iter();
        let tensors = weights.map(|it| (it.name().to_owned(), it.tensor()));
        let path = folder.join("model.safetensors");
        write_safetensors(&path, &tensors.collect(), Default::default())
    }

    fn load(&mut self, folder: &Path) -> Result<()> {
        let weight = self.parameters.get("line.weight").unwrap();
        weight.assign(&saved_weight(folder))
    }
}

fn saved_weight(folder: &Path) -> Tensor {
    let path = folder.join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(path, &Device::Cpu).unwrap();
    tensors.remove("line.weight").unwrap()
}

/// Collects events, says stop when what happened is enough, and does what a test wants to happen.
pub(crate) struct Watch {
    pub(crate) events: Vec<TrainEvent>,
    stop: Question,
    pause: Question,
}

/// Whether something is to be done after these events.
type Question = Box<dyn Fn(&[TrainEvent]) -> bool>;

impl Watch {
    pub(crate) fn until(stop: impl Fn(&[TrainEvent]) -> bool + 'static) -> Self {
        Self {
            events: Vec::new(),
            stop: Box::new(stop),
            pause: Box::new(never),
        }
    }

    /// What of all events this finds.
    pub(crate) fn all<T>(&self, find: impl Fn(&TrainEvent) -> Option<T>) -> Vec<T> {
        self.events.iter().filter_map(find).collect()
    }
}

impl Observer for Watch {
    fn event(&mut self, event: TrainEvent) {
        self.events.push(event);
    }

    fn should_stop(&self) -> bool {
        (self.stop)(&self.events)
    }

    fn should_pause(&self) -> bool {
        (self.pause)(&self.events)
    }
}

pub(crate) fn never(_: &[TrainEvent]) -> bool {
    false
}

pub(crate) fn steps_taken(events: &[TrainEvent]) -> usize {
    let is_step = |event: &&TrainEvent| matches!(event, TrainEvent::Stepped { .. });
    events.iter().filter(is_step).count()
}

fn after_five_steps(events: &[TrainEvent]) -> bool {
    steps_taken(events) >= 5
}

pub(crate) fn after_going_back(events: &[TrainEvent]) -> bool {
    events.iter().any(|event| rolled_back(event).is_some())
}

pub(crate) fn plan(steps: usize, changes: Json) -> TrainPlan<LanguagePlan> {
    let base = json!({
        "steps": steps, "learning_rate": 0.3, "clip_norm": 0.0, "ema": 0.0,
        "batch": { "rows": 8, "length": 1, "accumulate": 2 },
        "schedule": { "kind": "constant", "warmup_steps": 0, "min_ratio": 0.0 },
        "evaluate": { "every": 5, "batches": 0 },
        "save": { "every": 4, "keep_last": 2, "keep_best": true },
    });
    let plan = serde_json::to_value(crate::plan::scratch_plan()).unwrap();
    serde_json::from_value(with(with(plan, base), changes)).unwrap()
}

/// How far weights are from those of the line.
fn distance(weight: &[f32]) -> f64 {
    f64::from((weight[0] - 2.0).abs() + (weight[1] + 3.0).abs())
}

/// Trains a line in a folder, from its newest checkpoint if there is one.
pub(crate) fn run(
    plan: &TrainPlan<LanguagePlan>,
    folder: &Path,
    broken: Option<u64>,
    enough: impl Fn(&[TrainEvent]) -> bool + 'static,
) -> (Result<Outcome>, Line, Watch) {
    let line = Line {
        broken,
        ..Line::new()
    };
    train_line(line, plan, folder, enough)
}

pub(crate) fn train_line(
    mut line: Line,
    plan: &TrainPlan<LanguagePlan>,
    folder: &Path,
    enough: impl Fn(&[TrainEvent]) -> bool + 'static,
) -> (Result<Outcome>, Line, Watch) {
    let checkpoints =
        Checkpoints::new(folder, plan.run.save.keep_last).keep_every(plan.run.save.keep_every);
    let mut state = TrainState::new(plan, &line).unwrap();
    let mut watch = Watch::until(enough);
    let mut tell = |message| watch.event(TrainEvent::Warned { message });
    if let Some(newest) = checkpoints.newest_before(usize::MAX, &mut tell).unwrap() {
        state.restore(&mut line, &newest.path).unwrap();
    }
    let outcome = train(&plan.run, &mut line, &mut state, &checkpoints, &mut watch);
    (outcome, line, watch)
}

#[test]
fn a_line_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, line, watch) = run(&plan(150, json!({})), folder.path(), None, never);
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    assert!(distance(&line.weight()) < 0.1, "{:?}", line.weight());
    let last = watch.events.last().unwrap();
    let TrainEvent::Finished {
        step, best_step, ..
    } = last
    else {
        panic!("{last:?}");
    };
    assert!(*step == 150 && best_step.is_some(), "{last:?}");
}

#[test]
fn ten_steps_are_five_and_five_to_the_last_bit() {
    for ema in [0.0, 0.9] {
        let plan = plan(10, json!({ "ema": ema }));
        let (straight, stopped) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (_, expected, _) = run(&plan, straight.path(), None, never);
        let (outcome, _, _) = run(&plan, stopped.path(), None, after_five_steps);
        assert_eq!(outcome.unwrap(), Outcome::Stopped);
        let (outcome, resumed, _) = run(&plan, stopped.path(), None, never);
        assert_eq!(outcome.unwrap(), Outcome::Finished);
        assert_eq!(expected.weight(), resumed.weight());
        assert_ne!(expected.weight(), Line::new().weight());
    }
}

#[test]
fn a_stop_does_not_wait_for_a_long_evaluation_which_comes_first_afterwards() {
    for ends in [5, 10] {
        let plan = plan(ends, json!({}));
        let (straight, stopped) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (_, expected, straight_watch) = run(&plan, straight.path(), None, never);
        // Two batches a step: it is the evaluation after step 5 that does not end.
        let slow = Line {
            slow: Some(10),
            ..Line::new()
        };
        let measured = |watch: &Watch| {
            watch.all(|event| match event {
                TrainEvent::Evaluated {
                    step, loss, best, ..
                } => Some((*step, *loss, *best)),
                _ => None,
            })
        };
        let (outcome, _, watch) = train_line(slow, &plan, stopped.path(), after_five_steps);
        assert_eq!(outcome.unwrap(), Outcome::Stopped);
        let first = measured(&watch);
        let (outcome, resumed, watch) = run(&plan, stopped.path(), None, never);
        assert_eq!(outcome.unwrap(), Outcome::Finished);
        assert_eq!(
            [first, measured(&watch)].concat(),
            measured(&straight_watch)
        );
        assert_eq!(expected.weight(), resumed.weight());
    }
}

#[test]
fn a_pause_saves_waits_and_changes_nothing() {
    let plan = plan(10, json!({}));
    let (straight, paused) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_, expected, _) = run(&plan, straight.path(), None, never);
    let mut line = Line::new();
    let checkpoints = Checkpoints::new(paused.path(), 9);
    let mut state = TrainState::new(&plan, &line).unwrap();
    // After some steps, until it was asked a few times in the pause.
    let looks = std::cell::Cell::new(0);
    let pause = move |events: &[TrainEvent]| {
        let waits = matches!(events.last(), Some(TrainEvent::Paused { .. }));
        looks.set(looks.get() + usize::from(waits));
        after_five_steps(events) && looks.get() < 3
    };
    let mut watch = Watch {
        pause: Box::new(pause),
        ..Watch::until(never)
    };
    train(&plan.run, &mut line, &mut state, &checkpoints, &mut watch).unwrap();
    assert_eq!(line.weight(), expected.weight());
    let is_saved = |event: &TrainEvent| matches!(event, TrainEvent::Saved { step: 5, .. });
    let from = watch.events.iter().position(is_saved).unwrap();
    let told = &watch.events[from + 1..from + 3];
    assert!(
        matches!(
            told,
            [
                TrainEvent::Paused { step: 5, why: None },
                TrainEvent::Continued { step: 5 }
            ]
        ),
        "{told:?}"
    );
}

/// Whose disk is away from the first checkpoint on, until the run says that it waits.
struct Unplugged<'a> {
    events: Vec<TrainEvent>,
    run: &'a Path,
    elsewhere: &'a Path,
}

impl Observer for Unplugged<'_> {
    fn event(&mut self, event: TrainEvent) {
        match event {
            TrainEvent::Saved { step: 2, .. } => std::fs::rename(self.run, self.elsewhere).unwrap(),
            TrainEvent::Waiting { .. } => {
                assert!(!self.run.exists(), "a new folder in its place");
                std::fs::rename(self.elsewhere, self.run).unwrap();
            }
            _ => {}
        }
        self.events.push(event);
    }
}

#[test]
fn a_run_whose_disk_is_unplugged_waits_until_it_is_back() {
    let save = json!({"every": 2, "keep_last": 9, "keep_best": false});
    let plan = plan(6, json!({ "save": save }));
    let (straight, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_, expected, _) = run(&plan, straight.path(), None, never);
    let (home, elsewhere) = (folder.path().join("run"), folder.path().join("elsewhere"));
    std::fs::create_dir(&home).unwrap();
    let mut line = Line::new();
    let checkpoints = Checkpoints::new(&home.join("checkpoints"), 9);
    let mut state = TrainState::new(&plan, &line).unwrap();
    let mut watch = Unplugged {
        events: Vec::new(),
        run: &home,
        elsewhere: &elsewhere,
    };
    train(&plan.run, &mut line, &mut state, &checkpoints, &mut watch).unwrap();
    assert_eq!(line.weight(), expected.weight());
    let waited = watch.events.iter().find_map(|event| match event {
        TrainEvent::Waiting { step, why, .. } => Some((*step, why.as_str())),
        _ => None,
    });
    let (step, why) = waited.unwrap();
    assert!(
        step == 4 && why.starts_with("could not save the run"),
        "{why}"
    );
    assert_eq!(saved_steps(&checkpoints), [0, 2, 4, 6]);
}

#[test]
fn a_loss_that_is_no_number_goes_back_to_the_last_checkpoint_three_times_and_then_fails() {
    let folder = tempfile::tempdir().unwrap();
    // Two batches a step: batch 13 is in step 7, and step 4 was the last to be saved on schedule.
    let changes = json!({ "save": { "every": 4, "keep_last": 2, "keep_best": false } });
    let (outcome, line, watch) = run(&plan(10, changes), folder.path(), Some(13), never);
    assert_eq!(
        watch.all(rolled_back),
        [(7, 4, 0.15), (7, 4, 0.075), (7, 4, 0.0375)]
    );
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "the loss is not a number at step 7, also after 3 attempts at half the learning rate; last saved: step 4"
    );
    assert!(line.weight().iter().all(|weight| weight.is_finite()));
}

#[test]
fn a_run_that_went_back_goes_on_with_half_the_rate_also_after_a_restart() {
    let broken = || Line {
        broken: Some(13),
        times: 1,
        ..Line::new()
    };
    let plan = plan(10, json!({}));
    let (straight, stopped) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (outcome, expected, watch) = train_line(broken(), &plan, straight.path(), never);
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    assert_eq!(watch.all(rolled_back), [(7, 5, 0.15)]);
    // Stopped at once: only the checkpoint remembers that it went back.
    let (outcome, _, _) = train_line(broken(), &plan, stopped.path(), after_going_back);
    assert_eq!(outcome.unwrap(), Outcome::Stopped);
    let (outcome, resumed, _) = run(&plan, stopped.path(), None, never);
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    assert_eq!(resumed.weight(), expected.weight());
}

#[test]
fn a_gradient_that_overflows_at_every_loss_scale_is_a_number_that_is_not_finite() {
    let folder = tempfile::tempdir().unwrap();
    let changes = json!({ "save": { "every": 4, "keep_last": 2, "keep_best": false } });
    let mut plan = plan(10, changes);
    plan.run.dtype.compute = Dtype::F16;
    let endless = Line {
        poisoned: vec![13],
        poison: f32::INFINITY,
        ..Line::new()
    };
    let (outcome, _, watch) = train_line(endless, &plan, folder.path(), never);
    let error = outcome.unwrap_err().to_string();
    assert!(
        error.starts_with("the gradient is not a number at step 7"),
        "{error}"
    );
    assert_eq!(watch.all(rolled_back).len(), 3);
}

#[test]
fn a_checkpoint_from_which_no_step_can_be_taken_gives_way_to_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    // Batch 9 is in step 5, right after the checkpoint of step 4.
    let changes = json!({ "save": { "every": 4, "keep_last": 2, "keep_best": false } });
    let (outcome, _, watch) = run(&plan(10, changes), folder.path(), Some(9), never);
    assert_eq!(
        watch.all(rolled_back),
        [(5, 4, 0.15), (5, 0, 0.075), (5, 4, 0.0375)]
    );
    assert!(matches!(outcome, Err(Error::NotFinite { step: 5, .. })));
}

#[test]
fn a_run_that_cannot_be_looked_at_goes_on_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let blind = Line {
        blind: true,
        ..Line::new()
    };
    let changes = json!({ "sample": { "every": 5, "prompts": [], "tokens": 1 } });
    let (outcome, _, watch) = train_line(blind, &plan(10, changes), folder.path(), never);
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    let expected = [0, 5, 10].map(|step| {
        let blind = format!("the loss on held-out data is not a number after step {step}");
        let mute = format!("nothing was shown after step {step}: there are no words");
        [blind, mute]
    });
    assert_eq!(warnings(&watch), expected.concat());
    // What was saved can be read again.
    let (outcome, _, _) = run(&plan(12, json!({})), folder.path(), None, never);
    assert_eq!(outcome.unwrap(), Outcome::Finished);
}

#[test]
fn with_an_average_the_model_that_is_saved_is_the_one_that_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let (_, line, watch) = run(&plan(10, json!({ "ema": 0.9 })), folder.path(), None, never);
    let measured = watch.events.iter().rev().find_map(|event| match event {
        TrainEvent::Evaluated { step: 10, loss, .. } => Some(*loss),
        _ => None,
    });
    let saved = numbers(&saved_weight(&Checkpoints::new(folder.path(), 2).path(10)));
    assert_eq!(Some(distance(&saved)), measured);
    assert_ne!(saved, line.weight());
}

pub(crate) fn warnings(watch: &Watch) -> Vec<String> {
    watch.all(|event| match event {
        TrainEvent::Warned { message } => Some(message.clone()),
        _ => None,
    })
}

fn saved_steps(checkpoints: &Checkpoints) -> Vec<usize> {
    let all = checkpoints.list().unwrap();
    all.iter().map(|checkpoint| checkpoint.step).collect()
}

pub(crate) fn rolled_back(event: &TrainEvent) -> Option<(usize, usize, f64)> {
    match event {
        TrainEvent::RolledBack {
            step,
            to_step,
            learning_rate,
            ..
        } => Some((*step, *to_step, *learning_rate)),
        _ => None,
    }
}

#[test]
fn the_newest_checkpoints_the_best_and_one_every_so_often_stay() {
    let folder = tempfile::tempdir().unwrap();
    let changes = json!({
        "evaluate": { "every": 0, "batches": 0 },
        "save": { "every": 4, "keep_last": 2, "keep_every": 6, "keep_best": true },
    });
    let (outcome, _, _) = run(&plan(20, changes), folder.path(), None, never);
    outcome.unwrap();
    let checkpoints = Checkpoints::new(folder.path(), 2);
    assert_eq!(saved_steps(&checkpoints), [6, 12, 18, 20]);
}
