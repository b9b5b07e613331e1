//! What a host has to know of each kernel, and its text in each storage. Written by `tests/metal`, as all that stands here.

use super::{
    Binding::{Read, Values, Write},
    Text,
};

/// `name: threads of a group, [what is bound at each slot];`
macro_rules! texts {
    ($($name:literal: $threads:literal, [$($binding:expr),*];)*) => {
        &[$(Text {
            name: $name,
            threads: $threads,
            bindings: &[$($binding),*],
            by_storage: [
                include_str!(concat!("f32x4_", $name, ".metal")),
                include_str!(concat!("f32x1_", $name, ".metal")),
                include_str!(concat!("f16x4_", $name, ".metal")),
                include_str!(concat!("f16x1_", $name, ".metal")),
                include_str!(concat!("bf16x4_", $name, ".metal")),
                include_str!(concat!("bf16x1_", $name, ".metal")),
            ],
        },)*]
    };
}

pub(super) const TEXTS: &[Text] = texts! {
    "rms_norm": 256, [Read, Read, Write, Write, Values(16)];
    "rms_norm_back": 256, [Read, Read, Read, Read, Read, Write, Values(16)];
    "rms_norm_weight": 256, [Read, Read, Read, Write, Values(16)];
    "layer_norm": 256, [Read, Read, Read, Write, Write, Values(16)];
    "layer_norm_back": 256, [Read, Read, Read, Read, Write, Values(16)];
    "layer_norm_weight": 256, [Read, Read, Read, Write, Write, Values(16)];
    "residual_norm": 256, [Read, Read, Write, Write, Values(32)];
    "residual_norm_back": 256, [Read, Read, Read, Write, Values(16)];
    "gated": 256, [Read, Read, Write, Values(16)];
    "gated_back": 256, [Read, Read, Read, Write, Write, Values(16)];
    "halves": 256, [Read, Write, Values(16)];
    "halves_back": 256, [Read, Read, Write, Write, Values(16)];
    "rotate": 256, [Read, Read, Read, Write, Values(64)];
    "masked_softmax": 256, [Write, Read, Values(32)];
    "masked_softmax_back": 256, [Read, Read, Write, Values(16)];
    "next_attention": 256, [Read, Read, Read, Read, Write, Values(48)];
    "cross_entropy": 256, [Write, Read, Write, Values(16)];
    "add_low_rank": 256, [Read, Read, Write, Write, Values(32)];
    "add_low_rank_back": 256, [Read, Read, Write, Write, Values(32)];
    "gather": 256, [Read, Read, Read, Read, Read, Read, Read, Read, Write, Values(64)];
    "add_rows": 256, [Read, Read, Read, Write, Values(16)];
    "dropout": 256, [Read, Write, Values(32)];
    "classify": 256, [Read, Read, Read, Write, Write, Values(16)];
    "widen_codes": 256, [Read, Read, Read, Read, Read, Write, Values(32)];
    "patches": 256, [Read, Write, Values(48)];
    "patches_back": 256, [Read, Write, Values(48)];
    "max_pool": 256, [Read, Write, Write, Values(48)];
    "max_pool_back": 256, [Read, Read, Write, Values(48)];
    "batch_sums": 256, [Read, Write, Values(16)];
    "batch_channels": 256, [Read, Read, Read, Read, Write, Values(16)];
    "batch_follow": 256, [Read, Read, Read, Write, Values(16)];
    "batch_apply": 256, [Read, Read, Read, Write, Values(16)];
    "batch_slope_sums": 256, [Read, Read, Read, Read, Write, Values(32)];
    "batch_slopes": 256, [Read, Read, Write, Values(16)];
    "batch_back": 256, [Read, Read, Read, Read, Read, Write, Write, Values(32)];
    "adamw": 256, [Write, Write, Write, Write, Write, Write, Write, Write, Write, Write, Write, Write, Write, Write, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Values(144)];
    "adamw_codes": 256, [Write, Read, Write, Write, Write, Write, Read, Values(48)];
    "squares": 256, [Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Read, Write, Values(96)];
};
