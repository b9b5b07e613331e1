//! No file brings the program down: the readers of this crate, as `tests/models/hostile.rs` has those of the other.

use std::{fs, io, path::Path};

use models::{
    device::{Checked, Choice, DeviceKind, FoundDevice},
    limits::{self, Limit},
    tasks::{
        TaskPlan,
        kinds::{Picture, Puzzle},
    },
    train::{Facts, Kind, TrainPlan, TrainRequest, resolve},
};

use crate::{
    fuzz::{self, Read, Reader},
    host::solve::puzzle_text,
    hub,
    ranks::{store::testing as rendezvous, watch},
    serve,
    store::{
        self, benchmarks,
        checks::CheckReport,
        conversations,
        data_sets::DataSet,
        hub_cache::{
            HubCache,
            names::{Digest, RepositoryKind},
        },
        limits::{BENCHMARK, JSON_FILE, SOURCES, WORD_FILE, YAML_FILE, read_text},
        memory_fallbacks::KnownFallback,
        read_list, record, run_file,
        runs::Run,
        settings::Settings,
        sources::{self, Noted},
        waiting,
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
fn every_limit_of_a_file_is_that_of_a_reader() {
    fuzz::check_limits(readers, store::limits::LIMITS, &[store::limits::EVENT]);
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
                refused with both sizes, before anything is allocated by it. The numbers of a model’s `config.json` have a table \
                of their own, the last one.\n";
    let configs = format!("\n## Numbers of config.json\n\n{}", numbers_of_configs());
    let page = head.to_owned() + &parts.into_iter().map(table).collect::<String>() + &configs;
    if std::env::var_os("ANNEAL_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == page,
        "docs/guide/limits.md is not what the rows say; set ANNEAL_WRITE_DOCS=1 and run this test again"
    );
}

/// What the numbers of a model's `config.json` may be.
fn numbers_of_configs() -> String {
    let head = "| In `config.json` | From | To | Why |\n|---|---|---|---|\n".to_owned();
    models::arch::config::limits::LIMITS
        .iter()
        .fold(head, |table, it| {
            let number = |number: f64| models::figures::count(number as u64);
            let above = if it.above { "above " } else { "" };
            // The largest number that there is says nothing.
            let to = if it.max == f64::MAX {
                String::new()
            } else {
                number(it.max)
            };
            table
                + &format!(
                    "| `{}` | {above}{} | {to} | {} |\n",
                    it.field,
                    number(it.min),
                    it.why
                )
        })
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

const REQUEST: &str = r#"{"model": "a", "method": "lora", "steps": 10, "epochs": null, "batch": {"rows": 4, "length": 64},
    "data": {"files": ["a.jsonl"], "format": "messages", "columns": {"prompt": "q"}, "held_out": 0.1},
    "lora": {"rank": 8, "alpha": 16.0, "targets": ["q_proj"], "layers": [0, 1]}, "dtype": {"compute": "bf16"},
    "schedule": {"kind": "cosine", "warmup_steps": 2}, "device": "cpu", "sample": {"prompts": ["Hi"], "tokens": 8}}"#;
const SCRATCH: &str = "name: tiny\nscratch:\n  preset: nano\n  config:\n    num_hidden_layers: 2\n  vocab_size: 300\ndata:\n  \
                       files: [a.txt, b.txt]\n  rows: lines\nbatch: auto\nprecision: 16\nseed: 1\n";

/// Requests of the other kinds of learning.
const OTHER_KINDS: [&str; 3] = [
    "task: puzzle\ndata: {files: [puzzles], augmentations: 3}\ntrm: {hidden_size: 32, num_heads: 2}\nbatch: {rows: 4}\nsteps: 4\n",
    "task: picture\ndata: {files: [stripes]}\npicture: {recipe: airbench94, side: 32, cutout: 4, flip: alternating}\nsteps: 3\n",
    "task: probe\nmodel: a\ndata: {files: [a.jsonl], text_column: text}\nprobe: {sites: [block.2, embed], labels: [joy],\n  \
     position: last, penalties: [0.01, 1.0]}\ndevice: cpu\n",
];

fn readers(work: &Path) -> Vec<Reader> {
    let mut readers = of_runs(work);
    readers.extend(of_kept_lists(work));
    readers.push(of_refs(work));
    readers.extend(of_lists(work));
    readers.extend(of_the_hub(work));
    readers.push(of_clients(work));
    readers.extend(of_ranks(work));
    readers.push(of_puzzles(work));
    #[cfg(feature = "gui")]
    readers.push(of_the_window(work));
    readers
}

fn of_runs(work: &Path) -> Vec<Reader> {
    let request: serde_json::Value = serde_json::from_str(REQUEST).unwrap();
    let mut requests = vec![
        request.to_string().into_bytes(),
        SCRATCH.as_bytes().to_vec(),
    ];
    requests.extend(OTHER_KINDS.map(|it| it.as_bytes().to_vec()));
    let run = work.join("run");
    let is_run = |file: &Path| Run::at(file.parent().unwrap_or(file).to_owned());
    let yaml = Some(YAML_FILE);
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("run.yaml"), of_run("run.yaml")).unwrap();
    vec![
        Reader::small("run_file", 12, yaml, work.join("file/run.yaml"), requests, reading(run_file::read)),
        Reader::small(
            "plan",
            10,
            yaml,
            work.join("plan/run.yaml"),
            vec![
                of_run("run.yaml"),
                smallest::<Puzzle>(&work.join("puzzles"), TaskPlan::Puzzle),
                smallest::<Picture>(&work.join("pictures"), TaskPlan::Picture),
            ],
            reading(|file| {
                let plan = run_file::read_plan(file)?;
                Ok((plan.task.subject(), plan.task.smaller(), plan.estimate().is_ok()))
            }),
        ),
        Reader::small(
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
        Reader::small(
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
        Reader::small(
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

/// The plan of the smallest run of a kind.
fn smallest<K: Kind>(folder: &Path, task: fn(K::Plan) -> TaskPlan) -> Vec<u8> {
    let tiny = K::TINY.unwrap();
    fs::create_dir_all(folder).unwrap();
    for (name, bytes) in (tiny.files)() {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let mut request: TrainRequest<K::Request> = serde_json::from_str(tiny.request).unwrap();
    K::files(&mut request.task).push(folder.to_owned());
    request.run.steps = Some(2);
    let read = K::read(&request, None).unwrap();
    let facts = Facts {
        task: K::facts(&request, read.as_deref()).unwrap(),
        device: Choice {
            device: FoundDevice::named(DeviceKind::Cpu, 0, "a processor"),
            reason: "there is no other".to_owned(),
            warnings: Vec::new(),
        },
        checked: Checked::default(),
    };
    let plan = resolve::<K>(&request, &facts).unwrap().plan;
    let plan = TrainPlan {
        run: plan.run,
        task: task(plan.task),
    };
    serde_json::to_vec(&plan).unwrap()
}

/// The lists that the app keeps in its folder.
fn of_kept_lists(work: &Path) -> Vec<Reader> {
    let list = |name: &str| work.join(name).join("list.json");
    let most = Some(JSON_FILE);
    let data = r#"[{"id": "a", "name": "A", "request": {"paths": ["a.jsonl"], "format": "messages", "columns": {"prompt": "q"},
        "rows": "lines", "skip_bad_rows": true}, "added": "2026-11-21T09:30:00Z"}]"#;
    let fallbacks = r#"[{"model": "a", "method": "lora", "device": "cpu", "compute": "f32", "length": 64, "failed_rows": 8,
        "rows": 4, "gradient_checkpointing": false, "day": "2026-11-21"}]"#;
    let device = serde_json::to_value(FoundDevice::named(DeviceKind::Cpu, 0, "a")).unwrap();
    let checks = serde_json::json!([{"version": "0.1.0", "system": "Linux", "device": device, "time": "2026", "seconds": 1.5,
        "steps": [{"name": "The engine starts", "problem": null}], "rows": [{"group": "a", "operation": "b", "dtype": "bf16",
        "verdict": "inexact", "error": 0.1, "tolerance": 0.01, "device_millis": 1.0, "cpu_millis": null, "message": "c",
        "fallback": "cpu"}]}]);
    let bytes = |text: &str| vec![text.as_bytes().to_vec()];
    let check = |file: &Path| {
        let reports: Vec<CheckReport> = read_list(file, "list of checks")?;
        for report in reports {
            drop((report.checked(), report.text(), report.consequences()));
        }
        Ok(())
    };
    let read_data = |file: &Path| read_list::<DataSet>(file, "list of data");
    let read_wanted = |file: &Path| read_list::<hub::download::Wanted>(file, "list of downloads");
    let read_known = |file: &Path| read_list::<KnownFallback>(file, "list of what runs gave up");
    let file = list("waiting");
    let read_waiting = |file: &Path| -> Result<_> { Ok(waiting::read(file)) };
    vec![
        Reader::small(
            "data_sets",
            3,
            most,
            list("data_sets"),
            bytes(data),
            reading(read_data),
        ),
        Reader::small(
            "downloads",
            3,
            most,
            list("downloads"),
            vec![wanted()],
            reading(read_wanted),
        ),
        Reader::small(
            "fallbacks",
            2,
            most,
            list("fallbacks"),
            bytes(fallbacks),
            reading(read_known),
        ),
        Reader::small(
            "checks",
            4,
            most,
            list("checks"),
            bytes(&checks.to_string()),
            reading(check),
        ),
        Reader::small(
            "waiting",
            1,
            None,
            file,
            bytes(r#"["a", "b"]"#),
            reading(read_waiting),
        ),
    ]
}

/// A list of downloads.
fn wanted() -> Vec<u8> {
    let wanted = hub::download::Wanted {
        kind: RepositoryKind::Data,
        id: "a/b".parse().unwrap(),
        revision: "main".to_owned(),
        commit: "c".repeat(40),
        part: Some("train".to_owned()),
        files: vec![hub::needed::RemoteFile {
            path: "data/a.jsonl".to_owned(),
            bytes: 7,
            digest: Digest::git(&"d".repeat(40)).unwrap(),
        }],
        usable: false,
        data: vec![("train".to_owned(), vec!["data/a.jsonl".to_owned()])],
    };
    serde_json::to_vec(&[wanted]).unwrap()
}

/// What a branch stands for in the shared cache.
fn of_refs(work: &Path) -> Reader {
    let cache = HubCache::at(work.join("cache"));
    let repository = cache.repository(RepositoryKind::Model, &"a/b".parse().unwrap());
    let commit = "c".repeat(40);
    repository.name_commit("main", &commit).unwrap();
    fs::create_dir_all(repository.snapshot(&commit)).unwrap();
    let file = work.join("cache/models--a--b/refs/main");
    let read = move |file: &Path| {
        let said = read_text(WORD_FILE, file, "read a commit");
        drop((repository.commit_of("main"), cache.list()));
        said
    };
    let sample = vec![commit.into_bytes()];
    Reader::small("hub_refs", 1, Some(WORD_FILE), file, sample, reading(read))
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
        Reader::small(
            "benchmark",
            10,
            Some(BENCHMARK),
            work.join("benchmark/a.json"),
            vec![report],
            reading(benchmark),
        ),
        Reader::small(
            "benchmark_table",
            8,
            Some(BENCHMARK),
            work.join("table/a.csv"),
            vec![fs::read(exported).unwrap()],
            reading(benchmark),
        ),
        Reader::small(
            "conversation",
            6,
            Some(JSON_FILE),
            work.join("conversations/a.json"),
            bytes(&[conversation]),
            reading(conversations::read_file),
        ),
        Reader::small(
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
    Reader::small(
        "server_request",
        6,
        None,
        work.join("request.json"),
        vec![chat.into(), text.into()],
        Box::new(|file| serve::read_request(&fs::read(file).unwrap())),
    )
}

/// What the processes of one run say to one another.
fn of_ranks(work: &Path) -> [Reader; 2] {
    const SECRET: [u8; 16] = [7; 16];
    let introduced = [&SECRET[..], &1u32.to_le_bytes(), &[4], b"host"].concat();
    let reading = |read: fn(&[u8]) -> io::Result<()>| -> Read {
        Box::new(move |file| read(&fs::read(file).unwrap()).map_err(|error| error.to_string()))
    };
    let introduction = |mut bytes: &[u8]| watch::introduction(&mut bytes, SECRET).map(drop);
    [
        Reader::small(
            "ranks_store",
            3,
            None,
            work.join("ranks/store"),
            vec![rendezvous::said()],
            reading(rendezvous::answer_all),
        ),
        Reader::small(
            "ranks_watch",
            1,
            None,
            work.join("ranks/watch"),
            vec![introduced],
            reading(introduction),
        ),
    ]
}

/// The file of a puzzle to solve. The engine, which `tests/models` has, reads what is in it.
fn of_puzzles(work: &Path) -> Reader {
    let puzzle = b"1..4\n..3.\n.2..\n4..1\n".to_vec();
    let most = Some(limits::PUZZLE);
    Reader::small(
        "puzzle_file",
        1,
        most,
        work.join("puzzle/a.txt"),
        vec![puzzle],
        reading(puzzle_text),
    )
}

/// Where the window was.
#[cfg(feature = "gui")]
fn of_the_window(work: &Path) -> Reader {
    let place = br#"{"x": -8, "y": 20, "width": 1280, "height": 800, "maximized": false}"#.to_vec();
    let most = Some(JSON_FILE);
    Reader::small(
        "window_place",
        1,
        most,
        work.join("window/window.json"),
        vec![place],
        reading(crate::app::place::read),
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
    let card = "---\nlicense: mit\ntags: [a]\n---\n# A model\n\nIt is <b>small</b>, see [here](https://example.com).\n\n| a | b |\n";
    let read_card = |file: &Path| {
        hub::repository::read_card(&fs::read(file).unwrap());
        Ok(())
    };
    vec![
        Reader::small(
            "hub",
            14,
            None,
            work.join("hub/answer.json"),
            vec![compact(info), compact(&tree)],
            Box::new(|file| hub::repository::read_answer(&fs::read(file).unwrap())),
        ),
        Reader::small(
            "hub_card",
            2,
            None,
            work.join("card/README.md"),
            vec![card.into()],
            Box::new(read_card),
        ),
    ]
}
