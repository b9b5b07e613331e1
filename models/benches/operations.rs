//! Each operation forward and backward on the CPU, by kernel and composed, at the shapes of SmolLM2-135M (batch of 2 x
//! 256 tokens) and of a decoder of a few million parameters.
//!
//! `cargo bench -p anneal-models -- attention` measures what has `attention` in its name. Both ways run in turn, so
//! that a busy machine slows both; each figure is the fastest of all rounds, since other work only ever adds time.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use models::{
    Result,
    ops::{
        attention::{Scoring, Spans, attention},
        cross_entropy::head_cross_entropy,
        elementwise::add,
        embedding::embedding,
        gated::{Activation, gated},
        kernels,
        linear::linear,
        lora::{Adapter, linear_with_adapter},
        norm::{layer_norm, rms_norm},
        rope::{Rope, RopeScaling, rope},
    },
    random::Random,
    tape::{Gradients, Tape, Value},
};

/// How long each operation is measured, in seconds, and in how many rounds at least.
const TIMEOUT: f64 = 1.0;
const ROUNDS: usize = 8;

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let bench = Bench {
        filter: filter.unwrap_or_default(),
    };
    println!(
        "{:44} {:>12} {:>10} {:>7} {:>9}",
        "", "composed ms", "kernel ms", "ratio", "GFLOP/s"
    );
    decoder(&bench, "135M", [2, 256, 9, 3, 64, 1536, 49152]);
    decoder(&bench, "2M", [8, 64, 4, 4, 32, 384, 1024]);
    decode(&bench);
}

struct Bench {
    filter: String,
}

impl Bench {
    /// Measures the operation with a tape, and backward from an output gradient of ones.
    fn train(
        &self,
        name: &str,
        flops: f64,
        inputs: &[Tensor],
        operation: impl Fn(&[Value]) -> Result<Value>,
    ) {
        self.measure(name, flops, || {
            let tape = Tape::new(1);
            let values: Vec<Value> = inputs.iter().map(|x| tape.input(x.clone())).collect();
            let y = operation(&values).unwrap();
            let seed = y.tensor().clone();
            let wanted: Vec<&Value> = values.iter().collect();
            tape.backward_to(&y, seed, &wanted, &mut Gradients::default())
                .unwrap();
        });
    }

    fn measure(&self, name: &str, flops: f64, work: impl Fn()) {
        if !name.contains(&self.filter) {
            return;
        }
        let time = |fix: &dyn Fn()| {
            let start = Instant::now();
            fix();
            start.elapsed().as_secs_f64()
        };
        let (mut composed, mut kernel) = (f64::INFINITY, f64::INFINITY);
        let start = Instant::now();
        let mut rounds = 0;
        while rounds < ROUNDS || start.elapsed().as_secs_f64() < TIMEOUT {
            composed = composed.min(time(&|| kernels::without(&work)));
            kernel = kernel.min(time(&work));
            rounds += 1;
        }
        println!(
            "{name:44} {:12.3} {:10.3} {:6.2}x {:9.0}",
            composed * 1e3,
            kernel * 1e3,
            composed / kernel,
            flops / kernel / 1e9
        );
    }
}

