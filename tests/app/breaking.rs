//! Runs that meet everything that can end a run: memory, disks, drivers and numbers that fail, on purpose or for real.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    app::{App, Output},
    train::tiny,
};

/// The sixteenth part of an update each, so that there is much to give up.
const STEPS: &str = "steps: 12\nsave: {every: 4}\nsample: {every: 0}\n";

#[test]
fn a_run_goes_on_after_every_single_fault_and_says_what_it_was() {
    for (fault, said) in [
        ("oom@7", "unused memory was given back"),
        ("abort@6", "another resumes from step 4"),
        ("alloc@300", "memory allocation of"),
        ("nan@8", "back to step 6"),
        ("hang@6", "another resumes from step 4"),
        ("lost@7", "CUDA_ERROR_LAUNCH_FAILED"),
        ("disk@2000", "waits for the disk"),
    ] {
        let (app, output) = broken(fault, STEPS);
        assert_eq!(output.code, 0, "{fault}: {output:?}");
        output.notes(said);
        let list = app.anneal("runs").stdout;
        assert!(list.contains("finished  12/12"), "{fault}: {list}");
    }
}

#[test]
fn a_run_that_memory_is_too_small_for_gives_up_rows_first() {
    let (app, output) = broken("most_rows@2", &STEPS.replace("12", "6"));
    output.ended(0);
    let said =
        "4 instead of 8 rows at once, 2 instead of 1 times for each update; the result is the same";
    output.notes(said);
    // Once is enough.
    assert!(!output.stderr.contains("`batch.rows` was"), "{output:?}");
    let shown = app.anneal("runs show animals").stdout;
    for line in ["  rows: 2 ", "  accumulate: 4 "] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(shown.contains("it ran out with more"), "{shown}");

    // The next plan for this model on this machine starts where the last one ended.
    let open = ["--set", "batch.rows=null", "--set", "batch.accumulate=null"];
    let plan = app.run(&[&["train", "run.yaml", "--plan"], &open[..]].concat());
    let plan = plan.stdout;
    assert!(plan.contains("  rows: 2 "), "{plan}");
    assert!(
        plan.contains("Memory ran out with 4 rows at once"),
        "{plan}"
    );
    let asked = ["train", "run.yaml", "--plan", "--set", "batch.rows=8"];
    app.run(&asked).shows("  rows: 8 ");
}

#[test]
fn a_run_that_has_nothing_left_to_give_up_stops_with_what_it_has_and_says_what_to_change() {
    let (app, output) = broken("most_rows@0", STEPS);
    output.ended(4);
    for words in [
        "(`gradient_checkpointing`)",
        "nothing is left that this run may give up",
        "shorter rows (`data.max_length` below",
    ] {
        output.notes(words);
    }
    app.anneal("runs").shows("failed");
    assert!(
        only_run(&app.home())
            .join("checkpoints/step-000000")
            .is_dir()
    );
}

/// The limit is on the address space of the app and its engines; an allocation that does not fit ends the engine.
#[test]
fn a_run_in_too_little_real_memory_arrives_with_fewer_rows() {
    let output = limited(&large(), "ulimit -v 1000000");
    output.ended(0);
    for words in ["memory allocation of", "rows at once", "2 steps in"] {
        output.notes(words);
    }
}

/// The limit is on the memory that the app and its engines use; the kernel ends what uses more.
#[test]
fn a_run_whose_engine_the_kernel_kills_for_memory_arrives_with_fewer_rows() {
    let Some(group) = Group::limited_to(450_000_000) else {
        eprintln!("not tried: this user may not limit a group of processes");
        return;
    };
    let enter = format!("echo $$ > {}/cgroup.procs", group.0.display());
    let output = limited(&large(), &enter);
    output.ended(0);
    let killed = "memory ran out: the system ended the engine";
    for words in [killed, "rows at once", "2 steps in"] {
        output.notes(words);
    }
}

