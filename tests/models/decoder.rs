//! The decoder against transformers and peft, for every family and every switch.

use candle_core::{DType, Tensor};
use models::{
    arch::{
        config::unread,
        decoder::{Decoder, Input},
        sites::Site,
    },
    checkpoint::folder::ModelFolder,
    ops::cross_entropy::IGNORE,
    optim::{DecayScope, Optimizer, adamw::AdamW},
    tape::{Gradients, Tape},
};

use crate::golden::{Golden, cases, is_adapter, largest_difference};

/// Runs `test` on every case; what is printed last is the one that failed.
fn each(wanted: impl Fn(&str) -> bool, test: impl Fn(&Golden, &Decoder)) {
    for golden in cases(wanted) {
        println!("{}", golden.name);
        test(&golden, &golden.decoder());
    }
}

/// Measures how far off every case is that `measure` applies to.
#[track_caller]
fn check(
    wanted: impl Fn(&str) -> bool,
    allowed: f64,
    measure: impl Fn(&Golden, &Decoder) -> Option<f64>,
) {
    let measured: Vec<(String, f64)> = cases(wanted)
        .into_iter()
        .filter_map(|it| Some((it.name.clone(), measure(&it, &it.decoder())?)))
        .collect();
    assert!(!measured.is_empty(), "no case was measured");
    let is_off = |off: f64| off.is_nan() || off > allowed;
    let off: Vec<_> = measured.iter().filter(|it| is_off(it.1)).collect();
    assert!(off.is_empty(), "more than {allowed:e} off: {off:?}");
}

fn all(_: &str) -> bool {
    true
}

fn is_whole(name: &str) -> bool {
    !is_adapter(name)
}

#[test]
fn every_field_that_transformers_writes_is_read_or_known_to_change_nothing() {
    for golden in cases(all) {
        let config = ModelFolder::open(&golden.folder).unwrap().config;
        for (name, value) in config.as_object().unwrap() {
            assert_eq!(unread(name, value), None, "{}: {name}", golden.name);
        }
    }
}

#[test]
fn logits_match_the_reference_within_1e_4() {
    check(all, 1e-4, |golden, decoder| {
        let (tokens, rows) = golden.tokens("tokens");
        let logits = logits(decoder, Input::new(&tokens, rows));
        // A padding token's logits mean nothing.
        let only_real = |logits: &Tensor| match golden.tensors.get("attention_mask") {
            Some(real) => {
                let real = real.to_dtype(DType::F32).unwrap().unsqueeze(2).unwrap();
                logits.broadcast_mul(&real).unwrap()
            }
            None => logits.clone(),
        };
        let expected = only_real(&golden.tensors["logits"]);
        Some(largest_difference(&only_real(&logits), &expected))
    });
}

#[test]
fn a_config_counts_the_parameters_that_its_decoder_has() {
    each(is_whole, |_, decoder| {
        let parameters = decoder.parameters().iter();
        let values: usize = parameters.map(|it| it.tensor().elem_count()).sum();
        assert_eq!(decoder.config().parameters(), values as u64);
    });
}

#[test]
fn gradient_norms_of_every_parameter_match_within_1e_3() {
    check(all, 1e-3, |golden, decoder| {
        let gradients = gradients(decoder, golden, false);
        let expected = golden.numbers["gradient_norms"].as_object().unwrap();
        let trainable = decoder.parameters().trainable().count();
        assert_eq!(expected.len(), trainable, "{}: parameters", golden.name);
        let off = expected.iter().map(|(name, expected)| {
            let gradient = gradients.get(name.trim_start_matches("base_model.model."));
            let expected = expected.as_f64().unwrap();
            (norm(gradient.unwrap()) - expected).abs() / expected
        });
        off.max_by(f64::total_cmp)
    });
}

#[test]
fn checkpointing_changes_no_digit_of_any_gradient() {
    each(all, |golden, decoder| {
        let [kept, computed_twice] = [false, true].map(|it| gradients(decoder, golden, it));
        for (name, gradient) in kept.iter() {
            let again = computed_twice.get(name).unwrap();
            assert_eq!(largest_difference(gradient, again), 0.0, "{name}");
        }
    });
}

#[test]
fn every_trainable_parameter_gets_a_gradient_and_no_frozen_one_does() {
    each(all, |golden, decoder| {
        let gradients = gradients(decoder, golden, false);
        for parameter in decoder.parameters().iter() {
            let norm = gradients.get(parameter.name()).map(norm);
            let learns = norm.map(|norm| norm > 0.0);
            assert_eq!(learns, parameter.trainable().then_some(true));
        }
    });
}

