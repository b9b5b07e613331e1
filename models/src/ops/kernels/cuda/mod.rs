//! Kernels for CUDA in f32, bf16 and f16: our own for what is not a matrix product, cuBLAS for what is.
//!
//! They are compiled by `build.rs` from the files ending in `.cu`, and launched on the stream that a device has, in order, or beside it (`side`). A
//! launch returns before the work is done; the stream keeps memory alive until then.
//!
//! This file holds what kernels share: which tensors they serve, outputs, addresses, and the launch.

pub(crate) mod activity;
pub(crate) mod attention;
pub(crate) mod batch_norm;
mod code;
pub(crate) mod codes;
pub(crate) mod convolution;
pub(crate) mod cudnn;
pub(crate) mod dropout;
pub(crate) mod elementwise;
pub(crate) mod flash;
pub(crate) mod gated;
pub(crate) mod graph;
pub(crate) mod linear;
pub(crate) mod lora;
pub(crate) mod losses;
pub(crate) mod many;
pub(crate) mod next_token;
pub(crate) mod norm;
mod pictures;
pub(crate) mod pool;
pub(crate) mod rope;
pub(crate) mod scores;
pub(crate) mod side;
#[cfg(test)]
mod tests;
mod thin;

use std::ffi::c_void;

use candle_core::{
    CudaDevice, DType, Device, Shape, Storage, Tensor,
    cuda::{
        CudaStorageSlice, WrapErr,
        cudarc::driver::{
            DevicePtr, DeviceRepr,
            sys::{
                CUfunction_attribute_enum as CUfunction_attribute, CUlaunchAttribute,
                CUlaunchAttributeID, CUlaunchAttributeValue,
                CUlaunchAttributeValue_union__bindgen_ty_1, CUlaunchConfig, cuLaunchKernelEx,
            },
        },
    },
};

use self::code::{Code, compiled};
use super::Kernel;
use crate::{Error, Result};

const KERNELS: Code = compiled!("kernels");

/// Threads of a block that works on single numbers.
const THREADS: usize = 256;

/// Numbers that a thread reads or writes at once where it can.
const PACK: usize = 8;

/// What an address of packs is a multiple of.
const PACK_BYTES: u64 = 16;

/// What the threads of a block may share without being asked for is 48 KiB, of which kernels have a little of their own.
const SHARED_BYTES: usize = 32 << 10;

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

/// Whether a GPU has products of small matrices in bf16 and copies in the background.
fn multiplies_tiles(device: &Device) -> Result<bool> {
    is_of(device, 8)
}

/// Whether a GPU is of this major compute capability or a newer one.
fn is_of(device: &Device, oldest: i32) -> Result<bool> {
    let Device::Cuda(device) = device else {
        return Ok(false);
    };
    let stream = device.cuda_stream();
    Ok(stream.context().compute_capability().w()?.0 >= oldest)
}

/// The device a tensor is on.
fn device(tensor: &Tensor) -> Result<CudaDevice> {
    match tensor.device() {
        Device::Cuda(device) => Ok(device.clone()),
        _ => Err(broken("a kernel for CUDA got a tensor elsewhere")),
    }
}

/// Where the first number of a contiguous tensor lies in the device's memory.
pub(crate) fn address(tensor: &Tensor) -> Result<u64> {
    if !tensor.is_contiguous() {
        return Err(broken("a kernel got a tensor with strides"));
    }
    strided_address(tensor)
}

/// The same for a tensor of any layout, for a kernel that is told its strides.
fn strided_address(tensor: &Tensor) -> Result<u64> {
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
        CudaStorageSlice::U8(numbers) => numbers.device_ptr(&stream).0,
        _ => return Err(broken("a kernel got numbers of another dtype")),
    };
    Ok(start + (layout.start_offset() * tensor.dtype().size_in_bytes()) as u64)
}

