//! Tiny Recursive Models that read from left to right: compared with PyTorch (`tests/goldens/trm.py`), with themselves over changed
//! and cut texts, and learned, killed, resumed and talked to as other language models are.

use candle_core::{D, DType, Device, Tensor};
use models::{
    arch::{
        decoder::Input,
        network::NetworkConfig,
        trm::{CausalTrm, CausalTrmConfig},
    },
    ops::cross_entropy::IGNORE,
    parameters::Parameters,
    tape::{Gradients, Tape},
};
use serde_json::{Value as Json, json};

use crate::trm::{Formula, close, flat, golden, number, sampled};

const ROWS: usize = 4;
const TOKENS: usize = 16;

fn config(changes: Json) -> models::Result<CausalTrmConfig> {
    let mut config = json!({
        "model_type": "trm", "causal": true, "vocab_size": 11, "hidden_size": 32, "num_heads": 2, "L_layers": 2,
        "H_cycles": 2, "L_cycles": 2, "max_position_embeddings": TOKENS,
    });
    for (name, value) in changes.as_object().unwrap() {
        config[name] = value.clone();
    }
    CausalTrmConfig::from_json(&config)
}

fn model(changes: Json) -> CausalTrm {
    let config = config(changes).unwrap();
    let mut weights = Formula::of(config.trm());
    CausalTrm::new(config, &mut weights, true, DType::F32, &Device::Cpu).unwrap()
}

/// The first batch of the goldens: tokens and targets.
fn batch() -> (Vec<u32>, Vec<u32>) {
    let each = || (0..ROWS).flat_map(|b| (0..TOKENS).map(move |s| (b, s)));
    let tokens = each().map(|(b, s)| 1 + ((7 * b + 3 * s + 1) % 10) as u32);
    let target = |(b, s): (usize, usize)| match b == 2 && s.is_multiple_of(5) {
        true => IGNORE,
        false => 1 + ((5 * b + 2 * s + 3) % 10) as u32,
    };
    (tokens.collect(), each().map(target).collect())
}

/// The logits [b · t, v] of the last step.
fn logits(model: &CausalTrm, input: Input) -> Tensor {
    let answers = model.hidden(None, input, None, false).unwrap();
    let last = answers.last().unwrap().tensor();
    let width = last.dim(D::Minus1).unwrap();
    model.logits(&last.reshape(((), width)).unwrap()).unwrap()
}

/// The loss and its gradients.
fn learn(model: &CausalTrm, again: bool) -> (f64, Gradients) {
    let (tokens, targets) = batch();
    let count = targets.iter().filter(|it| **it != IGNORE).count() as f64;
    let tape = Tape::new(0);
    let input = Input::new(&tokens, ROWS);
    let answers = model.hidden(Some(&tape), input, None, again).unwrap();
    let loss = model.loss(Some(&tape), &answers, &targets, count).unwrap();
    let mut gradients = Gradients::default();
    tape.backward(&loss, 1.0, &mut gradients).unwrap();
    (number(loss.tensor()), gradients)
}

#[test]
fn loss_logits_and_gradients_are_those_of_pytorch() {
    for (name, changes) in [
        ("causal", json!({})),
        ("causal_narrow_heads", json!({"num_heads": 3})),
        ("causal_two_steps", json!({"halt_max_steps": 2})),
        ("causal_learned_places", json!({"pos_encodings": "learned"})),
    ] {
        let (model, golden) = (model(changes), &golden()[name]);
        let (loss, gradients) = learn(&model, false);
        close(name, loss, golden["loss"].as_f64().unwrap(), 1e-5);
        let tokens = batch().0;
        let found = logits(&model, Input::new(&tokens, ROWS));
        sampled(name, &found, &golden["logits"], 1e-5);
        let expected = golden["gradients"].as_object().unwrap();
        assert_eq!(gradients.iter().count(), expected.len(), "{name}");
        for (weight, expected) in expected {
            let gradient = gradients.get(weight).unwrap();
            sampled(&format!("{name} {weight}"), gradient, expected, 1e-4);
        }
    }
}

#[test]
fn a_later_token_changes_no_earlier_logit() {
    for changes in [
        json!({}),
        json!({"halt_max_steps": 3}),
        json!({"pos_encodings": "none"}),
    ] {
        let model = model(changes);
        let tokens: Vec<u32> = batch().0[..TOKENS].to_vec();
        let before = flat(&logits(&model, Input::new(&tokens, 1)));
        for at in 0..TOKENS {
            let mut other = tokens.clone();
            other[at] = (other[at] + 3) % 11;
            let after = flat(&logits(&model, Input::new(&other, 1)));
            let same = at * model.config().vocab_size();
            assert_eq!(before[..same], after[..same], "token {at}");
            assert_ne!(before[same..], after[same..], "token {at}");
        }
    }
}

