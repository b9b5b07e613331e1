//! Language models end to end: from files through a plan to a trained model on disk, and on from there.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use candle_core::Device;
use models::{
    arch::network::NetworkConfig,
    checkpoint::{
        folder::ModelFolder,
        keep::Checkpoints,
        load::{LoadDtypes, network_config},
    },
    data::tokenizer::{TOKENIZER, Tokenizer},
    device::dtype::Dtype,
    generate::{Ended, Generator, sample::SamplingSettings},
    ops::kernels,
    tasks::language::{
        Language, LanguagePlan, LanguageTask,
        model::LanguageModel,
        text::{Text, TokenizerFrom},
    },
    train::{Kind, Outcome, TrainEvent, TrainPlan, TrainState, task::Task, train},
};
use serde_json::{Value as Json, json};

use crate::{
    plan::with,
    train::{Watch, numbers, steps_taken},
};

/// Some chat rows about sums, as a JSONL file in `folder`.
pub(crate) fn chat_file(folder: &Path) -> PathBuf {
    let rows: Vec<String> = (0..80)
        .map(|row| {
            let (a, b) = (row % 9, row / 9);
            json!({"prompt": format!("{a} + {b}?"), "completion": format!("{}", a + b)}).to_string()
        })
        .collect();
    let path = folder.join("sums.jsonl");
    fs::write(&path, rows.join("\n")).unwrap();
    path
}

/// A plan of ten steps on a tiny model.
pub(crate) fn plan(method: &str, files: &Path, model: Option<&Path>) -> TrainPlan<LanguagePlan> {
    let plan = serde_json::to_value(crate::plan::scratch_plan()).unwrap();
    let changes = json!({
        "method": if method == "recursive" { "scratch" } else { method },
        "steps": 10,
        "learning_rate": 0.003,
        "data": {
            "files": [files], "columns": {}, "encoding": "utf-8", "rows": "whole", "held_out": 0.1,
            "learn": "assistant", "max_length": 64, "packing": true, "skip_bad_rows": false,
        },
        "batch": { "rows": 2, "length": 48, "accumulate": 2 },
        "schedule": { "kind": "cosine", "warmup_steps": 2, "min_ratio": 0.1 },
        "evaluate": { "every": 5, "batches": 0 },
        "sample": { "every": 0, "prompts": [], "tokens": 8 },
        "save": { "every": 3, "keep_last": 2, "keep_best": false },
    });
    let mut plan = with(plan, changes);
    let fields = plan.as_object_mut().unwrap();
    if method == "scratch" {
        fields["scratch"]["config"] = tiny_config();
    } else if method == "recursive" {
        fields["scratch"]["config"] = recursive_config();
    } else {
        fields.remove("scratch");
        fields.insert("model".to_owned(), json!(model));
    }
    if method == "lora" {
        let lora = json!({
            "rank": 4, "alpha": 8.0, "dropout": 0.1, "targets": ["q_proj", "down_proj"], "layers": [0, 1],
            "rslora": false,
        });
        fields.insert("lora".to_owned(), lora);
    }
    serde_json::from_value(plan).unwrap()
}

fn tiny_config() -> Json {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 32,
        "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
        "hidden_act": "silu", "initializer_range": 0.02,
    })
}

/// Two uses of a block are learned from and two are not, for each of two steps of thinking.
fn recursive_config() -> Json {
    json!({
        "model_type": "trm", "causal": true, "vocab_size": 300, "hidden_size": 32, "num_heads": 4, "L_layers": 1, "H_cycles": 2,
        "L_cycles": 1, "halt_max_steps": 2, "expansion": 2.0, "max_position_embeddings": 128,
    })
}

/// The model a run starts from: written by a short run from scratch, so that it has a tokenizer.
pub(crate) fn base_model(folder: &Path, data: &Path) -> PathBuf {
    let mut plan = plan("scratch", data, None);
    plan.run.steps = 1;
    let (outcome, _, _) = run(&plan, &folder.join("base-run"), None);
    assert_eq!(outcome, Outcome::Finished);
    newest(&folder.join("base-run"))
}

/// The newest checkpoint in a folder.
pub(crate) fn newest(folder: &Path) -> PathBuf {
    let newest = Checkpoints::new(folder, 1).newest().unwrap();
    newest.unwrap().path
}

