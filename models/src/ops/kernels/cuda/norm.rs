//! RMS norm, a block per row. Saves x, the factor and ρ per row.

use candle_core::{DType, Tensor};

use crate::{
    Result,
    ops::{
        kernels::cuda::{Launch, output},
        widen,
    },
    tape::Value,
};

/// Columns that one block sums up for the gradient of the weight, and rows it takes at a time.
const TILE: usize = 32;

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
    Launch::of("rms_norm", &rows)?
        .tensors(&[&rows, &factor, &y, &rho])?
        .whole(&[width])
        .numbers(&[epsilon])
        .for_rows(count, width)?;

    let weight_dtype = weight.wants_gradient().then_some(weight.tensor().dtype());
    Ok(Value::record(y, &[x, weight], move |gradient: Tensor| {
        let gradient = gradient.contiguous()?;
        let dx = output(rows.shape(), rows.dtype(), &rows)?;
        Launch::of("rms_norm_back", &rows)?
            .tensors(&[&rows, &gradient, &factor, &rho, &dx])?
            .whole(&[width])
            .for_rows(count, width)?;
        let dw = match weight_dtype {
            Some(dtype) => {
                let dw = output(width, DType::F32, &rows)?;
                Launch::of("rms_norm_weight", &rows)?
                    .tensors(&[&rows, &gradient, &rho, &dw])?
                    .whole(&[count, width])
                    .launch(width.div_ceil(TILE), TILE * TILE)?;
                Some(dw.to_dtype(dtype)?)
            }
            None => None,
        };
        Ok(vec![Some(dx), dw])
    }))
}