#[test]
fn writing_with_the_cache_is_reading_all_of_it_again() {
    for changes in [
        json!({}),
        json!({"halt_max_steps": 3, "H_cycles": 1}),
        json!({"pos_encodings": "learned", "num_heads": 3}),
    ] {
        let model = model(changes);
        let tokens: Vec<u32> = batch().0[..TOKENS].to_vec();
        let whole = logits(&model, Input::new(&tokens, 1));
        let mut cache = model.new_cache();
        let mut read = 0;
        // A prompt in two parts, then a token at a time.
        for length in [5, 3].into_iter().chain([1; TOKENS - 8]) {
            let part = &tokens[read..read + length];
            let found = flat(&model.next_logits(part, &mut cache).unwrap());
            read += length;
            let expected = flat(&whole.get(read - 1).unwrap());
            for (found, expected) in found.iter().zip(&expected) {
                assert!(
                    (found - expected).abs() < 1e-5,
                    "token {read}: {found}, and should be {expected}"
                );
            }
        }
        assert_eq!(cache.read(), tokens);
        // What was read before another end is kept.
        cache.truncate(6);
        let again = flat(&model.next_logits(&tokens[6..7], &mut cache).unwrap());
        let expected = flat(&whole.get(6).unwrap());
        let far = again.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        assert!(far.fold(0.0, f64::max) < 1e-5);
    }
}

#[test]
fn conversations_in_one_row_do_not_see_each_other() {
    let model = model(json!({}));
    let tokens: Vec<u32> = batch().0[..TOKENS].to_vec();
    let documents: Vec<u32> = (0..TOKENS).map(|at| u32::from(at >= 7)).collect();
    let positions: Vec<u32> = (0..7).chain(0..TOKENS as u32 - 7).collect();
    let packed = Input {
        positions: Some(&positions),
        documents: Some(&documents),
        ..Input::new(&tokens, 1)
    };
    let packed = flat(&logits(&model, packed));
    let apart = [&tokens[..7], &tokens[7..]].map(|it| flat(&logits(&model, Input::new(it, 1))));
    for (found, expected) in packed.iter().zip(&apart.concat()) {
        assert!((found - expected).abs() < 1e-5);
    }
}

#[test]
fn what_is_computed_again_gives_the_same_gradients() {
    for changes in [json!({}), json!({"halt_max_steps": 2})] {
        let model = model(changes);
        let (kept, again) = (learn(&model, false), learn(&model, true));
        assert_eq!(kept.0, again.0);
        for (name, gradient) in kept.1.iter() {
            let other = flat(again.1.get(name).unwrap());
            let largest = other.iter().fold(0.0, |most: f64, it| most.max(it.abs()));
            for (found, other) in flat(gradient).iter().zip(&other) {
                assert!((found - other).abs() <= 1e-5 * largest, "{name}");
            }
        }
    }
}

#[test]
fn a_shape_that_no_recursive_language_model_has_is_refused_by_its_field() {
    for (changes, expected) in [
        (
            json!({"mlp_t": true}),
            "`mlp_t` is true: a product along the sequence sees later tokens",
        ),
        (
            json!({"causal": false}),
            "`causal` is false: a model that writes must not see",
        ),
        (
            json!({"num_hidden_layers": 2}),
            "`num_hidden_layers` is no field of a recursive model; it has",
        ),
        (
            json!({"num_heads": 32}),
            "`num_heads` is 32, which makes heads of 1 of 32 numbers",
        ),
        (json!({"num_heads": 0}), "`num_heads` is 0"),
        (
            json!({"hidden_size": "wide"}),
            "`hidden_size` is \"wide\", and has to be a whole number",
        ),
        (
            json!({"H_cycles": 60, "L_cycles": 1, "halt_max_steps": 100}),
            "`H_cycles` with the steps and layers makes 24000 layers",
        ),
        (
            json!({"H_cycles": 1000, "L_cycles": 1000}),
            "`H_cycles` is 1000: with 1000 low cycles and 2 layers it makes 2002000 layers of a step of thinking",
        ),
        (
            json!({"pos_encodings": "alibi"}),
            "`pos_encodings` is \"alibi\"",
        ),
        (json!({"L_layers": null}), "`L_layers` is null"),
    ] {
        let error = config(changes).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_config_counts_the_numbers_that_its_model_has() {
    for changes in [
        json!({}),
        json!({"num_heads": 3, "pos_encodings": "learned"}),
    ] {
        let model = model(changes);
        let config = model.config();
        let frozen = |it: &Parameters| it.count() - it.trainable_count();
        assert_eq!(config.parameters(), model.parameters().count() as u64);
        assert_eq!(
            config.frozen_parameters(),
            frozen(model.parameters()) as u64
        );
        assert_eq!(NetworkConfig::Recursive(config.clone()).context(), TOKENS);
    }
    assert_eq!(
        config(json!({"num_heads": 3})).unwrap().narrowed_heads(),
        Some(30)
    );
    assert_eq!(config(json!({})).unwrap().narrowed_heads(), None);
}
