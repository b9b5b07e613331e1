//! Matrix products through cuBLAS: sums of products without a tensor for each, operands in any order, and weight
//! gradients in f32 from narrower operands.

use std::ffi::c_void;

use candle_core::{
    DType, Tensor,
    cuda::{
        WrapErr,
        cudarc::cublas::{result::gemm_strided_batched_ex, sys},
    },
};

use crate::{
    Result,
    ops::{
        kernels::{
            Kernel,
            cuda::{
                PACK, address, broken, device, output, serves as serves_tensors, side::products,
                strided_address,
            },
        },
        linear::Term,
    },
};

/// A row-major operand [batch, rows, columns] of a product. The rows of a single matrix may lie apart.
pub(super) struct Operand<'a> {
    pub(super) numbers: &'a Tensor,
    /// Whether the product takes it with rows and columns exchanged.
    pub(super) transposed: bool,
}

/// The size of a product [batch, m, k] × [batch, k, n].
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) batch: usize,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

pub(super) fn plain(numbers: &Tensor) -> Operand<'_> {
    Operand {
        numbers,
        transposed: false,
    }
}

pub(super) fn transposed(numbers: &Tensor) -> Operand<'_> {
    Operand {
        numbers,
        transposed: true,
    }
}

/// Whether these products are computed here.
pub(crate) fn serves(kernel: Kernel, terms: &[Term]) -> bool {
    let inputs: Vec<&Tensor> = terms.iter().map(|term| term.x).collect();
    serves_tensors(kernel, &inputs) && terms.iter().all(|term| term.weight.device().is_cuda())
}

/// See [`project`](crate::ops::linear::project).
pub(crate) fn project(terms: &[Term], bias: Option<&Tensor>) -> Result<Tensor> {
    with_bias(sum(terms, true)?, bias)
}

/// y [.., o] with e [o] added, if there is one.
pub(super) fn with_bias(y: Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    Ok(match bias {
        Some(bias) => y.broadcast_add(&bias.to_dtype(y.dtype())?)?,
        None => y,
    })
}

/// See [`project_back`](crate::ops::linear::project_back).
pub(crate) fn project_back(terms: &[Term]) -> Result<Tensor> {
    sum(terms, false)
}

/// factor · gᵀ x in f32, whatever the dtype of the operands: gradient [n, o], x [n, i] -> [o, i].
pub(crate) fn weight_gradient(gradient: &Tensor, x: &Tensor, factor: f64) -> Result<Tensor> {
    let (gradient, x) = (gradient.contiguous()?, x.contiguous()?);
    let sum = output((gradient.dim(1)?, x.dim(1)?), DType::F32, &x)?;
    product(factor, transposed(&gradient), plain(&x), 0.0, &sum)?;
    Ok(sum)
}

/// Adds gᵀ x to a sum in f32, in place: sum [o, i], gradient [n, o], x [n, i].
pub(crate) fn add_weight_gradient(sum: &Tensor, gradient: &Tensor, x: &Tensor) -> Result<()> {
    let (gradient, x) = (gradient.contiguous()?, x.contiguous()?);
    product(1.0, transposed(&gradient), plain(&x), 1.0, sum)
}

/// W x, or Wᵀ x where it is `turned`: W [o, i], x [i, m] -> [o, m].
///
/// The tensor cores want rows of whole packs. A sequence of 97 places is none, but the inner width of the weight is, and the
/// weight is small: it is turned in memory then.
pub(crate) fn multiply_first(weight: &Tensor, turned: bool, x: &Tensor) -> Result<Tensor> {
    let (mut weight, x) = (weight.contiguous()?, x.contiguous()?);
    let (rows, columns) = weight.dims2()?;
    let mut is_turned = turned;
    if !columns.is_multiple_of(PACK) && rows.is_multiple_of(PACK) {
        weight = weight.t()?.contiguous()?;
        is_turned = !turned;
    }
    let m = if turned { columns } else { rows };
    let y = output((m, x.dim(1)?), x.dtype(), &x)?;
    let weight = Operand {
        numbers: &weight,
        transposed: is_turned,
    };
    product(1.0, weight, plain(&x), 0.0, &y)?;
    Ok(y)
}

