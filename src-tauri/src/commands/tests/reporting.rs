//! Reports of probes as the window gets them, of studies of made-up messages. The pages are tested with them.

use std::collections::BTreeSet;

use ::models::{
    arch::sites::Site,
    random::Random,
    tasks::probe::{
        examples::Examples,
        folder,
        states::{About, StateRow, States},
        states_writer::StatesWriter,
        study::{Settings, Source, study},
    },
};

use super::*;

/// A label: its name, words that betray it, how often they are there, where the states have it most, and how much.
type Made = (&'static str, &'static str, f64, f64, f64);

const KINDS: [Made; 12] = [
    ("Urgency", "I need this before noon today", 0.4, 14.0, 3.9),
    (
        "Complaint",
        "this is the third time it failed",
        0.35,
        13.0,
        3.6,
    ),
    ("Sarcasm", "what a wonderful surprise", 0.1, 17.0, 2.6),
    (
        "Threat to leave",
        "I will take my money elsewhere",
        0.3,
        15.0,
        3.4,
    ),
    (
        "Personal data",
        "my number is in the attached form",
        0.6,
        8.0,
        3.8,
    ),
    ("Billing error", "I was charged twice", 0.7, 12.0, 3.7),
    ("Praise", "thank you, that was lovely", 0.8, 11.0, 3.5),
    (
        "Account access",
        "I can not sign in any more",
        0.9,
        10.0,
        3.8,
    ),
    (
        "Other language",
        "bonjour, une question pour vous",
        0.95,
        3.0,
        4.2,
    ),
    (
        "Question about something that the guide explains",
        "how does it work",
        0.85,
        6.0,
        3.2,
    ),
    (
        "Delivery delay",
        "the parcel is still not here",
        0.95,
        12.0,
        3.2,
    ),
    ("Refund request", "I want my money back", 0.97, 9.0, 3.1),
];
/// What any message may have.
const ANY: [&str; 6] = [
    "the order came on time",
    "we spoke about it last week",
    "it is the blue one with the handle",
    "my sister bought the same",
    "I wrote to you from another address",
    "the invoice is attached",
];
const NAMES: [&str; 8] = ["Ada", "Ben", "Chen", "Dora", "Emil", "Fay", "Gus", "Hana"];
const DAYS: [&str; 5] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"];
const BLOCKS: usize = 24;
const WIDTH: usize = 24;

/// A message, which mostly has the words of its label.
fn message((_, words, often, ..): Made, random: &mut Random) -> String {
    let name = NAMES[random.below(NAMES.len())];
    let day = DAYS[random.below(DAYS.len())];
    let number = 1000 + random.below(9000);
    let said = match random.uniform() < often {
        true => words,
        false => ANY[random.below(ANY.len())],
    };
    let other = ANY[random.below(ANY.len())];
    format!("Hello, this is {name}. On {day} {other}, and {said}. Order {number}.")
}

/// What a model’s states might be of rows with these labels: noise, and each label in a direction of its own.
fn state(site: Site, label: Option<(usize, Made)>, random: &mut Random) -> Vec<f32> {
    let mut numbers: Vec<f32> = (0..WIDTH).map(|_| random.normal() as f32).collect();
    if let (Some((at, (_, _, _, peak, strength))), Site::Block(block)) = (label, site) {
        let away = (block as f64 - peak) / 12.0;
        numbers[at % WIDTH] += (strength * (-away * away).exp()) as f32;
    }
    numbers
}

/// Writes states of messages with these labels, and what was learned from them. A label may be one of which there is only a row.
fn learn(folder: &Path, kinds: &[Made], rows: usize, (texts, rare): (bool, bool)) {
    let mut random = Random::new(19);
    let blocks = (0..BLOCKS).map(Site::Block);
    let sites: Vec<Site> = [Site::Embed].into_iter().chain(blocks).collect();
    let row = |row: usize, random: &mut Random| {
        let made = kinds[row % kinds.len()];
        let text = message(made, random);
        // Two labels are one and what is not it.
        let labels = match rare && row == 7 {
            true => vec![made.0.to_owned(), "Legal notice".to_owned()],
            false => vec![made.0.to_owned()],
        };
        StateRow {
            id: format!("messages.jsonl:{}", row + 1),
            text: if texts { text } else { String::new() },
            labels,
            tokens: 24,
            vectors: 1,
            ..StateRow::default()
        }
    };
    let all: Vec<StateRow> = (0..rows).map(|at| row(at, &mut random)).collect();
    let about: About = serde_json::from_value(json!({
        "version": 1, "written_by": "a test",
        "model": {"name": "Qwen/Qwen2.5-0.5B-Instruct", "revision": null, "family": "qwen2", "weights": []},
        "adapter": null, "compute_dtype": "f32", "prompt": {"pattern": "{text}", "template": null}, "position": "mean",
        "numbering": "", "sites": sites, "dtype": "f32", "width": WIDTH, "blocks": BLOCKS, "rows": rows, "vectors": rows,
        "rows_sha256": "", "sources": [], "labels": [], "tokens_at_once": 1, "left_out": []
    }))
    .unwrap();
    let mut writer = StatesWriter::begin(&folder.join("states"), about, &all).unwrap();
    let states: Vec<Vec<f32>> = sites
        .iter()
        .map(|&site| {
            let of = |at: usize| (at % kinds.len(), kinds[at % kinds.len()]);
            (0..rows)
                .flat_map(|at| state(site, Some(of(at)), &mut random))
                .collect()
        })
        .collect();
    writer.append(rows, &states).unwrap();
    writer.sync().unwrap();
    save(folder);
}

