//! What PyTorch did, and the checks that both rules have to pass.
//!
//! The numbers were made by `tests/goldens/optim/make_torch.py`.

use candle_core::{DType, Device, Tensor};
use serde_json::Value;

use super::{DecayScope, Group, Optimizer, Part, Rule, Update, adamw::AdamW, clip, sgd::Sgd};
use crate::{
    Result,
    parameters::{Parameter, Parameters},
    random::Random,
    tape::Gradients,
};

/// The whole file.
pub(super) fn golden() -> Value {
    serde_json::from_str(include_str!("../../../tests/goldens/optim/torch.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f32> {
    let numbers = value.as_array().unwrap().iter();
    numbers
        .map(|number| number.as_f64().unwrap() as f32)
        .collect()
}

fn tensor(golden: &Value, name: &str, numbers_of: &Value) -> Tensor {
    let shape = golden["shapes"][name].as_array().unwrap();
    let shape: Vec<usize> = shape.iter().map(|n| n.as_u64().unwrap() as usize).collect();
    Tensor::from_vec(numbers(numbers_of), shape, &Device::Cpu).unwrap()
}

/// The weights that the reference started from.
pub(super) fn initial_parameters() -> Parameters {
    let golden = golden();
    let mut parameters = Parameters::default();
    for (name, numbers) in golden["initial"].as_object().unwrap() {
        let tensor = tensor(&golden, name, numbers);
        let parameter = Parameter::new(name, &tensor, true).unwrap();
        parameters.insert(match name.as_str() {
            "embed_tokens.weight" => parameter.as_embedding(),
            _ => parameter,
        });
    }
    parameters
}

/// The gradients of each step.
pub(super) fn golden_gradients(golden: &Value) -> Vec<Gradients> {
    let steps = golden["gradients"].as_array().unwrap().iter();
    steps
        .map(|step| {
            let mut gradients = Gradients::default();
            for (name, numbers) in step.as_object().unwrap() {
                gradients.add(name, tensor(golden, name, numbers)).unwrap();
            }
            gradients
        })
        .collect()
}

/// All numbers of all weights.
pub(super) fn numbers_of(parameters: &Parameters) -> Vec<f32> {
    let tensors = parameters.iter().map(Parameter::tensor);
    tensors
        .flat_map(|tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap())
        .collect()
}

#[track_caller]
pub(super) fn assert_close(tensor: &Tensor, expected: &Value, name: &str) {
    let actual: Vec<f32> = tensor.flatten_all().unwrap().to_vec1().unwrap();
    let expected = numbers(expected);
    assert_eq!(actual.len(), expected.len());
    for (actual, expected) in actual.iter().zip(&expected) {
        let tolerance = 2e-6 * expected.abs().max(1.0);
        assert!(
            (actual - expected).abs() <= tolerance,
            "{name}: {actual}, not {expected}"
        );
    }
}

/// Trains with the gradients and learning rates of the reference and compares the weights, and the norms if clipped.
#[track_caller]
pub(super) fn check_golden(case: &str, rule: Rule, decay_all: bool, max_norm: Option<f64>) {
    let scope = match decay_all {
        true => DecayScope::All,
        false => DecayScope::Matrices,
    };
    let (parameters, expected) = train(case, rule, scope, max_norm, |_, _| {});
    for parameter in parameters.iter() {
        let expected = &expected["after"][parameter.name()];
        assert_close(&parameter.tensor(), expected, parameter.name());
    }
}

/// Trains as a case of the reference did; `watch` sees the weights before the first step (true) and after each.
pub(super) fn train_golden(
    case: &str,
    watch: impl FnMut(&Parameters, bool),
) -> (Parameters, Value) {
    let adamw = AdamW {
        beta2: 0.95,
        weight_decay: 0.1,
        ..AdamW::default()
    };
    let sgd = Sgd {
        momentum: 0.9,
        nesterov: false,
        weight_decay: 0.01,
    };
    let rule = match case {
        "adamw_all" => adamw.into(),
        _ => sgd.into(),
    };
    train(case, rule, DecayScope::All, None, watch)
}

fn train(
    case: &str,
    rule: Rule,
    scope: DecayScope,
    max_norm: Option<f64>,
    mut watch: impl FnMut(&Parameters, bool),
) -> (Parameters, Value) {
    let golden = golden();
    let expected = golden["cases"][case].clone();
    let parameters = initial_parameters();
    let mut optimizer = Optimizer::new(rule, scope, &parameters).unwrap();
    watch(&parameters, true);
    for (step, gradients) in golden_gradients(&golden).iter().enumerate() {
        let scale = max_norm.map_or(1.0, |max_norm| {
            let norm = clip::gradient_norm(gradients).unwrap();
            let expected = expected["norms"][step].as_f64().unwrap();
            assert!(
                (norm - expected).abs() < 1e-6 * expected,
                "norm {norm}, not {expected}"
            );
            clip::clip_scale(norm, max_norm)
        });
        let rate = golden["rates"][step].as_f64().unwrap();
        optimizer.step(&parameters, gradients, rate, scale).unwrap();
        watch(&parameters, false);
    }
    (parameters, expected)
}

/// Takes three steps on the CPU's path and with `composed`, the device's, on parameters long enough for several
/// chunks, and compares weights and state.
#[track_caller]
pub(super) fn check_composed_equals_in_place(
    rule: Rule,
    composed: impl Fn(&mut Group, &[Part], Update) -> Result<()>,
) {
    let mut random = Random::new(1);
    let mut normal = |rows: usize, columns: usize| {
        let numbers: Vec<f32> = (0..rows * columns)
            .map(|_| random.normal() as f32)
            .collect();
        Tensor::from_vec(numbers, (rows, columns), &Device::Cpu).unwrap()
    };
    let shapes = [
        ("a.weight", 300, 130),
        ("b.weight", 3, 5),
        ("table.weight", 7, 2),
    ];
    let parameter = |name: &str, tensor: &Tensor| {
        let parameter = Parameter::new(name, tensor, true).unwrap();
        match name {
            "table.weight" => parameter.as_embedding(),
            _ => parameter,
        }
    };
    let (mut left, mut right) = (Parameters::default(), Parameters::default());
    for (name, rows, columns) in shapes {
        let tensor = normal(rows, columns);
        left.insert(parameter(name, &tensor));
        let copy = tensor.force_contiguous().unwrap();
        right.insert(parameter(name, &copy));
    }
    let scope = DecayScope::Matrices;
    let mut in_place = Optimizer::new(rule, scope, &left).unwrap();
    let mut joined = Optimizer::new(rule, scope, &right).unwrap();
    for step in 1..=3 {
        let mut gradients = Gradients::default();
        for (name, rows, columns) in shapes {
            gradients.add(name, normal(rows, columns)).unwrap();
        }
        in_place.step(&left, &gradients, 0.1, 0.5).unwrap();
        let update = Update {
            learning_rate: 0.1,
            gradient_scale: 0.5,
            step,
        };
        for group in &mut joined.groups {
            let parts = group.parts(&right, &gradients).unwrap();
            composed(group, &parts, update).unwrap();
        }
        joined.step = step;
    }
    let close = |left: &Tensor, right: &Tensor, name: &str| {
        let [left, right] = [left, right].map(|it| it.to_dtype(DType::F32).unwrap());
        let distance = (left - right).unwrap().abs().unwrap().max_all().unwrap();
        let distance = distance.to_scalar::<f32>().unwrap();
        assert!(distance < 1e-6, "{name}: {distance}");
    };
    for (left, right) in left.iter().zip(right.iter()) {
        close(&left.tensor(), &right.tensor(), left.name());
    }
    let right = joined.state().unwrap();
    for (name, left) in in_place.state().unwrap() {
        if name != super::STEP {
            close(&left, &right[&name], &name);
        }
    }
}
