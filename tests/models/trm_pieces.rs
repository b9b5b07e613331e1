//! Pieces of Tiny Recursive Models compute what PyTorch does: the loss where it has corners, and the draw of first weights.

use candle_core::{DType, Device, Tensor};
use models::{
    arch::{Initial, WeightRequest, Weights, initial::InitialWeights, trm::Squash},
    ops::classify::classify,
    parameters::Parameter,
    tape::{Gradients, Tape},
};

use crate::trm::{close, flat, golden, number, numbers};

#[test]
fn scores_of_exactly_0_and_1_have_the_gradients_of_the_reference() {
    let golden = &golden()["stablemax"];
    let all = |name: &str| -> Vec<f32> {
        let rows = golden[name].as_array().unwrap().iter();
        rows.flat_map(numbers).map(|it| it as f32).collect()
    };
    let scores = Tensor::from_vec(all("scores"), (4, 4), &Device::Cpu).unwrap();
    let classes: Vec<u32> = numbers(&golden["classes"])
        .iter()
        .map(|it| *it as u32)
        .collect();
    let classes = Tensor::new(classes, &Device::Cpu).unwrap();
    let ones = Tensor::ones(4, DType::F32, &Device::Cpu).unwrap();
    let tape = Tape::new(0);
    let scores = Parameter::new("scores", &scores, true).unwrap();
    let loss = classify(
        &scores.on(Some(&tape)),
        &classes,
        &ones,
        Squash::Stablemax,
        0.0,
    );
    let loss = loss.unwrap();
    let expected: f64 = numbers(&golden["losses"]).iter().sum();
    close("loss", number(loss.tensor()), expected, 1e-6);
    let mut gradients = Gradients::default();
    tape.backward(&loss, 1.0, &mut gradients).unwrap();
    let found = flat(gradients.get("scores").unwrap());
    for (found, expected) in found.iter().zip(all("gradient")) {
        assert!(
            (found - f64::from(expected)).abs() < 1e-6,
            "{found} {expected}"
        );
    }
}

#[test]
fn first_weights_are_spread_as_in_the_reference() {
    let golden = &golden()["truncated_normal"];
    let of = |name: &str| golden[name].as_f64().unwrap();
    let request = WeightRequest {
        name: "any",
        shape: &[1000, 1000],
        initial: Initial::Truncated(1.0),
    };
    let drawn = InitialWeights::new(1, &Device::Cpu).tensor(&request);
    let drawn = flat(&drawn.unwrap());
    let mean = |power: i32| drawn.iter().map(|it| it.powi(power)).sum::<f64>() / 1e6;
    close("deviation", mean(2).sqrt(), of("standard_deviation"), 3e-3);
    close("fourth moment", mean(4), of("kurtosis"), 1e-2);
    let largest = drawn.iter().fold(0.0, |most: f64, it| most.max(it.abs()));
    assert!(
        largest <= 2.0 * of("scale") + 1e-6 && largest > 2.0,
        "{largest}"
    );
}
