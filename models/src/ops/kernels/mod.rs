//! Fused kernels behind the operations, by device.
//!
//! An operation asks whether a kernel serves its tensors and otherwise composes itself from candle's kernels. The
//! composed version is every kernel's reference in the tests.

use std::cell::Cell;

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;

thread_local! {
    static COMPOSED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with every operation composed from candle's kernels: to compare, and to do without a kernel that is
/// suspected. Kernels are left out on this thread only.
pub fn without<T>(work: impl FnOnce() -> T) -> T {
    let before = COMPOSED.replace(true);
    let result = work();
    COMPOSED.set(before);
    result
}

/// Whether kernels may be used on this thread.
fn enabled() -> bool {
    !COMPOSED.get()
}
