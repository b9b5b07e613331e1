//! Linear layers and adapters: odd sizes, one row, products over more than 1024 numbers, and weights in other dtypes
//! than what they are multiplied with.

use candle_core::{
    D, DType, Device,
    quantized::{GgmlDType, QTensor},
};

use super::trial::{Input, Operation, StepTrial, stored_dtypes, trial};
use crate::{
    Error, Result,
    device::dtype::{DeviceClass, Dtype},
    ops::{
        dropout::Dropout,
        elementwise::{add, narrow, scale},
        feed_forward::{Along, feed_forward},
        gated::Activation,
        linear::{linear, stacked_linear},
        lora::{AdaptedLinear, Adapter, joined_linears_with_adapters, linears_with_adapters},
        rope::turned_heads,
        weight::{Converted, Quantized, Stacked, nf4::MakeNf4},
    },
    tape::Value,
};

/// The longest sum of a product.
const DEEPEST: usize = 1536;

pub(super) fn linear_layers(class: DeviceClass, dtype: Dtype) -> Result<Operation> {
    let x = |shape: &[usize]| Input::activation("x", shape);
    let layer = |x: Input, columns: usize| -> Result<StepTrial> {
        let weight = Input::master("weight", &[columns, x.width()])?;
        let bias = Input::master("bias", &[columns])?;
        let inputs = vec![x, weight, bias];
        Ok(trial(inputs, |_, v| linear(&v[0], &v[1], Some(&v[2]))))
    };
    let frozen =
        |x: Input, weight: Input| trial(vec![x, weight], |_, v| linear(&v[0], &v[1], None));
    let mut trials = vec![
        layer(x(&[1, 70])?, 300)?,
        layer(x(&[3, 129])?, 65)?,
        layer(x(&[2, 5, 1025])?, 31)?,
        layer(x(&[37, 33])?.transposed(), 450)?,
        layer(x(&[3, 7, 24])?.inside(), 16)?,
        layer(x(&[33, 65])?.affine(1e3, 0.0)?, 17)?,
        layer(x(&[33, 65])?.affine(1e-3, 0.0)?, 17)?,
        // As when text is generated: nothing learns.
        frozen(
            x(&[1, DEEPEST])?.frozen(),
            Input::activation("weight", &[257, DEEPEST])?.frozen(),
        ),
        frozen(
            x(&[4, 130])?,
            Input::activation("weight", &[330, 130])?.frozen(),
        ),
    ];
    for stored in stored_dtypes(class, dtype) {
        for rows in [1, 70] {
            let weight = Input::stored("weight", &[330, 130], stored)?;
            trials.push(frozen(x(&[rows, 130])?, weight));
        }
    }
    trials.push(in_blocks(x(&[70, 256])?, 330)?);
    // Blocks that go across rows.
    trials.push(in_four_bits(x(&[70, 130])?, 330)?);
    trials.push(stacked(x(&[2, 33, 64])?)?);
    // The last is timed.
    trials.push(layer(x(&[2, 256, 512])?, 768)?);
    Operation::of(DEEPEST, trials)
}

/// Heads of layers whose weights are converted together.
fn stacked(x: Input) -> Result<StepTrial> {
    let weight = |name| Input::master(name, &[48, x.width()]);
    let inputs = vec![weight("q")?, weight("k")?, weight("v")?];
    let inputs = [vec![x], inputs].concat();
    Ok(trial(inputs, |_, v| {
        let weights = v[1..].iter().map(|it| it.tensor().clone()).collect();
        let stacked = Stacked::new(weights, v[0].tensor().dtype());
        let weights = stacked.find(&v[1..]);
        let weights = weights.ok_or_else(|| Error::Data("no stacked weights".to_owned()))?;
        let all = stacked_linear(&v[0], &weights, &[])?;
        let [q, k, v] = turned_heads(&all, [3, 3, 3], 16, None)?;
        stacked.forget();
        add(&add(&q, &k)?, &v)
    }))
}

/// A frozen weight in quantized blocks.
fn in_blocks(x: Input, columns: usize) -> Result<StepTrial> {
    let weight = Input::activation("weight", &[columns, x.width()])?.frozen();
    Ok(trial(vec![x, weight], |_, v| {
        let numbers = v[1].tensor().to_device(&Device::Cpu)?.force_contiguous()?;
        let device = v[0].tensor().device();
        let blocks = QTensor::quantize_onto(&numbers, GgmlDType::Q8_0, device)?;
        linear(&v[0], Quantized::new(blocks)?, None)
    }))
}

/// The same in NF4.
fn in_four_bits(x: Input, columns: usize) -> Result<StepTrial> {
    let shape = [columns, x.width()];
    let weight = Input::activation("weight", &shape)?.frozen();
    Ok(trial(vec![x, weight], move |_, v| {
        let numbers = v[1]
            .tensor()
            .to_device(&Device::Cpu)?
            .to_dtype(DType::F32)?;
        let mut made = MakeNf4::new(shape);
        made.push(&numbers.flatten_all()?.to_vec1()?);
        let blocks = made.nested().on(v[0].tensor().device())?;
        linear(&v[0], Quantized::new(blocks)?, None)
    }))
}

