//! Data and models: added, looked at, and removed.

use super::*;

#[test]
fn data_is_added_looked_at_read_otherwise_and_removed() {
    let window = Window::open();
    let file = window.home.path().join("questions.csv");
    fs::write(
        &file,
        b"problem,solution\nWo liegt K\xf6ln?,Am Rhein\nUnd Rom?,Am Tiber\n",
    )
    .unwrap();
    let set = window.call("add_data", json!({ "path": file }));
    let id = set["id"].as_str().unwrap();
    let inspect = |request: Value| {
        let request = with(json!({"columns": {}, "skipBadRows": false}), request);
        window.call("inspect_data", json!({"id": id, "request": request}))
    };
    let refused = inspect(json!({}));
    contains(&refused["problem"]["message"], "not UTF-8");
    let unmapped = inspect(json!({"encoding": "latin-1"}));
    assert_eq!(unmapped["columns"], json!(["problem", "solution"]));
    assert!(unmapped["problem"]["message"].is_string());

    let request = json!({
        "encoding": "latin-1", "columns": {"prompt": "problem", "completion": "solution"}, "skipBadRows": false,
    });
    let read = inspect(request.clone());
    assert_eq!(read["problem"], json!(null));
    assert_eq!(read["content"]["rows"], json!(2));
    let rows = json!({"id": id, "request": request, "words": "tiber", "from": 0, "count": 50});
    let rows = window.call("data_rows", rows);
    assert_eq!((&rows["total"], &rows["matching"]), (&json!(2), &json!(1)));
    let said = json!([
        {"role": "user", "text": "Und Rom?", "learned": false},
        {"role": "assistant", "text": "Am Tiber", "learned": true},
    ]);
    assert_eq!(rows["rows"][0]["parts"], said);
    assert_eq!(rows["rows"][0]["tokens"], json!(null), "nobody counted yet");

    let (progress, heard) = channel();
    let asked = |progress: Channel<_>| {
        let request = serde_json::from_value(request.clone()).unwrap();
        let app = window.webview.state::<App>();
        let counted = data::count_data(app, id.to_owned(), request, None, progress);
        tauri::async_runtime::block_on(counted).unwrap()
    };
    let counted = serde_json::to_value(asked(progress)).unwrap();
    let last = heard.try_iter().last().unwrap();
    assert_eq!(last, json!({"done": 2, "rows": 2}));
    let learned = counted["example"].as_array().unwrap().iter();
    let learned: String = learned
        .filter(|segment| segment["learned"] == json!(true))
        .map(|segment| segment["text"].as_str().unwrap())
        .collect();
    assert!(
        learned.contains("Am Rhein") && !learned.contains("Wo liegt"),
        "{learned}"
    );
    window.call("close_data", json!({}));

    window.call("change_data", json!({"id": id, "request": request}));
    let sets = window.call("data_sets", json!({}));
    assert_eq!(sets[0]["request"]["encoding"], json!("latin-1"));
    window.call("remove_data", json!({ "id": id }));
    assert_eq!(window.call("data_sets", json!({})), json!([]));
    assert!(file.exists());
}

#[test]
fn a_sample_is_data_like_any_other_and_two_runs_of_one_name_are_told_apart() {
    let window = Window::open();
    let set = window.call("add_sample_data", json!({}));
    assert_eq!(set["name"], "Sample conversations");
    let again = window.call("add_sample_data", json!({}));
    assert_eq!(again["id"], set["id"]);
    let request = json!({"columns": {}, "skipBadRows": false});
    let read = window.call("inspect_data", json!({"id": set["id"], "request": request}));
    assert!(read["content"]["rows"].as_u64().unwrap() > 100);
    let dropped = window.call("look_at_path", json!({"path": set["path"]}));
    assert_eq!(dropped, json!({"kind": "data"}));

    let filled = with(window.small_run(), json!({"steps": "1"}));
    let start = || window.call("start_run", json!({ "filled": filled, "force": false }));
    let names = [start(), start()].map(|id| window.run(id.as_str().unwrap())["name"].clone());
    assert_eq!(names, ["small", "small 2"]);
}

#[test]
fn models_are_added_where_they_lie_and_only_own_ones_are_deleted() {
    let window = Window::open();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens");
    let model = checkpoint_below(&golden).expect("a checkpoint among the goldens");
    window.call("import_model", json!({ "path": model }));
    let listed = || {
        let models = window.call("models", json!({}));
        let added = models.as_array().unwrap().clone().into_iter();
        added
            .filter(|it| it["place"] == "added")
            .collect::<Vec<_>>()
    };
    let added = listed();
    assert_eq!(added.len(), 1);
    assert_eq!(added[0]["problem"], json!(null));
    assert!(added[0]["parameters"].as_f64().unwrap() > 1e3);
    window.refuses(
        "delete_model",
        json!({ "path": added[0]["path"] }),
        "not deleted here",
    );
    window.call("forget_model", json!({ "path": added[0]["path"] }));
    assert!(listed().is_empty() && model.exists());
    let empty = window.refused("import_model", json!({ "path": window.home.path() }));
    assert!(empty["hint"].is_string());

    let own = window.home.path().join("models/mine");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.json"), "{}").unwrap();
    let freed = window.call("delete_model", json!({ "path": own }));
    assert_eq!(freed, json!(2));
    assert!(!own.exists());
}

#[test]
fn a_model_whose_weights_were_cut_off_can_neither_be_talked_to_nor_trained() {
    let window = Window::open();
    let whole =
        "../tests/app/fixtures/home-of-0.1/runs/2026-11-22-before-ecac/checkpoints/step-000004";
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(whole);
    let own = window.home.path().join("models/mine");
    fs::create_dir_all(&own).unwrap();
    for entry in fs::read_dir(whole).unwrap().map(Result::unwrap) {
        let _ = fs::copy(entry.path(), own.join(entry.file_name()));
    }
    let weights = own.join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();

    let models = window.call("models", json!({}));
    let mine = models.as_array().unwrap().iter();
    let mine = mine.into_iter().find(|it| it["name"] == "mine").unwrap();
    contains(&mine["problem"]["message"], "the weights are incomplete");
    assert_eq!(mine["problem"]["hint"], "download the model again");
    let chat = json!({"place": 0, "name": own, "force": false});
    let refused = window.refused("open_chat", chat);
    contains(&refused["message"], "the weights are incomplete");
    contains(&refused["details"], "bytes");
    let text = window.text();
    let filled = json!({"model": own, "method": "lora", "data.files": text});
    let plan = window.call("plan_run", json!({ "filled": filled }));
    contains(&plan["problems"][0]["text"], "the weights are incomplete");
}
