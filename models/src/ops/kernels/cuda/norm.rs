//! RMS norm, a warp or a block per row. Saves x, the factor and ρ per row.

use candle_core::{DType, Tensor};

use crate::{
    Result,
    ops::{
        feed_forward::Along,
        kernels::cuda::{Launch, PACK, in_packs, output},
        widen,
    },
    tape::Value,
};

/// Columns that one block sums up for the gradient of the weight, and rows it takes at a time.
const TILE: usize = 32;
/// How often it takes some, at least: what fewer rows would save is less than to add up one part more.
const TAKES: usize = 8;

/// The widest row that a warp keeps in registers, as in `kernels.cu`, and the warps of a block.
const MAX_WIDTH: usize = 32 * 8 * PACK;
const WARPS: usize = 4;

/// Whether a warp takes a row of these tensors by whole packs.
fn in_registers(width: usize, tensors: &[&Tensor]) -> Result<bool> {
    Ok(width.is_multiple_of(PACK) && width <= MAX_WIDTH && in_packs(tensors)?)
}

/// The kernel for rows of so many numbers: the fewer registers it needs, the more of it run at once.
fn by_width(name: &str, width: usize) -> String {
    let packs = width.div_ceil(32 * PACK).next_power_of_two().max(2);
    format!("{name}_{packs}")
}

/// See [`rms_norm`](crate::ops::norm::rms_norm).
pub(crate) fn rms_norm(
    x: &Value,
    weight: &Value,
    weight_offset: f64,
    epsilon: f64,
) -> Result<Value> {
    let width = weight.tensor().elem_count();
    let factor = widen(weight.tensor())?;
    let factor = match weight_offset == 0.0 {
        true => factor.contiguous()?,
        false => factor.affine(1.0, weight_offset)?,
    };
    let rows = x.tensor().contiguous()?;
    let count = rows.elem_count() / width;
    let y = output(rows.shape(), rows.dtype(), &rows)?;
    let rho = output(count, DType::F32, &rows)?;
    let tensors = [&rows, &factor, &y, &rho];
    match in_registers(width, &tensors[..3])? {
        true => Launch::of(&by_width("rms_norm_packs", width), &rows)?
            .tensors(&tensors)?
            .whole(&[count, width])
            .numbers(&[epsilon])
            .launch(count.div_ceil(WARPS), WARPS * 32)?,
        false => Launch::of("rms_norm", &rows)?
            .tensors(&tensors)?
            .whole(&[width])
            .numbers(&[epsilon])
            .for_rows(count, width)?,
    }

    let weight_dtype = weight.wants_gradient().then_some(weight.tensor().dtype());
    // A norm stands before each part of a layer, and its input goes around that: the gradient that comes back so is added here.
    let backward = move |gradient: Tensor, around: Option<Tensor>| {
        let gradient = gradient.contiguous()?;
        let dx = rms_norm_back([&rows, &gradient, &factor, &rho], around, width)?;
        let dw = match weight_dtype {
            Some(dtype) => {
                let dw = weight_gradient(&rows, &gradient, &rho, width)?;
                Some(dw.to_dtype(dtype)?)
            }
            None => None,
        };
        Ok(vec![Some(dx), dw])
    };
    Ok(Value::record_adding(y, &[x, weight], backward))
}

/// The gradient of the factor [width] in f32: a part for some rows, and the sum of these.
fn weight_gradient(rows: &Tensor, gradient: &Tensor, rho: &Tensor, width: usize) -> Result<Tensor> {
    let count = rows.elem_count() / width;
    let parts = count.div_ceil(TILE * TAKES).clamp(1, TILE);
    let rows_of_part = count.div_ceil(parts);
    let sums = output((parts, width), DType::F32, rows)?;
    Launch::of("rms_norm_weight", rows)?
        .tensors(&[rows, gradient, rho, &sums])?
        .whole(&[count, width, rows_of_part])
        .launch_grid([width.div_ceil(TILE), parts], TILE * TILE)?;
    if parts == 1 {
        return Ok(sums.squeeze(0)?);
    }
    let dw = output(width, DType::F32, rows)?;
    Launch::of("sum_parts", &sums)?
        .tensors(&[&sums, &dw])?
        .whole(&[parts, width])
        .for_each(width)?;
    Ok(dw)
}

