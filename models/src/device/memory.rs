//! How much memory a device has, how much of it is in use, and how to give unused memory back.
//!
//! Deliberately absent: what a run will need.

#[cfg(all(target_os = "macos", feature = "metal"))]
use std::sync::atomic::{AtomicU64, Ordering};

use candle_core::Device;
use serde::{Deserialize, Serialize};
use sysinfo::{MemoryRefreshKind, ProcessRefreshKind, ProcessesToUpdate, System};

use crate::{Error, Result};

/// Memory of one device at one moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All there is. In a container, what the container may use; on Apple silicon, the share of main memory that a
    /// GPU should stay in.
    pub total_bytes: u64,
    /// What could be taken now without pushing anything out.
    pub available_bytes: u64,
    /// What this process holds.
    pub used_bytes: u64,
    /// The most this process has held since it began or since [`reset_peak`]. The system counts on Linux, macOS, Windows
    /// and CUDA; on Metal it is the most that [`note_peak`] saw.
    pub peak_bytes: Option<u64>,
}

/// Asks how much memory the device has and how much is in use. For the CPU that is main memory.
///
/// Errors: [`Error::Device`] when the system or the driver doesn't answer.
pub fn memory(device: &Device) -> Result<Memory> {
    match device {
        Device::Cpu => host(),
        Device::Metal(metal) => Ok(metal_memory(metal)),
        Device::Cuda(cuda) => cuda_memory(cuda),
    }
}

/// What is handed out of the memory of a device at this moment, in bytes: on the CPU by the allocator of the process. Nothing where
/// that is not counted.
pub fn bytes_in_use(device: &Device) -> Option<u64> {
    match device {
        Device::Cpu => heap_in_use(),
        device => memory(device).ok().map(|memory| memory.used_bytes),
    }
}

/// Waits until the device has done all its work, and gives memory that no tensor holds back to the system.
///
/// On Metal this also is the only place where every error of the work before comes out.
///
/// Errors: [`Error::Tensor`] with what went wrong in that work.
pub fn release(device: &Device) -> Result<()> {
    device.synchronize()?;
    trim(device)
}

/// Counts the peak anew from here, where the system can (Linux and CUDA). Elsewhere it continues.
pub fn reset_peak(device: &Device) {
    match device {
        // The kernel's word for "set the resident high-water mark to what is resident now" (proc(5), since Linux 4.0).
        // Where it is not let, the mark stays, and the peak is that of all before too.
        Device::Cpu => drop(std::fs::write("/proc/self/clear_refs", "5")),
        Device::Cuda(cuda) => reset_cuda_peak(cuda),
        Device::Metal(_) => {}
    }
}

/// Looks at the memory in use where nobody else does, on Metal. Called where a step holds the most; candle hands
/// nothing back to the system before a number is read, so a look before that sees all that the step has taken.
pub fn note_peak(device: &Device) {
    if let Device::Metal(metal) = device {
        metal_memory(metal);
    }
}

/// Main memory.
pub(super) fn host() -> Result<Memory> {
    let asked = || -> Result<Memory, sysinfo::Error> {
        let mut system = System::new()?;
        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        let own = sysinfo::get_current_pid()?;
        system.refresh_processes_specifics(
            ProcessesToUpdate::Some(&[own]),
            false,
            ProcessRefreshKind::nothing().with_memory(),
        );
        let process = system.process(own);
        let held = held();
        let limits = process.and_then(|process| process.cgroup_limits());
        let (limit, left) = limits.map_or((u64::MAX, u64::MAX), |limits| {
            (limits.total_memory, limits.free_memory)
        });
        Ok(Memory {
            total_bytes: system.total_memory().min(limit),
            available_bytes: system.available_memory().min(left),
            used_bytes: held
                .used_bytes
                .or_else(|| Some(process?.memory()))
                .unwrap_or_default(),
            peak_bytes: held.peak_bytes,
        })
    };
    asked().map_err(|error| Error::Device(format!("could not read the memory in use: {error}")))
}

/// What the process holds, as its system counts it.
#[derive(Default)]
struct Held {
    /// Now, where that is more than its resident pages.
    used_bytes: Option<u64>,
    /// At most, so far.
    peak_bytes: Option<u64>,
}

