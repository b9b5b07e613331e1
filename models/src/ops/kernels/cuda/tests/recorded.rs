//! Steps of a decoder, launched and recorded.

use candle_core::{DType, Device, Tensor};
use serde_json::Value as Json;

use super::device;
use crate::{
    Result,
    arch::{
        config::DecoderConfig,
        decoder::{Decoder, Input},
        initial::InitialWeights,
        lora::{self, LoraConfig, Targets},
    },
    ops::{cross_entropy::IGNORE, elementwise::scale},
    optim::{DecayScope, Optimizer, adamw::AdamW, clip::loss_and_norm},
    tape::{FixedPass, Tape, Value},
    train::recorded::{Played, RecordedPasses, launched, placed},
};

#[test]
#[ignore = "needs a CUDA device"]
fn a_recorded_step_has_the_bits_of_one_that_is_launched() {
    let mut all = Vec::new();
    for (adapters, dtype) in [
        (Some((4, 0.0)), DType::BF16),
        (Some((4, 0.3)), DType::BF16),
        (None, DType::BF16),
        (Some((4, 0.0)), DType::F32),
        (Some((4, 0.3)), DType::F32),
    ] {
        let [launched, recorded] =
            [false, true].map(|is_recorded| learn(adapters, dtype, is_recorded));
        assert_eq!(launched, recorded, "{adapters:?}, {dtype:?}");
        assert!(!all.contains(&recorded), "{adapters:?}, {dtype:?}");
        all.push(recorded);
    }
}

/// A pass that waits for a number on its way.
struct Waits(Tensor);

impl FixedPass for Waits {
    fn inputs(&self) -> Vec<Tensor> {
        vec![self.0.clone()]
    }

    fn form(&self) -> String {
        "waits".to_owned()
    }

