//! Linear layers: sums of products, each added where the one before it stands.
//!
//! Weights may be kept in bf16 or f16. They are widened a panel at a time, or in registers where there are few rows,
//! as when text is generated: then time is the bytes of the weights over the memory's speed.

use std::marker::PhantomData;

use candle_core::{DType, Tensor, quantized::QTensor};
use half::{bf16, f16};
use pulp::{Simd, WithSimd};

use crate::{
    Error, Result,
    ops::{
        kernels::{
            Kernel,
            cpu::{
                Numbers,
                blocks::{self, Block, widen_row, with_block},
                each, fetch_ahead, filled,
                math::dot_in,
                product::{
                    Matrix, Output, Size, Stored, multiply_on_threads,
                    narrow::{self, Multiplied, Unit},
                    widened,
                },
                rounded::{self, Product},
                rows_of_task, tensor, try_filled, with_scratch,
            },
            enabled, narrowed, rounded_rows,
        },
        linear::Term,
    },
};

/// Rows up to which a weight is read once from memory, row by row, instead of being packed.
pub(crate) const FEW_ROWS: usize = 4;
/// Numbers of such a row at least.
const LONG_ENOUGH: usize = 64;

/// Whether these kernels serve x in f32 and weights in f32, bf16 or f16, all on the CPU.
pub(crate) fn serves(kernel: Kernel, terms: &[Term]) -> bool {
    enabled(kernel)
        && terms.iter().all(|term| {
            let stored = matches!(term.weight.dtype(), DType::F32 | DType::BF16 | DType::F16);
            stored && term.x.dtype() == DType::F32 && term.x.device().is_cpu()
        })
}

/// Does something with the numbers of a weight, in whichever dtype they are kept.
macro_rules! with_stored {
    ($weight:expr, $numbers:ident => $body:expr) => {
        match $weight.dtype() {
            candle_core::DType::BF16 => {
                let $numbers = $crate::ops::kernels::cpu::Numbers::<half::bf16>::of($weight)?;
                $body
            }
            candle_core::DType::F16 => {
                let $numbers = $crate::ops::kernels::cpu::Numbers::<half::f16>::of($weight)?;
                $body
            }
            _ => {
                let $numbers = $crate::ops::kernels::cpu::Numbers::<f32>::of($weight)?;
                $body
            }
        }
    };
}
pub(crate) use with_stored;

/// Σ factor · x Wᵀ + c over the terms: x [n, i], W [o, i], c [o] -> [n, o].
pub(crate) fn project(terms: &[Term], bias: Option<&Tensor>) -> Result<Tensor> {
    sum_of_products(terms, numbers_of(bias)?, false)
}

/// Σ factor · g W over the terms: g [n, o] in the place of x, W [o, i] -> [n, i].
pub(crate) fn project_back(terms: &[Term]) -> Result<Tensor> {
    sum_of_products(terms, None, true)
}

fn sum_of_products(terms: &[Term], bias: Option<Vec<f32>>, back: bool) -> Result<Tensor> {
    let Some(first) = terms.first() else {
        return Err(super::broken("a sum of no products"));
    };
    let (rows, columns) = (first.x.dim(0)?, first.weight.dim(usize::from(back))?);
    let y = try_filled(rows * columns, |y| {
        let mut output = begin(y, columns, bias.as_deref());
        let size = Size {
            rows,
            columns,
            depth: first.x.dim(1)?,
        };
        if let Some(unit) = narrowed().filter(|_| rows > FEW_ROWS && narrow::serves(size)) {
            return put_narrow(unit, y, size, terms, back, output);
        }
        for term in terms {
            put(y, term, back, output)?;
            output = Output::Add;
        }
        Ok::<(), Error>(())
    })?;
    tensor(y, (rows, columns))
}

