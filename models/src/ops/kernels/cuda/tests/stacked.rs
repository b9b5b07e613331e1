//! Weights that are converted together, beside each of them alone.

use candle_core::{DType, Tensor};

use super::device;
use crate::{
    ops::{
        elementwise::{add, reshape},
        feed_forward::{Along, feed_forward},
        gated::{Activation, gated},
        linear::{linear, stacked_linear},
        rope::{Rope, RopeScaling, rope, turned_heads},
        testing::normal,
        weight::Stacked,
    },
    tape::{Gradients, Tape, Value},
};

/// Tokens, numbers of each, those of a head, and the numbers inside of a feed-forward part.
const TOKENS: usize = 70;
const WIDTH: usize = 64;
const HEAD_DIM: usize = 16;
const INNER: usize = 96;

/// What comes out, and the gradients of x and of all weights, of heads that are turned and added up, and of a feed-forward part after
/// them. The weights are in f32, and x in another dtype.
fn run(dtype: DType, together: bool) -> Vec<Tensor> {
    let device = device();
    let tape = Tape::new(1);
    let draw = |seed, shape: &[usize], dtype| {
        let small = 1.0 / (shape[shape.len() - 1] as f64).sqrt();
        let drawn = (normal(seed, shape) * small).unwrap().to_dtype(dtype);
        tape.input(drawn.unwrap().to_device(&device).unwrap())
    };
    let x = draw(1, &[2, TOKENS, WIDTH], dtype);
    let heads = [2, 2, 2];
    let qkv = [2, 3, 4].map(|seed| draw(seed, &[2 * HEAD_DIM, WIDTH], DType::F32));
    let output = draw(5, &[WIDTH, 2 * HEAD_DIM], DType::F32);
    let [gate, up] = [6, 7].map(|seed| draw(seed, &[INNER, WIDTH], DType::F32));
    let down = draw(8, &[WIDTH, INNER], DType::F32);
    let weights: Vec<Value> = [&qkv[..], &[output, gate, up, down]].concat();
    let [.., output, gate, up, down] = weights.as_slice() else {
        panic!("seven weights")
    };
    let joined = Stacked::new(
        weights.iter().map(|it| it.tensor().clone()).collect(),
        dtype,
    );
    let find = |values: &[Value]| joined.find(values).unwrap();
    let alone = |weight: &Value, count: usize| {
        let y = linear(&x, weight, None).unwrap();
        reshape(&y, &[2, TOKENS, count, HEAD_DIM]).unwrap()
    };
    let positions: Vec<u32> = (0..2 * TOKENS as u32).collect();
    let table = Rope::new(HEAD_DIM, 1e4, &RopeScaling::None);
    let rotation = table.rotation(&positions, 2, &device).unwrap();
    let turned: Vec<Value> = match together {
        true => {
            let all = stacked_linear(&x, &find(&qkv), &[]).unwrap();
            let turned = turned_heads(&all, heads, HEAD_DIM, Some(&rotation));
            turned.unwrap().to_vec()
        }
        false => {
            let mut parts: Vec<Value> = qkv.iter().map(|it| alone(it, 2)).collect();
            for part in &mut parts[..2] {
                *part = rope(part, &rotation).unwrap();
            }
            parts
        }
    };
    let y = add(&add(&turned[0], &turned[1]).unwrap(), &turned[2]).unwrap();
    let y = reshape(&y, &[2, TOKENS, 2 * HEAD_DIM]).unwrap();
    let y = match together {
        true => linear(&y, &find(std::slice::from_ref(output)), None).unwrap(),
        false => linear(&y, output, None).unwrap(),
    };
    let y = match together {
        true => {
            let both = find(&[gate.clone(), up.clone()]);
            let down = find(std::slice::from_ref(down));
            feed_forward(&y, &both, &down, Activation::Silu, Along::Last).unwrap()
        }
        false => {
            let [gate, up] = [gate, up].map(|it| linear(&y, it, None).unwrap());
            linear(&gated(&gate, &up, Activation::Silu).unwrap(), down, None).unwrap()
        }
    };
    joined.forget();
    let seed = y.tensor().affine(0.5, 0.1).unwrap();
    let inputs: Vec<&Value> = [&x].into_iter().chain(&weights).collect();
    let gradients = tape.backward_to(&y, seed, &inputs, &mut Gradients::default());
    let gradients = gradients.unwrap().into_iter().map(Option::unwrap);
    gradients.chain([y.tensor().clone()]).collect()
}

#[test]
#[ignore = "needs a CUDA device"]
fn weights_that_cuda_converts_together_give_what_each_gives_alone() {
    for (dtype, tolerance) in [(DType::BF16, 3e-2), (DType::F16, 4e-3)] {
        for (found, expected) in run(dtype, true).iter().zip(run(dtype, false)) {
            assert_eq!(
                (found.dims(), found.dtype()),
                (expected.dims(), expected.dtype())
            );
            let numbers = |it: &Tensor| {
                let flat = it.to_dtype(DType::F32).unwrap().flatten_all().unwrap();
                flat.to_vec1::<f32>().unwrap()
            };
            let (found, expected) = (numbers(found), numbers(&expected));
            let largest = expected.iter().fold(0f32, |most, it| most.max(it.abs()));
            let apart = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
            let apart = apart.fold(0f32, f32::max) / largest;
            assert!(largest > 0.0 && apart < tolerance, "{dtype:?}: {apart:e}");
        }
    }
}
