//! The engine's side of the benchmark: one case, on the device that this process owns.

use models::{
    bench::{self, Case, Place, Row},
    device::{self, RequestedDevice},
};

use super::choose;
use crate::wire::error::Result;

/// Measures a case for so many seconds.
pub(super) fn measure(
    case: Case,
    device: RequestedDevice,
    avoid_kernels: Vec<String>,
    seconds: f64,
    stop: &dyn Fn() -> bool,
) -> Result<Row> {
    let choice = choose(device, true)?;
    let place = Place {
        device: device::open(&choice)?,
        choice,
        avoid_kernels,
    };
    Ok(bench::measure(case, &place, seconds, stop))
}
