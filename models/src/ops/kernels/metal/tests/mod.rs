//! Every operation as a Mac computes it, against the same composed and in f64, with a Vulkan driver in the place of Metal.

mod counts;
mod pictures;
pub(crate) mod stand_in;

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use super::{Binding, STORAGES, attention::in_slices, msl};
use crate::{
    Result,
    arch::{
        WeightRequest, Weights,
        config::DecoderConfig,
        decoder::{Decoder, Input},
        initial::InitialWeights,
        lora::{self, ALL_LINEAR, LoraConfig, Targets},
    },
    ops::{
        attention::{Scoring, Spans, attention},
        cross_entropy::{IGNORE, head_cross_entropy},
        dropout::Dropout,
        elementwise::{add, scale},
        embedding::embedding,
        feed_forward::{Along, feed_forward},
        gated::{Activation, gated},
        kernels,
        lora::{AdaptedLinear, Adapter, linears_with_adapters},
        norm::{layer_norm, residual_norm, rms_norm},
        rope::{Rope, RopeScaling, rope},
        testing::{check_close, check_kernel_on, normal},
        weight::Converted,
    },
    optim::{DecayScope, Optimizer, Rule, adamw::AdamW, clip::gradient_norm},
    parameters::{Parameter, Parameters},
    tape::{Gradients, Tape, Value},
};

/// The most bytes that Metal takes by value.
const MAX_VALUES: usize = 4096;

/// Checks in each dtype, with an error of `tolerance` in f32 and of a few roundings in the others, and that just these kernels
/// were launched.
#[track_caller]
fn check(
    inputs: &[Tensor],
    tolerance: f64,
    kernels: &[&str],
    operation: impl Fn(&[Value]) -> Result<Value>,
) {
    if !stand_in::is_there() {
        return;
    }
    for (dtype, tolerance) in [
        (DType::F32, tolerance),
        (DType::F16, 5e-3),
        (DType::BF16, 4e-2),
    ] {
        // The reference sees the numbers that the kernel sees.
        let round = |it: &Tensor| it.to_dtype(dtype).unwrap().to_dtype(DType::F64).unwrap();
        let inputs: Vec<Tensor> = inputs.iter().map(round).collect();
        let checked = || check_kernel_on(&Device::Cpu, dtype, &inputs, tolerance, &operation);
        let ((), launches) = stand_in::with(checked);
        let names: Vec<&str> = launches.keys().copied().collect();
        assert_eq!(names, kernels, "{dtype:?}");
    }
}

#[test]
fn rms_norm_equals_the_composition() {
    let kernels = ["rms_norm", "rms_norm_back", "rms_norm_weight"];
    for [rows, width] in [[1, 1], [3, 33], [300, 576], [2, 5000]] {
        let inputs = [normal(1, &[rows, width]), normal(2, &[width])];
        check(&inputs, 1e-5, &kernels, |v| {
            rms_norm(&v[0], &v[1], 1.0, 1e-5)
        });
        // Its input goes around it too.
        check(&inputs, 1e-5, &kernels, |v| {
            add(&v[0], &rms_norm(&v[0], &v[1], 1.0, 1e-5)?)
        });
    }
}

#[test]
fn layer_norm_equals_the_composition() {
    let kernels = ["layer_norm", "layer_norm_back", "layer_norm_weight"];
    for [rows, width] in [[3, 33], [300, 576], [2, 5000]] {
        let inputs = [
            normal(1, &[rows, width]),
            normal(2, &[width]),
            normal(3, &[width]),
        ];
        check(&inputs, 1e-5, &kernels, |v| {
            layer_norm(&v[0], &v[1], &v[2], 1e-5)
        });
    }
}

#[test]
fn norms_of_sums_equal_the_composition_along_both_dimensions() {
    let kernels = ["residual_norm", "residual_norm_back"];
    for shape in [[97, 520], [3, 33], [2, 3], [130, 72]] {
        let inputs = [normal(1, &shape), normal(2, &shape)];
        for along in [Along::First, Along::Last] {
            check(&inputs, 1e-5, &kernels, |v| {
                residual_norm(&v[0], &v[1], along, 1e-5)
            });
        }
    }
}

