//! The table itself: which formats are safe for what on which device, the default first, and which are not.

use super::{DeviceClass, Dtype, DtypeReason};

/// Allowed and refused formats.
type Formats = (&'static [DtypeReason], &'static [DtypeReason]);

/// What activations are, and matrices are multiplied in.
pub(super) fn compute(class: DeviceClass) -> Formats {
    match class {
        DeviceClass::Cpu => COMPUTE_CPU,
        DeviceClass::Metal => COMPUTE_METAL,
        DeviceClass::MetalChecked => COMPUTE_METAL_CHECKED,
        DeviceClass::CudaBefore80 => COMPUTE_CUDA_BEFORE_80,
        DeviceClass::Cuda80 => COMPUTE_CUDA_80,
    }
}

const COMPUTE_CPU: Formats = (
    &[
        f32("The processor's matrix kernels are f32."),
        f16(
            "It learns with a loss scale, but far more slowly than f32: our kernels are f32. Good for trying.",
        ),
    ],
    &[bf16(
        "The CPU widens bf16 matrices to f32 again on every product, so it is slower than f32.",
    )],
);

const COMPUTE_METAL: Formats = (
    &[
        f32("f32 is used until the device check has passed bf16 on this GPU."),
        f16(WITH_LOSS_SCALE),
    ],
    &[bf16("The device check has not passed bf16 on this GPU.")],
);

const COMPUTE_METAL_CHECKED: Formats = (
    &[
        bf16("The device check has passed bf16 on this GPU; it halves the memory of activations."),
        f32("f32 keeps 7 digits, at twice the memory."),
        f16(BF16_HAS_THE_RANGE),
    ],
    &[],
);

const COMPUTE_CUDA_BEFORE_80: Formats = (
    &[
        f32(
            "Before compute capability 8.0, f32 is the fastest format that is safe for every model.",
        ),
        f16(WITH_LOSS_SCALE),
    ],
    &[bf16(
        "GPUs before compute capability 8.0 have no bf16 arithmetic.",
    )],
);

const COMPUTE_CUDA_80: Formats = (
    &[
        bf16(
            "From compute capability 8.0, bf16 has the range of f32 at half the memory and is faster.",
        ),
        f32("f32 keeps 7 digits, at twice the memory and more time."),
        f16(BF16_HAS_THE_RANGE),
    ],
    &[],
);

/// What frozen weights are kept in.
pub(super) fn storage(class: DeviceClass) -> Formats {
    match class {
        DeviceClass::Cpu => {
            const {
                (
                    &[
                        f32(
                            "The processor computes in f32, so nothing is converted while it runs.",
                        ),
                        bf16(
                            "Half the memory; our kernels widen it to f32 as they go, which is exact.",
                        ),
                    ],
                    &[f16(
                        "Weights in f16 are widened to f32 once when they are loaded, which is exact.",
                    )],
                )
            }
        }
        DeviceClass::Metal | DeviceClass::CudaBefore80 => {
            const {
                (
                    &[
                        f32("Stored as they are computed with."),
                        f16(STORED_FOR_F16),
                    ],
                    &[bf16("They would have to be widened to f32 on every use.")],
                )
            }
        }
        DeviceClass::MetalChecked | DeviceClass::Cuda80 => {
            const {
                (
                    &[
                        bf16(
                            "Stored as they are computed with, and as most checkpoints hold them.",
                        ),
                        f32("Right when the run computes in f32."),
                        f16(STORED_FOR_F16),
                    ],
                    &[],
                )
            }
        }
    }
}

/// What sums are computed in, everywhere.
pub(super) const ACCUMULATE: Formats = (
    &[f32(
        "Long sums lose small terms in 16 bits, on every device.",
    )],
    &[
        bf16("After a few hundred terms of the same size, a bf16 sum stops growing."),
        f16("A sum in f16 is infinite above 65,504."),
    ],
);

/// What weights that learn are kept in, everywhere.
pub(super) const MASTER: Formats = (
    &[f32(
        "A step of learning is far smaller than the weight it changes.",
    )],
    &[
        bf16(
            "With 7 bits of fraction, steps below 1/512 of a weight vanish, and slow averages stand still.",
        ),
        f16(
            "With 10 bits of fraction, steps below 1/4,096 of a weight vanish, and squared gradients underflow.",
        ),
    ],
);

const WITH_LOSS_SCALE: &str = "Half the memory of activations. It learns with a loss scale, if none of the model's own numbers is above 65,504.";

const BF16_HAS_THE_RANGE: &str = "It needs a loss scale, and is infinite above 65,504; bf16 is of the same size and has the range of f32.";

const STORED_FOR_F16: &str = "Right when the run computes in f16.";

const fn f32(reason: &'static str) -> DtypeReason {
    DtypeReason {
        dtype: Dtype::F32,
        reason,
    }
}

const fn bf16(reason: &'static str) -> DtypeReason {
    DtypeReason {
        dtype: Dtype::Bf16,
        reason,
    }
}

const fn f16(reason: &'static str) -> DtypeReason {
    DtypeReason {
        dtype: Dtype::F16,
        reason,
    }
}
