//! The last step of a launch: the kernel is compiled once for each device, and its arguments go into candle's encoder.

use std::{
    collections::HashMap,
    ffi::c_void,
    sync::{LazyLock, Mutex, PoisonError},
};

use candle_core::{Device, MetalDevice, Storage};
use candle_metal_kernels::metal::ComputePipeline;
use objc2_metal::{
    MTLCompileOptions, MTLLanguageVersion, MTLMathFloatingPointFunctions, MTLMathMode, MTLSize,
};

use super::{
    Binding, STORAGES, Text, broken,
    launch::{Dispatch, offset_bytes},
};
use crate::Result;

/// The registry's number of a device, the kernel, and the storage.
type Key = (u64, &'static str, usize);

/// What was compiled, or what the compiler said. The system keeps it for the next start of the program too.
static PIPELINES: LazyLock<Mutex<HashMap<Key, Result<ComputePipeline, String>>>> =
    LazyLock::new(Mutex::default);

/// Puts a launch into the device's current command buffer. Returns before the work is done.
pub(super) fn run(dispatch: &Dispatch) -> Result<()> {
    let Some(first) = dispatch.tensors.first() else {
        return Err(broken("a kernel for Metal got no tensors"));
    };
    // Before the encoder is taken, which locks the device.
    let pipeline = pipeline(first.device(), dispatch.text, dispatch.storage)?;
    let device = metal(first.device())?;
    let storages = dispatch
        .tensors
        .iter()
        .map(|it| (it.storage_and_layout().0, offset_bytes(it)));
    let storages: Vec<_> = storages.collect();
    let mut buffers = Vec::with_capacity(storages.len());
    for (storage, offset) in &storages {
        let Storage::Metal(storage) = &**storage else {
            return Err(elsewhere());
        };
        buffers.push((storage.buffer(), *offset));
    }
    let mut buffers = buffers.into_iter();
    let mut next = || {
        let next = buffers.next();
        next.ok_or_else(|| broken("a kernel for Metal got too few tensors"))
    };

    let guard = device.command_encoder()?;
    let encoder = guard.as_ref();
    encoder.set_compute_pipeline_state(&pipeline);
    for (slot, binding) in dispatch.text.bindings.iter().enumerate() {
        // Launches run at the same time unless they share a buffer, which only these two calls for buffers tell.
        match binding {
            Binding::Read => {
                let (buffer, offset) = next()?;
                encoder.set_input_buffer(slot, Some(buffer), offset);
            }
            Binding::Write => {
                let (buffer, offset) = next()?;
                encoder.set_output_buffer(slot, Some(buffer), offset);
            }
            Binding::Values(size) => {
                let values = dispatch.values.as_ptr().cast::<c_void>();
                encoder.set_bytes_directly(slot, *size, values);
            }
        }
    }
    let size = |width, height| MTLSize {
        width,
        height,
        depth: 1,
    };
    let [x, y] = dispatch.groups;
    encoder.dispatch_thread_groups(size(x, y), size(dispatch.text.threads, 1));
    Ok(())
}

/// A kernel as a device runs it.
///
/// Errors: what the compiler said, with the name of the kernel.
pub(super) fn pipeline(
    device: &Device,
    text: &'static Text,
    storage: usize,
) -> Result<ComputePipeline> {
    let device = metal(device)?;
    let key = (device.metal_device().registry_id(), text.name, storage);
    // A thread that panicked has left whole entries only.
    let mut pipelines = PIPELINES.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled = pipelines
        .entry(key)
        .or_insert_with(|| compile(device, text, storage));
    compiled.clone().map_err(broken)
}

fn compile(device: &MetalDevice, text: &Text, storage: usize) -> Result<ComputePipeline, String> {
    let name = format!("{}_{}", STORAGES[storage], text.name);
    let options = MTLCompileOptions::new();
    options.setLanguageVersion(MTLLanguageVersion::Version3_0);
    // What is not a number stays none, so that a loss gone wrong is seen. Both need macOS 15, as candle does.
    options.setMathMode(MTLMathMode::Relaxed);
    options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
    let metal = device.metal_device();
    let compile = || {
        let source = text.by_storage[storage];
        let library = metal.new_library_with_source(source, Some(&options))?;
        metal.new_compute_pipeline_state_with_function(&library.get_function(&name, None)?)
    };
    let compiled = compile().map_err(|problem| format!("Metal refuses `{name}`: {problem}"))?;
    match compiled.max_total_threads_per_threadgroup() {
        most if most < text.threads => Err(format!(
            "Metal runs `{name}` with {most} threads in a group at most, and it needs {}",
            text.threads
        )),
        _ => Ok(compiled),
    }
}

fn metal(device: &Device) -> Result<&MetalDevice> {
    match device {
        Device::Metal(device) => Ok(device),
        _ => Err(elsewhere()),
    }
}

fn elsewhere() -> crate::Error {
    broken("a kernel for Metal got a tensor elsewhere")
}
