//! Batch norm: sums over parts of the rows, a small kernel that adds them up, and a pass over all numbers.

use candle_core::{DType, Tensor};

use super::{in_dtype, launch::Launch, output, output_like, side_by_side};
use crate::{
    Result,
    ops::{
        batch_norm::{Rows, Then},
        kernels::Kernel,
    },
};

/// Threads of a group, and vectors of channels that they have side by side at most.
const THREADS: usize = 256;
const MAX_ACROSS: usize = 32;
/// Rows of a thread that are worth a part, and the most parts.
const PART_ROWS: usize = 16;
const MAX_PARTS: usize = 64;
/// Numbers of a vector.
const LANES: usize = 4;

/// Whether batch norm of these, each [n, d], is computed here.
pub(crate) fn serves(tensors: &[&Tensor]) -> bool {
    super::serves(Kernel::BatchNorm, tensors)
}

/// Mean, variance, ρ, w ρ and e - μ w ρ of the columns of x [n, d] -> [5, d], f32.
pub(crate) fn channels(x: &Tensor, [weight, bias]: [&Tensor; 2], epsilon: f64) -> Result<Tensor> {
    let x = side_by_side(x)?;
    let (rows, width) = x.dims2()?;
    let parts = Parts::of(rows, width);
    let sums = parts.output(&x)?;
    parts.launch("batch_sums", &[&x, &sums], &[])?;
    let wide = |it: &Tensor| side_by_side(&in_dtype(it, DType::F32)?);
    let (weight, bias) = (wide(weight)?, wide(bias)?);
    let channels = output((5, width), DType::F32, &x)?;
    Launch::of("batch_channels", x.dtype(), &[width])?
        .tensors(&[&x, &sums, &weight, &bias, &channels])?
        .whole(&[rows, width, parts.count])?
        .numbers(&[epsilon])
        .for_each(width)?;
    Ok(channels)
}

/// See [`follow`](crate::ops::batch_norm::follow): running mean and variance [d], and those of a batch [2, d], all f32.
pub(crate) fn follow(
    [mean, variance]: [&Tensor; 2],
    now: &Tensor,
    share: f64,
    unbiased: f64,
) -> Result<Tensor> {
    let width = mean.elem_count();
    let after = output((2, width), DType::F32, mean)?;
    Launch::of("batch_follow", DType::F32, &[width])?
        .tensors(&[mean, variance, now, &after])?
        .whole(&[width])?
        .numbers(&[share, unbiased])
        .for_each(width)?;
    Ok(after)
}

/// φ(x w ρ + shift + z).
pub(crate) fn apply(rows: Rows, channels: &Tensor) -> Result<Tensor> {
    let (x, z) = both(rows)?;
    let (count, width) = (x.elem_count(), x.dim(1)?);
    let y = output_like(&x)?;
    Launch::of("batch_apply", x.dtype(), &[width])?
        .tensors(&[&x, &z, channels, &y])?
        .whole(&[count, width, number(rows.then), flag(rows)])?
        .for_each(count)?;
    Ok(y)
}

/// Σ u, dw, slope and offset of the columns -> [4, d], f32.
pub(crate) fn slopes(
    gradient: &Tensor,
    rows: Rows,
    channels: &Tensor,
    of_batch: bool,
) -> Result<Tensor> {
    let (x, z) = both(rows)?;
    let (count, width) = x.dims2()?;
    let parts = Parts::of(count, width);
    let sums = parts.output(&x)?;
    let gradient = side_by_side(gradient)?;
    let tensors = [&gradient, &x, &z, channels, &sums];
    let more = [number(rows.then), flag(rows)];
    parts.launch("batch_slope_sums", &tensors, &more)?;
    let slopes = output((4, width), DType::F32, &x)?;
    Launch::of("batch_slopes", DType::F32, &[width])?
        .tensors(&[&sums, channels, &slopes])?
        .whole(&[count, width, parts.count, usize::from(of_batch)])?
        .for_each(width)?;
    Ok(slopes)
}

/// w ρ u + x slope + offset, and u where it is wanted.
pub(crate) fn back(
    gradient: &Tensor,
    rows: Rows,
    [channels, slopes]: [&Tensor; 2],
    wants_u: bool,
) -> Result<(Tensor, Option<Tensor>)> {
    let (x, z) = both(rows)?;
    let (count, width) = (x.elem_count(), x.dim(1)?);
    let dx = output_like(&x)?;
    // In the place of what nobody wants, of which nothing is written.
    let u = match wants_u {
        true => output_like(&x)?,
        false => output(LANES, x.dtype(), &x)?,
    };
    let values = [count, width, number(rows.then), flag(rows)];
    Launch::of("batch_back", x.dtype(), &[width])?
        .tensors(&[&side_by_side(gradient)?, &x, &z, channels, slopes, &dx, &u])?
        .whole(&values)?
        .whole(&[usize::from(wants_u)])?
        .for_each(count)?;
    Ok((dx, wants_u.then_some(u)))
}

/// x and z, or x again where there is none.
fn both(rows: Rows) -> Result<(Tensor, Tensor)> {
    let x = side_by_side(rows.x)?;
    let z = rows.residual.map_or_else(|| Ok(x.clone()), side_by_side)?;
    Ok((x, z))
}

fn flag(rows: Rows) -> usize {
    usize::from(rows.residual.is_some())
}

/// How sums over rows are shared among groups of threads.
struct Parts {
    rows: usize,
    width: usize,
    /// Vectors of channels that a group has side by side: a power of two.
    across: usize,
    count: usize,
}

impl Parts {
    fn of(rows: usize, width: usize) -> Self {
        let across = (width / LANES).next_power_of_two().clamp(1, MAX_ACROSS);
        let lines = THREADS / across;
        Self {
            rows,
            width,
            across,
            count: rows.div_ceil(lines * PART_ROWS).clamp(1, MAX_PARTS),
        }
    }

    fn output(&self, like: &Tensor) -> Result<Tensor> {
        output((2, self.count, self.width), DType::F32, like)
    }

    fn launch(&self, name: &str, tensors: &[&Tensor], more: &[usize]) -> Result<()> {
        let values = [self.rows, self.width, self.count, self.across];
        Launch::of(name, tensors[0].dtype(), &[self.width])?
            .tensors(tensors)?
            .whole(&values)?
            .whole(more)?
            .for_channels(self.width, self.across, self.count)
    }
}

/// What a function is called in the kernels.
fn number(then: Then) -> usize {
    match then {
        Then::Gelu => 1,
        Then::Relu => 3,
        Then::Nothing => 4,
    }
}
