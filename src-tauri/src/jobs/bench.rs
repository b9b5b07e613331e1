//! The engine's side of the benchmark: one case, on the device that this process owns.

use models::{
    bench::{self, BenchCase, BenchDevice, BenchRow},
    device::{self, RequestedDevice, dtype::Dtype},
    profile::Ceilings,
    train::profile::Profile,
};

use super::choose;
use crate::wire::error::Result;

/// Says where a case spends its time and memory, and what the device could do at best. Nothing when it was stopped.
pub(super) fn profile(
    case: &BenchCase,
    device: RequestedDevice,
    avoid_kernels: Vec<String>,
    stop: &dyn Fn() -> bool,
) -> Result<Option<(Profile, Option<Ceilings>)>> {
    let place = place(device, true, avoid_kernels)?;
    let profile = bench::profile(case, &place, stop)?;
    let dtype = case.dtype.unwrap_or(Dtype::F32);
    Ok(profile.map(|profile| (profile, bench::ceilings(&place, dtype, stop))))
}

/// Measures a case for so many seconds.
pub(super) fn measure(
    case: BenchCase,
    device: RequestedDevice,
    avoid_kernels: Vec<String>,
    seconds: f64,
    stop: &dyn Fn() -> bool,
) -> Result<BenchRow> {
    let place = place(device, true, avoid_kernels)?;
    Ok(bench::measure(case, &place, seconds, stop))
}

/// The device that is measured, open.
pub(super) fn place(
    device: RequestedDevice,
    strict: bool,
    avoid_kernels: Vec<String>,
) -> Result<BenchDevice> {
    let choice = choose(device, strict)?;
    Ok(BenchDevice {
        device: device::open(&choice)?,
        choice,
        avoid_kernels,
    })
}