#[test]
fn gates_equal_the_composition() {
    for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
        for shape in [[70, 1001], [16, 40]] {
            let inputs = [(normal(1, &shape) * 4.0).unwrap(), normal(2, &shape)];
            check(&inputs, 1e-5, &["gated", "gated_back"], |v| {
                gated(&v[0], &v[1], activation)
            });
        }
    }
}

#[test]
fn feed_forward_parts_equal_the_composition_along_both_dimensions() {
    for (i, f, m) in [(97, 64, 130), (33, 5, 7), (64, 96, 24)] {
        let scaled = |seed, rows: usize, columns: usize| {
            (normal(seed, &[rows, columns]) / (columns as f64).sqrt()).unwrap()
        };
        let (up, down) = (scaled(2, 2 * f, i), scaled(3, i, f));
        for (along, x) in [(Along::First, [i, m]), (Along::Last, [m, i])] {
            let inputs = [normal(1, &x), up.clone(), down.clone()];
            check(&inputs, 2e-5, &["halves", "halves_back"], |v| {
                let dtype = v[0].tensor().dtype();
                let [up, down] = [1, 2].map(|at| Converted::new(&v[at], dtype));
                feed_forward(&v[0], &up?, &down?, Activation::Silu, along)
            });
        }
    }
}

#[test]
fn rope_equals_the_composition() {
    for (width, rotated) in [(64, 64), (32, 32), (32, 8), (10, 4)] {
        let positions: Vec<u32> = (0..14).map(|at| at * 3 % 11).collect();
        let same: Vec<u32> = (0..14).map(|at| at % 7).collect();
        for positions in [positions, same] {
            check(&[normal(1, &[2, 7, 3, width])], 1e-5, &["rotate"], |v| {
                let table = Rope::new(rotated, 1e4, &RopeScaling::None);
                let device = v[0].tensor().device();
                rope(&v[0], &table.rotation(&positions, 2, device)?)
            });
        }
    }
}

#[test]
fn attention_equals_the_composition() {
    let kernels = ["masked_softmax", "masked_softmax_back"];
    let documents: Vec<u32> = (0..2 * 40).map(|at| at % 40 / 9).collect();
    let spans = [
        Spans::causal(2, 40, 0, Some(11)),
        Spans::documents(2, &documents, None),
        Spans::full(2, 40),
        Spans::causal(2, 37, 0, None),
    ];
    for spans in spans {
        for soft_cap in [None, Some(2.0)] {
            let shape = |heads| [2, spans.queries, heads, 24];
            let inputs = [
                normal(1, &shape(6)),
                normal(2, &shape(2)),
                normal(3, &shape(2)),
            ];
            check(&inputs, 2e-5, &kernels, |v| {
                let scale = 0.2;
                attention(&v[0], &v[1], &v[2], &spans, Scoring { scale, soft_cap })
            });
        }
    }
}

#[test]
fn attention_in_slices_equals_the_composition() {
    let kernels = ["masked_softmax", "masked_softmax_back"];
    let documents: Vec<u32> = (0..2 * 40).map(|at| at % 40 / 9).collect();
    let spans = [
        Spans::causal(2, 40, 0, Some(11)),
        Spans::documents(2, &documents, None),
        Spans::causal(2, 37, 0, None),
    ];
    for spans in spans {
        for soft_cap in [None, Some(2.0)] {
            let shape = |heads| [2, spans.queries, heads, 8];
            let inputs = [6, 2, 2].map(|heads| normal(heads as u64, &shape(heads)));
            check(&inputs, 2e-5, &kernels, |v| {
                let scoring = Scoring {
                    scale: 0.2,
                    soft_cap,
                };
                // Seven queries at a time, or all in the reference.
                match v[0].tensor().dtype() {
                    DType::F64 => attention(&v[0], &v[1], &v[2], &spans, scoring),
                    _ => in_slices(&v[0], &v[1], &v[2], &spans, scoring, 7 * 2 * 6 * 40),
                }
            });
        }
    }
}

