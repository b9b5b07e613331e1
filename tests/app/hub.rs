//! Models and data of the Hub, from a server of our own that speaks as the real one does.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    app::{App, Output, sentences},
    hub_server::{File, Host, Kind, Repository, Server, hostile_paths},
};

/// The program with a Hub to ask.
fn command(app: &App, server: &Server, words: &str) -> Command {
    let mut command = app.command(&words.split(' ').collect::<Vec<_>>());
    command
        .env("HF_ENDPOINT", server.endpoint())
        .env_remove("HF_HUB_OFFLINE");
    command
}

/// What `anneal` says to some words, with a Hub to ask.
#[track_caller]
pub(crate) fn ask(app: &App, server: &Server, words: &str) -> Output {
    ask_with(app, server, words, "")
}

/// The same, with words on standard input.
#[track_caller]
fn ask_with(app: &App, server: &Server, words: &str, input: &str) -> Output {
    app.run_command(command(app, server, words), input)
}

impl Output {
    /// Expects an exit code, and all of these words in what was said.
    #[track_caller]
    pub(crate) fn check(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            let is_said = self.stdout.contains(word) || self.stderr.contains(word);
            assert!(is_said, "`{word}` is not in {self:?}");
        }
    }
}

/// The answer as JSON; it has to succeed.
#[track_caller]
fn ask_json(app: &App, server: &Server, words: &str) -> Value {
    let output = ask(app, server, &format!("{words} --json"));
    output.check(0, &[]);
    serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap()
}

/// The program, started and left to run.
pub(crate) fn spawn(app: &App, server: &Server, words: &str) -> std::process::Child {
    let mut command = command(app, server, words);
    command.stdin(Stdio::null()).spawn().unwrap()
}

