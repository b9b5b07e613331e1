//! Kernels for Metal, in f32, f16 and bf16. Matrix products stay candle's.
//!
//! They are written in WGSL (`wgsl`), translated by naga when we develop and committed (`msl`), which nobody edits. The device
//! compiles what an operation needs when it is first asked for, and keeps it; an operation of which something doesn't compile is
//! composed. What is launched, with which tensors, values and groups of threads, is found by code that runs everywhere; only the
//! last step is a Mac's (`device`). In the tests a Vulkan driver takes its place (`tests::stand_in`).

pub(crate) mod adamw;
pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod classify;
pub(crate) mod codes;
pub(crate) mod convolution;
pub(crate) mod cross_entropy;
pub(crate) mod dropout;
pub(crate) mod embedding;
pub(crate) mod gated;
mod launch;
pub(crate) mod lora;
mod msl;
pub(crate) mod norm;
pub(crate) mod pool;
pub(crate) mod rope;
pub(crate) mod squares;

#[cfg(all(target_os = "macos", feature = "metal"))]
mod device;
#[cfg(test)]
pub(crate) mod tests;

use candle_core::{DType, Device, Shape, Tensor};

use super::Kernel;
use crate::{Error, Result};

/// Whether anything here can be reached: the texts are no part of other programs.
const IS_BUILT: bool = cfg!(any(test, all(target_os = "macos", feature = "metal")));

/// What is bound at a slot of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    /// A buffer that is only read.
    Read,
    /// A buffer that is written, and perhaps read.
    Write,
    /// So many bytes by value.
    Values(usize),
}

/// A kernel in all its storages.
#[cfg_attr(
    not(any(test, all(target_os = "macos", feature = "metal"))),
    expect(dead_code, reason = "tested everywhere, used on macOS")
)]
struct Text {
    name: &'static str,
    /// Threads of a group.
    threads: usize,
    bindings: &'static [Binding],
    /// f32, f16 and bf16, each four numbers at a time and one.
    by_storage: [&'static str; 6],
}

/// The storages, in the order of [`Text::by_storage`].
const STORAGES: [&str; 6] = ["f32x4", "f32x1", "f16x4", "f16x1", "bf16x4", "bf16x1"];

/// The first of the two storages of a dtype.
fn storage(dtype: DType) -> Option<usize> {
    match dtype {
        DType::F32 => Some(0),
        DType::F16 => Some(2),
        DType::BF16 => Some(4),
        _ => None,
    }
}

/// The kernels that an operation is made of.
fn texts_of(kernel: Kernel) -> &'static [&'static str] {
    match kernel {
        Kernel::RmsNorm => &["rms_norm", "rms_norm_back", "rms_norm_weight"],
        Kernel::LayerNorm => &["layer_norm", "layer_norm_back", "layer_norm_weight"],
        Kernel::ResidualNorm => &["residual_norm", "residual_norm_back"],
        Kernel::Rope => &["rotate"],
        Kernel::Embedding => &["add_rows"],
        Kernel::HeadCrossEntropy => &["cross_entropy"],
        Kernel::Lora => &["gather", "add_low_rank", "add_low_rank_back"],
        Kernel::Attention => &["masked_softmax", "masked_softmax_back", "next_attention"],
        Kernel::Gated => &["gated", "gated_back"],
        Kernel::FeedForward => &["halves", "halves_back"],
        Kernel::Dropout => &["dropout"],
        Kernel::Classify => &["classify"],
        // Products are candle's, of numbers that weights in codes first become.
        Kernel::Linear => &["widen_codes"],
        Kernel::Convolution => &["patches", "patches_back"],
        Kernel::BatchNorm => &[
            "batch_sums",
            "batch_channels",
            "batch_follow",
            "batch_apply",
            "batch_slope_sums",
            "batch_slopes",
            "batch_back",
        ],
        Kernel::Pool => &["max_pool", "max_pool_back"],
        Kernel::Adamw => &["adamw", "adamw_codes"],
        Kernel::GradientNorm => &["squares"],
        // Composed of candle's.
        Kernel::Add | Kernel::Scale | Kernel::Sgd | Kernel::NextToken => &[],
    }
}

