//! Kernels for f32 on the CPU: plain loops over rows, compiled for several instruction sets, on all threads.
//!
//! Results are the same to the last bit whatever the number of threads: work is cut into blocks of a size that depends
//! on shapes only, and sums over blocks are taken in their order.
//!
//! This file holds what kernels share: reading a tensor's numbers, making outputs, and sharing work among threads.

pub(crate) mod attention;
pub(crate) mod math;
pub(crate) mod product;

use std::{cell::RefCell, ops::Deref};

use candle_core::{CpuStorage, DType, Device, Shape, Storage, StorageRef, Tensor};
use rayon::prelude::*;

use crate::Result;

/// Numbers in one block of work: 64 KiB, so that a block and its inputs stay in a core's own cache.
const BLOCK: usize = 1 << 14;

/// Outputs smaller than this are computed on the caller's thread, since waking others takes longer.
const WORTH_THREADS: usize = 1 << 16;

/// Whether the kernels here serve tensors like these: all f32, all on the CPU.
pub(crate) fn serves(tensors: &[&Tensor]) -> bool {
    super::enabled()
        && tensors
            .iter()
            .all(|tensor| tensor.dtype() == DType::F32 && tensor.device().is_cpu())
}

/// The f32 numbers of a tensor, from its first one on. Dereferences to a slice.
pub(crate) struct Numbers<'a> {
    storage: StorageRef<'a>,
    start: usize,
    count: usize,
}

impl<'a> Numbers<'a> {
    /// The numbers of a contiguous tensor.
    pub(crate) fn of(tensor: &'a Tensor) -> Result<Self> {
        debug_assert!(tensor.is_contiguous());
        let (storage, layout) = tensor.storage_and_layout();
        check_f32(&storage)?;
        let (start, count) = (layout.start_offset(), tensor.elem_count());
        Ok(Self {
            storage,
            start,
            count,
        })
    }

    /// The numbers of a tensor of any layout, from its first one to the end of its storage, to be read with strides.
    pub(crate) fn strided(tensor: &'a Tensor) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let count = check_f32(&storage)? - layout.start_offset();
        let start = layout.start_offset();
        Ok(Self {
            storage,
            start,
            count,
        })
    }
}

impl Deref for Numbers<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(CpuStorage::F32(numbers)) => &numbers[self.start..self.start + self.count],
            // Ruled out by `check_f32`.
            _ => &[],
        }
    }
}

/// How many numbers a storage holds, if they are f32 on the CPU.
fn check_f32(storage: &Storage) -> Result<usize> {
    match storage {
        Storage::Cpu(cpu) => Ok(cpu.as_slice::<f32>()?.len()),
        _ => Err(
            candle_core::Error::Msg("a kernel for the CPU got a tensor elsewhere".into()).into(),
        ),
    }
}

/// A tensor that takes over `numbers`.
pub(crate) fn tensor(numbers: Vec<f32>, shape: impl Into<Shape>) -> Result<Tensor> {
    Ok(Tensor::from_vec(numbers, shape.into(), &Device::Cpu)?)
}

/// `count` numbers that `fill` has to write, all of them: they are not set to zero first, which would cost as much as
/// many of the kernels.
pub(crate) fn filled(count: usize, fill: impl FnOnce(&mut [f32])) -> Vec<f32> {
    let mut numbers: Vec<f32> = Vec::with_capacity(count);
    let spare = numbers.spare_capacity_mut();
    // Safety: the slice lies within the capacity; every pattern of bits is an f32, and kernels write before they read.
    #[allow(unsafe_code)]
    unsafe {
        fill(std::slice::from_raw_parts_mut(
            spare.as_mut_ptr().cast(),
            count,
        ));
        numbers.set_len(count);
    }
    numbers
}

/// Lends `work` numbers of this thread that stay allocated between calls. They hold anything at all.
pub(crate) fn with_scratch<T>(count: usize, work: impl FnOnce(&mut [f32]) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    let mut numbers = SCRATCH.take();
    if numbers.len() < count {
        numbers.resize(count, 0.0);
    }
    let result = work(&mut numbers[..count]);
    SCRATCH.set(numbers);
    result
}

/// Runs a loop in the widest instructions that this processor has. Everything in `work` has to be inlined into it.
#[inline(always)]
pub(crate) fn simd<T>(work: impl FnOnce() -> T) -> T {
    pulp::Arch::new().dispatch(work)
}

/// Rows of `width` numbers in one block.
pub(crate) fn block_rows(width: usize) -> usize {
    (BLOCK / width.max(1)).max(1)
}

/// Calls `work` for every piece of `size` numbers of `out`, with the piece's index: on all threads if `out` is large.
pub(crate) fn pieces(out: &mut [f32], size: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    if out.len() < WORTH_THREADS || out.len() <= size {
        out.chunks_mut(size)
            .enumerate()
            .for_each(|(index, piece)| work(index, piece));
    } else {
        out.par_chunks_mut(size)
            .enumerate()
            .for_each(|(index, piece)| work(index, piece));
    }
}

/// Calls `work` for every task: on all threads if they are `multiplications` enough in all.
pub(crate) fn each<T: Send>(tasks: Vec<T>, multiplications: usize, work: impl Fn(T) + Sync) {
    if multiplications < WORTH_THREADS || tasks.len() < 2 {
        tasks.into_iter().for_each(work);
    } else {
        tasks.into_par_iter().for_each(|task| work(task));
    }
}

/// The same for two outputs that are cut into equally many pieces.
pub(crate) fn pieces_of_two(
    (a, a_size): (&mut [f32], usize),
    (b, b_size): (&mut [f32], usize),
    work: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
) {
    if a.len().max(b.len()) < WORTH_THREADS || a.len() <= a_size {
        a.chunks_mut(a_size)
            .zip(b.chunks_mut(b_size))
            .enumerate()
            .for_each(|(index, (a, b))| work(index, a, b));
    } else {
        a.par_chunks_mut(a_size)
            .zip(b.par_chunks_mut(b_size))
            .enumerate()
            .for_each(|(index, (a, b))| work(index, a, b));
    }
}
