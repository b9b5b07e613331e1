//! The loop: what it does when everything is fine, and what it does when a number is not.
//!
//! The task here is as small as one can be: find the two weights of a line. What language models add is in `language`.

use std::path::Path;

use candle_core::{Device, Tensor};
use models::{
    Error, Result,
    checkpoint::{keep::Checkpoints, save::write_safetensors},
    ops::linear::linear,
    parameters::{Parameter, Parameters},
    random::Random,
    tape::{Tape, Value},
    train::{
        Observer, Outcome, TrainEvent, TrainPlan, TrainState,
        plan::SamplePlan,
        task::{BatchSize, Evaluation, Sample, Task},
        train,
    },
};
use serde_json::{Value as Json, json};

/// y = 2 x₁ - 3 x₂, to be found from examples.
struct Line {
    parameters: Parameters,
    /// How many batches were taken.
    position: u64,
    /// From this batch on, losses are not finite while the learning rate is above the limit. Told by the last update.
    broken: Option<u64>,
}

impl Line {
    fn new() -> Self {
        let mut parameters = Parameters::default();
        let zeros = Tensor::zeros((1, 2), candle_core::DType::F32, &Device::Cpu).unwrap();
        parameters.insert(Parameter::new("line.weight", &zeros, true).unwrap());
        Self {
            parameters,
            position: 0,
            broken: None,
        }
    }

    fn weight(&self) -> Vec<f32> {
        self.parameters
            .get("line.weight")
            .unwrap()
            .tensor()
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap()
    }
}

impl Task for Line {
    type Batch = (Tensor, Tensor, f32);

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn next_batch(&mut self) -> Result<Self::Batch> {
        let mut random = Random::new(self.position);
        let factor = if self.broken == Some(self.position) {
            f32::NAN
        } else {
            1.0
        };
        self.position += 1;
        let x: Vec<f32> = (0..16).map(|_| random.normal() as f32).collect();
        let y: Vec<f32> = x.chunks(2).map(|x| 2.0 * x[0] - 3.0 * x[1]).collect();
        Ok((
            Tensor::from_vec(x, (8, 2), &Device::Cpu)?,
            Tensor::from_vec(y, (8, 1), &Device::Cpu)?,
            factor,
        ))
    }

    fn size(&self, _: &Self::Batch) -> BatchSize {
        BatchSize {
            targets: 8,
            tokens: 8,
        }
    }

    fn loss(&self, tape: &Tape, (x, y, factor): &Self::Batch, targets: f64) -> Result<Value> {
        let weight = self.parameters.get("line.weight").unwrap().on(Some(tape));
        let found = linear(&Value::constant(x.clone()), &weight, None)?;
        let error = (found.tensor() - y)?;
        let loss = ((error.sqr()?.sum_all()? / targets)? * f64::from(*factor))?;
        Ok(Value::record(loss, &[&found], move |g| {
            Ok(vec![Some((error.broadcast_mul(&g)? * (2.0 / targets))?)])
        }))
    }

    fn evaluate(&mut self, _: usize) -> Result<Option<Evaluation>> {
        let weight = self.weight();
        let loss = f64::from((weight[0] - 2.0).abs() + (weight[1] + 3.0).abs());
        Ok(Some(Evaluation {
            loss,
            loss_per_character: None,
            accuracy: None,
            targets: 1,
        }))
    }

    fn sample(&mut self, _: &SamplePlan) -> Result<Vec<Sample>> {
        Ok(Vec::new())
    }

    fn state(&self) -> Json {
        json!({ "position": self.position })
    }

    fn restore(&mut self, state: &Json) -> Result<()> {
        self.position = state["position"].as_u64().unwrap();
        Ok(())
    }

    fn save(&self, folder: &Path) -> Result<()> {
        let tensors = self
            .parameters
            .iter()
            .map(|it| (it.name().to_owned(), it.tensor()))
            .collect();
        write_safetensors(
            &folder.join("model.safetensors"),
            &tensors,
            Default::default(),
        )
    }

    fn load(&mut self, folder: &Path) -> Result<()> {
        let tensors =
            candle_core::safetensors::load(folder.join("model.safetensors"), &Device::Cpu)?;
        self.parameters
            .get("line.weight")
            .unwrap()
            .assign(&tensors["line.weight"])
    }
}

/// Collects events and stops after some steps.
#[derive(Default)]
struct Watch {
    events: Vec<TrainEvent>,
    stop_after: Option<usize>,
}

impl Observer for Watch {
    fn event(&mut self, event: TrainEvent) {
        self.events.push(event);
    }

