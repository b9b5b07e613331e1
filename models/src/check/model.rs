//! A small decoder, whole: whether it learns and writes as it does on the CPU.

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use super::trial::{Named, Operation, Setup, StepTrial};
use crate::{
    Result,
    arch::{
        WeightRequest, Weights,
        config::DecoderConfig,
        decoder::{Decoder, Input},
        initial::InitialWeights,
    },
    device::dtype::Dtype,
    ops::scores::{Change, Scores, likeliest},
    optim::{
        DecayScope, Optimizer,
        adamw::AdamW,
        clip::{clip_scale, gradient_norm},
    },
    random::Random,
    tape::{Gradients, Tape},
};

const STEPS: usize = 20;
const ROWS: usize = 4;
const LENGTH: usize = 33;
const VOCABULARY: usize = 131;

/// Tokens that are written, after so many that are read.
const WRITTEN: usize = 32;
const PROMPT: usize = 9;
/// Tokens that follow a prompt one by one.
const FOLLOWING: usize = 4;

/// The losses of 20 steps of AdamW, from the same weights and on the same tokens.
///
/// Each step resumes from what rounding left of the one before it, so the tolerance is wider than that of an operation.
pub(super) fn training(dtype: Dtype) -> Result<Operation> {
    let trial = StepTrial::of("a decoder of 2 layers", |place| {
        let place = place.clone();
        Ok(Box::new(move || {
            let decoder = decoder(&place, true)?;
            let losses = Tensor::new(learn(&decoder)?, &Device::Cpu)?;
            Ok(vec![Named::new("the loss", &losses)])
        }))
    });
    Operation::within(if dtype == Dtype::F32 { 1e-3 } else { 5e-2 }, trial)
}

/// In f32 the tokens of greedy generation, which have to be the same; in narrower dtypes, where two tokens may be as
/// likely, the logits of a text.
pub(super) fn generation(dtype: Dtype) -> Result<Operation> {
    let writes = dtype == Dtype::F32;
    let what = match writes {
        true => "a decoder of 2 layers, token by token",
        false => "a decoder of 2 layers",
    };
    let trial = StepTrial::of(what, move |place| {
        let decoder = decoder(place, false)?;
        Ok(Box::new(move || {
            let result = match writes {
                true => Named::new("a token", &write(&decoder)?),
                false => Named::new("a logit", &logits(&decoder)?),
            };
            Ok(vec![result])
        }))
    });
    Operation::within(if writes { 0.0 } else { 5e-2 }, trial)
}

/// The logits after each of some tokens that follow a prompt one by one, as an answer is written, and those after the prompt when it is
/// read again: launched, recorded and played.
pub(super) fn next_token(dtype: Dtype) -> Result<Operation> {
    let trial = StepTrial::of("a decoder of 2 layers", |place| {
        let decoder = decoder(place, false)?;
        // Each number once.
        const COUNT: u32 = 4999;
        let apart: Vec<f32> = (0..COUNT)
            .map(|at| ((at * 37 + 11) % COUNT) as f32)
            .collect();
        let highest = apart.iter().position(|it| *it == (COUNT - 1) as f32);
        let apart = Tensor::new(apart, decoder.device())?;
        Ok(Box::new(move || {
            let tokens = text(0)[..PROMPT + FOLLOWING].to_vec();
            let mut cache = decoder.new_cache();
            decoder.next_logits(&tokens[..PROMPT], &mut cache)?;
            let following = tokens[PROMPT..].iter();
            let logits = following.map(|token| decoder.next_logits(&[*token], &mut cache));
            let mut logits = logits.collect::<Result<Vec<_>>>()?;
            for _ in 0..3 {
                cache.truncate(0);
                logits.push(decoder.next_logits(&tokens[..PROMPT], &mut cache)?);
            }
            let logits = Tensor::stack(&logits, 0)?;
            let found = likeliest(&apart)?.map(|token| token as usize);
            let draws = drawn(Scores::new(&apart)?)? == drawn(Scores::on_host(&apart)?)?;
            let is_right = [found == highest, draws].map(|it| if it { 1.0f32 } else { 0.0 });
            let is_right = Tensor::new(&is_right, &Device::Cpu)?;
            Ok(vec![
                Named::new("a logit", &logits),
                Named::new(
                    "whether the likeliest token is found, or one drawn",
                    &is_right,
                ),
            ])
        }))
    });
    Operation::within(if dtype == Dtype::F32 { 1e-4 } else { 5e-2 }, trial)
}

