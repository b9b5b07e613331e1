//! What a plan does with what the check found.

use super::{CheckRow, Fallback, GROUPS, Group, MEMORY, is_always_f32};
use crate::{
    device::{Checked, dtype::Dtype},
    ops::kernels,
};

impl Checked {
    /// What rows mean for a plan.
    ///
    /// An operation that is exact, slow or not, is fine, and so is one that is exact without its kernel. What is always
    /// f32 counts in every dtype, since none can train without it. The memory's figures decide nothing here. f16 has to
    /// pass as it is: no other dtype is to lose a kernel for it, and that it passes alone is not enough to train.
    pub fn from_rows(rows: &[CheckRow]) -> Self {
        let rows: Vec<&CheckRow> = rows.iter().filter(|row| row.operation != MEMORY).collect();
        let tried = |dtype| rows.iter().any(|row| row.dtype == dtype);
        let without_kernel =
            |row: &CheckRow| row.fallback == Some(Fallback::Composed) && row.dtype != Dtype::F16;
        let fails = |row: &CheckRow| !row.verdict.is_exact() && !without_kernel(row);
        let concerns =
            |row: &CheckRow, dtype| row.dtype == dtype || is_always_f32(&row.group, &row.operation);
        let (refused_dtypes, others): (Vec<Dtype>, Vec<Dtype>) =
            [Dtype::F32, Dtype::Bf16, Dtype::F16]
                .into_iter()
                .filter(|&dtype| tried(dtype))
                .partition(|&dtype| rows.iter().any(|row| concerns(row, dtype) && fails(row)));
        let composed = |name: &str| {
            // A small model has no kernel of its own. When it works only without kernels, any of them may be wrong.
            let has_kernel = |operation: &str| kernels::NAMES.contains(&operation);
            let concerned = |it: &str| it == name || !has_kernel(it);
            let mut rows = rows.iter();
            rows.any(|row| without_kernel(row) && concerned(&row.operation))
        };
        let names = kernels::NAMES.iter().filter(|name| composed(name));
        let failed = rows
            .iter()
            .find(|row| fails(row))
            .filter(|_| others.iter().all(|&dtype| dtype == Dtype::F16));
        Self {
            bf16: others.contains(&Dtype::Bf16) && is_whole(&rows, Dtype::Bf16),
            composed: names.map(|&name| name.to_owned()).collect(),
            training_failed: failed.map(|row| failure(row)),
            refused_dtypes,
        }
    }
}

/// Whether there is a row for all that computes in a dtype.
fn is_whole(rows: &[&CheckRow], dtype: Dtype) -> bool {
    let operations = GROUPS.iter().flat_map(Group::operations);
    let mut operations = operations.filter(|operation| *operation != MEMORY);
    operations.all(|operation| {
        let counts = |row: &CheckRow| row.dtype == dtype || is_always_f32(&row.group, operation);
        rows.iter()
            .any(|row| row.operation == operation && counts(row))
    })
}

/// What failed, as the end of a sentence.
fn failure(row: &CheckRow) -> String {
    let what = format!("{} in {}", row.operation, row.dtype);
    match &row.message {
        Some(message) => format!("{what}: {message}"),
        None => what,
    }
}