/// Puts a sum of products into y, or adds it, with operands rounded to bf16. `size` is that of the first.
fn put_narrow(
    unit: Unit,
    y: &mut [f32],
    size: Size,
    terms: &[Term],
    back: bool,
    output: Output,
) -> Result<()> {
    let mut tensors = Vec::new();
    for term in terms {
        tensors.push((term.x.contiguous()?, term.weight.contiguous()?));
    }
    let mut numbers = Vec::new();
    for (x, weight) in &tensors {
        numbers.push((Numbers::<f32>::of(x)?, AnyNumbers::of(weight)?));
    }
    let mut products = Vec::new();
    for (term, (x, weight)) in terms.iter().zip(&numbers) {
        let depth = term.x.dim(1)?;
        let size = Size { depth, ..size };
        products.push(weight.multiplied_by(x, back, size, term.factor as f32));
    }
    narrow::multiply(unit, y, size.columns, &products, output);
    Ok(())
}

fn numbers_of(bias: Option<&Tensor>) -> Result<Option<Vec<f32>>> {
    let numbers = bias.map(|it| it.to_dtype(DType::F32)?.to_vec1::<f32>());
    Ok(numbers.transpose()?)
}

/// Writes the bias into every row, if there is one. What is to be done with the numbers in y afterwards.
fn begin(y: &mut [f32], columns: usize, bias: Option<&[f32]>) -> Output {
    let Some(bias) = bias else {
        return Output::Replace;
    };
    y.chunks_mut(columns).for_each(|y| y.copy_from_slice(bias));
    Output::Add
}

/// Puts a product into y, or adds it.
fn put(y: &mut [f32], term: &Term, back: bool, output: Output) -> Result<()> {
    let (x, weight) = (term.x.contiguous()?, term.weight.contiguous()?);
    let (x, factor) = (Numbers::of(&x)?, term.factor as f32);
    let width = weight.dim(1)?;
    with_stored!(&weight, numbers => match back {
        false => project_onto(y, &x, &numbers, width, factor, output),
        true => back_onto(y, &x, &numbers, width, factor, output),
    });
    Ok(())
}

/// factor · gᵀ x: g [n, o], x [n, i] -> [o, i].
pub(crate) fn weight_gradient(gradient: &Tensor, x: &Tensor, factor: f64) -> Result<Tensor> {
    let (gradient, x) = (gradient.contiguous()?, x.contiguous()?);
    let (rows, columns) = (gradient.dim(1)?, x.dim(1)?);
    let (gradient, x) = (Numbers::of(&gradient)?, Numbers::of(&x)?);
    let (size, factor) = ((rows, columns), factor as f32);
    let dw = filled(rows * columns, |dw| {
        add_weight_gradient(dw, &gradient, &x, size, factor, Output::Replace);
    });
    tensor(dw, (rows, columns))
}

/// W x, or Wᵀ x where it is `turned`: W [o, i], x [i, m] -> [o, m].
pub(crate) fn multiply_first(weight: &Tensor, turned: bool, x: &Tensor) -> Result<Tensor> {
    let (weight, x) = (weight.contiguous()?, x.contiguous()?);
    let (depth, columns) = x.dims2()?;
    let width = weight.dim(1)?;
    let rows = weight.dim(0)? * width / depth;
    let (numbers, x) = (Numbers::<f32>::of(&weight)?, Numbers::<f32>::of(&x)?);
    let matrix = Matrix::rows(&numbers, width);
    let matrix = if turned { matrix.transposed() } else { matrix };
    let size = Size {
        rows,
        columns,
        depth,
    };
    let y = filled(rows * columns, |y| {
        let x = Matrix::rows(&x[..], columns);
        multiply_all(y, columns, matrix, x, size, 1.0, Output::Replace);
    });
    tensor(y, (rows, columns))
}