/// A sequence of 97 places has no whole packs of numbers, which products along it have to live with.
pub(super) fn feed_forward_parts() -> Result<Operation> {
    let mut trials = Vec::new();
    for along in [Along::First, Along::Last] {
        for (width, inner, others) in [(7, 5, 1), (33, 24, 65), (97, 64, 520), (64, 512, 130)] {
            let shape = match along {
                Along::First => [width, others],
                Along::Last => [others, width],
            };
            // Products as large as what goes into them, as those of a model.
            let weight = |name, rows: usize, columns: usize| {
                Input::master(name, &[rows, columns])?.affine(1.0 / (columns as f64).sqrt(), 0.0)
            };
            let inputs = vec![
                Input::activation("x", &shape)?,
                weight("gate and up", 2 * inner, width)?,
                weight("down", width, inner)?,
            ];
            trials.push(trial(inputs, move |_, v| {
                let dtype = v[0].tensor().dtype();
                let [up, down] = [1, 2].map(|at| Converted::new(&v[at], dtype));
                feed_forward(&v[0], &up?, &down?, Activation::Silu, along)
            }));
        }
    }
    Operation::of(2 * 512, trials)
}

pub(super) fn adapters(class: DeviceClass, dtype: Dtype) -> Result<Operation> {
    let x = |shape: &[usize]| Input::activation("x", shape);
    let kept = |columns: usize, width: usize| -> Result<Input> {
        Ok(Input::activation("weight", &[columns, width])?.frozen())
    };
    let mut trials = vec![
        with_adapter(x(&[1, 70])?, kept(5, 70)?, 1, 0.0)?,
        with_adapter(x(&[3, 129])?, kept(65, 129)?, 8, 0.0)?,
        with_adapter(x(&[2, 5, 1025])?, kept(31, 1025)?, 3, 0.0)?,
        with_adapter(x(&[40, 24])?.transposed(), kept(16, 24)?, 4, 0.0)?,
        with_adapter(x(&[3, 7, 24])?.inside(), kept(16, 24)?, 4, 0.3)?,
        with_adapter(x(&[33, 65])?.affine(1e3, 0.0)?, kept(17, 65)?, 4, 0.0)?,
    ];
    for stored in stored_dtypes(class, dtype) {
        let weight = Input::stored("weight", &[330, 130], stored)?;
        trials.push(with_adapter(x(&[70, 130])?, weight, 8, 0.0)?);
    }
    trials.push(with_adapters(x(&[3, 43])?, 17, &[3, 8], false)?);
    trials.push(with_adapters(x(&[70, 136])?, 48, &[8, 16, 8], false)?);
    // Elsewhere they are computed one by one.
    if matches!(class, DeviceClass::CudaBefore80 | DeviceClass::Cuda80) && dtype != Dtype::F32 {
        trials.push(with_adapters(x(&[3, 43])?, 17, &[3, 8], true)?);
        trials.push(with_adapters(x(&[70, 136])?, 48, &[8, 16, 8], true)?);
    }
    trials.push(with_adapter(x(&[2, 256, 512])?, kept(768, 512)?, 16, 0.0)?);
    Operation::of(DEEPEST, trials)
}

fn with_adapter(x: Input, weight: Input, rank: usize, dropout: f64) -> Result<StepTrial> {
    let b = Input::master("B", &[weight.dims()[0], rank])?;
    let inputs = vec![x, weight];
    adapted(inputs, vec![b], dropout, false)
}

/// A sum of layers of one input, each with a rank of its own, one by one or by one product.
fn with_adapters(x: Input, columns: usize, ranks: &[usize], joined: bool) -> Result<StepTrial> {
    let shape = [columns * ranks.len(), x.width()];
    let name = if joined { "joined weights" } else { "weights" };
    let weight = Input::activation(name, &shape)?.frozen();
    let b = |rank: &usize| Input::master("B", &[columns, *rank]);
    let b = ranks.iter().map(b).collect::<Result<_>>()?;
    adapted(vec![x, weight], b, 0.0, joined)
}

/// Layers whose weights lie below each other.
fn adapted(mut inputs: Vec<Input>, b: Vec<Input>, dropout: f64, joined: bool) -> Result<StepTrial> {
    let width = inputs[0].width();
    for (at, b) in b.into_iter().enumerate() {
        let size = 0.1 * (at + 1) as f64;
        inputs.push(Input::master("A", &[b.width(), width])?.affine(size, 0.0)?);
        inputs.push(b);
    }
    Ok(trial(inputs, move |tape, v| {
        let below = v[1].tensor();
        let columns = v[3].tensor().dim(0)?;
        let layer = |(at, parts): (usize, &[Value])| -> Result<AdaptedLinear> {
            let weight = Value::constant(below.narrow(0, at * columns, columns)?);
            Ok(AdaptedLinear {
                weight: (&weight).into(),
                bias: None,
                adapter: Adapter {
                    a: parts[0].clone(),
                    b: parts[1].clone(),
                    scale: 0.5 + at as f64,
                    dropout: Dropout::new(Some(tape), dropout, "x"),
                },
            })
        };
        let layers = v[2..].chunks(2).enumerate().map(layer);
        let layers: Vec<_> = layers.collect::<Result<_>>()?;
        let all = match joined {
            true => joined_linears_with_adapters(&v[0], &layers, below)?,
            false => None,
        };
        let outputs = match all {
            Some(all) => {
                let part = |at| narrow(&all, D::Minus1, at * columns, columns);
                (0..layers.len()).map(part).collect::<Result<_>>()?
            }
            None => linears_with_adapters(&v[0], &layers)?,
        };
        let (first, rest) = outputs
            .split_first()
            .ok_or_else(|| Error::Data("no layer".to_owned()))?;
        let mut factors = [-0.5, 2.0].into_iter().cycle();
        rest.iter().try_fold(first.clone(), |sum, y| {
            add(&sum, &scale(y, factors.next().unwrap_or(1.0))?)
        })
    }))
}
