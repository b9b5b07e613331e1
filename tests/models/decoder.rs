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

/// Runs `measure` on every case that it applies to; it returns how far off the case is, relative to what is allowed.
#[track_caller]
fn check(wanted: impl Fn(&str) -> bool, measure: impl Fn(&Golden) -> Option<(f64, String)>) {
    let mut failures = Vec::new();
    let mut measured = 0;
    for golden in cases(wanted) {
        let Some((excess, what)) = measure(&golden) else {
            continue;
        };
        measured += 1;
        if excess.is_nan() || excess > 1.0 {
            failures.push(format!(
                "{}: {what}: {excess:.2} times what is allowed",
                golden.name
            ));
        }
    }
    assert!(measured > 0, "no case was measured");
    assert!(
        failures.is_empty(),
        "{} of {measured} cases are off:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn every_field_that_transformers_writes_is_read_or_known_to_change_nothing() {
    check(
        |_| true,
        |golden| {
            let config = ModelFolder::open(&golden.folder).unwrap().config;
            let fields = config.as_object()?.iter();
            let unread = fields.filter_map(|(name, value)| Some((name, unread(name, value)?)));
            let unread: Vec<_> = unread.collect();
            Some((unread.len() as f64 * 2.0, format!("{unread:?}")))
        },
    );
}

#[test]
fn logits_match_the_reference_within_1e_4() {
    check(
        |_| true,
        |golden| {
            let decoder = golden.decoder();
            let logits = logits(&decoder, golden, "tokens", None, None);
            // A padding token's logits mean nothing.
            let real = golden.tensors.get("attention_mask").map(|mask| {
                let mask = mask.to_dtype(DType::F32).unwrap();
                mask.unsqueeze(2).unwrap()
            });
            let only_real = |logits: &Tensor| match &real {
                Some(real) => logits.broadcast_mul(real).unwrap(),
                None => logits.clone(),
            };
            let expected = only_real(&golden.tensors["logits"]);
            let difference = largest_difference(&only_real(&logits), &expected);
            Some((
                difference / 1e-4,
                format!("logits differ by {difference:.1e}"),
            ))
        },
    );
}

#[test]
fn a_config_counts_the_parameters_that_its_decoder_has() {
    check(
        |name| !is_adapter(name),
        |golden| {
            let decoder = golden.decoder();
            let parameters = decoder.parameters().iter();
            let values: usize = parameters.map(|it| it.tensor().elem_count()).sum();
            assert_eq!(
                decoder.config().parameters(),
                values as u64,
                "{}",
                golden.name
            );
            Some((0.0, String::new()))
        },
    );
}

#[test]
fn gradient_norms_of_every_parameter_match_within_1e_3() {
    check(
        |_| true,
        |golden| {
            let decoder = golden.decoder();
            let gradients = gradients(&decoder, golden, false);
            let expected = golden.numbers["gradient_norms"].as_object().unwrap();
            assert_eq!(
                expected.len(),
                decoder.parameters().trainable().count(),
                "{}: parameters",
                golden.name
            );
            let worst = expected.iter().map(|(name, norm)| {
                let gradient = gradients.get(name.trim_start_matches("base_model.model."));
                let gradient =
                    gradient.unwrap_or_else(|| panic!("{}: no gradient of {name}", golden.name));
                let norm = norm.as_f64().unwrap();
                ((self::norm(gradient) - norm).abs() / norm, name.clone())
            });
            let (relative, name) = worst.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            Some((relative / 1e-3, format!("{name} differs by {relative:.1e}")))
        },
    );
}

#[test]
fn checkpointing_changes_no_digit_of_any_gradient() {
    check(
        |_| true,
        |golden| {
            let decoder = golden.decoder();
            let (kept, computed_twice) = (
                gradients(&decoder, golden, false),
                gradients(&decoder, golden, true),
            );
            for (name, gradient) in kept.iter() {
                let again = computed_twice.get(name).unwrap();
                assert_eq!(
                    largest_difference(gradient, again),
                    0.0,
                    "{}: {name}",
                    golden.name
                );
            }
            Some((0.0, String::new()))
        },
    );
}

#[test]
fn every_trainable_parameter_gets_a_gradient_and_no_frozen_one_does() {
    check(
        |_| true,
        |golden| {
            let decoder = golden.decoder();
            let gradients = gradients(&decoder, golden, false);
            for parameter in decoder.parameters().iter() {
                let norm = gradients.get(parameter.name()).map(norm);
                match parameter.trainable() {
                    true => assert!(
                        norm.is_some_and(|it| it > 0.0),
                        "{}: {}",
                        golden.name,
                        parameter.name()
                    ),
                    false => assert!(norm.is_none(), "{}: {}", golden.name, parameter.name()),
                }
            }
            Some((0.0, String::new()))
        },
    );
}

#[test]
fn hidden_states_of_every_site_match_the_reference_within_1e_5() {
    check(
        |_| true,
        |golden| {
            let expected = golden.hidden_states()?;
            let decoder = golden.decoder();
            let last = decoder.config().layers.len() - 1;
            // In another order than they are reached in, and one of them twice.
            let blocks = (0..=last).map(Site::Block);
            let sites: Vec<Site> = [Site::Final, Site::Embed, Site::Block(0)]
                .into_iter()
                .chain(blocks)
                .collect();
            let states = hidden_at(&decoder, golden, &sites).unwrap();
            assert_eq!(states.len(), sites.len());
            let differences = states.iter().zip(&sites).map(|(state, site)| {
                let difference = largest_difference(state, &expected[&site.to_string()]);
                (
                    difference / 1e-5,
                    format!("{site} differs by {difference:.1e}"),
                )
            });
            differences.max_by(|a, b| a.0.total_cmp(&b.0))
        },
    );
}

#[test]
fn a_site_is_the_same_whichever_others_are_asked_for() {
    check(
        |name| !is_adapter(name),
        |golden| {
            let decoder = golden.decoder();
            let last = Site::Block(decoder.config().layers.len() - 1);
            let all = [Site::Embed, Site::Block(0), last, Site::Final];
            let together = hidden_at(&decoder, golden, &all).unwrap();
            for (site, state) in all.iter().zip(&together) {
                let alone = hidden_at(&decoder, golden, &[*site]).unwrap();
                assert_eq!(largest_difference(&alone[0], state), 0.0, "{site}");
            }
            let (tokens, rows) = golden.tokens("tokens");
            let hidden = decoder
                .hidden(None, input(&tokens, rows), None, false)
                .unwrap();
            assert_eq!(largest_difference(hidden.tensor(), &together[3]), 0.0);
            Some((0.0, String::new()))
        },
    );
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
    const DECAYING: [&str; 12] = [
        "lm_head.weight",
        "q_proj.weight",
        "k_proj.weight",
        "v_proj.weight",
        "qkv_proj.weight",
        "o_proj.weight",
        "gate_proj.weight",
        "up_proj.weight",
        "gate_up_proj.weight",
        "down_proj.weight",
        "lora_A.weight",
        "lora_B.weight",
    ];
    check(
        |_| true,
        |golden| {
            let decoder = golden.decoder();
            for parameter in decoder.parameters().iter() {
                let expected = DECAYING.iter().any(|end| parameter.name().ends_with(end));
                let decays = DecayScope::Matrices.contains(parameter);
                assert_eq!(decays, expected, "{}: {}", golden.name, parameter.name());
            }
            Some((0.0, String::new()))
        },
    );
}

#[test]
fn documents_packed_in_one_row_are_as_each_alone() {
    check(
        |name| !is_adapter(name),
        |golden| {
            let expected = golden.tensors.get("packed.logits")?;
            let decoder = golden.decoder();
            let (positions, _) = golden.tokens("packed.position_ids");
            let (documents, _) = golden.tokens("packed.documents");
            let logits = logits(
                &decoder,
                golden,
                "packed.tokens",
                Some(&positions),
                Some(&documents),
            );
            let difference = largest_difference(&logits, expected);
            Some((
                difference / 1e-4,
                format!("logits differ by {difference:.1e}"),
            ))
        },
    );
}

#[test]
fn decoding_with_a_cache_equals_the_full_pass() {
    check(
        // A text that grows beyond the original context of longrope turns by other angles from there on, while the keys
        // in the cache keep theirs; so it is in transformers too.
        |name| !name.starts_with("phi3-longrope-long"),
        |golden| {
            let decoder = golden.decoder();
            let (tokens, rows) = golden.tokens("tokens");
            let tokens = &tokens[..tokens.len() / rows];
            let full = logits_of(
                &decoder,
                Input {
                    tokens,
                    rows: 1,
                    positions: None,
                    documents: None,
                },
            );
            let mut cache = decoder.new_cache();
            let mut parts = Vec::new();
            // A prompt, then a piece, then token by token.
            let (prompt, rest) = tokens.split_at(5);
            let (piece, singles) = rest.split_at(3);
            for part in [prompt, piece].into_iter().chain(singles.chunks(1)) {
                let input = Input {
                    tokens: part,
                    rows: 1,
                    positions: None,
                    documents: None,
                };
                let hidden = decoder
                    .hidden(None, input, Some(&mut cache), false)
                    .unwrap();
                parts.push(
                    decoder
                        .logits(&hidden.tensor().squeeze(0).unwrap())
                        .unwrap(),
                );
            }
            let difference = largest_difference(&Tensor::cat(&parts, 0).unwrap(), &full);
            Some((
                difference / 2e-5,
                format!("logits differ by {difference:.1e}"),
            ))
        },
    );
}

#[test]
fn greedy_decoding_writes_the_same_tokens() {
    check(
        |_| true,
        |golden| {
            let decoder = golden.decoder();
            let list = |pointer: &str| {
                golden
                    .list(pointer)
                    .into_iter()
                    .map(|it| it as u32)
                    .collect::<Vec<_>>()
            };
            let (prompt, expected) = (list("/greedy/prompt"), list("/greedy/tokens"));
            let mut cache = decoder.new_cache();
            let mut written: Vec<u32> = Vec::new();
            let mut next = prompt;
            while written.len() < expected.len() {
                let input = Input {
                    tokens: &next,
                    rows: 1,
                    positions: None,
                    documents: None,
                };
                let hidden = decoder
                    .hidden(None, input, Some(&mut cache), false)
                    .unwrap();
                let last = hidden
                    .tensor()
                    .narrow(1, next.len() - 1, 1)
                    .unwrap()
                    .squeeze(0)
                    .unwrap();
                let logits = decoder.logits(&last.contiguous().unwrap()).unwrap();
                next = logits.argmax(1).unwrap().to_vec1::<u32>().unwrap();
                written.extend(&next);
            }
            assert_eq!(written, expected, "{}", golden.name);
            Some((0.0, String::new()))
        },
    );
}

#[test]
fn ten_adamw_losses_match_within_1e_3() {
    check(
        |_| true,
        |golden| {
            let decoder = golden.decoder();
            let setting = |name: &str| golden.number(&format!("/adamw/{name}"));
            let adamw = AdamW {
                beta1: setting("beta1"),
                beta2: setting("beta2"),
                epsilon: setting("eps"),
                weight_decay: setting("weight_decay"),
            };
            let mut optimizer =
                Optimizer::new(adamw.into(), DecayScope::All, decoder.parameters()).unwrap();
            let expected = golden.list("/adamw/losses");
            assert_eq!(expected.len(), 10, "{}", golden.name);
            let mut worst = 0f64;
            for expected in expected {
                let (loss, gradients) = loss_and_gradients(&decoder, golden, false);
                worst = worst.max((loss - expected).abs() / expected);
                optimizer
                    .step(decoder.parameters(), &gradients, setting("lr"), 1.0)
                    .unwrap();
            }
            Some((worst / 1e-3, format!("losses differ by {worst:.1e}")))
        },
    );
}

/// The hidden states of the golden's tokens at these sites.
fn hidden_at(decoder: &Decoder, golden: &Golden, sites: &[Site]) -> models::Result<Vec<Tensor>> {
    let (tokens, rows) = golden.tokens("tokens");
    decoder.hidden_at(input(&tokens, rows), sites)
}

fn input(tokens: &[u32], rows: usize) -> Input<'_> {
    Input {
        tokens,
        rows,
        positions: None,
        documents: None,
    }
}

