//! A run on several devices, as several real processes that sum over a connection: test builds can do that on the processor.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    process::{Child, Command},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    app::{App, Output, sentences},
    predict::write_class,
    train::{edit, losses, tiny as with_two_rows},
};

const SHORT: &str = "steps: 8\nsave: {every: 4}\nsample: {every: 0}\n";
const LONG: &str = "steps: 4000\nsave: {every: 20}\nsample: {every: 0}\n";
const PICTURES: &str = "\
task: picture
data: {files: [tiles], held_out: 0.25}
picture: {recipe: small, side: 16, flip: none, norm_momentum: 0}
batch: {rows: 4, accumulate: 2}
evaluate: {every: 4}
steps: 12
device: cpu
";
/// What runs on puzzles have in common.
const PUZZLE_RUN: &str = "\
task: puzzle
name: Small
schedule: {kind: constant, warmup_steps: 0}
evaluate: {every: 4}
save: {every: 4}
steps: 8
device: cpu
";
const PUZZLES: &str = "\
data: {files: [puzzles]}
trm: {hidden_size: 32, num_heads: 2, halt_max_steps: 3}
batch: {rows: 3, accumulate: 4}
";
const TASKS: &str = "\
data: {files: [tasks], augmentations: 3, evaluate_puzzles: 5}
trm: {mlp_t: false, pos_encodings: rope, hidden_size: 8, num_heads: 1, L_layers: 1, H_cycles: 1, L_cycles: 1,
  halt_max_steps: 2, puzzle_emb_len: 1}
batch: {rows: 2, accumulate: 4}
";
/// A rank that is gone has to be missed sooner.
const NOTICED: Duration = Duration::from_secs(10);

/// A run whose step has rows for several.
fn tiny(more: &str) -> App {
    let app = with_two_rows(more);
    let text = fs::read_to_string(app.folder().join("run.yaml")).unwrap();
    app.file("run.yaml", &text.replace("rows: 2", "rows: 8"));
    app
}

/// The program, which may have ranks on the processor.
fn ranked(app: &App, typed: &str) -> Command {
    let mut command = app.command(&typed.split(' ').collect::<Vec<_>>());
    command.env("ANNEAL_RANKS_ON_CPU", "1");
    command
}