/// Every operation of a decoder: rows, tokens, heads, key heads, width of a head, of the gate, and the vocabulary.
fn decoder(bench: &Bench, model: &str, [b, t, h, k, e, f, v]: [usize; 7]) {
    let (n, d) = (b * t, h * e);
    let named = |operation: &str| format!("{model} {operation}");
    let product = |rows: usize, width: usize, columns: usize| 2.0 * (rows * width * columns) as f64;

    let scoring = Scoring {
        scale: (e as f64).powf(-0.5),
        soft_cap: None,
    };
    let spans = Spans::causal(b, t, 0, None);
    let heads = [
        normal(&[b, t, h, e]),
        normal(&[b, t, k, e]),
        normal(&[b, t, k, e]),
    ];
    // Half of the keys are seen; two products forward, five backward.
    let flops = 7.0 * product(n * h, e, t) / 2.0;
    bench.train(&named("attention"), flops, &heads, |x| {
        attention(&x[0], &x[1], &x[2], &spans, scoring)
    });

    let targets: Vec<u32> = (0..n).map(|token| (token * 7 % v) as u32).collect();
    let hidden = [normal(&[n, d]), normal(&[v, d])];
    let head = Value::constant(hidden[1].clone());
    bench.train(
        &named("head, frozen"),
        2.0 * product(n, d, v),
        &hidden[..1],
        |x| head_cross_entropy(&x[0], &head, &targets, None, n as f64),
    );
    bench.train(&named("head"), 3.0 * product(n, d, v), &hidden, |x| {
        head_cross_entropy(&x[0], &x[1], &targets, None, n as f64)
    });

    let gates = [normal(&[b, t, f]), normal(&[b, t, f])];
    for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
        bench.train(
            &named(&format!("gated, {activation:?}")),
            0.0,
            &gates,
            |x| gated(&x[0], &x[1], activation),
        );
    }
    let rows = [normal(&[b, t, d]), normal(&[d]), normal(&[d])];
    bench.train(&named("rms norm"), 0.0, &rows[..2], |x| {
        rms_norm(&x[0], &x[1], 0.0, 1e-5)
    });
    bench.train(&named("layer norm"), 0.0, &rows, |x| {
        layer_norm(&x[0], &x[1], &x[2], 1e-5)
    });
    let positions: Vec<u32> = (0..n).map(|token| (token % t) as u32).collect();
    let rotation = Rope::new(e, 1e4, &RopeScaling::None)
        .rotation(&positions, b, &Device::Cpu)
        .unwrap();
    bench.train(&named("rope"), 0.0, &heads[..1], |x| rope(&x[0], &rotation));
    let pair = [normal(&[b, t, d]), normal(&[b, t, d])];
    bench.train(&named("add"), 0.0, &pair, |x| add(&x[0], &x[1]));
    let tokens = Tensor::from_vec(targets.clone(), (b, t), &Device::Cpu).unwrap();
    bench.train(&named("embedding"), 0.0, &[normal(&[v, d])], |x| {
        embedding(&x[0], &tokens)
    });

    for (part, width, columns) in [("q", d, d), ("k", d, k * e), ("up", d, f), ("down", f, d)] {
        let x = [normal(&[n, width]), normal(&[columns, width])];
        bench.train(
            &named(&format!("linear {part}")),
            3.0 * product(n, width, columns),
            &x,
            |x| linear(&x[0], &x[1], None),
        );
        let lora = [x[0].clone(), normal(&[8, width]), normal(&[columns, 8])];
        let flops = 2.0 * product(n, width, columns) + 3.0 * product(n, width + columns, 8);
        for dtype in [DType::F32, DType::BF16] {
            let weight = Value::constant(x[1].to_dtype(dtype).unwrap());
            let name = format!("linear {part}, adapter on {}", dtype.as_str());
            bench.train(&named(&name), flops, &lora, |x| {
                let adapter = Adapter {
                    a: x[1].clone(),
                    b: x[2].clone(),
                    scale: 2.0,
                    dropout: None,
                };
                linear_with_adapter(&x[0], &weight, None, &adapter)
            });
        }
    }
}

/// One token at the shapes of SmolLM2-135M.
fn decode(bench: &Bench) {
    for past in [100, 2000] {
        let [q, cache] = [normal(&[1, 1, 9, 64]), normal(&[1, 4096, 3, 64])];
        let keys = cache.narrow(1, 0, past + 1).unwrap();
        let spans = Spans::causal(1, 1, past, None);
        let scoring = Scoring {
            scale: 0.125,
            soft_cap: None,
        };
        bench.measure(
            &format!("decode attention, {past} keys"),
            4.0 * 576.0 * past as f64,
            || {
                let [q, k, v] = [&q, &keys, &keys].map(|x| Value::constant(x.clone()));
                attention(&q, &k, &v, &spans, scoring).unwrap();
            },
        );
    }
    for rows in [1, 4] {
        for (width, columns) in [(576, 1536), (576, 49152)] {
            let x = Value::constant(normal(&[rows, width]));
            let weight = normal(&[columns, width]);
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                let weight = Value::constant(weight.to_dtype(dtype).unwrap());
                let name = format!("decode {rows} x {width} -> {columns}, {}", dtype.as_str());
                bench.measure(&name, 2.0 * (rows * width * columns) as f64, || {
                    linear(&x, &weight, None).unwrap();
                });
            }
        }
    }
}

fn normal(shape: &[usize]) -> Tensor {
    let mut random = Random::new(1);
    let numbers: Vec<f32> = (0..shape.iter().product())
        .map(|_| random.normal() as f32)
        .collect();
    Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap()
}
