//! How many dispatches the work of a Mac takes: launches of our kernels, and what candle is asked for. The figures of
//! docs/PERFORMANCE.md, of models that are narrower than real ones and as deep.

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use super::{decoder_with_adapters, gradients_of, small_decoder, stand_in};
use crate::{
    arch::{
        decoder::Decoder,
        initial::InitialWeights,
        kv_cache::KvCache,
        picture::{Architecture, Mode, NetConfig, Network, Stem},
        trm::{Trm, Truth},
    },
    ops::{
        classify::{Squash, classify},
        testing::normal,
    },
    optim::{DecayScope, Optimizer, adamw::AdamW, clip::gradient_norm},
    parameters::Parameters,
    tape::{Gradients, Tape},
};

/// Launches of our kernels, and what candle is asked for.
fn counts(work: impl FnOnce()) -> [usize; 2] {
    let ((), launches) = stand_in::with(work);
    let notes = stand_in::notes();
    [launches, notes].map(|it| it.values().sum())
}

/// A step of AdamW with the norm of the gradients before.
fn update(parameters: &Parameters, gradients: &Gradients) -> [usize; 2] {
    let (rule, scope) = (AdamW::default().into(), DecayScope::Matrices);
    let mut optimizer = Optimizer::new(rule, scope, parameters).unwrap();
    counts(|| {
        gradient_norm(gradients).unwrap();
        optimizer.step(parameters, gradients, 1e-3, 1.0).unwrap();
    })
}

/// Counts a pass of a decoder forward and back, and the update.
fn step(decoder: &Decoder) -> [[usize; 2]; 2] {
    let mut gradients = Gradients::default();
    let pass = counts(|| gradients = gradients_of(decoder));
    [pass, update(decoder.parameters(), &gradients)]
}

#[test]
fn a_step_with_adapters_takes_as_many_dispatches_as_is_documented() {
    if !stand_in::is_there() {
        return;
    }
    for (dtype, pass) in [(DType::F32, [899, 1_527]), (DType::BF16, [899, 1_857])] {
        let decoder = decoder_with_adapters(30, dtype);
        assert_eq!(step(&decoder), [pass, [53, 0]], "{dtype:?}");
    }
}

#[test]
fn a_step_of_all_weights_takes_as_many_dispatches_as_is_documented() {
    if !stand_in::is_there() {
        return;
    }
    let decoder = small_decoder(30, true, DType::F32);
    assert_eq!(step(&decoder), [[425, 1_145], [36, 0]]);
}

#[test]
fn reading_and_writing_take_as_many_dispatches_as_is_documented() {
    if !stand_in::is_there() {
        return;
    }
    for (dtype, prompt, token) in [
        (DType::F32, [181, 481], [181, 331]),
        (DType::BF16, [181, 481], [181, 331]),
    ] {
        let decoder = small_decoder(30, false, dtype);
        let mut cache = KvCache::new(30, 64);
        let mut read = |tokens: &[u32]| {
            counts(|| {
                decoder.next_logits(tokens, &mut cache).unwrap();
            })
        };
        assert_eq!(read(&[1, 2, 3, 4, 5]), prompt, "{dtype:?}");
        assert_eq!(read(&[6]), token, "{dtype:?}");
    }
}

/// A small one of the published depth.
fn puzzles(along_the_sequence: bool) -> Trm {
    let config = serde_json::from_value(json!({
        "vocab_size": 11, "seq_len": 16, "num_puzzle_identifiers": 1, "hidden_size": 32, "num_heads": 4, "expansion": 4.0,
        "L_layers": 2, "H_cycles": 3, "L_cycles": 6, "mlp_t": along_the_sequence,
        "pos_encodings": if along_the_sequence { "none" } else { "rope" },
        "puzzle_emb_ndim": 32, "puzzle_emb_len": 4, "halt_max_steps": 16, "halt_exploration_prob": 0.1,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "loss": "stablemax",
    }));
    let mut weights = InitialWeights::new(1, &Device::Cpu);
    Trm::new(config.unwrap(), &mut weights, DType::F32, &Device::Cpu).unwrap()
}

#[test]
fn a_step_of_thinking_takes_as_many_dispatches_as_is_documented() {
    if !stand_in::is_there() {
        return;
    }
    for (along_the_sequence, documented) in [(true, [227, 253]), (false, [339, 841])] {
        let trm = puzzles(along_the_sequence);
        let device = &Device::Cpu;
        let cells: Vec<u32> = (0..32).map(|at| at * 7 % 11).collect();
        let cells = Tensor::from_vec(cells, (2, 16), device).unwrap();
        let kinds = Tensor::new(&[0u32, 0], device).unwrap();
        let weights = Tensor::full(1f32 / 32.0, (2, 16), device).unwrap();
        let is_right = Tensor::new(&[0f32, 1.0], device).unwrap();
        let state = trm.first_state(2).unwrap();
        let counted = counts(|| {
            let tape = Tape::new(1);
            let x = trm.embed(Some(&tape), &cells, &kinds).unwrap();
            let thought = trm.think(Some(&tape), &state, &x, &trm.spans(2)).unwrap();
            let truth = Truth {
                classes: &cells,
                weights: &weights,
                smoothing: 0.0,
                is_right: &is_right,
                halting_weight: 0.5,
            };
            let loss = thought.loss(&truth, Squash::Stablemax).unwrap();
            let mut gradients = Gradients::default();
            tape.backward(&loss, 1.0, &mut gradients).unwrap();
        });
        assert_eq!(counted, documented, "{along_the_sequence}");
    }
}

#[test]
fn a_step_of_pictures_takes_as_many_dispatches_as_is_documented() {
    if !stand_in::is_there() {
        return;
    }
    let config = NetConfig {
        architecture: Architecture::Resnet18,
        stem: Stem::Small,
        sides: [8; 2],
        channels: 3,
        classes: 5,
        transformer: None,
    };
    let mut weights = InitialWeights::new(3, &Device::Cpu);
    let network = Network::new(config, &mut weights, DType::F32).unwrap();
    let pictures = normal(1, &[2, 8, 8, 3]).to_dtype(DType::F32).unwrap();
    let classes = Tensor::new(&[1u32, 4], &Device::Cpu).unwrap();
    let weights = Tensor::new(&[0.5f32, 0.5], &Device::Cpu).unwrap();
    let counted = counts(|| {
        let tape = Tape::new(1);
        let seen = network.see(Some(&tape), &pictures, Mode::Batch).unwrap();
        let loss = classify(&seen.scores, &classes, &weights, Squash::Softmax, 0.1).unwrap();
        let mut gradients = Gradients::default();
        tape.backward(&loss, 1.0, &mut gradients).unwrap();
    });
    assert_eq!(counted, [180, 70]);
}
