//! Batch norm in f32: each pass reads its rows once.
//!
//! Sums over rows are taken in blocks, whose size depends on shapes only, and the blocks are added in their order in f64.

use candle_core::Tensor;
use rayon::prelude::*;

use crate::{
    Result,
    ops::{
        batch_norm::Then,
        kernels::cpu::{
            Numbers, WORTH_THREADS, block_rows, filled, gated::gelu, pieces, pieces_of_two, simd,
            tensor,
        },
    },
};

/// What φ is applied to: x factor + shift + z, and φ.
pub(crate) struct Before<'a> {
    factor: Vec<f32>,
    shift: Vec<f32>,
    residual: Option<Numbers<'a>>,
    then: Then,
}

impl<'a> Before<'a> {
    /// Factor and shift are [d], z is [n, d].
    pub(crate) fn of(
        channels: [&Tensor; 2],
        residual: Option<&'a Tensor>,
        then: Then,
    ) -> Result<Self> {
        Ok(Self {
            factor: channels[0].to_vec1()?,
            shift: channels[1].to_vec1()?,
            residual: residual.map(Numbers::of).transpose()?,
            then,
        })
    }

    /// Its lines in a block that begins at a number of x.
    fn residual(&self, start: usize, count: usize) -> Option<&[f32]> {
        self.residual.as_ref().map(|z| &z[start..start + count])
    }
}

/// Calls a loop that is compiled for each φ: `φ(x)` and `φ'(x)` are its argument.
macro_rules! with_then {
    ($then:expr, $function:ident => $body:expr) => {
        match $then {
            Then::Nothing => {
                let $function = |x: f32| (x, 1.0f32);
                $body
            }
            Then::Relu => {
                let $function = |x: f32| (x.max(0.0), if x > 0.0 { 1.0f32 } else { 0.0 });
                $body
            }
            Then::Gelu => {
                let $function = gelu;
                $body
            }
        }
    };
}

/// Mean and variance of the columns of [n, d], each [d].
pub(crate) fn moments(rows: &Tensor) -> Result<[Tensor; 2]> {
    let (count, width) = rows.dims2()?;
    let x = Numbers::<f32>::of(rows)?;
    // Mean and squares around it of each block, put together after Chan, Golub and LeVeque, 1979.
    let blocks = by_blocks(&x, width, |x, _| {
        let share = 1.0 / (x.len() / width) as f32;
        let (mut mean, mut squares) = (vec![0.0f32; width], vec![0.0f32; width]);
        simd(
            #[inline(always)]
            || {
                for x in x.chunks(width) {
                    mean.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
                }
                mean.iter_mut().for_each(|sum| *sum *= share);
                for x in x.chunks(width) {
                    for ((sum, x), mean) in squares.iter_mut().zip(x).zip(&mean) {
                        *sum += (x - mean) * (x - mean);
                    }
                }
            },
        );
        [mean, squares]
    });
    let (mut mean, mut squares, mut seen) = (vec![0.0f64; width], vec![0.0f64; width], 0.0);
    for (block, [of_block, squares_of_block]) in blocks.iter().enumerate() {
        let rows = block_rows(width).min(count - block * block_rows(width)) as f64;
        let all = seen + rows;
        for column in 0..width {
            let apart = f64::from(of_block[column]) - mean[column];
            mean[column] += apart * rows / all;
            squares[column] +=
                f64::from(squares_of_block[column]) + apart * apart * seen * rows / all;
        }
        seen = all;
    }
    let narrow = |numbers: Vec<f64>| tensor(numbers.iter().map(|it| *it as f32).collect(), width);
    squares.iter_mut().for_each(|it| *it /= count as f64);
    Ok([narrow(mean)?, narrow(squares)?])
}

/// φ(x factor + shift + z): [n, d].
pub(crate) fn apply(rows: &Tensor, before: Before) -> Result<Tensor> {
    let width = rows.dim(1)?;
    let x = Numbers::<f32>::of(rows)?;
    let x: &[f32] = &x;
    let size = block_rows(width) * width;
    let (factor, shift) = (&before.factor[..], &before.shift[..]);
    let y = filled(x.len(), |y| {
        pieces(y, size, |index, y| {
            let x = &x[index * size..][..y.len()];
            let z = before.residual(index * size, y.len());
            with_then!(before.then, function => simd(
                #[inline(always)]
                || {
                    let lines = y.chunks_mut(width).zip(x.chunks(width));
                    match z {
                        Some(z) => for ((y, x), z) in lines.zip(z.chunks(width)) {
                            let channels = factor.iter().zip(shift);
                            for (((y, x), z), (factor, shift)) in y.iter_mut().zip(x).zip(z).zip(channels) {
                                *y = function(x.mul_add(*factor, *shift) + z).0;
                            }
                        },
                        None => for (y, x) in lines {
                            let channels = factor.iter().zip(shift);
                            for ((y, x), (factor, shift)) in y.iter_mut().zip(x).zip(channels) {
                                *y = function(x.mul_add(*factor, *shift)).0;
                            }
                        },
                    }
                },
            ));
        });
    });
    tensor(y, rows.shape())
}

