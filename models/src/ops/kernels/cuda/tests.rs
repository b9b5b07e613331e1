//! Every kernel against the same operation composed and in f64 on the CPU. They need a GPU, so they
//! run only when asked for: `cargo test --workspace --lib --features cuda -- --ignored cuda`.

mod codes;
mod joined;
mod next_token;
mod pictures;
mod puzzles;
mod recorded;
mod scores;
mod stacked;

use candle_core::{D, DType, Device, Tensor};

use crate::{
    Result,
    ops::{
        attention::{Scoring, Spans, attention},
        batch_norm::{Moments, Then, batch_norm, follow},
        classify::{Squash, classify},
        convolution::{Geometry, convolution},
        cross_entropy::{IGNORE, head_cross_entropy},
        dropout::{Dropout, dropout},
        elementwise::{add, convert, narrow, scale, swap},
        embedding::{embedding, look_up},
        feed_forward::{Along, feed_forward},
        gated::{Activation, gated, gated_joined},
        kernels::Kernel,
        linear::linear,
        lora::{
            AdaptedLinear, Adapter, joined_linears_with_adapters, linear_with_adapter,
            linears_with_adapters,
        },
        norm::{residual_norm, rms_norm},
        pool::max_pool,
        rope::{Rope, RopeScaling, rope},
        testing::{check_close, check_kernel_on, normal},
        weight::Converted,
    },
    optim::{DecayScope, Optimizer, Rule, adamw::AdamW, clip::gradient_norm, sgd::Sgd},
    parameters::{Parameter, Parameters},
    tape::{Gradients, Tape, Value},
};

/// As `device::open` makes it ready.
#[allow(unsafe_code)]
fn device() -> Device {
    let device = Device::new_cuda_with_stream(0).unwrap();
    if let Device::Cuda(cuda) = &device {
        // Safety: there is one stream that frees tensors.
        unsafe { cuda.cuda_stream().context().disable_event_tracking() };
    }
    device
}