/// The names of all kernels.
#[cfg(test)]
pub(crate) fn texts() -> impl Iterator<Item = &'static str> {
    msl::TEXTS.iter().map(|text| text.name)
}

/// Whether the kernels here of this operation serve tensors like these: all in one of their dtypes, all on a Metal device, which
/// has compiled them, and none with more numbers than a kernel can count.
pub(crate) fn serves(kernel: Kernel, tensors: &[&Tensor]) -> bool {
    let Some(first) = tensors.first().filter(|_| IS_BUILT) else {
        return false;
    };
    let fits = |it: &&Tensor| {
        is_place(it.device())
            && it.dtype() == first.dtype()
            && u32::try_from(it.elem_count()).is_ok()
    };
    super::enabled(kernel)
        && !texts_of(kernel).is_empty()
        && tensors.iter().all(fits)
        && storage(first.dtype()).is_some()
        && problem(kernel, first.device(), first.dtype()).is_none()
}

/// Why a device can't run a kernel of this operation in a dtype, in its own words; nothing where it can, or where there is none.
/// Compiles what nothing has compiled yet.
pub(super) fn problem(kernel: Kernel, device: &Device, dtype: DType) -> Option<String> {
    let storage = storage(dtype).filter(|_| is_place(device))?;
    let storages = [storage, storage + 1];
    let all = texts_of(kernel)
        .iter()
        .flat_map(|name| storages.map(|it| (name, it)));
    all.into_iter().find_map(|(name, storage)| {
        let compiled = launch::text(name).and_then(|text| launch::prepare(device, text, storage));
        compiled.err().map(|problem| problem.to_string())
    })
}

/// Whether kernels are launched on a device.
fn is_place(device: &Device) -> bool {
    #[cfg(test)]
    if tests::stand_in::is_on() {
        return device.is_cpu();
    }
    IS_BUILT && device.is_metal()
}

/// Runs `work`, a step of a run or a token of an answer, and then frees what Metal made on the way: on a thread of ours nobody else
/// does.
pub(crate) fn in_pool<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(all(target_os = "macos", feature = "metal"))]
    return objc2::rc::autoreleasepool(|_| work());
    #[cfg(not(all(target_os = "macos", feature = "metal")))]
    work()
}

/// Tells a test that counts what candle is asked for.
pub(crate) fn note(_what: &'static str) {
    #[cfg(test)]
    tests::stand_in::note(_what);
}

/// a b, by candle: of rank 3, and either as it lies or transposed.
fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    note("product");
    Ok(a.matmul(b)?)
}

/// The same numbers, side by side.
fn side_by_side(x: &Tensor) -> Result<Tensor> {
    if !x.is_contiguous() {
        note("copy");
    }
    Ok(x.contiguous()?)
}

/// The same numbers in another dtype.
fn in_dtype(x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() != dtype {
        note("conversion");
    }
    Ok(x.to_dtype(dtype)?)
}

/// A tensor on the device of `like` that a kernel has to fill, all of it.
#[allow(unsafe_code)]
fn output(shape: impl Into<Shape>, dtype: DType, like: &Tensor) -> Result<Tensor> {
    // What a kernel leaves out is seen in the tests.
    #[cfg(test)]
    if tests::stand_in::is_on() {
        return tests::stand_in::unwritten(shape.into(), dtype);
    }
    // Safety: every pattern of bits is a number, and kernels write before anything reads.
    Ok(unsafe { Tensor::empty(shape.into(), dtype, like.device()) }?)
}

/// A tensor like another that a kernel has to fill.
fn output_like(x: &Tensor) -> Result<Tensor> {
    output(x.shape(), x.dtype(), x)
}

/// What would be our mistake: the operation should not have called the kernel.
fn broken(what: impl Into<String>) -> Error {
    Error::Tensor(candle_core::Error::Msg(what.into()))
}
