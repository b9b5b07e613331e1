//! What a run gives up when memory runs out, and in which order.
//!
//! One table and a function over it: from a plan that did not fit to one that needs less. What costs nothing comes first,
//! what changes numbers comes late, and what may make the run a day longer comes last. Deliberately absent: noticing that
//! memory ran out, going back to the last checkpoint, and remembering the change for the next run. The caller does that.

use serde::{Deserialize, Serialize};

use super::plan::RunPlan;
use crate::device::{
    RequestedDevice,
    dtype::{DeviceClass, Dtype, Role, dtype_rule},
};

/// Something a run can do with less of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryFallback {
    /// The memory that no tensor holds. The step is tried again as it was.
    UnusedMemory,
    /// Rows computed at once. More batches make up for it, so that an update sees the same rows.
    Rows,
    /// Activations, which are computed a second time instead.
    Activations,
    /// The width of the numbers.
    Precision,
    /// The device. The processor is slower, and has the machine's whole memory.
    Device,
}

/// What is given up, in this order; each as often as there is something of it left.
pub const POLICY: [MemoryFallback; 5] = [
    MemoryFallback::UnusedMemory,
    MemoryFallback::Rows,
    MemoryFallback::Activations,
    MemoryFallback::Precision,
    MemoryFallback::Device,
];

/// What a run may give up beside what changes nothing in its result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Whether unused memory is still to be given back, which helps once.
    pub unused_memory: bool,
    /// A narrower format for weights that don't learn, if there are such weights and the plan lets it be used.
    pub narrower_storage: Option<Dtype>,
    /// A narrower format to compute in that is right on this device, if the plan lets it be used.
    pub narrower_dtype: Option<Dtype>,
    /// Whether the processor may be used instead.
    pub cpu: bool,
}

/// A plan that needs less memory.
#[derive(Debug, Clone, PartialEq)]
pub struct FallbackPlan {
    /// What was given up.
    pub memory_fallback: MemoryFallback,
    /// What is done now.
    pub plan: RunPlan,
    /// The difference, in words.
    pub message: String,
}

/// The same of a run whose rows are normalized together: fewer of them learn something else, so they come late.
pub const POLICY_OF_NORMALIZED: [MemoryFallback; 5] = [
    MemoryFallback::UnusedMemory,
    MemoryFallback::Activations,
    MemoryFallback::Precision,
    MemoryFallback::Rows,
    MemoryFallback::Device,
];

/// The next thing to give up. Nothing when a run has nothing left.
pub fn next_fallback(plan: &RunPlan, allowed: &Allowed) -> Option<FallbackPlan> {
    let policy = match plan.batch.normalized {
        true => &POLICY_OF_NORMALIZED,
        false => &POLICY,
    };
    policy.iter().find_map(|&memory_fallback| {
        let (plan, message) = memory_fallback.of(plan, allowed)?;
        Some(FallbackPlan {
            memory_fallback,
            plan,
            message,
        })
    })
}

/// What is different with fewer rows at once.
pub fn message_for_rows(before: &RunPlan, after: &RunPlan) -> String {
    let result = match after.batch.normalized {
        true => "this changes what batch norm sees, and so the result",
        false => "the result is the same",
    };
    format!(
        "{} instead of {} rows at once, {} instead of {} times for each update; {result}",
        after.batch.rows, before.batch.rows, after.batch.accumulate, before.batch.accumulate
    )
}

impl MemoryFallback {
    fn of(self, plan: &RunPlan, allowed: &Allowed) -> Option<(RunPlan, String)> {
        let mut plan = plan.clone();
        let message = match self {
            Self::UnusedMemory if allowed.unused_memory => {
                "unused memory was given back, and nothing else is changed".to_owned()
            }
            Self::Rows if plan.batch.rows > plan.batch.least_rows() => {
                let before = plan.clone();
                plan.limit_rows((before.batch.rows / 2).max(plan.batch.least_rows()));
                if plan.batch.rows == before.batch.rows {
                    return None;
                }
                message_for_rows(&before, &plan)
            }
            Self::Activations if !plan.gradient_checkpointing => {
                plan.gradient_checkpointing = true;
                "activations are computed twice instead of kept (`gradient_checkpointing`), which takes about a third longer; \
                 the result is the same"
                    .to_owned()
            }
            Self::Precision => {
                let is_narrower = |new: &Dtype, old: Dtype| new.bytes() < old.bytes();
                let (storage, compute) = (plan.dtype.storage, plan.dtype.compute);
                let stored = allowed
                    .narrower_storage
                    .filter(|it| is_narrower(it, storage));
                match stored {
                    Some(new) => {
                        plan.dtype.storage = new;
                        format!("weights that don’t learn are kept in {new} instead of {storage}")
                    }
                    None => {
                        let new = allowed.narrower_dtype;
                        plan.dtype.compute = new.filter(|it| is_narrower(it, compute))?;
                        let new = plan.dtype.compute;
                        format!("computed in {new} instead of {compute}, which is less exact")
                    }
                }
            }
            Self::Device if allowed.cpu && plan.device != RequestedDevice::Cpu => {
                let message = format!("the CPU instead of {}, which is slower", plan.device);
                let usual = |role| dtype_rule(DeviceClass::Cpu, role).allowed[0].dtype;
                plan.device = RequestedDevice::Cpu;
                plan.dtype.compute = usual(Role::Compute);
                plan.dtype.storage = usual(Role::Storage);
                plan.avoid_kernels.clear();
                message
            }
            _ => return None,
        };
        Some((plan, message))
    }
}
