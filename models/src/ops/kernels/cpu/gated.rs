//! The gate of a feed-forward part, in one pass each way. Saves a and c.

use candle_core::Tensor;

use crate::{
    Result,
    ops::{
        feed_forward::Along,
        gated::Activation,
        kernels::cpu::{
            BLOCK, Numbers, block_rows, filled,
            math::{erf, exp, sigmoid, tanh},
            pieces, pieces_of_two, simd, tensor,
        },
    },
    tape::Value,
};

/// See [`gated`](crate::ops::gated::gated).
pub(crate) fn gated(gate: &Value, up: &Value, activation: Activation) -> Result<Value> {
    let (a, c) = (gate.tensor().contiguous()?, up.tensor().contiguous()?);
    let y = forward(&a, &c, activation)?;
    Ok(Value::record(y, &[gate, up], move |gradient: Tensor| {
        let [da, dc] = backward(&a, &c, &gradient.contiguous()?, activation)?;
        Ok(vec![Some(da), Some(dc)])
    }))
}

fn forward(a: &Tensor, c: &Tensor, activation: Activation) -> Result<Tensor> {
    let (a_numbers, c) = (Numbers::of(a)?, Numbers::of(c)?);
    let (a_numbers, c): (&[f32], &[f32]) = (&a_numbers, &c);
    let y = filled(c.len(), |y| {
        pieces(y, BLOCK, |index, y| {
            let part = index * BLOCK..index * BLOCK + y.len();
            let (a, c) = (&a_numbers[part.clone()], &c[part]);
            simd(
                #[inline(always)]
                || match activation {
                    Activation::Silu => apply(a, c, y, silu),
                    Activation::Gelu => apply(a, c, y, gelu),
                    Activation::GeluTanh => apply(a, c, y, gelu_tanh),
                },
            );
        });
    });
    tensor(y, a.shape())
}

fn backward(a: &Tensor, c: &Tensor, g: &Tensor, activation: Activation) -> Result<[Tensor; 2]> {
    let shape = a.shape();
    let (a, c, g) = (Numbers::of(a)?, Numbers::of(c)?, Numbers::of(g)?);
    let (a, c, g): (&[f32], &[f32], &[f32]) = (&a, &c, &g);
    let mut da = Vec::new();
    let dc = filled(a.len(), |dc| {
        da = filled(a.len(), |da| {
            pieces_of_two((da, BLOCK), (dc, BLOCK), |index, da, dc| {
                let part = index * BLOCK..index * BLOCK + da.len();
                let inputs = (&a[part.clone()], &c[part.clone()], &g[part]);
                simd(
                    #[inline(always)]
                    || match activation {
                        Activation::Silu => differentiate(inputs, da, dc, silu),
                        Activation::Gelu => differentiate(inputs, da, dc, gelu),
                        Activation::GeluTanh => differentiate(inputs, da, dc, gelu_tanh),
                    },
                );
            });
        });
    });
    Ok([tensor(da, shape)?, tensor(dc, shape)?])
}

/// See [`halves`](crate::ops::gated::halves).
pub(crate) fn halves(both: &Tensor, activation: Activation, along: Along) -> Result<Tensor> {
    let both = both.contiguous()?;
    let (rows, inner, shape) = lines(&both, along)?;
    let numbers = Numbers::of(&both)?;
    let numbers: &[f32] = &numbers;
    // A block is some whole lines, or a part of the only one.
    let block = if rows == 1 {
        BLOCK
    } else {
        block_rows(inner) * inner
    };
    let y = filled(rows * inner, |y| {
        pieces(y, block, |index, y| {
            let (line, first) = (index * block / inner, index * block % inner);
            let lines = numbers[line * 2 * inner..].chunks(2 * inner);
            simd(
                #[inline(always)]
                || {
                    for (line, y) in lines.clone().zip(y.chunks_mut(inner)) {
                        let (a, c) = line.split_at(inner);
                        let part = first..first + y.len();
                        let (a, c) = (&a[part.clone()], &c[part]);
                        match activation {
                            Activation::Silu => apply(a, c, y, silu),
                            Activation::Gelu => apply(a, c, y, gelu),
                            Activation::GeluTanh => apply(a, c, y, gelu_tanh),
                        }
                    }
                },
            );
        });
    });
    tensor(y, shape)
}