/// A rank of two that mpirun starts.
fn launched(app: &App, rank: usize, port: u16) -> Command {
    let mut command = ranked(app, "train run.yaml --json");
    command
        .env("OMPI_COMM_WORLD_RANK", rank.to_string())
        .env("OMPI_COMM_WORLD_SIZE", "2")
        .env("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string())
        .env("OMPI_COMM_WORLD_LOCAL_SIZE", "2")
        .env("MASTER_PORT", port.to_string());
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn run(app: &App, typed: &str) -> Output {
    app.run_command(ranked(app, typed), "")
}

fn close(one: &BTreeMap<u64, String>, other: &BTreeMap<u64, String>, steps: usize) {
    assert_eq!((one.len(), other.len()), (steps, steps));
    for (step, loss) in one {
        let number = |text: &String| text.parse::<f64>().unwrap();
        let far = (number(loss) - number(&other[step])).abs();
        assert!(far < 1e-4, "step {step}: {loss} and {}", other[step]);
    }
}

#[test]
fn two_and_four_ranks_learn_what_one_learns_and_each_says_so_once() {
    let one = losses(&tiny(SHORT).anneal("train run.yaml --json").stdout);
    for ranks in [2, 4] {
        let app = tiny(SHORT);
        let trained = run(&app, &format!("train run.yaml --json --gpus {ranks}"));
        trained.ended(0);
        close(&one, &losses(&trained.stdout), 8);
        let shown = app.anneal("runs show animals").stdout;
        for line in [
            format!("  accumulate: {ranks} "),
            format!("devices: {ranks} "),
        ] {
            assert!(shown.contains(&line), "{shown}");
        }
    }
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let whole = losses(&tiny(SHORT).anneal("train run.yaml --json").stdout);
    let app = tiny(&SHORT.replace(
        "steps: 8",
        "steps: 8\nschedule: {kind: constant, warmup_steps: 0}",
    ));
    let constant = losses(&app.anneal("train run.yaml --json").stdout);
    assert_ne!(whole, constant);
    let app = tiny(&SHORT.replace(
        "steps: 8",
        "steps: 4\nschedule: {kind: constant, warmup_steps: 0}",
    ));
    let begun = run(&app, "train run.yaml --json --gpus 2");
    let plan = fs::read_dir(app.home().join("runs")).unwrap().next();
    let plan = plan.unwrap().unwrap().path().join("run.yaml");
    let longer = fs::read_to_string(&plan)
        .unwrap()
        .replace("steps: 4 ", "steps: 8 ");
    fs::write(&plan, longer).unwrap();
    let ended = run(&app, "train --resume animals --json --gpus 4");
    ended.ended(0).shows("`devices` was 2, and is 4");
    close(&constant, &losses(&(begun.stdout + &ended.stdout)), 8);
}

#[test]
fn ranks_that_share_the_optimizer_save_what_one_would_and_any_number_goes_on() {
    let kinds: [(&str, &[usize]); 3] = [("adamw", &[2]), ("adamw_8bit", &[4]), ("muon", &[1])];
    for (kind, each) in kinds {
        // What is saved after step 4 by two ranks, and the losses of four more steps of so many.
        let of = |is_shared: bool, devices: usize| {
            let optimizer = format!("optimizer: {{kind: {kind}}}\nshard: {is_shared}\n");
            let schedule = "schedule: {kind: constant, warmup_steps: 0}\n";
            let app = tiny(&(SHORT.replace("steps: 8", "steps: 4") + &optimizer + schedule));
            run(&app, "train run.yaml --json --gpus 2").ended(0);
            let plan = app.anneal("runs show animals").stdout;
            assert_eq!(plan.contains("shard: true "), is_shared, "{plan}");
            let mut runs = fs::read_dir(app.home().join("runs")).unwrap();
            let saved = runs.next().unwrap().unwrap().path();
            let files = fs::read_dir(saved.join("checkpoints/step-000004")).unwrap();
            let files = files.map(|it| it.unwrap().path());
            let tensors = files.filter(|it| it.extension().is_some_and(|it| it == "safetensors"));
            let saved =
                tensors.map(|it| (it.file_name().map(OsStr::to_owned), fs::read(it).unwrap()));
            let saved: BTreeMap<_, _> = saved.collect();
            assert!(saved.len() > 1, "{:?}", saved.keys());
            edit(&app, "animals", "steps: 4 ", "steps: 8 ");
            let ended = run(
                &app,
                &format!("train --resume animals --json --gpus {devices}"),
            );
            ended.ended(0);
            (saved, losses(&ended.stdout))
        };
        let (whole, goes_on) = of(false, 2);
        assert_eq!(goes_on.len(), 4);
        for &devices in each {
            let (shared, and_on) = of(true, devices);
            assert!(
                whole == shared,
                "{kind}: other bytes than of one that keeps all"
            );
            match devices {
                2 => assert_eq!(goes_on, and_on, "{kind}"),
                _ => close(&goes_on, &and_on, 4),
            }
        }
    }
}

#[test]
fn two_ranks_share_the_pictures_of_a_run_and_those_it_is_measured_with() {
    let evaluated = |devices: usize| {
        let app = App::new();
        write_class(&app, "tiles/red", 24, [200, 30, 30]);
        write_class(&app, "tiles/blue", 24, [30, 30, 200]);
        app.file("run.yaml", PICTURES);
        let trained = run(&app, &format!("train run.yaml --json --gpus {devices}"));
        trained.ended(0);
        let events = trained.stdout.lines();
        let events = events.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let evaluated = events.filter(|it| it["kind"] == "evaluated");
        let figures = evaluated.map(|it| (it["loss"].as_f64().unwrap(), it["targets"].clone()));
        figures.collect::<Vec<_>>()
    };
    let (one, two) = (evaluated(1), evaluated(2));
    assert!(one.len() > 2 && one.len() == two.len(), "{one:?}");
    for ((one, pictures), (two, same)) in one.iter().zip(&two) {
        assert!((one - two).abs() < 1e-4 && pictures == same, "{one} {two}");
    }
}

#[test]
fn two_ranks_share_puzzles_and_one_goes_on_with_what_both_think_about() {
    check_puzzles(PUZZLES, &|app| {
        app.anneal("data build sudoku puzzles --train 20 --held-out 5 --seed 1")
            .ended(0);
    });
}

/// Of each task the first column becomes the last.
#[test]
fn two_ranks_share_the_vectors_of_the_tasks_of_arc_and_what_is_voted() {
    check_puzzles(TASKS, &|app| {
        let task = |colour: usize| {
            let pair =
                |other: usize| json!({"input": [[colour, other]], "output": [[other, colour]]});
            json!({"train": [pair(0), pair(5)], "test": [pair(6)]})
        };
        let tasks = |all: &[usize]| {
            let all = all.iter().map(|it| (format!("task{it}"), task(*it)));
            Value::Object(all.collect()).to_string()
        };
        app.file("tasks/train.json", &tasks(&[1, 2, 3]));
        app.file("tasks/test.json", &tasks(&[4, 7]));
    });
}

/// A run learns the same, whichever number of ranks its parts have.
#[track_caller]
fn check_puzzles(own: &str, make: &dyn Fn(&App)) {
    let learned = |parts: &[(usize, usize)]| {
        let app = App::new();
        make(&app);
        let first = parts[0].0;
        let common = PUZZLE_RUN.replace("steps: 8", &format!("steps: {first}"));
        app.file("run.yaml", &format!("{common}{own}"));
        let mut told = String::new();
        for (at, (steps, devices)) in parts.iter().enumerate() {
            let ran = match at {
                0 => run(&app, &format!("train run.yaml --json --gpus {devices}")),
                _ => {
                    let before = format!("steps: {} ", parts[at - 1].0);
                    edit(&app, "small", &before, &format!("steps: {steps} "));
                    run(
                        &app,
                        &format!("train --resume small --json --gpus {devices}"),
                    )
                }
            };
            ran.ended(0);
            told += &ran.stdout;
        }
        told
    };
    let one = learned(&[(8, 1)]);
    let exact = |told: &str| {
        let events = told
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let evaluated = events.filter(|it| it["kind"] == "evaluated");
        let figures = evaluated.map(|it| {
            let metrics = it["metrics"].as_array().unwrap().iter();
            let figure = |it: &Value| {
                let value = it["value"].as_f64().unwrap();
                (it["name"].to_string(), (value * 1e4).round())
            };
            metrics.map(figure).collect::<Vec<_>>()
        });
        figures.collect::<Vec<_>>()
    };
    let measured = exact(&one);
    assert!(measured.len() > 1 && measured[1].len() > 3, "{measured:?}");
    for parts in [&[(8, 2)][..], &[(4, 2), (8, 1)], &[(4, 1), (8, 2)]] {
        let told = learned(parts);
        close(&losses(&one), &losses(&told), 8);
        if parts.len() == 1 {
            assert_eq!(exact(&told), measured);
        }
    }
}

#[test]
fn all_ranks_start_again_where_one_is_killed_and_learn_what_they_would_have() {
    let mend = |app: &App| {
        let text = fs::read_to_string(app.folder().join("run.yaml")).unwrap();
        app.file("run.yaml", &text.replace("steps: 4000", "steps: 400"));
    };
    let app = tiny(LONG);
    mend(&app);
    let whole = losses(&run(&app, "train run.yaml --json --gpus 2").stdout);
    let app = tiny(LONG);
    mend(&app);
    let mut first = ranked(&app, "train run.yaml --json --gpus 2")
        .spawn()
        .unwrap();
    let id = saved(&mut first, 20);
    kill(rank_1(&id));
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let events = app.home().join("runs").join(&id).join("events.jsonl");
    let events = fs::read_to_string(events).unwrap();
    let again = events
        .lines()
        .find(|line| line.contains("all ranks start again"));
    let again = again.unwrap_or_else(|| panic!("{events}"));
    assert!(
        again.contains("rank 1 on ") && again.contains(" is gone; "),
        "{again}"
    );
    // It ended once, and did not fail before.
    assert!(!events.contains("\"failed\""), "{events}");
    close(&whole, &losses(&events), 400);
}

#[test]
fn what_rank_0_refuses_is_told_once_and_not_tried_again() {
    let app = tiny(LONG);
    let mut first = ranked(&app, "train run.yaml --json --gpus 2")
        .spawn()
        .unwrap();
    saved(&mut first, 20);
    interrupt(first.id());
    first.wait().unwrap();
    app.file("animals.txt", &sentences(500));
    let refused = run(&app, "train --resume animals --json");
    refused
        .ended(1)
        .notes("`animals.txt` is not what it was when the run began");
    let again = refused.stdout + &refused.stderr;
    assert!(!again.contains("start again"), "{again}");
}

#[test]
fn a_rank_of_a_launcher_that_is_killed_ends_the_run_with_a_sentence_and_it_resumes() {
    let app = tiny(LONG);
    let port = free_port();
    let mut other = launched(&app, 1, port).spawn().unwrap();
    let mut first = launched(&app, 0, port).spawn().unwrap();
    let id = saved(&mut first, 20);
    let killed = Instant::now();
    kill(rank_1(&id));
    other.wait().unwrap();
    let mut said = String::new();
    first
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(1));
    assert!(killed.elapsed() < NOTICED, "{:?}", killed.elapsed());
    assert!(said.contains("rank 1 on "), "{said}");
    assert!(
        said.contains(" is gone; the run ends, and goes on from step "),
        "{said}"
    );

    let plan = app.home().join("runs").join(&id).join("run.yaml");
    let shorter = fs::read_to_string(&plan)
        .unwrap()
        .replace("steps: 4000", "steps: 400");
    fs::write(&plan, shorter).unwrap();
    run(&app, "train --resume animals")
        .ended(0)
        .notes("resumed at step ");
}

#[test]
fn ranks_that_a_launcher_starts_train_one_run_and_only_the_first_speaks() {
    let one = losses(&tiny(SHORT).anneal("train run.yaml --json").stdout);
    let app = tiny(SHORT);
    let port = free_port();
    let other = launched(&app, 1, port).spawn().unwrap();
    let first = app.run_command(launched(&app, 0, port), "");
    first.ended(0);
    close(&one, &losses(&first.stdout), 8);
    let other = other.wait_with_output().unwrap();
    assert_eq!(
        (other.status.code(), &other.stdout[..]),
        (Some(0), &b""[..])
    );
    assert_eq!(fs::read_dir(app.home().join("runs")).unwrap().count(), 1);
}

#[test]
fn without_cards_several_devices_are_refused_with_what_helps() {
    let app = tiny(SHORT);
    for typed in [
        "train run.yaml --gpus 2",
        "train run.yaml --gpus 2 --plan",
        "train run.yaml --set devices=2 --plan",
    ] {
        app.anneal(typed)
            .ended(2)
            .notes("several devices need CUDA and NCCL; this run is on the CPU")
            .notes("choose one device, or a Linux machine with NVIDIA cards");
    }
    // The command line of the reference under torchrun, as the run file is.
    let words =
        "train --config-name cfg_pretrain arch=trm data_paths=[puzzles] epochs=50000 --plan";
    app.anneal("data build sudoku puzzles --size 4 --train 20 --held-out 5 --seed 1")
        .ended(0);
    let mut command = app.command(&words.split(' ').collect::<Vec<_>>());
    let port = free_port().to_string();
    command.envs([
        ("RANK", "0"),
        ("LOCAL_RANK", "0"),
        ("WORLD_SIZE", "2"),
        ("LOCAL_WORLD_SIZE", "2"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", port.as_str()),
    ]);
    app.run_command(command, "")
        .ended(2)
        .notes("several devices need CUDA and NCCL; this run is on the CPU");
    // One is no group.
    app.anneal("train run.yaml --gpus 1").ended(0);
    let refused = run(&app, "train run.yaml --gpus 3");
    refused
        .ended(2)
        .notes("8 rows in a step, which can’t be shared by 3 devices");
}

#[test]
fn what_one_process_is_enough_for_is_refused_under_a_launcher() {
    let app = App::new();
    let mut command = app.command(&["chat", "animals"]);
    command.envs([
        ("RANK", "0"),
        ("WORLD_SIZE", "2"),
        ("MASTER_ADDR", "127.0.0.1"),
    ]);
    app.run_command(command, "")
        .ended(2)
        .notes("one process is enough for `anneal chat`");
}

/// The id of a run, once it has saved a step. What it says after that is read, so that it is not held up.
fn saved(child: &mut Child, step: u64) -> String {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut id = None;
    for line in lines.by_ref() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        id = id.or(event["run"].as_str().map(str::to_owned));
        if event["kind"] == "saved" && event["step"] == step {
            break;
        }
    }
    std::thread::spawn(move || lines.for_each(drop));
    id.unwrap()
}

/// The engine of rank 1 of a run.
fn rank_1(id: &str) -> i32 {
    let is_it = |folder: &std::path::Path| {
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        let links = fs::read_dir(folder.join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let mut files = links.filter_map(|link| fs::read_link(link.path()).ok());
        environment
            .split(|byte| *byte == 0)
            .any(|it| it.ends_with(b"RANK=1"))
            && files.any(|file| file.ends_with(format!("{id}/rank-1.log")))
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut found = processes.map(|it| it.path()).filter(|it| is_it(it));
    let folder = found.next().unwrap();
    folder
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn kill(process: i32) {
    signal("-9", process);
}

fn interrupt(process: u32) {
    signal("-INT", process as i32);
}

fn signal(which: &str, process: i32) {
    let sent = Command::new("kill")
        .args([which, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}