/// g xᵀ in f32: g [o, m], x [i, m] -> [o, i]. Turned where that has the longer rows.
pub(crate) fn weight_gradient_first(gradient: &Tensor, x: &Tensor) -> Result<Tensor> {
    let (gradient, x) = (gradient.contiguous()?, x.contiguous()?);
    let of = |a: &Tensor, b: &Tensor| -> Result<Tensor> {
        let sum = output((a.dim(0)?, b.dim(0)?), DType::F32, a)?;
        product(1.0, plain(a), transposed(b), 0.0, &sum)?;
        Ok(sum)
    };
    if !x.dim(0)?.is_multiple_of(PACK) && gradient.dim(0)?.is_multiple_of(PACK) {
        return Ok(of(&x, &gradient)?.t()?.contiguous()?);
    }
    of(&gradient, &x)
}

/// Σ factor · x Wᵀ, or Σ factor · x W, in the dtype of x.
fn sum(terms: &[Term], transpose: bool) -> Result<Tensor> {
    let mut sum: Option<Tensor> = None;
    for term in terms {
        let x = term.x.contiguous()?;
        let weight = term.weight.to_dtype(x.dtype())?.contiguous()?;
        let n = weight.dim(if transpose { 0 } else { 1 })?;
        let weight = Operand {
            numbers: &weight,
            transposed: transpose,
        };
        // The first product fills the output, each further one is added to it.
        let (out, kept) = match &sum {
            Some(sum) => (sum.clone(), 1.0),
            None => (output((x.dim(0)?, n), x.dtype(), &x)?, 0.0),
        };
        product(term.factor, plain(&x), weight, kept, &out)?;
        sum = Some(out);
    }
    sum.ok_or_else(|| broken("a sum of no products"))
}

/// out = factor · a b + kept · out, of single matrices.
pub(super) fn product(factor: f64, a: Operand, b: Operand, kept: f64, out: &Tensor) -> Result<()> {
    let (m, n) = out.dims2()?;
    let k = a.numbers.dim(if a.transposed { 0 } else { 1 })?;
    let size = Size { batch: 1, m, n, k };
    multiply(size, factor, a, b, kept, out)
}

/// The same of a batch of them.
#[allow(unsafe_code)]
pub(super) fn multiply(
    size: Size,
    factor: f64,
    a: Operand,
    b: Operand,
    kept: f64,
    out: &Tensor,
) -> Result<()> {
    let Size { batch, m, n, k } = size;
    let device = device(out)?;
    let (factor, kept) = (factor as f32, kept as f32);
    // cuBLAS counts down columns. Read so, our operands are transposed, and outᵀ = bᵀ aᵀ is what it computes.
    let order = |it: &Operand| match it.transposed {
        true => sys::cublasOperation_t::CUBLAS_OP_T,
        false => sys::cublasOperation_t::CUBLAS_OP_N,
    };
    let leading = |it: &Operand, rows: usize, columns: usize| match it.transposed {
        true => row_stride(it.numbers, rows),
        false => row_stride(it.numbers, columns),
    };
    // Safety: the addresses are those of tensors of these sizes, and the stream orders the product with what follows.
    unsafe {
        gemm_strided_batched_ex(
            products(&device),
            order(&b),
            order(&a),
            n as i32,
            m as i32,
            k as i32,
            (&raw const factor).cast(),
            matrix_address(b.numbers)? as *const c_void,
            data_type(b.numbers)?,
            leading(&b, k, n),
            (k * n) as i64,
            matrix_address(a.numbers)? as *const c_void,
            data_type(a.numbers)?,
            leading(&a, m, k),
            (m * k) as i64,
            (&raw const kept).cast(),
            matrix_address(out)? as *mut c_void,
            data_type(out)?,
            row_stride(out, n),
            (m * n) as i64,
            batch as i32,
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
        )
    }
    .w()?;
    Ok(())
}

/// Whether the numbers of each row of a matrix lie side by side, but not one row after the other.
fn has_rows_apart(tensor: &Tensor) -> bool {
    !tensor.is_contiguous() && tensor.rank() == 2 && tensor.stride()[1] == 1
}

/// How many numbers after a row the next one begins, of rows of `columns` numbers.
fn row_stride(tensor: &Tensor, columns: usize) -> i32 {
    match has_rows_apart(tensor) {
        true => tensor.stride()[0] as i32,
        false => columns as i32,
    }
}

fn matrix_address(tensor: &Tensor) -> Result<u64> {
    match has_rows_apart(tensor) {
        true => strided_address(tensor),
        false => address(tensor),
    }
}

fn data_type(tensor: &Tensor) -> Result<sys::cudaDataType> {
    match tensor.dtype() {
        DType::F32 => Ok(sys::cudaDataType::CUDA_R_32F),
        DType::BF16 => Ok(sys::cudaDataType::CUDA_R_16BF),
        DType::F16 => Ok(sys::cudaDataType::CUDA_R_16F),
        _ => Err(broken("no matrix product for this dtype")),
    }
}
