//! Kernels for f32 on the CPU: plain loops over rows, compiled for several instruction sets, on all threads.
//!
//! Results are the same to the last bit whatever the number of threads: work is cut into blocks of a size that depends
//! on shapes only, and sums over blocks are taken in their order.
//!
//! This file holds what kernels share: reading a tensor's numbers, making outputs, and sharing work among threads.

pub(crate) mod attention;
pub(crate) mod batch_norm;
mod blocks;
pub(crate) mod convolution;
pub(crate) mod cross_entropy;
pub(crate) mod dropout;
pub(crate) mod elementwise;
pub(crate) mod gated;
pub(crate) mod linear;
pub(crate) mod math;
pub(crate) mod norm;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod rope;
mod rounded;

use std::{
    cell::RefCell,
    convert::Infallible,
    marker::PhantomData,
    ops::{Deref, Range},
};

use candle_core::{DType, Device, Shape, Storage, StorageRef, Tensor, WithDType};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::Kernel;
use crate::{Error, Result};

/// Numbers in one block of work: 64 KiB, so that a block and its inputs stay in a core's own cache.
const BLOCK: usize = 1 << 14;

/// Outputs smaller than this are computed on the caller's thread, since waking others takes longer.
const WORTH_THREADS: usize = 1 << 16;

/// Whether the kernel here of this operation serves tensors like these: all f32, all on the CPU.
pub(crate) fn serves(kernel: Kernel, tensors: &[&Tensor]) -> bool {
    super::enabled(kernel)
        && tensors
            .iter()
            .all(|tensor| tensor.dtype() == DType::F32 && tensor.device().is_cpu())
}

/// The numbers of a tensor, f32 unless said otherwise, from its first one on. Dereferences to a slice.
pub(crate) struct Numbers<'a, T = f32> {
    storage: StorageRef<'a>,
    part: Range<usize>,
    dtype: PhantomData<T>,
}

impl<'a, T: WithDType> Numbers<'a, T> {
    /// The numbers of a contiguous tensor.
    pub(crate) fn of(tensor: &'a Tensor) -> Result<Self> {
        if !tensor.is_contiguous() {
            return Err(broken("a kernel got a tensor with strides"));
        }
        let mut numbers = Self::strided(tensor)?;
        numbers.part.end = numbers.part.start + tensor.elem_count();
        Ok(numbers)
    }

    /// The numbers of a tensor of any layout, from its first one to the end of its storage, to be read with strides.
    pub(crate) fn strided(tensor: &'a Tensor) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let count = match &*storage {
            Storage::Cpu(cpu) => cpu.as_slice::<T>()?.len(),
            _ => return Err(broken("a kernel for the CPU got a tensor elsewhere")),
        };
        Ok(Self {
            part: layout.start_offset()..count,
            storage,
            dtype: PhantomData,
        })
    }
}

impl<T: WithDType> Deref for Numbers<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &*self.storage {
            Storage::Cpu(cpu) => cpu
                .as_slice()
                .map_or(&[], |numbers| &numbers[self.part.clone()]),
            // Ruled out when the storage was taken.
            _ => &[],
        }
    }
}

/// What would be our mistake: the operation should not have called the kernel.
fn broken(what: &str) -> Error {
    Error::Tensor(candle_core::Error::Msg(what.into()))
}

/// A tensor that takes over `numbers`.
pub(crate) fn tensor(numbers: Vec<f32>, shape: impl Into<Shape>) -> Result<Tensor> {
    Ok(Tensor::from_vec(numbers, shape.into(), &Device::Cpu)?)
}

/// `count` numbers that `fill` has to write, all of them: they are not set to zero first, which would cost as much as
/// many of the kernels.
pub(crate) fn filled(count: usize, fill: impl FnOnce(&mut [f32])) -> Vec<f32> {
    let Ok(numbers) = try_filled::<Infallible>(count, |numbers| {
        fill(numbers);
        Ok(())
    });
    numbers
}

/// The same for a `fill` that may fail.
#[allow(unsafe_code)]
pub(crate) fn try_filled<E>(
    count: usize,
    fill: impl FnOnce(&mut [f32]) -> Result<(), E>,
) -> Result<Vec<f32>, E> {
    let mut numbers: Vec<f32> = Vec::with_capacity(count);
    let start = numbers.spare_capacity_mut().as_mut_ptr();
    // Safety: the slice lies within the capacity; every pattern of bits is an f32, and kernels write before they read.
    unsafe {
        fill(std::slice::from_raw_parts_mut(start.cast(), count))?;
        numbers.set_len(count);
    }
    Ok(numbers)
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

/// Runs a loop in the widest instructions that this processor has.
///
/// Everything in `work` has to be inlined into it: mark it `#[inline(always)]`, write loops with `for`, and call nothing
/// large that isn't marked the same. What is not inlined is compiled for the oldest processor, and very slow.
#[inline(always)]
pub(crate) fn simd<T>(work: impl FnMut() -> T) -> T {
    struct Loop<F>(F);

    // `FnMut`, since calling a closure that is only `FnOnce` goes through a function of its own.
    impl<T, F: FnMut() -> T> WithSimd for Loop<F> {
        type Output = T;

        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _: S) -> T {
            (self.0)()
        }
    }
    pulp::Arch::new().dispatch(Loop(work))
}

