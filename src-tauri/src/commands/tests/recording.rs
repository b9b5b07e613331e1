//! What the pages are tested with: what the app says on a machine that is always the same, as far as it says that by itself.

use super::*;
use crate::host::devices::Devices;

/// The folder of the user of the recorded machine, and the model in it.
const MIRA: &str = "/Users/mira";
const MODEL: &str = "SmolLM2-1.7B-Instruct";
/// What stands in for the tokenizer of that model.
const TOKENIZER: &str =
    "../../app/fixtures/home-of-0.1/runs/2026-11-22-before-ecac/checkpoints/step-000004";
/// Of weights no plan reads more than that there are some.
const NO_WEIGHTS: &[u8] = b"\x02\0\0\0\0\0\0\0{}";
/// JSON of more characters has several lines.
const WIDTH: usize = 150;

#[test]
fn the_pages_are_tested_with_what_the_app_says() {
    let window = Window::of_mira();
    let home = window.call("home", json!({}));
    let engine = format!("{MIRA}/Applications/Anneal.app");
    let machine = json!({
        "device": home["device"], "devices": home["devices"], "reason": home["reason"],
        "engines": [format!("Anneal 0.1.0, Metal: {engine}"), format!("Anneal 0.1.0, CPU: {engine}")],
    });
    record("home", &machine);
    window.record_each("plans", |case| {
        window.call("plan_run", json!({"filled": case["filled"]}))
    });
    window.record_each("inspections", |case| window.inspect(case));
}

/// The folder that the fake has its files in.
pub(super) fn fake() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/ui/fake")
}

/// Compares an answer with the one that the pages are tested with.
pub(super) fn record(name: &str, answer: &Value) {
    let path = format!("../tests/ui/fake/answers/{name}.json");
    check_written(&path, &(laid_out(answer, 0) + "\n"));
}

/// JSON as a person reads it.
fn laid_out(value: &Value, indent: usize) -> String {
    let flat = value.to_string();
    let inner = " ".repeat(indent + 2);
    let within = |value| laid_out(value, indent + 2);
    let (begin, lines, end): (_, Vec<String>, _) = match value {
        Value::Array(items) if flat.len() > WIDTH => {
            let lines = items.iter().map(|it| format!("{inner}{}", within(it)));
            ("[", lines.collect(), "]")
        }
        Value::Object(fields) if flat.len() > WIDTH => {
            let line = |(name, it)| format!("{inner}\"{name}\": {}", within(it));
            ("{", fields.iter().map(line).collect(), "}")
        }
        _ => return flat,
    };
    let outer = " ".repeat(indent);
    format!("{begin}\n{}\n{outer}{end}", lines.join(",\n"))
}

/// The same on every processor: others round the last digits otherwise.
pub(super) fn rounded(value: &mut Value, digits: usize) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|it| rounded(it, digits)),
        Value::Object(fields) => fields.values_mut().for_each(|it| rounded(it, digits)),
        Value::Number(number) if number.as_f64().is_some_and(|it| it.fract() != 0.0) => {
            let short = format!("{:.digits$e}", number.as_f64().unwrap());
            *value = json!(short.parse::<f64>().unwrap());
        }
        _ => {}
    }
}

impl Window {
    /// A window on the machine that is always the same.
    fn of_mira() -> Self {
        let home = tempfile::tempdir().unwrap();
        let machine = fake().join("machine");
        for entry in fs::read_dir(&machine).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), home.path().join(entry.file_name())).unwrap();
        }
        let model = home.path().join(MODEL);
        fs::create_dir(&model).unwrap();
        fs::rename(home.path().join("config.json"), model.join("config.json")).unwrap();
        fs::write(model.join("model.safetensors"), NO_WEIGHTS).unwrap();
        for name in ["tokenizer.json", "tokenizer_config.json"] {
            fs::copy(fake().join(TOKENIZER).join(name), model.join(name)).unwrap();
        }
        let devices = fs::read_to_string(machine.join("devices.json")).unwrap();
        let (mut host, warnings) = Host::open(Some(home.path())).unwrap();
        host.devices = Devices::of_test(serde_json::from_str(&devices).unwrap());
        Self::over(host, warnings, home)
    }

    /// Answers each case of a file anew.
    fn record_each(&self, name: &str, answer: impl Fn(&Value) -> Value) {
        let home = self.home.path().to_str().unwrap();
        let path = fake().join(format!("answers/{name}.json"));
        let text = fs::read_to_string(path).unwrap().replace(MIRA, home);
        let mut cases: Vec<Value> = serde_json::from_str(&text).unwrap();
        for case in &mut cases {
            case["answer"] = answer(case);
            rounded(&mut case["answer"], 6);
        }
        let text = json!(cases).to_string().replace(home, MIRA);
        record(name, &serde_json::from_str(&text).unwrap());
    }

    /// What is said of data that is read as it is asked. A file that the machine lacks was there when it was added.
    fn inspect(&self, case: &Value) -> Value {
        let path = self.home.path().join(case["file"].as_str().unwrap());
        let is_lost = !path.exists();
        if is_lost {
            fs::write(&path, "").unwrap();
        }
        let set = self.call("add_data", json!({ "path": path }));
        if is_lost {
            fs::remove_file(&path).unwrap();
        }
        let request = with(
            json!({"columns": {}, "skipBadRows": false}),
            case["asked"].clone(),
        );
        let asked = json!({"id": set["id"], "request": request});
        let inspection = self.call("inspect_data", asked.clone());
        let is_read = !inspection["content"].is_null();
        let counted = is_read.then(|| {
            let (progress, _heard) = channel();
            let app = self.webview.state::<App>();
            let id = set["id"].as_str().unwrap().to_owned();
            let request = serde_json::from_value(request.clone()).unwrap();
            let counted = data::count_data(app, id, request, None, progress);
            tauri::async_runtime::block_on(counted).unwrap()
        });
        // More than a page of one, and of the others enough to see.
        let count = if path.ends_with("support.jsonl") {
            56
        } else {
            12
        };
        let rows = with(asked, json!({"words": "", "from": 0, "count": count}));
        let rows = (!inspection["files"].as_array().unwrap().is_empty())
            .then(|| self.call("data_rows", rows));
        json!({"inspection": inspection, "count": counted, "rows": rows})
    }
}