    fn should_stop(&self) -> bool {
        let steps = self
            .events
            .iter()
            .filter(|event| matches!(event, TrainEvent::Stepped { .. }))
            .count();
        self.stop_after.is_some_and(|after| steps >= after)
    }
}

fn plan(steps: usize, changes: Json) -> TrainPlan {
    let mut plan = crate::plan::scratch_plan();
    plan.steps = steps;
    let mut json = serde_json::to_value(plan).unwrap();
    let base = json!({
        "learning_rate": 0.3, "clip_norm": 0.0, "ema": 0.0,
        "batch": { "rows": 8, "length": 1, "accumulate": 2 },
        "schedule": { "kind": "constant", "warmup_steps": 0, "min_ratio": 0.0 },
        "evaluate": { "every": 5, "batches": 0 },
        "save": { "every": 4, "keep_last": 2, "keep_best": true },
    });
    for (key, value) in base
        .as_object()
        .unwrap()
        .iter()
        .chain(changes.as_object().unwrap())
    {
        json[key] = value.clone();
    }
    serde_json::from_value(json).unwrap()
}

/// Trains a line in a folder, from its newest checkpoint if there is one.
fn run(
    plan: &TrainPlan,
    folder: &Path,
    broken: Option<u64>,
    stop_after: Option<usize>,
) -> (Result<Outcome>, Line, Watch) {
    let checkpoints = Checkpoints::new(folder, plan.save.keep_last);
    let mut line = Line {
        broken,
        ..Line::new()
    };
    let mut state = TrainState::new(plan, &line).unwrap();
    if let Some(newest) = checkpoints.newest().unwrap() {
        state.restore(&mut line, &newest.path).unwrap();
    }
    let mut watch = Watch {
        stop_after,
        ..Watch::default()
    };
    let outcome = train(plan, &mut line, &mut state, &checkpoints, &mut watch);
    (outcome, line, watch)
}

#[test]
fn a_line_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, line, watch) = run(&plan(150, json!({})), folder.path(), None, None);
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    let weight = line.weight();
    assert!(
        (weight[0] - 2.0).abs() < 0.05 && (weight[1] + 3.0).abs() < 0.05,
        "{weight:?}"
    );
    let last = watch.events.last().unwrap();
    assert!(
        matches!(
            last,
            TrainEvent::Finished {
                step: 150,
                best_step: Some(_),
                ..
            }
        ),
        "{last:?}"
    );
}

#[test]
fn ten_steps_are_five_and_five_to_the_last_bit() {
    for ema in [0.0, 0.9] {
        let plan = plan(10, json!({ "ema": ema }));
        let (straight, stopped) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (_, expected, _) = run(&plan, straight.path(), None, None);
        let (outcome, _, _) = run(&plan, stopped.path(), None, Some(5));
        assert_eq!(outcome.unwrap(), Outcome::Stopped);
        let (outcome, resumed, _) = run(&plan, stopped.path(), None, None);
        assert_eq!(outcome.unwrap(), Outcome::Finished);
        assert_eq!(expected.weight(), resumed.weight());
        assert_ne!(expected.weight(), Line::new().weight());
    }
}

#[test]
fn a_loss_that_is_no_number_goes_back_to_the_last_checkpoint_three_times_and_then_fails() {
    let folder = tempfile::tempdir().unwrap();
    // Two batches a step: batch 13 is in step 7, and step 4 was the last to be saved on schedule.
    let changes = json!({ "save": { "every": 4, "keep_last": 2, "keep_best": false } });
    let (outcome, line, watch) = run(&plan(10, changes), folder.path(), Some(13), None);
    let told: Vec<(usize, usize, f64)> = watch.events.iter().filter_map(rolled_back).collect();
    assert_eq!(told, [(7, 4, 0.15), (7, 4, 0.075), (7, 4, 0.0375)]);
    let Err(
        error @ Error::NotFinite {
            step: 7,
            rollbacks: 3,
            ..
        },
    ) = outcome
    else {
        panic!("{outcome:?}");
    };
    assert!(error.to_string().contains("last saved: step 4"), "{error}");
    assert!(line.weight().iter().all(|weight| weight.is_finite()));
}

fn rolled_back(event: &TrainEvent) -> Option<(usize, usize, f64)> {
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
fn the_newest_checkpoints_and_the_best_stay() {
    let folder = tempfile::tempdir().unwrap();
    run(
        &plan(20, json!({ "evaluate": { "every": 0, "batches": 0 } })),
        folder.path(),
        None,
        None,
    )
    .0
    .unwrap();
    let steps: Vec<usize> = Checkpoints::new(folder.path(), 2)
        .list()
        .unwrap()
        .iter()
        .map(|checkpoint| checkpoint.step)
        .collect();
    assert_eq!(steps, [16, 20]);
}
