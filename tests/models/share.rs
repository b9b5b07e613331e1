//! Several ranks that train one run: what each computes of a step.

use models::{
    checkpoint::keep::Checkpoints,
    train::{TrainState, share::Share, train},
};
use serde_json::json;

use crate::train::{Line, Watch, never, plan};

/// The weights after one step of plain gradient descent from zero, which are the gradient but for a factor, and the
/// position in the data.
fn step_of(share: Share) -> (Vec<f32>, u64) {
    let changes = json!({
        "batch": { "rows": 8, "length": 1, "accumulate": 4 },
        "optimizer": {
            "kind": "sgd", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0, "momentum": 0.0,
        },
        "evaluate": { "every": 0, "batches": 0 },
    });
    let (plan, folder) = (plan(1, changes), tempfile::tempdir().unwrap());
    let mut line = Line::new();
    let mut state = TrainState::new(&plan, &line).unwrap();
    state.share = share;
    let checkpoints = Checkpoints::new(folder.path(), 1);
    let mut watch = Watch::until(never);
    train(&plan.run, &mut line, &mut state, &checkpoints, &mut watch).unwrap();
    (line.weight(), line.position)
}

#[test]
fn what_all_ranks_compute_of_a_step_adds_up_to_the_whole() {
    let (whole, position) = step_of(Share::ALL);
    assert!(whole.iter().all(|it| it.abs() > 0.01), "{whole:?}");
    for world in [2, 4] {
        let ranks: Vec<_> = (0..world)
            .map(|rank| step_of(Share { rank, world }))
            .collect();
        for (index, expected) in whole.iter().enumerate() {
            let sum: f32 = ranks.iter().map(|(weight, _)| weight[index]).sum();
            assert!(
                (sum - expected).abs() < 1e-6,
                "{world}: {sum} for {expected}"
            );
            assert!(ranks.iter().all(|(weight, _)| weight[index] != *expected));
        }
        assert!(ranks.iter().all(|(_, it)| *it == position), "{ranks:?}");
    }
}
