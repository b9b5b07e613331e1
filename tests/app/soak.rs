//! Runs that are killed, stopped and broken again and again, and what they arrive at.
//!
//! Short by default. `ANNEAL_SOAK_KILLS` and `ANNEAL_SOAK_FAULTS` make it long; docs/RELIABILITY.md has what came out.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Child,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use crate::{
    app::App,
    breaking::{of_kind, only_run},
    train::{checkpoint, events, losses, signal, tiny},
};

/// Steps that are certainly enough for each kill to find the run at work.
const STEPS_PER_KILL: usize = 75;
/// Its carry, average and vectors of puzzles are saved with the weights.
const PUZZLE_RUN: &str = "\
task: puzzle
data: {files: [puzzles]}
trm: {hidden_size: 16, num_heads: 1, halt_max_steps: 3}
batch: {rows: 4, accumulate: 1}
evaluate: {every: 200}
save: {every: 40, keep_last: 1, keep_best: false}
device: cpu
";
/// How long an engine may take to begin, on a machine that does much else.
const TIMEOUT: Duration = Duration::from_secs(120);

#[test]
fn a_new_model_killed_at_any_moment_arrives_at_the_losses_it_would_have_had() {
    check_kills(&[]);
}

#[test]
fn a_whole_model_killed_at_any_moment_arrives_at_the_losses_it_would_have_had() {
    check_kills(&["--method", "full"]);
}

#[test]
fn an_adapter_killed_at_any_moment_arrives_at_the_losses_it_would_have_had() {
    check_kills(&["--method", "lora"]);
}

#[test]
fn a_run_on_puzzles_killed_at_any_moment_arrives_at_what_it_would_have_had() {
    let kills = wanted_kills().div_ceil(3);
    let steps = (kills * STEPS_PER_KILL).max(450);
    let app = App::new();
    app.anneal("data build sudoku puzzles --size 4 --train 20 --held-out 5 --seed 1")
        .ended(0);
    app.file("run.yaml", &format!("{PUZZLE_RUN}steps: {steps}\n"));
    check_run(&app, &["train", "run.yaml", "--json"], [kills, steps]);
}

#[test]
fn runs_with_faults_at_random_moments_all_arrive() {
    check_faults(asked("ANNEAL_SOAK_FAULTS", 8));
}

/// Kills a run of a small model that learns in this way.
#[track_caller]
fn check_kills(method: &[&str]) {
    let kills = wanted_kills();
    let steps = (kills * STEPS_PER_KILL).max(1800);
    let app = tiny(&format!(
        "steps: {steps}\nsave: {{every: 40, keep_last: 1, keep_best: false}}\n"
    ));
    let mut arguments = vec!["train", "run.yaml", "--json"];
    arguments.extend(["--set", "sample.every=0", "--set", "evaluate.every=500"]);
    let model;
    if !method.is_empty() {
        let base = events(&app, &["train", "run.yaml", "--json", "--steps", "4"]);
        model = format!("model={}", checkpoint(&base).display());
        arguments.extend(["--set", "scratch=null", "--set", &model]);
        arguments.extend(method);
    }
    check_run(&app, &arguments, [kills, steps]);
}