#[test]
fn attention_of_a_query_that_is_alone_equals_the_composition() {
    if !stand_in::is_there() {
        return;
    }
    for (dtype, tolerance) in [(DType::F32, 2e-5), (DType::F16, 5e-3), (DType::BF16, 2e-2)] {
        for (width, soft_cap) in [(24, None), (7, Some(2.0))] {
            let round = |it: Tensor| it.to_dtype(dtype).unwrap();
            let q = round(normal(1, &[2, 1, 6, width]));
            // A cache has room for more than it holds.
            let cached = |seed| round(normal(seed, &[2, 500, 2, width])).narrow(1, 0, 300);
            let (k, v) = (cached(2).unwrap(), cached(3).unwrap());
            let scoring = Scoring {
                scale: 0.3,
                soft_cap,
            };
            let run = |dtype: DType| {
                let of = |it: &Tensor| match it.dtype() == dtype {
                    true => Value::constant(it.clone()),
                    false => Value::constant(it.to_dtype(dtype).unwrap()),
                };
                let spans = Spans::causal(2, 1, 299, Some(280));
                attention(&of(&q), &of(&k), &of(&v), &spans, scoring).unwrap()
            };
            let (y, launches) = stand_in::with(|| run(dtype));
            assert_eq!(launches.keys().collect::<Vec<_>>(), [&"next_attention"]);
            check_close("y", y.tensor(), run(DType::F64).tensor(), tolerance);
        }
    }
}

#[test]
fn heads_that_rope_wrote_in_another_order_attend_as_in_the_composition() {
    let inputs = [4, 2, 2].map(|heads| normal(heads as u64, &[2, 21, heads, 16]));
    let kernels = ["masked_softmax", "masked_softmax_back", "rotate"];
    check(&inputs, 2e-5, &kernels, |v| {
        let positions: Vec<u32> = (0..42).map(|at| at % 21).collect();
        let device = v[0].tensor().device();
        let rotation = Rope::new(16, 1e4, &RopeScaling::None).rotation(&positions, 2, device)?;
        let (q, k) = (rope(&v[0], &rotation)?, rope(&v[1], &rotation)?);
        let scoring = Scoring {
            scale: 0.25,
            soft_cap: None,
        };
        attention(&q, &k, &v[2], &Spans::causal(2, 21, 0, None), scoring)
    });
}

#[test]
fn the_loss_equals_the_composition() {
    for (rows, width, vocabulary) in [(9, 16, 1001), (70, 24, 5000), (1, 8, 32)] {
        let inputs = [normal(1, &[rows, width]), normal(2, &[vocabulary, width])];
        let targets: Vec<u32> = (0..rows as u32)
            .map(|row| match row % 4 {
                3 => IGNORE,
                _ => row * 7919 % vocabulary as u32,
            })
            .collect();
        for soft_cap in [None, Some(3.0)] {
            check(&inputs, 2e-5, &["cross_entropy"], |v| {
                head_cross_entropy(&v[0], &v[1], &targets, soft_cap, 13.0)
            });
        }
    }
}

#[test]
fn adapters_equal_the_composition() {
    let plain = ["add_low_rank", "add_low_rank_back", "gather"];
    let dropped = ["add_low_rank", "dropout", "gather"];
    for (rows, i, o, ranks) in [
        (37, 24, 45, &[3][..]),
        (70, 64, 24, &[16, 8, 4]),
        (9, 15, 24, &[3, 8]),
        (1, 64, 8, &[8]),
    ] {
        let mut inputs = vec![normal(1, &[rows, i])];
        for (seed, rank) in (2..).zip(ranks) {
            inputs.push((normal(seed, &[*rank, i]) / (i as f64).sqrt()).unwrap());
            inputs.push((normal(seed + 10, &[o, *rank]) / (*rank as f64).sqrt()).unwrap());
        }
        let weight = (normal(4, &[o, i]) / (i as f64).sqrt()).unwrap();
        let bias = normal(5, &[o]);
        for probability in [0.0, 0.4] {
            let kernels = if probability > 0.0 { dropped } else { plain };
            check(&inputs, 2e-5, &kernels, |v| {
                let of = |it: &Tensor| it.to_dtype(v[0].tensor().dtype()).map(Value::constant);
                let (weight, bias) = (of(&weight)?, of(&bias)?);
                let tape = Tape::new(3);
                let layers = v[1..].chunks(2).enumerate();
                let layers = layers.map(|(at, parts)| AdaptedLinear {
                    weight: (&weight).into(),
                    bias: Some(bias.clone()),
                    adapter: Adapter {
                        a: parts[0].clone(),
                        b: parts[1].clone(),
                        scale: 0.7 - 0.2 * at as f64,
                        dropout: Dropout::new(Some(&tape), probability, "place"),
                    },
                });
                let outputs = linears_with_adapters(&v[0], &layers.collect::<Vec<_>>())?;
                let (first, rest) = outputs.split_first().unwrap();
                let all = rest.iter().enumerate();
                all.into_iter().try_fold(first.clone(), |sum, (at, y)| {
                    add(&sum, &scale(y, 0.5 + at as f64)?)
                })
            });
        }
    }
}

