//! Pictures as the window looks at them, and has them classified.

use super::{export::export_model, *};

#[path = "../../../../tests/app/red_or_blue.rs"]
mod red_or_blue;

use red_or_blue::{BLUE, GREY, RED, halves, red_or_blue};

impl Window {
    /// Writes a picture into the home.
    fn picture(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Asks about files. Returns how many were found, what was said of each, and how many were asked about.
    fn predict(&self, files: &[&Path]) -> (Value, Vec<Value>, Result<usize>) {
        let ((found, counts), (predicted, said)) = (channel(), channel());
        let files = files.iter().map(|it| it.display().to_string()).collect();
        let app = self.webview.state::<App>();
        let asked = predict::predict_files(app, files, found, predicted);
        let count = counts.try_iter().next().unwrap_or_default();
        (count, said.try_iter().collect(), asked)
    }
}

#[test]
fn pictures_are_classified_one_after_the_other_with_what_speaks_for_each_class() {
    let window = Window::open();
    let folder = red_or_blue(window.home.path());
    let red = window.picture("asked/a.ppm", &halves(RED, GREY, 64));
    window.picture("asked/b.png", b"none");
    window.picture("asked/notes.txt", b"none");
    let closed = window.predict(&[&red]).2.unwrap_err().message;
    assert_eq!(closed, "no classifier is open");

    let opened = window.call("open_classifier", json!({ "name": folder }));
    assert_eq!(opened["title"], "Small network, 32 × 32 pixels");
    assert_eq!(opened["classes"], json!(["red", "blue"]));
    let (count, said, asked) = window.predict(&[red.parent().unwrap()]);
    assert_eq!((count, asked.unwrap()), (json!(2), 2));
    let [first, second] = said.as_slice() else {
        panic!("two are pictures by their names: {said:?}");
    };
    assert_eq!(
        (&first["name"], &first["path"]),
        (&json!("a.ppm"), &json!(red))
    );
    let ranked = first["said"]["ranked"].as_array().unwrap();
    let classes: Vec<&Value> = ranked.iter().map(|it| &it["class"]).collect();
    assert_eq!(classes, ["red", "blue"]);
    assert_eq!(
        (&ranked[0]["map"]["rows"], &ranked[0]["map"]["columns"]),
        (&json!(4), &json!(4))
    );
    // As finely as it is there, and no finer.
    assert_eq!(
        (&first["said"]["shown"]["width"], &first["said"]["width"]),
        (&json!(64), &json!(64))
    );
    assert_eq!(
        (&second["name"], &second["said"]),
        (&json!("b.png"), &json!(null))
    );
    contains(&second["problem"], "is no picture that can be read");

    let empty = window.home.path().join("nothing");
    fs::create_dir(&empty).unwrap();
    let nothing = window.predict(&[&empty]).2.unwrap_err().message;
    assert_eq!(nothing, "there is no picture in the folder");
    window.call("close_classifier", json!({}));
    assert!(window.predict(&[&red]).2.is_err());
}

#[test]
fn pictures_are_learned_measured_shown_and_told_apart() {
    let window = Window::open();
    for at in 0..24u8 {
        let other = [10 * at, 90, 200 - 5 * at];
        window.picture(&format!("tiles/red/{at}.ppm"), &halves(RED, other, 20));
        window.picture(&format!("tiles/blue/{at}.ppm"), &halves(BLUE, other, 20));
    }
    let tiles = window.home.path().join("tiles");
    let filled = json!({
        "task": "picture", "name": "tiles", "data.files": json!([tiles]).to_string(), "picture.recipe": "small", "picture.side": "16",
        "batch.rows": "8", "steps": "12", "device": "cpu",
    });
    let plan = window.call("plan_run", json!({ "filled": filled }));
    assert_eq!(plan["problems"], json!([]), "{plan}");
    let id = window.call("start_run", json!({"filled": filled, "force": false}));
    let status = || window.run(id.as_str().unwrap())["status"].clone();
    until(|| status() == "finished" && window.call("status", json!({}))["going"].is_null());
    let run = window.run(id.as_str().unwrap());
    assert_eq!(
        (&run["task"], &run["unit"], &run["uses"]),
        (&json!("picture"), &json!("pictures"), &json!(["predict"]))
    );
    let measured = run["metrics"].as_array().unwrap().iter();
    let measured: Vec<&str> = measured.map(|it| it["name"].as_str().unwrap()).collect();
    for name in [
        "accuracy",
        "macro_recall",
        "majority_accuracy",
        "colour_accuracy",
    ] {
        assert!(measured.contains(&name), "{measured:?}");
    }
    let events = window.call("run_events", json!({ "id": id }));
    let shown = events["exhibits"].as_array().unwrap();
    assert_eq!(shown[0]["exhibit"]["kind"], "confusion");
    assert_eq!(shown[0]["exhibit"]["classes"], json!(["blue", "red"]));

    let opened = window.call("open_classifier", json!({ "name": id }));
    assert_eq!(opened["title"], "Small network, 16 × 16 pixels");
    let new = window.picture("new.ppm", &halves(RED, [3, 3, 3], 64));
    let (_, said, asked) = window.predict(&[&new]);
    assert_eq!(asked.unwrap(), 1);
    assert_eq!(said[0]["said"]["ranked"].as_array().unwrap().len(), 2);
}

#[test]
fn a_picture_that_was_pasted_is_classified_by_its_bytes() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let window = Window::open();
    let folder = red_or_blue(window.home.path());
    window.call("open_classifier", json!({ "name": folder }));
    let paste = |base64: String| {
        window.call(
            "predict_pasted",
            json!({"name": "Pasted picture", "base64": base64}),
        )
    };
    let blue = paste(STANDARD.encode(halves(BLUE, BLUE, 20)));
    assert_eq!(blue["said"]["ranked"][0]["class"], "blue");
    assert_eq!(
        (&blue["name"], &blue["path"]),
        (&json!("Pasted picture"), &json!(null))
    );
    contains(&paste("?".to_owned())["problem"], "did not arrive whole");
}

