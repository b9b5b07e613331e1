//! Kernels for CUDA in f32, bf16 and f16: our own for what is not a matrix product, cuBLAS for what is.
//!
//! They are compiled by `build.rs` from `kernels.cu` and launched on the one stream that a device has, in order. A
//! launch returns before the work is done; the stream keeps memory alive until then.
//!
//! This file holds what kernels share: which tensors they serve, outputs, addresses, and the launch.

pub(crate) mod adamw;
pub(crate) mod attention;
pub(crate) mod cross_entropy;
pub(crate) mod gated;
pub(crate) mod linear;
pub(crate) mod norm;
pub(crate) mod rope;
pub(crate) mod squares;
#[cfg(test)]
mod tests;

use candle_core::{
    CudaDevice, DType, Device, Shape, Storage, Tensor,
    cuda::{
        CudaStorageSlice, WrapErr,
        cudarc::driver::{DevicePtr, LaunchConfig, PushKernelArg},
    },
};

use super::Kernel;
use crate::{Error, Result};

/// What `kernels.cu` was compiled to: code for a virtual machine, which the driver turns into the GPU's own.
const CODE: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.ptx"));

/// Threads of a block that works on single numbers.
const THREADS: usize = 256;

/// Whether the kernel here of this operation serves tensors like these: all in one of their dtypes, all on a CUDA
/// device.
pub(crate) fn serves(kernel: Kernel, tensors: &[&Tensor]) -> bool {
    super::enabled(kernel)
        && tensors.iter().all(|it| it.device().is_cuda())
        && tensors
            .windows(2)
            .all(|pair| pair[0].dtype() == pair[1].dtype())
        && tensors
            .first()
            .is_some_and(|it| suffix(it.dtype()).is_some())
}

/// What the names of a dtype's kernels end in.
fn suffix(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F32 => Some("f32"),
        DType::BF16 => Some("bf16"),
        DType::F16 => Some("f16"),
        _ => None,
    }
}

/// A tensor on the device of `like` that a kernel has to fill, all of it.
#[allow(unsafe_code)]
pub(crate) fn output(shape: impl Into<Shape>, dtype: DType, like: &Tensor) -> Result<Tensor> {
    // Safety: every pattern of bits is a number, and kernels write before anything reads.
    Ok(unsafe { Tensor::empty(shape.into(), dtype, like.device()) }?)
}

/// The device a tensor is on.
fn device(tensor: &Tensor) -> Result<CudaDevice> {
    match tensor.device() {
        Device::Cuda(device) => Ok(device.clone()),
        _ => Err(broken("a kernel for CUDA got a tensor elsewhere")),
    }
}

/// Where the first number of a contiguous tensor lies in the device's memory.
fn address(tensor: &Tensor) -> Result<u64> {
    if !tensor.is_contiguous() {
        return Err(broken("a kernel got a tensor with strides"));
    }
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else {
        return Err(broken("a kernel for CUDA got a tensor elsewhere"));
    };
    let stream = storage.device.cuda_stream();
    let start = match &storage.slice {
        CudaStorageSlice::F32(numbers) => numbers.device_ptr(&stream).0,
        CudaStorageSlice::BF16(numbers) => numbers.device_ptr(&stream).0,
        CudaStorageSlice::F16(numbers) => numbers.device_ptr(&stream).0,
        CudaStorageSlice::U32(numbers) => numbers.device_ptr(&stream).0,
        _ => return Err(broken("a kernel got numbers of another dtype")),
    };
    Ok(start + (layout.start_offset() * tensor.dtype().size_in_bytes()) as u64)
}

/// What would be our mistake: the operation should not have called the kernel.
fn broken(what: &str) -> Error {
    Error::Tensor(candle_core::Error::Msg(what.into()))
}

/// A kernel with its arguments, in the order of its parameters.
struct Launch {
    device: CudaDevice,
    name: String,
    arguments: Vec<Argument>,
}

enum Argument {
    Address(u64),
    Count(usize),
    Whole(i32),
    Number(f32),
}

impl Launch {
    /// The kernel `name` for the dtype of `like`, on its device.
    fn of(name: &str, like: &Tensor) -> Result<Self> {
        let suffix = suffix(like.dtype()).ok_or_else(|| broken("no kernel for this dtype"))?;
        Ok(Self {
            device: device(like)?,
            name: format!("{name}_{suffix}"),
            arguments: Vec::new(),
        })
    }

    fn tensors(mut self, tensors: &[&Tensor]) -> Result<Self> {
        for tensor in tensors {
            self.arguments.push(Argument::Address(address(tensor)?));
        }
        Ok(self)
    }

    fn count(mut self, count: usize) -> Self {
        self.arguments.push(Argument::Count(count));
        self
    }

    fn whole(mut self, numbers: &[usize]) -> Self {
        let numbers = numbers.iter().map(|it| Argument::Whole(*it as i32));
        self.arguments.extend(numbers);
        self
    }

    fn numbers(mut self, numbers: &[f64]) -> Self {
        let numbers = numbers.iter().map(|it| Argument::Number(*it as f32));
        self.arguments.extend(numbers);
        self
    }

    /// One thread for each of `count` numbers.
    fn for_each(self, count: usize) -> Result<()> {
        self.launch(count.div_ceil(THREADS), THREADS)
    }

    /// One block for each of `rows` rows of `width` numbers.
    fn for_rows(self, rows: usize, width: usize) -> Result<()> {
        let threads = (width / 4).next_power_of_two().clamp(32, 1024);
        self.launch(rows, threads)
    }

    #[allow(unsafe_code)]
    fn launch(self, blocks: usize, threads: usize) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let kernel = self
            .device
            .get_or_load_custom_func(&self.name, "anneal", CODE)?;
        let mut builder = kernel.builder();
        for argument in &self.arguments {
            match argument {
                Argument::Address(it) => builder.arg(it),
                Argument::Count(it) => builder.arg(it),
                Argument::Whole(it) => builder.arg(it),
                Argument::Number(it) => builder.arg(it),
            };
        }
        let size = LaunchConfig {
            grid_dim: (blocks as u32, 1, 1),
            block_dim: (threads as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        // Safety: arguments have the kernel's types, and addresses are those of tensors with the numbers it touches.
        unsafe { builder.launch(size) }.w()?;
        Ok(())
    }
}
