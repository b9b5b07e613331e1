//! Attention of one query over keys and values in fewer bytes: see [`crate::ops::kept`].
//!
//! Each head of the query reads the keys and values of its key head where they lie, and makes f32 of them in registers.

#[cfg(target_arch = "x86_64")]
mod avx2;

use candle_core::{DType, Tensor};
use half::f16;

use super::{Shape, block::weigh, dims, side_by_side};
use crate::{
    Result,
    ops::{
        attention::{Scoring, Spans},
        kept::{GROUP, GROUP_BYTES},
        kernels::cpu::{Numbers, simd, tensor, with_scratch},
    },
};

/// Keys or values of one key head of one row of the batch: the bytes of its first token, and how far tokens are apart in them.
#[derive(Clone, Copy)]
struct Head<'a> {
    bytes: &'a [u8],
    tokens_apart: usize,
    form: Form,
}

/// What the bytes are.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    F16,
    Q8,
}

impl Form {
    fn bytes(self, width: usize) -> usize {
        match self {
            Self::F16 => 2 * width,
            Self::Q8 => width / GROUP * GROUP_BYTES,
        }
    }
}

/// The output [b, 1, h, e] for q of this shape and keys and values [b, s, k, ..] that are both kept alike.
pub(crate) fn decode(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    spans: &Spans,
    scoring: Scoring,
) -> Result<Tensor> {
    let width = q.dim(3)?;
    let wide = |kept: &Tensor| dims(kept).map(|[rows, keys, heads, _]| [rows, keys, heads, width]);
    let shape = Shape::of(q, wide(k)?, wide(v)?, spans)?;
    let (q, k, v) = (q.contiguous()?, side_by_side(k)?, side_by_side(v)?);
    let numbers = Numbers::of(&q)?;
    let y = match k.dtype() {
        DType::U8 => {
            let (keys, values) = (Numbers::<u8>::strided(&k)?, Numbers::<u8>::strided(&v)?);
            let both = [(&keys[..], k.stride()), (&values[..], v.stride())];
            heads(shape, &numbers, both, Form::Q8, spans, scoring)
        }
        _ => {
            let (keys, values) = (Numbers::<f16>::strided(&k)?, Numbers::<f16>::strided(&v)?);
            let strides =
                [k.stride(), v.stride()].map(|it| it.iter().map(|it| 2 * it).collect::<Vec<_>>());
            let both = [
                (bytes_of(&keys), &strides[0][..]),
                (bytes_of(&values), &strides[1][..]),
            ];
            heads(shape, &numbers, both, Form::F16, spans, scoring)
        }
    };
    tensor(y, q.shape())
}

