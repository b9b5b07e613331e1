//! Probes as runs: planned, stopped, killed, continued, and refused what they don't read.

use std::{
    collections::BTreeMap,
    fs, panic,
    path::{Path, PathBuf},
};

use models::{
    checkpoint::keep::Checkpoints,
    tasks::{
        AnyPlan, AnyRequest, TaskPlan, TaskRequest,
        kinds::Probe,
        probe::{
            folder::{PROBES, Probes, WEIGHTS},
            request::ProbePlan,
            states::States,
            task::STATES,
        },
    },
    train::{
        Kind, Observer, Problems, RunPlace, TrainEvent, TrainPlan, TrainRequest, TrainState,
        forecast::{self, Forecast},
        plan::Resolved,
        resolve,
        tree::Part,
    },
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    capture,
    kind::{Killed, on_a_processor, run_from_newest},
};

/// A model, labelled texts, and what a run of them is asked.
pub(crate) struct Made {
    model: TempDir,
    folder: TempDir,
    data: PathBuf,
}

impl Made {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            model: capture::model(json!({})),
            data: capture::data(folder.path(), 60),
            folder,
        }
    }

    fn resolve(&self, more: Json) -> Result<Resolved<ProbePlan>, Problems> {
        let mut tree = json!({
            "task": "probe", "model": self.model.path(), "data": {"files": [self.data]}, "device": "cpu",
        });
        for (field, value) in more.as_object().unwrap() {
            tree[field] = value.clone();
        }
        let asked = AnyRequest::read(&tree).unwrap();
        let TaskRequest::Probe(task) = asked.task else {
            panic!("the request names probes");
        };
        let request = TrainRequest {
            run: asked.run,
            task,
        };
        let read = Probe::read(&request, None).unwrap();
        let facts = on_a_processor(Probe::facts(&request, read.as_deref()).unwrap());
        resolve::<Probe>(&request, &facts)
    }

    pub(crate) fn plan(&self, more: Json) -> TrainPlan<ProbePlan> {
        self.resolve(more).unwrap().plan
    }
}

/// The probes of the newest checkpoint, byte for byte.
fn learned(folder: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let newest = Checkpoints::new(folder, 2).newest().unwrap().unwrap();
    [PROBES, WEIGHTS]
        .map(|name| (name, fs::read(newest.path.join(name)).unwrap()))
        .into()
}

/// Asks to stop once so many steps are done.
struct StopAt(usize, usize);

impl Observer for StopAt {
    fn event(&mut self, event: TrainEvent) {
        self.1 = event.step().unwrap_or(self.1);
    }

    fn should_stop(&self) -> bool {
        self.1 >= self.0
    }
}

#[test]
fn a_run_of_probes_reads_texts_then_learns_each_site_then_judges() {
    let made = Made::new();
    let resolved = made.resolve(json!({})).unwrap();
    let plan = &resolved.plan;
    // 60 texts, 16 a step; embed, three blocks and what the head reads; the verdict.
    assert_eq!(plan.run.steps, 4 + 5 + 1);
    let why = |field: &str| resolved.reasons.iter().any(|it| it.field == field);
    assert!(why("probe.position") && why("steps") && why("save.every"));
    assert!(!why("learning_rate") && !why("optimizer.kind") && !why("batch.rows"));

    let folder = made.folder.path().join("saved");
    let mut events = Vec::new();
    let task = run_from_newest::<Probe>(plan, &folder, &mut events);
    let measured: Vec<usize> = events
        .iter()
        .filter(|it| matches!(it, TrainEvent::Evaluated { .. }))
        .filter_map(TrainEvent::step)
        .collect();
    assert_eq!(measured, [5, 6, 7, 8, 9, 10]);
    let texts: usize = events
        .iter()
        .filter_map(|it| match it {
            TrainEvent::Stepped {
                step: 1..=4,
                units,
                loss,
                learning_rate,
                gradient_norm,
                ..
            } => {
                assert_eq!((*loss, *learning_rate, *gradient_norm), (None, None, None));
                Some(*units)
            }
            _ => None,
        })
        .sum();
    assert_eq!(texts, 60);
    let newest = Checkpoints::new(&folder, 2).newest().unwrap().unwrap();
    let probes = Probes::open(&newest.path).unwrap();
    let states = States::open(&folder.join(STATES)).unwrap();
    probes.check(states.about()).unwrap();
    assert_eq!(probes.about.probes.len(), 2 * 5);
    assert_eq!(probes.about.report.as_ref(), task.report());
}

#[test]
fn a_run_of_probes_that_was_killed_or_stopped_anywhere_ends_with_the_same_bytes() {
    let made = Made::new();
    let plan = made.plan(json!({"save": {"every": 1}}));
    let straight = made.folder.path().join("straight");
    run_from_newest::<Probe>(&plan, &straight, &mut Vec::new());
    let expected = learned(&straight);
    for at in [1, 3, 4, 6, 9] {
        let folder = made.folder.path().join(format!("killed at {at}"));
        let killed = panic::catch_unwind(|| {
            run_from_newest::<Probe>(&plan, &folder, &mut Killed(at));
        });
        assert!(killed.is_err());
        run_from_newest::<Probe>(&plan, &folder, &mut StopAt(at + 1, 0));
        run_from_newest::<Probe>(&plan, &folder, &mut Vec::new());
        assert!(learned(&folder) == expected, "killed at step {at}");
    }
}

