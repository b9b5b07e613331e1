//! What a convolution by products needs besides them: what each window sees of a picture, and the way back.

use candle_core::Tensor;

use super::{launch::Launch, output, side_by_side};
use crate::{
    Result,
    ops::{convolution::Shape, pool::Windows},
};

/// x [n, h, w, c] -> [n h' w', k k c].
pub(crate) fn patches(x: &Tensor, shape: &Shape) -> Result<Tensor> {
    let x = side_by_side(x)?;
    let rows = shape.pictures * shape.places();
    let patches = output((rows, shape.depth()), x.dtype(), &x)?;
    launch("patches", &[&x, &patches], &shape.windows())?;
    Ok(patches)
}

/// The gradient of x [n, h, w, c] from that of its patches.
pub(crate) fn patches_back(patches: &Tensor, shape: &Shape) -> Result<Tensor> {
    let patches = side_by_side(patches)?;
    let windows = shape.windows();
    let dx = output(&windows.of_input(), patches.dtype(), &patches)?;
    launch("patches_back", &[&patches, &dx], &windows)?;
    Ok(dx)
}

/// A kernel of windows over pictures, of which the last tensor in the dtype of the first is written.
pub(super) fn launch(name: &str, tensors: &[&Tensor], windows: &Windows) -> Result<()> {
    let dtype = tensors[0].dtype();
    let written = tensors.iter().rev().find(|it| it.dtype() == dtype);
    let count = written.map_or(0, |it| it.elem_count());
    let [height, width] = windows.from;
    let [down, across] = windows.to;
    let window = windows.window;
    let sizes = [count, height, width, down, across, windows.channels];
    let moves = [window.kernel, window.stride, window.padding];
    Launch::of(name, dtype, &[windows.channels])?
        .tensors(tensors)?
        .whole(&[&sizes[..], &moves].concat())?
        .for_each(count)
}