/// g xᵀ: g [o, m], x [i, m] -> [o, i]. Where x has more rows, its product with g is turned: the other way round, all of x would be
/// turned to be packed, which takes as long as the product.
pub(crate) fn weight_gradient_first(gradient: &Tensor, x: &Tensor) -> Result<Tensor> {
    if gradient.dim(0)? < x.dim(0)? {
        return Ok(weight_gradient_first(x, gradient)?.t()?.contiguous()?);
    }
    let (gradient, x) = (gradient.contiguous()?, x.contiguous()?);
    let (rows, depth) = gradient.dims2()?;
    let columns = x.dim(0)?;
    let (gradient, x) = (Numbers::<f32>::of(&gradient)?, Numbers::<f32>::of(&x)?);
    let size = Size {
        rows,
        columns,
        depth,
    };
    let dw = filled(rows * columns, |dw| {
        let x = Matrix::rows(&x[..], depth).transposed();
        let gradient = Matrix::rows(&gradient, depth);
        multiply_all(dw, columns, gradient, x, size, 1.0, Output::Replace);
    });
    tensor(dw, (rows, columns))
}

/// y = factor · x Wᵀ or y += factor · x Wᵀ: x [n, i], W [o, i], y [n, o], with i = `depth`.
pub(crate) fn project_onto<T: Stored>(
    y: &mut [f32],
    x: &[f32],
    weight: &[T],
    depth: usize,
    factor: f32,
    output: Output,
) {
    let size = Size {
        rows: x.len() / depth,
        columns: weight.len() / depth,
        depth,
    };
    if size.rows <= FEW_ROWS && depth >= LONG_ENOUGH {
        let rows = StoredRows {
            numbers: weight,
            depth,
        };
        return project_few(y, x, &rows, size, factor, output);
    }
    // A row among few has the sums that it has alone, which the product of a matrix with one row takes in an order of its own.
    if (2..=FEW_ROWS).contains(&size.rows) {
        for (y, x) in y.chunks_mut(size.columns).zip(x.chunks(depth)) {
            project_onto(y, x, weight, depth, factor, output);
        }
        return;
    }
    let (x, weight) = (
        Matrix::rows(x, depth),
        Matrix::rows(weight, depth).transposed(),
    );
    multiply_all(y, size.columns, x, weight, size, factor, output);
}

/// y = factor · g W or y += factor · g W: g [n, o], W [o, i], y [n, i], with i = `columns`.
pub(crate) fn back_onto<T: Stored>(
    y: &mut [f32],
    gradient: &[f32],
    weight: &[T],
    columns: usize,
    factor: f32,
    output: Output,
) {
    let depth = weight.len() / columns;
    let size = Size {
        rows: gradient.len() / depth,
        columns,
        depth,
    };
    let (gradient, weight) = (Matrix::rows(gradient, depth), Matrix::rows(weight, columns));
    multiply_all(y, columns, gradient, weight, size, factor, output);
}

/// dW = factor · gᵀ x or dW += factor · gᵀ x: g [n, o], x [n, i], dW [o, i].
pub(crate) fn add_weight_gradient(
    dw: &mut [f32],
    gradient: &[f32],
    x: &[f32],
    (rows, columns): (usize, usize),
    factor: f32,
    output: Output,
) {
    let size = Size {
        rows,
        columns,
        depth: x.len() / columns,
    };
    let (gradient, x) = (
        Matrix::rows(gradient, rows).transposed(),
        Matrix::rows(x, columns),
    );
    multiply_all(dw, columns, gradient, x, size, factor, output);
}

/// [`multiply_on_threads`], or the same with operands rounded to bf16 where this thread lets them be.
fn multiply_all<T: Stored>(
    c: &mut [f32],
    width: usize,
    a: Matrix,
    b: Matrix<T>,
    size: Size,
    factor: f32,
    output: Output,
) {
    match narrowed().filter(|_| narrow::serves(size)) {
        Some(unit) => {
            let product = Multiplied::new(a, b, size, factor);
            narrow::multiply(unit, c, width, &[product], output);
        }
        None => multiply_on_threads(c, width, a, b, size, factor, output),
    }
}

