//! The engine's side of the device check: some cases, or the smallest run of a kind, on the device that this process owns.

use std::{ops::ControlFlow, path::Path};

use models::{
    check::{self, CheckCase, CheckRow, Fallback, Fault},
    device::{self, Checked, RequestedDevice, dtype::DeviceClass},
    tasks::{TaskRequest, tiny::TinyPlace},
};

use super::choose;
use crate::wire::error::{AppError, Result};

/// Tries the cases of a group from one on, and tells of each.
pub(super) fn check(
    group: &str,
    from: usize,
    device: RequestedDevice,
    faults: &[Fault],
    report: &mut dyn FnMut(CheckRow) -> ControlFlow<()>,
) -> Result<()> {
    let (device, class, cases) = open(group, device)?;
    let cases = cases.get(from..).unwrap_or_default();
    Ok(check::run_cases(cases, &device, class, faults, report)?)
}

/// What works instead of a case that ended its process.
pub(super) fn fallback(
    group: &str,
    at: usize,
    device: RequestedDevice,
    faults: &[Fault],
) -> Result<Fallback> {
    let (device, class, cases) = open(group, device)?;
    let case = cases.get(at);
    let case = case.ok_or_else(|| AppError::failed(format!("`{group}` has no case {at}")))?;
    Ok(check::fallback(case, &device, class, faults)?)
}

/// Takes steps of the smallest run of a kind: its milliseconds.
pub(super) fn try_kind(
    kind: &str,
    device: RequestedDevice,
    checked: &Checked,
    folder: &Path,
    faults: &[Fault],
) -> Result<Option<f64>> {
    check::act_out(kind, faults)?;
    let choice = choose(device, true)?;
    let request = TaskRequest::named(kind).map_err(|it| AppError::failed(it.problem))?;
    Ok(request.try_tiny(&TinyPlace {
        device: &device::open(&choice)?,
        choice: &choice,
        checked,
        folder,
    })?)
}

fn open(
    group: &str,
    device: RequestedDevice,
) -> Result<(device::Device, DeviceClass, Vec<CheckCase>)> {
    let chosen = choose(device, true)?;
    let class = DeviceClass::of(&chosen.device, false);
    Ok((device::open(&chosen)?, class, check::cases(group, class)?))
}