/// The gradient of x from x, that of y, the factor and ρ, with what came back around the norm.
fn rms_norm_back(tensors: [&Tensor; 4], around: Option<Tensor>, width: usize) -> Result<Tensor> {
    let [rows, gradient, factor, _] = tensors;
    let around = around.map(|it| it.contiguous()).transpose()?;
    let dx = output(rows.shape(), rows.dtype(), rows)?;
    let mut read = vec![rows, gradient, factor, &dx];
    read.extend(&around);
    let launch = |name: &str| {
        Launch::of(name, rows)?
            .tensors(&tensors)?
            .perhaps(around.as_ref())?
            .tensors(&[&dx])
    };
    let count = rows.elem_count() / width;
    match in_registers(width, &read)? {
        true => launch(&by_width("rms_norm_back_packs", width))?
            .whole(&[count, width])
            .launch(count.div_ceil(WARPS), WARPS * 32)?,
        false => launch("rms_norm_back")?
            .whole(&[width])
            .for_rows(count, width)?,
    }
    Ok(dx)
}

/// See [`residual_norm`](crate::ops::norm::residual_norm).
pub(crate) fn residual_norm(
    x: &Value,
    branch: &Value,
    along: Along,
    epsilon: f64,
) -> Result<Value> {
    let [rows, branch_rows] = [x, branch].map(|it| it.tensor().contiguous());
    let (rows, branch_rows) = (rows?, branch_rows?);
    let (lines, width) = along.matrix(&rows)?.dims2()?;
    let norm = ResidualNorm {
        along,
        lines,
        width,
        epsilon,
    };
    let y = output(rows.shape(), rows.dtype(), &rows)?;
    let count = if along == Along::First { width } else { lines };
    let rho = output(count, DType::F32, &rows)?;
    norm.launch(false, [&rows, &branch_rows, &y, &rho])?;
    let normalized = y.clone();
    Ok(Value::record(y, &[x, branch], move |gradient: Tensor| {
        let gradient = gradient.contiguous()?;
        let dx = output(normalized.shape(), normalized.dtype(), &normalized)?;
        norm.launch(true, [&gradient, &normalized, &dx, &rho])?;
        Ok(vec![Some(dx.clone()), Some(dx)])
    }))
}

/// The norm of the rows of a matrix [lines, width], or of its columns.
struct ResidualNorm {
    along: Along,
    lines: usize,
    width: usize,
    epsilon: f64,
}

impl ResidualNorm {
    /// Numbers that a warp, or rows that a block, keeps in registers.
    const MAX_WIDTH: usize = 1024;
    const MAX_LINES: usize = 128;
    const WARPS: usize = 4;
    /// Columns of a block, and its threads.
    const COLUMNS: usize = 64;
    const THREADS: usize = 256;

    fn launch(&self, back: bool, tensors: [&Tensor; 4]) -> Result<()> {
        let &Self {
            lines,
            width,
            epsilon,
            ..
        } = self;
        let packs = width.is_multiple_of(PACK) && in_packs(&tensors[..3])?;
        let back = if back { "_back" } else { "" };
        let start = |name: &str| {
            Launch::of(&format!("residual_norm_{name}{back}"), tensors[0])?.tensors(&tensors)
        };
        match self.along {
            Along::Last if packs && width <= Self::MAX_WIDTH => start("rows")?
                .whole(&[lines, width])
                .numbers(&[epsilon])
                .launch(lines.div_ceil(Self::WARPS), Self::WARPS * 32),
            Along::First if packs && lines <= Self::MAX_LINES => start("columns")?
                .whole(&[lines, width])
                .numbers(&[epsilon])
                .launch(width.div_ceil(Self::COLUMNS), Self::THREADS),
            Along::Last => start("lines")?
                .whole(&[width])
                .counts(&[width, 1])
                .numbers(&[epsilon])
                .for_rows(lines, width),
            Along::First => start("lines")?
                .whole(&[lines])
                .counts(&[1, width])
                .numbers(&[epsilon])
                .for_rows(width, lines),
        }
    }
}