/// The numbers of a weight, in whichever dtype they are kept.
enum AnyNumbers<'a> {
    F32(Numbers<'a, f32>),
    Bf16(Numbers<'a, bf16>),
    F16(Numbers<'a, f16>),
}

impl<'a> AnyNumbers<'a> {
    fn of(weight: &'a Tensor) -> Result<Self> {
        Ok(match weight.dtype() {
            DType::BF16 => Self::Bf16(Numbers::of(weight)?),
            DType::F16 => Self::F16(Numbers::of(weight)?),
            _ => Self::F32(Numbers::of(weight)?),
        })
    }

    /// factor · x Wᵀ, or factor · x W on the way back.
    fn multiplied_by<'b>(
        &'b self,
        x: &'b [f32],
        back: bool,
        size: Size,
        factor: f32,
    ) -> Multiplied<'b> {
        match self {
            Self::F32(weight) => multiplied(x, weight, back, size, factor),
            Self::Bf16(weight) => multiplied(x, weight, back, size, factor),
            Self::F16(weight) => multiplied(x, weight, back, size, factor),
        }
    }
}

fn multiplied<'a, T: Stored>(
    x: &'a [f32],
    weight: &'a [T],
    back: bool,
    size: Size,
    factor: f32,
) -> Multiplied<'a> {
    let weight = match back {
        true => Matrix::rows(weight, size.columns),
        false => Matrix::rows(weight, size.depth).transposed(),
    };
    Multiplied::new(Matrix::rows(x, size.depth), weight, size, factor)
}

/// The rows of a weight, read one after another.
trait Rows: Sync {
    /// A row in f32, in `scratch` where it is kept otherwise.
    fn widened<'a>(&'a self, row: usize, scratch: &'a mut [f32]) -> &'a [f32];
}

struct StoredRows<'a, T> {
    numbers: &'a [T],
    depth: usize,
}

impl<T: Stored> Rows for StoredRows<'_, T> {
    #[inline(always)]
    fn widened<'a>(&'a self, row: usize, scratch: &'a mut [f32]) -> &'a [f32] {
        let row = &self.numbers[row * self.depth..][..self.depth];
        fetch_ahead(row);
        widened(row, scratch)
    }
}

struct BlockRows<'a, B> {
    bytes: &'a [u8],
    row_bytes: usize,
    block: PhantomData<B>,
}

impl<B: Block> Rows for BlockRows<'_, B> {
    #[inline(always)]
    fn widened<'a>(&'a self, row: usize, scratch: &'a mut [f32]) -> &'a [f32] {
        let row = &self.bytes[row * self.row_bytes..][..self.row_bytes];
        fetch_ahead(row);
        widen_row::<B>(row, scratch);
        scratch
    }
}

/// x Wᵀ + c, and the products of `more` added, where W [o, i] is in blocks: few rows x [n, i], c [o] -> [n, o]. Nothing where these
/// kernels don't serve it.
pub(crate) fn project_blocks(
    kernel: Kernel,
    x: &Tensor,
    blocks: &QTensor,
    more: &[Term],
    bias: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    let (rows, depth) = x.dims2()?;
    let is_here = x.device().is_cpu() && x.dtype() == DType::F32 && blocks.device().is_cpu();
    let is_few = rows <= FEW_ROWS && depth >= LONG_ENOUGH;
    if !(is_here && is_few && serves(kernel, more) && blocks::serves(blocks.dtype())) {
        return Ok(None);
    }
    let (columns, _) = blocks.shape().dims2()?;
    let bias = numbers_of(bias)?;
    let (x, bytes) = (x.contiguous()?, blocks.data()?);
    let x = Numbers::<f32>::of(&x)?;
    let size = Size {
        rows,
        columns,
        depth,
    };
    let row_bytes = bytes.len() / columns.max(1);
    let y = try_filled(rows * columns, |y| {
        let output = begin(y, columns, bias.as_deref());
        let product = Product {
            y: &mut *y,
            output,
            dtype: blocks.dtype(),
            blocks: &bytes,
        };
        if !(rows <= rounded_rows() && rounded::project(&x, depth, vec![product])) {
            let _served = with_block!(blocks.dtype(), B => {
                let weight = BlockRows::<B> { bytes: &bytes, row_bytes, block: PhantomData };
                project_few(y, &x, &weight, size, 1.0, output)
            });
        }
        more.iter()
            .try_for_each(|term| put(y, term, false, Output::Add))
    })?;
    tensor(y, (rows, columns)).map(Some)
}