/// How far ahead of a row that is read now the next ones are asked for: a page, where the processor's own prefetching ends.
#[cfg(target_arch = "x86_64")]
const FETCH_AHEAD_BYTES: usize = 4096;

/// Has the processor fetch what follows `row` in memory, where there is an instruction for it. For what is read once and
/// in order: an Intel Xeon reads by a tenth to a fifth faster so, and half as fast again where numbers are widened.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn fetch_ahead<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = row.as_ptr().cast::<i8>().wrapping_add(FETCH_AHEAD_BYTES);
        for line in (0..size_of_val(row)).step_by(64) {
            // Safety: a prefetch is a hint, and reads nothing; any address will do.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

/// Whether one row can be rounded to eight bits on this processor: see [`rounded`].
pub(crate) fn can_round() -> bool {
    rounded::is_here()
}

/// Rows of `width` numbers in one task of a product of few rows: several blocks, since each takes little time.
fn rows_of_task(width: usize) -> usize {
    4 * block_rows(width)
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
pub(crate) fn each<T: Send>(tasks: Vec<T>, multiplications: usize, work: impl Fn(T) + Send + Sync) {
    let on_threads = multiplications >= WORTH_THREADS && tasks.len() >= 2;
    each_if(on_threads, tasks, work);
}

/// Calls `work` for every task: on all threads, or one after another on this one.
pub(crate) fn each_if<T: Send>(
    on_threads: bool,
    tasks: impl IntoParallelIterator<Item = T> + IntoIterator<Item = T>,
    work: impl Fn(T) + Send + Sync,
) {
    match on_threads {
        true => tasks.into_par_iter().for_each(work),
        false => tasks.into_iter().for_each(work),
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

#[cfg(test)]
mod tests {
    use rayon::ThreadPoolBuilder;

    use super::*;
    use crate::{
        ops::{
            attention::{Scoring, Spans, attention},
            cross_entropy::head_cross_entropy,
            linear::linear,
            norm::layer_norm,
            testing::normal,
        },
        tape::{Gradients, Tape, Value},
    };

    /// Output and gradients, as bits, of an operation that runs on so many threads.
    fn bits(
        threads: usize,
        shapes: &[&[usize]],
        operation: fn(&[Value]) -> Result<Value>,
    ) -> Vec<Vec<u32>> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let tape = Tape::new(1);
            let inputs = shapes.iter().enumerate().map(|(seed, shape)| {
                tape.input(normal(seed as u64, shape).to_dtype(DType::F32).unwrap())
            });
            let inputs: Vec<Value> = inputs.collect();
            let y = operation(&inputs).unwrap();
            let wanted: Vec<&Value> = inputs.iter().collect();
            let seed = y.tensor().ones_like().unwrap();
            let gradients = tape.backward_to(&y, seed, &wanted, &mut Gradients::default());
            let gradients = gradients.unwrap().into_iter().flatten();
            gradients
                .chain([y.tensor().clone()])
                .map(|x| x.flatten_all().unwrap().to_vec1::<f32>().unwrap())
                .map(|x| x.into_iter().map(f32::to_bits).collect())
                .collect()
        })
    }

    #[track_caller]
    fn check(shapes: &[&[usize]], operation: fn(&[Value]) -> Result<Value>) {
        let one = bits(1, shapes, operation);
        assert_eq!(one.len(), shapes.len() + 1);
        assert!(one == bits(2, shapes, operation), "two threads");
        assert!(one == bits(5, shapes, operation), "five threads");
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        check(&[&[300, 400], &[500, 400], &[500]], |x| {
            linear(&x[0], &x[1], Some(&x[2]))
        });
        check(&[&[1, 400], &[500, 400]], |x| linear(&x[0], &x[1], None));
        check(&[&[1000, 100], &[100], &[100]], |x| {
            layer_norm(&x[0], &x[1], &x[2], 1e-5)
        });
        check(&[&[300, 40], &[900, 40]], |x| {
            let targets: Vec<u32> = (0..300).map(|row| row * 3).collect();
            head_cross_entropy(&x[0], &x[1], &targets, None, 300.0)
        });
        check(
            &[&[2, 200, 6, 32], &[2, 200, 2, 32], &[2, 200, 2, 32]],
            |x| {
                let scoring = Scoring {
                    scale: 0.2,
                    soft_cap: None,
                };
                let spans = Spans::causal(2, 200, 0, None);
                attention(&x[0], &x[1], &x[2], &spans, scoring)
            },
        );
    }
}
