//! Runs whose files were cut, changed, moved or lost, in this process: an engine adds nothing to it.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use models::{
    device::{DeviceKind, FoundDevice, dtype::Dtype},
    tasks::AnyRequest,
};
use tempfile::TempDir;

use super::*;
use crate::{
    host::Host,
    store::{run_file, run_state::RunStatus, runs},
};

/// Places of a file at which it is cut.
const PLACES: usize = 25;
/// The step after which the run of these tests is stopped, and the one it is planned to end at.
const STOPPED: usize = 4;
const STEPS: usize = 6;

/// A home with a tiny run that was stopped after four of six steps, saved after each second one.
struct Home {
    folder: TempDir,
    host: Host,
    run: Run,
}

impl Home {
    fn new(changes: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("animals.txt");
        let text: String = (0..300)
            .map(|at| format!("The cat saw {at} dogs.\n"))
            .collect();
        fs::write(&data, text).unwrap();
        let (host, _) = Host::open(Some(&folder.path().join("home"))).unwrap();
        let run = start(&host, &data, changes);
        train_until(&run, STOPPED, false).unwrap();
        Self { folder, host, run }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("animals.txt")
    }

    /// Replaces words in the plan's file.
    fn edit(&self, from: &str, to: &str) {
        let path = self.run.plan_file();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    fn newest(&self) -> PathBuf {
        let names = self.run.checkpoint_names();
        self.run.checkpoints().join(names.last().unwrap())
    }
}

fn start(host: &Host, data: &Path, changes: &[&str]) -> Run {
    let files = format!("data.files=[{}]", data.display());
    let steps = format!("steps={STEPS}");
    let mut asked = vec![
        "name=animals",
        &files,
        &steps,
        "scratch.preset=nano",
        "scratch.vocab_size=270",
        "scratch.config={hidden_size: 8, intermediate_size: 16, num_hidden_layers: 1, num_attention_heads: 1, \
         num_key_value_heads: 1, head_dim: 8}",
        "batch={rows: 2, length: 16, accumulate: 1}",
        "evaluate={every: 0}",
        "sample={every: 0, tokens: 1}",
        "save={every: 2, keep_last: 2}",
        "device=cpu",
    ];
    asked.extend(changes);
    let asked: Vec<String> = asked.into_iter().map(str::to_owned).collect();
    let request = run_file::set(AnyRequest::default(), &asked).unwrap();
    runs::create(&host.paths, &host.plan(request).unwrap()).unwrap()
}

/// Trains until a step is done, and returns what happened.
fn train_until(run: &Run, step: usize, force: bool) -> Result<Vec<TrainEvent>> {
    let (done, mut events) = (Cell::new(0), Vec::new());
    let mut show = |recorded: RecordedEvent| {
        if let TrainEvent::Stepped { step, .. } = recorded.event {
            done.set(step);
        }
        events.push(recorded.event);
    };
    let control = RunControl {
        pause: &|| false,
        why_pause: &|| None,
        stop: &|| done.get() >= step,
        force,
    };
    train(run, &mut show, control)?;
    Ok(events)
}

/// What was warned of.
fn warnings(events: &[TrainEvent]) -> Vec<&str> {
    let messages = events.iter().filter_map(|event| match event {
        TrainEvent::Warned { message } => Some(message.as_str()),
        _ => None,
    });
    messages.collect()
}

/// Every file below a folder with what is in it, but for the lock and what an engine writes beside the events.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut contents = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => contents.extend(self::contents(&path)),
            false if path.ends_with("lock") => {}
            false => drop(contents.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    contents
}

/// Puts everything back to what it was.
fn put_back(folder: &Path, contents: &BTreeMap<PathBuf, Vec<u8>>) {
    fs::remove_dir_all(folder).unwrap();
    for (path, bytes) in contents {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_run_with_a_file_cut_anywhere_is_listed_goes_on_and_loses_nothing() {
    let home = Home::new(&[]);
    let (run, newest) = (&home.run, home.newest());
    let whole = contents(&run.folder);
    let plan = run.plan().unwrap();
    assert!(whole.len() > 15, "{:?}", whole.keys());
    for (path, bytes) in &whole {
        let places = (0..bytes.len()).step_by(bytes.len().div_ceil(PLACES).max(1));
        for (index, at) in places.enumerate() {
            let name = path.strip_prefix(&run.folder).unwrap().display();
            let what = format!("`{name}` cut at {at} of {}", bytes.len());
            fs::write(path, &bytes[..at]).unwrap();
            let cut = contents(&run.folder);

            assert_eq!(
                runs::list(&home.host.paths),
                std::slice::from_ref(run),
                "{what}"
            );
            let state = run.state().unwrap();
            assert_eq!((state.step, state.steps), (STOPPED, STEPS), "{what}");
            assert!(state.saved && state.problem.is_none(), "{what}");
            assert_eq!(run.plan().unwrap(), plan, "{what}");
            let talks_to = run.best_checkpoint().unwrap();
            let is_newest = path.starts_with(&newest);
            assert_eq!(talks_to != newest, is_newest, "{what}");
            let file = path.file_name().unwrap().to_string_lossy();
            if is_newest || (file == "run.yaml" && run.known_plan().unwrap().damage.is_some()) {
                let said = state.damage.iter().any(|it| it.contains(&*file));
                assert!(said, "{what}: {:?}", state.damage);
            }
            assert!(
                contents(&run.folder) == cut,
                "{what}: looking changed something"
            );

            // Training is dearer, so it continues after some of them.
            if index % 8 == 3 {
                let events = train_until(run, STEPS, false).unwrap();
                assert!(
                    matches!(events.last(), Some(TrainEvent::Finished { .. })),
                    "{what}"
                );
                assert_eq!(run.state().unwrap().status, RunStatus::Finished, "{what}");
                let after: Vec<Vec<u8>> = contents(&run.folder).into_values().collect();
                if is_newest || (file == "run.yaml" && !state.damage.is_empty()) {
                    assert!(!warnings(&events).is_empty(), "{what}");
                    let kept = after.iter().any(|it| *it == bytes[..at]);
                    assert!(kept, "{what}: the damaged file is gone");
                }
            }
            put_back(&run.folder, &whole);
        }
    }
}

#[test]
fn a_run_without_its_plan_or_its_events_is_known_by_its_checkpoint() {
    let home = Home::new(&[]);
    let run = &home.run;
    let plan = run.plan().unwrap();
    fs::remove_file(run.plan_file()).unwrap();
    fs::remove_file(run.events_file()).unwrap();
    assert_eq!(runs::list(&home.host.paths), std::slice::from_ref(run));
    let state = run.state().unwrap();
    assert_eq!(
        (state.step, state.steps, state.status),
        (STOPPED, STEPS, RunStatus::Interrupted)
    );
    assert_eq!(
        state.damage,
        [
            "`run.yaml` is missing, so the plan is the one that was saved with step 4",
            "`events.jsonl` is missing or empty; that step 4 is done says the newest checkpoint"
        ]
    );
    fs::write(run.plan_file(), [0, 159, 146, 150]).unwrap();
    let events = train_until(run, STEPS, false).unwrap();
    assert!(warnings(&events)[0].ends_with("the damaged one is `run.yaml.damaged` now"));
    assert_eq!(run_file::read_plan(&run.plan_file()).unwrap(), plan);
    assert_eq!(run.state().unwrap().damage, Vec::<String>::new());

    // Without a checkpoint nobody knows the plan.
    fs::remove_dir_all(run.checkpoints()).unwrap();
    fs::write(run.plan_file(), "").unwrap();
    let state = run.state().unwrap();
    assert_eq!(state.status, RunStatus::Failed);
    let problem = state.problem.unwrap();
    assert!(problem.ends_with("no checkpoint has the plan"), "{problem}");
    assert!(run.best_checkpoint().is_err() && train_until(run, STEPS, false).is_err());
    assert_eq!(fs::read(run.plan_file()).unwrap(), b"");
}

#[test]
fn broken_events_are_left_out_and_counted_and_a_run_goes_on_after_the_highest_number() {
    let home = Home::new(&[]);
    let path = home.run.events_file();
    let text = fs::read_to_string(&path).unwrap();
    let last = home.run.events().unwrap().last().unwrap().number;
    let mut lines: Vec<&str> = text.lines().collect();
    (lines[1], lines[3]) = ("garbage", &lines[3][..30]);
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let state = home.run.state().unwrap();
    assert_eq!(
        state.damage,
        ["2 lines of `events.jsonl` can’t be read and are left out"]
    );
    train_until(&home.run, STEPS, false).unwrap();
    let after = home.run.events().unwrap();
    assert!(after.iter().any(|it| it.number == last + 1));
    assert!(fs::read_to_string(&path).unwrap().contains("garbage\n"));
}

#[test]
fn data_that_changed_or_moved_is_noticed_by_what_is_in_it() {
    let home = Home::new(&[]);
    let (run, data) = (&home.run, home.data());
    let text = fs::read_to_string(&data).unwrap();
    let refused = || train_until(run, STEPS, false).unwrap_err();

    fs::write(&data, text.replace("The cat", "The cow")).unwrap();
    let error = refused();
    let begins = "`animals.txt` is not what it was when the run began: it had ";
    assert!(error.message.starts_with(begins), "{error}");
    let state = run.state().unwrap();
    assert_eq!(
        (state.status, state.problem, state.hint, state.force_helps),
        (RunStatus::Failed, Some(error.message), error.hint, true)
    );

    let elsewhere = home.folder.path().join("moved.txt");
    fs::remove_file(&data).unwrap();
    assert!(
        refused()
            .message
            .starts_with("`animals.txt` is missing, which had ")
    );
    // Where it is now is as good, once the plan says so.
    fs::write(&elsewhere, &text).unwrap();
    home.edit("animals.txt", "moved.txt");
    let events = train_until(run, STOPPED + 1, false).unwrap();
    assert_eq!(warnings(&events), [""; 0]);

    fs::write(&elsewhere, text.replace("dogs", "pigs")).unwrap();
    assert!(
        refused()
            .message
            .starts_with("`moved.txt` is not what it was")
    );
    let events = train_until(run, STEPS, true).unwrap();
    let reported = warnings(&events);
    assert!(
        reported[0].starts_with("`moved.txt` is not what it was"),
        "{reported:?}"
    );
    assert_eq!(reported[1], "the data is read from its beginning");
    assert!(matches!(
        events.last(),
        Some(TrainEvent::Finished { step: STEPS, .. })
    ));
}

#[test]
fn a_model_that_changed_is_noticed_by_its_file() {
    let base = Home::new(&[]);
    let model = base.folder.path().join("model");
    fs::rename(base.newest(), &model).unwrap();
    let name = format!("model={}", model.display());
    let home = Home::new(&["scratch=null", &name, "method=lora"]);
    let config = model.join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    // Written again, with the same in it.
    fs::write(&config, &text).unwrap();
    train_until(&home.run, STOPPED + 1, false).unwrap();
    fs::write(&config, text + " ").unwrap();
    let error = train_until(&home.run, STEPS, false).unwrap_err();
    assert!(
        error
            .message
            .starts_with("`config.json` is not what it was"),
        "{error}"
    );
    fs::remove_file(&config).unwrap();
    let error = train_until(&home.run, STEPS, false).unwrap_err();
    assert!(
        error.message.contains("`config.json` is missing"),
        "{error}"
    );
}

#[test]
fn settings_that_changed_are_named_and_the_run_goes_on_where_what_was_saved_fits() {
    let home = Home::new(&["learning_rate=0.0002"]);
    let run = &home.run;
    run.extend(STEPS + 2).unwrap();
    home.edit("learning_rate: 0.0002", "learning_rate: 0.0001");
    home.edit("keep_last: 2", "keep_last: 3");
    let events = train_until(run, STEPS, false).unwrap();
    assert_eq!(
        warnings(&events),
        [
            "`learning_rate` was 0.0002 when step 4 was saved, and is 0.0001 now; `save.keep_last` was 2, and is 3"
        ]
    );

    home.edit("hidden_size: 8", "hidden_size: 16");
    let error = train_until(run, STEPS + 1, true).unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.hint.as_deref()),
        (
            "`scratch.config.hidden_size` was 8 when step 6 was saved, and is 16 now, and what was saved does not fit \
             that",
            Some(
                "put `scratch.config.hidden_size` back to 8 in the run’s `run.yaml`, or start a new run"
            )
        )
    );
    home.edit("hidden_size: 16", "hidden_size: 8");
    home.edit("length: 16", "length: 12");
    let error = train_until(run, STEPS + 1, false).unwrap_err();
    assert!(
        error.message.starts_with("`batch.length` was 16"),
        "{error}"
    );
    let events = train_until(run, STEPS + 1, true).unwrap();
    assert!(warnings(&events)[0].starts_with("`batch.length` was 16"));
}

#[test]
fn a_run_in_bf16_goes_on_only_on_a_processor_that_multiplies_it() {
    let mut plan = Home::new(&[]).run.plan().unwrap().run;
    let on = |plan: &RunPlan, multiplies_bf16: bool| {
        let device = FoundDevice {
            multiplies_bf16,
            ..FoundDevice::named(DeviceKind::Cpu, 0, "a processor")
        };
        let choice = Choice {
            device,
            reason: String::new(),
            warnings: Vec::new(),
        };
        stay_on_device(plan, &choice)
    };
    on(&plan, false).unwrap();
    plan.dtype.compute = Dtype::Bf16;
    on(&plan, true).unwrap();
    let refused = on(&plan, false).unwrap_err();
    assert_eq!(
        refused.message,
        "the run computes in bf16, and this processor has no products of bf16"
    );
}