#[allow(unsafe_code)]
fn bytes_of(numbers: &[f16]) -> &[u8] {
    // SAFETY: an f16 has two bytes, each of which may be anything.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

/// All heads, from keys and values with their strides in bytes.
fn heads(
    shape: Shape,
    q: &[f32],
    both: [(&[u8], &[usize]); 2],
    form: Form,
    spans: &Spans,
    scoring: Scoring,
) -> Vec<f32> {
    shape.by_head(|row, head, y| {
        let (first, end) = spans.runs[row];
        let [keys, values] = both.map(|(bytes, stride)| Head {
            bytes: &bytes
                [row * stride[0] + first as usize * stride[1] + head / shape.group * stride[2]..],
            tokens_apart: stride[1],
            form,
        });
        let heads = shape.key_heads * shape.group;
        let q = &q[(row * heads + head) * shape.width..][..shape.width];
        with_scratch((end - first) as usize, |weights| {
            keys.dots(q, weights);
            simd(
                #[inline(always)]
                || weigh(weights, scoring),
            );
            values.add_up(weights, y);
        });
    })
}

impl Head<'_> {
    /// The bytes of a token.
    fn token(&self, token: usize, width: usize) -> &[u8] {
        &self.bytes[token * self.tokens_apart..][..self.form.bytes(width)]
    }

    /// The numbers of a token, one after the other.
    fn numbers(&self, token: usize, width: usize, mut each: impl FnMut(usize, f32)) {
        let half = |bytes: &[u8]| f16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
        let row = self.token(token, width);
        match self.form {
            Form::F16 => {
                for (at, bytes) in row.chunks_exact(2).enumerate() {
                    each(at, half(bytes));
                }
            }
            Form::Q8 => {
                for (group, bytes) in row.chunks_exact(GROUP_BYTES).enumerate() {
                    let (scale, codes) = bytes.split_at(2);
                    let scale = half(scale);
                    for (at, code) in codes.iter().enumerate() {
                        each(group * GROUP + at, scale * f32::from(*code as i8));
                    }
                }
            }
        }
    }

    /// Products of q [e] with the keys of as many tokens as there are `dots`.
    fn dots(&self, q: &[f32], dots: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if avx2::dots(self, q, dots) {
            return;
        }
        for (token, dot) in dots.iter_mut().enumerate() {
            *dot = 0.0;
            self.numbers(token, q.len(), |at, key| *dot = q[at].mul_add(key, *dot));
        }
    }

    /// Overwrites y [e] with the sum of values, each times its weight.
    fn add_up(&self, weights: &[f32], y: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if avx2::add_up(self, weights, y) {
            return;
        }
        y.fill(0.0);
        for (token, weight) in weights.iter().enumerate() {
            self.numbers(token, y.len(), |at, value| {
                y[at] = weight.mul_add(value, y[at]);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use crate::{
        ops::{
            attention::{Scoring, Spans, attention},
            kept::{CacheType, widen},
            testing::normal,
        },
        tape::Value,
    };

    /// Attention of a query over what is kept is that over the numbers it stands for.
    #[track_caller]
    fn check(kept: CacheType, heads: usize, key_heads: usize, width: usize, window: Option<usize>) {
        let (rows, keys) = (2, 21);
        let normal = |seed, shape: &[usize]| normal(seed, shape).to_dtype(DType::F32).unwrap();
        let q = normal(1, &[rows, 1, heads, width]);
        let both = [2, 3].map(|seed| {
            kept.keep(&normal(seed, &[rows, keys, key_heads, width]))
                .unwrap()
        });
        // As in a cache with room for more.
        let both = both.map(|it| it.narrow(1, 0, keys - 1).unwrap());
        let spans = Spans::causal(rows, 1, keys - 2, window);
        let scoring = Scoring {
            scale: 0.3,
            soft_cap: window.map(|_| 5.0),
        };
        let y = |both: [_; 2]| {
            let [k, v] = both.map(Value::constant);
            let y = attention(&Value::constant(q.clone()), &k, &v, &spans, scoring).unwrap();
            y.tensor().flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        let expected = y(both.each_ref().map(|it| widen(it).unwrap()));
        for (found, expected) in y(both).iter().zip(&expected) {
            assert!(
                (found - expected).abs() < 2e-6,
                "{kept:?} {width}: {found} {expected}"
            );
        }
        // What is kept is near to what was given.
        let given = normal(2, &[rows, keys, key_heads, width]);
        let far = (widen(&kept.keep(&given).unwrap()).unwrap() - given).unwrap();
        let far = far.abs().unwrap().flatten_all().unwrap().max(0).unwrap();
        assert!(far.to_scalar::<f32>().unwrap() < 0.02);
    }

    #[test]
    fn one_query_attends_to_keys_in_16_and_8_bits_as_to_their_numbers() {
        check(CacheType::F16, 6, 2, 64, None);
        check(CacheType::F16, 3, 3, 80, Some(7));
        check(CacheType::F16, 2, 1, 20, None);
        check(CacheType::Q8, 6, 2, 64, None);
        check(CacheType::Q8, 4, 1, 96, Some(7));
        check(CacheType::Q8, 4, 2, 32, None);
    }
}
