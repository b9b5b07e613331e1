//! What runs had to give up when memory ran out, by model and device, so that the next one starts there.

use std::path::Path;

use models::{
    device::{RequestedDevice, dtype::Dtype},
    train::{RunPlan, kind::Subject},
};
use serde::{Deserialize, Serialize};

use super::{read_list, write_json};
use crate::wire::error::Result;

/// What was enough, after more was too much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KnownFallback {
    /// The folder of the model, or a number that stands for the shape of a new one.
    model: String,
    method: String,
    device: RequestedDevice,
    compute: Dtype,
    /// The length of rows.
    length: usize,
    /// How many rows at once were too much, and how many were tried next.
    pub(crate) failed_rows: usize,
    pub(crate) rows: usize,
    /// Whether activations are computed twice.
    #[serde(alias = "checkpointing")]
    pub(crate) gradient_checkpointing: bool,
    /// The day it was found out: `2026-11-21`.
    pub(crate) day: String,
}

/// Remembers that `before` was too much, and that `after` came next. What was known of the same model and device goes.
pub(crate) fn remember(
    path: &Path,
    subject: &Subject,
    before: &RunPlan,
    after: &RunPlan,
) -> Result<()> {
    let known = KnownFallback {
        model: subject.model.clone(),
        method: subject.method.clone(),
        device: after.device,
        compute: after.dtype.compute,
        length: after.batch.length,
        failed_rows: before.batch.rows,
        rows: after.batch.rows,
        gradient_checkpointing: after.gradient_checkpointing,
        day: jiff::Zoned::now().strftime("%Y-%m-%d").to_string(),
    };
    let mut all = read(path);
    all.retain(|it| !(is_about(it, subject, after) && it.length == after.batch.length));
    all.push(known);
    write_json(path, &all)
}

/// What is known about plans like this one: of rows as long, or shorter.
pub(crate) fn find(path: &Path, plan: &RunPlan, subject: &Subject) -> Option<KnownFallback> {
    let mut all = read(path);
    all.retain(|it| is_about(it, subject, plan) && it.length <= plan.batch.length);
    all.into_iter().max_by_key(|it| it.length)
}

/// Nothing is known from a file that is not there or can't be read: a run then finds out again.
fn read(path: &Path) -> Vec<KnownFallback> {
    read_list(path, "list of what runs gave up").unwrap_or_default()
}

fn is_about(known: &KnownFallback, subject: &Subject, plan: &RunPlan) -> bool {
    known.model == subject.model
        && known.method == subject.method
        && known.device == plan.device
        && known.compute == plan.dtype.compute
}