/// Whether these tensors can be read in packs: they begin at a multiple of 16 bytes.
fn in_packs(tensors: &[&Tensor]) -> Result<bool> {
    for tensor in tensors {
        if !strided_address(tensor)?.is_multiple_of(PACK_BYTES) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What would be our mistake: the operation should not have called the kernel.
fn broken(what: &str) -> Error {
    Error::Tensor(candle_core::Error::Msg(what.into()))
}

/// A kernel with its arguments, in the order of its parameters.
struct Launch {
    device: CudaDevice,
    code: &'static Code,
    name: String,
    arguments: Vec<Argument>,
    shared_bytes: usize,
    /// Whether it may begin while the launch before it ends: it waits by itself for what that writes.
    overlaps: bool,
    /// How many blocks of a column of the grid read each other's memory, where launches overlap.
    cluster: usize,
}

/// Distances in numbers between the first three dimensions of a tensor, whose last lies side by side.
#[derive(Clone, Copy)]
#[repr(C)]
struct Strides([usize; 3]);

// Safety: it is three whole numbers, as in `flash.cu`.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Strides {}

/// The sizes of a convolution or a pool, in the order of `shape.cuh`.
#[derive(Clone, Copy)]
#[repr(C)]
struct PictureShape([i32; 10]);

// Safety: it is ten whole numbers, as in `shape.cuh`.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for PictureShape {}

enum Argument {
    Eight(Box<many::Eight>),
    Products(Box<thin::Products>),
    Parts(Box<next_token::Parts>),
    Caches(Box<next_token::Caches>),
    Address(u64),
    Count(usize),
    Strides(Strides),
    PictureShape(PictureShape),
    Whole(i32),
    Number(f32),
}

impl Argument {
    /// Where it lies.
    fn place(&self) -> *mut c_void {
        let place: *const c_void = match self {
            Self::Eight(it) => (&raw const **it).cast(),
            Self::Products(it) => (&raw const **it).cast(),
            Self::Parts(it) => (&raw const **it).cast(),
            Self::Caches(it) => (&raw const **it).cast(),
            Self::Address(it) => (&raw const *it).cast(),
            Self::Count(it) => (&raw const *it).cast(),
            Self::Strides(it) => (&raw const *it).cast(),
            Self::PictureShape(it) => (&raw const *it).cast(),
            Self::Whole(it) => (&raw const *it).cast(),
            Self::Number(it) => (&raw const *it).cast(),
        };
        place.cast_mut()
    }
}

impl Launch {
    /// The kernel `name` for the dtype of `like`, on its device.
    fn of(name: &str, like: &Tensor) -> Result<Self> {
        Self::of_code(&KERNELS, name, like)
    }

    fn of_code(code: &'static Code, name: &str, like: &Tensor) -> Result<Self> {
        let suffix = suffix(like.dtype()).ok_or_else(|| broken("no kernel for this dtype"))?;
        Ok(Self {
            device: device(like)?,
            code,
            name: format!("{name}_{suffix}"),
            arguments: Vec::new(),
            shared_bytes: 0,
            overlaps: false,
            cluster: 1,
        })
    }

    /// Tensors of any layout, whose strides are other arguments.
    fn strided(mut self, tensors: &[&Tensor]) -> Result<Self> {
        for tensor in tensors {
            let address = strided_address(tensor)?;
            self.arguments.push(Argument::Address(address));
        }
        Ok(self)
    }

    /// So much memory for the threads of a block to share.
    fn sharing(mut self, bytes: usize) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// Has the launch begin while the one before it ends, where that is so.
    fn overlapping(mut self, overlaps: bool) -> Self {
        self.overlaps = overlaps;
        self
    }

    /// Has so many blocks of a column of the grid read each other's memory, where GPUs overlap launches.
    fn clustered(mut self, blocks: usize) -> Self {
        self.cluster = blocks;
        self
    }

    fn tensors(mut self, tensors: &[&Tensor]) -> Result<Self> {
        for tensor in tensors {
            self.arguments.push(Argument::Address(address(tensor)?));
        }
        Ok(self)
    }

    /// A tensor that may be missing.
    fn perhaps(mut self, tensor: Option<&Tensor>) -> Result<Self> {
        let address = tensor.map(address).transpose()?;
        self.arguments.push(Argument::Address(address.unwrap_or(0)));
        Ok(self)
    }

    fn picture_shape(mut self, shape: PictureShape) -> Self {
        self.arguments.push(Argument::PictureShape(shape));
        self
    }

    /// Tensors that are converted at once.
    fn eight(mut self, eight: many::Eight) -> Self {
        self.arguments.push(Argument::Eight(Box::new(eight)));
        self
    }

    /// Products with thin matrices.
    fn products(mut self, products: thin::Products) -> Self {
        self.arguments.push(Argument::Products(Box::new(products)));
        self
    }

    fn count(self, count: usize) -> Self {
        self.counts(&[count])
    }

    fn counts(mut self, counts: &[usize]) -> Self {
        let counts = counts.iter().map(|it| Argument::Count(*it));
        self.arguments.extend(counts);
        self
    }

    fn strides(mut self, tensors: &[&Tensor]) -> Self {
        for tensor in tensors {
            let stride = tensor.stride();
            let strides = Strides([stride[0], stride[1], stride[2]]);
            self.arguments.push(Argument::Strides(strides));
        }
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

    fn launch(self, blocks: usize, threads: usize) -> Result<()> {
        self.launch_grid([blocks, 1], threads)
    }

    #[allow(unsafe_code)]
    fn launch_grid(self, blocks: [usize; 2], threads: usize) -> Result<()> {
        if blocks.contains(&0) {
            return Ok(());
        }
        let stream = side::stream().unwrap_or_else(|| self.device.cuda_stream());
        let kernel = self.code.kernel(stream.context(), &self.name)?;
        if self.shared_bytes > SHARED_BYTES {
            let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            kernel.set_attribute(most, self.shared_bytes as i32).w()?;
        }
        let mut attributes = if self.overlaps {
            overlap(self.cluster).to_vec()
        } else {
            Vec::new()
        };
        let configuration = CUlaunchConfig {
            gridDimX: blocks[0] as u32,
            gridDimY: blocks[1] as u32,
            gridDimZ: 1,
            blockDimX: threads as u32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shared_bytes as u32,
            hStream: stream.cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let arguments = self.arguments.iter().map(Argument::place);
        let mut arguments: Vec<*mut c_void> = arguments.collect();
        stream.context().bind_to_thread().w()?;
        // Safety: arguments have the kernel's types and live until it is launched, which copies them; addresses are those of tensors
        // with the numbers it touches.
        let status = unsafe {
            cuLaunchKernelEx(
                &raw const configuration,
                kernel.cu_function(),
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        Ok(status.result().w()?)
    }
}

/// What a launch is told that begins while the one before it ends, in columns of so many blocks that read each other's memory.
fn overlap(cluster: usize) -> [CUlaunchAttribute; 2] {
    let attribute = |id, value| CUlaunchAttribute {
        id,
        pad: [0; 4],
        value,
    };
    let overlapping = CUlaunchAttributeValue {
        programmaticStreamSerializationAllowed: 1,
    };
    let cluster = CUlaunchAttributeValue {
        clusterDim: CUlaunchAttributeValue_union__bindgen_ty_1 {
            x: 1,
            y: cluster as u32,
            z: 1,
        },
    };
    [
        attribute(
            CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            overlapping,
        ),
        attribute(
            CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            cluster,
        ),
    ]
}
