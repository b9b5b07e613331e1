//! Hidden states of labelled text: captured, stopped, continued, and read again.

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor};
use models::{
    arch::{
        config::DecoderConfig,
        decoder::{Decoder, Input},
        initial::InitialWeights,
        sites::Site,
    },
    checkpoint::{load::LoadDtypes, model::save_model},
    data::{template::CHAT_ML, tokenizer::Tokenizer},
    tasks::{
        language::model::LanguageModel,
        probe::{
            capture::{Capture, CaptureRequest},
            capture_prompt::PromptRequest,
            labelled::{self, LabelledRequest},
            states::{ABOUT, Position, ROWS, States, WHOLE},
        },
    },
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

pub(crate) const SUFFIX: &str = "\n\nThe cognitive action being demonstrated here is";

/// A folder with a small model that nobody trained, of these fields of a config.
pub(crate) fn model(fields: Json) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut config = json!({
        "model_type": "llama", "vocab_size": 300, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": true,
        "initializer_range": 0.3,
    });
    let fields = fields.as_object().cloned().unwrap_or_default();
    config.as_object_mut().unwrap().extend(fields);
    let texts = [
        "What is the capital of France ?",
        "the the there where what who",
    ];
    let tokenizer = Tokenizer::train(texts.into_iter(), 300).unwrap();
    tokenizer.save(folder.path(), Some(CHAT_ML)).unwrap();
    let read = DecoderConfig::from_json(&config).unwrap();
    let mut weights = InitialWeights::new(7, &Device::Cpu);
    let decoder = Decoder::new(read, &mut weights, false, DType::F32, &Device::Cpu).unwrap();
    save_model(&decoder, &config, folder.path()).unwrap();
    folder
}

pub(crate) fn open(folder: &Path) -> LanguageModel {
    LanguageModel::open(folder, LoadDtypes::F32, &Device::Cpu).unwrap()
}

/// A file of texts of many lengths, with their labels, answers and marked parts.
pub(crate) fn data(folder: &Path, rows: usize) -> PathBuf {
    let row = |row: usize| {
        let text = format!("{} is {row} ?", "what there ".repeat(1 + row * 7 % 5));
        let answer = format!("It is {row}.");
        let label = ["odd", "even"][row % 2];
        json!({"text": text, "label": label, "answer": answer, "spans": [[5, 9]]}).to_string()
    };
    let path = folder.join("texts.jsonl");
    let rows: Vec<String> = (0..rows).map(row).collect();
    fs::write(&path, rows.join("\n")).unwrap();
    path
}

pub(crate) fn request(data: &Path, position: Position) -> CaptureRequest {
    CaptureRequest {
        data: LabelledRequest {
            paths: vec![data.to_owned()],
            ..LabelledRequest::default()
        },
        prompt: PromptRequest {
            suffix: Some(SUFFIX.to_owned()),
            chat: false,
        },
        position,
        tokens_at_once: Some(150),
        ..CaptureRequest::default()
    }
}

fn plan(model: &LanguageModel, folder: &Path, request: &CaptureRequest) -> models::Result<Capture> {
    Capture::plan(model, LoadDtypes::F32, folder, request, "a test")
}

/// Captures all, or what is left.
fn capture_all(capture: &Capture, model: &LanguageModel, to: &Path) -> models::Result<usize> {
    capture.run(model, to, usize::MAX, &mut |_| ControlFlow::Continue(()))
}

pub(crate) fn captured(
    model: &LanguageModel,
    folder: &Path,
    request: &CaptureRequest,
    to: &Path,
) -> States {
    let capture = plan(model, folder, request).unwrap();
    let rows = capture_all(&capture, model, to);
    assert_eq!(rows.unwrap(), capture.planned().about.rows);
    States::open(to).unwrap()
}

/// The content of every file of a folder.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let name = |file: &fs::DirEntry| file.file_name().to_string_lossy().into_owned();
    files
        .map(|file| (name(&file), fs::read(file.path()).unwrap()))
        .collect()
}

