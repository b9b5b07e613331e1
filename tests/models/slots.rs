//! Texts that are written at once, beside each other and as each alone.

use std::{collections::BTreeMap, ops::ControlFlow};

use candle_core::{DType, Device};
use models::{
    arch::{
        config::DecoderConfig,
        decoder::Decoder,
        initial::InitialWeights,
        kv_cache::{KvCache, KvCaches},
    },
    checkpoint::load::LoadDtypes,
    generate::{
        Answer, Ended, Generator, Limits, Wanted,
        sample::SamplingSettings,
        slots::{Heard, Slots},
    },
    ops::kept::CacheType,
    tasks::language::model::LanguageModel,
};
use serde_json::json;

use crate::{
    golden::cases,
    language::{base_model, chat_file},
};

/// Every text has the same scores when one more token of each is read at once as when it is read alone.
#[track_caller]
fn check_beside(what: &str, decoder: &Decoder, texts: &[&[u32]]) {
    let caches = || {
        let mut caches: Vec<KvCache> = texts.iter().map(|_| decoder.new_cache()).collect();
        for (cache, text) in caches.iter_mut().zip(texts) {
            decoder.next_logits(&text[..text.len() - 2], cache).unwrap();
        }
        caches
    };
    let (mut alone, mut beside) = (caches(), KvCaches::new(caches()));
    for at in [2, 1] {
        // The second one has no token at first, and then its last but one.
        let tokens = texts.iter().enumerate().map(|(text, tokens)| match text {
            1 if at == 2 => None,
            1 => Some(tokens[tokens.len() - 2]),
            _ => Some(tokens[tokens.len() - at]),
        });
        let tokens: Vec<Option<u32>> = tokens.collect();
        let found = decoder.next_logits_each(&tokens, &mut beside).unwrap();
        for ((cache, token), found) in alone.iter_mut().zip(&tokens).zip(found) {
            let expected = token.map(|token| decoder.next_logits(&[token], cache).unwrap());
            let [found, expected] =
                [found, expected].map(|it| it.map(|it| it.to_vec1::<f32>().unwrap()));
            assert!(found == expected, "{what}: other scores");
        }
    }
    for (alone, beside) in alone.iter().zip(beside.iter()) {
        assert_eq!(alone.read(), beside.read(), "{what}");
    }
}

#[test]
fn a_token_read_beside_others_has_the_scores_that_it_has_alone() {
    for golden in cases(|_| true) {
        let (tokens, rows) = golden.tokens("tokens");
        let row = &tokens[..tokens.len() / rows];
        // One of them may become a long text where the others don’t.
        let texts = [row, &row[..7], &row[1..12], &row[2..5]];
        check_beside(&golden.name, &golden.decoder(), &texts);
    }
    // Wide enough for the products of few rows.
    let config = json!({
        "model_type": "llama", "vocab_size": 300, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    });
    for storage in [DType::F32, DType::BF16] {
        let config = DecoderConfig::from_json(&config).unwrap();
        let mut weights = InitialWeights {
            dtype: storage,
            ..InitialWeights::new(1, &Device::Cpu)
        };
        let decoder = Decoder::new(config, &mut weights, false, DType::F32, &Device::Cpu).unwrap();
        let text: Vec<u32> = (0..40).map(|at| at * 37 % 300).collect();
        let texts = [&text[..], &text[3..9], &text[5..30]];
        check_beside(&format!("{storage:?}"), &decoder, &texts);
    }
}

/// A model that was opened, and needs its folder no more.
fn model() -> LanguageModel {
    let folder = tempfile::tempdir().unwrap();
    let data = chat_file(folder.path());
    let base = base_model(folder.path(), &data);
    LanguageModel::open(&base, LoadDtypes::F32, &Device::Cpu).unwrap()
}

/// What is heard of texts until all are over.
fn write(slots: &mut Slots, model: &LanguageModel, steps: usize) -> BTreeMap<u64, Answer> {
    let mut over = BTreeMap::new();
    for _ in 0..steps {
        let mut hear = |name, heard: Heard| match heard {
            Heard::Written(_) => {}
            Heard::Ended(answer) => assert!(over.insert(name, answer).is_none()),
            Heard::Failed(error) => panic!("{name}: {error}"),
        };
        slots.step(&model.tokenizer, &mut hear).unwrap();
    }
    over
}

