//! A kind of learning that only this test knows goes all the way that every other goes: the straight line through points in a
//! CSV file, asked for, planned, estimated, trained, made smaller, killed and resumed.

use std::{
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use candle_core::{DType, Device, Tensor};
use models::{
    Error, Result,
    checkpoint::keep::Checkpoints,
    data::source::places,
    device::{self, Checked, DeviceKind, FoundDevice},
    ops::linear::linear,
    parameters::{Parameter, Parameters},
    tape::{Tape, Value},
    train::{
        Facts, Kind, Measuring, Observer, Problem, Resolved, TrainEvent, TrainPlan, TrainRequest,
        TrainState,
        estimate::{Estimate, MemoryGroup, MemoryPart, program_bytes},
        exhibit::Exhibit,
        forecast::{Forecast, trial},
        kind::{Basis, ONE_DEVICE, RunPlace, Subject},
        memory_fallback::{Allowed, next_fallback},
        plan::Chosen,
        resolve,
        resolve::Resolver,
        task::{BatchSize, Evaluation, Metric, Task},
        train,
        tree::Part,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::train::{Watch, steps_taken};

/// A line through points: `x,y` in each row of a file.
enum Line {}

/// What is asked, and, since nothing of it is chosen, what is planned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct LineRequest {
    data: Files,
    /// How strongly distances count.
    weight: Option<f64>,
    /// How many points at once the memory of a made-up machine holds.
    room_for: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Files {
    files: Vec<PathBuf>,
}

impl Part for LineRequest {}

impl Kind for Line {
    const NAME: &'static str = "line";
    const UNIT: &'static str = "points";

    type Request = LineRequest;
    type Plan = LineRequest;
    type Facts = usize;
    type Read = Vec<[f32; 2]>;
    type Shape = ();
    type Task = LineTask;

    fn files(request: &mut LineRequest) -> &mut Vec<PathBuf> {
        &mut request.data.files
    }

    fn data(plan: &LineRequest) -> &[PathBuf] {
        &plan.data.files
    }

    fn resolve(resolver: &mut Resolver<Self>) -> (LineRequest, Basis) {
        let (mut plan, rows) = (resolver.request.task.clone(), resolver.facts.task);
        let usual = || Chosen::new(1.0, "a distance is a distance");
        plan.weight = Some(resolver.take("weight", &plan.weight, usual));
        let basis = Basis {
            length: 1,
            rows,
            held_out_rows: rows,
            units_per_step: 8,
            batch_rows: None,
            is_normalized: false,
            why_one_device: Some(ONE_DEVICE),
            epochs: Chosen::new(4.0, "a line is soon found"),
            learning_rate: Chosen::new(0.1, "a line is smooth"),
            weight_decay: Chosen::new(0.0, "two numbers can’t be too many"),
            beta2: Chosen::new(0.99, "the usual value"),
            usual: Vec::new(),
        };
        (plan, basis)
    }

    fn shape(_: &LineRequest, _: &usize) -> Option<()> {
        Some(())
    }

    fn read_shape(_: &LineRequest) -> Result<()> {
        Ok(())
    }

    fn estimate(plan: &TrainPlan<LineRequest>, (): &()) -> Estimate {
        let points = (plan.run.batch.rows * 100_000_000) as u64;
        let program = program_bytes(plan.run.device, points);
        Estimate {
            parameters: 2,
            trainable_parameters: 2,
            parts: vec![
                MemoryPart::new(MemoryGroup::Activations, "points", points),
                MemoryPart::new(MemoryGroup::Rest, "program", program),
            ],
            operations: 12.0 * plan.run.steps as f64,
        }
    }

    fn read(
        request: &TrainRequest<LineRequest>,
        _: Option<&Arc<Self::Read>>,
    ) -> Result<Option<Arc<Self::Read>>> {
        let file = request.task.data.files.first();
        file.map(|file| points(file).map(Arc::new)).transpose()
    }

    fn facts(_: &TrainRequest<LineRequest>, read: Option<&Self::Read>) -> Result<usize> {
        Ok(read.map_or(0, Vec::len))
    }

    fn open(plan: &TrainPlan<LineRequest>, place: &RunPlace) -> Result<LineTask> {
        let at = place.device;
        let mut parameters = Parameters::default();
        let zeros = Tensor::zeros((1, 2), DType::F32, at)?;
        parameters.insert(Parameter::new("line.weight", &zeros, true)?);
        Ok(LineTask {
            parameters,
            points: points(&plan.task.data.files[0])?,
            rows: plan.run.batch.rows,
            room_for: plan.task.room_for,
            carried: Carried::default(),
            before: 0.0,
        })
    }

    fn sources(plan: &LineRequest) -> BTreeMap<String, PathBuf> {
        places(&plan.data.files)
    }

    fn subject(_: &LineRequest) -> Subject {
        Subject::default()
    }
}

/// What goes from step to step.
#[derive(Default, Serialize, Deserialize)]
struct Carried {
    next: usize,
    /// A running mean of the losses, which each loss moves.
    usual: f64,
}

struct LineTask {
    parameters: Parameters,
    points: Vec<[f32; 2]>,
    rows: usize,
    room_for: Option<usize>,
    carried: Carried,
    before: f64,
}

impl LineTask {
    /// What the line says of points, its distances from them, and the sum of their squares.
    fn measure(&self, tape: Option<&Tape>, points: &[[f32; 2]]) -> Result<(Value, Tensor, Tensor)> {
        let points = Tensor::from_iter(points.iter().flatten().copied(), &Device::Cpu)?;
        let points = points.reshape(((), 2))?;
        let (x, y) = (points.narrow(1, 0, 1)?, points.narrow(1, 1, 1)?);
        let x = Value::constant(Tensor::cat(&[&x, &x.ones_like()?], 1)?);
        let weight = self.parameters.get("line.weight").unwrap().on(tape);
        let found = linear(&x, &weight, None)?;
        let distances = (found.tensor() - y)?;
        let sum = distances.sqr()?.sum_all()?;
        Ok((found, distances, sum))
    }
}

impl Task for LineTask {
    type Batch = Vec<[f32; 2]>;

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn next_batch(&mut self) -> Result<Self::Batch> {
        let at = |row| self.points[(self.carried.next + row) % self.points.len()];
        let batch = (0..self.rows).map(at).collect();
        self.carried.next += self.rows;
        Ok(batch)
    }

    fn size(&self, batch: &Self::Batch) -> BatchSize {
        BatchSize {
            targets: batch.len(),
            units: batch.len(),
        }
    }

    fn loss(&mut self, tape: &Tape, batch: &Self::Batch, targets: f64) -> Result<Value> {
        if self.room_for.is_some_and(|room| batch.len() > room) {
            let bytes = 1_000_000_000 * batch.len();
            let message = format!("memory allocation of {bytes} bytes failed");
            return Err(candle_core::Error::Msg(message).into());
        }
        let (found, distances, sum) = self.measure(Some(tape), batch)?;
        let loss = (sum / targets)?;
        self.carried.usual += 0.1 * (f64::from(loss.to_scalar::<f32>()?) - self.carried.usual);
        Ok(Value::record(loss, &[&found], move |g| {
            Ok(vec![Some(
                (distances.broadcast_mul(&g)? * (2.0 / targets))?,
            )])
        }))
    }

    fn begin_losses(&mut self) -> Result<()> {
        self.before = self.carried.usual;
        Ok(())
    }

    fn undo_losses(&mut self) -> Result<()> {
        self.carried.usual = self.before;
        Ok(())
    }

    fn evaluate(&mut self, _: usize, _: &mut Measuring) -> Result<Option<Evaluation>> {
        let (_, _, sum) = self.measure(None, &self.points)?;
        let loss = f64::from(sum.to_scalar::<f32>()?) / self.points.len() as f64;
        let near = Metric {
            name: "closeness".to_owned(),
            label: "closeness".to_owned(),
            value: (-loss).exp(),
            higher_is_better: true,
            of: None,
        };
        Ok(Some(Evaluation {
            loss,
            metrics: vec![near],
            targets: self.points.len(),
        }))
    }

    fn show(&mut self) -> Result<Vec<Exhibit>> {
        Ok(vec![Exhibit::Table {
            title: "the line".to_owned(),
            columns: vec!["slope".to_owned(), "offset".to_owned()],
            rows: vec![weights(self).iter().map(f32::to_string).collect()],
        }])
    }

    fn state(&self) -> Json {
        json!(self.carried)
    }

    fn restore(&mut self, state: &Json) -> Result<()> {
        let read = Carried::deserialize(state);
        self.carried = read.map_err(|error| Error::Data(error.to_string()))?;
        Ok(())
    }
}

fn points(file: &Path) -> Result<Vec<[f32; 2]>> {
    let text = fs::read_to_string(file).map_err(Error::file("read the points", file))?;
    let point = |line: &str| {
        let (x, y) = line.split_once(',')?;
        Some([x.trim().parse().ok()?, y.trim().parse().ok()?])
    };
    let wrong = |line| Error::format(file, format!("`{line}` is no point"));
    let lines = text.lines();
    lines
        .map(|line| point(line).ok_or_else(|| wrong(line)))
        .collect()
}

fn weights(task: &LineTask) -> Vec<f32> {
    let weight = task.parameters.get("line.weight").unwrap().tensor();
    weight.flatten_all().unwrap().to_vec1().unwrap()
}

/// Points on y = 3 x - 1, in a file.
fn file_of_points(folder: &Path) -> PathBuf {
    let points = (0..48).map(|at| f64::from(at) / 24.0 - 1.0);
    let lines: Vec<String> = points.map(|x| format!("{x}, {}", 3.0 * x - 1.0)).collect();
    let path = folder.join("points.csv");
    fs::write(&path, lines.join("\n")).unwrap();
    path
}

/// The plan of a request for a line, with so much memory free.
fn planned(folder: &Path, changes: Json, free_bytes: Option<u64>) -> Resolved<LineRequest> {
    let mut tree = json!({"data": {"files": [file_of_points(folder)]}, "batch": {"accumulate": 2}});
    tree.as_object_mut()
        .unwrap()
        .extend(changes.as_object().unwrap().clone());
    let request = TrainRequest::<LineRequest>::read(&tree).unwrap();
    let read = Line::read(&request, None).unwrap();
    let mut facts = on_a_processor(Line::facts(&request, read.as_deref()).unwrap());
    facts.device.device.free_bytes = free_bytes;
    resolve::<Line>(&request, &facts).unwrap()
}

/// What a plan for a processor is made from.
pub(crate) fn on_a_processor<F>(task: F) -> Facts<F> {
    Facts {
        task,
        device: device::Choice {
            device: FoundDevice::named(DeviceKind::Cpu, 0, "a processor"),
            reason: "there is no other".to_owned(),
            warnings: Vec::new(),
        },
        checked: Checked::default(),
    }
}

/// Changes fields of a request: those of a section that is there one by one, all others as a whole.
pub(crate) fn change(tree: &mut Json, changes: &Json) {
    for (name, value) in changes.as_object().unwrap() {
        let section = &mut tree[name];
        match (section.as_object_mut(), value) {
            (Some(section), Json::Object(changes)) => section.extend(changes.clone()),
            _ => *section = value.clone(),
        }
    }
}

/// Dies in the middle of a run, without a word.
pub(crate) struct Killed(pub(crate) usize);

impl Observer for Killed {
    fn event(&mut self, event: TrainEvent) {
        assert_ne!(event.step(), Some(self.0), "killed");
    }
}

/// Trains from the newest checkpoint in a folder, to the end.
pub(crate) fn run_from_newest<K: Kind>(
    plan: &TrainPlan<K::Plan>,
    folder: &Path,
    observer: &mut dyn Observer,
) -> K::Task {
    try_from_newest::<K>(plan, folder, observer).unwrap()
}

/// Trains from the newest checkpoint in a folder.
fn try_from_newest<K: Kind>(
    plan: &TrainPlan<K::Plan>,
    folder: &Path,
    observer: &mut dyn Observer,
) -> Result<K::Task> {
    let place = RunPlace {
        folder,
        ..RunPlace::bare(&Device::Cpu)
    };
    let mut task = K::open(plan, &place)?;
    let checkpoints = Checkpoints::new(folder, plan.run.save.keep_last);
    let mut state = TrainState::new(plan, &task)?;
    if let Some(newest) = checkpoints.newest()? {
        state.restore(&mut task, &newest.path)?;
    }
    train(&plan.run, &mut task, &mut state, &checkpoints, observer)?;
    Ok(task)
}

/// Trains from the newest checkpoint in a folder. Returns the weights and what else is in the last checkpoint.
fn run(
    plan: &TrainPlan<LineRequest>,
    folder: &Path,
    observer: &mut dyn Observer,
) -> (Vec<f32>, Json) {
    let task = run_from_newest::<Line>(plan, folder, observer);
    (weights(&task), task.state())
}

#[test]
fn a_kind_known_only_here_is_planned_with_reasons_an_estimate_and_ways_to_fit() {
    let folder = tempfile::tempdir().unwrap();
    let resolved = planned(folder.path(), json!({"steps": 12, "weight": 1.0}), None);
    let why = |field: &str| {
        let reason = resolved
            .reasons
            .iter()
            .find(|it| it.field == field)
            .unwrap();
        (reason.why.as_str(), reason.automatic)
    };
    assert_eq!(why("weight"), ("Your setting.", false));
    assert_eq!(why("learning_rate"), ("A line is smooth.", true));
    let text = serde_json::to_value(&resolved.plan).unwrap();
    assert_eq!(
        serde_json::from_value::<TrainPlan<LineRequest>>(text).unwrap(),
        resolved.plan
    );

    let rows = resolved.plan.run.batch.rows;
    let needed = resolved.estimate.unwrap().bytes();
    let less = planned(folder.path(), json!({"steps": 12}), Some(needed));
    let batch = &less.plan.run.batch;
    assert!(batch.rows < rows, "{batch:?}");
    let fit = planned(
        folder.path(),
        json!({"batch": {"rows": rows}}),
        Some(needed),
    )
    .fit
    .unwrap();
    assert!(
        fit.fixes[0]
            .changes
            .iter()
            .any(|it| it.field == "batch.rows"),
        "{fit:?}"
    );

    let unknown = TrainRequest::<LineRequest>::read(&json!({"data": {"fields": []}}));
    let problem = "is not a setting".to_owned();
    assert_eq!(
        unknown,
        Err(Problem {
            field: "data.fields".to_owned(),
            problem
        })
    );
}

#[test]
fn a_kind_known_only_here_is_tried_and_tells_what_happens() {
    let folder = tempfile::tempdir().unwrap();
    let plan = planned(
        folder.path(),
        json!({"steps": 200, "schedule": {"kind": "constant"}}),
        None,
    )
    .plan;
    let mut events = Vec::new();
    let (weights, _) = run(&plan, &folder.path().join("saved"), &mut events);
    assert!(
        (weights[0] - 3.0).abs() < 0.1 && (weights[1] + 1.0).abs() < 0.1,
        "{weights:?}"
    );
    let last = events.iter().rev().find_map(|event| match event {
        TrainEvent::Evaluated { metrics, .. } => Some(metrics.clone()),
        _ => None,
    });
    let last = last.unwrap();
    let last = last.first().unwrap();
    assert!(last.higher_is_better && last.value > 0.9, "{last:?}");
    let shows =
        |event: &TrainEvent| matches!(event, TrainEvent::Showed(it) if it.exhibits.len() == 1);
    let shown: Vec<_> = events.iter().filter(|event| shows(event)).collect();
    let steps: Vec<_> = shown.iter().filter_map(|event| event.step()).collect();
    assert_eq!(steps, [0, 10, 25, 40, 50, 80, 100, 120, 160, 200]);

    let needed = |rows: usize, length: usize| 1000 * (rows * length) as u64;
    let mut task = Line::open(&plan, &RunPlace::bare(&Device::Cpu)).unwrap();
    let mut save = |_: &mut TrainState, _: &LineTask| Ok(None);
    let tried = trial(&plan, &mut task, &needed, 0.0, &mut save, &|| false)
        .unwrap()
        .unwrap();
    let forecast = Forecast::new(&plan.run, &needed, &tried).unwrap();
    assert!(forecast.whole && forecast.seconds > 0.0, "{forecast:?}");
}

#[test]
fn a_run_that_is_stopped_shows_itself_once_as_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let plan = planned(folder.path(), json!({"steps": 200}), None).plan;
    for (stop, expected) in [(30, vec![0, 10, 25, 30]), (25, vec![0, 10, 25])] {
        let saved = folder.path().join(format!("stopped at {stop}"));
        let mut watch = Watch::until(move |events| steps_taken(events) >= stop);
        run(&plan, &saved, &mut watch);
        let shown = watch.all(|event| match event {
            TrainEvent::Showed(it) => Some(it.step),
            _ => None,
        });
        assert_eq!(shown, expected);
        assert!(matches!(watch.events.last(), Some(TrainEvent::Stopped { step }) if *step == stop));
    }
}

#[test]
fn a_kind_known_only_here_resumes_after_a_kill_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let changes = json!({"steps": 12, "save": {"every": 3}, "evaluate": {"every": 0}});
    let plan = planned(folder.path(), changes, None).plan;
    let straight = run(&plan, &folder.path().join("straight"), &mut Vec::new());
    let saved = folder.path().join("killed");
    let killed = catch_unwind(AssertUnwindSafe(|| run(&plan, &saved, &mut Killed(8))));
    assert!(killed.is_err());
    let newest = Checkpoints::new(&saved, 2).newest().unwrap().unwrap();
    assert_eq!(newest.step, 6);
    assert_eq!(run(&plan, &saved, &mut Vec::new()), straight);
}

#[test]
fn a_kind_known_only_here_gives_up_rows_where_memory_runs_out_with_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let changes = json!({"steps": 12, "save": {"every": 3}, "batch": {"rows": 8, "accumulate": 1}});
    let enough = planned(folder.path(), changes, None).plan;
    let mut plan = enough.clone();
    plan.task.room_for = Some(2);
    let saved = folder.path().join("scarce");
    let mut events = Vec::new();
    let mut given_up = Vec::new();
    let task = loop {
        let error = match try_from_newest::<Line>(&plan, &saved, &mut events) {
            Ok(task) => break task,
            Err(error) => error,
        };
        let said = "memory ran out in step 1: memory allocation of";
        assert!(
            matches!(&error, Error::OutOfMemory(message) if message.starts_with(said)),
            "{error:?}"
        );
        let fallback = next_fallback(&plan.run, &Allowed::default()).unwrap();
        given_up.push((fallback.plan.batch.rows, fallback.plan.batch.accumulate));
        plan.run = fallback.plan;
    };
    assert_eq!(given_up, [(4, 2), (2, 4)]);
    let (as_usual, _) = run(&enough, &folder.path().join("enough"), &mut Vec::new());
    for (scarce, usual) in weights(&task).iter().zip(&as_usual) {
        assert!((scarce - usual).abs() < 1e-5, "{scarce} {usual}");
    }
}