#[test]
fn what_is_no_classifier_is_refused_with_what_to_name() {
    let window = Window::open();
    let folder = window.home.path().join("elsewhere");
    fs::create_dir(&folder).unwrap();
    let refused = window.refused("open_classifier", json!({ "name": folder }));
    contains(&refused["message"], "the folder holds no classifier");
    contains(&refused["hint"], "name a run that learned pictures");
}

impl Window {
    /// A folder with four red pictures and four blue ones, one that stands in both classes, and one that is none.
    fn tiles(&self) -> PathBuf {
        for at in 0..4u8 {
            let other = [60 * at, 30, 9];
            self.picture(&format!("tiles/red/{at}.ppm"), &halves(RED, other, 40));
            self.picture(&format!("tiles/blue/{at}.ppm"), &halves(BLUE, other, 40));
        }
        self.picture("tiles/blue/same.ppm", &halves(RED, [0, 30, 9], 40));
        self.picture("tiles/red/bad.png", b"none");
        self.home.path().join("tiles")
    }
}

#[test]
fn pictures_of_a_data_set_are_shown_by_class() {
    let window = Window::open();
    let tiles = window.tiles();
    let ask = |only: Value, from: usize| {
        let asked = json!({"files": [tiles], "only": only, "from": from, "count": 3});
        window.call("pictures", asked)
    };
    let all = ask(json!(null), 0);
    assert_eq!((&all["matching"], &all["unread"]), (&json!(9), &json!(1)));
    let classes = all["classes"].as_array().unwrap().iter();
    let counts: Vec<(&Value, &Value)> = classes.map(|it| (&it["name"], &it["train"])).collect();
    assert_eq!(
        counts,
        [(&json!("blue"), &json!(5)), (&json!("red"), &json!(4))]
    );
    let names = |shown: &Value| -> Vec<String> {
        let pictures = shown["pictures"].as_array().unwrap().iter();
        let names = pictures.map(|it| it["name"].as_str().unwrap().replace('\\', "/"));
        names.collect()
    };
    let in_turn = ["blue/0.ppm", "red/0.ppm", "blue/1.ppm"];
    assert_eq!(names(&all), in_turn);
    assert_eq!(names(&ask(json!("red"), 2)), ["red/2.ppm", "red/3.ppm"]);
    assert_eq!(ask(json!("green"), 0)["matching"], 0);
    assert_eq!(all["pictures"][0]["thumb"]["width"], 40);
    assert_eq!(all["sizes"], json!([[40, 40], [40, 40]]));
}

#[test]
fn what_is_wrong_with_pictures_is_found_the_worst_first() {
    let window = Window::open();
    let asked = json!({"files": [window.tiles()]});
    let checked = window.call("check_pictures", asked);
    let findings = checked["findings"].as_array().unwrap();
    assert_eq!(
        (&findings[0]["kind"], &findings[0]["count"]),
        (&json!("unread"), &json!(1))
    );
    assert_eq!(findings[1]["kind"], "two_classes");
    let pair = findings[1]["shown"][0]["pictures"].as_array().unwrap();
    assert_eq!(pair.len(), 2);
}

#[test]
fn a_folder_of_pictures_is_data_and_other_data_is_no_pictures() {
    let window = Window::open();
    let tiles = window.tiles();
    let has = |path: &Path| window.call("has_pictures", json!({ "path": path }));
    assert_eq!(
        (has(&tiles), has(&tiles.join("red/0.ppm"))),
        (json!(true), json!(false))
    );
    let dropped = window.call("look_at_path", json!({ "path": tiles }));
    assert_eq!(dropped["kind"], "data");
    let added = window.call("add_data", json!({ "path": tiles }));
    assert_eq!(added["name"], "tiles");
    let text = window.home.path().join("notes.txt");
    fs::write(&text, "Hot steel.").unwrap();
    let none = json!({"files": [text], "only": null, "from": 0, "count": 3});
    assert_eq!(window.call("pictures", none), json!(null));
    let nothing = json!({"files": []});
    assert_eq!(window.call("check_pictures", nothing), json!(null));
}

#[test]
fn a_network_is_written_where_the_user_chose_and_compared() {
    let window = Window::open();
    let folder = red_or_blue(window.home.path());
    let path = window.home.path().join("red-or-blue.onnx");
    let offers = window.call("exports", json!({ "model": folder }));
    assert_eq!(offers[0]["name"], "onnx");
    let export = || {
        let (progress, _) = channel();
        let app = window.webview.state::<App>();
        let [model, to] = [&folder, &path].map(|it| it.to_string_lossy().into_owned());
        let written = export_model(
            app,
            model,
            "onnx".to_owned(),
            Some(to),
            false,
            true,
            progress,
        );
        written.map(|it| serde_json::to_value(it).unwrap())
    };
    assert!(export().is_err(), "nobody chose it");
    window.pick(&path);
    let written = export().unwrap();
    assert_eq!(
        (&written["path"], &written["readers"], &written["figures"]),
        (&json!(path), &json!("ONNX Runtime"), &json!(null))
    );
    contains(&written["compared"], "compared by 8 drawn pictures");
    assert_eq!(written["bytes"], json!(fs::metadata(&path).unwrap().len()));
}