    fn loss(&self, tape: &Tape) -> Result<Value> {
        let x = tape.input(self.0.clone());
        let first = self.0.to_vec1::<f32>()?[0];
        scale(&x, f64::from(first))
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn a_pass_that_can_not_be_recorded_is_launched_and_said_so_once() {
    let device = device();
    let pass = || Box::new(Waits(Tensor::new(&[2f32], &device).unwrap())) as Box<dyn FixedPass>;
    let mut passes = RecordedPasses::default();
    let play = |passes: &mut RecordedPasses| {
        let played = passes.play(&device, &[pass()], &[3], (1.0, false));
        played.unwrap().is_some()
    };
    assert!(play(&mut passes));
    for notice in [true, false] {
        assert!(!play(&mut passes));
        assert_eq!(passes.notice().is_some(), notice);
    }
    // The device works as before.
    let seeds = placed(&[3], &device).unwrap();
    let loss = launched(&[pass()], &seeds, (1.0, false)).unwrap().loss;
    assert_eq!(loss.to_scalar::<f32>().unwrap(), 4.0);
}

/// What passes come to with these seeds of their dropout, launched, or by what was recorded of those before them.
pub(super) fn played(
    passes: &mut RecordedPasses,
    micro_batches: &[Box<dyn FixedPass + '_>],
    seeds: &[u64],
    is_recorded: bool,
) -> Played {
    let device = micro_batches[0].inputs()[0].device().clone();
    let played = match is_recorded {
        true => passes.play(&device, micro_batches, seeds, (1.0, false)),
        false => {
            let seeds = placed(seeds, &device).unwrap();
            launched(micro_batches, &seeds, (1.0, false)).map(Some)
        }
    };
    assert_eq!(passes.notice(), None);
    played.unwrap().unwrap()
}

/// The rank of adapters, and the probability of their dropout.
type Adapters = Option<(usize, f64)>;

/// Losses and norms of some steps of a small decoder, and the weights after them.
fn learn(adapters: Adapters, dtype: DType, is_recorded: bool) -> (Vec<f64>, Vec<f32>) {
    let device = device();
    let decoder = small_decoder(adapters, dtype, &device);
    let parameters = decoder.parameters();
    let mut optimizer =
        Optimizer::new(AdamW::default().into(), DecayScope::All, parameters).unwrap();
    let mut passes = RecordedPasses::default();
    let mut losses = Vec::new();
    for step in 0..24u32 {
        // Of two micro-batches in every fourth step. A weight is put back in the middle, in place, and something else is computed.
        if step == 15 {
            let weight = parameters.trainable().next().unwrap();
            weight.assign(&(weight.tensor() * 0.5).unwrap()).unwrap();
            let seeds = placed(&[9], &device).unwrap();
            launched(&[small_pass(&decoder, 1, 0)], &seeds, (1.0, false)).unwrap();
        }
        let count = if step % 4 == 3 { 2 } else { 1 };
        let seeds: Vec<u64> = (0..count)
            .map(|at| u64::from(10 * step + at) << 31)
            .collect();
        let micro_batches: Vec<_> = (0..count)
            .map(|at| small_pass(&decoder, step, at))
            .collect();
        let Played {
            loss, gradients, ..
        } = played(&mut passes, &micro_batches, &seeds, is_recorded);
        let (loss, norm) = loss_and_norm(&loss, &gradients).unwrap().read().unwrap();
        losses.extend([loss, norm]);
        optimizer.step(parameters, &gradients, 1e-2, 1.0).unwrap();
    }
    let weights = parameters.trainable().map(|it| it.tensor().flatten_all());
    let weights = Tensor::cat(&weights.map(Result::unwrap).collect::<Vec<_>>(), 0).unwrap();
    (losses, weights.to_vec1().unwrap())
}

/// With adapters at all linear layers, beside weights in this dtype, or all of it learns.
fn small_decoder(adapters: Adapters, dtype: DType, device: &Device) -> Decoder {
    let config = serde_json::json!({
        "model_type": "llama", "vocab_size": 300, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 128, "tie_word_embeddings": true,
    });
    match adapters {
        None => {
            let config = DecoderConfig::from_json(&config).unwrap();
            let mut weights = InitialWeights::new(3, device);
            Decoder::new(config, &mut weights, true, dtype, device).unwrap()
        }
        Some((rank, dropout)) => adapted_decoder(&config, rank, dropout, dtype, device),
    }
}

/// A decoder with adapters at all linear layers, whose weights and numbers are of this dtype.
pub(super) fn adapted_decoder(
    config: &Json,
    rank: usize,
    dropout: f64,
    dtype: DType,
    device: &Device,
) -> Decoder {
    let config = DecoderConfig::from_json(config).unwrap();
    let mut weights = InitialWeights {
        dtype,
        ..InitialWeights::new(3, device)
    };
    let mut decoder = Decoder::new(config, &mut weights, false, dtype, device).unwrap();
    let config = LoraConfig {
        rank,
        alpha: 8.0,
        dropout,
        rank_stabilized: false,
        targets: Targets::Matching(lora::ALL_LINEAR.to_owned()),
        layers: None,
    };
    lora::attach(&mut decoder, &config, &mut weights).unwrap();
    decoder
}

/// Two rows of documents of other lengths in each step, of which not all is learned.
pub(super) fn small_pass(decoder: &Decoder, step: u32, micro_batch: u32) -> Box<dyn FixedPass> {
    let length = if step % 3 == 2 { 48 } else { 64 };
    let numbers = |of: &dyn Fn(u32) -> u32| (0..2 * length).map(of).collect::<Vec<u32>>();
    let input = Input {
        tokens: &numbers(&|at| (at * at + 7 * step + micro_batch) % 300),
        rows: 2,
        positions: None,
        documents: Some(&numbers(&|at| at % length / (9 + step))),
    };
    let targets = numbers(&|at| {
        if at % 5 == 0 {
            IGNORE
        } else {
            (at + step) % 300
        }
    });
    let again = step % 3 == 2;
    let pass = decoder.fixed_pass(input, &targets, 90.0 + f64::from(step), again);
    pass.unwrap()
}
