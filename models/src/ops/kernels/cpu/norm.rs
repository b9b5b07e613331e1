//! RMS norm and layer norm, a row at a time. Save x, and per row the mean and the factor ρ.

use candle_core::Tensor;

use crate::{
    Result,
    ops::{
        feed_forward::Along,
        kernels::cpu::{
            Numbers, block_rows, each, elementwise, filled,
            math::{dot, dot_less, sum},
            pieces, pieces_of_two, simd, tensor,
        },
    },
    tape::Value,
};

/// See [`rms_norm`](crate::ops::norm::rms_norm).
pub(crate) fn rms_norm(
    x: &Value,
    weight: &Value,
    weight_offset: f64,
    epsilon: f64,
) -> Result<Value> {
    let factor = row(&weight.tensor().affine(1.0, weight_offset)?)?;
    let norm = Norm::of(x.tensor(), factor, None, epsilon)?;
    let (y, statistics) = norm.forward()?;
    let weight_dtype = weight.wants_gradient().then_some(weight.tensor().dtype());
    Ok(Value::record(y, &[x, weight], move |gradient: Tensor| {
        let (dx, dw, _) = norm.backward(&gradient, &statistics, weight_dtype.is_some())?;
        let dw = match weight_dtype {
            Some(dtype) => Some(dw.to_dtype(dtype)?),
            None => None,
        };
        Ok(vec![Some(dx), dw])
    }))
}

/// See [`layer_norm`](crate::ops::norm::layer_norm).
pub(crate) fn layer_norm(x: &Value, weight: &Value, bias: &Value, epsilon: f64) -> Result<Value> {
    let (factor, summand) = (row(weight.tensor())?, row(bias.tensor())?);
    let norm = Norm::of(x.tensor(), factor, Some(summand), epsilon)?;
    let (y, statistics) = norm.forward()?;
    let dtypes = (weight.tensor().dtype(), bias.tensor().dtype());
    let backward = move |gradient: Tensor| {
        let (dx, dw, dc) = norm.backward(&gradient, &statistics, true)?;
        Ok(vec![
            Some(dx),
            Some(dw.to_dtype(dtypes.0)?),
            Some(dc.to_dtype(dtypes.1)?),
        ])
    };
    Ok(Value::record(y, &[x, weight, bias], backward))
}

/// See [`residual_norm`](crate::ops::norm::residual_norm).
pub(crate) fn residual_norm(
    x: &Value,
    branch: &Value,
    along: Along,
    epsilon: f64,
) -> Result<Value> {
    let sum = elementwise::add(x.tensor(), branch.tensor())?;
    let (lines, width) = along.matrix(&sum)?.dims2()?;
    let count = if along == Along::First { lines } else { width };
    let (share, epsilon) = (1.0 / count as f32, epsilon as f32);
    let shape = sum.shape().clone();
    let sums = Numbers::of(&sum)?;
    let mut rho = match along {
        Along::First => columns_dot(&sums, &sums, width),
        Along::Last => rows_dot(&sums, &sums, width),
    };
    for rho in &mut rho {
        *rho = 1.0 / (*rho * share + epsilon).sqrt();
    }
    let scale = |x: f32, _, rho: f32, _| x * rho;
    let y = combine(along, width, [&sums, &sums], [&rho, &rho], scale);
    drop(sums);
    let y = tensor(y, shape)?;
    let normalized = y.clone();
    Ok(Value::record(y, &[x, branch], move |gradient: Tensor| {
        let gradient = gradient.contiguous()?;
        let (g, y) = (Numbers::of(&gradient)?, Numbers::of(&normalized)?);
        let mut along_y = match along {
            Along::First => columns_dot(&g, &y, width),
            Along::Last => rows_dot(&g, &y, width),
        };
        along_y.iter_mut().for_each(|it| *it *= share);
        let back = |g: f32, y: f32, rho: f32, mean: f32| rho * (g - y * mean);
        let dx = combine(along, width, [&g, &y], [&rho, &along_y], back);
        let dx = tensor(dx, normalized.shape())?;
        Ok(vec![Some(dx.clone()), Some(dx)])
    }))
}