/// Checks in each dtype, with an error of `tolerance` in f32 and of a few roundings in the others.
#[track_caller]
fn check(inputs: &[Tensor], tolerance: f64, operation: impl Fn(&[Value]) -> Result<Value>) {
    let device = device();
    for (dtype, tolerance) in [
        (DType::F32, tolerance),
        (DType::F16, 5e-3),
        (DType::BF16, 4e-2),
    ] {
        // The reference sees the numbers that the kernel sees.
        let round = |it: &Tensor| it.to_dtype(dtype).unwrap().to_dtype(DType::F64).unwrap();
        let inputs: Vec<Tensor> = inputs.iter().map(round).collect();
        check_kernel_on(&device, dtype, &inputs, tolerance, &operation);
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn rms_norm_equals_the_composition() {
    for [rows, width] in [[1, 1], [3, 33], [300, 576], [2, 5000]] {
        let inputs = [normal(1, &[rows, width]), normal(2, &[width])];
        check(&inputs, 1e-5, |v| rms_norm(&v[0], &v[1], 1.0, 1e-5));
        // Its input goes around it too.
        check(&inputs, 1e-5, |v| {
            add(&v[0], &rms_norm(&v[0], &v[1], 1.0, 1e-5)?)
        });
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn norms_of_sums_equal_the_composition_along_both_dimensions() {
    // Whole packs in registers; no packs; more than registers hold.
    for shape in [[97, 520], [128, 64], [3, 33], [2, 3], [130, 72], [40, 1032]] {
        let inputs = [normal(1, &shape), normal(2, &shape)];
        for along in [Along::First, Along::Last] {
            check(&inputs, 1e-5, |v| residual_norm(&v[0], &v[1], along, 1e-5));
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn feed_forward_parts_equal_the_composition_along_both_dimensions() {
    for (i, f, m) in [(97, 64, 1030), (33, 5, 7), (64, 96, 24)] {
        let scaled = |seed, rows: usize, columns: usize| {
            (normal(seed, &[rows, columns]) / (columns as f64).sqrt()).unwrap()
        };
        let (up, down) = (scaled(2, 2 * f, i), scaled(3, i, f));
        for (along, x) in [(Along::First, [i, m]), (Along::Last, [m, i])] {
            let inputs = [normal(1, &x), up.clone(), down.clone()];
            check(&inputs, 2e-5, |v| {
                let dtype = v[0].tensor().dtype();
                let [up, down] = [1, 2].map(|at| Converted::new(&v[at], dtype));
                feed_forward(&v[0], &up?, &down?, Activation::Silu, along)
            });
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn rope_equals_the_composition() {
    for (width, rotated) in [(64, 64), (32, 32), (10, 4)] {
        let positions: Vec<u32> = (0..14).map(|at| at * 3 % 11).collect();
        check(&[normal(1, &[2, 7, 3, width])], 1e-5, |v| {
            let table = Rope::new(rotated, 1e4, &RopeScaling::None);
            rope(
                &v[0],
                &table.rotation(&positions, 2, v[0].tensor().device())?,
            )
        });
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn rows_of_tokens_add_up_as_in_the_composition() {
    for (vocabulary, count) in [(11, 3000), (1, 70), (5003, 1030), (65, 4000)] {
        let device = device();
        let tokens: Vec<u32> = (0..count).map(|at: u32| at * at % vocabulary).collect();
        let table = normal(1, &[vocabulary as usize, 72]);
        check_kernel_on(&device, DType::F32, &[table], 1e-5, |v| {
            let tokens = Tensor::from_vec(tokens.clone(), count as usize, v[0].tensor().device())?;
            embedding(&v[0], &tokens)
        });
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn sums_and_swaps_equal_the_composition() {
    for shape in [[70, 1001], [16, 40], [1, 1]] {
        let inputs = [normal(1, &shape), normal(2, &shape)];
        check(&inputs, 1e-6, |v| add(&v[0], &v[1]));
    }
    for shape in [[3, 5, 16], [7, 2, 33]] {
        check(&[normal(1, &shape)], 1e-6, |v| swap(&v[0]));
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn gates_equal_the_composition() {
    for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
        let inputs = [
            (normal(1, &[70, 1001]) * 4.0).unwrap(),
            normal(2, &[70, 1001]),
        ];
        check(&inputs, 1e-5, |v| gated(&v[0], &v[1], activation));
        for width in [66, 96] {
            let both = (normal(1, &[2, 35, width]) * 2.0).unwrap();
            check(&[both], 1e-5, |v| gated_joined(&v[0], activation));
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn dropout_draws_the_mask_of_the_composition() {
    for shape in [[70, 1001], [16, 40], [1, 5]] {
        check(&[normal(1, &shape)], 1e-6, |v| {
            dropout(&v[0], Dropout::new(Some(&Tape::new(7)), 0.3, "place"))
        });
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn linear_layers_equal_the_composition() {
    let inputs = [normal(1, &[37, 33]), normal(2, &[45, 33]), normal(3, &[45])];
    check(&inputs, 1e-5, |v| linear(&v[0], &v[1], Some(&v[2])));
    let inputs = [
        normal(1, &[3, 7, 24]),
        normal(2, &[4, 24]),
        normal(3, &[16, 4]),
    ];
    let weight = normal(4, &[16, 24]);
    check(&inputs, 1e-5, |v| {
        let x = v[0].tensor();
        let weight = weight.to_dtype(x.dtype())?.to_device(x.device())?;
        let adapter = Adapter {
            a: v[1].clone(),
            b: v[2].clone(),
            scale: 0.5,
            dropout: None,
        };
        linear_with_adapter(&v[0], &Value::constant(weight), None, &adapter)
    });
}

#[test]
#[ignore = "needs a CUDA device"]
fn layers_of_one_input_equal_the_composition() {
    for beside in [false, true] {
        let check = |ranks: &[usize], sizes| check_layers_of_one_input(ranks, sizes, 0.0, beside);
        check_layers_of_one_input(&[8, 3, 16], [35, 40, 24], 0.4, beside);
        check(&[8, 3, 16], [35, 40, 24]);
        // Rows that fill no block, more columns than a warp has at a time, and ranks in two parts.
        check(&[20, 8, 17], [150, 296, 328]);
        check(&[40], [35, 40, 24]);
        // More layers than one launch takes.
        check(&[2, 8, 3, 8, 4], [35, 40, 24]);
        // Enough for a warp to have several tiles.
        check(&[8, 5], [1050, 40, 1096]);
        // Ranks, and widths, that our own kernels leave to cuBLAS.
        check(&[72, 8, 4], [35, 40, 24]);
        check(&[8, 3, 16], [35, 39, 26]);
    }
}

/// Of tokens with so many numbers that go in, and others that come out.
fn check_layers_of_one_input(
    ranks: &[usize],
    [tokens, i, o]: [usize; 3],
    probability: f64,
    beside: bool,
) {
    let small = 1.0 / (i as f64).sqrt();
    let mut inputs = vec![normal(1, &[2, tokens, i])];
    for (seed, rank) in (2..).zip(ranks) {
        inputs.push((normal(seed, &[*rank, i]) * small).unwrap());
        inputs.push((normal(seed + 10, &[o, *rank]) * 0.3).unwrap());
    }
    let weights = (20..).take(ranks.len());
    let weights: Vec<Tensor> = weights
        .map(|seed| (normal(seed, &[o, i]) * small).unwrap())
        .collect();
    check(&inputs, 1e-5, |v| {
        let x = v[0].tensor();
        // Adapters learn in f32; the reference has f64 for all.
        let learned = |it: &Value| match x.dtype() {
            DType::F64 => Ok(it.clone()),
            _ => convert(it, DType::F32),
        };
        let layer = |(parts, weight): (&[Value], &Tensor)| -> Result<AdaptedLinear> {
            let weight = weight.to_dtype(x.dtype())?.to_device(x.device())?;
            Ok(AdaptedLinear {
                weight: (&Value::constant(weight)).into(),
                bias: None,
                adapter: Adapter {
                    a: learned(&parts[0])?,
                    b: learned(&parts[1])?,
                    scale: 0.5,
                    dropout: Dropout::new(Some(&Tape::new(3)), probability, "place"),
                },
            })
        };
        let layers = v[1..].chunks(2).zip(&weights).map(layer);
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let below = Tensor::cat(&weights, 0)?.to_dtype(x.dtype())?;
        let below = below.to_device(x.device())?;
        let is_narrow = x.device().is_cuda() && x.dtype() != DType::F32;
        let y = match joined_linears_with_adapters(&v[0], &layers, &below)?.filter(|_| beside) {
            Some(all) => {
                let part = |at| narrow(&all, D::Minus1, at * o, o);
                (0..layers.len()).map(part).collect::<Result<_>>()?
            }
            None => {
                assert!(!(beside && is_narrow), "not beside each other");
                linears_with_adapters(&v[0], &layers)?
            }
        };
        let (first, others) = y.split_first().unwrap();
        let mut factors = [2.0, -0.5].into_iter().cycle();
        others.iter().try_fold(first.clone(), |sum, y| {
            add(&sum, &scale(y, factors.next().unwrap())?)
        })
    });
}

#[test]
#[ignore = "needs a CUDA device"]
fn attention_equals_the_composition() {
    let documents: Vec<u32> = (0..400).map(|token| token % 200 / 60).collect();
    for soft_cap in [None, Some(0.8)] {
        let scoring = Scoring {
            scale: 0.2,
            soft_cap,
        };
        let check = |[b, t, h, e]: [usize; 4], keys: [usize; 2], spans: &dyn Fn() -> Spans| {
            let keys = [b, keys[0], keys[1], e];
            let inputs = [normal(1, &[b, t, h, e]), normal(2, &keys), normal(3, &keys)];
            check(&inputs, 1e-5, |v| {
                attention(&v[0], &v[1], &v[2], &spans(), scoring)
            });
        };
        check([2, 37, 4, 6], [37, 2], &|| Spans::causal(2, 37, 0, None));
        check([1, 130, 6, 16], [135, 1], &|| {
            Spans::causal(1, 130, 5, None)
        });
        check([2, 200, 3, 33], [200, 3], &|| {
            Spans::causal(2, 200, 0, Some(9))
        });
        check([2, 200, 2, 8], [200, 1], &|| {
            Spans::documents(2, &documents, Some(50))
        });
        // Several tiles of both widths, whole and not, with heads that share keys.
        check([2, 97, 4, 64], [97, 4], &|| Spans::full(2, 97));
        check([2, 200, 6, 64], [200, 2], &|| {
            Spans::documents(2, &documents, None)
        });
        check([1, 192, 2, 128], [256, 1], &|| {
            Spans::causal(1, 192, 64, Some(70))
        });
        check([1, 130, 3, 80], [130, 3], &|| {
            Spans::causal(1, 130, 0, None)
        });
        check([2, 1, 4, 64], [500, 2], &|| Spans::causal(2, 1, 499, None));
        // So many rows that a block of keys has two of four heads.
        check([96, 16, 8, 8], [16, 2], &|| Spans::causal(96, 16, 0, None));
    }
}

/// Kernels of each size, those that skip places, and those that look beyond the edge.
const GEOMETRIES: [[usize; 3]; 9] = [
    [1, 1, 0],
    [1, 2, 0],
    [2, 1, 0],
    [3, 1, 0],
    [3, 1, 1],
    [3, 2, 1],
    [3, 1, 2],
    [5, 2, 2],
    [7, 2, 3],
];

fn geometry([kernel, stride, padding]: [usize; 3]) -> Geometry {
    Geometry {
        kernel,
        stride,
        padding,
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn convolutions_equal_the_composition() {
    for of in GEOMETRIES {
        for (pictures, [height, width], [c, o]) in [
            // Colours and other counts that are no packs; packs within a tile, beyond one, and many shares of places.
            (2, [9, 8], [3, 24]),
            (3, [8, 8], [5, 16]),
            (2, [9, 11], [24, 40]),
            (5, [14, 13], [64, 64]),
            (9, [8, 7], [72, 136]),
            (70, [32, 32], [16, 8]),
        ] {
            let deep = (c * of[0] * of[0]) as f64;
            let inputs = [
                normal(1, &[pictures, height, width, c]),
                (normal(2, &[o, c, of[0], of[0]]) / deep.sqrt()).unwrap(),
                normal(3, &[o]),
            ];
            check(&inputs, 2e-5, |v| {
                convolution(&v[0], &v[1], Some(&v[2]), geometry(of))
            });
            check(&inputs[..2], 2e-5, |v| {
                convolution(&v[0], &v[1], None, geometry(of))
            });
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn batch_norms_equal_the_composition() {
    // Few channels and many, rows of one block and of all, and a width that is no pack.
    for [rows, width] in [[7, 8], [600, 24], [40_000, 64], [1_000, 520], [50, 5]] {
        let inputs = [
            (normal(1, &[rows, width]) + 3.0).unwrap(),
            normal(2, &[width]),
            normal(3, &[width]),
            normal(4, &[rows, width]),
        ];
        let known = [normal(5, &[width]), normal(6, &[width]).abs().unwrap()];
        for then in [Then::Nothing, Then::Gelu] {
            for inputs in [&inputs[..], &inputs[..3]] {
                check(inputs, 2e-5, |v| {
                    let [w, e] = [&v[1], &v[2]];
                    let y = batch_norm(&v[0], [w, e], Moments::OfBatch, v.get(3), then, 1e-5)?;
                    Ok(y.value)
                });
                check(inputs, 2e-5, |v| {
                    let known = known.clone().map(|it| it.to_device(v[0].tensor().device()));
                    let [mean, variance] = known;
                    let given = Moments::Given([&mean?, &variance?]);
                    let y = batch_norm(&v[0], [&v[1], &v[2]], given, v.get(3), then, 1e-5)?;
                    Ok(y.value)
                });
            }
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn running_numbers_follow_batches_as_on_the_cpu() {
    for width in [5, 64, 520] {
        let of = |device: &Device| {
            let numbers = |seed, shape: &[usize]| {
                let numbers = normal(seed, shape).to_dtype(DType::F32).unwrap();
                numbers.to_device(device).unwrap()
            };
            let running = [numbers(1, &[width]), numbers(2, &[width])];
            let after = follow([&running[0], &running[1]], &numbers(3, &[2, width]), 7, 0.1);
            after.unwrap().map(|it| it.to_device(&Device::Cpu).unwrap())
        };
        let (expected, found) = (of(&Device::Cpu), of(&device()));
        for (found, expected) in found.iter().zip(&expected) {
            check_close("running numbers", found, expected, 1e-6);
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn pools_equal_the_composition() {
    for of in [[2, 2, 0], [3, 2, 1], [3, 1, 1], [3, 3, 0], [3, 2, 0]] {
        for channels in [24, 5] {
            let inputs = [normal(1, &[3, 9, 8, channels])];
            check(&inputs, 1e-6, |v| max_pool(&v[0], geometry(of)));
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn the_head_and_its_loss_equal_the_composition() {
    // Of 70 rows all are taken; of 1,030 with few targets, 512.
    for (rows, every) in [(70, 1), (1_030, 5)] {
        let target = |row| match row % 5 {
            3 => IGNORE,
            _ if row % every != 0 => IGNORE,
            _ => row * 7 % 3001,
        };
        let targets: Vec<u32> = (0..rows as u32).map(target).collect();
        let inputs = [normal(1, &[rows, 64]), normal(2, &[3001, 64])];
        for soft_cap in [None, Some(5.0)] {
            check(&inputs, 1e-5, |v| {
                head_cross_entropy(&v[0], &v[1], &targets, soft_cap, 7.0)
            });
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn losses_of_few_classes_equal_the_composition() {
    for (rows, classes, smoothing) in [(1, 2, 0.0), (70, 11, 0.0), (33, 12, 0.2), (9, 300, 0.1)] {
        for squash in [Squash::Stablemax, Squash::Softmax] {
            let scores = (normal(1, &[rows, classes]) * 3.0).unwrap();
            check(&[scores], 1e-5, |v| {
                let device = v[0].tensor().device();
                let meant = (0..rows as u32).map(|row| row * 7 % classes as u32);
                let meant = Tensor::from_iter(meant, device)?;
                let weights = (0..rows).map(|row| if row % 5 == 3 { 0.0f32 } else { 1.0 });
                let weights = Tensor::from_iter(weights, device)?;
                classify(&v[0], &meant, &weights, squash, smoothing)
            });
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn rows_that_are_looked_up_equal_those_of_the_composition() {
    let (cpu, cuda) = (Device::Cpu, device());
    let places = (0..300u32).map(|at| at * at % 70);
    let places = Tensor::from_iter(places, &cpu).unwrap();
    for (width, dtype) in [(33, DType::F32), (64, DType::F16), (1025, DType::BF16)] {
        let table = normal(1, &[70, width]).to_dtype(dtype).unwrap();
        let taken = |device: &Device| {
            let [table, places] = [&table, &places].map(|it| it.to_device(device).unwrap());
            look_up(Kernel::Embedding, &table, &places).unwrap()
        };
        check_close("the rows", &taken(&cuda), &taken(&cpu), 0.0);
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn optimizers_and_the_norm_of_gradients_equal_those_of_the_cpu() {
    let sgd = |momentum, nesterov| Sgd {
        momentum,
        nesterov,
        weight_decay: 0.01,
    };
    let rules = [
        AdamW::default().into(),
        Rule::AdamW8Bit(AdamW::default()),
        sgd(0.0, false).into(),
        sgd(0.9, false).into(),
        sgd(0.9, true).into(),
    ];
    rules.into_iter().for_each(check_optimizer);
}

fn check_optimizer(rule: Rule) {
    let cuda = device();
    let run = |device: &Device| {
        let tensor = |seed, shape: &[usize]| {
            let tensor = normal(seed, shape).to_dtype(DType::F32).unwrap();
            tensor.to_device(device).unwrap()
        };
        let shapes = [("a.weight", vec![300, 130]), ("b.bias", vec![5])];
        let mut parameters = Parameters::default();
        for (name, shape) in &shapes {
            parameters.insert(Parameter::new(name, &tensor(1, shape), true).unwrap());
        }
        let mut optimizer = Optimizer::new(rule, DecayScope::Matrices, &parameters).unwrap();
        let mut norms = Vec::new();
        for step in 0..3 {
            let mut gradients = Gradients::default();
            for (name, shape) in &shapes {
                gradients.add(name, tensor(7 + step, shape)).unwrap();
            }
            norms.push(gradient_norm(&gradients).unwrap());
            optimizer.step(&parameters, &gradients, 0.1, 0.5).unwrap();
        }
        let weights = parameters
            .iter()
            .map(|it| it.tensor().flatten_all().unwrap());
        let weights: Vec<Tensor> = weights.collect();
        let weights = Tensor::cat(&weights, 0)
            .unwrap()
            .to_device(&Device::Cpu)
            .unwrap();
        (weights, norms)
    };
    let ((expected, expected_norms), (weights, norms)) = (run(&Device::Cpu), run(&cuda));
    // A number that lies between two codes may become either.
    let tolerance = match rule {
        Rule::AdamW8Bit(_) => 5e-3,
        _ => 1e-6,
    };
    check_close("weights", &weights, &expected, tolerance);
    for (norm, expected) in norms.iter().zip(expected_norms) {
        assert!(
            (norm - expected).abs() < 1e-5 * expected,
            "{norm}, not {expected}"
        );
    }
}
