//! The Hub as the window uses it.

use serde_json::json;

use super::*;
use crate::hub::downloads::Told;

#[path = "../../../../tests/app/hub_server/mod.rs"]
#[allow(dead_code, reason = "the tests of the terminal use the rest")]
mod hub_server;

use hub_server::{ALWAYS, Fault, File, Kind, Repository, Server};

const CDN: &str = "/xet-bridge-us/";

impl Window {
    /// A window that asks a server of ours.
    fn with_hub(home: TempDir, server: &Server) -> Self {
        Self::asking(home, &server.endpoint())
    }

    fn download(&self, key: &Value) -> Value {
        let downloads = self.call("downloads", json!({}));
        let found = downloads
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["key"] == *key);
        found.cloned().unwrap_or_default()
    }

    fn start_download(&self, kind: &str, id: &str, split: &str) -> Value {
        let wanted = json!({"kind": kind, "id": id, "revision": "", "files": [], "config": "", "split": split});
        self.call("start_download", json!({ "wanted": wanted }))
    }

    fn until(&self, key: &Value, state: &str) -> Value {
        until(|| self.download(key)["state"] == json!(state));
        self.download(key)
    }
}

fn model(bytes: usize) -> Repository {
    Repository::new(Kind::Model, "Maker/Tiny")
        .with(File::small("config.json", *b"{\"model_type\": \"llama\"}"))
        .with(File::small("tokenizer.json", *b"{}"))
        .with(File::large("model.safetensors", vec![3; bytes]))
}

#[test]
fn a_model_is_found_fetched_through_a_pause_and_the_end_of_the_app_and_deleted() {
    let server = Server::start();
    let commit = server.add(model(30_000_000));
    server.fail(CDN, ALWAYS, Fault::BytesPerSecond(4_000_000));
    let window = Window::with_hub(tempfile::tempdir().unwrap(), &server);
    let asked = json!({"kind": "model", "id": "Maker/Tiny", "revision": ""});
    let page = window.call("hub_repository", asked.clone());
    assert_eq!(
        (&page["commit"], &page["path"], &page["hereBytes"]),
        (&json!(commit), &json!(null), &json!(0))
    );

    let key = window.start_download("model", "Maker/Tiny", "");
    assert_eq!(
        window.start_download("model", "Maker/Tiny", ""),
        key,
        "one that is running is not begun again"
    );
    until(|| window.download(&key)["doneBytes"].as_f64().unwrap() > 3e6);
    let cached = json!({"kind": "model", "id": "Maker/Tiny", "commit": commit});
    window.refuses("delete_cached", cached, "is being fetched right now");
    // Gone on with before the one that was paused has ended.
    window.call("pause_download", json!({ "key": key }));
    window.call("resume_download", json!({ "key": key }));
    let before = window.download(&key)["doneBytes"].as_f64().unwrap();
    until(|| window.download(&key)["doneBytes"].as_f64().unwrap() > before + 1e6);
    window.call("pause_download", json!({ "key": key }));
    let paused = window.until(&key, "paused");
    let window = Window::with_hub(window.close(), &server);
    let again = window.download(&key);
    assert_eq!(
        again["state"],
        json!("paused"),
        "nothing is running that nobody asked for"
    );
    assert!(again["doneBytes"].as_f64() >= paused["doneBytes"].as_f64());
    let page = window.call("hub_repository", asked.clone());
    assert!(page["hereBytes"].as_f64().unwrap() > 3e6);

    server.heal();
    window.call("resume_download", json!({ "key": key }));
    let done = window.until(&key, "done");
    let page = window.call("hub_repository", asked);
    assert_eq!(
        (&page["path"], &page["hereBytes"]),
        (&done["path"], &page["neededBytes"])
    );
    let cached = window.call("cached", json!({}));
    assert_eq!(cached[0]["revisions"][0]["path"], done["path"]);
    let freed = window.call(
        "delete_cached",
        json!({"kind": "model", "id": "Maker/Tiny", "commit": commit}),
    );
    assert!(freed.as_f64().unwrap() > 3e7);
    window.call("cancel_download", json!({ "key": key }));
    assert_eq!(window.call("downloads", json!({})), json!([]));
}

#[test]
fn nothing_is_asked_before_somebody_searches() {
    let server = Server::start();
    server.add(model(1000));
    let window = Window::with_hub(tempfile::tempdir().unwrap(), &server);
    assert_eq!(
        server.requests().len(),
        0,
        "nothing is asked before somebody asks"
    );
    let search = json!({"kind": "model", "words": "tiny", "author": "", "task": "", "sort": "likes", "limit": 30});
    let found = window.call("hub_search", json!({ "search": search }));
    assert_eq!(
        (&found["found"][0]["id"], &found["found"][0]["here"]),
        (&json!("Maker/Tiny"), &json!(false))
    );
}

#[test]
fn data_that_was_fetched_is_in_the_list_of_data() {
    let server = Server::start();
    let rows = "{\"question\": \"1+1?\", \"answer\": \"2\"}\n".repeat(3000);
    server.add(
        Repository::new(Kind::Dataset, "Maker/Sums")
            .with(File::small(
                "test.jsonl",
                *b"{\"question\": \"2+2?\", \"answer\": \"4\"}\n",
            ))
            .with(File::large("train.jsonl", rows.into_bytes())),
    );
    let window = Window::with_hub(tempfile::tempdir().unwrap(), &server);
    let asked = json!({"id": "Maker/Sums", "revision": "", "config": "default", "split": "train"});
    let first = window.call("hub_first_rows", asked);
    assert_eq!(first["columns"], json!(["question", "answer"]));
    assert_eq!(first["rows"][1], json!(["1+1?", "2"]));
    let key = window.start_download("data", "Maker/Sums", "train");
    let done = window.until(&key, "done");
    assert_eq!(done["part"], json!("train"));
    let sets = window.call("data_sets", json!({}));
    assert_eq!(
        (&sets[0]["name"], &sets[0]["path"]),
        (&json!("Maker/Sums, train"), &done["path"])
    );
}

#[test]
fn a_download_waits_for_the_network_and_a_cancelled_one_leaves_no_parts() {
    let server = Server::start();
    server.add(model(5_000_000));
    server.fail(CDN, ALWAYS, Fault::CutAfter(1_000_000));
    let window = Window::with_hub(tempfile::tempdir().unwrap(), &server);
    let key = window.start_download("model", "Maker/Tiny", "");
    let waits = window.until(&key, "retrying");
    contains(&waits["problem"]["message"], "the connection ended");
    let app = window.app.state::<App>();
    assert!(app.downloads.next(&mut Told::default()).is_some());
    window.call("cancel_download", json!({ "key": key }));
    let blobs = window.home.path().join("cache/models--Maker--Tiny/blobs");
    let parts = || {
        fs::read_dir(&blobs)
            .unwrap()
            .flatten()
            .filter(|it| it.path().extension().is_some())
            .count()
    };
    until(|| parts() == 0);
}

#[test]
fn offline_is_a_code_that_the_window_knows() {
    let window = Window::open();
    assert_eq!(window.call("hub", json!({}))["offline"], json!(null));
    let search = json!({"kind": "data", "words": "", "author": "", "task": "", "sort": "recent", "limit": 30});
    let refused = window.refused("hub_search", json!({ "search": search }));
    assert_eq!(refused["code"], json!("offline"));
    assert!(
        window.call("hub", json!({}))["offline"]
            .as_str()
            .unwrap()
            .contains("can’t be reached")
    );
}