/// Σ a b over each row of `width` numbers.
fn rows_dot(a: &[f32], b: &[f32], width: usize) -> Vec<f32> {
    let block = block_rows(width);
    filled(a.len() / width, |sums| {
        // The sums are few, but what is read for them is not: they are cut up as their rows would be.
        let tasks = sums.chunks_mut(block).enumerate().collect();
        each(tasks, a.len(), |(index, sums): (usize, &mut [f32])| {
            let rows = index * block * width..;
            let rows = a[rows.clone()].chunks(width).zip(b[rows].chunks(width));
            simd(
                #[inline(always)]
                || {
                    for (sum, (a, b)) in sums.iter_mut().zip(rows.clone()) {
                        *sum = dot(a, b);
                    }
                },
            );
        });
    })
}

/// Σ a b over each of `width` columns, in the order of the rows.
fn columns_dot(a: &[f32], b: &[f32], width: usize) -> Vec<f32> {
    /// Columns of a block: few enough for their sums to stay in registers' reach, many enough for whole lines of the cache.
    const COLUMNS: usize = 512;
    filled(width, |sums| {
        let tasks = sums.chunks_mut(COLUMNS).enumerate().collect();
        each(tasks, a.len(), |(index, sums): (usize, &mut [f32])| {
            let first = index * COLUMNS;
            sums.fill(0.0);
            simd(
                #[inline(always)]
                || {
                    for (a, b) in a.chunks(width).zip(b.chunks(width)) {
                        let part = first..first + sums.len();
                        let pairs = a[part.clone()].iter().zip(&b[part]);
                        for (sum, (a, b)) in sums.iter_mut().zip(pairs) {
                            *sum = a.mul_add(*b, *sum);
                        }
                    }
                },
            );
        });
    })
}

/// f(a, b, of its line, of its line) for each number, where a line is a column or a row.
#[inline(always)]
fn combine(
    along: Along,
    width: usize,
    [a, b]: [&[f32]; 2],
    [first, second]: [&[f32]; 2],
    f: impl Fn(f32, f32, f32, f32) -> f32 + Sync + Copy,
) -> Vec<f32> {
    let block = block_rows(width);
    filled(a.len(), |out| {
        pieces(out, block * width, |index, out| {
            let start = index * block;
            let rows = start * width..start * width + out.len();
            let rows = a[rows.clone()].chunks(width).zip(b[rows].chunks(width));
            simd(
                #[inline(always)]
                || {
                    let rows = out.chunks_mut(width).zip(rows.clone());
                    for (row, (out, (a, b))) in rows.enumerate() {
                        let pairs = out.iter_mut().zip(a).zip(b);
                        if along == Along::Last {
                            let of = (first[start + row], second[start + row]);
                            pairs.for_each(|((out, a), b)| *out = f(*a, *b, of.0, of.1));
                        } else {
                            let of = first.iter().zip(second);
                            pairs.zip(of).for_each(|(((out, a), b), of)| {
                                *out = f(*a, *b, *of.0, *of.1);
                            });
                        }
                    }
                },
            );
        });
    })
}

struct Norm {
    x: Tensor,
    width: usize,
    factor: Vec<f32>,
    /// With it, the mean is subtracted first.
    bias: Option<Vec<f32>>,
    epsilon: f32,
}

impl Norm {
    fn of(x: &Tensor, factor: Vec<f32>, bias: Option<Vec<f32>>, epsilon: f64) -> Result<Self> {
        Ok(Self {
            x: x.contiguous()?,
            width: factor.len(),
            factor,
            bias,
            epsilon: epsilon as f32,
        })
    }

    /// The output, and the mean and ρ of each row [n, 2].
    fn forward(&self) -> Result<(Tensor, Vec<f32>)> {
        let x = Numbers::of(&self.x)?;
        let (x, width): (&[f32], usize) = (&x, self.width);
        let rows = block_rows(width);
        let mut statistics = vec![0.0; x.len() / width * 2];
        let y = filled(x.len(), |y| {
            let outputs = ((y, rows * width), (&mut statistics[..], rows * 2));
            pieces_of_two(outputs.0, outputs.1, |index, y, statistics| {
                let x = &x[index * rows * width..][..y.len()];
                simd(
                    #[inline(always)]
                    || {
                        for ((x, y), statistics) in x
                            .chunks(width)
                            .zip(y.chunks_mut(width))
                            .zip(statistics.chunks_mut(2))
                        {
                            let (mean, rho) = self.normalize(x, y);
                            statistics.copy_from_slice(&[mean, rho]);
                        }
                    },
                );
            });
        });
        Ok((tensor(y, self.x.shape())?, statistics))
    }