/// Runs a plan in a folder, on from its newest checkpoint if it has one.
pub(crate) fn run(
    plan: &TrainPlan<LanguagePlan>,
    folder: &Path,
    stop_after: Option<usize>,
) -> (Outcome, LanguageTask, Vec<f64>) {
    let (outcome, task, watch) = watched(plan, folder, stop_after);
    let losses = watch.all(|event| match event {
        TrainEvent::Stepped { loss, .. } => *loss,
        _ => None,
    });
    (outcome, task, losses)
}

/// The same with all that happened.
fn watched(
    plan: &TrainPlan<LanguagePlan>,
    folder: &Path,
    stop_after: Option<usize>,
) -> (Outcome, LanguageTask, Watch) {
    let tokenizer = match &plan.task.model {
        Some(model) => TokenizerFrom::Folder(model),
        None => TokenizerFrom::Data {
            vocab_size: 300,
            marks: plan.task.scratch.as_ref().unwrap().marks(),
        },
    };
    let data = &plan.task.data;
    let text = Text::open(&data.source(), data.held_out, tokenizer, plan.run.seed);
    let mut task = LanguageTask::new(plan, text.unwrap(), &Device::Cpu).unwrap();
    let mut state = TrainState::new(plan, &task).unwrap();
    let checkpoints = Checkpoints::new(folder, plan.run.save.keep_last);
    if let Some(newest) = checkpoints.newest().unwrap() {
        state.restore(&mut task, &newest.path).unwrap();
    }
    let enough =
        move |events: &[TrainEvent]| stop_after.is_some_and(|it| steps_taken(events) >= it);
    let mut watch = Watch::until(enough);
    let outcome = train(&plan.run, &mut task, &mut state, &checkpoints, &mut watch).unwrap();
    (outcome, task, watch)
}

#[test]
fn an_estimate_counts_the_numbers_that_a_run_has() {
    let folder = tempfile::tempdir().unwrap();
    let data = chat_file(folder.path());
    let model = base_model(folder.path(), &data);
    for method in ["scratch", "recursive", "full", "lora"] {
        let plan = plan(method, &data, Some(&model));
        let config = match &plan.task.scratch {
            Some(scratch) => Json::Object(scratch.config.clone()),
            None => ModelFolder::open(&model).unwrap().config,
        };
        let network = NetworkConfig::from_json(&config).unwrap();
        let estimate = Language::estimate(&plan, &network.into());
        let (_, task, _) = run(&plan, &folder.path().join(method), Some(1));
        let parameters = task.parameters();
        let counted = [parameters.count(), parameters.trainable_count()];
        let estimated = [estimate.parameters, estimate.trainable_parameters];
        assert_eq!(estimated, counted.map(|it| it as u64), "{method}");
    }
}

#[test]
fn an_estimate_counts_the_numbers_of_every_family() {
    let plan = plan("full", Path::new("data"), Some(Path::new("model")));
    let mut counted = 0;
    for golden in crate::golden::cases(|name| !name.starts_with("lora")) {
        let model = ModelFolder::open(&golden.folder).unwrap();
        let config = network_config(&model).unwrap();
        let estimate = Language::estimate(&plan, &config.into());
        let count = model.parameter_count().unwrap();
        assert_eq!(estimate.parameters, count, "{}", golden.name);
        counted += 1;
    }
    assert!(counted > 10, "{counted}");
}

#[test]
fn a_run_does_without_the_kernels_that_its_plan_avoids() {
    let folder = tempfile::tempdir().unwrap();
    let data = chat_file(folder.path());
    let run_in = |name: &str, avoid_kernels: &[&str]| {
        let mut plan = plan("scratch", &data, None);
        plan.run.avoid_kernels = avoid_kernels.iter().map(|&it| it.to_owned()).collect();
        let (_, task, losses) = run(&plan, &folder.path().join(name), Some(2));
        (trained(&task), losses)
    };
    let composed = kernels::without(|| run_in("composed", &[]));
    let usual = run_in("usual", &[]);
    assert_eq!(run_in("avoided", kernels::NAMES), composed);
    assert_ne!(run_in("one", &["rms_norm"]), composed);
    assert_ne!(run_in("another", &["rms_norm"]), usual);
    // Kernels are back for the next run on the same thread.
    assert_eq!(run_in("again", &[]), usual);
}