/// A model whose weights are a large file, without anything that could be used for chat.
pub(crate) fn model(id: &str, bytes: usize) -> Repository {
    let weights: Vec<u8> = (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect();
    let config = json!({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 1000, "max_position_embeddings": 2048});
    Repository::new(Kind::Model, id)
        .with(File::small(".gitattributes", *b"*.safetensors filter=lfs"))
        .with(File::small(
            "README.md",
            *b"---\nlicense: mit\n---\n# Tiny\n\nA model.\n",
        ))
        .with(File::small("config.json", config.to_string().into_bytes()))
        .with(File::small("tokenizer.json", *b"{}"))
        .with(File::large("model.safetensors", weights))
        .with(File::large("pytorch_model.bin", *b"a pickle"))
        .with(File::large("model-q4.gguf", vec![7; 5000]))
}

/// The snapshot of a repository in the cache.
pub(crate) fn snapshot(app: &App, folder: &str, commit: &str) -> std::path::PathBuf {
    app.hub_home()
        .join("hub")
        .join(folder)
        .join("snapshots")
        .join(commit)
}

#[test]
fn a_model_is_found_and_shown_before_anything_is_fetched() {
    let (app, server) = (App::new(), Server::start());
    let mut tiny = model("Maker/Tiny", 300_000);
    tiny.about["pipeline_tag"] = json!("text-generation");
    tiny.about["tags"] = json!(["license:mit"]);
    tiny.about["downloads"] = json!(1234);
    server.add(tiny);
    server.add(Repository::new(Kind::Model, "Other/Large"));

    let found = ask(&app, &server, "hub search tiny");
    let expected = "Maker/Tiny  text-generation  mit  1,234 downloads  0 likes  DAY\n";
    assert_eq!(found.stdout, expected);
    let one = ask_json(&app, &server, "hub search --task any --limit 1");
    assert_eq!(one["more"], true);

    let words = [
        "licence       mit",
        "architecture  llama",
        "context       2,048 tokens",
        "300 kB in 3 files",
        "Train an adapter",
        "Chat",
    ];
    ask(&app, &server, "hub show Maker/Tiny").check(0, &words);
    let shown = ask_json(&app, &server, "hub show Maker/Tiny");
    assert_eq!(shown["card"], json!("# Tiny\n\nA model."));
    assert_eq!(shown["uses"]["can_train"], json!(true));
    assert!(!app.hub_home().join("hub").exists());
}

#[test]
fn a_model_is_fetched_listed_and_deleted() {
    let (app, server) = (App::new(), Server::start());
    server.redirect_small_files();
    let commit = server.add(model("Maker/Tiny", 300_000));
    let got = ask(&app, &server, "hub get Maker/Tiny");
    let folder = snapshot(&app, "models--Maker--Tiny", &commit);
    assert_eq!(got.code, 0, "{got:?}");
    let path = format!("FOLDER/hub-home/hub/models--Maker--Tiny/snapshots/{commit}\n");
    assert_eq!(got.stdout, path);
    let needed = ["config.json", "model.safetensors", "tokenizer.json"];
    assert_eq!(names(&folder), needed);
    let weights = fs::read(folder.join("model.safetensors")).unwrap();
    assert_eq!(weights.len(), 300_000);

    server.forget_requests();
    ask(&app, &server, "hub get Maker/Tiny").check(0, &["everything is here"]);
    assert!(asks_api_alone(&server));

    let words = "hub get Maker/Tiny --file model-q4.gguf --file pytorch_model.bin";
    ask(&app, &server, words).check(0, &["pytorch_model.bin: It may be a pickle"]);
    assert_eq!(names(&folder).len(), 5);

    ask(&app, &server, "hub list").check(0, &["Maker/Tiny  model  305 kB"]);
    ask(&app, &server, "hub rm Maker/Tiny").check(2, &[]);
    let removed = ask_json(&app, &server, "hub rm Maker/Tiny --yes");
    let freed = removed["freed_bytes"].as_u64().unwrap();
    assert!(freed > 305_000, "{removed}");
    assert_eq!(ask_json(&app, &server, "hub list"), json!([]));
}

/// Whether no large file was asked for.
pub(crate) fn asks_api_alone(server: &Server) -> bool {
    let requests = server.requests();
    requests.iter().all(|request| request.host == Host::Api)
}

#[test]
fn a_newer_revision_fetches_only_what_changed_and_each_is_deleted_alone() {
    let (app, server) = (App::new(), Server::start());
    let old = server.add(model("Maker/Tiny", 100_000));
    assert_eq!(ask(&app, &server, "hub get Maker/Tiny").code, 0);
    let mut newer = model("Maker/Tiny", 100_000);
    newer.files.retain(|file| file.path != "tokenizer.json");
    let new = server.add(newer.with(File::small("tokenizer.json", *b"{\"new\": 1}")));
    server.forget_requests();
    assert_eq!(ask(&app, &server, "hub get Maker/Tiny").code, 0);
    assert!(asks_api_alone(&server), "the weights are the same");

    let revisions = &ask_json(&app, &server, "hub list")[0]["revisions"];
    assert_eq!(revisions.as_array().unwrap().len(), 2);
    let words = format!("hub rm Maker/Tiny --revision {old} --yes");
    // Only the old tokenizer is nobody's.
    assert_eq!(ask_json(&app, &server, &words)["freed_bytes"], 2);
    let weights = snapshot(&app, "models--Maker--Tiny", &new).join("model.safetensors");
    assert_eq!(fs::read(weights).unwrap().len(), 100_000);
    // The name continues to mean the new one, also for other programs.
    let main = app.hub_home().join("hub/models--Maker--Tiny/refs/main");
    assert_eq!(fs::read_to_string(main).unwrap(), new);
}

#[test]
fn the_token_is_kept_private_and_goes_to_no_other_host() {
    let (app, server) = (App::new(), Server::start());
    server.set_token("hf_good_token");
    let mut gated = model("Maker/Gated", 50_000);
    gated.gated = true;
    server.add(gated);

    let wrong = ask_with(&app, &server, "hub login", "hf_wrong_token\n");
    wrong.check(1, &[]);
    assert!(!wrong.stderr.contains("hf_wrong"), "{wrong:?}");
    let login = ask_with(&app, &server, "hub login", "hf_good_token\n");
    login.check(0, &["logged in as ", "a file that only you can read"]);
    ask(&app, &server, "hub whoami").check(0, &["hub-token"]);

    server.forget_requests();
    let got = ask(&app, &server, "hub get Maker/Gated --json");
    got.check(0, &[]);
    let requests = server.requests();
    let sends_token = |host| {
        let mut requests = requests.iter().filter(move |it| it.host == host);
        requests.any(|it| it.header("authorization").is_some())
    };
    assert!(!asks_api_alone(&server), "the weights lie on another host");
    let sends_token = [Host::Api, Host::Cdn].map(sends_token);
    assert_eq!(sends_token, [true, false]);

    for output in [login, got] {
        assert!(!format!("{output:?}").contains("good_token"));
    }
    let holds = |path: &Path| {
        fs::read(path).is_ok_and(|bytes| bytes.windows(10).any(|it| it == b"good_token"))
    };
    let holders: Vec<String> = files(app.folder())
        .into_iter()
        .filter(|path| holds(&app.folder().join(path)))
        .collect();
    assert_eq!(holders, ["home/hub-token"]);
    ask(&app, &server, "hub logout").check(0, &[]);
    ask(&app, &server, "hub whoami").check(0, &["nobody is logged in"]);
}

#[test]
fn who_has_access_gets_a_file_of_a_gated_model_without_a_config() {
    let (app, server) = (App::new(), Server::start());
    server.set_token("hf_good_token");
    let weights = File::large("model-q4.gguf", vec![7; 5000]);
    let mut gated = Repository::new(Kind::Model, "Maker/Packed").with(weights);
    gated.gated = true;
    server.add(gated);
    let get = |words: &str| {
        let mut get = command(&app, &server, words);
        get.env("HF_TOKEN", "hf_good_token");
        app.run_command(get, "")
    };
    get("hub get Maker/Packed --file model-q4.gguf").check(0, &[]);
    // Nothing of it can be used here, so nothing is fetched that nobody named.
    get("hub get Maker/Packed").check(1, &["no weights as safetensors"]);
}

#[test]
fn who_has_no_access_is_told_to_accept_the_terms() {
    let (app, server) = (App::new(), Server::start());
    server.set_token_without_access("hf_stranger_token");
    let mut gated = model("Maker/Gated", 1000);
    gated.gated = true;
    server.add(gated);
    let words = [
        "its makers let only those have it who accept their terms",
        "hint: accept the terms on its page",
    ];
    ask(&app, &server, "hub get Maker/Gated").check(1, &words);
    let mut get = command(&app, &server, "hub get Maker/Gated");
    get.env("HF_TOKEN", "hf_stranger_token");
    let refused = app.run_command(get, "");
    refused.check(1, &["with the account of your token"]);
}

/// A model that was trained here, as somebody would have put it on the Hub.
fn trained(app: &App) -> Repository {
    app.file("animals.txt", &sentences(40));
    let run = "data: {files: [animals.txt]}\nscratch: {preset: nano, vocab_size: 300, config: {hidden_size: 16, \
        intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 2, head_dim: 8}}\n\
        batch: {rows: 2, length: 32}\nsteps: 2\ndevice: cpu\n";
    app.file("run.yaml", run);
    assert_eq!(app.run(&["train", "run.yaml"]).code, 0);
    let run = fs::read_dir(app.home().join("runs")).unwrap().next();
    let folder = run.unwrap().unwrap().path().join("checkpoints/step-000002");
    let mut repository = Repository::new(Kind::Model, "Maker/Small");
    for name in names(&folder) {
        let bytes = fs::read(folder.join(&name)).unwrap();
        repository = repository.with(match name.as_str() {
            "model.safetensors" => File::large(&name, bytes),
            _ => File::small(&name, bytes),
        });
    }
    repository
}

#[test]
fn a_model_that_is_not_here_is_offered_and_then_talked_to_and_trained() {
    let (app, server) = (App::new(), Server::start());
    server.add(trained(&app));

    let words = ["nobody can be asked here: Maker/Small is not here. Fetch "];
    ask(&app, &server, "chat Maker/Small").check(2, &words);
    let chat = "chat Maker/Small --yes --set max_tokens=3";
    ask_with(&app, &server, chat, "The cat\n").check(0, &[]);
    // Now it is here, and nobody is asked any more.
    let train = "train --model Maker/Small --data animals.txt --steps 1 --plan";
    let train: Vec<&str> = train.split(' ').collect();
    app.run(&train).check(0, &[]);
    let missing = "train --model Maker/None --data animals.txt --yes";
    let words = ["there is no model `Maker/None` on this machine, and could not look"];
    ask(&app, &server, missing).check(1, &words);
}

#[test]
fn a_part_of_a_data_set_is_fetched_and_learned_from() {
    let (app, server) = (App::new(), Server::start());
    let rows = "{\"question\": \"1+1?\", \"answer\": \"2\"}\n".repeat(50);
    let mut data = Repository::new(Kind::Dataset, "Maker/Sums")
        .with(File::small("README.md", *b"# Sums"))
        .with(File::large("main/train-0.jsonl", rows.clone().into_bytes()))
        .with(File::large("main/train-1.jsonl", rows.into_bytes()))
        .with(File::small(
            "main/test-0.jsonl",
            *b"{\"question\": \"2+2?\", \"answer\": \"4\"}\n",
        ));
    let card = json!({"configs": [{"config_name": "main", "data_files": [
        {"split": "train", "path": "main/train-*"}, {"split": "test", "path": "main/test-*"}]}]});
    data.about["cardData"] = card;
    let commit = server.add(data);

    let shown = ask(&app, &server, "hub show Maker/Sums --data");
    shown.check(0, &["main  train  JSON lines  2 files"]);
    let wrong = ask(&app, &server, "hub get Maker/Sums --data --split dev");
    let words = "has no part `dev`\nhint: its parts are test of main, train of main";
    wrong.check(2, &[words]);
    ask(&app, &server, "hub get Maker/Sums --data --split train").check(0, &[]);
    let folder = snapshot(&app, "datasets--Maker--Sums", &commit).join("main");
    assert_eq!(names(&folder), ["train-0.jsonl", "train-1.jsonl"]);
    let columns = "--column prompt=question --column completion=answer";
    let inspect = format!("data inspect {} {columns}", folder.display());
    let inspect: Vec<&str> = inspect.split(' ').collect();
    app.run(&inspect).check(0, &["100"]);
}

#[test]
fn offline_is_a_state_with_a_code_of_its_own() {
    let (app, server) = (App::new(), Server::start());
    let off = app.run(&["hub", "search", "x"]);
    off.check(3, &["HF_HUB_OFFLINE", "still work"]);
    let mut nobody = command(&app, &server, "hub search x");
    nobody.env("HF_ENDPOINT", "http://127.0.0.1:9");
    let nobody = app.run_command(nobody, "");
    nobody.check(3, &["127.0.0.1:9 can’t be reached"]);
    // What is here works, and nobody waits for the network.
    app.run(&["hub", "list"]).check(0, &[]);
    assert!(app.run(&["chat", "Maker/Tiny"]).stderr.contains("no model"));
    assert!(server.requests().is_empty());
}

#[test]
fn hostile_names_and_sizes_stay_outside() {
    let (app, server) = (App::new(), Server::start());
    let mut repository = model("Maker/Tiny", 1000);
    let hostile = hostile_paths();
    for path in &hostile {
        repository = repository.with(File::small(path, *b"gotcha"));
    }
    repository.about["pipeline_tag"] = json!("text\u{1b}[31m");
    repository.about["tags"] = json!(["license:\u{202e}tim"]);
    server.add(repository);
    let shown = ask(&app, &server, "hub show Maker/Tiny");
    let left_out = format!("{} of its files can’t be kept here", hostile.len());
    shown.check(0, &[&left_out]);
    let hides = shown.stdout.contains(['\u{1b}', '\u{202e}', '\u{7}']);
    assert!(!hides, "{shown:?}");
    for id in ["Maker/Tiny --file ../../x", "../../etc", "a/b/c", "C:\\x"] {
        ask(&app, &server, &format!("hub get {id}")).check(2, &[]);
    }
    ask(&app, &server, "hub get Maker/Tiny").check(0, &[]);
    let wrong = files(app.folder())
        .into_iter()
        .find(|path| fs::read(app.folder().join(path)).is_ok_and(|it| it == b"gotcha"));
    assert_eq!(wrong, None);
}

#[test]
fn what_another_program_fetched_is_here() {
    // As `huggingface_hub` lays it out, down to what it leaves beside the files.
    let app = App::new();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let root = app.hub_home().join("hub/models--maker--old");
    let blob = "a".repeat(40);
    fs::create_dir_all(root.join("blobs")).unwrap();
    fs::create_dir_all(root.join("refs")).unwrap();
    fs::create_dir_all(root.join(".no_exist").join(commit)).unwrap();
    fs::create_dir_all(root.join("snapshots").join(commit)).unwrap();
    fs::write(root.join("refs/main"), commit).unwrap();
    fs::write(root.join("blobs").join(&blob), "{}").unwrap();
    let link = root.join("snapshots").join(commit).join("config.json");
    #[cfg(unix)]
    std::os::unix::fs::symlink(format!("../../blobs/{blob}"), link).unwrap();
    #[cfg(windows)]
    fs::copy(root.join("blobs").join(&blob), link).unwrap();
    let words = "maker/old  model  42 B  01234567  main  1 file";
    app.run(&["hub", "list"]).check(0, &[words]);
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for name in names(folder) {
        let path = folder.join(&name);
        match path.is_dir() && !path.is_symlink() {
            true => found.extend(
                files(&path)
                    .into_iter()
                    .map(|inner| format!("{name}/{inner}")),
            ),
            false => found.push(name),
        }
    }
    found
}
