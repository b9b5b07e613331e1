//! What a device could do at best: multiply matrices, and read and write memory.
//!
//! The share of these that a workload reaches is the roofline of Williams, Waterman and Patterson
//! (<https://doi.org/10.1145/1498765.1498785>), with ceilings that were measured rather than promised.

use candle_core::Tensor;

use super::{
    BANDWIDTH, BenchCase, BenchDevice, MATMUL, Size, StepWork, Unit, Variation, Work, Workload,
    just_one, measure, size::RepeatedWeights,
};
use crate::{
    Result,
    arch::{Initial, WeightRequest, Weights},
    device::{DeviceKind, dtype::Dtype},
    ops::{elementwise::add, linear::linear},
    profile::Ceilings,
    tape::Value,
};

pub(super) static MATRICES: Workload = Workload {
    name: MATMUL,
    title: "Matrix product",
    about: "Multiplies two square matrices: the most arithmetic this device can do.",
    unit: Unit::Operations,
    feeds: None,
    advises: false,
    variations: just_one,
    prepare: multiply,
};

pub(super) static MEMORY: Workload = Workload {
    name: BANDWIDTH,
    title: "Memory",
    about: "Adds two long lists of numbers: the fastest this device can read and write memory.",
    unit: Unit::Bytes,
    feeds: None,
    advises: false,
    variations: just_one,
    prepare: read_and_write,
};

/// The seconds that each ceiling is measured for.
const SECONDS: f64 = 0.5;

/// What a device could do at best in this dtype. Nothing when it could not be measured.
pub fn ceilings(place: &BenchDevice, dtype: Dtype, stop: &dyn Fn() -> bool) -> Option<Ceilings> {
    let rate = |workload: &str| {
        let case = BenchCase {
            workload: workload.to_owned(),
            size: Size::Small,
            dtype: Some(dtype),
            variation: Variation::default(),
        };
        let measured = measure(case, place, SECONDS, stop).measured;
        measured.map(|it| it.per_second())
    };
    Some(Ceilings {
        operations_per_second: rate(MATMUL)?,
        bytes_per_second: rate(BANDWIDTH)?,
    })
}

/// Columns and rows of a matrix that keeps such a device busy, and products in one step. On a processor no power of two,
/// whose rows get into each other's way in the caches.
fn sides(kind: DeviceKind) -> (usize, usize) {
    match kind {
        DeviceKind::Cuda => (8192, 4),
        DeviceKind::Metal => (2048, 8),
        DeviceKind::Cpu | DeviceKind::Rocm => (1152, 4),
    }
}

fn multiply(case: &BenchCase, place: &BenchDevice) -> Result<Work> {
    let (side, products) = sides(place.choice.device.kind);
    let left = Value::constant(numbers(&[side, side], case, place)?);
    let right = Value::constant(left.tensor().affine(0.5, 0.25)?);
    let operations = (2 * side.pow(3) * products) as f64;
    Ok(Work {
        step: StepWork {
            amount: operations,
            operations,
            ..StepWork::default()
        },
        config: format!("{side} x {side}"),
        take: Box::new(move || {
            for _ in 0..products {
                linear(&left, &right, None)?;
            }
            Ok(())
        }),
    })
}

fn read_and_write(case: &BenchCase, place: &BenchDevice) -> Result<Work> {
    // Much more than caches hold.
    let count: usize = match place.choice.device.kind {
        DeviceKind::Cuda => 1 << 28,
        DeviceKind::Metal => 1 << 26,
        DeviceKind::Cpu | DeviceKind::Rocm => 1 << 24,
    };
    let left = Value::constant(numbers(&[count], case, place)?);
    let right = Value::constant(left.tensor().affine(0.5, 0.25)?);
    // Two are read, one is written.
    let bytes = (3 * count * case.tensors(place).bytes()) as f64;
    Ok(Work {
        step: StepWork {
            amount: bytes,
            bytes,
            ..StepWork::default()
        },
        config: format!("{} million numbers", count >> 20),
        take: Box::new(move || add(&left, &right).map(drop)),
    })
}

/// Normal numbers, few of them repeated.
fn numbers(shape: &[usize], case: &BenchCase, place: &BenchDevice) -> Result<Tensor> {
    let mut weights = RepeatedWeights {
        dtype: case.tensors(place).into(),
        device: place.device.clone(),
    };
    weights.tensor(&WeightRequest {
        name: "roofline",
        shape,
        initial: Initial::Normal(1.0),
    })
}