/// Kills a run again and again, its engine and its app in turn, and stops it for moments. Compares the losses and all tensors
/// that it arrives at with those of a run that nothing happened to.
#[track_caller]
fn check_run(app: &App, arguments: &[&str], [kills, steps]: [usize; 2]) {
    let (reference, longest) = undisturbed(app, arguments, kills);
    let mut running = Running::start(app, arguments);
    let run = running.run.clone();
    let (mut killed, mut moments) = (0, Vec::new());
    while killed < kills {
        let moment = random(longest);
        moments.push(moment);
        thread::sleep(Duration::from_millis(moment));
        let Some(engine) = running.engine() else {
            // Killed too often before it could save anything, or done.
            running.child.wait().unwrap();
            if is_finished(app, &run) {
                break;
            }
            running = Running::start(app, &["train", "--resume", &run, "--json"]);
            continue;
        };
        match random(5) {
            0 => {
                signal(engine, "-STOP");
                thread::sleep(Duration::from_millis(random(300)));
                signal(engine, "-CONT");
                continue;
            }
            1 | 2 => signal(running.child.id(), "-KILL"),
            _ => signal(engine, "-KILL"),
        }
        running.engine = None;
        killed += 1;
    }
    while !is_finished(app, &run) {
        while running.engine().is_some() {}
        running.child.wait().unwrap();
        if !is_finished(app, &run) {
            running = Running::start(app, &["train", "--resume", &run, "--json"]);
        }
    }
    assert!(
        killed * 10 > kills * 8,
        "only {killed} of {kills} kills hit"
    );
    eprintln!("{killed} kills");

    let folder = app.home().join("runs").join(&run);
    let recorded = fs::read_to_string(folder.join("events.jsonl")).unwrap();
    no_saved_step_was_lost(&recorded);
    assert_eq!(losses(&recorded), losses(&reference), "{moments:?} ms");
    assert_eq!(losses(&reference).len(), steps);
    let last = folder.join(format!("checkpoints/step-{steps:06}"));
    assert!(
        tensors(&last) == tensors(&checkpoint(&reference)),
        "{moments:?} ms"
    );
}

/// The events of a run that nothing happens to, and the most milliseconds to leave between the kills of one like it: half of its
/// time is left to it, however fast this machine is.
fn undisturbed(app: &App, arguments: &[&str], kills: usize) -> (String, u64) {
    let begun = Instant::now();
    let events = events(app, arguments);
    let each = begun.elapsed().as_millis() as u64 / kills as u64;
    (events, each.clamp(1, 160))
}

/// Trains again and again with random faults. What only had to begin again arrives at the same weights.
#[track_caller]
fn check_faults(wanted: usize) {
    const STEPS: u64 = 30;
    let settings = "steps: 30\nsave: {every: 5}\nsample: {every: 0}\n";
    let reference = tiny(settings);
    let undisturbed = events(&reference, &["train", "run.yaml", "--json"]);
    let (mut happened, mut runs, mut same) = (0, 0, 0);
    while happened < wanted {
        let app = tiny(settings);
        let once = app.folder().join("once");
        fs::create_dir(&once).unwrap();
        let faults: Vec<String> = (0..1 + random(3)).map(|_| fault(STEPS)).collect();
        let ends_engine = |fault: &&String| {
            let kinds = ["abort", "lost", "hang", "alloc"];
            kinds.iter().any(|kind| fault.starts_with(kind))
        };
        let ends = faults.iter().filter(ends_engine).count();
        let faults = faults.join(",");
        let trained = |arguments: &[&str]| {
            let mut command = app.command(arguments);
            command
                .env("ANNEAL_FAULT", &faults)
                .env("ANNEAL_FAULT_ONCE", &once)
                .env("ANNEAL_HANG_SECONDS", "2");
            app.run_command(command, "")
        };
        let mut output = trained(&["train", "run.yaml"]);
        if output.code == 1 && ends == 3 {
            // The third end at one checkpoint ends the run, saved. Whoever wants it to continue starts it again.
            let folder = only_run(&app.home());
            let run = folder.file_name().unwrap().to_str().unwrap();
            output = trained(&["train", "--resume", run]);
        }
        assert_eq!(output.code, 0, "{faults}: {output:?}");
        happened += fs::read_dir(&once).unwrap().count();
        runs += 1;
        let folder = only_run(&app.home());
        let recorded = fs::read_to_string(folder.join("events.jsonl")).unwrap();
        no_saved_step_was_lost(&recorded);
        let all = losses(&recorded);
        assert_eq!(all.len() as u64, STEPS, "{faults}");
        let is_other =
            |how: &str| how.contains("rows at once") || how.contains("gradient_checkpointing");
        let fallback = of_kind(&recorded, "memory_fallback");
        let changed = fallback
            .iter()
            .any(|it| is_other(it["how"].as_str().unwrap()));
        if of_kind(&recorded, "rolled_back").is_empty() && !changed {
            assert_eq!(all, losses(&undisturbed), "{faults}");
            let last = folder.join(format!("checkpoints/step-{STEPS:06}"));
            assert!(
                tensors(&last) == tensors(&checkpoint(&undisturbed)),
                "{faults}"
            );
            same += 1;
        }
    }
    eprintln!(
        "{happened} faults in {runs} runs; {same} of them arrived at the same weights to the bit"
    );
}