/// The tokens at some shares of the weights of all, most of which are of some weight, after some scores were changed.
fn drawn(mut scores: Scores) -> Result<Vec<Option<u32>>> {
    const TEMPERATURE: f64 = 1000.0;
    let change = |token| Change {
        token,
        added: -2000.5,
        penalty: 1.5,
    };
    scores.change(&(0..40).map(change).collect::<Vec<_>>())?;
    let Some(mut ranked) = scores.ranked(TEMPERATURE)? else {
        return Ok(Vec::new());
    };
    let all = ranked.all().sum;
    (0..64)
        .map(|share| Ok(ranked.until(|before, _| before.sum > all / 64 * share)?.1))
        .collect()
}

/// Weights as a device keeps them: rounded to what they are stored in, and widened again for the reference.
struct Rounded {
    initial: InitialWeights,
    rounded: DType,
    kept: DType,
    device: Device,
}

impl Weights for Rounded {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let numbers = self.initial.tensor(request)?.to_dtype(self.rounded)?;
        Ok(numbers.to_dtype(self.kept)?.to_device(&self.device)?)
    }
}

/// Two layers, with norms of queries and keys, and two heads for each head of keys.
fn decoder(place: &Setup, learns: bool) -> Result<Decoder> {
    let config = DecoderConfig::from_json(&json!({
        "model_type": "qwen3",
        "vocab_size": VOCABULARY,
        "hidden_size": 48,
        "intermediate_size": 104,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": true,
        // Larger than usual, so that untrained logits lie well apart.
        "initializer_range": 0.1,
    }))?;
    let (rounded, kept) = match learns {
        true => (DType::F32, DType::F32),
        false => (place.rounded, place.compute),
    };
    let mut weights = Rounded {
        initial: InitialWeights::new(3, &Device::Cpu),
        rounded,
        kept,
        device: place.device.clone(),
    };
    Decoder::new(config, &mut weights, learns, place.compute, &place.device)
}

fn learn(decoder: &Decoder) -> Result<Vec<f32>> {
    let rule = AdamW {
        weight_decay: 0.1,
        ..AdamW::default()
    };
    let mut optimizer = Optimizer::new(rule.into(), DecayScope::Matrices, decoder.parameters())?;
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let tokens = text(step);
        let (inputs, targets) = shifted(&tokens);
        let tape = Tape::new(step as u64);
        // Half of the steps compute activations twice.
        let hidden = decoder.hidden(Some(&tape), Input::new(&inputs, ROWS), None, step % 2 == 1)?;
        let loss = decoder.loss(Some(&tape), &hidden, &targets, targets.len() as f64)?;
        losses.push(loss.tensor().to_dtype(DType::F32)?.to_scalar::<f32>()?);
        let mut gradients = Gradients::default();
        tape.backward(&loss, 1.0, &mut gradients)?;
        let scale = clip_scale(gradient_norm(&gradients)?, 1.0);
        optimizer.step(decoder.parameters(), &gradients, 3e-3, scale)?;
    }
    Ok(losses)
}

/// Rows that count in steps of their own, which is quickly learned in part.
fn text(step: usize) -> Vec<u32> {
    let mut random = Random::for_purpose(step as u64, "text");
    let row = |_| {
        let (start, by) = (random.below(VOCABULARY), 1 + random.below(3));
        (0..=LENGTH).map(move |at| ((start + at * by) % VOCABULARY) as u32)
    };
    (0..ROWS).flat_map(row).collect()
}

/// Each row without its last token, and without its first.
fn shifted(tokens: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let rows = || tokens.chunks(LENGTH + 1);
    let inputs = rows().flat_map(|row| row[..LENGTH].to_vec()).collect();
    let targets = rows().flat_map(|row| row[1..].to_vec()).collect();
    (inputs, targets)
}

/// The likeliest token, again and again, with a cache.
fn write(decoder: &Decoder) -> Result<Tensor> {
    let mut cache = decoder.new_cache();
    let mut next: Vec<u32> = text(0)[..PROMPT].to_vec();
    let mut written = Vec::new();
    while written.len() < WRITTEN {
        let logits = decoder.next_logits(&next, &mut cache)?;
        // Chosen on the host, so that only reading is compared.
        let token: u32 = logits.to_device(&Device::Cpu)?.argmax(0)?.to_scalar()?;
        next = vec![token];
        written.push(token as f32);
    }
    Ok(Tensor::new(written, &Device::Cpu)?)
}

/// Logits of every position of a text.
fn logits(decoder: &Decoder) -> Result<Tensor> {
    let tokens = text(0)[..LENGTH].to_vec();
    let hidden = decoder.hidden(None, Input::new(&tokens, 1), None, false)?;
    decoder.logits(&hidden.tensor().squeeze(0)?.contiguous()?)
}
