//! Finite differences: the check every operation has to pass, in f64 on the CPU.

use candle_core::{DType, Device, Tensor};

use crate::{
    Result,
    random::Random,
    tape::{Gradients, Tape, Value},
};

/// A tensor of normal numbers, f64, on the CPU.
pub(crate) fn normal(seed: u64, shape: &[usize]) -> Tensor {
    let mut random = Random::new(seed);
    let numbers: Vec<f64> = (0..shape.iter().product())
        .map(|_| random.normal())
        .collect();
    Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap()
}

/// Compares the gradient of every input with central differences of `operation`.
///
/// The output is reduced to one number by a fixed random projection, so that every element of it matters.
#[track_caller]
pub(crate) fn check_gradients(
    inputs: &[Tensor],
    operation: impl Fn(&Tape, &[Value]) -> Result<Value>,
) {
    let run = |inputs: &[Tensor]| {
        let tape = Tape::new(5);
        let values: Vec<Value> = inputs.iter().map(|it| tape.input(it.clone())).collect();
        let output = operation(&tape, &values).unwrap();
        (tape, values, output)
    };
    let (tape, values, output) = run(inputs);
    assert!(output.wants_gradient(), "the operation recorded nothing");
    let projection = normal(99, output.tensor().dims());
    let wanted: Vec<&Value> = values.iter().collect();
    let seed = projection.clone();
    let gradients = tape.backward_to(&output, seed, &wanted, &mut Gradients::default());
    let gradients = gradients.unwrap();

    let project = |inputs: &[Tensor]| {
        let output = run(inputs).2.tensor().to_dtype(DType::F64).unwrap();
        let sum = (output * &projection).unwrap().sum_all().unwrap();
        sum.to_scalar::<f64>().unwrap()
    };
    for (index, gradient) in gradients.into_iter().enumerate() {
        let gradient = gradient.unwrap_or_else(|| panic!("input {index} got no gradient"));
        assert_eq!(gradient.dims(), inputs[index].dims(), "input {index}");
        let gradient = flat(&gradient);
        let numbers = flat(&inputs[index]);
        for element in 0..numbers.len() {
            let step = 1e-5;
            let at = |shift: f64| {
                let mut moved = numbers.clone();
                moved[element] += shift;
                let mut inputs = inputs.to_vec();
                inputs[index] =
                    Tensor::from_vec(moved, inputs[index].dims(), &Device::Cpu).unwrap();
                project(&inputs)
            };
            let numeric = (at(step) - at(-step)) / (2.0 * step);
            let difference = (gradient[element] - numeric).abs();
            assert!(
                difference <= 1e-6 * (1.0 + numeric.abs()),
                "input {index}, element {element}: gradient {}, finite difference {numeric}",
                gradient[element]
            );
        }
    }
}

/// Compares an operation in f32, as a kernel for the CPU computes it, with the same composed and in f64: output and
/// gradients.
#[track_caller]
pub(crate) fn check_kernel(
    inputs: &[Tensor],
    tolerance: f64,
    operation: impl Fn(&[Value]) -> Result<Value>,
) {
    check_kernel_on(&Device::Cpu, DType::F32, inputs, tolerance, operation);
}

/// The same for a kernel for another device and dtype.
///
/// Inputs go in as they are, and once more as parts of larger tensors, with another offset and other strides.
#[track_caller]
pub(crate) fn check_kernel_on(
    device: &Device,
    dtype: DType,
    inputs: &[Tensor],
    tolerance: f64,
    operation: impl Fn(&[Value]) -> Result<Value>,
) {
    let run = |inputs: Vec<Tensor>| {
        let tape = Tape::new(5);
        let values: Vec<Value> = inputs.into_iter().map(|input| tape.input(input)).collect();
        let output = operation(&values).unwrap();
        let wanted: Vec<&Value> = values.iter().collect();
        let y = output.tensor();
        let seed = normal(99, y.dims()).to_dtype(y.dtype()).unwrap();
        let seed = seed.to_device(y.device()).unwrap();
        let results = tape.backward_to(&output, seed, &wanted, &mut Gradients::default());
        let mut results = results.unwrap();
        results.push(Some(output.tensor().clone()));
        results
    };
    let expected = run(inputs.to_vec());
    let narrow = |input: &Tensor| input.to_dtype(dtype).unwrap().to_device(device).unwrap();
    let plain = inputs.iter().map(narrow).collect();
    let inside = |input| inside_of_larger(&narrow(input));
    let inside = inputs.iter().map(inside).collect();
    for (layout, inputs) in [("plain", plain), ("inside", inside)] {
        for (index, (got, expected)) in run(inputs).iter().zip(&expected).enumerate() {
            let (Some(got), Some(expected)) = (got, expected) else {
                panic!("input {index} got no gradient");
            };
            let what = format!("{layout}, result {index}");
            check_close(&what, got, expected, tolerance);
        }
    }
}

/// Compares an f32 result with a reference, relative to the reference's largest number.
#[track_caller]
pub(crate) fn check_close(what: &str, got: &Tensor, expected: &Tensor, tolerance: f64) {
    assert_eq!(got.dims(), expected.dims(), "{what}: shape");
    let (got, expected) = (flat(got), flat(expected));
    let scale = expected
        .iter()
        .fold(1e-3f64, |largest, x| largest.max(x.abs()));
    for (index, (got, expected)) in got.iter().zip(&expected).enumerate() {
        let close = (got - expected).abs() <= tolerance * scale;
        assert!(
            close,
            "{what}, element {index}: {got}, expected {expected} (largest {scale})"
        );
    }
}

/// The same numbers as a part of a larger tensor, every dimension of which begins before and ends after it.
fn inside_of_larger(tensor: &Tensor) -> Tensor {
    let mut larger = tensor.clone();
    for dim in 0..tensor.rank() {
        larger = larger.pad_with_same(dim, 1, 2).unwrap();
    }
    for dim in 0..tensor.rank() {
        larger = larger.narrow(dim, 1, tensor.dims()[dim]).unwrap();
    }
    larger
}

fn flat(tensor: &Tensor) -> Vec<f64> {
    let wide = tensor.flatten_all().unwrap().to_dtype(DType::F64).unwrap();
    wide.to_vec1().unwrap()
}
