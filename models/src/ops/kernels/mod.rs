//! Fused kernels behind the operations, by device.
//!
//! An operation asks whether a kernel serves its tensors and otherwise composes itself from candle's kernels. The
//! composed version is every kernel's reference in the tests, and what is left where the device check found a kernel
//! wrong.

use std::{cell::Cell, marker::PhantomData, thread::LocalKey};

use candle_core::{DType, Device};

use self::cpu::product::narrow::Unit;
use crate::{Error, Result};

pub(crate) mod codes;
pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
pub(crate) mod metal;

/// Makes [`Kernel`] and [`NAMES`] from one table, so that a kernel's number is the place of its name.
macro_rules! kernels {
    ($($kernel:ident: $name:literal,)*) => {
        /// The operations that have a kernel on some device.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kernel {
            $($kernel,)*
        }

        /// All of them, in the order of [`NAMES`].
        const KERNELS: &[Kernel] = &[$(Kernel::$kernel,)*];

        /// What they are called in the device check and in a plan.
        pub const NAMES: &[&str] = &[$($name,)*];
    };
}

kernels! {
    RmsNorm: "rms_norm",
    LayerNorm: "layer_norm",
    ResidualNorm: "residual_norm",
    Rope: "rope",
    Embedding: "embedding",
    HeadCrossEntropy: "head_cross_entropy",
    Classify: "classify",
    Linear: "linear",
    Lora: "lora",
    Dropout: "dropout",
    Attention: "attention",
    Gated: "gated",
    FeedForward: "feed_forward",
    Add: "add",
    Scale: "scale",
    Convolution: "convolution",
    BatchNorm: "batch_norm",
    Pool: "pool",
    Adamw: "adamw",
    Sgd: "sgd",
    GradientNorm: "gradient_norm",
    NextToken: "next_token",
}

const ALL: u32 = (1 << NAMES.len()) - 1;

thread_local! {
    /// The operations that do without their kernels on this thread: one bit for each of [`NAMES`].
    static AVOIDED: Cell<u32> = const { Cell::new(0) };
    /// Whether what is multiplied with weights in blocks may be rounded on this thread.
    static ROUNDED_ROWS: Cell<usize> = const { Cell::new(0) };
    /// What multiplies operands rounded to bf16 on this thread, where they are.
    static NARROWED: Cell<Option<Unit>> = const { Cell::new(None) };
}

/// As long as it is kept, this thread does without the kernels of some operations.
#[must_use = "kernels are used again when it is dropped"]
#[derive(Debug)]
pub struct Avoided {
    before: u32,
    /// It belongs to the thread that made it.
    thread: PhantomData<*const ()>,
}

impl Drop for Avoided {
    fn drop(&mut self) {
        AVOIDED.set(self.before);
    }
}

/// Runs `work` with every operation composed from candle's kernels: to compare, and to do without a kernel that is
/// suspected. Kernels are left out on this thread only.
pub fn without<T>(work: impl FnOnce() -> T) -> T {
    let _avoided = avoid_also(ALL);
    work()
}

/// Composes the operations of these [`NAMES`] on this thread, until what is returned is dropped.
///
/// Errors: [`Error::Setting`] for a name that is none of them.
pub fn avoid(operations: &[String]) -> Result<Avoided> {
    let mut avoided = 0;
    for operation in operations {
        let index = NAMES.iter().position(|name| name == operation);
        avoided |= 1 << index.ok_or_else(|| Error::setting("avoid_kernels", unknown(operation)))?;
    }
    Ok(avoid_also(avoided))
}

/// Has this thread compute as a plan says, until it is dropped.
#[must_use = "the thread computes as before when it is dropped"]
pub struct Computing {
    _avoided: Avoided,
    _narrowed: Option<Inexact<Option<Unit>>>,
}

/// Composes the operations of these [`NAMES`] on this thread, and has products on the CPU round what they multiply to bf16 where
/// that is asked for.
///
/// Errors: as [`avoid`].
pub fn choose(avoided: &[String], narrows: bool) -> Result<Computing> {
    Ok(Computing {
        _avoided: avoid(avoided)?,
        _narrowed: narrows.then(narrow),
    })
}