#[test]
fn rows_of_tokens_add_up_as_in_the_composition() {
    for (vocabulary, count, width) in [(11, 300, 72), (503, 130, 7), (65, 400, 64)] {
        let tokens: Vec<u32> = (0..count).map(|at: u32| at * at % vocabulary).collect();
        let table = normal(1, &[vocabulary as usize, width]);
        check(&[table], 1e-5, &["add_rows"], |v| {
            let tokens = Tensor::from_vec(tokens.clone(), count as usize, v[0].tensor().device())?;
            embedding(&v[0], &tokens)
        });
    }
}

/// Weights after some steps by a rule, and the norm of the gradients before.
fn learned(rule: Rule, steps: usize) -> (Vec<f32>, f64) {
    let of = |seed, shape: &[usize]| normal(seed, shape).to_dtype(DType::F32).unwrap();
    let shapes: [&[usize]; 4] = [&[5, 7], &[64, 36], &[3], &[40, 1024]];
    let (mut parameters, mut gradients) = (Parameters::default(), Gradients::default());
    for (seed, shape) in (0..).zip(shapes) {
        let name = format!("layer{seed}.weight");
        parameters.insert(Parameter::new(&name, &of(seed, shape), true).unwrap());
        gradients.add(&name, of(seed + 10, shape)).unwrap();
    }
    let mut optimizer = Optimizer::new(rule, DecayScope::Matrices, &parameters).unwrap();
    let norm = gradient_norm(&gradients).unwrap();
    for _ in 0..steps {
        optimizer.step(&parameters, &gradients, 0.1, 0.7).unwrap();
    }
    let weights = parameters.trainable().flat_map(|it| {
        let numbers = it.tensor().flatten_all().unwrap();
        numbers.to_vec1::<f32>().unwrap()
    });
    (weights.collect(), norm)
}

#[test]
fn a_step_of_adamw_and_the_norm_of_gradients_equal_those_of_the_cpu() {
    if !stand_in::is_there() {
        return;
    }
    let adamw = AdamW::default();
    check_step(adamw.into(), &[("adamw", 3 * 2), ("squares", 1)], 1e-5);
    // One matrix is large enough. A number that lies between two codes may become either.
    let kernels = [("adamw_codes", 3), ("squares", 1)];
    check_step(Rule::AdamW8Bit(adamw), &kernels, 5e-3);
}

fn check_step(rule: Rule, kernels: &[(&str, usize)], tolerance: f32) {
    let expected = learned(rule, 3);
    let (got, launches) = stand_in::with(|| learned(rule, 3));
    // Matrices decay, and are a group of their own.
    for (kernel, count) in kernels {
        assert_eq!(launches.get(kernel), Some(count), "{launches:?}");
    }
    assert!((got.1 - expected.1).abs() < 1e-5 * expected.1);
    let pairs = got.0.iter().zip(&expected.0);
    let far = pairs.fold(0f32, |far, (a, b)| far.max((a - b).abs()));
    assert!(far < tolerance, "{far}");
}

/// Frozen weights as they are kept beside what is computed in this dtype.
struct Kept(InitialWeights, DType);

