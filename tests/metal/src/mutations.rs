//! Kernels that are broken on purpose: comparisons that find nothing in them would find nothing at all.

use crate::{
    check::{self, committed},
    device::Gpu,
};

/// What came of one.
pub struct Found {
    pub what: &'static str,
    pub compared: usize,
    pub failed: usize,
}

struct Mutation {
    what: &'static str,
    /// The comparisons that are run, by the beginning of their name.
    family: &'static str,
    /// What stands in the text, and what takes its place.
    replace: [&'static str; 2],
}

const MUTATIONS: [Mutation; 4] = [
    Mutation {
        what: "no barrier before sums are read",
        family: "rms_norm",
        replace: [
            "of_subgroup[place.subgroup].x = sum; }\n    workgroupBarrier();",
            "of_subgroup[place.subgroup].x = sum; }",
        ],
    },
    Mutation {
        what: "a sum of one subgroup only",
        family: "rms_norm",
        replace: ["all += of_subgroup[i].x;", "all = sum;"],
    },
    Mutation {
        what: "one write past the end",
        family: "gated",
        replace: ["i < sizes.count / LANES;", "i <= sizes.count / LANES;"],
    },
    Mutation {
        what: "the target is off by one",
        family: "cross_entropy",
        replace: ["splat(goal)", "splat(goal + 1)"],
    },
];

/// Breaks one thing after the other.
///
/// Panics where a text no longer has what is to be replaced: then the mutation has to follow it.
pub fn all(gpu: &Gpu) -> Vec<Found> {
    let run = |mutation: &Mutation| {
        let [before, after] = mutation.replace;
        let source =
            |kernel: &str, storage: &str| committed(kernel, storage).replace(before, after);
        let changes = |kernel: &str| committed(kernel, "f32x4").contains(before);
        assert!(
            changes(mutation.family),
            "`{before}` is not in the text any more"
        );
        let outcomes = check::all(gpu, mutation.family, &source);
        Found {
            what: mutation.what,
            compared: outcomes.len(),
            failed: outcomes.iter().filter(|it| !it.is_right()).count(),
        }
    };
    MUTATIONS.iter().map(run).collect()
}