const POSITIONS: [Position; 7] = [
    Position::Last,
    Position::Mean,
    Position::Max,
    Position::MeanAndMax,
    Position::Tokens,
    Position::Answer,
    Position::Marked,
];

fn check_packed(fields: Json) {
    let folder = model(fields);
    let model = open(folder.path());
    let work = tempfile::tempdir().unwrap();
    let data = data(work.path(), 23);
    for position in POSITIONS {
        let mut request = request(&data, position);
        let packed = captured(
            &model,
            folder.path(),
            &request,
            &work.path().join(format!("{position:?}")),
        );
        // So few that each text has a pass of its own.
        request.tokens_at_once = Some(1);
        let alone = captured(
            &model,
            folder.path(),
            &request,
            &work.path().join(format!("{position:?} alone")),
        );
        assert_eq!(packed.sites(), Site::all(3));
        assert_eq!(packed.rows(), alone.rows());
        for site in packed.sites() {
            let [packed, alone] = [&packed, &alone].map(|it| it.matrix(*site).unwrap().read_all());
            let largest = alone.iter().fold(0f32, |most, it| most.max(it.abs()));
            let pairs = packed.iter().zip(&alone);
            let off = pairs.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
            assert!(
                largest > 0.01 && off <= 1e-5 * largest.max(1.0),
                "{position:?} {site}: {off} of {largest}"
            );
        }
    }
}

#[test]
fn states_of_packed_texts_are_those_of_each_text_alone() {
    check_packed(json!({}));
}

#[test]
fn a_window_of_attention_ends_at_the_edge_of_a_packed_text() {
    check_packed(json!({
        "model_type": "mistral", "sliding_window": 6,
    }));
}

#[test]
fn long_texts_that_turn_by_other_angles_are_read_apart_from_short_ones() {
    let factors = |by: f64| vec![by; 2];
    check_packed(json!({
        "model_type": "phi3", "tie_word_embeddings": false, "original_max_position_embeddings": 64, "pad_token_id": 0,
        "num_key_value_heads": 4,
        "rope_scaling": {"type": "longrope", "short_factor": factors(1.0), "long_factor": factors(3.0)},
    }));
}

#[test]
fn each_position_is_read_where_it_says() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let work = tempfile::tempdir().unwrap();
    let data = data(work.path(), 3);
    let text = "what there  is 0 ?";
    let whole = model
        .tokenizer
        .encode_located(&format!("{text}{SUFFIX}"))
        .unwrap();
    let own: Vec<usize> = (0..whole.tokens.len())
        .filter(|at| whole.spans[*at].0 < text.len())
        .collect();
    assert!(own.len() < whole.tokens.len() && own.len() > 4);
    let sites = [Site::Embed, Site::Block(2)];
    let states = model
        .network
        .decoder()
        .unwrap()
        .hidden_at(Input::new(&whole.tokens, 1), &sites)
        .unwrap();
    let of_site =
        |at: usize| -> Vec<Vec<f32>> { states[at].squeeze(0).unwrap().to_vec2().unwrap() };
    let last = whole.tokens.len() - 1;
    for (at, site) in sites.into_iter().enumerate() {
        let states = of_site(at);
        let mean = |column: usize| {
            let sum: f32 = own.iter().map(|token| states[*token][column]).sum();
            sum / own.len() as f32
        };
        let max = |column: usize| {
            own.iter()
                .map(|it| states[*it][column])
                .fold(f32::MIN, f32::max)
        };
        let expected: [(Position, Vec<f32>); 5] = [
            (Position::Last, states[last].clone()),
            (Position::Mean, (0..16).map(mean).collect()),
            (Position::Max, (0..16).map(max).collect()),
            (
                Position::MeanAndMax,
                (0..16).map(mean).chain((0..16).map(max)).collect(),
            ),
            (
                Position::Tokens,
                own.iter().flat_map(|it| states[*it].clone()).collect(),
            ),
        ];
        for (position, expected) in expected {
            let to = work.path().join(format!("{position:?} {site}"));
            let request = CaptureRequest {
                sites: vec![site],
                ..request(&data, position)
            };
            let found = captured(&model, folder.path(), &request, &to);
            assert_eq!(found.sites(), [site]);
            let first = found.vectors_of_rows()[0].clone();
            let numbers = found.matrix(site).unwrap().read(first);
            assert_eq!(numbers.len(), expected.len());
            let pairs = numbers.iter().zip(&expected);
            assert!(
                pairs.clone().all(|(a, b)| (a - b).abs() <= 1e-5),
                "{position:?} {site}"
            );
        }
    }
}

