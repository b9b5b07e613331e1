//! Convolution: by cuDNN where its library is found, else by products of tiles that read pictures where they lie
//! (`convolution.cu`), and otherwise by patches, some pictures at a time, with a product through cuBLAS.
//!
//! Patches are for f32, for channels that come in no packs of eight, as those of colours, and for GPUs older than compute
//! capability 8.0.

use candle_core::{DType, Tensor};

use super::{
    Launch, PACK,
    code::{Code, compiled},
    cudnn, in_packs,
    linear::{Size, multiply, plain, transposed, with_bias},
    multiplies_tiles, output,
    pictures::PICTURES,
};
use crate::{Result, ops::convolution::Shape};

const TILES: Code = compiled!("convolution");

/// Threads of a block.
const THREADS: usize = 128;
/// Places of a tile, and the numbers or places that it is deep.
const PLACES: usize = 128;
const DEPTH: usize = 64;
const STAGES: usize = 3;
/// Blocks that are enough for every GPU.
const BLOCKS: usize = 264;
/// The most numbers that whole numbers of 32 bits count.
const MAX_NUMBERS: usize = 1 << 31;

/// x [n, h, w, c], W [o, c, k, k] in the dtype of x, e [o] -> [n, h', w', o].
pub(crate) fn forward(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    shape: &Shape,
) -> Result<Tensor> {
    let y = output(&shape.of_output(), x.dtype(), x)?;
    if in_tiles(&[x, weight], shape)? {
        let rows = weight_rows(weight, shape, PassDirection::Forward)?;
        if cudnn::compute(PassDirection::Forward, x, &rows, &y, shape)? {
            return with_bias(y, bias);
        }
        let bias = bias.map(|it| it.to_dtype(DType::F32)?.contiguous());
        let [places, outputs] = [shape.pictures * shape.places(), shape.channels[1]];
        let width = tile_width(outputs);
        Launch::of_code(&TILES, &format!("convolution_{width}"), x)?
            .tensors(&[x, &rows])?
            .perhaps(bias.transpose()?.as_ref())?
            .tensors(&[&y])?
            .picture_shape(shape.into())
            .sharing(tile_bytes(PLACES, width))
            .launch(places.div_ceil(PLACES) * outputs.div_ceil(width), THREADS)?;
        return Ok(y);
    }
    let rows = weight_rows(weight, shape, PassDirection::Forward)?;
    for part in parts(x, shape) {
        let (patches, y) = (part.patches(x)?, part.outputs(&y)?);
        multiply(
            part.size(),
            1.0,
            plain(&patches),
            transposed(&rows),
            0.0,
            &y,
        )?;
    }
    with_bias(y, bias)
}

/// The gradient of x [n, h, w, c] from g [n, h', w', o].
pub(crate) fn to_picture(gradient: &Tensor, weight: &Tensor, shape: &Shape) -> Result<Tensor> {
    let [height, width] = shape.from;
    let [channels, _] = shape.channels;
    let dims = (shape.pictures, height, width, channels);
    let dx = output(dims, gradient.dtype(), gradient)?;
    if in_tiles(&[gradient, weight], shape)? {
        // cuDNN takes the rows as they are, and the products of tiles others, which are made only then.
        if cudnn::is_found() {
            let rows = weight_rows(weight, shape, PassDirection::Forward)?;
            if cudnn::compute(PassDirection::Back, gradient, &rows, &dx, shape)? {
                return Ok(dx);
            }
        }
        let rows = weight_rows(weight, shape, PassDirection::Back)?;
        let stride = shape.geometry.stride;
        // Of all classes of places the first has most.
        let places = shape.pictures * height.div_ceil(stride) * width.div_ceil(stride);
        let wide = tile_width(channels);
        Launch::of_code(&TILES, &format!("convolution_back_{wide}"), gradient)?
            .tensors(&[gradient, &rows, &dx])?
            .picture_shape(shape.into())
            .sharing(tile_bytes(PLACES, wide))
            .launch_grid(
                [
                    places.div_ceil(PLACES) * channels.div_ceil(wide),
                    stride * stride,
                ],
                THREADS,
            )?;
        return Ok(dx);
    }
    let rows = weight_rows(weight, shape, PassDirection::Forward)?;
    for part in parts(gradient, shape) {
        let patches = output(&part.of_patches(), gradient.dtype(), gradient)?;
        let Size { m, n, k, batch } = part.size();
        let size = Size {
            batch,
            m,
            n: k,
            k: n,
        };
        let gradient = part.outputs(gradient)?;
        multiply(size, 1.0, plain(&gradient), plain(&rows), 0.0, &patches)?;
        let dx = part.pictures(&dx)?;
        Launch::of_code(&PICTURES, "patches_back", &patches)?
            .tensors(&[&patches, &dx])?
            .count(dx.elem_count())
            .whole(&[part.columns()])
            .picture_shape((&part.shape).into())
            .for_each(dx.elem_count())?;
    }
    Ok(dx)
}

