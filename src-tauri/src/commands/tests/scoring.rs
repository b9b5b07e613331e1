//! Probes that the window has score what a model writes.

use ::models::tasks::probe::{
    capture::CaptureRequest,
    examples::Examples,
    folder,
    labelled::LabelledRequest,
    states::States,
    study::{Settings, Source, study},
};

use super::*;
use crate::host::probe::CaptureOrder;

impl Window {
    /// Captures states of a model over some rows, and writes probes of them into a folder.
    fn probes_of(&self, model: &str, into: &Path) {
        let row = |row: usize| {
            let label = ["odd", "even"][row % 2];
            json!({"text": format!("steel is {row}"), "label": label}).to_string()
        };
        let data = self.home.path().join("rows.jsonl");
        let rows: Vec<String> = (0..90).map(row).collect();
        fs::write(&data, rows.join("\n")).unwrap();
        let states = self.home.path().join("states");
        let order = CaptureOrder {
            request: CaptureRequest {
                data: LabelledRequest {
                    paths: vec![data],
                    ..LabelledRequest::default()
                },
                ..CaptureRequest::default()
            },
            model: model.to_owned(),
            device: None,
            states: Some(states.clone()),
            force: false,
        };
        let app = self.webview.state::<App>();
        assert!(app.host.capture(order, &mut |_| {}, &|| false).unwrap());
        let states = States::open(&states).unwrap();
        let examples = Examples::of(&states, &[], 0).unwrap();
        let sites = states.sites();
        let mut read = |site: usize, rows: &[usize]| states.read_rows(sites[site], rows);
        let mut source = Source::of(&states, sites, &mut read);
        let found = study(&examples, &mut source, &Settings::default(), &mut |_| true);
        let found = found.unwrap().unwrap();
        folder::save(into, &found, (&examples, states.about())).unwrap();
    }

    fn trained(&self, more: Value) -> String {
        let filled = with(with(self.small_run(), json!({"steps": "3"})), more);
        let id = self.call("start_run", json!({ "filled": filled, "force": false }));
        let id = id.as_str().unwrap().to_owned();
        until(|| self.run(&id)["status"] == "finished");
        id
    }
}

/// A window with a run, its id, and the folder of its probes.
fn with_probes() -> (Window, String, PathBuf) {
    let window = Window::open();
    let id = window.trained(json!({}));
    let runs = window.webview.state::<App>().host.paths.runs.clone();
    let probes = runs.join(&id).join("probes");
    window.probes_of(&id, &probes);
    (window, id, probes)
}

/// What the model at place 0 says, and what it says to who hears the scores; with `plain` as it is.
fn ask(window: &Window, opened: &Value, plain: bool) -> (Value, Vec<Value>) {
    let sampling = with(opened["sampling"].clone(), json!({"max_tokens": 8}));
    let sampling = serde_json::from_value(sampling).unwrap();
    let messages = json!([{"role": "user", "content": "Steel is"}]);
    let messages = serde_json::from_value(messages).unwrap();
    let ((pieces, _), (scored, heard)) = (channel(), channel());
    let app = window.webview.state::<App>();
    let answer = chat::answer(app, 0, messages, sampling, plain, pieces, scored).unwrap();
    let heard: Vec<Value> = heard.try_iter().collect();
    (serde_json::to_value(answer).unwrap()["text"].clone(), heard)
}

#[test]
fn a_model_is_led_along_a_probe_of_its_run_beside_itself_as_it_is() {
    let (window, id, probes) = with_probes();
    let opened = window.call("open_chat", json!({"place": 0, "name": id, "force": false}));
    let (text, _) = ask(&window, &opened, false);
    let by = json!({"folder": probes, "label": "odd", "strength": 5.0});
    let steer =
        |by: Value| window.call("steer_model", json!({"place": 0, "by": by, "force": false}));
    let led = steer(json!([by]));
    assert_eq!(led["directions"][0]["label"], "odd");
    contains(&led["directions"][0]["madeOf"], "the weights of the probe");
    assert_ne!(led["perplexity"][0], led["perplexity"][1]);
    assert_ne!(ask(&window, &opened, false).0, text);
    assert_eq!(ask(&window, &opened, true).0, text);
    assert_eq!(steer(json!([]))["perplexity"], Value::Null);
    assert_eq!(ask(&window, &opened, false).0, text);
}

#[test]
fn probes_of_a_run_are_found_for_its_model_and_score_its_answers() {
    let (window, id, probes) = with_probes();
    let found = window.call("probes_for", json!({ "name": id }));
    assert_eq!(found[0]["labels"], json!(["even", "odd"]), "{found}");
    assert_eq!(found[0]["name"], json!(id));
    assert_eq!(
        window.call("probes_in_folder", json!({"folder": probes}))["name"],
        "probes"
    );

    let opened = window.call("open_chat", json!({"place": 0, "name": id, "force": false}));
    let watch = json!({"place": 0, "folders": [found[0]["folder"]], "force": false});
    let watched = window.call("watch_probes", watch.clone());
    assert_eq!(watched["probes"].as_array().unwrap().len(), 2);
    let (text, heard) = ask(&window, &opened, false);
    let tokens: Vec<&Value> = heard.iter().flat_map(|it| it.as_array().unwrap()).collect();
    let written = tokens.iter().filter(|it| it["isAnswer"] == true);
    let written: String = written.map(|it| it["text"].as_str().unwrap()).collect();
    assert!(
        !written.is_empty() && text.as_str().unwrap().starts_with(&written),
        "{text} {written}"
    );
    assert!(
        tokens.iter().all(|it| it["scores"][1].is_f64()),
        "{tokens:?}"
    );
    window.call("watch_probes", with(watch.clone(), json!({"folders": []})));
    assert_eq!(ask(&window, &opened, false), (text, Vec::new()));

    // Another model is told by its weights, however alike its files are.
    let other = window.trained(json!({"name": "other", "seed": "9"}));
    window.call(
        "open_chat",
        json!({"place": 0, "name": other, "force": false}),
    );
    let refused = window.refused("watch_probes", watch.clone());
    assert_eq!(refused["code"], "needs_force");
    contains(&refused["message"], "what differs: the model");
    let forced = window.call("watch_probes", with(watch, json!({"force": true})));
    contains(&forced["warnings"][0], "don’t believe their scores");
}
