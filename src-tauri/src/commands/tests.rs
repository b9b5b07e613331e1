//! The commands as the window calls them, on a runtime without a screen. Engines are real processes.

use std::{
    fs,
    path::Path,
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tauri::{
    Manager, WebviewWindow, WebviewWindowBuilder,
    ipc::{CallbackFn, Channel, InvokeResponseBody},
    test::{INVOKE_KEY, MockRuntime, get_ipc_response, mock_builder, mock_context, noop_assets},
    webview::InvokeRequest,
};
use tempfile::TempDir;

use super::*;
use crate::hub::Hub;

mod adding;
mod fetching;
mod measuring;
mod predicting;
// Elsewhere paths and what the system says are written otherwise.
#[cfg(unix)]
mod recording;
mod reporting;
mod running;
mod scoring;
mod serving;
mod solving;

const TIMEOUT: Duration = Duration::from_secs(60);

/// An address at which nothing answers.
const NOBODY: &str = "http://127.0.0.1:9";

#[test]
fn the_windows_bindings_are_those_of_the_commands() {
    let written = tempfile::NamedTempFile::with_suffix(".ts").unwrap();
    builder()
        .export(specta_typescript::Typescript::default(), written.path())
        .unwrap();
    let text = fs::read_to_string(written.path()).unwrap();
    check_written("../ui/src/api/bindings.ts", &text);
}

/// Compares a file with what the program would write there.
fn check_written(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("ANNEAL_WRITE_BINDINGS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == committed,
        "run with ANNEAL_WRITE_BINDINGS=1 to write {} anew",
        path.display()
    );
}

#[test]
fn the_three_lists_of_commands_are_one() {
    macro_rules! commands {
        ($($module:ident: $($name:ident $(<$runtime:ident>)?),+;)+) => {
            [$($(stringify!($name)),+),+]
        };
    }
    let names = include!("names.in");
    let capability = include_str!("../../capabilities/main.json");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui/src/api/bindings.ts");
    let bindings = fs::read_to_string(path).unwrap();
    for name in names {
        let permission = format!("\"allow-{}\"", name.replace('_', "-"));
        assert!(capability.contains(&permission), "{permission}");
        assert!(
            bindings.contains(&format!("\"{name}\"")),
            "{name} in the bindings"
        );
    }
    assert_eq!(capability.matches("\"allow-").count(), names.len());
    assert_eq!(bindings.matches("__TAURI_INVOKE(\"").count(), names.len());
}

#[test]
fn at_first_start_there_is_a_device_and_nothing_else() {
    let window = Window::open();
    let home = window.call("home", json!({}));
    assert_eq!(home["runs"], json!([]));
    let found = window.app.state::<App>().host.devices.found();
    let shown = home["devices"].as_array().unwrap();
    assert_eq!(shown.len(), found.len());
    for (device, found) in shown.iter().zip(&found) {
        assert_eq!(device["name"], found.name);
        assert_eq!(device["setting"], found.setting());
        assert_eq!(device["problem"].is_null(), found.is_usable());
        let defaults = device["defaults"].as_array().unwrap();
        assert!(!defaults.is_empty());
        for default in defaults {
            assert!(default["why"].as_str().unwrap().ends_with('.'), "{default}");
        }
    }
    // The processor is the last, and its memory can always be asked for.
    let memory = |which: &str| shown.last().unwrap()[which].as_u64();
    assert!(memory("freeBytes") > Some(0) && memory("freeBytes") <= memory("totalBytes"));
    assert!(shown.iter().any(|it| it["name"] == home["device"]["name"]));
    let status = window.call("status", json!({}));
    assert_eq!(status["going"], json!(null));
    for list in ["runs", "data_sets"] {
        assert_eq!(window.call(list, json!({})), json!([]), "{list}");
    }
}

#[test]
fn what_is_wrong_with_a_request_is_said_by_field() {
    let window = Window::open();
    let plan = |filled: Value| window.call("plan_run", json!({ "filled": filled }));
    let text = window.text();
    for (filled, expected) in [
        (json!({}), &["data.files"][..]),
        (json!({"learning_rate": "warm"}), &["learning_rate"]),
        (
            json!({"data.files": text, "batch.rows": "0", "clip_norm": "-1"}),
            &["batch.rows", "clip_norm"],
        ),
        (json!({"model": "no/such", "data.files": text}), &["model"]),
    ] {
        let problems = plan(filled)["problems"].clone();
        let fields = problems.as_array().unwrap().iter().map(|it| &it["field"]);
        assert!(fields.eq(expected), "{problems}");
    }
}

#[test]
fn a_plan_has_reasons_and_an_estimate_that_a_trial_can_check() {
    let window = Window::open();
    let filled = window.small_run();
    let plan = window.call("plan_run", json!({ "filled": filled }));
    assert_eq!(plan["problems"], json!([]));
    assert_eq!(plan["steps"], json!(400));
    let choices = plan["choices"].as_array().unwrap().iter();
    assert!(choices.filter(|it| it["automatic"] == true).count() > 10);
    assert_eq!(
        plan["estimate"]["seconds"],
        json!(null),
        "no run has been here"
    );

    let tried = window.call("try_run", json!({ "filled": filled }));
    // Two sizes, two steps of each at least.
    assert!(tried["steps"].as_u64().unwrap() >= 4);
    assert_eq!(tried["whole"], json!(true));
    let (millis, seconds) = (tried["millis"].as_f64(), tried["seconds"].as_f64());
    assert!(millis.unwrap() > 0.0);
    // Evaluations and saves take time too.
    assert!(seconds.unwrap() > 400.0 * millis.unwrap() / 1e3);
    if let Some(peak) = tried["peakBytes"].as_f64() {
        let groups = ["weights", "optimizer", "activations", "rest"].iter();
        let bytes = groups.map(|it| plan["estimate"][format!("{it}Bytes")].as_f64().unwrap());
        let estimated: f64 = bytes.sum();
        let ratio = estimated / peak;
        assert!(
            (0.5..2.0).contains(&ratio),
            "{estimated} estimated, {peak} measured"
        );
    }
}

#[test]
fn a_run_that_does_not_fit_is_refused_with_ways_that_fit() {
    let window = Window::open();
    let filled = with(window.small_run(), json!({"batch.rows": "1000000"}));
    let plan = window.call("plan_run", json!({ "filled": filled }));
    assert_eq!(
        plan["problems"],
        json!([]),
        "a plan can always be looked at"
    );
    let fit = &plan["fit"];
    assert_eq!(fit["fits"], json!(false));
    let refused = window.refused("start_run", json!({ "filled": filled, "force": false }));
    assert_eq!(refused["message"], fit["refusal"]);
    let fix = &fit["fixes"][0];
    let changed = with(filled, fix["fields"].clone());
    let plan = window.call("plan_run", json!({ "filled": changed }));
    assert_eq!(plan["fit"]["fits"], json!(true), "{fix}");
    assert_eq!(plan["fit"]["neededBytes"], fix["neededBytes"]);
    let rows = |field: &str| fix["fields"][field].as_str().unwrap().parse::<u64>();
    let rows = rows("batch.rows").unwrap() * rows("batch.accumulate").unwrap();
    assert_eq!(rows, 1_000_000);
}

#[test]
fn a_trained_model_is_talked_to_and_the_conversation_is_kept() {
    let window = Window::open();
    let filled = with(window.small_run(), json!({"steps": "3"}));
    let id = window.call("start_run", json!({ "filled": filled, "force": false }));
    let id = id.as_str().unwrap();
    until(|| window.run(id)["status"] == "finished");
    let opened = window.call("open_chat", json!({"place": 0, "name": id, "force": false}));
    assert_eq!(opened["answers"], json!(false));
    let sampling = with(opened["sampling"].clone(), json!({"max_tokens": 5}));
    let (channel, pieces) = channel();
    let app = window.webview.state::<App>();
    let messages =
        serde_json::from_value(json!([{"role": "user", "content": "Steel is"}])).unwrap();
    let sampling = serde_json::from_value(sampling).unwrap();
    let answer = chat::answer(
        app,
        0,
        messages,
        sampling,
        false,
        channel,
        Channel::new(|_| Ok(())),
    )
    .unwrap();
    let answer = serde_json::to_value(answer).unwrap();
    let pieces = pieces.try_iter().map(|it| it.as_str().unwrap().to_owned());
    let streamed: String = pieces.collect();
    assert_eq!(streamed, answer["text"].as_str().unwrap());
    assert_eq!(answer["tokens"], json!(5));
    assert_eq!(answer["cut"], "max tokens reached");

    let turns = json!([{"said": "Steel is", "answer": streamed, "beside": null}]);
    let kept = json!({
        "id": "", "title": "", "model": id, "modelTitle": "small", "system": "", "turns": turns, "changed": "",
    });
    let kept = window.call("save_conversation", json!({ "conversation": kept }));
    let found = window.call("conversations", json!({"query": "STEEL"}));
    assert_eq!(found[0]["id"], kept["id"]);
    let path = window.home.path().join("talk.md");
    let export = json!({"id": kept["id"], "path": path});
    window.refused("export_conversation", export.clone());
    window.pick(&path);
    window.call("export_conversation", export);
    let written = fs::read_to_string(path).unwrap();
    assert!(written.contains("**You:** Steel is"), "{written}");
    window.call("delete_conversation", json!({"id": kept["id"]}));
    let gone = window.refused("conversation", json!({"id": kept["id"]}));
    assert_eq!(gone["code"], "failed");
    window.call("close_chat", json!({"place": 0}));
    let nowhere = json!({"place": 7, "name": id, "force": false});
    assert_eq!(
        window.refused("open_chat", nowhere)["code"],
        "invalid_request"
    );
}

#[test]
fn a_form_is_saved_as_a_run_file_and_opened_again() {
    let window = Window::open();
    let path = window.home.path().join("run.yaml");
    let filled = window.small_run();
    let write = json!({"path": path, "filled": filled});
    window.refused("write_run_file", write.clone());
    window.pick(&path);
    window.call("write_run_file", write);
    let opened = window.call("read_run_file", json!({ "path": path }));
    assert_eq!(opened["scratch.config.hidden_size"], "32");
    let again = window.call("plan_run", json!({ "filled": opened }));
    assert_eq!(again["steps"], json!(400));
    fs::write(&path, "steps: many\n").unwrap();
    let wrong = window.refused("read_run_file", json!({ "path": path }));
    assert_eq!(wrong["field"], "steps");
}

#[test]
fn only_some_settings_are_changed_from_the_window() {
    let window = Window::open();
    window.call("set_setting", json!({"name": "theme", "value": "dark"}));
    assert_eq!(window.call("settings", json!({}))["theme"], "dark");
    let percent = |value: &str| json!({"name": "pause_below_percent", "value": value});
    window.call("set_setting", percent("20"));
    window.refused("set_setting", percent("120"));
    assert_eq!(window.call("settings", json!({}))["pauseBelowPercent"], 20);
    let folders = json!({"name": "model_folders", "value": "[/]"});
    let refused = window.refused("set_setting", folders);
    assert_eq!(refused["code"], "invalid_request");
    window.refused("set_setting", json!({"name": "theme", "value": "plaid"}));
    assert_eq!(window.call("settings", json!({}))["theme"], "dark");
    window.refused("open_link", json!({"url": "file:///etc/passwd"}));
}

/// A window without a screen, on a home of its own.
struct Window {
    webview: WebviewWindow<MockRuntime>,
    app: tauri::App<MockRuntime>,
    home: TempDir,
}

impl Window {
    fn open() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    fn at(home: TempDir) -> Self {
        Self::asking(home, NOBODY)
    }

    /// A window that asks the Hub at an address, with a cache of its own.
    fn asking(home: TempDir, endpoint: &str) -> Self {
        let (mut host, warnings) = Host::open(Some(home.path())).unwrap();
        host.hub = Hub::of_test(endpoint, &home.path().join("cache"), &host.paths).into();
        Self::over(host, warnings, home)
    }

    fn over(host: Host, warnings: Vec<String>, home: TempDir) -> Self {
        type R = MockRuntime;
        let commands = include!("names.in");
        let app = mock_builder()
            .manage(App::new(host, warnings))
            .invoke_handler(commands.invoke_handler())
            .build(mock_context(noop_assets()))
            .unwrap();
        let webview = WebviewWindowBuilder::new(&app, "main", tauri::WebviewUrl::default());
        Self {
            webview: webview.build().unwrap(),
            app,
            home,
        }
    }

    /// Closes it, as the end of the app does, and gives back its home.
    fn close(self) -> TempDir {
        let app = self.app.state::<App>();
        app.downloads.close();
        app.queue.close();
        self.home
    }

    fn ask(&self, command: &str, arguments: Value) -> Result<Value, Value> {
        let request = InvokeRequest {
            cmd: command.to_owned(),
            callback: CallbackFn(0),
            error: CallbackFn(1),
            url: "tauri://localhost".parse().unwrap(),
            body: arguments.into(),
            headers: Default::default(),
            invoke_key: INVOKE_KEY.to_owned(),
        };
        let answer = get_ipc_response(&self.webview, request)?;
        Ok(answer.deserialize().unwrap())
    }

    fn call(&self, command: &str, arguments: Value) -> Value {
        self.ask(command, arguments)
            .unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    fn refused(&self, command: &str, arguments: Value) -> Value {
        self.ask(command, arguments).unwrap_err()
    }

    /// Expects these words in the reason that a command is refused for.
    #[track_caller]
    fn refuses(&self, command: &str, arguments: Value, words: &str) {
        contains(&self.refused(command, arguments)["message"], words);
    }

    /// Chooses where something is written, as the user does in a dialog.
    fn pick(&self, path: &Path) {
        let app = self.webview.state::<App>();
        locked(&app.picked).insert(path.to_owned());
    }

    fn run(&self, id: &str) -> Value {
        self.call("run", json!({ "id": id }))
    }

    fn follow(&self, id: &str, after: u64) -> Receiver<Value> {
        let (channel, news) = channel();
        let app = self.webview.state::<App>();
        runs::follow_run(app, id.to_owned(), after, channel).unwrap();
        news
    }

    /// A text to learn from, as the form writes it.
    fn text(&self) -> String {
        let path = self.home.path().join("text.txt");
        let text = "Steel is heated and cooled slowly, until it is soft.\n".repeat(400);
        fs::write(&path, text).unwrap();
        json!([path]).to_string()
    }

    /// Starts a run of quick steps that is running until it is stopped. Returns its id.
    fn start(&self) -> String {
        let filled = with(self.small_run(), json!({"steps": "1000000"}));
        let asked = json!({ "filled": filled, "force": false });
        let id = self.call("start_run", asked);
        id.as_str().unwrap().to_owned()
    }

    /// A run of many quick steps.
    fn small_run(&self) -> Value {
        json!({
            "name": "small", "method": "scratch", "data.files": self.text(), "steps": "400",
            "batch.rows": "2", "batch.length": "32", "evaluate.every": "100", "sample.every": "0",
            "scratch.vocab_size": "300", "scratch.config.hidden_size": "32", "scratch.config.head_dim": "8",
            "scratch.config.num_attention_heads": "4", "scratch.config.num_key_value_heads": "2",
            "scratch.config.num_hidden_layers": "2", "scratch.config.intermediate_size": "64", "device": "cpu",
        })
    }
}

/// Expects these words in a text.
#[track_caller]
fn contains(text: &Value, words: &str) {
    assert!(text.as_str().unwrap().contains(words), "{text}");
}

/// A channel as the window has them, and what it hears.
fn channel<T>() -> (Channel<T>, Receiver<Value>) {
    let (sender, heard) = mpsc::channel();
    let channel = Channel::new(move |body| {
        if let InvokeResponseBody::Json(text) = body {
            let _ = sender.send(serde_json::from_str(&text).unwrap());
        }
        Ok(())
    });
    (channel, heard)
}

fn heard(news: &Receiver<Value>, is_it: impl Fn(&Value) -> bool) {
    let started = Instant::now();
    while started.elapsed() < TIMEOUT {
        if is_it(&news.recv_timeout(TIMEOUT).unwrap()) {
            return;
        }
    }
    panic!("waited {TIMEOUT:?} for news");
}

fn until(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < TIMEOUT, "waited {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// An object with the fields of another put over its own.
fn with(mut object: Value, more: Value) -> Value {
    let fields = object.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    object
}

/// The first checkpoint in a folder of folders.
fn checkpoint_below(folder: &Path) -> Option<PathBuf> {
    let mut folders: Vec<_> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders.into_iter().find_map(|path| {
        let is_it = path.join("config.json").is_file() && path.join("model.safetensors").is_file();
        if is_it {
            Some(path)
        } else {
            checkpoint_below(&path)
        }
    })
}