    #[inline(always)]
    fn normalize(&self, x: &[f32], y: &mut [f32]) -> (f32, f32) {
        let share = 1.0 / self.width as f32;
        let Some(bias) = &self.bias else {
            let rho = 1.0 / (dot(x, x) * share + self.epsilon).sqrt();
            for ((y, x), factor) in y.iter_mut().zip(x).zip(&self.factor) {
                *y = x * rho * factor;
            }
            return (0.0, rho);
        };
        let mean = sum(x) * share;
        for (y, x) in y.iter_mut().zip(x) {
            *y = x - mean;
        }
        let rho = 1.0 / (dot(y, y) * share + self.epsilon).sqrt();
        for ((y, factor), bias) in y.iter_mut().zip(&self.factor).zip(bias) {
            *y = (*y * rho).mul_add(*factor, *bias);
        }
        (mean, rho)
    }

    /// The gradients of x, weight and bias; those of weight and bias are zero unless they are wanted.
    fn backward(
        &self,
        gradient: &Tensor,
        statistics: &[f32],
        wants_weight: bool,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let gradient = gradient.contiguous()?;
        let (x, g) = (Numbers::of(&self.x)?, Numbers::of(&gradient)?);
        let (x, g, width): (&[f32], &[f32], usize) = (&x, &g, self.width);
        let rows = block_rows(width);
        // Each block of rows adds up its own gradients of weight and bias; then the blocks are added in order.
        let blocks = (x.len() / width).div_ceil(rows);
        let mut sums = vec![0.0; blocks * 2 * width];
        let dx = filled(x.len(), |dx| {
            let outputs = ((dx, rows * width), (&mut sums[..], 2 * width));
            pieces_of_two(outputs.0, outputs.1, |index, dx, sums| {
                let (dw, dc) = sums.split_at_mut(width);
                let start = index * rows;
                simd(
                    #[inline(always)]
                    || {
                        for (row, dx) in dx.chunks_mut(width).enumerate() {
                            let row = start + row;
                            let numbers = row * width..(row + 1) * width;
                            let (x, g) = (&x[numbers.clone()], &g[numbers]);
                            let (mean, rho) = (statistics[row * 2], statistics[row * 2 + 1]);
                            self.differentiate(x, g, mean, rho, dx);
                            if wants_weight {
                                add_weight_gradients(x, g, mean, rho, dw, dc);
                            }
                        }
                    },
                );
            });
        });
        let (total, others) = sums.split_at_mut(2 * width);
        for block in others.chunks(2 * width) {
            total
                .iter_mut()
                .zip(block)
                .for_each(|(sum, part)| *sum += part);
        }
        Ok((
            tensor(dx, self.x.shape())?,
            tensor(total[..width].to_vec(), width)?,
            tensor(total[width..].to_vec(), width)?,
        ))
    }

    #[inline(always)]
    fn differentiate(&self, x: &[f32], g: &[f32], mean: f32, rho: f32, dx: &mut [f32]) {
        let share = 1.0 / self.width as f32;
        // First u = g ⊙ w, in the place of dx.
        for ((u, g), factor) in dx.iter_mut().zip(g).zip(&self.factor) {
            *u = g * factor;
        }
        let mean_u = match self.bias {
            Some(_) => sum(dx) * share,
            None => 0.0,
        };
        let along = rho * rho * share * dot_less(dx, x, mean);
        for (u, x) in dx.iter_mut().zip(x) {
            *u = rho * (*u - mean_u - (x - mean) * along);
        }
    }
}

#[inline(always)]
fn add_weight_gradients(x: &[f32], g: &[f32], mean: f32, rho: f32, dw: &mut [f32], dc: &mut [f32]) {
    for (((dw, dc), x), g) in dw.iter_mut().zip(dc).zip(x).zip(g) {
        *dw = (g * rho).mul_add(x - mean, *dw);
        *dc += g;
    }
}

/// A weight as f32 numbers, whatever it is kept in.
fn row(weight: &Tensor) -> Result<Vec<f32>> {
    Ok(weight.to_dtype(candle_core::DType::F32)?.to_vec1()?)
}