/// A run that takes about a gigabyte.
fn large() -> App {
    let app = tiny("steps: 2\nsample: {every: 0}\nsave: {every: 1}\n");
    let config = "{hidden_size: 256, intermediate_size: 1024, num_hidden_layers: 4, num_attention_heads: 4, \
                  num_key_value_heads: 4, head_dim: 64}";
    let text = fs::read_to_string(app.folder().join("run.yaml")).unwrap();
    let (before, rest) = text.split_once("  config: {").unwrap();
    let (_, after) = rest.split_once("}\n").unwrap();
    let text = format!("{before}  config: {config}\n{after}");
    let text = text.replace("rows: 2, length: 32", "rows: 32, length: 256");
    app.file("run.yaml", &text);
    app.file("animals.txt", &crate::app::sentences(20_000));
    app
}

/// Trains in a shell that was limited first.
fn limited(app: &App, limit: &str) -> Output {
    let command = app.command(&["train", "run.yaml", "--force"]);
    let script = format!("{limit}; exec \"$0\" \"$@\"");
    let mut shell = app.command_of("sh", &["-c", &script]);
    shell
        .arg(command.get_program())
        .args(command.get_args())
        // Each thread of each core would reserve memory of its own.
        .env("RAYON_NUM_THREADS", "2");
    app.run_command(shell, "")
}

/// A group of processes with a limit of memory.
struct Group(std::path::PathBuf);

impl Group {
    /// Nothing where the system has no such groups, or this user may not make one.
    fn limited_to(bytes: u64) -> Option<Self> {
        let name = format!("anneal-test-{}", std::process::id());
        let counted_together = "memory.memsw.limit_in_bytes";
        let places = [
            (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                counted_together,
                bytes,
            ),
            ("/sys/fs/cgroup", "memory.max", "memory.swap.max", 0),
        ];
        places.iter().find_map(|(root, limit, swap, most_swapped)| {
            let group = Self(Path::new(root).join(&name));
            fs::create_dir(&group.0).ok()?;
            // The file is there only where the kernel counts.
            let limit = group.0.join(limit);
            limit.exists().then_some(())?;
            fs::write(limit, bytes.to_string()).ok()?;
            // What is swapped out is not killed for. Where the kernel does not count that, there is no such file.
            let _ = fs::write(group.0.join(swap), most_swapped.to_string());
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// No file may grow, so that not even the reason can be written for a while.
#[test]
fn a_run_whose_disk_takes_no_words_says_so_to_who_listens_and_loses_none() {
    let app = tiny(STEPS);
    let mut command = app.command(&["train", "run.yaml", "--json"]);
    command.env("ANNEAL_FAULT", "disk@1");
    let output = app.run_command(command, "");
    output.ended(0);
    let events = output.stdout.lines();
    let events: Vec<Value> = events
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["number"].is_u64())
        .collect();
    let (unwritten, written): (Vec<&Value>, Vec<&Value>) =
        events.iter().partition(|event| event["number"] == 0);
    assert!(!unwritten.is_empty(), "{events:?}");
    for event in unwritten {
        let why = event["why"].as_str().unwrap();
        assert!(why.starts_with("could not write an event"), "{why}");
    }
    let numbers = written.iter().map(|event| event["number"].as_u64());
    assert!(
        numbers.eq((1..=written.len() as u64).map(Some)),
        "{events:?}"
    );
    assert_eq!(written.last().unwrap()["kind"], "finished");
}

/// Trains a tiny model of 8 rows with faults.
fn broken(faults: &str, settings: &str) -> (App, Output) {
    let app = tiny(settings);
    let text = fs::read_to_string(app.folder().join("run.yaml")).unwrap();
    app.file("run.yaml", &text.replace("rows: 2,", "rows: 8,"));
    let once = app.folder().join("once");
    fs::create_dir(&once).unwrap();
    let mut command = app.command(&["train", "run.yaml"]);
    command
        .env("ANNEAL_FAULT", faults)
        .env("ANNEAL_FAULT_ONCE", once)
        .env("ANNEAL_HANG_SECONDS", "3");
    let output = app.run_command(command, "");
    (app, output)
}

/// The folder of the only run of a home.
pub(crate) fn only_run(home: &Path) -> std::path::PathBuf {
    let mut runs = fs::read_dir(home.join("runs")).unwrap();
    runs.next().unwrap().unwrap().path()
}

/// The events of a kind in the text of a run's events.
pub(crate) fn of_kind(events: &str, kind: &str) -> Vec<Value> {
    let events = events
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["kind"] == kind).collect()
}