/// Learns from the states of a folder.
fn save(folder: &Path) {
    let states = States::open(&folder.join("states")).unwrap();
    let examples = Examples::of(&states, &[], 0).unwrap();
    let mut read = |site: usize, rows: &[usize]| {
        let all = states.matrix(states.sites()[site])?.read_all();
        let numbers = rows.iter().flat_map(|row| &all[row * WIDTH..][..WIDTH]);
        Ok(numbers.copied().collect())
    };
    let mut source = Source {
        sites: states.sites().iter().map(Site::to_string).collect(),
        width: WIDTH,
        read: &mut read,
    };
    let settings = Settings {
        penalties: vec![1e-2, 1e-1, 1.0],
        // As the plan has it of few texts.
        folds: if examples.rows() < 1_000 { 5 } else { 0 },
        ..Settings::default()
    };
    let found = study(&examples, &mut source, &settings, &mut |_| true);
    let found = found.unwrap().unwrap();
    let about = (&examples, states.about());
    folder::save(&folder.join("probes"), &found, about).unwrap();
}

fn report(window: &Window, folder: &Path) -> Value {
    let asked = json!({"folder": folder.join("probes"), "states": folder.join("states")});
    window.call("probe_report", asked)
}

/// The forms of a value: names, and what stands in them, whatever it is. Solvers end elsewhere on every processor.
fn forms(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let each: BTreeSet<String> = items.iter().map(forms).collect();
            format!("[{}]", each.into_iter().collect::<Vec<_>>().join("|"))
        }
        Value::Object(fields) => {
            let each = fields
                .iter()
                .map(|(name, it)| format!("{name}:{}", forms(it)));
            format!("{{{}}}", each.collect::<Vec<_>>().join(","))
        }
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) => "whether".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "words".to_owned(),
    }
}

#[cfg(unix)]
#[test]
fn the_pages_are_tested_with_reports_of_real_studies() {
    let window = Window::open();
    let of = |kinds: &[Made], rows, how| {
        let folder = tempfile::tempdir().unwrap();
        learn(folder.path(), kinds, rows, how);
        let mut report = report(&window, folder.path());
        recording::rounded(&mut report, 4);
        report
    };
    let reports = json!({
        "messages": of(&KINDS, 1_920, (true, false)),
        "two": of(&KINDS[..2], 600, (true, false)),
        "bare": of(&KINDS[1..3], 420, (false, true)),
    });
    assert_eq!(
        reports["messages"]["report"]["labels"]
            .as_array()
            .unwrap()
            .len(),
        12
    );
    assert!(reports["messages"]["report"]["classes"].is_object());
    assert!(reports["bare"]["report"]["words"].is_null());
    contains(&reports["bare"]["noTexts"], "no texts");
    let path = recording::fake().join("answers/probe-reports.json");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let recorded: Value = serde_json::from_str(&text).unwrap_or_default();
    // Written anew only when its form is another, since its numbers are others everywhere.
    if forms(&recorded) != forms(&reports) {
        recording::record("probe-reports", &reports);
    }
}

#[test]
fn a_report_says_why_it_has_no_texts_and_what_is_no_report() {
    let window = Window::open();
    let folder = tempfile::tempdir().unwrap();
    learn(folder.path(), &KINDS[..2], 200, (true, false));
    let shown = report(&window, folder.path());
    let row = &shown["report"]["labels"][0]["extremes"]["strongest"][0]["row"];
    let texts = shown["texts"].as_array().unwrap();
    let text = texts.iter().find(|it| it["row"] == *row).unwrap();
    contains(&text["text"], "Hello, this is");
    assert_eq!(shown["noTexts"], json!(null));
    let probes = folder.path().join("probes");
    let nowhere = json!({"folder": probes, "states": null});
    let bare = window.call("probe_report", nowhere);
    assert_eq!(
        (&bare["texts"], &bare["report"]),
        (&json!([]), &shown["report"])
    );
    contains(&bare["noTexts"], "nobody said where");
    // Other texts under the same numbers would be wrong ones.
    let other = tempfile::tempdir().unwrap();
    learn(other.path(), &KINDS[..2], 202, (true, false));
    let mixed = json!({"folder": probes, "states": other.path().join("states")});
    contains(
        &window.call("probe_report", mixed)["noTexts"],
        "are others than those",
    );
    fs::remove_dir_all(folder.path().join("states")).unwrap();
    assert!(!report(&window, folder.path())["noTexts"].is_null());
    let written = fs::read_to_string(probes.join("probes.json")).unwrap();
    assert!(!written.contains("Hello"), "texts are private");
    fs::write(
        probes.join("probes.json"),
        "{\"version\": 1, \"probes\": 3}",
    )
    .unwrap();
    let broken = json!({"folder": probes, "states": null});
    window.refuses("probe_report", broken, "is no probes.json");
    window.refuses(
        "probe_report",
        json!({"folder": "/nowhere", "states": null}),
        "could not read",
    );
}
