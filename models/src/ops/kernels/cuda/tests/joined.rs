//! Adapters of layers that are one product, beside those of layers one by one.

use candle_core::{DType, Tensor};
use serde_json::{Value as Json, json};

use super::{
    device,
    recorded::{adapted_decoder, small_pass},
};
use crate::{
    ops::{kernels, testing::normal},
    train::recorded::{launched, placed},
};

/// The gradients of a step in bf16, by name. Every third step computes activations twice.
fn gradients(config: &Json, step: u32) -> Vec<(String, Vec<f32>)> {
    let device = device();
    let decoder = adapted_decoder(config, 4, 0.0, DType::BF16, &device);
    for (seed, parameter) in (1..).zip(decoder.parameters().trainable()) {
        // B begins at zero, and A has no gradient then.
        let numbers = (normal(seed, parameter.tensor().dims()) * 0.1).unwrap();
        parameter.assign(&numbers).unwrap();
    }
    let seeds = placed(&[9], &device).unwrap();
    let played = launched(&[small_pass(&decoder, step, 0)], &seeds, (1.0, false)).unwrap();
    let numbers = |it: &Tensor| it.flatten_all().unwrap().to_vec1().unwrap();
    let all = played.gradients.iter();
    all.map(|(name, it)| (name.to_owned(), numbers(it)))
        .collect()
}

#[test]
#[ignore = "needs a CUDA device"]
fn adapters_of_layers_that_are_one_product_learn_as_one_by_one() {
    let common = json!({
        "vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "tie_word_embeddings": true, "head_dim": 16, "initializer_range": 0.1,
    });
    // Without biases, with those of queries, keys and values, with all of them in one, and with norms of queries and keys.
    for family in ["llama", "qwen2", "phi3", "qwen3"] {
        let mut config = common.clone();
        config["model_type"] = family.into();
        for step in [1, 2] {
            let joined = gradients(&config, step);
            let alone = {
                let _avoided = kernels::avoid(&["lora".to_owned()]).unwrap();
                gradients(&config, step)
            };
            let layers = if family == "phi3" { 4 } else { 7 };
            assert_eq!(joined.len(), 2 * 2 * layers, "{family}");
            for ((name, found), (other, expected)) in joined.iter().zip(&alone) {
                assert_eq!((name, found.len()), (other, expected.len()));
                let largest = expected.iter().fold(0f32, |most, it| most.max(it.abs()));
                let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
                let apart = apart.fold(0f32, f32::max) / largest;
                assert!(largest > 0.0 && apart < 0.06, "{family}, {name}: {apart:e}");
            }
        }
    }
}
