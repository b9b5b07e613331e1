//! A linear layer with a low-rank adapter: candle's products, of which the widening ones of the adapter are added to what is there
//! already, in one pass.
//!
//! Saves x, and z times the scale. The adapter is converted to the dtype of x once, and kept so for the way back.

use candle_core::Tensor;

use super::{
    in_dtype,
    launch::{Launch, MAX_GROUPS},
    output_like, side_by_side,
};
use crate::{
    Result,
    ops::{
        as_rows,
        kernels::Kernel,
        linear::{Term, project, project_back, weight_gradient},
        lora::Adapter,
        rows_like,
        sum::sum,
        weight::Matrix,
    },
    tape::Value,
};

const KERNEL: Kernel = Kernel::Lora;

/// Rows that a group of threads takes.
const GROUP_ROWS: usize = 4;

/// Whether a layer with this input is computed here.
pub(crate) fn serves(x: &Tensor) -> bool {
    let rows = x.elem_count() / x.dims().last().copied().unwrap_or(1).max(1);
    super::serves(KERNEL, &[x]) && rows <= GROUP_ROWS * MAX_GROUPS
}

/// See [`linear_with_adapter`](crate::ops::lora::linear_with_adapter).
pub(crate) fn linear_with_adapter(
    x: &Value,
    weight: Matrix,
    bias: Option<&Value>,
    adapter: &Adapter,
) -> Result<Value> {
    let rows = as_rows(x.tensor())?;
    let dropout = adapter.dropout.clone();
    let dropped = match &dropout {
        Some(dropout) => dropout.apply(&rows)?,
        None => rows.clone(),
    };
    let learned = [&adapter.a, &adapter.b].map(Value::tensor);
    let dtypes = learned.map(Tensor::dtype);
    let narrow = |it: &Tensor| side_by_side(&in_dtype(it, rows.dtype())?);
    let (a, b) = (narrow(learned[0])?, narrow(learned[1])?);
    let z = project(KERNEL, &[Term::new(&dropped, &a)], None)?;
    let y = weight.project(KERNEL, &rows, &[], bias.map(Value::tensor))?;
    let z = add_low_rank("add_low_rank", &z, &b, &y, adapter.scale)?;
    let y = rows_like(&y, x.tensor())?;

    let (like, scale) = (x.tensor().clone(), adapter.scale);
    let wants_x = x.wants_gradient();
    let backward = move |gradient: Tensor| {
        let gradient = as_rows(&gradient)?;
        let dropped = match &dropout {
            Some(dropout) => dropout.apply(&rows)?,
            None => rows,
        };
        let db = in_dtype(&weight_gradient(KERNEL, &gradient, &z, 1.0)?, dtypes[1])?;
        let mut dz = project_back(KERNEL, &[Term::new(&gradient, &b)])?;
        let dx = match (wants_x, &dropout) {
            (false, _) => {
                dz = dz.affine(scale, 0.0)?;
                None
            }
            (true, None) => {
                let dx = weight.project_back(KERNEL, &gradient, &[])?;
                dz = add_low_rank("add_low_rank_back", &dz, &a, &dx, scale)?;
                Some(dx)
            }
            (true, Some(dropout)) => {
                dz = dz.affine(scale, 0.0)?;
                let through_adapter =
                    dropout.apply(&project_back(KERNEL, &[Term::new(&dz, &a)])?)?;
                let dx = weight.project_back(KERNEL, &gradient, &[])?;
                Some(sum(KERNEL, &dx, &through_adapter)?)
            }
        };
        let da = in_dtype(&weight_gradient(KERNEL, &dz, &dropped, 1.0)?, dtypes[0])?;
        let dx = dx.map(|it| rows_like(&it, &like)).transpose()?;
        Ok(vec![dx, Some(da), Some(db)])
    };
    Ok(Value::record(y, &[x, &adapter.a, &adapter.b], backward))
}

/// Adds scale · z Bᵀ of z [n, r] and B [o, r] to y [n, o] in place, or scale · z A of A [r, i] on the way back; returns scale · z.
fn add_low_rank(name: &str, z: &Tensor, factor: &Tensor, y: &Tensor, scale: f64) -> Result<Tensor> {
    let ((rows, rank), (_, width)) = (z.dims2()?, y.dims2()?);
    let scaled = output_like(z)?;
    Launch::of(name, y.dtype(), &[rank, width])?
        .tensors(&[z, factor, y, &scaled])?
        .whole(&[rows, width, rank])?
        .numbers(&[scale])
        .for_columns(width, rows.div_ceil(GROUP_ROWS))?;
    Ok(scaled)
}