/// Logits [b, t, v] of the golden's tokens of this name.
fn logits(
    decoder: &Decoder,
    golden: &Golden,
    tokens: &str,
    positions: Option<&[u32]>,
    documents: Option<&[u32]>,
) -> Tensor {
    let (tokens, rows) = golden.tokens(tokens);
    let flat = logits_of(
        decoder,
        Input {
            tokens: &tokens,
            rows,
            positions,
            documents,
        },
    );
    flat.reshape((rows, (), decoder.config().vocab_size))
        .unwrap()
}

/// Logits [b · t, v].
fn logits_of(decoder: &Decoder, input: Input) -> Tensor {
    let hidden = decoder.hidden(None, input, None, false).unwrap();
    decoder
        .logits(&hidden.tensor().flatten_to(1).unwrap())
        .unwrap()
}

/// Gradients of the golden's loss; the loss itself is checked on the way.
fn gradients(decoder: &Decoder, golden: &Golden, gradient_checkpointing: bool) -> Gradients {
    let (loss, gradients) = loss_and_gradients(decoder, golden, gradient_checkpointing);
    let expected = golden.number("/loss");
    assert!(
        (loss - expected).abs() < 1e-4 * expected,
        "{}: loss {loss}, not {expected}",
        golden.name
    );
    gradients
}