/// Σ u and Σ u (x - μ), each [d].
pub(crate) fn sums(
    gradient: &Tensor,
    rows: &Tensor,
    before: Before,
    mean: &Tensor,
) -> Result<[Tensor; 2]> {
    let width = rows.dim(1)?;
    let gradient = gradient.contiguous()?;
    let (g, x) = (Numbers::<f32>::of(&gradient)?, Numbers::<f32>::of(rows)?);
    let g: &[f32] = &g;
    let mean: Vec<f32> = mean.to_vec1()?;
    let blocks = by_blocks(&x, width, |x, start| {
        let (mut sum, mut along) = (vec![0.0f32; width], vec![0.0f32; width]);
        let mut u = vec![0.0f32; x.len()];
        before.slopes(x, &g[start..], start, &mut u);
        simd(
            #[inline(always)]
            || {
                for (u, x) in u.chunks(width).zip(x.chunks(width)) {
                    let sums = sum.iter_mut().zip(&mut along).zip(&mean);
                    for ((u, x), ((sum, along), mean)) in u.iter().zip(x).zip(sums) {
                        *sum += u;
                        *along += u * (x - mean);
                    }
                }
            },
        );
        [sum, along]
    });
    let total = |which: usize| {
        let column = |column: usize| {
            let parts = blocks.iter().map(|it| f64::from(it[which][column]));
            parts.sum::<f64>() as f32
        };
        tensor((0..width).map(column).collect(), width)
    };
    Ok([total(0)?, total(1)?])
}

/// u factor + x slope + offset, and u where it is wanted: both [n, d].
pub(crate) fn back(
    gradient: &Tensor,
    rows: &Tensor,
    before: Before,
    [slope, offset]: [&Tensor; 2],
    wants_u: bool,
) -> Result<(Tensor, Option<Tensor>)> {
    let width = rows.dim(1)?;
    let gradient = gradient.contiguous()?;
    let (g, x) = (Numbers::<f32>::of(&gradient)?, Numbers::<f32>::of(rows)?);
    let (g, x): (&[f32], &[f32]) = (&g, &x);
    let [slope, offset]: [Vec<f32>; 2] = [slope.to_vec1()?, offset.to_vec1()?];
    let size = block_rows(width) * width;
    let finish = |index: usize, u: &[f32], dx: &mut [f32]| {
        let x = &x[index * size..][..dx.len()];
        simd(
            #[inline(always)]
            || {
                let lines = u.chunks(width).zip(x.chunks(width));
                for (dx, (u, x)) in dx.chunks_mut(width).zip(lines) {
                    let channels = before.factor.iter().zip(&slope).zip(&offset);
                    let numbers = dx.iter_mut().zip(u).zip(x).zip(channels);
                    for (((dx, u), x), ((factor, slope), offset)) in numbers {
                        *dx = u.mul_add(*factor, x.mul_add(*slope, *offset));
                    }
                }
            },
        );
    };
    let slopes = |index: usize, u: &mut [f32]| {
        let start = index * size;
        before.slopes(&x[start..][..u.len()], &g[start..], start, u);
    };
    if !wants_u {
        let dx = filled(x.len(), |dx| {
            pieces(dx, size, |index, dx| {
                let mut u = vec![0.0f32; dx.len()];
                slopes(index, &mut u);
                finish(index, &u, dx);
            });
        });
        return Ok((tensor(dx, rows.shape())?, None));
    }
    let mut u = Vec::new();
    let dx = filled(x.len(), |dx| {
        u = filled(x.len(), |u| {
            pieces_of_two((u, size), (dx, size), |index, u, dx| {
                slopes(index, u);
                finish(index, u, dx);
            });
        });
    });
    Ok((tensor(dx, rows.shape())?, Some(tensor(u, rows.shape())?)))
}

impl Before<'_> {
    /// u = g φ'(x factor + shift + z) of whole lines that begin at a number of all.
    fn slopes(&self, x: &[f32], g: &[f32], start: usize, u: &mut [f32]) {
        let width = self.factor.len();
        let (factor, shift) = (&self.factor[..], &self.shift[..]);
        let z = self.residual(start, x.len());
        with_then!(self.then, function => simd(
            #[inline(always)]
            || {
                let lines = u.chunks_mut(width).zip(x.chunks(width)).zip(g.chunks(width));
                match z {
                    Some(z) => for (((u, x), g), z) in lines.zip(z.chunks(width)) {
                        let channels = factor.iter().zip(shift);
                        for ((((u, x), g), z), (factor, shift)) in u.iter_mut().zip(x).zip(g).zip(z).zip(channels) {
                            *u = g * function(x.mul_add(*factor, *shift) + z).1;
                        }
                    },
                    None => for ((u, x), g) in lines {
                        let channels = factor.iter().zip(shift);
                        for (((u, x), g), (factor, shift)) in u.iter_mut().zip(x).zip(g).zip(channels) {
                            *u = g * function(x.mul_add(*factor, *shift)).1;
                        }
                    },
                }
            },
        ));
    }
}

/// Two sums over the rows of each block, in the order of the blocks. `work` gets a block, and where it begins.
fn by_blocks(
    x: &[f32],
    width: usize,
    work: impl Fn(&[f32], usize) -> [Vec<f32>; 2] + Sync,
) -> Vec<[Vec<f32>; 2]> {
    let size = block_rows(width) * width;
    let of_block = |(index, x): (usize, &[f32])| work(x, index * size);
    match x.len() < WORTH_THREADS {
        true => x.chunks(size).enumerate().map(of_block).collect(),
        false => x.par_chunks(size).enumerate().map(of_block).collect(),
    }
}