/// x Wᵀ + c for few rows x [n, i], rounded to eight bits, and several weights W [o, i] in blocks, c [o] -> [n, o] each. Nothing where
/// they are not served so.
pub(crate) fn project_together(
    kernel: Kernel,
    x: &Tensor,
    layers: &[(&QTensor, Option<&Tensor>)],
) -> Result<Option<Vec<Tensor>>> {
    let (rows, depth) = x.dims2()?;
    let are_few = x.device().is_cpu() && x.dtype() == DType::F32 && rows <= rounded_rows();
    let are_here = layers.iter().all(|(blocks, _)| blocks.device().is_cpu());
    if !(enabled(kernel) && are_few && are_here) {
        return Ok(None);
    }
    let x = x.contiguous()?;
    let x = Numbers::<f32>::of(&x)?;
    let mut ys = Vec::new();
    let mut all = Vec::new();
    for (blocks, bias) in layers {
        let (columns, _) = blocks.shape().dims2()?;
        let mut y = vec![0.0; rows * columns];
        let output = begin(&mut y, columns, numbers_of(*bias)?.as_deref());
        ys.push(y);
        all.push((output, blocks.dtype(), blocks.data()?));
    }
    let products = ys.iter_mut().zip(&all);
    let products = products.map(|(y, (output, dtype, blocks))| Product {
        y,
        output: *output,
        dtype: *dtype,
        blocks,
    });
    if !rounded::project(&x, depth, products.collect()) {
        return Ok(None);
    }
    let ys = ys.into_iter().map(|y| {
        let columns = y.len() / rows;
        tensor(y, (rows, columns))
    });
    ys.collect::<Result<_>>().map(Some)
}

/// Some columns of a product of few rows: x [n, i] with rows of a weight from `first` on, out [o, n].
struct Few<'a, R> {
    x: &'a [f32],
    weight: &'a R,
    first: usize,
    factor: f32,
    /// [i].
    scratch: &'a mut [f32],
    out: &'a mut [f32],
}

impl<R: Rows> WithSimd for Few<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let depth = self.scratch.len();
        let rows = self.x.len() / depth;
        for (row, out) in self.out.chunks_mut(rows).enumerate() {
            let weight = self.weight.widened(self.first + row, self.scratch);
            for (out, x) in out.iter_mut().zip(self.x.chunks(depth)) {
                *out = self.factor * dot_in(simd, x, weight);
            }
        }
    }
}

/// [`project_onto`] for few rows: each row of the weight is read once, for all rows of x.
fn project_few(
    y: &mut [f32],
    x: &[f32],
    weight: &impl Rows,
    size: Size,
    factor: f32,
    output: Output,
) {
    let depth = size.depth;
    let block = rows_of_task(depth);
    let by_column = filled(size.rows * size.columns, |out| {
        let tasks: Vec<_> = out.chunks_mut(block * size.rows).enumerate().collect();
        each(tasks, size.columns * depth, |(index, out)| {
            with_scratch(depth, |scratch| {
                pulp::Arch::new().dispatch(Few {
                    x,
                    weight,
                    first: index * block,
                    factor,
                    scratch,
                    out,
                });
            });
        });
    });
    for (column, products) in by_column.chunks(size.rows).enumerate() {
        for (row, product) in products.iter().enumerate() {
            let y = &mut y[row * size.columns + column];
            *y = match output {
                Output::Replace => *product,
                Output::Add => *y + product,
            };
        }
    }
}
