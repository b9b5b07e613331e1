//! Every operation as a Mac computes it, against the same composed and in f64, with a Vulkan driver in the place of Metal.

use candle_core::{DType, Device, Tensor};

use super::{Binding, STORAGES, msl, stand_in};
use crate::{
    Result,
    ops::{
        feed_forward::Along,
        norm::{layer_norm, residual_norm, rms_norm},
        testing::{check_kernel_on, normal},
    },
    tape::Value,
};

/// The most bytes that Metal takes by value.
const MOST_VALUES: usize = 4096;

/// Checks in each dtype, with an error of `tolerance` in f32 and of a few roundings in the others, and that just these kernels
/// were launched.
#[track_caller]
fn check(
    inputs: &[Tensor],
    tolerance: f64,
    kernels: &[&str],
    operation: impl Fn(&[Value]) -> Result<Value>,
) {
    if !stand_in::is_there() {
        return;
    }
    for (dtype, tolerance) in [
        (DType::F32, tolerance),
        (DType::F16, 5e-3),
        (DType::BF16, 4e-2),
    ] {
        // The reference sees the numbers that the kernel sees.
        let round = |it: &Tensor| it.to_dtype(dtype).unwrap().to_dtype(DType::F64).unwrap();
        let inputs: Vec<Tensor> = inputs.iter().map(round).collect();
        let checked = || check_kernel_on(&Device::Cpu, dtype, &inputs, tolerance, &operation);
        let ((), launches) = stand_in::with(checked);
        let names: Vec<&str> = launches.keys().copied().collect();
        assert_eq!(names, kernels, "{dtype:?}");
    }
}

#[test]
fn rms_norm_equals_the_composition() {
    let kernels = ["rms_norm", "rms_norm_back", "rms_norm_weight"];
    for [rows, width] in [[1, 1], [3, 33], [300, 576], [2, 5000]] {
        let inputs = [normal(1, &[rows, width]), normal(2, &[width])];
        check(&inputs, 1e-5, &kernels, |v| {
            rms_norm(&v[0], &v[1], 1.0, 1e-5)
        });
    }
}

#[test]
fn layer_norm_equals_the_composition() {
    let kernels = ["layer_norm", "layer_norm_back", "layer_norm_weight"];
    for [rows, width] in [[3, 33], [300, 576], [2, 5000]] {
        let inputs = [
            normal(1, &[rows, width]),
            normal(2, &[width]),
            normal(3, &[width]),
        ];
        check(&inputs, 1e-5, &kernels, |v| {
            layer_norm(&v[0], &v[1], &v[2], 1e-5)
        });
    }
}

#[test]
fn norms_of_sums_equal_the_composition_along_both_dimensions() {
    let kernels = ["residual_norm", "residual_norm_back"];
    for shape in [[97, 520], [3, 33], [2, 3], [130, 72]] {
        let inputs = [normal(1, &shape), normal(2, &shape)];
        for along in [Along::First, Along::Last] {
            check(&inputs, 1e-5, &kernels, |v| {
                residual_norm(&v[0], &v[1], along, 1e-5)
            });
        }
    }
}

#[test]
fn every_text_is_of_the_kernel_and_storage_that_the_table_says() {
    for text in msl::TEXTS {
        for (storage, written) in STORAGES.iter().zip(text.by_storage) {
            let begin = format!("kernel void {storage}_{}(", text.name);
            assert!(written.contains(&begin), "{storage} {}", text.name);
            let threads = format!("max_total_threads_per_threadgroup({})", text.threads);
            assert!(written.contains(&threads), "{storage} {}", text.name);
            for (slot, binding) in text.bindings.iter().enumerate() {
                let line = written
                    .lines()
                    .find(|it| it.contains(&format!("[[buffer({slot})]]")))
                    .unwrap_or_else(|| panic!("{storage} {} has no slot {slot}", text.name));
                let right = match binding {
                    Binding::Read => line.contains("device") && line.contains(" const& "),
                    Binding::Write => line.contains("device") && !line.contains(" const& "),
                    Binding::Values(size) => line.contains("constant") && *size <= MOST_VALUES,
                };
                assert!(right, "{storage} {}, slot {slot}: {line}", text.name);
            }
        }
    }
}