#[test]
fn the_token_that_is_read_is_the_last_of_the_suffix_and_is_said_before_the_start() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let work = tempfile::tempdir().unwrap();
    let data = data(work.path(), 3);
    let capture = plan(&model, folder.path(), &request(&data, Position::Last)).unwrap();
    let plan = capture.planned();
    assert_eq!(plan.pieces.concat(), format!("what there  is 0 ?{SUFFIX}"));
    assert_eq!(plan.picked, [plan.pieces.len() as u32 - 1]);
    assert_eq!(
        plan.label_counts,
        BTreeMap::from([("even".to_owned(), 1), ("odd".to_owned(), 2)])
    );
    assert_eq!(plan.bytes, 5 * 3 * 16 * 4);
    assert!(plan.seconds() > 0.0 && plan.tokens_per_second.is_finite());
}

#[test]
fn in_a_chat_the_text_is_a_turn_and_none_of_the_template_is_its_own() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let work = tempfile::tempdir().unwrap();
    let data = data(work.path(), 3);
    for (position, own) in [
        (Position::Mean, "what there  is 0 ?"),
        (Position::Answer, "It is 0."),
    ] {
        let mut request = request(&data, position);
        request.prompt = PromptRequest {
            suffix: None,
            chat: true,
        };
        let capture = plan(&model, folder.path(), &request).unwrap();
        let plan = capture.planned();
        let picked: String = plan
            .picked
            .iter()
            .map(|at| plan.pieces[*at as usize].as_str())
            .collect();
        assert_eq!(picked, own);
        assert!(
            plan.pieces
                .concat()
                .starts_with("<|im_start|>user\nwhat there")
        );
        assert_eq!(
            plan.about.prompt.template.as_deref(),
            Some(model.template.source.as_str())
        );
    }
}

#[test]
fn a_capture_that_was_killed_anywhere_continues_to_the_same_bytes() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let work = tempfile::tempdir().unwrap();
    let data = data(work.path(), 40);
    for position in [Position::Last, Position::Tokens] {
        let request = request(&data, position);
        let whole = work.path().join(format!("{position:?} whole"));
        captured(&model, folder.path(), &request, &whole);
        for passes in [1, 3, 6] {
            let to = work.path().join(format!("{position:?} {passes}"));
            let capture = plan(&model, folder.path(), &request).unwrap();
            let mut left = passes;
            let rows = capture.run(&model, &to, usize::MAX, &mut |_| {
                left -= 1;
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            assert!(rows.unwrap() < capture.planned().about.rows);
            let error = States::open(&to).unwrap_err().to_string();
            assert!(
                error.starts_with("the capture is not finished: "),
                "{error}"
            );
            // A process that is killed leaves more than it said was whole, and half of it.
            for (name, bytes) in content(&to) {
                if name.ends_with(".f32") {
                    fs::write(to.join(&name), [&bytes[..], b"half a vector"].concat()).unwrap();
                }
            }
            captured(&model, folder.path(), &request, &to);
            assert!(
                content(&to) == content(&whole),
                "{position:?} after {passes} passes"
            );
        }
    }
}

#[test]
fn a_folder_of_another_capture_is_refused_with_what_differs() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let work = tempfile::tempdir().unwrap();
    let to = work.path().join("states");
    let data = data(work.path(), 5);
    let asked = request(&data, Position::Last);
    captured(&model, folder.path(), &asked, &to);
    let before = content(&to);
    let mut others = vec![("position", request(&data, Position::Mean))];
    let mut other = asked.clone();
    other.prompt.suffix = None;
    others.push(("suffix or chat template", other));
    let mut other = asked.clone();
    other.sites = vec![Site::Final];
    others.push(("sites", other));
    for (what, other) in others {
        let capture = plan(&model, folder.path(), &other).unwrap();
        let error = capture_all(&capture, &model, &to).unwrap_err().to_string();
        assert!(
            error.contains(&format!("whose {what} is not the one asked for")),
            "{error}"
        );
    }
    let other = crate::capture::model(json!({"initializer_range": 0.2}));
    let its_model = open(other.path());
    let capture = plan(&its_model, other.path(), &asked).unwrap();
    let error = capture_all(&capture, &its_model, &to).unwrap_err();
    assert!(error.to_string().contains("whose model is not"), "{error}");
    assert!(content(&to) == before);
    fs::write(work.path().join("mine"), "a file").unwrap();
    let capture = plan(&model, folder.path(), &asked).unwrap();
    let error = capture_all(&capture, &model, work.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("states are written to a new folder"),
        "{error}"
    );
}