fn trained(task: &LanguageTask) -> Vec<(String, Vec<f32>)> {
    let weights = task.parameters().trainable();
    let named = weights.map(|it| (it.name().to_owned(), numbers(&it.tensor())));
    named.collect()
}

/// Trains a plan of ten steps with a stop after five, and compares with one that was not stopped.
#[track_caller]
fn check_five_and_five(
    plan: &TrainPlan<LanguagePlan>,
    folder: &Path,
    expected: &LanguageTask,
    expected_losses: &[f64],
) {
    let method = plan.task.method;
    let (outcome, _, first_losses) = run(plan, folder, Some(5));
    assert_eq!(outcome, Outcome::Stopped, "{method:?}");
    let (outcome, resumed, last_losses) = run(plan, folder, None);
    assert_eq!(outcome, Outcome::Finished, "{method:?}");
    let losses = [first_losses, last_losses].concat();
    assert_eq!(losses, expected_losses, "{method:?}");
    assert_eq!(trained(&resumed), trained(expected), "{method:?}");
}

/// Tries a plan of each method, with a folder for each run that is named.
fn each_method(
    methods: &[&str],
    test: impl Fn(&str, TrainPlan<LanguagePlan>, &dyn Fn(&str) -> PathBuf),
) {
    let folder = tempfile::tempdir().unwrap();
    let data = chat_file(folder.path());
    let base = base_model(folder.path(), &data);
    for method in methods {
        let mut plan = plan(method, &data, Some(&base));
        // An adapter on a model that knows nothing yet needs large steps to show that it learns.
        plan.run.learning_rate *= if *method == "lora" { 20.0 } else { 1.0 };
        test(method, plan, &|name| {
            folder.path().join(format!("{method}-{name}"))
        });
    }
}

/// Compares losses step by step.
#[track_caller]
fn check_near(place: &str, losses: &[f64], expected: &[f64], allowed: f64) {
    assert_eq!(losses.len(), expected.len(), "{place}");
    for (step, (loss, expected)) in losses.iter().zip(expected).enumerate() {
        let off = (loss - expected).abs() / expected;
        assert!(
            off < allowed,
            "{place}, step {step}: {loss} and not {expected}"
        );
    }
}

#[test]
fn ten_steps_are_five_and_five_to_the_last_bit_for_every_method() {
    each_method(
        &["scratch", "recursive", "full", "lora"],
        |method, plan, path| {
            let (_, expected, losses) = run(&plan, &path("a"), None);
            check_five_and_five(&plan, &path("b"), &expected, &losses);
            assert!(losses[9] < losses[0], "{method}: {losses:?}");
        },
    );
}

#[test]
fn a_step_learns_the_same_however_its_rows_are_split_into_micro_batches() {
    let folder = tempfile::tempdir().unwrap();
    let data = chat_file(folder.path());
    let base = base_model(folder.path(), &data);
    for method in ["scratch", "recursive", "full", "lora"] {
        for packing in [true, false] {
            let losses = |rows: usize, accumulate: usize| {
                let mut plan = plan(method, &data, Some(&base));
                plan.task.data.packing = packing;
                (plan.run.batch.rows, plan.run.batch.accumulate) = (rows, accumulate);
                if let Some(lora) = &mut plan.task.lora {
                    // Each micro-batch draws its own.
                    lora.dropout = 0.0;
                }
                let name = format!("{method}-{packing}-{rows}");
                let (_, task, losses) = run(&plan, &folder.path().join(name), None);
                (losses, task.state())
            };
            let (expected, position) = losses(4, 4);
            for (rows, accumulate) in [(2, 8), (16, 1)] {
                let (split, same_position) = losses(rows, accumulate);
                assert_eq!(same_position, position);
                assert_eq!(split.len(), 10);
                let place = format!("{method}, packing {packing}, {rows} rows");
                check_near(&place, &split, &expected, 1e-6);
            }
        }
    }
}

/// What the loop remembers of the newest checkpoint in `folder`.
fn saved_progress(folder: &Path) -> Json {
    let state = fs::read(newest(folder).join("state.json")).unwrap();
    serde_json::from_slice(&state).unwrap()
}

