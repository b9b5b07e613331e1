//! Probes that score tokens while a model writes: what is written is the same, and the scores are those of the states.

use std::{cell::RefCell, fs, ops::ControlFlow, rc::Rc};

use candle_core::DType;
use models::{
    arch::{decoder::Input, sites::Site},
    generate::{Generator, Limits, sample::SamplingSettings},
    tasks::{
        language::model::LanguageModel,
        probe::{
            capture_prompt::PromptRequest,
            folder::Probes,
            live::{Live, ReadFrom, TokenScores},
            states::Position,
        },
    },
};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    capture::{SUFFIX, captured, data, model, open, request},
    probe_apply::learned,
};

pub(crate) type Heard = Rc<RefCell<Vec<TokenScores>>>;

fn probes(
    model: &LanguageModel,
    folder: &TempDir,
    suffix: Option<&str>,
    position: Position,
) -> Probes {
    let work = tempfile::tempdir().unwrap();
    let mut request = request(&data(work.path(), 90), position);
    request.prompt = PromptRequest {
        suffix: suffix.map(str::to_owned),
        chat: false,
    };
    let states = captured(model, folder.path(), &request, &work.path().join("states"));
    learned(&states, &work.path().join("probes"))
}

/// Two answers, the second of which begins in the cache of the first.
pub(crate) fn answers(model: &LanguageModel, live: Option<Live>) -> Vec<Vec<u32>> {
    let mut generator = Generator::new(model.network.clone());
    generator.watch(live.map(|it| Box::new(it) as _));
    let sampling = SamplingSettings {
        temperature: 1.0,
        top_p: 1.0,
        ..SamplingSettings::default()
    };
    let limits = Limits {
        max_tokens: 24,
        ..Limits::default()
    };
    let mut prompt = model
        .tokenizer
        .encode("What is the capital of France ?", true)
        .unwrap();
    let mut write = || {
        let mut go_on = |_: &str| ControlFlow::Continue(());
        let answer = generator.write(&model.tokenizer, &prompt, &sampling, &limits, &mut go_on);
        let answer = answer.unwrap();
        prompt.extend(&answer.tokens);
        prompt.extend([40, 41]);
        answer.tokens
    };
    vec![write(), write()]
}

pub(crate) fn live(model: &LanguageModel, probes: &[Probes]) -> (Live, Heard) {
    let heard = Heard::default();
    let to = heard.clone();
    let tell = Box::new(move |tokens| to.borrow_mut().extend(tokens));
    (Live::new(model, probes, tell).unwrap(), heard)
}

/// The score of the last of these tokens, computed from the start.
fn score(model: &LanguageModel, probes: &Probes, probe: usize, tokens: &[u32]) -> f32 {
    let decoder = model.network.decoder().unwrap();
    let site: Site = probes.about.probes[probe].site;
    let states = decoder.hidden_at(Input::new(tokens, 1), &[site]).unwrap();
    let last = states[0].narrow(1, tokens.len() - 1, 1).unwrap();
    let last = last.flatten_all().unwrap().to_dtype(DType::F32).unwrap();
    probes.score(probe, &last.to_vec1::<f32>().unwrap())
}

#[test]
fn what_is_written_is_the_same_to_the_bit_with_and_without_probes() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let alone = answers(&model, None);
    assert!(alone.iter().all(|it| !it.is_empty()));
    let direct = probes(&model, &folder, None, Position::Mean);
    let suffix = probes(&model, &folder, Some(SUFFIX), Position::Last);
    for watched in [
        vec![direct.clone()],
        vec![suffix.clone()],
        vec![direct, suffix],
    ] {
        let (live, heard) = live(&model, &watched);
        assert_eq!(answers(&model, Some(live)), alone);
        assert!(heard.borrow().iter().any(|it| it.is_answer));
    }
}

#[test]
fn a_token_scores_as_its_state_does_directly_and_after_what_follows() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let direct = probes(&model, &folder, None, Position::Last);
    let suffix = probes(&model, &folder, Some(SUFFIX), Position::Last);
    let (live, heard) = live(&model, &[direct.clone(), suffix.clone()]);
    let ways: Vec<ReadFrom> = live.probes().iter().map(|it| it.way).collect();
    assert_eq!(
        ways,
        [
            ReadFrom::Direct,
            ReadFrom::Direct,
            ReadFrom::Suffix,
            ReadFrom::Suffix
        ]
    );
    answers(&model, Some(live));

    let follows = model.tokenizer.encode(SUFFIX, false).unwrap();
    let scored = check_scores(
        &model,
        &[(&direct, &[]), (&suffix, &follows)],
        &heard.borrow(),
    );
    assert!(scored.iter().all(|it| *it > 20), "{scored:?}");
}