fn loss_and_gradients(
    decoder: &Decoder,
    golden: &Golden,
    gradient_checkpointing: bool,
) -> (f64, Gradients) {
    let (tokens, rows) = golden.tokens("tokens");
    let (targets, _) = golden.tokens("targets");
    let count = targets.iter().filter(|target| **target != IGNORE).count();
    assert_eq!(
        count as f64,
        golden.number("/target_count"),
        "{}: targets",
        golden.name
    );
    let tape = Tape::new(0);
    let input = Input {
        tokens: &tokens,
        rows,
        positions: None,
        documents: None,
    };
    let hidden = decoder
        .hidden(Some(&tape), input, None, gradient_checkpointing)
        .unwrap();
    let loss = decoder
        .loss(Some(&tape), &hidden, &targets, count as f64)
        .unwrap();
    let value = f64::from(loss.tensor().to_scalar::<f32>().unwrap());
    let mut gradients = Gradients::default();
    tape.backward(&loss, 1.0, &mut gradients).unwrap();
    (value, gradients)
}

fn norm(tensor: &Tensor) -> f64 {
    let squares = tensor.to_dtype(DType::F64).unwrap().sqr().unwrap();
    squares
        .sum_all()
        .unwrap()
        .to_scalar::<f64>()
        .unwrap()
        .sqrt()
}