/// One thing that goes wrong once, at any time of so many steps.
fn fault(steps: u64) -> String {
    match random(12) {
        0..=2 => format!("abort@{}", 1 + random(steps)),
        3..=5 => format!("nan@{}", 1 + random(steps)),
        6 | 7 => format!("oom@{}", 1 + random(steps)),
        8 => format!("lost@{}", 1 + random(steps)),
        9 => format!("alloc@{}", random(4000)),
        10 => format!("disk@{}", 1000 + random(20_000)),
        _ => format!("hang@{}", 1 + random(steps)),
    }
}

/// Every start begins at what was saved last, or later.
#[track_caller]
fn no_saved_step_was_lost(events: &str) {
    let events = events
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut saved = 0;
    for event in events {
        let step = event["step"].as_u64().unwrap_or_default();
        match event["kind"].as_str() {
            Some("saved") => saved = step,
            Some("started") => assert!(step >= saved, "saved {saved}, resumed from {step}"),
            _ => {}
        }
    }
}

/// A program that trains, and the engines it starts.
struct Running {
    child: Child,
    run: String,
    engines: Receiver<u32>,
    engine: Option<u32>,
}

impl Running {
    fn start(app: &App, arguments: &[&str]) -> Self {
        let mut child = app.command(arguments).spawn().unwrap();
        let (sender, engines) = mpsc::channel();
        let (names, name) = mpsc::channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Ok(event) = serde_json::from_str::<Value>(&line) else {
                    continue;
                };
                if event["kind"] == "opened" {
                    let _ = names.send(event["run"].as_str().unwrap().to_owned());
                    let _ = sender.send(event["engine"].as_u64().unwrap() as u32);
                }
            }
        });
        let run = name.recv_timeout(TIMEOUT).unwrap_or_default();
        Self {
            child,
            run,
            engines,
            engine: None,
        }
    }

    /// The engine that trains now. Nothing when the program has ended.
    fn engine(&mut self) -> Option<u32> {
        while let Ok(engine) = self.engines.try_recv() {
            self.engine = Some(engine);
        }
        let is_alive = |engine: &u32| Path::new(&format!("/proc/{engine}/stat")).exists();
        self.engine = self.engine.filter(is_alive);
        if self.engine.is_some() {
            return self.engine;
        }
        match self.engines.recv_timeout(TIMEOUT) {
            Ok(engine) => {
                self.engine = Some(engine);
                self.engine
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing continues"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_finished(app: &App, run: &str) -> bool {
    // Not `app.run`, which masks the ids.
    let list = app.command(&["runs", "--json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let runs = list.as_array().unwrap();
    runs.iter()
        .any(|it| it["id"] == run && it["status"] == "finished")
}

/// The files of a checkpoint that hold tensors: weights, and all that learning goes on from.
fn tensors(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|it| it == "safetensors"));
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        (PathBuf::from(path.file_name().unwrap()), bytes)
    };
    let all: BTreeMap<_, _> = files.map(read).collect();
    assert!(!all.is_empty(), "{}", folder.display());
    all
}

/// A number below `bound`, from the time: no two soaks are alike.
fn random(bound: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mixed = (now.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 33) % bound
}

fn wanted_kills() -> usize {
    asked("ANNEAL_SOAK_KILLS", 18)
}

fn asked(name: &str, otherwise: usize) -> usize {
    let words = std::env::var(name).ok();
    words
        .and_then(|words| words.parse().ok())
        .unwrap_or(otherwise)
}
