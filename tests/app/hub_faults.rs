//! Everything that can go wrong between a Hub and a file: each ends in the right bytes, or in a sentence.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    app::{App, Output},
    hub::{ask, asks_api_alone, model, snapshot, spawn},
    hub_server::{ALWAYS, Fault, File, Host, Server},
};

const WEIGHTS: &str = "model.safetensors";
/// Bytes that may be on their way when a process is killed: what two sockets hold. They are sent twice.
const ON_THE_WAY: u64 = 4 << 20;

/// How long a download may take to begin, on a machine that does much else.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A model on a server, and what was fetched of it after a fault.
struct Trial {
    app: App,
    server: Server,
    commit: String,
    bytes: usize,
}

impl Trial {
    fn new(bytes: usize) -> Self {
        let server = Server::start();
        let commit = server.add(model("Maker/Tiny", bytes));
        Self {
            app: App::new(),
            server,
            commit,
            bytes,
        }
    }

    fn get(&self) -> Output {
        ask(&self.app, &self.server, "hub get Maker/Tiny")
    }

    /// Fetches it, and expects the right weights.
    #[track_caller]
    fn check_gets(&self) {
        self.get().check(0, &[]);
        self.check_weights();
    }

    fn weights(&self) -> PathBuf {
        snapshot(&self.app, "models--Maker--Tiny", &self.commit).join(WEIGHTS)
    }

    /// What of the weights is there while they are not whole.
    fn incomplete(&self) -> u64 {
        let blobs = self.app.hub_home().join("hub/models--Maker--Tiny/blobs");
        let entries = fs::read_dir(blobs).into_iter().flatten().flatten();
        let begun = entries.filter(|it| it.path().extension().is_some_and(|it| it == "incomplete"));
        let sizes = begun.map(|entry| entry.metadata().map_or(0, |it| it.len()));
        sizes.max().unwrap_or(0)
    }

    /// Whether the weights are the right ones.
    #[track_caller]
    fn check_weights(&self) {
        let bytes = fs::read(self.weights()).unwrap();
        assert_eq!(bytes.len(), self.bytes);
        let target = fs::canonicalize(self.weights()).unwrap();
        let digest: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(target.file_name().unwrap().to_string_lossy(), digest);
    }

    /// Where each request for the weights began, and how many bytes went out in all.
    fn ranges(&self) -> (Vec<u64>, u64) {
        let requests = self.server.requests();
        let weights = requests.iter().filter(|request| request.host == Host::Cdn);
        let start = |range: &str| -> u64 {
            let (start, _) = range["bytes=".len()..].split_once('-').unwrap();
            start.parse().unwrap()
        };
        let starts = weights.clone();
        let starts = starts
            .map(|request| request.header("range").map_or(0, start))
            .collect();
        (starts, weights.map(|request| request.bytes_sent()).sum())
    }
}

/// A fault that passes: the file is right in the end.
#[track_caller]
fn check_passes(fault: &str, times: u64, what: Fault) -> Trial {
    let trial = Trial::new(3_000_000);
    trial.server.fail(fault, times, what);
    trial.check_gets();
    trial
}

/// A fault that lasts: there is a sentence, nothing wrong is in the cache, and what came is continued once it is over.
#[track_caller]
fn check_fails(fault: &str, what: Fault, sentence: &str) {
    let trial = Trial::new(3_000_000);
    trial.server.fail(fault, ALWAYS, what);
    trial.get().check(1, &[sentence, "hint: "]);
    // Half a model is none.
    let config = trial.weights().with_file_name("config.json");
    assert!(!trial.weights().exists() && !config.exists());
    trial.server.heal();
    trial.check_gets();
}

const CDN: &str = "/xet-bridge-us/";

#[test]
fn a_server_in_trouble_is_asked_again() {
    for status in [500, 502, 503, 504, 408] {
        check_passes(CDN, 2, Fault::status(status));
    }
    check_passes(CDN, 1, Fault::too_many_requests(1));
    check_passes("/api/models/Maker/Tiny/tree", 2, Fault::status(503));
    check_passes("GET /api/models/Maker/Tiny/revision", 1, Fault::status(502));
    check_passes(CDN, 1, Fault::HangUp);
}

