//! No file brings the program down: the readers of this crate, as `tests/models/hostile.rs` has those of the other.

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::limits::{self, Limit};

use crate::{
    fuzz::{self, Read, Reader},
    hub, serve,
    store::{
        self, benchmarks, conversations,
        limits::{BENCHMARK, JSON_FILE, SOURCES, YAML_FILE},
        record, run_file,
        runs::Run,
        settings::Settings,
        sources::{self, Noted},
    },
    wire::{
        engine::{Ask, Reply},
        error::Result,
    },
};

#[test]
fn no_file_brings_the_program_down() {
    fuzz::run("tests::no_file_brings_the_program_down", readers);
}

#[test]
fn every_reader_reads_real_files() {
    fuzz::check_samples(readers);
}

#[test]
fn a_file_above_its_limit_is_refused_by_its_size() {
    fuzz::check_largest(readers);
}

#[test]
fn the_guide_shows_the_limits_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/limits.md");
    let parts = [
        ("Models, data and run files", limits::LIMITS),
        ("What Anneal keeps", store::limits::LIMITS),
        ("The network", hub::limits::LIMITS),
        ("Other programs on this machine", serve::limits::LIMITS),
    ];
    let table =
        |(title, limits): (&str, &[Limit])| format!("\n## {title}\n\n{}", limits::table(limits));
    let head = "# Limits\n\nThe largest of everything that Anneal takes from a file, a person or the network. What is larger is \
                refused with both sizes, before anything is allocated by it. The sizes in a model’s `config.json` have limits of \
                their own, which stand beside their fields in `models/src/arch`.\n";
    let page = head.to_owned() + &parts.into_iter().map(table).collect::<String>();
    if std::env::var_os("ANNEAL_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == page,
        "docs/guide/limits.md is not what the rows say; set ANNEAL_WRITE_DOCS=1 and run this test again"
    );
}

/// A home that an earlier version made.
fn home(path: &str) -> Vec<u8> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/app/fixtures/home-of-0.1");
    fs::read(home.join(path)).unwrap()
}

/// The files of the run in it.
fn of_run(name: &str) -> Vec<u8> {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/app/fixtures/home-of-0.1/runs");
    let run = fs::read_dir(runs).unwrap().next().unwrap().unwrap();
    fs::read(run.path().join(name)).unwrap()
}

fn reading<T>(read: impl Fn(&Path) -> Result<T> + 'static) -> Read {
    Box::new(move |file| read(file).map(drop).map_err(|error| error.message))
}

/// A reader of small files, which takes little memory.
fn reader(
    name: &'static str,
    share: usize,
    most: Option<Limit>,
    file: PathBuf,
    samples: Vec<Vec<u8>>,
    read: Read,
) -> Reader {
    fs::create_dir_all(file.parent().unwrap_or(&file)).unwrap();
    Reader {
        name,
        share,
        most,
        megabytes: 64,
        seconds: 5.0,
        file,
        samples,
        read,
    }
}

const REQUEST: &str = r#"{"model": "a", "method": "lora", "steps": 10, "epochs": null, "batch": {"rows": 4, "length": 64},
    "data": {"files": ["a.jsonl"], "format": "messages", "columns": {"prompt": "q"}, "held_out": 0.1},
    "lora": {"rank": 8, "alpha": 16.0, "targets": ["q_proj"], "layers": [0, 1]}, "dtype": {"compute": "bf16"},
    "schedule": {"kind": "cosine", "warmup_steps": 2}, "device": "cpu", "sample": {"prompts": ["Hi"], "tokens": 8}}"#;
const SCRATCH: &str = "name: tiny\nscratch:\n  preset: nano\n  config:\n    num_hidden_layers: 2\n  vocab_size: 300\ndata:\n  \
                       files: [a.txt, b.txt]\n  rows: lines\nbatch: auto\nprecision: 16\nseed: 1\n";

fn readers(work: &Path) -> Vec<Reader> {
    let mut readers = of_runs(work);
    readers.extend(of_lists(work));
    readers.extend(of_the_hub(work));
    readers.push(of_clients(work));
    readers
}

fn of_runs(work: &Path) -> Vec<Reader> {
    let request: serde_json::Value = serde_json::from_str(REQUEST).unwrap();
    let requests = vec![
        request.to_string().into_bytes(),
        SCRATCH.as_bytes().to_vec(),
    ];
    let run = work.join("run");
    let is_run = |file: &Path| Run::at(file.parent().unwrap_or(file).to_owned());
    let yaml = Some(YAML_FILE);
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("run.yaml"), of_run("run.yaml")).unwrap();
    vec![
        reader("run_file", 12, yaml, work.join("file/run.yaml"), requests, reading(run_file::read)),
        reader(
            "plan",
            10,
            yaml,
            work.join("plan/run.yaml"),
            vec![of_run("run.yaml")],
            reading(|file| {
                let plan = run_file::read_plan(file)?;
                Ok((plan.task.subject(), plan.task.smaller(), plan.estimate().is_ok()))
            }),
        ),
        reader(
            "settings",
            8,
            yaml,
            work.join("settings/settings.yaml"),
            vec![
                home("settings.yaml"),
                br#"{"device": "cuda:1", "model_folders": ["a"], "theme": "dark", "pause_below_percent": 20}"#.to_vec(),
            ],
            reading(Settings::read),
        ),
        reader(
            "events",
            12,
            None,
            run.join("events.jsonl"),
            vec![of_run("events.jsonl")],
            reading(move |file| {
                record::read(file)?;
                is_run(file).state()
            }),
        ),
        reader(
            "sources",
            4,
            Some(SOURCES),
            work.join("sources/sources.json"),
            vec![of_run("sources.json")],
            Box::new(|file| match sources::read(file) {
                Ok(Noted::Damaged(problem)) => Err(problem),
                read => read.map(drop).map_err(|error| error.message),
            }),
        ),
    ]
}

