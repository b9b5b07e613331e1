//! What a run gives up when memory runs out, and in which order.
//!
//! One table and a function over it: from a plan that did not fit to one that needs less. What costs nothing comes first,
//! what changes numbers late, and what may take a day longer last. Deliberately absent: noticing that memory ran out, going
//! back to what was saved, and remembering it for the next run. Whoever looks after the run does that.

use serde::{Deserialize, Serialize};

use super::plan::RunPlan;
use crate::device::{
    RequestedDevice,
    dtype::{DeviceClass, Dtype, Role, dtype_rule},
};

/// Something a run can do with less of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relief {
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
pub const POLICY: [Relief; 5] = [
    Relief::UnusedMemory,
    Relief::Rows,
    Relief::Activations,
    Relief::Precision,
    Relief::Device,
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
pub struct Relieved {
    /// What was given up.
    pub relief: Relief,
    /// What is done now.
    pub plan: RunPlan,
    /// The difference, in words.
    pub words: String,
}

/// The next thing to give up. Nothing when a run has nothing left.
pub fn relieve(plan: &RunPlan, allowed: &Allowed) -> Option<Relieved> {
    POLICY.iter().find_map(|&relief| {
        let (plan, words) = relief.of(plan, allowed)?;
        Some(Relieved {
            relief,
            plan,
            words,
        })
    })
}

/// What is different with fewer rows at once.
pub fn words_for_rows(before: &RunPlan, after: &RunPlan) -> String {
    format!(
        "{} instead of {} rows at once, {} instead of {} times for each update; the result is the same",
        after.batch.rows, before.batch.rows, after.batch.accumulate, before.batch.accumulate
    )
}

impl Relief {
    fn of(self, plan: &RunPlan, allowed: &Allowed) -> Option<(RunPlan, String)> {
        let mut plan = plan.clone();
        let words = match self {
            Self::UnusedMemory if allowed.unused_memory => {
                "unused memory was given back, and nothing else is changed".to_owned()
            }
            Self::Rows if plan.batch.rows > 1 => {
                let before = plan.clone();
                plan.limit_rows(before.batch.rows / 2);
                words_for_rows(&before, &plan)
            }
            Self::Activations if !plan.checkpointing => {
                plan.checkpointing = true;
                "activations are computed twice instead of kept (`checkpointing`), which takes about a third longer; \
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
                        format!("weights that don't learn are kept in {new} instead of {storage}")
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
                let words = format!("the CPU instead of {}, which is slower", plan.device);
                let usual = |role| dtype_rule(DeviceClass::Cpu, role).allowed[0].dtype;
                plan.device = RequestedDevice::Cpu;
                plan.dtype.compute = usual(Role::Compute);
                plan.dtype.storage = usual(Role::Storage);
                plan.avoid_kernels.clear();
                words
            }
            _ => return None,
        };
        Some((plan, words))
    }
}