#[test]
fn files_that_are_not_what_the_folder_says_are_refused() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let work = tempfile::tempdir().unwrap();
    let to = work.path().join("states");
    let data = data(work.path(), 5);
    captured(&model, folder.path(), &request(&data, Position::Last), &to);
    let whole = content(&to);
    let changed = |name: &str, change: &dyn Fn(String) -> String| {
        let text = String::from_utf8(whole[name].clone()).unwrap();
        fs::write(to.join(name), change(text)).unwrap();
        let error = States::open(&to).unwrap_err().to_string();
        fs::write(to.join(name), &whole[name]).unwrap();
        error
    };
    let error = changed(ROWS, &|text| text.replacen("odd", "ODD", 1));
    assert!(
        error.starts_with("the file was changed after the states were captured"),
        "{error}"
    );
    let error = changed(ABOUT, &|text| {
        text.replace("\"width\": 16", "\"width\": 1000000000000")
    });
    assert!(
        error.contains("is 1,000,000,000,000, and 1,048,576 numbers are the most"),
        "{error}"
    );
    let error = changed(ABOUT, &|text| {
        text.replace("\"width\": 16", "\"width\": 32")
    });
    assert!(
        error.contains("the file has 320 bytes, and 5 vectors of 32 numbers take 640"),
        "{error}"
    );
    let error = changed(ABOUT, &|text| {
        text.replace("\"version\": 1", "\"version\": 2")
    });
    assert!(error.contains("was written by a later version"), "{error}");
    let error = changed(WHOLE, &|text| text.replace('5', "4"));
    assert!(
        error.starts_with("the capture is not finished: 4 of 5 rows"),
        "{error}"
    );
    States::open(&to).unwrap();
}

#[test]
fn rows_that_cannot_be_used_are_named_and_never_zero() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("texts.jsonl");
    let rows = [
        json!({"text": "what", "label": "a"}),
        json!({"text": "  ", "label": "a"}),
        json!({"text": "who", "label": null}),
        json!({"text": 7, "label": "a"}),
        json!({"text": "what there ".repeat(40), "label": "b"}),
        json!({"text": "where", "label": 1}),
        json!({"text": "there", "label": []}),
        json!({"text": "there", "label": ["b", "a", "b"]}),
    ];
    let lines: Vec<String> = rows.iter().map(Json::to_string).collect();
    fs::write(&path, lines.join("\n") + "\nno json").unwrap();
    let mut request = request(&path, Position::Last);
    request.prompt.suffix = None;
    let refused = plan(&model, folder.path(), &request)
        .err()
        .unwrap()
        .to_string();
    assert!(
        refused.starts_with(
            "5 of 9 rows can’t be used: line 2: `text` is empty; line 3: `label` is missing"
        ),
        "{refused}"
    );
    request.skip_bad_rows = true;
    let states = captured(&model, folder.path(), &request, &work.path().join("states"));
    let labels: Vec<Vec<&str>> = states
        .rows()
        .iter()
        .map(|row| row.labels.iter().map(String::as_str).collect())
        .collect();
    assert_eq!(labels, [vec!["a"], vec!["1"], vec![], vec!["b", "a"]]);
    let left_out = &states.about().left_out;
    assert_eq!(left_out.len(), 5);
    assert!(
        left_out
            .iter()
            .any(|it| it.contains("texts.jsonl: line 5: has ")
                && it.contains("and 128 are the most")),
        "{left_out:?}"
    );
    let numbers = states.matrix(Site::Final).unwrap().read_all();
    assert!(
        numbers
            .chunks(16)
            .all(|vector| vector.iter().any(|it| *it != 0.0))
    );
}