#[test]
fn in_f16_a_run_lowers_its_loss_scale_and_learns_from_the_same_rows_as_in_f32() {
    each_method(&["scratch", "full", "lora"], |method, mut plan, path| {
        // Few targets a step have large gradients.
        plan.task.data.packing = false;
        (plan.run.batch.rows, plan.run.batch.accumulate) = (1, 1);
        let (_, _, expected) = run(&plan, &path("f32"), None);
        assert_eq!(saved_progress(&path("f32"))["loss_scale"], Json::Null);

        plan.run.dtype.compute = Dtype::F16;
        let (outcome, straight, losses) = run(&plan, &path("f16"), None);
        assert_eq!(outcome, Outcome::Finished);
        check_near(method, &losses, &expected, 0.02);
        let (f16, f32) = (saved_progress(&path("f16")), saved_progress(&path("f32")));
        let factor = f16["loss_scale"]["factor"].as_f64().unwrap();
        assert!((1.0..65_536.0).contains(&factor), "{method}: {factor}");
        for field in ["step", "tokens", "task", "rollbacks"] {
            assert_eq!(f16[field], f32[field], "{method}: {field}");
        }

        check_five_and_five(&plan, &path("stopped"), &straight, &losses);
    });
}

#[test]
fn with_products_of_bf16_a_run_on_the_cpu_learns_nearly_the_same_from_the_same_rows() {
    each_method(
        &["scratch", "recursive", "full", "lora"],
        |method, mut plan, path| {
            let (_, _, expected) = run(&plan, &path("f32"), None);
            plan.run.dtype.compute = Dtype::Bf16;
            let (_, straight, losses) = run(&plan, &path("bf16"), None);
            assert_ne!(losses, expected, "{method}");
            check_near(method, &losses, &expected, 0.01);
            check_five_and_five(&plan, &path("stopped"), &straight, &losses);
        },
    );
}

#[test]
fn what_was_trained_loads_and_writes_as_it_did_in_training() {
    let folder = tempfile::tempdir().unwrap();
    let data = chat_file(folder.path());
    let base = base_model(folder.path(), &data);
    for method in ["scratch", "recursive", "lora"] {
        let path = folder.path().join(method);
        let (_, task, _) = run(&plan(method, &data, Some(&base)), &path, None);
        let loaded = LanguageModel::open(&newest(&path), LoadDtypes::F32, &Device::Cpu).unwrap();
        assert!(loaded.chats, "{method}");
        let write = |model: &LanguageModel| {
            let prompt = model.prompt("2 + 3?").unwrap();
            let mut generator = Generator::new(model.network.clone());
            let mut shown = String::new();
            let mut show = |piece: &str| {
                shown.push_str(piece);
                ControlFlow::Continue(())
            };
            let (greedy, limits) = (SamplingSettings::greedy(), model.limits(12));
            let answer = generator.write(&model.tokenizer, &prompt, &greedy, &limits, &mut show);
            let answer = answer.unwrap();
            assert_eq!(answer.text, shown, "{method}");
            answer.tokens
        };
        assert_eq!(write(&loaded), write(task.model()), "{method}");
    }
}

#[test]
fn a_model_whose_tokenizer_is_too_large_for_it_is_refused_by_the_file_of_the_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let data = chat_file(folder.path());
    let base = base_model(folder.path(), &data);
    let letters = || 'a'..='z';
    let words: Vec<String> = letters()
        .flat_map(|first| letters().map(move |then| format!("{first}{then}{first}{first}")))
        .collect();
    let words = words.iter().map(String::as_str).cycle();
    let larger = Tokenizer::train(words.take(2_000), 400);
    let larger = larger.unwrap();
    larger.save(&base, None).unwrap();
    let plan = plan("full", &data, Some(&base));
    let source = plan.task.data.source();
    let from = TokenizerFrom::Folder(&base);
    let text = Text::open(&source, plan.task.data.held_out, from, plan.run.seed);
    let refused = LanguageTask::new(&plan, text.unwrap(), &Device::Cpu)
        .err()
        .unwrap();
    let refused = refused.to_string();
    let tokens = larger.vocabulary_size();
    let problem = format!("has {tokens} tokens, and the model knows 300");
    assert!(
        refused.contains(&problem) && refused.contains(TOKENIZER),
        "{refused}"
    );
}