#[test]
fn a_connection_that_is_cut_is_taken_up_where_it_ended() {
    let trial = check_passes(CDN, 3, Fault::CutAfter(700_000));
    let (starts, sent) = trial.ranges();
    assert_eq!(starts.len(), 4, "{starts:?}");
    assert!(starts.is_sorted() && starts[3] > 1_000_000, "{starts:?}");
    assert!(sent < 3_000_000 + 3 * 700_000, "{sent}");
}

#[test]
fn a_server_that_knows_no_ranges_sends_everything_again() {
    let trial = Trial::new(3_000_000);
    trial.server.fail(CDN, 1, Fault::CutAfter(1_000_000));
    trial.server.fail(CDN, ALWAYS, Fault::IgnoreRange);
    trial.check_gets();
}

#[test]
fn corrupted_bytes_never_reach_the_cache() {
    check_passes(CDN, 1, Fault::WrongByte(1_234_567));
    check_fails(
        CDN,
        Fault::WrongByte(1_234_567),
        "what arrived twice is not what the Hub lists",
    );
    check_passes("/tokenizer.json", 1, Fault::WrongByte(1));
}

#[test]
fn a_file_that_was_cut_off_in_the_cache_is_fetched_again() {
    let trial = Trial::new(300_000);
    trial.check_gets();
    let blob = fs::canonicalize(trial.weights()).unwrap();
    let file = fs::File::options().write(true).open(&blob).unwrap();
    file.set_len(120_000).unwrap();
    let shown = ask(&trial.app, &trial.server, "hub show Maker/Tiny");
    shown.check(0, &[]);
    trial.check_gets();
    trial.get().check(0, &["everything is here"]);
}

#[test]
fn a_server_that_speaks_of_another_file_is_not_believed() {
    // Each of these is tried as often as any trouble, which takes a minute; one of them is enough for that.
    check_passes(CDN, 1, Fault::WrongLength(-1000));
    check_passes(CDN, 1, Fault::WrongLength(1000));
    let trial = Trial::new(3_000_000);
    trial.server.fail(CDN, 1, Fault::CutAfter(1_000_000));
    trial
        .server
        .fail(CDN, 2, Fault::WrongRange("bytes 5-9/10".to_owned()));
    trial.check_gets();
}

#[test]
fn what_is_no_answer_is_a_sentence() {
    check_fails(
        "/tree/",
        Fault::garbage(),
        "the answer is not what the Hub sends",
    );
    check_fails(
        "/api/models/Maker/Tiny/revision",
        Fault::garbage(),
        "could not look at `Maker/Tiny`: ",
    );
    check_fails(
        "/resolve/",
        Fault::RedirectForever,
        "one address leads to the next without end",
    );
}

#[test]
fn absurd_sizes_are_not_believed() {
    let negative = json!(-1);
    let numbers = [
        json!(u64::MAX),
        json!(i64::MAX),
        negative,
        json!(1e300),
        json!(0.5),
    ];
    for size in numbers.into_iter().chain([json!("12"), Value::Null]) {
        let (app, server) = (App::new(), Server::start());
        let mut absurd = model("Maker/Tiny", 1000);
        for file in absurd.files.iter_mut().filter(|file| file.path == WEIGHTS) {
            file.size = size.clone();
        }
        server.add(absurd);
        let got = ask(&app, &server, "hub get Maker/Tiny");
        let stored = app.hub_home().join("hub/models--Maker--Tiny/blobs");
        let mut stored = fs::read_dir(stored).into_iter().flatten().flatten();
        let is_large = stored.any(|it| it.metadata().unwrap().len() > 500);
        assert!(!is_large, "{size}: {got:?}");
    }
}

#[test]
fn a_disk_that_is_too_small_is_said_before_anything_is_fetched() {
    let (app, server) = (App::new(), Server::start());
    let mut huge = model("Maker/Tiny", 1000);
    huge.files.retain(|file| file.path != WEIGHTS);
    huge.files
        .push(File::small("model.safetensors.index.json", *b"{}"));
    // More than any disk has, in files of a size that there may be.
    for part in 1..=1000 {
        let mut file = File::large(
            &format!("model-{part:05}-of-01000.safetensors"),
            *b"weights",
        );
        file.size = 4_000_000_000_000_u64.into();
        huge.files.push(file);
    }
    server.add(huge);
    let words = [
        "4000.0 TB are missing and ",
        " more are needed where the cache lies",
    ];
    ask(&app, &server, "hub get Maker/Tiny").check(1, &words);
    assert!(asks_api_alone(&server));
}