/// What is wrong with a name that is none of [`NAMES`].
pub(crate) fn unknown(operation: &str) -> String {
    let known = NAMES.join("`, `");
    format!("names `{operation}`, which has no kernel; those that do are `{known}`")
}

/// Why a device can't run the kernel of the operation of this name, in its own words; nothing where it can, or where there is none.
/// The operation is composed then, wherever it is used.
pub(crate) fn problem(operation: &str, device: &Device, dtype: DType) -> Option<String> {
    let index = NAMES.iter().position(|name| *name == operation)?;
    metal::problem(KERNELS[index], device, dtype)
}

/// As long as it is kept, products on this thread are less exact.
#[must_use = "products are exact again when it is dropped"]
pub(crate) struct Inexact<T: Copy + 'static> {
    what: &'static LocalKey<Cell<T>>,
    before: T,
    /// It belongs to the thread that made it.
    thread: PhantomData<*const ()>,
}

impl<T: Copy> Inexact<T> {
    fn begin(what: &'static LocalKey<Cell<T>>, now: T) -> Self {
        Self {
            what,
            before: what.replace(now),
            thread: PhantomData,
        }
    }
}

impl<T: Copy> Drop for Inexact<T> {
    fn drop(&mut self) {
        self.what.set(self.before);
    }
}

/// Lets products with weights in blocks round what they are multiplied with, where that is faster: up to so many rows to eight bits, and
/// many to bf16. For reading and writing of which nothing is learned.
pub(crate) fn round(rows: usize) -> Inexact<usize> {
    let rows = if cpu::can_round() { rows } else { 0 };
    Inexact::begin(&ROUNDED_ROWS, rows)
}

/// Up to how many rows may be rounded to eight bits; 0 where nothing may be rounded.
pub(crate) fn rounded_rows() -> usize {
    ROUNDED_ROWS.get()
}

/// Has products on the CPU round their operands to bf16; sums stay f32.
pub(crate) fn narrow() -> Inexact<Option<Unit>> {
    Inexact::begin(&NARROWED, Some(Unit::here()))
}

/// The same for many rows where [`round`] lets some be rounded, and the processor has a unit for it.
pub(crate) fn narrow_rounded() -> Inexact<Option<Unit>> {
    let unit = Some(Unit::here()).filter(|it| rounded_rows() > 0 && !it.is_portable());
    Inexact::begin(&NARROWED, unit.or(narrowed()))
}

/// What multiplies such operands, where they are rounded.
pub(crate) fn narrowed() -> Option<Unit> {
    NARROWED.get()
}

fn avoid_also(avoided: u32) -> Avoided {
    let before = AVOIDED.get();
    AVOIDED.set(before | avoided);
    Avoided {
        before,
        thread: PhantomData,
    }
}

/// Whether this operation's kernel may be used on this thread.
pub(crate) fn enabled(kernel: Kernel) -> bool {
    AVOIDED.get() & (1 << kernel as u32) == 0
}

/// Whether every operation’s kernel may be used on this thread.
#[cfg(feature = "cuda")]
pub(crate) fn all_enabled() -> bool {
    AVOIDED.get() & ALL == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_come_back_when_nobody_avoids_them_any_more() {
        let rope = avoid(&["rope".to_owned()]).unwrap();
        without(|| assert!(!enabled(Kernel::Gated) && !enabled(Kernel::Rope)));
        assert!(enabled(Kernel::Gated) && !enabled(Kernel::Rope));
        drop(rope);
        assert!(enabled(Kernel::Rope));
        let _avoided = avoid(&["layer_norm".to_owned()]).unwrap();
        assert!(!enabled(Kernel::LayerNorm) && enabled(Kernel::RmsNorm));
    }

    #[test]
    fn an_operation_without_a_kernel_is_named() {
        let error = avoid(&["softmax".to_owned()]).unwrap_err().to_string();
        let begin =
            "`avoid_kernels` names `softmax`, which has no kernel; those that do are `rms_norm`, ";
        assert!(error.starts_with(begin), "{error}");
    }
}
