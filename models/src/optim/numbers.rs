//! The numbers of a contiguous tensor on the CPU as a slice, to be read or changed where they are.

use std::{cell::RefCell, marker::PhantomData};

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

/// A kind of number that is changed in place.
pub(super) trait InPlace: Sized {
    /// All of them in a storage of this kind.
    fn all(storage: &mut CpuStorage) -> Option<&mut [Self]>;
}

macro_rules! in_place {
    ($($number:ty = $storage:ident),*) => {$(
        impl InPlace for $number {
            fn all(storage: &mut CpuStorage) -> Option<&mut [Self]> {
                match storage {
                    CpuStorage::$storage(numbers) => Some(numbers),
                    _ => None,
                }
            }
        }
    )*};
}

in_place!(f32 = F32, u8 = U8);

/// Lends the numbers of `tensor` to `change`. Other tensors that share them see the change.
///
/// `change` must not touch `tensor` or what shares its storage by another way: the storage is locked.
fn numbers_mut<T: InPlace, R>(tensor: &Tensor, change: impl FnOnce(&mut [T]) -> R) -> Result<R> {
    let operation = Change {
        change: RefCell::new(Some(change)),
        result: RefCell::new(None),
        number: PhantomData,
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
    lend(targets, |targets: [&mut [f32]; N]| {
        let mut parts = targets.map(|it| it.chunks_mut(CHUNK));
        let count = source.elem_count().div_ceil(CHUNK);
        let part = |_| std::array::from_fn(|at| parts[at].next().unwrap_or_default());
        let parts: Vec<[&mut [f32]; N]> = (0..count).map(part).collect();
        numbers(source, |source| {
            let pairs = parts.into_par_iter().zip(source.par_chunks(CHUNK));
            pairs.for_each(|(targets, source)| change(targets, source));
        })
    })
}

/// Lends the numbers of several tensors, which share none, to `work`.
pub(super) fn lend<T: InPlace, const N: usize>(
    tensors: [&Tensor; N],
    mut work: impl FnMut([&mut [T]; N]) -> Result<()>,
) -> Result<()> {
    lend_all(
        &tensors,
        Vec::with_capacity(N),
        &mut |lent| match <[&mut [T]; N]>::try_from(lent) {
            Ok(lent) => work(lent),
            Err(lent) => bail!("{} of {N} tensors could be lent", lent.len()),
        },
    )
}

fn lend_all<'a, T: InPlace>(
    tensors: &[&Tensor],
    lent: Vec<&'a mut [T]>,
    work: &mut dyn FnMut(Vec<&mut [T]>) -> Result<()>,
) -> Result<()> {
    let Some((first, others)) = tensors.split_first() else {
        return work(lent);
    };
    numbers_mut(first, |first| {
        let mut lent: Vec<&mut [T]> = lent;
        lent.push(first);
        lend_all(others, lent, work)
    })?
}

/// A closure in the shape of an operation, since candle lends mutable storage to nothing else.
struct Change<F, R, T> {
    change: RefCell<Option<F>>,
    result: RefCell<Option<R>>,
    number: PhantomData<T>,
}

impl<F: FnOnce(&mut [T]) -> R, R, T: InPlace> InplaceOp1 for Change<F, R, T> {
    fn name(&self) -> &'static str {
        "change-in-place"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (start, end) = offsets(layout)?;
        let Some(numbers) = T::all(storage) else {
            bail!("only f32 numbers and bytes are changed in place");
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
