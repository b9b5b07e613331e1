//! Sums of whole tensors and of the rows of each token, and rows in another order.

use candle_core::{DType, Tensor};

use crate::{
    Result,
    ops::kernels::cuda::{Launch, PACK, broken, in_packs, linear::weight_gradient, output},
};

/// Words up to which the rows of each are added up by a product: there are too many of each for a block.
const FEW_WORDS: usize = 64;

/// Threads of a block that adds rows up.
const THREADS: usize = 256;

/// x + y, of the same shape and dtype.
pub(crate) fn add(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (x, y) = (x.contiguous()?, y.contiguous()?);
    let count = x.elem_count();
    let (kernel, at_once) = match count.is_multiple_of(PACK) && in_packs(&[&x, &y])? {
        true => ("add", PACK),
        false => ("add_singles", 1),
    };
    let sum = output(x.shape(), x.dtype(), &x)?;
    Launch::of(kernel, &x)?
        .tensors(&[&x, &y, &sum])?
        .count(count)
        .for_each(count / at_once)?;
    Ok(sum)
}

/// [m, n, ..] -> [n, m, ..].
pub(crate) fn swap(x: &Tensor) -> Result<Tensor> {
    let x = x.contiguous()?;
    let (count, dims) = (x.elem_count(), x.dims());
    let (m, n) = (dims[0], dims[1]);
    let width = dims[2..].iter().product::<usize>();
    if !(width.is_multiple_of(PACK) && in_packs(&[&x])?) {
        return Ok(x.transpose(0, 1)?.contiguous()?);
    }
    let y = output([&[n, m], &dims[2..]].concat(), x.dtype(), &x)?;
    Launch::of("swap_rows", &x)?
        .tensors(&[&x, &y])?
        .count(count)
        .whole(&[m, n, width])
        .for_each(count / PACK)?;
    Ok(y)
}

/// The rows of a table [v, d] at `places` [r]: [r, d]. One that is not there has no numbers.
pub(crate) fn take_rows(table: &Tensor, places: &Tensor) -> Result<Tensor> {
    let (table, places) = (table.contiguous()?, places.contiguous()?);
    let (count, width) = table.dims2()?;
    let taken = places.elem_count();
    let rows = output((taken, width), table.dtype(), &table)?;
    Launch::of("take_rows", &table)?
        .tensors(&[&table, &places, &rows])?
        .whole(&[width, count])
        .launch(taken, THREADS)?;
    Ok(rows)
}

/// Rows [r, d] at their `places` [r] among `count` of them, and zeros elsewhere: [count, d]. What has the place of the first row and
/// comes after it is zero, and left out.
pub(crate) fn put_rows(rows: &Tensor, places: &Tensor, count: usize) -> Result<Tensor> {
    let all = Tensor::zeros((count, rows.dim(1)?), rows.dtype(), rows.device())?;
    put_rows_into(&all, rows, places)?;
    Ok(all)
}

/// Writes rows [r, d] at their `places` [r] into others [n, d]. Who calls sees to it that these places are there. What has the place of
/// the first row and comes after it is there to fill up, and left out.
pub(crate) fn put_rows_into(all: &Tensor, rows: &Tensor, places: &Tensor) -> Result<()> {
    let rows = rows.contiguous()?;
    let (taken, width) = rows.dims2()?;
    if all.dims2()?.1 != width || all.dtype() != rows.dtype() {
        return Err(broken("rows don’t fit where they belong"));
    }
    Launch::of("put_rows", &rows)?
        .tensors(&[&rows, &places.contiguous()?, all])?
        .whole(&[width])
        .launch(taken, THREADS)
}

/// Multiplies x with a number in f32 that lies beside it, in place. Nobody else may hold x.
pub(crate) fn scale(x: &Tensor, factor: &Tensor) -> Result<()> {
    let count = x.elem_count();
    Launch::of("scale", x)?
        .tensors(&[x, factor])?
        .count(count)
        .for_each(count.div_ceil(PACK))
}

/// The sum of the rows [n, d] of each of `tokens` [n] in f32 -> [v, d].
pub(crate) fn add_rows(rows: &Tensor, tokens: &Tensor, vocabulary: usize) -> Result<Tensor> {
    let (count, width) = rows.dims2()?;
    let rows = rows.contiguous()?;
    if vocabulary <= FEW_WORDS {
        let words = Tensor::arange(0, vocabulary as u32, rows.device())?;
        let is_word = tokens.unsqueeze(1)?.broadcast_eq(&words.unsqueeze(0)?)?;
        return weight_gradient(&is_word.to_dtype(rows.dtype())?, &rows, 1.0);
    }
    let sums = Tensor::zeros((vocabulary, width), DType::F32, rows.device())?;
    Launch::of("embedding_back", &rows)?
        .tensors(&[&rows, &tokens.contiguous()?, &sums])?
        .whole(&[count, width])
        .launch(count, THREADS)?;
    Ok(sums)
}