/// Compares what folders of probes said of tokens with the states of these, computed from the start: those of the token, or of the last
/// one of what follows it. Returns how many scores each folder gave.
pub(crate) fn check_scores(
    model: &LanguageModel,
    folders: &[(&Probes, &[u32])],
    heard: &[TokenScores],
) -> Vec<usize> {
    let tokens: Vec<u32> = heard.iter().map(|it| it.token).collect();
    let mut scored = vec![0; folders.len()];
    for (at, token) in heard.iter().enumerate() {
        let mut scores = token.scores.iter();
        for (folder, (probes, follows)) in folders.iter().enumerate() {
            let read = [&tokens[..=at], *follows].concat();
            for (probe, found) in probes.chosen().into_iter().zip(scores.by_ref()) {
                let Some(found) = found else {
                    assert!(!follows.is_empty() && !token.is_answer, "{at} {folder}");
                    continue;
                };
                let expected = score(model, probes, probe, &read);
                assert!(
                    (found - expected).abs() < 1e-3 * expected.abs().max(1.0),
                    "{at}: {found} {expected}"
                );
                scored[folder] += 1;
            }
        }
    }
    scored
}

#[test]
fn probes_that_read_what_no_token_has_are_refused() {
    let folder = model(json!({}));
    let model = open(folder.path());
    let probes = probes(&model, &folder, None, Position::MeanAndMax);
    let refused = Live::new(&model, &[probes], Box::new(|_| {}))
        .err()
        .unwrap();
    assert!(
        refused.to_string().contains("which no single token has"),
        "{refused}"
    );
}

#[test]
#[ignore = "a measurement, in an optimised build: `-- --ignored --nocapture`"]
fn tokens_with_45_probes_and_without() {
    let folder = model(json!({
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "max_position_embeddings": 512, "vocab_size": 8192, "initializer_range": 0.02,
    }));
    let model = open(folder.path());
    let work = tempfile::tempdir().unwrap();
    let row = |row: usize| {
        json!({"text": format!("what is {row}"), "label": format!("label {}", row % 45)})
            .to_string()
    };
    let rows: Vec<String> = (0..450).map(row).collect();
    let path = work.path().join("texts.jsonl");
    fs::write(&path, rows.join("\n")).unwrap();
    let mut request = request(&path, Position::Last);
    request.prompt = PromptRequest::default();
    request.tokens_at_once = None;
    request.sites = (5..29).step_by(4).map(Site::Block).collect();
    let states = captured(&model, folder.path(), &request, &work.path().join("states"));
    let probes = learned(&states, &work.path().join("probes"));
    assert_eq!(probes.chosen().len(), 45);

    let prompt = model
        .tokenizer
        .encode("What is the capital of France ?", true)
        .unwrap();
    let seconds = |watched: bool| {
        let mut generator = Generator::new(model.network.clone());
        let live = watched.then(|| live(&model, std::slice::from_ref(&probes)).0);
        generator.watch(live.map(|it| Box::new(it) as _));
        let limits = Limits {
            max_tokens: 64,
            ..Limits::default()
        };
        let mut go_on = |_: &str| ControlFlow::Continue(());
        let greedy = SamplingSettings::greedy();
        let answer = generator.write(&model.tokenizer, &prompt, &greedy, &limits, &mut go_on);
        let answer = answer.unwrap();
        // Who watches is shown the last token too, which nobody else reads.
        answer.seconds / (answer.tokens.len() - 1 + usize::from(watched)) as f64
    };
    let mut best = [f64::MAX; 2];
    for round in 0..24 {
        let way = round % 2;
        best[way] = best[way].min(seconds(way == 1));
    }
    println!(
        "without {:.3} ms a token, with 45 probes {:.3} ms: {:+.2} %",
        best[0] * 1e3,
        best[1] * 1e3,
        (best[1] / best[0] - 1.0) * 100.0
    );
}
