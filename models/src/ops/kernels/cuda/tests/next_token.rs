//! One token through a decoder by its own kernels, against the ordinary pass.

use candle_core::{DType, Device, Tensor};
use serde_json::{Value as Json, json};

use super::device;
use crate::{
    Result,
    arch::{
        WeightRequest, Weights,
        config::DecoderConfig,
        decoder::Decoder,
        initial::InitialWeights,
        kv_cache::KvCaches,
        lora::{self, LoraConfig, Targets},
    },
    ops::{kernels, testing::normal},
};

/// Weights that are kept in the dtype they are computed in, as of a model that chats.
struct Kept(InitialWeights, DType);

impl Weights for Kept {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        Ok(self.0.tensor(request)?.to_dtype(self.1)?)
    }
}

fn decoder(changes: &Json, adapters: bool, dtype: DType, device: &Device) -> Decoder {
    let mut config = json!({
        "model_type": "llama", "vocab_size": 300, "hidden_size": 64, "intermediate_size": 104,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 2048, "tie_word_embeddings": true, "initializer_range": 0.1,
    });
    let changes = changes.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(changes);
    let config = DecoderConfig::from_json(&config).unwrap();
    let mut weights = Kept(InitialWeights::new(3, device), dtype);
    let mut decoder = Decoder::new(config, &mut weights, false, dtype, device).unwrap();
    if adapters {
        let targets = ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"];
        let config = LoraConfig {
            rank: 5,
            alpha: 20.0,
            dropout: 0.0,
            rank_stabilized: false,
            targets: Targets::Named(targets.map(Into::into).into()),
            layers: None,
        };
        lora::attach(&mut decoder, &config, &mut Random(device.clone(), 7)).unwrap();
    }
    decoder
}

/// Adapters that change what a model says: usually the second half begins at zero.
struct Random(Device, u64);

impl Weights for Random {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        self.1 += 1;
        let values = normal(self.1, request.shape).to_dtype(DType::F32)?;
        Ok((values.to_device(&self.0)? * 0.1)?)
    }
}

/// The scores after each of these tokens: the first of them in one pass, and the others one by one.
fn scores(decoder: &Decoder, prompt: usize, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut cache = decoder.new_cache();
    decoder.next_logits(&tokens[..prompt], &mut cache).unwrap();
    let following = tokens[prompt..].iter();
    let scores = following.map(|token| decoder.next_logits(&[*token], &mut cache).unwrap());
    scores.map(|it| it.to_vec1().unwrap()).collect()
}

/// The largest difference, as a part of the largest score.
fn furthest(own: &[f32], ordinary: &[f32]) -> f32 {
    let largest = ordinary.iter().fold(0.0f32, |most, it| most.max(it.abs()));
    let off = own.iter().zip(ordinary).map(|(a, b)| (a - b).abs());
    off.fold(0.0f32, f32::max) / largest
}

#[track_caller]
fn check(what: &str, changes: &Json, adapters: bool) {
    let tolerances = [(DType::F32, 2e-5), (DType::F16, 1e-2), (DType::BF16, 6e-2)];
    check_within(what, changes, adapters, &tolerances);
}

#[track_caller]
fn check_within(what: &str, changes: &Json, adapters: bool, tolerances: &[(DType, f32)]) {
    // The buffers of the cache grow on the way.
    let (prompt, all) = (250, 270);
    let tokens: Vec<u32> = (0..all).map(|at| (at * at + 7 * at + 3) % 300).collect();
    for (dtype, tolerance) in tolerances.iter().copied() {
        let device = device();
        let decoder = decoder(changes, adapters, dtype, &device);
        let own = scores(&decoder, prompt, &tokens);
        let ordinary = {
            let _avoided = kernels::avoid(&["next_token".to_owned()]).unwrap();
            scores(&decoder, prompt, &tokens)
        };
        // The two are different computations, or nothing was compared.
        assert_ne!(
            own, ordinary,
            "{what} in {dtype:?} was read the ordinary way"
        );
        for (step, (own, ordinary)) in own.iter().zip(&ordinary).enumerate() {
            let off = furthest(own, ordinary);
            assert!(off <= tolerance, "{what} in {dtype:?}, token {step}: {off}");
        }
        assert_eq!(
            own,
            scores(&decoder, prompt, &tokens),
            "{what} in {dtype:?}, again"
        );
    }
}