#[test]
fn hidden_states_of_every_site_match_the_reference_within_1e_5() {
    check(all, 1e-5, |golden, decoder| {
        let expected = golden.hidden_states()?;
        // In another order than they are reached in, and one of them twice.
        let mut sites = vec![Site::Final, Site::Embed, Site::Block(0)];
        sites.extend((0..decoder.config().layers.len()).map(Site::Block));
        let states = hidden_at(decoder, golden, &sites).unwrap();
        assert_eq!(states.len(), sites.len());
        let pairs = states.iter().zip(&sites);
        let off = pairs.map(|(it, site)| largest_difference(it, &expected[&site.to_string()]));
        off.max_by(f64::total_cmp)
    });
}

#[test]
fn a_site_is_the_same_whichever_others_are_asked_for() {
    each(is_whole, |golden, decoder| {
        let last = Site::Block(decoder.config().layers.len() - 1);
        let all = [Site::Embed, Site::Block(0), last, Site::Final];
        let together = hidden_at(decoder, golden, &all).unwrap();
        for (site, state) in all.iter().zip(&together) {
            let alone = hidden_at(decoder, golden, &[*site]).unwrap();
            assert_eq!(largest_difference(&alone[0], state), 0.0, "{site}");
        }
        let (tokens, rows) = golden.tokens("tokens");
        let hidden = decoder.hidden(None, Input::new(&tokens, rows), None, false);
        let hidden = hidden.unwrap();
        assert_eq!(largest_difference(hidden.tensor(), &together[3]), 0.0);
    });
}

#[test]
fn a_site_that_the_decoder_does_not_have_is_named() {
    let golden = cases(|name| name == "llama-plain-v5").remove(0);
    let asked = hidden_at(&golden.decoder(), &golden, &[Site::Embed, Site::Block(2)]);
    assert_eq!(
        asked.unwrap_err().to_string(),
        "there is no site `block.2` in a model of 2 blocks"
    );
}

#[test]
fn in_every_family_the_matrices_of_layers_decay_and_nothing_else() {
    each(all, |_, decoder| {
        for parameter in decoder.parameters().iter() {
            let name = parameter.name();
            let parts = ["_proj.weight", "lora_A.weight", "lora_B.weight"];
            let expected = name == "lm_head.weight" || parts.iter().any(|it| name.ends_with(it));
            assert_eq!(DecayScope::Matrices.contains(parameter), expected, "{name}");
        }
    });
}

#[test]
fn documents_packed_in_one_row_are_as_each_alone() {
    check(is_whole, 1e-4, |golden, decoder| {
        let expected = golden.tensors.get("packed.logits")?;
        let (tokens, rows) = golden.tokens("packed.tokens");
        let (positions, _) = golden.tokens("packed.position_ids");
        let (documents, _) = golden.tokens("packed.documents");
        let input = Input {
            positions: Some(&positions),
            documents: Some(&documents),
            ..Input::new(&tokens, rows)
        };
        Some(largest_difference(&logits(decoder, input), expected))
    });
}

#[test]
fn decoding_with_a_cache_equals_the_full_pass() {
    // A text that grows beyond the original context of longrope turns by other angles from its first token on, so what was
    // read before is read again: `greedy_decoding_writes_the_same_tokens` has a text that crosses, and here are none.
    check(all, 2e-5, |golden, decoder| {
        let (tokens, rows) = golden.tokens("tokens");
        let tokens = &tokens[..tokens.len() / rows];
        if decoder.is_long(tokens.len()) {
            return None;
        }
        let full = logits(decoder, Input::new(tokens, 1)).squeeze(0).unwrap();
        let mut cache = decoder.new_cache();
        // A prompt, then a piece, then token by token.
        let (prompt, rest) = tokens.split_at(5);
        let (piece, singles) = rest.split_at(3);
        let parts = [prompt, piece].into_iter().chain(singles.chunks(1));
        let parts = parts.map(|part| {
            let hidden = decoder.hidden(None, Input::new(part, 1), Some(&mut cache), false);
            let hidden = hidden.unwrap().tensor().squeeze(0).unwrap();
            decoder.logits(&hidden).unwrap()
        });
        let parts: Vec<Tensor> = parts.collect();
        Some(largest_difference(&Tensor::cat(&parts, 0).unwrap(), &full))
    });
}

