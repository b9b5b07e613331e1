//! The numbers of a contiguous f32 tensor on the CPU as a slice, to be read or changed where they are.

use std::cell::RefCell;

use rayon::prelude::*;

use candle_core::{CpuStorage, Error, InplaceOp1, Layout, Result, Storage, Tensor, bail};

/// How many numbers one thread takes at a time. Fixed, so that sums are the same for any number of threads.
pub(super) const CHUNK: usize = 1 << 14;

/// Lends the numbers of `tensor` to `read`.
pub(super) fn numbers<R>(tensor: &Tensor, read: impl FnOnce(&[f32]) -> R) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        bail!("numbers on a device can’t be read as a slice");
    };
    let (start, end) = offsets(layout)?;
    Ok(read(&storage.as_slice::<f32>()?[start..end]))
}

/// Lends the numbers of `tensor` to `change`. Other tensors that share them see the change.
///
/// `change` must not touch `tensor` or what shares its storage by another way: the storage is locked.
pub(super) fn numbers_mut<R>(tensor: &Tensor, change: impl FnOnce(&mut [f32]) -> R) -> Result<R> {
    let operation = Change {
        change: RefCell::new(Some(change)),
        result: RefCell::new(None),
    };
    tensor.inplace_op1(&operation)?;
    match operation.result.into_inner() {
        Some(result) => Ok(result),
        None => bail!("numbers on a device can’t be changed as a slice"),
    }
}

/// Changes the numbers of several tensors, which share none and are equally long, with those of another, on all cores:
/// `change` gets the same part of each. The result doesn't depend on the number of cores.
pub(super) fn change_together<const N: usize>(
    targets: [&Tensor; N],
    source: &Tensor,
    change: impl Fn([&mut [f32]; N], &[f32]) + Sync,
) -> Result<()> {
    lend_all(&targets, Vec::with_capacity(N), &mut |targets| {
        let mut parts: Vec<_> = targets.into_iter().map(|it| it.chunks_mut(CHUNK)).collect();
        let count = source.elem_count().div_ceil(CHUNK);
        let part = |_| std::array::from_fn(|at| parts[at].next().unwrap_or_default());
        let parts: Vec<[&mut [f32]; N]> = (0..count).map(part).collect();
        numbers(source, |source| {
            let pairs = parts.into_par_iter().zip(source.par_chunks(CHUNK));
            pairs.for_each(|(targets, source)| change(targets, source));
        })
    })
}

fn lend_all<'a>(
    tensors: &[&Tensor],
    lent: Vec<&'a mut [f32]>,
    work: &mut dyn FnMut(Vec<&mut [f32]>) -> Result<()>,
) -> Result<()> {
    let Some((first, others)) = tensors.split_first() else {
        return work(lent);
    };
    numbers_mut(first, |first| {
        let mut lent: Vec<&mut [f32]> = lent;
        lent.push(first);
        lend_all(others, lent, work)
    })?
}

/// A closure in the shape of an operation, since candle lends mutable storage to nothing else.
struct Change<F, R> {
    change: RefCell<Option<F>>,
    result: RefCell<Option<R>>,
}

impl<F: FnOnce(&mut [f32]) -> R, R> InplaceOp1 for Change<F, R> {
    fn name(&self) -> &'static str {
        "change-in-place"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (start, end) = offsets(layout)?;
        let CpuStorage::F32(numbers) = storage else {
            bail!("only f32 numbers are changed in place");
        };
        if let Some(change) = self.change.take() {
            self.result.replace(Some(change(&mut numbers[start..end])));
        }
        Ok(())
    }
}

fn offsets(layout: &Layout) -> Result<(usize, usize)> {
    let contiguous = layout.contiguous_offsets();
    contiguous.ok_or_else(|| Error::RequiresContiguous { op: "slice" }.bt())
}