#[test]
fn a_list_of_files_in_many_parts_is_read_whole() {
    let (app, server) = (App::new(), Server::start());
    server.set_tree_page(2);
    server.add(model("Maker/Tiny", 1000));
    ask(&app, &server, "hub get Maker/Tiny").check(0, &[]);
}

#[test]
fn a_download_survives_twenty_kills_and_fetches_nothing_twice() {
    let trial = Trial::new(200_000_000);
    trial
        .server
        .fail(CDN, ALWAYS, Fault::BytesPerSecond(80_000_000));
    let (mut before, mut kills) = (0, 0);
    let mut luck = 7_u64;
    while kills < 20 {
        let mut child = spawn(&trial.app, &trial.server, "hub get Maker/Tiny --quiet");
        // Killed once it has fetched something, at some moment after that.
        let start = Instant::now();
        while trial.incomplete() == before && start.elapsed() < TIMEOUT {
            thread::sleep(Duration::from_millis(2));
        }
        luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        thread::sleep(Duration::from_millis(luck >> 58));
        child.kill().unwrap();
        child.wait().unwrap();
        let here = trial.incomplete();
        assert!(here > before, "kill {kills}: {here} bytes, before {before}");
        before = here;
        kills += 1;
    }
    trial.check_gets();
    let (starts, sent) = trial.ranges();
    assert!(
        starts.is_sorted(),
        "each continues where the last one ended: {starts:?}"
    );
    assert!(
        sent <= 200_000_000 + 20 * ON_THE_WAY,
        "{sent} bytes were sent"
    );
}

#[test]
fn two_downloads_of_one_file_are_one_transfer() {
    let trial = Trial::new(8_000_000);
    trial
        .server
        .fail(CDN, ALWAYS, Fault::BytesPerSecond(8_000_000));
    let both: Vec<_> = (0..2)
        .map(|_| spawn(&trial.app, &trial.server, "hub get Maker/Tiny --json"))
        .collect();
    for child in both {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let last = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .last()
            .unwrap()
            .to_owned();
        let last: Value = serde_json::from_str(&last).unwrap();
        assert_eq!(
            (&last["kind"], last["bytes"].as_u64().unwrap() > 8_000_000),
            (&Value::from("finished"), true)
        );
    }
    trial.check_weights();
    let (starts, sent) = trial.ranges();
    assert_eq!((starts, sent), (vec![0], 8_000_000));
}

#[test]
fn a_slow_answer_is_waited_for() {
    check_passes(CDN, 3, Fault::Pause(Duration::from_millis(700)));
}

#[cfg(unix)]
#[test]
fn a_silent_server_keeps_nobody() {
    let trial = Trial::new(3_000_000);
    trial.server.fail(CDN, ALWAYS, Fault::Silence);
    let child = spawn(&trial.app, &trial.server, "hub get Maker/Tiny");
    while trial.ranges().0.is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    let asked = Instant::now();
    interrupt(&child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    // The time limit for silence is half a minute.
    assert!(
        asked.elapsed() < Duration::from_secs(15),
        "{:?}",
        asked.elapsed()
    );
}

#[cfg(unix)]
fn interrupt(child: &std::process::Child) {
    // SAFETY: a signal to a process of our own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_came_and_the_same_command_goes_on() {
    let trial = Trial::new(20_000_000);
    trial
        .server
        .fail(CDN, ALWAYS, Fault::BytesPerSecond(10_000_000));
    let child = spawn(&trial.app, &trial.server, "hub get Maker/Tiny");
    while trial.incomplete() < 3_000_000 {
        thread::sleep(Duration::from_millis(5));
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("the same command continues with it")
    );
    let here = trial.incomplete();
    assert!((3_000_000..20_000_000).contains(&here));
    trial.server.heal();
    trial.check_gets();
    assert_eq!(trial.ranges().0, [0, here]);
}
