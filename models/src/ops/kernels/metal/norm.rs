//! Norms, a group of threads per row. RMS norm saves x, the factor and ρ per row; layer norm the mean besides.

use candle_core::{DType, Tensor};

use super::{in_dtype, launch::Launch, note, output, output_like, side_by_side};
use crate::{Result, ops::feed_forward::Along, tape::Value};

/// Rows that a part of the gradient of a weight sums up at least, and the most parts.
const PART_ROWS: usize = 32;
const MAX_PARTS: usize = 64;

/// See [`rms_norm`](crate::ops::norm::rms_norm).
pub(crate) fn rms_norm(
    x: &Value,
    weight: &Value,
    weight_offset: f64,
    epsilon: f64,
) -> Result<Value> {
    let width = weight.tensor().elem_count();
    let factor = in_dtype(weight.tensor(), DType::F32)?;
    let factor = match weight_offset == 0.0 {
        true => factor.contiguous()?,
        false => factor.affine(1.0, weight_offset)?,
    };
    let rows = side_by_side(x.tensor())?;
    let count = rows.elem_count() / width;
    let y = output_like(&rows)?;
    let rho = output(count, DType::F32, &rows)?;
    let launch = |name: &str| Launch::of(name, rows.dtype(), &[width]);
    launch("rms_norm")?
        .tensors(&[&rows, &factor, &y, &rho])?
        .whole(&[count, width])?
        .numbers(&[epsilon])
        .for_rows(count)?;

    let weight_dtype = weight.wants_gradient().then_some(weight.tensor().dtype());
    // A norm stands before each part of a layer, and its input goes around that: the gradient that comes back so is added here.
    let backward = move |gradient: Tensor, around: Option<Tensor>| {
        let gradient = side_by_side(&gradient)?;
        let launch = |name: &str| Launch::of(name, rows.dtype(), &[width]);
        let dx = output_like(&rows)?;
        let adds = usize::from(around.is_some());
        let around = around.map_or_else(|| Ok(rows.clone()), |it| side_by_side(&it))?;
        launch("rms_norm_back")?
            .tensors(&[&rows, &gradient, &factor, &rho, &around, &dx])?
            .whole(&[count, width, adds])?
            .for_rows(count)?;
        let dw = match weight_dtype {
            Some(dtype) => {
                let parts = parts(count);
                let sums = output((parts, width), DType::F32, &rows)?;
                launch("rms_norm_weight")?
                    .tensors(&[&rows, &gradient, &rho, &sums])?
                    .whole(&[count, width, parts])?
                    .for_columns(width, parts)?;
                Some(summed(&sums, dtype)?)
            }
            None => None,
        };
        Ok(vec![Some(dx), dw])
    };
    Ok(Value::record_adding(y, &[x, weight], backward))
}

/// See [`layer_norm`](crate::ops::norm::layer_norm).
pub(crate) fn layer_norm(x: &Value, weight: &Value, bias: &Value, epsilon: f64) -> Result<Value> {
    let width = weight.tensor().elem_count();
    let factor = in_dtype(weight.tensor(), DType::F32)?.contiguous()?;
    let shift = in_dtype(bias.tensor(), DType::F32)?.contiguous()?;
    let rows = side_by_side(x.tensor())?;
    let count = rows.elem_count() / width;
    let y = output_like(&rows)?;
    let moments = output((count, 2), DType::F32, &rows)?;
    Launch::of("layer_norm", rows.dtype(), &[width])?
        .tensors(&[&rows, &factor, &shift, &y, &moments])?
        .whole(&[count, width])?
        .numbers(&[epsilon])
        .for_rows(count)?;

    let dtypes = [weight, bias].map(|it| it.tensor().dtype());
    let learns = weight.wants_gradient() || bias.wants_gradient();
    Ok(Value::record(
        y,
        &[x, weight, bias],
        move |gradient: Tensor| {
            let gradient = side_by_side(&gradient)?;
            let launch = |name: &str| Launch::of(name, rows.dtype(), &[width]);
            let dx = output_like(&rows)?;
            launch("layer_norm_back")?
                .tensors(&[&rows, &gradient, &factor, &moments, &dx])?
                .whole(&[count, width])?
                .for_rows(count)?;
            if !learns {
                return Ok(vec![Some(dx), None, None]);
            }
            let parts = parts(count);
            let sums = || output((parts, width), DType::F32, &rows);
            let (of_weight, of_bias) = (sums()?, sums()?);
            launch("layer_norm_weight")?
                .tensors(&[&rows, &gradient, &moments, &of_weight, &of_bias])?
                .whole(&[count, width, parts])?
                .for_columns(width, parts)?;
            let dw = summed(&of_weight, dtypes[0])?;
            let dc = summed(&of_bias, dtypes[1])?;
            Ok(vec![Some(dx), Some(dw), Some(dc)])
        },
    ))
}

/// The sum of the parts.
fn summed(parts: &Tensor, dtype: DType) -> Result<Tensor> {
    note("sum");
    in_dtype(&parts.sum(0)?, dtype)
}

/// In how many parts the rows are summed up.
fn parts(rows: usize) -> usize {
    rows.div_ceil(PART_ROWS).clamp(1, MAX_PARTS)
}

/// See [`residual_norm`](crate::ops::norm::residual_norm).
pub(crate) fn residual_norm(
    x: &Value,
    branch: &Value,
    along: Along,
    epsilon: f64,
) -> Result<Value> {
    let (rows, branch_rows) = (side_by_side(x.tensor())?, side_by_side(branch.tensor())?);
    let (lines, width) = along.matrix(&rows)?.dims2()?;
    let lines = match along {
        Along::Last => Lines {
            sizes: [lines, width, width, 1],
            widths: [width, width],
        },
        // Numbers of a line stand apart, and are taken one by one.
        Along::First => Lines {
            sizes: [width, lines, 1, width],
            widths: [1, 1],
        },
    };
    let y = output_like(&rows)?;
    let rho = output(lines.sizes[0], DType::F32, &rows)?;
    lines
        .launch("residual_norm", [&rows, &branch_rows, &y, &rho])?
        .numbers(&[epsilon])
        .for_rows(lines.sizes[0])?;
    let normalized = y.clone();
    Ok(Value::record(y, &[x, branch], move |gradient: Tensor| {
        let gradient = side_by_side(&gradient)?;
        let dx = output_like(&normalized)?;
        lines
            .launch("residual_norm_back", [&gradient, &normalized, &rho, &dx])?
            .for_rows(lines.sizes[0])?;
        Ok(vec![Some(dx.clone()), Some(dx)])
    }))
}

/// What is normalized: rows of a matrix, or its columns.
struct Lines {
    /// How many, their numbers, and how far apart lines and the numbers of a line begin.
    sizes: [usize; 4],
    /// What has to be whole vectors.
    widths: [usize; 2],
}

impl Lines {
    fn launch(&self, name: &str, tensors: [&Tensor; 4]) -> Result<Launch> {
        Launch::of(name, tensors[0].dtype(), &self.widths)?
            .tensors(&tensors)?
            .whole(&self.sizes)
    }
}
