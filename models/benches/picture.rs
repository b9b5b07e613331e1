//! How fast a network for pictures learns: pictures a second on one line of JSON.
//!
//! ```text
//! cargo bench -p anneal-models --bench picture -- [resnet18] [--device cuda] [--dtype bf16] [--rows 128] [--side 32] [--steps 20]
//! ```
//!
//! A step is forward, cross-entropy, backward, SGD with Nesterov’s momentum and the running numbers of norms, on one batch of
//! made-up pictures that stays on the device, as in `tests/peers/peer_pictures.py`.

#![allow(clippy::print_stdout, clippy::expect_used, missing_docs)]

use std::{collections::HashMap, time::Instant};

use candle_core::{DType, Device, Tensor};
use models::{
    arch::{
        initial::InitialWeights,
        picture::{Architecture, MOMENTUM, Mode, NetConfig, Network, Stem},
    },
    device::{self, DeviceRequest, memory::memory},
    ops::classify::{Squash, classify},
    optim::{DecayScope, Optimizer, sgd::Sgd},
    random::Random,
    tape::{Gradients, Tape},
};
use serde_json::{Value as Json, json};

const CLASSES: usize = 10;

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let (architecture, options) = match words.as_slice() {
        [first, options @ ..] if !first.starts_with('-') => (first.as_str(), options),
        options => ("resnet18", options),
    };
    let pairs = options
        .chunks(2)
        .map(|pair| (pair[0].trim_start_matches('-').to_owned(), pair[1].clone()));
    let report = steps(architecture, &pairs.collect()).expect("the benchmark");
    println!("{report}");
}

fn steps(architecture: &str, options: &HashMap<String, String>) -> models::Result<Json> {
    let number = |name: &str, default: usize| {
        let given = options.get(name);
        given.map_or(default, |it| it.parse().expect("a whole number"))
    };
    let (rows, side) = (number("rows", 128), number("side", 32));
    let (warm_up, steps) = (number("warm-up", 3), number("steps", 10));
    let dtype = match options.get("dtype").map(String::as_str) {
        Some("bf16") => DType::BF16,
        Some("f16") => DType::F16,
        _ => DType::F32,
    };
    let asked = options.get("device").map_or("cpu", String::as_str);
    let request = DeviceRequest {
        device: asked.parse()?,
        strict: true,
    };
    let device = device::open(&device::choose(request, &device::detect::detect())?)?;
    let architecture: Architecture = serde_json::from_value(json!(architecture))
        .expect("small, airbench94, resnet18, resnet34 or resnet50");
    let config = NetConfig {
        architecture,
        stem: if side >= 64 { Stem::Photo } else { Stem::Small },
        sides: [side; 2],
        channels: 3,
        classes: CLASSES,
        transformer: None,
    };
    let mut network = Network::new(config, &mut InitialWeights::new(1, &device), dtype)?;
    let rule = Sgd {
        momentum: 0.9,
        nesterov: true,
        weight_decay: 5e-4,
    };
    let mut optimizer = Optimizer::new(rule.into(), DecayScope::All, network.parameters())?;
    let batch = Batch::new(rows, side, &device)?;
    let (mut rates, mut losses) = (Vec::new(), Vec::new());
    for step in 0..warm_up + steps {
        let started = Instant::now();
        let loss = batch.step(&mut network, &mut optimizer)?;
        device.synchronize()?;
        if step >= warm_up {
            rates.push(rows as f64 / started.elapsed().as_secs_f64());
        }
        losses.push(loss.to_scalar::<f32>()?);
    }
    rates.sort_by(f64::total_cmp);
    let memory = memory(&device)?;
    let median = rates[rates.len() / 2];
    Ok(json!({
        "architecture": network.config().architecture, "rows": rows, "side": side, "steps": steps,
        "pictures_per_second": median, "slowest": rates[0], "fastest": rates[rates.len() - 1],
        "millis_per_step": rows as f64 / median * 1e3, "first_loss": losses[0], "last_loss": losses[losses.len() - 1],
        "memory": format!("{memory:?}"), "trainable": network.parameters().trainable_count(),
    }))
}

/// Made-up pictures with their classes.
struct Batch {
    pictures: Tensor,
    labels: Tensor,
    weights: Tensor,
}

impl Batch {
    fn new(rows: usize, side: usize, device: &Device) -> models::Result<Self> {
        let mut random = Random::new(1);
        let numbers = (0..rows * side * side * 3).map(|_| random.below(256) as f32 / 128.0 - 1.0);
        let pictures = Tensor::from_iter(numbers, device)?;
        let labels = (0..rows).map(|_| random.below(CLASSES) as u32);
        Ok(Self {
            pictures: pictures.reshape((rows, side, side, 3))?,
            labels: Tensor::from_iter(labels, device)?,
            weights: Tensor::full(1.0 / rows as f32, rows, device)?,
        })
    }

    /// A step. Returns the loss, which may not be computed yet.
    fn step(&self, network: &mut Network, optimizer: &mut Optimizer) -> models::Result<Tensor> {
        let tape = Tape::new(0);
        let seen = network.see(Some(&tape), &self.pictures, Mode::Batch)?;
        let (labels, weights) = (&self.labels, &self.weights);
        let loss = classify(&seen.scores, labels, weights, Squash::Softmax, 0.0)?;
        drop(seen.scores);
        let mut gradients = Gradients::default();
        tape.backward(&loss, 1.0, &mut gradients)?;
        optimizer.step(network.parameters(), &gradients, 0.01, 1.0)?;
        network.follow(&seen.moments, labels.elem_count(), MOMENTUM)?;
        Ok(loss.tensor().clone())
    }
}