#[test]
fn states_that_were_captured_before_give_the_same_probes_without_the_model() {
    let made = Made::new();
    let whole = made.folder.path().join("whole");
    run_from_newest::<Probe>(&made.plan(json!({})), &whole, &mut Vec::new());
    let captured = Made {
        data: whole.join(STATES),
        ..made
    };
    let plan = captured.plan(json!({}));
    assert_eq!(plan.task.model, None);
    assert_eq!(plan.run.steps, 5 + 1);
    let again = captured.folder.path().join("again");
    run_from_newest::<Probe>(&plan, &again, &mut Vec::new());
    assert!(learned(&again) == learned(&whole));
    assert!(!again.join(STATES).exists());

    // Of the sites that have states, some.
    let few = captured.plan(json!({"probe": {"sites": ["block.2", "embed"]}}));
    let folder = captured.folder.path().join("few");
    run_from_newest::<Probe>(&few, &folder, &mut Vec::new());
    let newest = Checkpoints::new(&folder, 2).newest().unwrap().unwrap();
    let sites = Probes::open(&newest.path).unwrap().about.probes;
    let sites: Vec<String> = sites.iter().map(|it| it.site.to_string()).collect();
    assert_eq!(sites, ["embed", "embed", "block.2", "block.2"]);
}

#[test]
fn what_a_run_of_probes_does_not_read_is_refused_by_name_and_in_no_plan() {
    let made = Made::new();
    for (field, asked) in [
        ("learning_rate", json!({"learning_rate": 0.1})),
        ("optimizer.kind", json!({"optimizer": {"kind": "muon"}})),
        ("batch.rows", json!({"batch": {"rows": 4}})),
        ("steps", json!({"steps": 10})),
        ("probe.sites", json!({"probe": {"sites": ["block.7"]}})),
        ("probe.labels", json!({"probe": {"labels": ["neither"]}})),
        ("probe.penalties", json!({"probe": {"penalties": [0.0]}})),
        ("probe.position", json!({"probe": {"position": "tokens"}})),
    ] {
        let Problems(problems) = made.resolve(asked).unwrap_err();
        let fields: Vec<&str> = problems.iter().map(|it| it.field.as_str()).collect();
        assert_eq!(fields, [field], "{problems:?}");
    }
    let plan = made.plan(json!({}));
    let TrainPlan { run, task } = plan.clone();
    let any = AnyPlan {
        run,
        task: TaskPlan::Probe(task),
    };
    let tree = serde_json::to_value(&any).unwrap();
    for field in any.task.unread() {
        assert!(tree.get(field).is_none(), "{field}");
    }
    // A plan can be planned again, and read back.
    assert!(AnyRequest::read(&tree).is_err() || made.resolve(json!({})).unwrap().plan == plan);
    assert_eq!(serde_json::from_value::<AnyPlan>(tree).unwrap(), any);
}

#[test]
fn a_trial_of_probes_says_what_the_run_takes() {
    let made = Made::new();
    let plan = made.plan(json!({}));
    let place = RunPlace {
        device: &candle_core::Device::Cpu,
        learned_from: None,
        folder: &made.folder.path().join("trial"),
    };
    let mut task = Probe::open(&plan, &place).unwrap();
    let save = &mut |_: &mut TrainState, _: &_| panic!("nothing is saved");
    let trial = forecast::trial(&plan, &mut task, &|_, _| 0, 0.5, save, &|| false);
    let trial = trial.unwrap().unwrap();
    let found = Forecast::new(&plan.run, &|_, _| 0, &trial).unwrap();
    // Texts are read, and the last two of five sites are learned.
    assert_eq!(found.steps_tried, 3);
    assert!(found.seconds > 0.0 && found.whole && found.opening_seconds == 0.5);
    let of_steps = found.step_millis * plan.run.steps as f64 / 1e3;
    assert!((of_steps / found.seconds - 1.0).abs() < 1e-9);
    assert!(!place.folder.exists(), "nothing is kept");
    let mut task = Probe::open(&plan, &place).unwrap();
    let stopped = forecast::trial(&plan, &mut task, &|_, _| 0, 0.5, save, &|| true);
    assert_eq!(stopped.unwrap(), None);
}

#[test]
fn few_texts_are_cross_validated_unless_something_speaks_against_it() {
    let made = Made::new();
    let folds = |probe: Json| {
        let resolved = made.resolve(json!({"probe": probe})).unwrap();
        let why = resolved.reasons.iter().find(|it| it.field == "probe.folds");
        (resolved.plan.task.probe.folds, why.unwrap().why.clone())
    };
    let (count, why) = folds(json!({}));
    assert_eq!(count, 5);
    assert!(why.starts_with("The rarest label has"), "{why}");
    assert_eq!(folds(json!({"solver": "adamw"})).0, 0);
    assert_eq!(folds(json!({"folds": 0})).0, 0);
    assert_eq!(folds(json!({"folds": 3})).0, 3);
    for (probe, said) in [
        (json!({"folds": 2}), "from 3 to 10"),
        (json!({"folds": 11}), "from 3 to 10"),
        (
            json!({"folds": 5, "solver": "adamw"}),
            "stops by validation rows",
        ),
    ] {
        let problems = made.resolve(json!({"probe": probe})).unwrap_err();
        let problem = problems.to_string();
        assert!(
            problem.contains("probe.folds") && problem.contains(said),
            "{problem}"
        );
    }
}
