//! The engine's side of the benchmark: one case, on the device that this process owns.

use models::{
    bench::{self, BenchCase, BenchDevice, BenchRow},
    device::{self, RequestedDevice},
};

use super::choose;
use crate::wire::error::Result;

/// Measures a case for so many seconds.
pub(super) fn measure(
    case: BenchCase,
    device: RequestedDevice,
    avoid_kernels: Vec<String>,
    seconds: f64,
    stop: &dyn Fn() -> bool,
) -> Result<BenchRow> {
    let choice = choose(device, true)?;
    let place = BenchDevice {
        device: device::open(&choice)?,
        choice,
        avoid_kernels,
    };
    Ok(bench::measure(case, &place, seconds, stop))
}