/// The gradient of W [o, c, k, k] in f32 from g [n, h', w', o] and x [n, h, w, c].
pub(crate) fn to_weight(gradient: &Tensor, x: &Tensor, shape: &Shape) -> Result<Tensor> {
    let [channels, outputs] = shape.channels;
    let side = shape.geometry.kernel;
    let dw = output((outputs, channels, side, side), DType::F32, x)?;
    let sum = |parts: &Tensor, shares: usize, columns: usize| {
        Launch::of_code(&PICTURES, "weight_sum", &dw)?
            .tensors(&[parts, &dw])?
            .count(dw.elem_count())
            .whole(&[shares, columns, outputs, channels, side * side])
            .for_each(dw.elem_count())
    };
    if in_tiles(&[gradient, x], shape)? {
        let (high, wide) = (tile_width(outputs), PLACES);
        let tiles = outputs.div_ceil(high) * shape.depth().div_ceil(wide);
        let steps = (shape.pictures * shape.places()).div_ceil(DEPTH);
        let of_share = steps.div_ceil((BLOCKS / tiles).clamp(1, steps));
        let shares = steps.div_ceil(of_share);
        let parts = output((shares, outputs, shape.depth()), DType::F32, x)?;
        Launch::of_code(&TILES, &format!("convolution_weights_{high}"), x)?
            .tensors(&[gradient, x, &parts])?
            .picture_shape(shape.into())
            .whole(&[of_share])
            .sharing(tile_bytes(high, wide))
            .launch_grid([tiles, shares], THREADS)?;
        sum(&parts, shares, shape.depth())?;
        return Ok(dw);
    }
    let columns = columns(shape);
    let product = output((outputs, columns), DType::F32, x)?;
    for (number, part) in parts(x, shape).enumerate() {
        let (patches, gradient) = (part.patches(x)?, part.outputs(gradient)?);
        let Size { m, n, k, batch } = part.size();
        let size = Size {
            batch,
            m: n,
            n: k,
            k: m,
        };
        let kept = if number == 0 { 0.0 } else { 1.0 };
        multiply(
            size,
            1.0,
            transposed(&gradient),
            plain(&patches),
            kept,
            &product,
        )?;
    }
    sum(&product, 1, columns)?;
    Ok(dw)
}

/// Whether pictures are read where they lie.
fn in_tiles(tensors: &[&Tensor], shape: &Shape) -> Result<bool> {
    let is_narrow = tensors
        .iter()
        .all(|it| matches!(it.dtype(), DType::BF16 | DType::F16));
    let is_whole = shape.channels.iter().all(|it| it.is_multiple_of(PACK));
    let [places, pixels] = [shape.to, shape.from].map(|it| it[0] * it[1] * shape.pictures);
    let numbers = (places * shape.channels[1]).max(pixels * shape.channels[0]);
    let fits = is_narrow && is_whole && numbers < MAX_NUMBERS;
    Ok(fits && in_packs(tensors)? && multiplies_tiles(tensors[0].device())?)
}

/// How wide a tile is for so many outputs.
fn tile_width(outputs: usize) -> usize {
    if outputs <= 64 { 64 } else { 128 }
}

/// What the threads of a block share: tiles of both sides of the product.
fn tile_bytes(high: usize, wide: usize) -> usize {
    STAGES * (high + wide) * DEPTH * DType::BF16.size_in_bytes()
}

/// Which way a convolution goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PassDirection {
    /// From pictures.
    Forward,
    /// From the gradient to that of pictures.
    Back,
}

/// The weight [o, c, k, k] in the rows of a product: forward [o, k k c], filled up to whole packs, back [c, k k o].
fn weight_rows(weight: &Tensor, shape: &Shape, way: PassDirection) -> Result<Tensor> {
    let [channels, outputs] = shape.channels;
    let taps = shape.geometry.kernel * shape.geometry.kernel;
    let (rows, columns) = match way {
        PassDirection::Forward => (outputs, columns(shape)),
        PassDirection::Back => (channels, taps * outputs),
    };
    let turned = output((rows, columns), weight.dtype(), weight)?;
    Launch::of_code(&PICTURES, "weight_rows", weight)?
        .tensors(&[weight, &turned])?
        .count(rows * columns)
        .whole(&[
            columns,
            outputs,
            channels,
            taps,
            usize::from(way == PassDirection::Back),
        ])
        .for_each(rows * columns)?;
    Ok(turned)
}

/// Numbers of a patch, filled up to whole packs.
fn columns(shape: &Shape) -> usize {
    shape.depth().next_multiple_of(PACK)
}

/// Some pictures of a convolution, whose patches are made at a time.
struct Part {
    first: usize,
    /// The convolution of these pictures alone.
    shape: Shape,
}

/// A convolution in parts whose patches find room.
fn parts(like: &Tensor, shape: &Shape) -> impl Iterator<Item = Part> {
    let parts = shape.parts(columns(shape), like.dtype());
    parts.map(|(first, shape)| Part { first, shape })
}

impl Part {
    fn columns(&self) -> usize {
        columns(&self.shape)
    }

    fn of_patches(&self) -> [usize; 2] {
        [self.shape.pictures * self.shape.places(), self.columns()]
    }

    /// Of the product [places, columns] × [columns, o].
    fn size(&self) -> Size {
        let [m, k] = self.of_patches();
        Size {
            batch: 1,
            m,
            n: self.shape.channels[1],
            k,
        }
    }

    /// Its share of x [n, h, w, c].
    fn pictures(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.narrow(0, self.first, self.shape.pictures)?)
    }

    /// Its share of y [n, h', w', o], whose places are rows.
    fn outputs(&self, y: &Tensor) -> Result<Tensor> {
        let share = y.narrow(0, self.first, self.shape.pictures)?;
        Ok(share.reshape((self.of_patches()[0], self.shape.channels[1]))?)
    }

    fn patches(&self, x: &Tensor) -> Result<Tensor> {
        let patches = output(&self.of_patches(), x.dtype(), x)?;
        Launch::of_code(&PICTURES, "patches", x)?
            .tensors(&[&self.pictures(x)?, &patches])?
            .count(patches.elem_count() / PACK)
            .whole(&[self.columns()])
            .picture_shape((&self.shape).into())
            .for_each(patches.elem_count() / PACK)?;
        Ok(patches)
    }
}