/// Texts whose tokens are read together have the scores that each has alone, also while one has none, or has grown.
#[track_caller]
fn check_together(what: &str, changes: &Json, adapters: bool) {
    let device = device();
    let decoder = decoder(changes, adapters, DType::BF16, &device);
    let text = |number: u32| -> Vec<u32> {
        (0..270)
            .map(|at| (at * at + number * at + 3) % 300)
            .collect()
    };
    let prompts = [3, 250, 40];
    let alone: Vec<Vec<Vec<f32>>> = (0..3)
        .map(|at| scores(&decoder, prompts[at], &text(at as u32)[..prompts[at] + 20]))
        .collect();
    let mut caches = KvCaches::new((0..4).map(|_| decoder.new_cache()).collect());
    for (at, cache) in caches.iter_mut().take(3).enumerate() {
        decoder
            .next_logits(&text(at as u32)[..prompts[at]], cache)
            .unwrap();
    }
    let mut beside = vec![Vec::new(); 3];
    for step in 0..25 {
        // The third begins later, the first makes a break, and in the fourth slot nothing is written.
        let has_token = [!(5..10).contains(&step), true, step >= 5, false];
        let tokens: Vec<Option<u32>> = (0..4)
            .map(|at| {
                let written = beside.get(at)?.len();
                (has_token[at] && written < 20).then(|| text(at as u32)[prompts[at] + written])
            })
            .collect();
        let read = decoder.next_logits_each(&tokens, &mut caches).unwrap();
        assert_eq!(read.len(), 4);
        for (at, scores) in read.into_iter().enumerate() {
            assert_eq!(scores.is_some(), tokens[at].is_some());
            if let Some(scores) = scores {
                beside[at].push(scores.to_vec1::<f32>().unwrap());
            }
        }
    }
    assert!(beside == alone, "{what}");
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_reads_tokens_of_several_texts_as_each_alone() {
    check_together("Llama", &json!({}), false);
    check_together("Llama with adapters", &json!({}), true);
    let window = json!({"model_type": "mistral", "sliding_window": 24});
    check_together("a sliding window", &window, false);
    let biased = json!({"model_type": "qwen2", "head_dim": 16});
    check_together("Qwen 2", &biased, true);
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_reads_one_token_as_the_ordinary_pass_does() {
    check("Llama", &json!({}), false);
    check("Llama with adapters", &json!({}), true);
    let wide = json!({"head_dim": 128, "tie_word_embeddings": false});
    check("wide heads and a head of its own", &wide, false);
    check(
        "Qwen 2",
        &json!({"model_type": "qwen2", "head_dim": 16}),
        true,
    );
    check(
        "Qwen 3",
        &json!({"model_type": "qwen3", "head_dim": 32}),
        false,
    );
    let window = json!({"model_type": "mistral", "sliding_window": 24});
    check("a sliding window", &window, false);
    let fused = json!({"model_type": "phi3", "partial_rotary_factor": 0.5});
    check("Phi 3", &fused, false);
}

/// The scores after each of these parts of a text and after two tokens that follow them, read so many times from the start.
fn scores_of_parts(decoder: &Decoder, parts: &[usize], times: usize) -> Vec<Vec<Vec<f32>>> {
    let mut cache = decoder.new_cache();
    let read = |_| {
        cache.truncate(0);
        let mut start = 0;
        let parts = parts.iter().chain(&[1, 1]);
        let scores = parts.map(|&length| {
            let part = start..start + length;
            start = part.end;
            let tokens: Vec<u32> = part.map(|at| (at * at + 7 * at + 3) as u32 % 300).collect();
            let scores = decoder.next_logits(&tokens, &mut cache).unwrap();
            scores.to_vec1().unwrap()
        });
        scores.collect()
    };
    (0..times).map(read).collect()
}

#[track_caller]
fn check_parts(what: &str, changes: &Json, adapters: bool) {
    // Shorter than the shortest that is recorded, filled up, and full; the buffers of the cache grow on the way.
    let parts = [40, 3, 64, 250, 33, 100];
    for (dtype, tolerance) in [(DType::F16, 1e-2), (DType::BF16, 6e-2)] {
        let decoder = decoder(changes, adapters, dtype, &device());
        let own = scores_of_parts(&decoder, &parts, 5);
        let ordinary = {
            let _avoided = kernels::avoid(&["next_token".to_owned()]).unwrap();
            scores_of_parts(&decoder, &parts, 1)
        };
        for (time, own) in own.iter().enumerate() {
            for (at, (own, ordinary)) in own.iter().zip(&ordinary[0]).enumerate() {
                let off = furthest(own, ordinary);
                assert!(
                    off <= tolerance,
                    "{what} in {dtype:?}, time {time}, part {at}: {off}"
                );
            }
        }
        assert_ne!(
            own[0], ordinary[0],
            "{what} in {dtype:?} was read the ordinary way"
        );
        assert!(
            own.windows(2).all(|it| it[0] == it[1]),
            "{what} in {dtype:?}: launched, recorded and played with other scores"
        );
    }
}

/// What an earlier text left in the buffers may be no number.
#[test]
#[ignore = "needs a CUDA device"]
fn cuda_reads_parts_of_a_prompt_over_what_is_no_number() {
    let decoder = decoder(&json!({}), false, DType::BF16, &device());
    let tokens: Vec<u32> = (0..300).map(|at| (at * at + 3) % 300).collect();
    let mut cache = decoder.new_cache();
    let fresh = decoder.next_logits(&tokens[..40], &mut cache).unwrap();
    decoder.next_logits(&tokens[40..250], &mut cache).unwrap();
    cache.layer(1).spoil();
    for _ in 0..3 {
        cache.truncate(0);
        let again = decoder.next_logits(&tokens[..40], &mut cache).unwrap();
        assert_eq!(
            again.to_vec1::<f32>().unwrap(),
            fresh.to_vec1::<f32>().unwrap()
        );
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_reads_parts_of_a_prompt_as_the_ordinary_pass_does() {
    check_parts("Llama", &json!({}), false);
    check_parts("Llama with adapters", &json!({}), true);
    let window = json!({"model_type": "mistral", "sliding_window": 24});
    check_parts("a sliding window", &window, false);
    let normed = json!({"model_type": "qwen3", "head_dim": 32});
    check_parts("Qwen 3", &normed, false);
    let untied = json!({"head_dim": 128, "tie_word_embeddings": false});
    check_parts("wide heads and a head of its own", &untied, false);
    let fused = json!({"model_type": "phi3", "partial_rotary_factor": 0.5});
    check_parts("Phi 3", &fused, false);
}

/// More than a thread, a warp or a block reads at once of a row, a norm and the head.
#[test]
#[ignore = "needs a CUDA device"]
fn cuda_reads_one_token_of_a_wide_model_as_the_ordinary_pass_does() {
    let wide = |head: usize| json!({"hidden_size": 1160, "intermediate_size": 2056, "vocab_size": 4301, "head_dim": head, "initializer_range": 0.02});
    // Sums of as many terms lose more in 16 bits.
    let tolerances = [(DType::F32, 2e-5), (DType::F16, 3e-2)];
    check_within("heads of 64", &wide(64), true, &tolerances);
    check_within("heads of 256", &wide(256), false, &tolerances);
}
