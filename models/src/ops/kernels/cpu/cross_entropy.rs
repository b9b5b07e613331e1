//! The head and its loss: the logits of a chunk are made once, and become their own gradient where they stand.

use candle_core::{DType, Tensor};

use crate::{
    Result,
    ops::kernels::cpu::{
        Numbers, filled,
        linear::{add_weight_gradient, back_onto, project_onto, with_stored},
        math::{exp, largest, sum, tanh},
        pieces_of_two,
        product::{Output, Stored},
        simd, tensor, with_scratch,
    },
    tape::Value,
};

/// Logits in one chunk: 64 MiB. More rows read the head less often.
const CHUNK_LOGITS: usize = 1 << 24;

/// What is computed besides the loss.
#[derive(Clone, Copy)]
struct Wanted {
    hidden: bool,
    head: bool,
}

/// The loss and, where they are wanted, the gradients of the hidden states [n, d] and of the head [v, d].
struct Learned {
    loss: f32,
    hidden_gradient: Vec<f32>,
    head_gradient: Vec<f32>,
}

/// See [`head_cross_entropy`](crate::ops::cross_entropy::head_cross_entropy). `rows` are those with a target.
pub(crate) fn head_cross_entropy(
    hidden: &Value,
    head: &Value,
    targets: &[u32],
    rows: &[u32],
    soft_cap: Option<f64>,
    tokens: f64,
) -> Result<Value> {
    let like = hidden.tensor().clone();
    let (x, weight) = (like.contiguous()?, head.tensor().contiguous()?);
    let numbers = Numbers::of(&x)?;
    let wanted = Wanted {
        hidden: hidden.wants_gradient(),
        head: head.wants_gradient(),
    };
    let loss = Loss {
        hidden: &numbers,
        width: weight.dim(1)?,
        vocabulary: weight.dim(0)?,
        targets,
        soft_cap: soft_cap.map(|cap| cap as f32),
        share: (1.0 / tokens) as f32,
        wanted,
        chunk_rows: (CHUNK_LOGITS / weight.dim(0)?).clamp(16, 4096),
    };
    let learned = with_stored!(&weight, head => loss.learn(&head, rows));
    let value = tensor(vec![learned.loss], ())?;
    if rows.is_empty() {
        return Ok(Value::constant(value));
    }
    let head_shape = head.tensor().shape().clone();
    let backward = move |gradient: Tensor| {
        let factor = gradient.to_dtype(DType::F32)?.to_scalar::<f32>()?;
        let scaled = |mut numbers: Vec<f32>| {
            if factor != 1.0 {
                numbers.iter_mut().for_each(|x| *x *= factor);
            }
            numbers
        };
        let dh = match wanted.hidden {
            true => Some(tensor(scaled(learned.hidden_gradient), like.shape())?),
            false => None,
        };
        let dw = match wanted.head {
            true => Some(tensor(scaled(learned.head_gradient), head_shape)?),
            false => None,
        };
        Ok(vec![dh, dw])
    };
    Ok(Value::record(value, &[hidden, head], backward))
}

struct Loss<'a> {
    hidden: &'a [f32],
    width: usize,
    vocabulary: usize,
    targets: &'a [u32],
    soft_cap: Option<f32>,
    /// Of one token in the mean.
    share: f32,
    wanted: Wanted,
    /// At most so many rows have their logits at the same time.
    chunk_rows: usize,
}