fn wanted(model: &LanguageModel, seed: u64, max_tokens: usize) -> Wanted {
    Wanted {
        sampling: SamplingSettings {
            temperature: 1.0,
            top_p: 1.0,
            seed,
            ..SamplingSettings::default()
        },
        limits: Limits {
            stop_tokens: Vec::new(),
            ..model.limits(max_tokens)
        },
        likeliest: Some(2),
        ..Wanted::default()
    }
}

fn without_times(answer: Answer) -> Answer {
    Answer {
        prompt_seconds: 0.0,
        seconds: 0.0,
        ..answer
    }
}

#[test]
fn a_text_is_written_in_a_slot_as_it_is_alone_whatever_others_do() {
    let model = model();
    let asks: Vec<_> = ["1 + 1?", "What is 2 + 3, and why?", "Hello!", "3?"]
        .iter()
        .zip([20, 5, 1, 12])
        .enumerate()
        .map(|(seed, (question, most))| {
            let prompt = model.prompt(question).unwrap();
            (prompt, wanted(&model, seed as u64, most))
        })
        .collect();
    let alone = asks.iter().map(|(prompt, wanted)| {
        let mut generator = Generator::new(model.network.clone());
        let mut show = |_: models::generate::Written| ControlFlow::Continue(());
        let answer = generator.complete(&model.tokenizer, prompt, wanted, &mut show);
        without_times(answer.unwrap())
    });
    let alone: Vec<Answer> = alone.collect();

    let mut slots = Slots::new(model.network.clone(), 4, CacheType::Auto, Vec::new());
    let mut over = BTreeMap::new();
    for (name, (prompt, wanted)) in asks.iter().enumerate() {
        let begun = slots.begin(name as u64, &model.tokenizer, prompt.clone(), wanted);
        begun.unwrap();
        over.extend(write(&mut slots, &model, 2));
    }
    over.extend(write(&mut slots, &model, 40));
    assert!(slots.is_idle());
    let beside: Vec<Answer> = over.into_values().map(without_times).collect();
    assert_eq!(beside, alone);
    assert!(beside.iter().any(|it| it.ended == Ended::MaxTokens));
}

#[test]
fn a_slot_is_free_again_when_its_text_was_left_and_keeps_what_it_read() {
    let model = model();
    let mut slots = Slots::new(model.network.clone(), 2, CacheType::Auto, Vec::new());
    let prompt = |question: &str| model.prompt(question).unwrap();
    let begin = |slots: &mut Slots, name, prompt: &[u32]| {
        slots.begin(
            name,
            &model.tokenizer,
            prompt.to_vec(),
            &wanted(&model, 1, 30),
        )
    };
    let (first, second) = (prompt("1 + 1?"), prompt("A question about something else?"));
    begin(&mut slots, 1, &first).unwrap();
    begin(&mut slots, 2, &second).unwrap();
    let refused = begin(&mut slots, 3, &first).unwrap_err().to_string();
    assert_eq!(
        refused,
        "2 texts are being written already, which is the most"
    );
    assert!(write(&mut slots, &model, 5).is_empty());
    slots.leave(1);
    slots.leave(1);
    let long = [first.clone(), vec![5; 200]].concat();
    let refused = begin(&mut slots, 4, &long).unwrap_err().to_string();
    assert!(
        refused.contains("the model reads from 1 to 127"),
        "{refused}"
    );
    // The other one is still written; who begins alike finds what was read, and another beginning leaves it alone.
    slots.leave(2);
    begin(&mut slots, 5, &second).unwrap();
    begin(&mut slots, 6, &first).unwrap();
    let over = write(&mut slots, &model, 40);
    for (name, prompt) in [(5, &second), (6, &first)] {
        assert_eq!(over[&name].cached_tokens, prompt.len() - 1, "{name}");
        assert_eq!(over[&name].tokens.len(), 30);
    }
}
