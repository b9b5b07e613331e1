//! A second queue of work for the GPU while a pass is recorded: what nothing on the way waits for runs beside it.
//!
//! Gradients of adapters are small products that leave most of the GPU idle. In a recorded pass they cost no launch, so they can
//! run beside the rest of the backward pass. Outside of a recording there is one queue, and work that is meant for the side is
//! done at once. Recorded or not, the same kernels compute the same numbers; only the time at which they run differs.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use candle_core::{
    CudaDevice, Tensor,
    cuda::{
        WrapErr,
        cudarc::{
            cublas::{CudaBlas, sys::cublasHandle_t},
            driver::CudaStream,
        },
    },
};

use super::broken;
use crate::Result;

thread_local! {
    /// Made once: what was recorded uses the memory of its products for as long as it is played.
    static SIDE: RefCell<Option<Side>> = const { RefCell::new(None) };
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
    /// Whether what is launched now goes to the side.
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

struct Side {
    device: CudaDevice,
    stream: Arc<CudaStream>,
    blas: CudaBlas,
    /// What its work reads and writes, which must not be freed before that is done.
    kept: Vec<Tensor>,
}

/// Closes the side when it is dropped.
pub(super) struct Open;

impl Drop for Open {
    fn drop(&mut self) {
        // After an error: what the side still uses is freed only after it.
        let _has_failed = join();
        IS_OPEN.set(false);
        SIDE.with_borrow_mut(|side| side.iter_mut().for_each(|it| it.kept.clear()));
    }
}

/// Opens the side of a device, as long as what is returned is kept.
pub(super) fn open(device: &CudaDevice) -> Result<Open> {
    SIDE.with_borrow_mut(|side| -> Result<()> {
        let stream = device.cuda_stream();
        let is_of = |side: &Side| Arc::ptr_eq(&side.device.cuda_stream(), &stream);
        if !side.as_ref().is_some_and(is_of) {
            let own = stream.context().new_stream().w()?;
            *side = Some(Side {
                device: device.clone(),
                blas: CudaBlas::new(own.clone()).w()?,
                stream: own,
                kept: Vec::new(),
            });
        }
        Ok(())
    })?;
    IS_OPEN.set(true);
    Ok(Open)
}

/// Launches work on the side, after all that was launched before. It allocates nothing, and touches only what is `kept`.
///
/// What it writes must not be read before [`join`]. Where no side is open, it is launched as everything else is.
pub(super) fn beside(kept: &[&Tensor], work: impl FnOnce() -> Result<()>) -> Result<()> {
    if !IS_OPEN.get() {
        return work();
    }
    // One thing at a time: what was kept for the last can be freed.
    join()?;
    SIDE.with_borrow_mut(|side| -> Result<()> {
        let side = side.as_mut().ok_or_else(|| broken("no side is open"))?;
        side.kept.extend(kept.iter().copied().cloned());
        side.stream.join(&side.device.cuda_stream()).w()?;
        Ok(())
    })?;
    IS_HERE.set(true);
    let done = work();
    IS_HERE.set(false);
    done
}

/// Has all that is launched from here on wait for the side.
pub(crate) fn join() -> Result<()> {
    if !IS_OPEN.get() {
        return Ok(());
    }
    SIDE.with_borrow_mut(|side| {
        if let Some(side) = side.as_mut().filter(|it| !it.kept.is_empty()) {
            side.device.cuda_stream().join(&side.stream).w()?;
            side.kept.clear();
        }
        Ok(())
    })
}

/// Where a kernel is launched now, if that is not the device’s own stream.
pub(super) fn stream() -> Option<Arc<CudaStream>> {
    here(|side| side.stream.clone())
}

/// By what matrices are multiplied now.
pub(super) fn products(device: &CudaDevice) -> cublasHandle_t {
    here(|side| *side.blas.handle()).unwrap_or_else(|| *device.cublas_handle().handle())
}

fn here<T>(of: impl FnOnce(&Side) -> T) -> Option<T> {
    let here = IS_HERE.get();
    SIDE.with_borrow(|side| side.as_ref().filter(|_| here).map(of))
}