impl Loss<'_> {
    fn learn<T: Stored>(&self, head: &[T], rows: &[u32]) -> Learned {
        let (width, vocabulary) = (self.width, self.vocabulary);
        let zeros = |wanted: bool, count: usize| if wanted { vec![0.0; count] } else { Vec::new() };
        let mut hidden_gradient = zeros(self.wanted.hidden, self.hidden.len());
        let mut head_gradient = zeros(self.wanted.head, head.len());
        // Chunks of equal size, so that the last one is not a small rest.
        let chunks = rows.len().div_ceil(self.chunk_rows).max(1);
        let chunk = rows.len().div_ceil(chunks).max(1);
        let mut logits = Vec::new();
        let mut total = 0.0;
        for rows in rows.chunks(chunk) {
            let row = |row: u32| row as usize * width..(row as usize + 1) * width;
            let chunk: Vec<f32> = rows
                .iter()
                .flat_map(|r| &self.hidden[row(*r)])
                .copied()
                .collect();
            let project = |logits: &mut [f32]| {
                project_onto(logits, &chunk, head, width, 1.0, Output::Replace);
            };
            if logits.is_empty() {
                logits = filled(rows.len() * vocabulary, project);
            } else {
                logits.truncate(rows.len() * vocabulary);
                project(&mut logits);
            }
            total += self.differentiate(&mut logits, rows);
            if self.wanted.hidden {
                let dh = filled(chunk.len(), |dh| {
                    back_onto(dh, &logits, head, width, 1.0, Output::Replace);
                });
                for (r, dh) in rows.iter().zip(dh.chunks(width)) {
                    hidden_gradient[row(*r)].copy_from_slice(dh);
                }
            }
            if self.wanted.head {
                let size = (vocabulary, width);
                add_weight_gradient(&mut head_gradient, &logits, &chunk, size, 1.0, Output::Add);
            }
        }
        Learned {
            loss: (total * f64::from(self.share)) as f32,
            hidden_gradient,
            head_gradient,
        }
    }

    /// Turns the logits of these rows into their gradients and returns the sum of the rows' losses.
    fn differentiate(&self, logits: &mut [f32], rows: &[u32]) -> f64 {
        let mut losses = vec![0.0; rows.len()];
        pieces_of_two(
            (logits, self.vocabulary),
            (&mut losses, 1),
            |index, logits, loss| {
                let target = self.targets[rows[index] as usize] as usize;
                let scratch = self.soft_cap.map_or(0, |_| logits.len());
                loss[0] = with_scratch(scratch, |scratch| {
                    simd(
                        #[inline(always)]
                        || self.differentiate_row(logits, target, scratch),
                    )
                });
            },
        );
        losses.iter().map(|loss| f64::from(*loss)).sum()
    }

    #[inline(always)]
    fn differentiate_row(&self, logits: &mut [f32], target: usize, scratch: &mut [f32]) -> f32 {
        let most = largest(logits);
        let Some(cap) = self.soft_cap else {
            let of_target = logits[target];
            for z in logits.iter_mut() {
                *z = exp(*z - most);
            }
            let total = sum(logits);
            let factor = self.share / total;
            for x in logits.iter_mut() {
                *x *= factor;
            }
            logits[target] -= self.share;
            return total.ln() + (most - of_target);
        };
        for z in logits.iter_mut() {
            *z = tanh(*z / cap);
        }
        let (most, of_target) = (cap * tanh(most / cap), cap * logits[target]);
        for (x, z) in scratch.iter_mut().zip(logits.iter()) {
            *x = exp(cap.mul_add(*z, -most));
        }
        let total = sum(scratch);
        scratch[target] -= total;
        let factor = self.share / total;
        for (z, x) in logits.iter_mut().zip(scratch.iter()) {
            *z = factor * x * (1.0 - *z * *z);
        }
        total.ln() + (most - of_target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn chunks_change_nothing_but_the_order_of_sums() {
        let mut random = Random::new(1);
        let mut normal =
            |count| -> Vec<f32> { (0..count).map(|_| random.normal() as f32).collect() };
        let (hidden, head) = (normal(9 * 5), normal(11 * 5));
        let run = |chunk_rows| {
            let loss = Loss {
                hidden: &hidden,
                width: 5,
                vocabulary: 11,
                targets: &[3, 0, 10, 4, 4, 9, 1, 0, 7],
                soft_cap: None,
                share: 0.25,
                wanted: Wanted {
                    hidden: true,
                    head: true,
                },
                chunk_rows,
            };
            loss.learn(&head, &[0, 1, 3, 4, 5, 7, 8])
        };
        let (whole, parts) = (run(9), run(2));
        assert!((whole.loss - parts.loss).abs() < 1e-6);
        for (a, b) in [
            (&whole.hidden_gradient, &parts.hidden_gradient),
            (&whole.head_gradient, &parts.head_gradient),
        ] {
            assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6));
            assert!(a.iter().any(|a| a.abs() > 1e-2));
        }
        // Rows without a target get nothing.
        assert_eq!(parts.hidden_gradient[2 * 5..3 * 5], [0.0; 5]);
    }
}