impl Weights for Kept {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        Ok(self.0.tensor(request)?.to_dtype(self.1)?)
    }
}

/// A decoder with layers like those of SmolLM2-135M, but narrower, of which all learns or nothing.
fn small_decoder(layers: usize, learns: bool, dtype: DType) -> Decoder {
    let config = DecoderConfig::from_json(&json!({
        "model_type": "llama",
        "vocab_size": 64,
        "hidden_size": 36,
        "intermediate_size": 96,
        "num_hidden_layers": layers,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": true,
    }))
    .unwrap();
    let kept = if learns { DType::F32 } else { dtype };
    let mut weights = Kept(InitialWeights::new(1, &Device::Cpu), kept);
    Decoder::new(config, &mut weights, learns, dtype, &Device::Cpu).unwrap()
}

/// The same with adapters at every linear layer, which alone learn.
fn decoder_with_adapters(layers: usize, dtype: DType) -> Decoder {
    let mut decoder = small_decoder(layers, false, dtype);
    let config = LoraConfig {
        rank: 8,
        alpha: 16.0,
        dropout: 0.0,
        rank_stabilized: false,
        targets: Targets::Matching(ALL_LINEAR.to_owned()),
        layers: None,
    };
    lora::attach(
        &mut decoder,
        &config,
        &mut InitialWeights::new(1, &Device::Cpu),
    )
    .unwrap();
    decoder
}

fn gradients_of(decoder: &Decoder) -> Gradients {
    let tokens: Vec<u32> = (0..16).collect();
    let tape = Tape::new(1);
    let hidden = decoder.hidden(Some(&tape), Input::new(&tokens, 2), None, false);
    let loss = decoder.loss(Some(&tape), &hidden.unwrap(), &tokens, 16.0);
    let mut gradients = Gradients::default();
    tape.backward(&loss.unwrap(), 1.0, &mut gradients).unwrap();
    gradients
}

#[test]
fn gradients_of_a_whole_model_equal_the_composition() {
    if !stand_in::is_there() {
        return;
    }
    for (dtype, tolerance) in [(DType::F32, 1e-4), (DType::BF16, 4e-2)] {
        let decoder = decoder_with_adapters(2, dtype);
        let (rule, scope) = (AdamW::default().into(), DecayScope::Matrices);
        let mut optimizer = Optimizer::new(rule, scope, decoder.parameters()).unwrap();
        let composed = || kernels::without(|| gradients_of(&decoder));
        // An adapter begins with zeros, by which half of the gradients are zeros too.
        let step = optimizer.step(decoder.parameters(), &composed(), 0.1, 1.0);
        step.unwrap();
        let (expected, (got, _)) = (composed(), stand_in::with(|| gradients_of(&decoder)));
        assert_eq!(expected.iter().count(), 2 * 7 * 2);
        for (name, expected) in expected.iter() {
            check_close(name, got.get(name).unwrap(), expected, tolerance);
        }
    }
}

#[test]
fn every_text_is_of_the_kernel_and_storage_that_the_table_says() {
    for text in msl::TEXTS {
        for (storage, written) in STORAGES.iter().zip(text.by_storage) {
            let begin = format!("kernel void {storage}_{}(", text.name);
            assert!(written.contains(&begin), "{storage} {}", text.name);
            let threads = format!("max_total_threads_per_threadgroup({})", text.threads);
            assert!(written.contains(&threads), "{storage} {}", text.name);
            for (slot, binding) in text.bindings.iter().enumerate() {
                let line = written
                    .lines()
                    .find(|it| it.contains(&format!("[[buffer({slot})]]")))
                    .unwrap_or_else(|| panic!("{storage} {} has no slot {slot}", text.name));
                let right = match binding {
                    Binding::Read => line.contains("device") && line.contains(" const& "),
                    Binding::Write => line.contains("device") && !line.contains(" const& "),
                    Binding::Values(size) => line.contains("constant") && *size <= MAX_VALUES,
                };
                assert!(right, "{storage} {}, slot {slot}: {line}", text.name);
            }
        }
    }
}
