//! Batch norm: sums over shares of the rows, added up by a second launch, and a pass over all numbers. A thread has eight channels.

use candle_core::{DType, Tensor};

use super::{Launch, PACK, in_packs, output, pictures::PICTURES, serves as serves_tensors};
use crate::{
    Result,
    ops::{
        batch_norm::{Rows, Then},
        kernels::Kernel,
    },
};

/// Threads of a block that adds up, and the most packs of channels that it has.
const THREADS: usize = 256;
const MAX_PACKS: usize = 32;
/// Rows that a thread reads at once.
const AT_ONCE: usize = 2;
/// Blocks that are enough for every GPU, and rows of a thread that are worth one.
const BLOCKS: usize = 1024;
const ROWS: usize = 4 * AT_ONCE;
/// Channels of a block that adds up shares, and its threads.
const CHANNELS: usize = 32;
const SHARE_THREADS: usize = 1024;

/// Whether the kernels serve tensors like these: each [n, d] of whole packs, in one dtype.
pub(crate) fn serves(tensors: &[&Tensor]) -> Result<bool> {
    let fits = serves_tensors(Kernel::BatchNorm, tensors)
        && tensors.iter().all(|it| it.is_contiguous())
        && tensors
            .first()
            .is_some_and(|it| it.dims()[1].is_multiple_of(PACK));
    Ok(fits && in_packs(tensors)?)
}

/// Mean, variance, ρ, w ρ and e - μ w ρ of the columns of [n, d] -> [5, d], f32.
pub(crate) fn channels(x: &Tensor, [weight, bias]: [&Tensor; 2], epsilon: f64) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let plan = Shares::of(rows, width);
    let parts = plan.parts(x)?;
    Launch::of_code(&PICTURES, "norm_moments", x)?
        .tensors(&[x, &parts])?
        .whole(&[rows, width])
        .launch_grid(plan.blocks(), THREADS)?;
    let channels = output((5, width), DType::F32, x)?;
    let [weight, bias] = [weight, bias].map(|it| it.to_dtype(DType::F32)?.contiguous());
    Launch::of_code(&PICTURES, "norm_channels", x)?
        .tensors(&[x, &parts, &weight?, &bias?, &channels])?
        .whole(&[plan.shares, rows, width])
        .numbers(&[epsilon])
        .launch(width.div_ceil(CHANNELS), SHARE_THREADS)?;
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
    Launch::of_code(&PICTURES, "norm_follow", mean)?
        .tensors(&[mean, variance, now, &after])?
        .whole(&[width])
        .numbers(&[share, unbiased])
        .for_each(width)?;
    Ok(after)
}

/// φ(x w ρ + shift + z).
pub(crate) fn apply(rows: Rows, channels: &Tensor) -> Result<Tensor> {
    let Rows { x, residual, then } = rows;
    let y = output(x.shape(), x.dtype(), x)?;
    let (rows, width) = x.dims2()?;
    Launch::of_code(&PICTURES, "norm_apply", x)?
        .tensors(&[x])?
        .perhaps(residual)?
        .tensors(&[channels, &y])?
        .whole(&[rows, width, number(then)])
        .launch_grid(blocks_of_all(rows, width), THREADS)?;
    Ok(y)
}

/// Σ u, dw, slope and offset of the columns -> [4, d], f32.
pub(crate) fn slopes(
    gradient: &Tensor,
    rows: Rows,
    channels: &Tensor,
    of_batch: bool,
) -> Result<Tensor> {
    let Rows { x, residual, then } = rows;
    let (count, width) = x.dims2()?;
    let plan = Shares::of(count, width);
    let parts = plan.parts(x)?;
    Launch::of_code(&PICTURES, "norm_sums", x)?
        .tensors(&[gradient, x])?
        .perhaps(residual)?
        .tensors(&[channels, &parts])?
        .whole(&[count, width, number(then)])
        .launch_grid(plan.blocks(), THREADS)?;
    let slopes = output((4, width), DType::F32, x)?;
    Launch::of_code(&PICTURES, "norm_slopes", &parts)?
        .tensors(&[&parts, channels, &slopes])?
        .whole(&[plan.shares, count, width, usize::from(of_batch)])
        .launch(width.div_ceil(CHANNELS), SHARE_THREADS)?;
    Ok(slopes)
}

/// w ρ u + x slope + offset, and u where it is wanted.
pub(crate) fn back(
    gradient: &Tensor,
    rows: Rows,
    [channels, slopes]: [&Tensor; 2],
    wants_u: bool,
) -> Result<(Tensor, Option<Tensor>)> {
    let Rows { x, residual, then } = rows;
    let like = || output(x.shape(), x.dtype(), x);
    let dx = like()?;
    let u = wants_u.then(like).transpose()?;
    let (rows, width) = x.dims2()?;
    Launch::of_code(&PICTURES, "norm_back", x)?
        .tensors(&[gradient, x])?
        .perhaps(residual)?
        .tensors(&[channels, slopes, &dx])?
        .perhaps(u.as_ref())?
        .whole(&[rows, width, number(then)])
        .launch_grid(blocks_of_all(rows, width), THREADS)?;
    Ok((dx, u))
}

/// How sums over rows are shared among blocks.
struct Shares {
    width: usize,
    /// Blocks for all channels of a share.
    across: usize,
    shares: usize,
}

impl Shares {
    fn of(rows: usize, width: usize) -> Self {
        let (across, lines) = lanes(width);
        let worth = rows.div_ceil(lines * ROWS);
        Self {
            width,
            across,
            shares: worth.clamp(1, BLOCKS.div_ceil(across)),
        }
    }

    fn blocks(&self) -> [usize; 2] {
        [self.across, self.shares]
    }

    fn parts(&self, like: &Tensor) -> Result<Tensor> {
        output((self.shares, 2, self.width), DType::F32, like)
    }
}

/// Blocks that all channels of a row need, and the rows that a block has at a time.
fn lanes(width: usize) -> (usize, usize) {
    let packs = (width / PACK).clamp(1, MAX_PACKS);
    (width.div_ceil(packs * PACK), THREADS / packs)
}

/// Blocks for all rows, and for all channels.
fn blocks_of_all(rows: usize, width: usize) -> [usize; 2] {
    let (across, lines) = lanes(width);
    [rows.div_ceil(lines * AT_ONCE), across]
}

/// What a function is called in the kernels.
fn number(then: Then) -> usize {
    match then {
        Then::Nothing => 0,
        Then::Relu => 1,
        Then::Gelu => 2,
    }
}