#[test]
fn labelled_text_is_read_from_tables_and_from_lines_in_latin_1() {
    let work = tempfile::tempdir().unwrap();
    let table = work.path().join("a.csv");
    fs::write(&table, "Question,Category,conversation_id,split\nWho ?,HUM,7,train\n\"What, then ?\",ENTY,7,test\n").unwrap();
    let lines = work.path().join("b.txt");
    fs::write(
        &lines,
        b"DESC:manner How did caf\xe9s develop ?\n\nABBR\nLOC:city Where ?\n",
    )
    .unwrap();
    let read = |paths: &[&PathBuf]| {
        labelled::read(&LabelledRequest {
            paths: paths.iter().map(|it| (*it).clone()).collect(),
            ..LabelledRequest::default()
        })
        .unwrap()
    };
    let found = read(&[&table, &lines]);
    assert_eq!(found.labels, ["DESC", "ENTY", "HUM", "LOC"]);
    let texts: Vec<&str> = found.rows.iter().map(|row| row.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "Who ?",
            "What, then ?",
            "How did cafés develop ?",
            "Where ?"
        ]
    );
    assert_eq!(found.rows[1].group.as_deref(), Some("7"));
    assert_eq!(found.rows[1].part.as_deref(), Some("test"));
    assert_eq!(found.rows[3].id, "b.txt:4");
    assert_eq!(
        found.problems[0].to_string(),
        "line 3: `text` is empty: the line has one word"
    );
    assert_eq!(
        found.read_as[0],
        "the text is `Question`, the label is `Category`, what belongs together is in `conversation_id`"
    );
    assert!(found.read_as[1].contains("it is not UTF-8 and was read as latin-1"));
    let request = LabelledRequest {
        paths: vec![table],
        label_column: Some("Topic".to_owned()),
        ..LabelledRequest::default()
    };
    let error = labelled::read(&request).unwrap_err().to_string();
    assert!(
        error.starts_with("`label_column` is `Topic`, and the columns of the file are `Question`"),
        "{error}"
    );
}

#[test]
fn states_of_a_model_in_bf16_keep_its_digits() {
    let folder = model(json!({}));
    let dtypes = LoadDtypes {
        storage: DType::BF16,
        compute: DType::BF16,
        quantize: None,
        most_bytes_unpacked: 0,
    };
    let model = LanguageModel::open(folder.path(), dtypes, &Device::Cpu).unwrap();
    let work = tempfile::tempdir().unwrap();
    let data = data(work.path(), 4);
    let to = work.path().join("states");
    let request = CaptureRequest {
        tokens_at_once: Some(1),
        ..request(&data, Position::Last)
    };
    let capture = Capture::plan(&model, dtypes, folder.path(), &request, "a test").unwrap();
    capture_all(&capture, &model, &to).unwrap();
    let states = States::open(&to).unwrap();
    assert_eq!(states.about().compute_dtype, "bf16");
    assert!(to.join("block.001.bf16").exists());
    let shown = format!("what there  is 0 ?{SUFFIX}");
    let tokens = model.tokenizer.encode(&shown, true).unwrap();
    let expected: Tensor = model
        .network
        .decoder()
        .unwrap()
        .hidden_at(Input::new(&tokens, 1), &[Site::Block(1)])
        .unwrap()
        .remove(0);
    let expected = expected.squeeze(0).unwrap().get(tokens.len() - 1).unwrap();
    let expected: Vec<f32> = expected.to_dtype(DType::F32).unwrap().to_vec1().unwrap();
    let mut found = vec![0.0; 16];
    states
        .matrix(Site::Block(1))
        .unwrap()
        .copy_vector(0, &mut found);
    assert_eq!(found, expected);
}
