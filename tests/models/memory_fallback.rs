//! What a run gives up when memory runs out.

use models::{
    device::{RequestedDevice, dtype::Dtype},
    train::memory_fallback::{Allowed, MemoryFallback, POLICY, next_fallback},
};

use crate::plan::scratch_plan;

#[test]
fn a_run_gives_up_in_order_what_costs_least_until_nothing_is_left() {
    let mut plan = scratch_plan().run;
    plan.device = RequestedDevice::Metal;
    (plan.batch.rows, plan.batch.accumulate) = (4, 3);
    plan.gradient_checkpointing = false;
    plan.dtype.compute = Dtype::F32;
    let mut allowed = Allowed {
        unused_memory: true,
        narrower_storage: None,
        narrower_dtype: Some(Dtype::Bf16),
        cpu: true,
    };
    let mut given = Vec::new();
    while let Some(fallback) = next_fallback(&plan, &allowed) {
        assert_eq!(
            fallback.plan.batch.rows * fallback.plan.batch.accumulate,
            12
        );
        let batch = &fallback.plan.batch;
        given.push((fallback.memory_fallback, batch.rows, batch.accumulate));
        plan = fallback.plan;
        allowed.unused_memory = false;
        // Each device has its own formats.
        if plan.device == RequestedDevice::Cpu {
            allowed.narrower_dtype = None;
        }
    }
    assert_eq!(
        given,
        [
            (MemoryFallback::UnusedMemory, 4, 3),
            (MemoryFallback::Rows, 2, 6),
            (MemoryFallback::Rows, 1, 12),
            (MemoryFallback::Activations, 1, 12),
            (MemoryFallback::Precision, 1, 12),
            (MemoryFallback::Device, 1, 12),
        ]
    );
    assert_eq!(POLICY.len(), 5);
    assert_eq!(plan.device, RequestedDevice::Cpu);
    assert_eq!(plan.dtype.compute, Dtype::F32);
}

#[test]
fn weights_that_do_not_learn_become_narrower_before_what_is_computed() {
    let mut plan = scratch_plan().run;
    plan.device = RequestedDevice::Metal;
    plan.batch.rows = 1;
    plan.gradient_checkpointing = true;
    let allowed = Allowed {
        narrower_storage: Some(Dtype::Bf16),
        narrower_dtype: Some(Dtype::Bf16),
        ..Allowed::default()
    };
    let mut given = Vec::new();
    while let Some(fallback) = next_fallback(&plan, &allowed) {
        plan = fallback.plan;
        given.push((plan.dtype.storage, plan.dtype.compute));
    }
    let (f32, bf16) = (Dtype::F32, Dtype::Bf16);
    assert_eq!(given, [(bf16, f32), (bf16, bf16)]);
}

#[test]
fn what_is_not_allowed_is_kept() {
    let mut plan = scratch_plan().run;
    plan.device = RequestedDevice::Metal;
    plan.batch.rows = 1;
    plan.gradient_checkpointing = true;
    assert_eq!(next_fallback(&plan, &Allowed::default()), None);
    // The same width is no memory_fallback.
    plan.dtype.compute = Dtype::Bf16;
    let allowed = Allowed {
        narrower_dtype: Some(Dtype::F16),
        ..Allowed::default()
    };
    assert_eq!(next_fallback(&plan, &allowed), None);
}

#[test]
fn an_update_and_a_look_at_held_out_data_see_as_many_rows_with_fewer_at_once() {
    for (before, after) in [
        ((4, 4), (2, 8)),
        ((3, 1), (1, 3)),
        ((6, 1), (3, 2)),
        ((5, 4), (2, 10)),
        ((7, 3), (3, 7)),
        ((2, 1), (1, 2)),
    ] {
        let mut plan = scratch_plan().run;
        (plan.batch.rows, plan.batch.accumulate) = before;
        plan.evaluate.batches = 20;
        plan.limit_rows(before.0 / 2);
        assert_eq!((plan.batch.rows, plan.batch.accumulate), after);
        let looked_at = plan.evaluate.batches * plan.batch.rows;
        assert!((20 * before.0..20 * before.0 + after.0).contains(&looked_at));
    }
}
