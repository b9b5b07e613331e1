//! What talking needs: reading a prompt, and writing token after token.

use candle_core::DType;

use super::{
    BenchCase, BenchDevice, StepWork, Unit, Work, Workload, just_one,
    learning::refuse_what_does_not_fit, size::RepeatedWeights,
};
use crate::{
    Error, Result,
    arch::{decoder::Decoder, kv_cache::KvCache},
    device::dtype::{DeviceClass, Role, choose_dtype},
    ops::scores::likeliest,
    random::Random,
    tasks::language::footprint::inference_bytes,
};

pub(super) static PROMPT: Workload = Workload {
    name: "prompt",
    title: "Reading a prompt",
    about: "Reads a prompt up to the first token of an answer.",
    unit: Unit::Tokens,
    feeds: None,
    advises: false,
    variations: just_one,
    prepare: read,
};

pub(super) static GENERATION: Workload = Workload {
    name: "generation",
    title: "Writing",
    about: "Writes an answer token by token, the likeliest each time.",
    unit: Unit::Tokens,
    feeds: None,
    advises: false,
    variations: just_one,
    prepare: write,
};

/// Tokens that each token is written after: the same for all, since more take longer.
const BEFORE: usize = 128;

fn read(case: &BenchCase, place: &BenchDevice) -> Result<Work> {
    let length = 2 * case.size.row_length();
    let (decoder, estimated_bytes) = decoder(case, place, length)?;
    let tokens = tokens(&decoder, length);
    // Prompts follow each other in one cache, as in a chat and on the server.
    let mut cache = decoder.new_cache();
    let (weights, _) = weights_of(&decoder);
    let config = decoder.config();
    let queries = config.num_attention_heads * config.head_dim;
    let attention = (config.layers.len() * queries * length) as f64;
    // The head is asked for the last token alone.
    let head = (config.vocab_size * config.hidden_size) as f64;
    let operations = 2.0 * (length as f64 * (weights - head + attention) + head);
    Ok(Work {
        step: StepWork {
            amount: length as f64,
            operations,
            estimated_bytes: Some(estimated_bytes),
            ..StepWork::default()
        },
        config: format!("{}, {length} tokens", case.size.shape_name()),
        take: Box::new(move || {
            cache.truncate(0);
            next(&decoder, &tokens, &mut cache).map(drop)
        }),
    })
}

fn write(case: &BenchCase, place: &BenchDevice) -> Result<Work> {
    let (decoder, estimated_bytes) = decoder(case, place, BEFORE + 1)?;
    let mut cache = decoder.new_cache();
    let first = next(&decoder, &tokens(&decoder, BEFORE), &mut cache)?;
    let (weights, bytes) = weights_of(&decoder);
    Ok(Work {
        step: StepWork {
            amount: 1.0,
            operations: 2.0 * weights,
            bytes,
            estimated_bytes: Some(estimated_bytes),
        },
        config: format!("{}, after {BEFORE} tokens", case.size.shape_name()),
        take: Box::new(move || {
            cache.truncate(BEFORE);
            next(&decoder, &first, &mut cache).map(drop)
        }),
    })
}

/// A model to read and write with, and the bytes that a talk of so many tokens is expected to take.
fn decoder(case: &BenchCase, place: &BenchDevice, tokens: usize) -> Result<(Decoder, u64)> {
    let class = DeviceClass::of(&place.choice.device, case.dtype.is_some());
    // Frozen weights are kept as a chat keeps them, and in f32 where that is computed in.
    let storage = choose_dtype(class, Role::Storage, case.dtype, &[], false)?.dtype;
    let mut weights = RepeatedWeights {
        dtype: storage.into(),
        device: place.device.clone(),
    };
    let config = case.size.config()?;
    let device = place.choice.device.requested();
    let bytes = inference_bytes(
        &config.clone().into(),
        storage,
        case.tensors(place),
        tokens,
        device,
    );
    refuse_what_does_not_fit(bytes, place)?;
    let compute: DType = case.tensors(place).into();
    let decoder = Decoder::new(config, &mut weights, false, compute, &place.device)?;
    Ok((decoder, bytes))
}

fn tokens(decoder: &Decoder, count: usize) -> Vec<u32> {
    let mut random = Random::for_purpose(1, "prompt");
    let known = decoder.config().vocab_size;
    (0..count).map(|_| random.below(known) as u32).collect()
}

/// The numbers that each token is multiplied with, and the bytes they take.
fn weights_of(decoder: &Decoder) -> (f64, f64) {
    let parameters = decoder.parameters();
    (parameters.count() as f64, parameters.bytes() as f64)
}

/// Reads tokens, and says which is the likeliest next, as an answer does where nothing is drawn.
fn next(decoder: &Decoder, tokens: &[u32], cache: &mut KvCache) -> Result<Vec<u32>> {
    let logits = decoder.next_logits(tokens, cache)?;
    let token = likeliest(&logits)?.ok_or_else(|| Error::Data("no finite scores".to_owned()))?;
    Ok(vec![token])
}