fn of_lists(work: &Path) -> Vec<Reader> {
    let report: serde_json::Value = serde_json::from_slice(&home("measured.json")).unwrap();
    let report = report.to_string().into_bytes();
    let exported = work.join("a.csv");
    let measured = work.join("measured.json");
    fs::write(&measured, &report).unwrap();
    let read = benchmarks::read(&measured).unwrap();
    benchmarks::export(&read, &exported).unwrap();
    let benchmark = |file: &Path| {
        let report = benchmarks::read(file)?;
        let words = (report.id(), report.advice(), report.all_warnings());
        let again = (report.since_messages(&report), report.ratios());
        benchmarks::export(&report, &file.with_extension("md"))?;
        Ok((words, again))
    };
    let conversation = r#"{"id": "a", "title": "Hi", "model": "m", "modelTitle": "M", "system": "Be brief.",
        "changed": "2026-11-21T09:30:00.000Z", "turns": [{"said": "Hi", "answer": "Hello", "beside": null}]}"#;
    let ask = r#"{"kind": "train", "folder": "a", "force": false}"#;
    let reply = r#"{"kind": "happened", "event": {"number": 1, "time": "2026", "kind": "stopped", "step": 3}}"#;
    let bytes = |texts: &[&str]| texts.iter().map(|it| it.as_bytes().to_vec()).collect();
    vec![
        reader(
            "benchmark",
            10,
            Some(BENCHMARK),
            work.join("benchmark/a.json"),
            vec![report],
            reading(benchmark),
        ),
        reader(
            "benchmark_table",
            8,
            Some(BENCHMARK),
            work.join("table/a.csv"),
            vec![fs::read(exported).unwrap()],
            reading(benchmark),
        ),
        reader(
            "conversation",
            6,
            Some(JSON_FILE),
            work.join("conversations/a.json"),
            bytes(&[conversation]),
            reading(conversations::read_file),
        ),
        reader(
            "wire",
            6,
            None,
            work.join("wire/line"),
            bytes(&[ask, reply]),
            Box::new(|file| {
                let line = fs::read(file).unwrap();
                let ask = serde_json::from_slice::<Ask>(&line).map(drop);
                let reply = serde_json::from_slice::<Reply>(&line).map(drop);
                ask.or(reply).map_err(|error| error.to_string())
            }),
        ),
    ]
}

/// What clients of the server send.
fn of_clients(work: &Path) -> Reader {
    let chat = r#"{"model": "a", "messages": [{"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "temperature": 0.5, "top_p": 1, "max_tokens": 7, "stop": ["a", "b"],
        "seed": -1, "stream": true, "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 5, "n": 1,
        "presence_penalty": 0.5, "frequency_penalty": -1, "logit_bias": {"7": -100}, "response_format": {"type": "text"}, "tools": []}"#;
    let text = r#"{"prompt": ["a", [1, 2]], "max_tokens": 0, "logprobs": 3, "echo": false, "best_of": 1, "suffix": null, "top_k": -1,
        "min_p": 0.1, "repeat_penalty": 1.1}"#;
    reader(
        "server_request",
        6,
        None,
        work.join("request.json"),
        vec![chat.into(), text.into()],
        Box::new(|file| serve::read_request(&fs::read(file).unwrap())),
    )
}

/// What the Hub says of a repository, in a list, and of its files.
fn of_the_hub(work: &Path) -> Vec<Reader> {
    let info = r#"[{"id": "a/b", "sha": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "tags": ["license:mit"], "gated": "auto",
        "pipeline_tag": "text-generation", "downloads": 7, "likes": 1, "lastModified": "2026", "config": {"model_type": "llama"},
        "safetensors": {"total": 271}, "cardData": {"configs": [{"config_name": "main", "data_dir": "data",
        "data_files": [{"split": "train", "path": "train/*.parquet"}, {"split": "test", "path": ["a.jsonl", "{a,b}/[!c]*"]}]}]}}]"#;
    let oid = "b".repeat(40);
    let sha = "c".repeat(64);
    let tree = format!(
        r#"[{{"type": "directory", "oid": "{oid}", "path": "data", "size": 0}},
        {{"type": "file", "oid": "{oid}", "path": "data/train/0.parquet", "size": 700}},
        {{"type": "file", "oid": "{oid}", "path": "model.safetensors", "size": 135, "lfs": {{"oid": "{sha}", "size": 27, "pointerSize": 135}}}},
        {{"type": "file", "oid": "{oid}", "path": "train-00000-of-00002.jsonl", "size": 70}}]"#
    );
    let compact = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        value.to_string().into_bytes()
    };
    vec![reader(
        "hub",
        14,
        None,
        work.join("hub/answer.json"),
        vec![compact(info), compact(&tree)],
        Box::new(|file| hub::repository::read_answer(&fs::read(file).unwrap())),
    )]
}