/// See [`halves_back`](crate::ops::gated::halves_back).
pub(crate) fn halves_back(
    both: &Tensor,
    gradient: &Tensor,
    activation: Activation,
    along: Along,
) -> Result<(Tensor, Tensor)> {
    let h = halves(both, activation, along)?;
    let (both, gradient) = (both.contiguous()?, gradient.contiguous()?);
    let (rows, inner, _) = lines(&both, along)?;
    let (numbers, g) = (Numbers::of(&both)?, Numbers::of(&gradient)?);
    let (numbers, g): (&[f32], &[f32]) = (&numbers, &g);
    let differentiate = |line: &[f32], first: usize, g: &[f32], da: &mut [f32], dc: &mut [f32]| {
        let (a, c) = line.split_at(inner);
        let part = first..first + g.len();
        let inputs = (&a[part.clone()], &c[part], g);
        simd(
            #[inline(always)]
            || match activation {
                Activation::Silu => differentiate(inputs, da, dc, silu),
                Activation::Gelu => differentiate(inputs, da, dc, gelu),
                Activation::GeluTanh => differentiate(inputs, da, dc, gelu_tanh),
            },
        );
    };
    let d_both = filled(numbers.len(), |d_both| {
        if rows == 1 {
            let (da, dc) = d_both.split_at_mut(inner);
            return pieces_of_two((da, BLOCK), (dc, BLOCK), |index, da, dc| {
                let first = index * BLOCK;
                differentiate(numbers, first, &g[first..][..da.len()], da, dc);
            });
        }
        let block = block_rows(2 * inner);
        pieces(d_both, block * 2 * inner, |index, d_both| {
            let first = index * block;
            let lines = numbers[first * 2 * inner..].chunks(2 * inner);
            let gradients = g[first * inner..].chunks(inner);
            for ((line, g), d) in lines.zip(gradients).zip(d_both.chunks_mut(2 * inner)) {
                let (da, dc) = d.split_at_mut(inner);
                differentiate(line, 0, g, da, dc);
            }
        });
    });
    Ok((h, tensor(d_both, both.shape())?))
}

/// Lines of two halves side by side, the numbers in a half, and the shape of all halves: one line where the halves are the first
/// dimension, else one for each row.
fn lines(both: &Tensor, along: Along) -> Result<(usize, usize, (usize, usize))> {
    let (first, second) = both.dims2()?;
    Ok(match along {
        Along::First => (1, first / 2 * second, (first / 2, second)),
        Along::Last => (first, second / 2, (first, second / 2)),
    })
}

#[inline(always)]
fn apply(a: &[f32], c: &[f32], y: &mut [f32], function: impl Fn(f32) -> (f32, f32)) {
    for ((y, a), c) in y.iter_mut().zip(a).zip(c) {
        *y = function(*a).0 * c;
    }
}

#[inline(always)]
fn differentiate(
    (a, c, g): (&[f32], &[f32], &[f32]),
    da: &mut [f32],
    dc: &mut [f32],
    function: impl Fn(f32) -> (f32, f32),
) {
    for ((((da, dc), a), c), g) in da.iter_mut().zip(dc).zip(a).zip(c).zip(g) {
        let (value, slope) = function(*a);
        *da = g * c * slope;
        *dc = g * value;
    }
}

/// φ(x) and φ'(x). Where only one is used, the compiler drops the other.
#[inline(always)]
fn silu(x: f32) -> (f32, f32) {
    let s = sigmoid(x);
    (x * s, s * (1.0 - s).mul_add(x, 1.0))
}

#[inline(always)]
pub(crate) fn gelu(x: f32) -> (f32, f32) {
    const ROOT: f32 = 0.398_942_3; // 1/√(2π)
    let phi = erf(x * std::f32::consts::FRAC_1_SQRT_2).mul_add(0.5, 0.5);
    (x * phi, (x * ROOT).mul_add(exp(-0.5 * x * x), phi))
}

#[inline(always)]
fn gelu_tanh(x: f32) -> (f32, f32) {
    const ROOT: f32 = 0.797_884_6; // √(2/π)
    const CUBIC: f32 = 0.044_715 * ROOT;
    // Beyond, the tangent is 1 or -1 to the last digit, and powers of x would overflow.
    let inner = x.clamp(-16.0, 16.0);
    let square = inner * inner;
    let t = tanh(inner * square.mul_add(CUBIC, ROOT));
    let half = t.mul_add(0.5, 0.5);
    let slope = square.mul_add(3.0 * CUBIC, ROOT);
    (x * half, (inner * slope).mul_add(0.5 - 0.5 * t * t, half))
}