#[test]
fn a_text_that_becomes_long_is_read_again_or_refused() {
    let golden = cases(|name| name == "phi3-longrope-crossing-v5").remove(0);
    let decoder = golden.decoder();
    let (tokens, rows) = golden.tokens("tokens");
    let tokens = &tokens[..tokens.len() / rows];
    let full = logits(&decoder, Input::new(tokens, 1));
    let full = full.squeeze(0).unwrap().get(tokens.len() - 1).unwrap();
    let mut cache = decoder.new_cache();
    let (short, rest) = tokens.split_at(16);
    decoder.next_logits(short, &mut cache).unwrap();
    assert!(!decoder.is_long(cache.tokens()) && decoder.is_long(tokens.len()));
    let refused = decoder.hidden(None, Input::new(rest, 1), Some(&mut cache), false);
    let words = "4 tokens after 16 make the text so long that all of it turns by other angles; read it from its start";
    assert_eq!(refused.err().unwrap().to_string(), words);
    let again = decoder.next_logits(rest, &mut cache).unwrap();
    assert!(largest_difference(&again, &full) < 2e-5);
    assert_eq!(cache.read(), tokens);
}

#[test]
fn greedy_decoding_writes_the_same_tokens() {
    each(all, |golden, decoder| {
        let list = |name: &str| -> Vec<u32> {
            let list = golden.list(&format!("/greedy/{name}"));
            list.into_iter().map(|it| it as u32).collect()
        };
        let (mut next, expected) = (list("prompt"), list("tokens"));
        let mut cache = decoder.new_cache();
        let mut written: Vec<u32> = Vec::new();
        while written.len() < expected.len() {
            let logits = decoder.next_logits(&next, &mut cache).unwrap();
            next = vec![logits.argmax(0).unwrap().to_scalar().unwrap()];
            written.extend(&next);
        }
        assert_eq!(written, expected);
    });
}

#[test]
fn ten_adamw_losses_match_within_1e_3() {
    check(all, 1e-3, |golden, decoder| {
        let setting = |name: &str| golden.number(&format!("/adamw/{name}"));
        let adamw = AdamW {
            beta1: setting("beta1"),
            beta2: setting("beta2"),
            epsilon: setting("eps"),
            weight_decay: setting("weight_decay"),
        };
        let parameters = decoder.parameters();
        let mut optimizer = Optimizer::new(adamw.into(), DecayScope::All, parameters).unwrap();
        let expected = golden.list("/adamw/losses");
        assert_eq!(expected.len(), 10, "{}", golden.name);
        let off = expected.into_iter().map(|expected| {
            let (loss, gradients) = loss_and_gradients(decoder, golden, false);
            let stepped = optimizer.step(parameters, &gradients, setting("lr"), 1.0);
            stepped.unwrap();
            (loss - expected).abs() / expected
        });
        off.max_by(f64::total_cmp)
    });
}

/// The hidden states of the golden's tokens at these sites.
fn hidden_at(decoder: &Decoder, golden: &Golden, sites: &[Site]) -> models::Result<Vec<Tensor>> {
    let (tokens, rows) = golden.tokens("tokens");
    decoder.hidden_at(Input::new(&tokens, rows), sites)
}

/// Logits [b, t, v].
pub(crate) fn logits(decoder: &Decoder, input: Input) -> Tensor {
    let hidden = decoder.hidden(None, input, None, false).unwrap();
    let logits = decoder.logits(&hidden.tensor().flatten_to(1).unwrap());
    let shape = (input.rows, (), decoder.config().vocab_size);
    logits.unwrap().reshape(shape).unwrap()
}

/// Gradients of the golden's loss; the loss itself is checked on the way.
fn gradients(decoder: &Decoder, golden: &Golden, gradient_checkpointing: bool) -> Gradients {
    let (loss, gradients) = loss_and_gradients(decoder, golden, gradient_checkpointing);
    let expected = golden.number("/loss");
    let off = (loss - expected).abs() / expected;
    assert!(off < 1e-4, "{}: {loss}, not {expected}", golden.name);
    gradients
}

fn loss_and_gradients(
    decoder: &Decoder,
    golden: &Golden,
    gradient_checkpointing: bool,
) -> (f64, Gradients) {
    let (tokens, rows) = golden.tokens("tokens");
    let (targets, _) = golden.tokens("targets");
    let count = targets.iter().filter(|target| **target != IGNORE).count() as f64;
    assert_eq!(count, golden.number("/target_count"), "{}", golden.name);
    let tape = Tape::new(0);
    let input = Input::new(&tokens, rows);
    let hidden = decoder.hidden(Some(&tape), input, None, gradient_checkpointing);
    let loss = decoder.loss(Some(&tape), &hidden.unwrap(), &targets, count);
    let loss = loss.unwrap();
    let value = f64::from(loss.tensor().to_scalar::<f32>().unwrap());
    let mut gradients = Gradients::default();
    tape.backward(&loss, 1.0, &mut gradients).unwrap();
    (value, gradients)
}

fn norm(tensor: &Tensor) -> f64 {
    let squares = tensor.to_dtype(DType::F64).unwrap().sqr().unwrap();
    let sum = squares.sum_all().unwrap().to_scalar::<f64>().unwrap();
    sum.sqrt()
}
