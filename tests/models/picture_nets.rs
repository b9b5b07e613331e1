//! Networks for pictures compute and learn as those of PyTorch. The numbers are from `tests/goldens/picture_nets.py`, which draws
//! weights by the rule that is written out here again.

use std::fs;

use candle_core::{DType, Device, Tensor};
use models::{
    Result,
    arch::{
        WeightRequest, Weights,
        picture::{Architecture, MOMENTUM, Mode, NetConfig, Network, Stem},
    },
    ops::{
        batch_norm::Then,
        classify::{Squash, classify},
        convolution::Geometry,
        elementwise::activate,
        pool::max_pool,
    },
    optim::{DecayScope, Optimizer, sgd::Sgd},
    tape::{Gradients, Tape, Value},
};
use serde_json::Value as Json;

use crate::hostile::repository;

pub(crate) fn golden() -> Json {
    let path = repository("tests/goldens/picture_nets/golden.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// `count` numbers from 0 to 1: splitmix64 from the FNV-1a hash of a name.
pub(crate) fn drawn(name: &str, count: usize) -> Vec<f64> {
    let hash = |seed: u64, byte: u8| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    let draw = |at: u64| {
        let z = seed.wrapping_add((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f64 / f64::from(1 << 24)
    };
    (0..count as u64).map(draw).collect()
}

pub(crate) fn weight(name: &str, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let of = |unit: f64| match *shape {
        [outputs, _, _, _] => (2.0 * unit - 1.0) * (6.0 / (count / outputs) as f64).sqrt(),
        [_, inputs] => (2.0 * unit - 1.0) / (inputs as f64).sqrt(),
        _ if name.ends_with("running_var") || name.ends_with(".weight") => 0.5 + unit,
        _ => (2.0 * unit - 1.0) * 0.2,
    };
    let factor = if name.ends_with("bn2.weight") {
        0.25
    } else {
        1.0
    };
    let numbers = drawn(name, count).into_iter();
    let numbers: Vec<f32> = numbers.map(|it| (of(it) * factor) as f32).collect();
    Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap()
}

/// [n, h, w, c].
pub(crate) fn pictures(name: &str, count: usize, side: usize, channels: usize) -> Tensor {
    let numbers = drawn(name, count * side * side * channels).into_iter();
    let numbers: Vec<f32> = numbers.map(|it| (4.0 * it - 2.0) as f32).collect();
    Tensor::from_vec(numbers, (count, side, side, channels), &Device::Cpu).unwrap()
}

/// Weights by the formula.
pub(crate) struct Formula(pub(crate) DType);

impl Weights for Formula {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        Ok(weight(request.name, request.shape).to_dtype(self.0)?)
    }
}

pub(crate) fn numbers(json: &Json) -> Vec<f64> {
    match json {
        Json::Array(all) => all.iter().flat_map(numbers).collect(),
        one => vec![one.as_f64().unwrap()],
    }
}

pub(crate) fn size(json: &Json) -> usize {
    json.as_u64().unwrap() as usize
}

/// Numbers of a tensor, in f64.
pub(crate) fn all(tensor: &Tensor) -> Vec<f64> {
    let flat = tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap();
    flat.to_vec1().unwrap()
}

/// The largest difference, as a share of the largest number that was expected.
pub(crate) fn apart(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let most = expected.iter().fold(0f64, |most, it| most.max(it.abs()));
    let pairs = found.iter().zip(expected);
    pairs.fold(0f64, |most, (a, b)| most.max((a - b).abs())) / most
}

/// The network of a part of `learned`, in a dtype, with its batch.
fn learner(learned: &Json, dtype: DType) -> (Network, Tensor, Tensor) {
    let stem = match learned["name"].as_str().unwrap() {
        "small" => Stem::Small,
        _ => Stem::Photo,
    };
    let (side, rows) = (size(&learned["side"]), size(&learned["rows"]));
    let config = NetConfig {
        architecture: Architecture::Resnet18,
        stem,
        sides: [side; 2],
        channels: 3,
        classes: size(&learned["classes"]),
        transformer: None,
    };
    let classes = config.classes as u32;
    let network = Network::new(config, &mut Formula(dtype), dtype).unwrap();
    let truth = (0..rows as u32).map(|row| row * 7 % classes);
    let truth = Tensor::from_iter(truth, &Device::Cpu).unwrap();
    (network, pictures("batch", rows, side, 3), truth)
}

/// The loss of a batch, its scores and its gradients.
fn losses(network: &Network, batch: &Tensor, truth: &Tensor) -> (f64, Vec<f64>, Gradients) {
    let tape = Tape::new(0);
    let seen = network.see(Some(&tape), batch, Mode::Batch).unwrap();
    let rows = batch.dim(0).unwrap();
    let share = Tensor::full(1.0 / rows as f32, rows, &Device::Cpu).unwrap();
    let loss = classify(&seen.scores, truth, &share, Squash::Softmax, 0.0).unwrap();
    let mut gradients = Gradients::default();
    let (scores, said) = (all(seen.scores.tensor()), all(loss.tensor())[0]);
    tape.backward(&loss, 1.0, &mut gradients).unwrap();
    (said, scores, gradients)
}

/// The largest difference of a norm of a gradient, as a share of itself.
fn norms_apart(gradients: &Gradients, expected: &Json) -> (f64, String) {
    let expected = expected.as_object().unwrap();
    assert_eq!(gradients.iter().count(), expected.len());
    let all = expected.iter().map(|(name, norm)| {
        let found = all(gradients.get(name).unwrap());
        let found = found.iter().map(|it| it * it).sum::<f64>().sqrt();
        ((found / norm.as_f64().unwrap() - 1.0).abs(), name.clone())
    });
    all.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

#[test]
fn resnets_learn_as_in_pytorch() {
    for learned in golden()["learned"].as_array().unwrap() {
        let name = &learned["name"];
        let (network, batch, truth) = learner(learned, DType::F32);
        let rule = Sgd {
            momentum: 0.9,
            nesterov: false,
            weight_decay: 5e-4,
        };
        let mut optimizer =
            Optimizer::new(rule.into(), DecayScope::All, network.parameters()).unwrap();
        let expected = numbers(&learned["losses"]);
        for (step, expected) in expected.into_iter().enumerate() {
            let (loss, scores, gradients) = losses(&network, &batch, &truth);
            if step == 0 {
                let apart = apart(&scores, &numbers(&learned["scores"]));
                assert!(apart <= 1e-5, "{name}: scores {apart}");
                // In f32, PyTorch's own norms are up to 4e-4 from its norms in f64: a number near 0 is on the other side of a ReLU.
                let (apart, of) = norms_apart(&gradients, &learned["gradient_norms"]);
                assert!(apart <= 1e-3, "{name}: gradient of {of} {apart}");
            }
            let apart = (loss / expected - 1.0).abs();
            assert!(apart <= 1e-4, "{name}: loss of step {step} {apart}");
            let rate = learned["rate"].as_f64().unwrap();
            optimizer
                .step(network.parameters(), &gradients, rate, 1.0)
                .unwrap();
        }
    }
}

#[test]
fn gradients_of_resnets_in_f64_are_those_of_pytorch() {
    for learned in golden()["learned"].as_array().unwrap() {
        let (network, batch, truth) = learner(learned, DType::F64);
        let (_, _, gradients) = losses(&network, &batch, &truth);
        let (apart, of) = norms_apart(&gradients, &learned["gradient_norms"]);
        assert!(
            apart <= 1e-6,
            "{}: gradient of {of} {apart}",
            learned["name"]
        );
    }
}

#[test]
fn running_means_and_variances_go_where_they_go_in_pytorch() {
    let golden = golden();
    let running = &golden["running"];
    let (side, rows) = (size(&running["side"]), size(&running["rows"]));
    let config = NetConfig {
        architecture: Architecture::Small,
        stem: Stem::Small,
        sides: [side; 2],
        channels: 1,
        classes: 5,
        transformer: None,
    };
    let mut network = Network::new(config, &mut Formula(DType::F32), DType::F32).unwrap();
    for step in 0..20 {
        let batch = pictures(&format!("step {step}"), rows, side, 1);
        let seen = network.see(None, &batch, Mode::Batch).unwrap();
        network.follow(&seen.moments, rows, MOMENTUM).unwrap();
    }
    for (name, expected) in running["after"].as_object().unwrap() {
        let found = all(&network.parameters().get(name).unwrap().tensor());
        let apart = apart(&found, &numbers(expected));
        assert!(apart <= 1e-6, "{name}: {apart}");
    }
}

#[test]
fn pools_take_the_first_of_equal_numbers_as_pytorch_does() {
    for case in golden()["pieces"]["pools"].as_array().unwrap() {
        let side = size(&case["side"]);
        let ties = drawn("ties", 2 * side * side * 3).into_iter();
        let ties: Vec<f64> = ties.map(|it| (4.0 * it).floor() - 2.0).collect();
        let window = Geometry {
            kernel: size(&case["kernel"]),
            stride: size(&case["stride"]),
            padding: size(&case["padding"]),
        };
        for dtype in [DType::F32, DType::F64] {
            let x = Tensor::from_vec(ties.clone(), (2, side, side, 3), &Device::Cpu).unwrap();
            let tape = Tape::new(0);
            let x = tape.input(x.to_dtype(dtype).unwrap());
            let y = max_pool(&x, window).unwrap();
            assert_eq!(all(y.tensor()), numbers(&case["y"]), "{case}");
            let shape = y.tensor().shape().clone();
            let seed = drawn("gradient", shape.elem_count());
            let seed = Tensor::from_vec(seed, shape, &Device::Cpu).unwrap();
            let seed = seed.to_dtype(dtype).unwrap();
            let mut gradients = Gradients::default();
            let slopes = tape.backward_to(&y, seed, &[&x], &mut gradients).unwrap();
            let found = all(slopes[0].as_ref().unwrap());
            let apart = apart(&found, &numbers(&case["gradient"]));
            assert!(apart <= 1e-6, "{apart}: {case}");
        }
    }
}

#[test]
fn smoothed_cross_entropy_and_gelu_are_those_of_pytorch() {
    let golden = golden();
    let pieces = &golden["pieces"];
    let truth: Vec<u32> = numbers(&pieces["smoothed"]["truth"])
        .into_iter()
        .map(|it| it as u32)
        .collect();
    let scores: Vec<f64> = drawn("scores", 30)
        .iter()
        .map(|it| 8.0 * it - 4.0)
        .collect();
    let slope = |tape: Tape, of: &Value, by: &Value| {
        let seed = of.tensor().ones_like().unwrap();
        let slopes = tape.backward_to(of, seed, &[by], &mut Gradients::default());
        all(slopes.unwrap()[0].as_ref().unwrap())
    };
    let input = |tape: &Tape, numbers: Vec<f64>, shape: &[usize], dtype| {
        let tensor = Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap();
        tape.input(tensor.to_dtype(dtype).unwrap())
    };
    for dtype in [DType::F32, DType::F64] {
        for case in pieces["smoothed"]["cases"].as_array().unwrap() {
            let tape = Tape::new(0);
            let x = input(&tape, scores.clone(), &[6, 5], dtype);
            let truth = Tensor::new(truth.as_slice(), &Device::Cpu).unwrap();
            let share = Tensor::full(1.0 / 6.0f64, 6, &Device::Cpu).unwrap();
            let smoothing = case["smoothing"].as_f64().unwrap();
            let loss = classify(&x, &truth, &share, Squash::Softmax, smoothing).unwrap();
            let apart_loss = apart(&all(loss.tensor()), &numbers(&case["loss"]));
            let apart_slope = apart(&slope(tape, &loss, &x), &numbers(&case["gradient"]));
            assert!(apart_loss.max(apart_slope) <= 1e-6, "{case}");
        }
        let tape = Tape::new(0);
        let x: Vec<f64> = drawn("gelu", 64).iter().map(|it| 12.0 * it - 6.0).collect();
        let x = input(&tape, x, &[64], dtype);
        let y = activate(&x, Then::Gelu).unwrap();
        let apart_y = apart(&all(y.tensor()), &numbers(&pieces["gelu"]["y"]));
        let apart_slope = apart(&slope(tape, &y, &x), &numbers(&pieces["gelu"]["gradient"]));
        assert!(
            apart_y.max(apart_slope) <= 1e-6,
            "{dtype:?} {apart_y} {apart_slope}"
        );
    }
}