#[test]
fn a_recursive_model_is_saved_with_its_marks_and_learned_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let data = chat_file(folder.path());
    let path = folder.path().join("first");
    let (_, task, _) = run(&plan("recursive", &data, None), &path, None);
    let loaded = LanguageModel::open(&newest(&path), LoadDtypes::F32, &Device::Cpu).unwrap();
    let prompt = loaded.prompt("2 + 3?").unwrap();
    let shown = loaded.tokenizer.decode(&prompt, true).unwrap();
    assert_eq!(shown, "<|user|>2 + 3?<|enduser|><|sep|><|assistant|>");
    let ends = ["<|endoftext|>", "<|endassistant|>"].map(|it| loaded.tokenizer.token_id(it));
    let stops = loaded.limits(8).stop_tokens;
    assert_eq!(stops, ends.map(Option::unwrap));
    let all = |model: &LanguageModel| {
        let weights = model.network.parameters().iter();
        let named = weights.map(|it| (it.name().to_owned(), numbers(&it.tensor())));
        named.collect::<Vec<_>>()
    };
    assert_eq!(all(&loaded), all(task.model()));
    let full = plan("full", &data, Some(&newest(&path)));
    let (outcome, _, losses) = run(&full, &folder.path().join("on"), None);
    assert_eq!(outcome, Outcome::Finished);
    assert!(losses[9] < losses[0], "{losses:?}");
}

#[test]
fn after_its_last_step_a_model_answers_held_out_questions() {
    let folder = tempfile::tempdir().unwrap();
    let rows = (0..60).map(|row| {
        let answer = if row % 20 == 0 {
            "no ".repeat(80)
        } else {
            "yes".to_owned()
        };
        json!({"prompt": format!("{row}?"), "completion": answer}).to_string()
    });
    let path = folder.path().join("yes.jsonl");
    fs::write(&path, rows.collect::<Vec<_>>().join("\n")).unwrap();
    let changes =
        json!({"steps": 40, "learning_rate": 0.01, "evaluate": {"every": 20, "batches": 0}});
    let plan = with(
        serde_json::to_value(plan("scratch", &path, None)).unwrap(),
        changes,
    );
    let plan = serde_json::from_value(plan).unwrap();
    let (_, _, watch) = watched(&plan, &folder.path().join("run"), None);
    let answers = watch.all(|event| match event {
        TrainEvent::Evaluated { step, metrics, .. } => {
            let right = metrics.iter().find(|it| it.name == "right_answers");
            Some((*step, right.map(|it| (it.value, it.of))))
        }
        _ => None,
    });
    // Of the six rows kept aside, those with a long answer are not asked.
    let [(0, None), (20, None), (40, Some((right, Some(asked))))] = answers[..] else {
        panic!("{answers:?}");
    };
    assert!(right == 1.0 && (4..=6).contains(&asked), "{answers:?}");
}

#[test]
fn a_writer_stops_at_once_when_asked_and_reads_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let data = chat_file(folder.path());
    let base = base_model(folder.path(), &data);
    let model = LanguageModel::open(&base, LoadDtypes::F32, &Device::Cpu).unwrap();
    let mut generator = Generator::new(model.network.clone()).avoiding(vec!["rope".to_owned()]);
    let prompt = model.prompt("1 + 1?").unwrap();
    let sampling = SamplingSettings {
        temperature: 1.0,
        top_p: 1.0,
        ..SamplingSettings::default()
    };
    let mut limits = model.limits(30);
    limits.stop_tokens.clear();
    let mut pieces = 0;
    let mut stop_at_third = |_: &str| {
        pieces += 1;
        match pieces {
            3 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    };
    let mut write = |prompt: &[u32], show: &mut dyn FnMut(&str) -> ControlFlow<()>| {
        let written = generator.write(&model.tokenizer, prompt, &sampling, &limits, show);
        written.unwrap()
    };
    let answer = write(&prompt, &mut stop_at_third);
    assert_eq!((answer.ended, answer.cached_tokens), (Ended::Asked, 0));
    // The same again with one turn more: what was read before is in the cache.
    let longer = [prompt.clone(), answer.tokens.clone(), vec![5, 6]].concat();
    let again = write(&longer, &mut |_: &str| ControlFlow::Continue(()));
    let known = prompt.len() + answer.tokens.len();
    assert!(again.cached_tokens >= known - 1, "{again:?}");
    assert_eq!(again.cached_tokens + again.prompt_tokens, longer.len());
}