#[cfg(target_os = "linux")]
fn held() -> Held {
    let status = std::fs::read_to_string("/proc/self/status");
    Held {
        used_bytes: None,
        peak_bytes: status.ok().and_then(|status| peak_bytes(&status)),
    }
}

/// The footprint, which the system's own monitor shows: pages that are compressed count too, and those of the GPU. Resident
/// pages become fewer when memory is short.
#[cfg(target_os = "macos")]
fn held() -> Held {
    // SAFETY: the call fills the structure that goes with its second argument, of which every bit pattern is a value, and
    // keeps no pointer to it.
    unsafe {
        let mut usage: libc::rusage_info_v4 = std::mem::zeroed();
        let buffer = (&raw mut usage).cast();
        match libc::proc_pid_rusage(libc::getpid(), libc::RUSAGE_INFO_V4, buffer) {
            0 => Held {
                used_bytes: Some(usage.ri_phys_footprint),
                peak_bytes: Some(usage.ri_lifetime_max_phys_footprint),
            },
            _ => Held::default(),
        }
    }
}

/// What the system has promised to this process alone, in memory or in the page file. Resident pages become fewer when memory is
/// short.
#[cfg(windows)]
fn held() -> Held {
    use windows_sys::Win32::System::{
        ProcessStatus::{GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS_EX},
        Threading::GetCurrentProcess,
    };
    // SAFETY: the call fills the structure, whose size tells it which of its forms that is, and keeps no pointer to it.
    unsafe {
        let mut counters: PROCESS_MEMORY_COUNTERS_EX = std::mem::zeroed();
        let size = size_of::<PROCESS_MEMORY_COUNTERS_EX>() as u32;
        match GetProcessMemoryInfo(GetCurrentProcess(), (&raw mut counters).cast(), size) {
            0 => Held::default(),
            _ => Held {
                used_bytes: Some(counters.PrivateUsage as u64),
                peak_bytes: Some(counters.PeakPagefileUsage as u64),
            },
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
fn held() -> Held {
    Held::default()
}

/// The most memory the process has held, from the text of Linux's `/proc/self/status`.
#[cfg(any(target_os = "linux", test))]
fn peak_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(all(target_os = "macos", feature = "metal"))]
fn metal_memory(metal: &candle_core::MetalDevice) -> Memory {
    let total = metal.device().recommended_max_working_set_size() as u64;
    let used = metal.device().current_allocated_size() as u64;
    let before = METAL_PEAK.fetch_max(used, Ordering::Relaxed);
    Memory {
        total_bytes: total,
        available_bytes: total.saturating_sub(used),
        used_bytes: used,
        peak_bytes: Some(used.max(before)),
    }
}

/// The most that was seen in use on Metal. A process has one device.
#[cfg(all(target_os = "macos", feature = "metal"))]
static METAL_PEAK: AtomicU64 = AtomicU64::new(0);

/// Without Metal in the build, such a device can't be made.
#[cfg(not(all(target_os = "macos", feature = "metal")))]
fn metal_memory(_: &candle_core::MetalDevice) -> Memory {
    Memory {
        total_bytes: 0,
        available_bytes: 0,
        used_bytes: 0,
        peak_bytes: None,
    }
}

#[cfg(not(feature = "cuda"))]
pub(super) fn prepare(_: &Device) {}

#[cfg(not(feature = "cuda"))]
fn trim(_: &Device) -> Result<()> {
    trim_heap();
    Ok(())
}

/// Gives what the allocator keeps for the next tensor back to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim_heap() {
    // SAFETY: the call takes only memory that nobody holds.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn heap_in_use() -> Option<u64> {
    // SAFETY: the call only reads what the allocator counts.
    let counts = unsafe { libc::mallinfo2() };
    Some((counts.uordblks + counts.hblkhd) as u64)
}

#[cfg(target_os = "macos")]
fn heap_in_use() -> Option<u64> {
    // SAFETY: the call fills the structure, of which every bit pattern is a value, with the sums of all zones.
    let counts = unsafe {
        let mut counts: libc::malloc_statistics_t = std::mem::zeroed();
        libc::malloc_zone_statistics(std::ptr::null_mut(), &raw mut counts);
        counts
    };
    Some(counts.size_in_use as u64)
}

#[cfg(not(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos")))]
fn heap_in_use() -> Option<u64> {
    None
}

/// Other systems' allocators do so by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_heap() {}

#[cfg(not(feature = "cuda"))]
fn reset_cuda_peak(_: &candle_core::CudaDevice) {}

#[cfg(not(feature = "cuda"))]
fn cuda_memory(_: &candle_core::CudaDevice) -> Result<Memory> {
    Err(Error::Device("this build has no CUDA engine".to_owned()))
}

#[cfg(feature = "cuda")]
pub(super) use cuda::prepare;
#[cfg(feature = "cuda")]
pub(crate) use cuda::{give_recorded_back, release_for_recording};
#[cfg(feature = "cuda")]
use cuda::{memory as cuda_memory, reset_peak as reset_cuda_peak, trim};

/// What cudarc has no safe call for: the memory pool that CUDA takes tensors from.
#[cfg(feature = "cuda")]
mod cuda {
    use std::sync::atomic::{AtomicU64, Ordering};

    use candle_core::{
        CudaDevice, Device,
        cuda_backend::cudarc::driver::{
            DriverError,
            result::{device::get_default_mem_pool, mem_pool},
            sys::{
                self, CUgraphMem_attribute::*, CUmemPool_attribute, CUmemPool_attribute::*,
                CUmemoryPool,
            },
        },
    };

    use super::Memory;
    use crate::{Error, Result};

    /// Keeps freed memory in the pool, instead of handing it to the driver at each synchronization, and stops
    /// recording two events for each tensor: tensors come from and go to one stream, and work beside it says itself what waits for what.
    pub(in super::super) fn prepare(device: &Device) {
        let Device::Cuda(cuda) = device else {
            return;
        };
        // SAFETY: events order work between streams. Tensors are taken and freed on one, and what runs beside it waits for it, and it
        // for that, by events of its own.
        unsafe { cuda.cuda_stream().context().disable_event_tracking() };
        let mut threshold = u64::MAX;
        // A card without pools (some virtual ones) works too, only slower, so an error is no reason to stop.
        let _slower = pool(cuda).and_then(|pool| {
            let value = (&raw mut threshold).cast();
            // SAFETY: the pool is the device's own, and this attribute is a u64.
            unsafe { mem_pool::set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, value) }
        });
    }

    pub(super) fn trim(device: &Device) -> Result<()> {
        super::trim_heap();
        let Device::Cuda(cuda) = device else {
            return Ok(());
        };
        // SAFETY: the pool is the device's own; memory in use is not touched.
        let trimmed = pool(cuda).and_then(|pool| unsafe { mem_pool::trim_to(pool, 0) });
        trimmed.map_err(driver("release memory"))?;
        trim_recorded(cuda);
        Ok(())
    }

    /// Gives the memory back that recorded work has, but does not use.
    fn trim_recorded(cuda: &CudaDevice) {
        // SAFETY: memory in use is not touched.
        let _stays = unsafe { sys::cuDeviceGraphMemTrim(cuda.cuda_stream().context().cu_device()) };
    }

    /// The most bytes in use before something was recorded.
    static EARLIER_PEAK: AtomicU64 = AtomicU64::new(0);

    /// Gives unused memory back before work is recorded. Recorded work has memory of its own, so the peak is counted anew, and the
    /// larger of both is told.
    pub(crate) fn release_for_recording(device: &Device) -> Result<()> {
        super::release(device)?;
        let Device::Cuda(cuda) = device else {
            return Ok(());
        };
        let peak = memory(cuda)?.peak_bytes.unwrap_or(0);
        reset_marks(cuda);
        EARLIER_PEAK.fetch_max(peak, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the memory of recorded work back that is no more. The peak is counted anew, and the larger of both is told.
    pub(crate) fn give_recorded_back(device: &Device) {
        if let Device::Cuda(cuda) = device {
            let _stays = cuda.cuda_stream().synchronize();
            trim_recorded(cuda);
            if let Ok(memory) = memory(cuda) {
                reset_marks(cuda);
                EARLIER_PEAK.fetch_max(memory.peak_bytes.unwrap_or(0), Ordering::Relaxed);
            }
        }
    }

    pub(super) fn reset_peak(cuda: &CudaDevice) {
        EARLIER_PEAK.store(0, Ordering::Relaxed);
        reset_marks(cuda);
    }

    /// Pools take 0 for their mark of the most bytes in use, and nothing else; then the mark is what is in use.
    fn reset_marks(cuda: &CudaDevice) {
        let mut zero = 0u64;
        let value = (&raw mut zero).cast();
        let _stays = pool(cuda).and_then(|pool| {
            // SAFETY: the pool is the device's own, and this attribute is a u64.
            unsafe { mem_pool::set_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, value) }
        });
        let device = cuda.cuda_stream().context().cu_device();
        // SAFETY: the device exists as long as its context does, and this attribute is a u64.
        let _stays = unsafe {
            sys::cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, value)
        };
    }

    pub(super) fn memory(cuda: &CudaDevice) -> Result<Memory> {
        let asked = || -> Result<Memory, DriverError> {
            let (free, total) = cuda.cuda_stream().context().mem_get_info()?;
            let recorded = recorded_bytes(cuda, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)?;
            let used = pool_bytes(cuda, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
            let peak = pool_bytes(cuda, CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
            let recorded_peak = recorded_bytes(cuda, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)?;
            let kept = pool_bytes(cuda, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
            let kept_recorded = recorded_bytes(cuda, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?;
            Ok(Memory {
                total_bytes: total as u64,
                // What is kept but no tensor holds is ours to take.
                available_bytes: free as u64
                    + kept.saturating_sub(used)
                    + kept_recorded.saturating_sub(recorded),
                used_bytes: used + recorded,
                peak_bytes: Some((peak + recorded_peak).max(EARLIER_PEAK.load(Ordering::Relaxed))),
            })
        };
        asked().map_err(driver("read the memory in use"))
    }

    fn pool(cuda: &CudaDevice) -> Result<CUmemoryPool, DriverError> {
        // SAFETY: the device exists as long as its context does.
        unsafe { get_default_mem_pool(cuda.cuda_stream().context().cu_device()) }
    }

    fn recorded_bytes(
        cuda: &CudaDevice,
        attribute: sys::CUgraphMem_attribute,
    ) -> Result<u64, DriverError> {
        let mut bytes = 0u64;
        let (device, value) = (
            cuda.cuda_stream().context().cu_device(),
            (&raw mut bytes).cast(),
        );
        // SAFETY: the device exists as long as its context does, and the attributes asked for are u64.
        unsafe { sys::cuDeviceGetGraphMemAttribute(device, attribute, value) }.result()?;
        Ok(bytes)
    }

    fn pool_bytes(cuda: &CudaDevice, attribute: CUmemPool_attribute) -> Result<u64, DriverError> {
        let mut bytes = 0u64;
        let value = (&raw mut bytes).cast();
        // SAFETY: the pool is the device's own, and the attributes asked for are u64.
        unsafe { mem_pool::get_attribute(pool(cuda)?, attribute, value) }?;
        Ok(bytes)
    }

    fn driver(action: &'static str) -> impl FnOnce(DriverError) -> Error {
        move |error| Error::Device(format!("could not {action} on the CUDA device: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Tensor};

    use super::*;

    #[test]
    fn the_peak_is_read_from_the_status_text() {
        let status = "Name:\tanneal\nVmPeak:\t  200 kB\nVmHWM:\t    1940 kB\nVmRSS:\t 12 kB\n";
        assert_eq!(peak_bytes(status), Some(1940 * 1024));
        assert_eq!(peak_bytes("Name:\tanneal\n"), None);
        assert_eq!(peak_bytes("VmHWM:\tmuch\n"), None);
    }

    #[test]
    fn a_tensor_shows_in_the_memory_in_use() {
        let before = memory(&Device::Cpu).unwrap();
        let size = 64 << 20;
        let ones = Tensor::ones(size / 4, DType::F32, &Device::Cpu).unwrap();
        let during = memory(&Device::Cpu).unwrap();
        assert!(during.used_bytes >= before.used_bytes + size as u64 / 2);
        assert!(during.used_bytes < during.total_bytes);
        assert!(during.available_bytes <= during.total_bytes);
        if let Some(peak) = during.peak_bytes {
            assert!(peak >= during.used_bytes - size as u64 / 2, "{during:?}");
        }
        drop(ones);
        release(&Device::Cpu).unwrap();
    }
}
