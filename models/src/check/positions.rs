//! Rotary positions: whole heads and parts of them, far positions, and rows that stand at different ones.

use super::trial::{Input, Operation, StepTrial, trial};
use crate::{
    Result,
    ops::rope::{Rope, RopeScaling, rope},
};

pub(super) fn rope_of_heads() -> Result<Operation> {
    let x = |shape: &[usize]| Input::activation("x", shape);
    let count = |tokens: usize| (0..tokens as u32).collect::<Vec<_>>();
    let same = |rows: usize, tokens: usize| (0..rows).flat_map(|_| count(tokens)).collect();
    let apart = (0..14).map(|at| at * 3 % 11).collect();
    Operation::of(
        2,
        vec![
            on(x(&[1, 1, 1, 8])?, 8, vec![1029]),
            on(x(&[2, 7, 3, 10])?, 4, apart),
            on(x(&[2, 7, 3, 64])?.inside(), 64, count(14)),
            on(x(&[1, 9, 4, 32])?.transposed(), 32, count(9)),
            on(x(&[1, 1030, 2, 18])?, 18, count(1030)),
            on(x(&[2, 5, 2, 64])?.affine(1e3, 0.0)?, 64, same(2, 5)),
            on(x(&[2, 5, 2, 64])?.affine(1e-3, 0.0)?, 64, same(2, 5)),
            on(x(&[4, 256, 8, 64])?, 64, same(4, 256)),
        ],
    )
}

/// Turns so many numbers of each head by the angles of these positions.
fn on(x: Input, rotated: usize, positions: Vec<u32>) -> StepTrial {
    let rows = x.dims()[0];
    trial(vec![x], move |_, v| {
        let table = Rope::new(rotated, 1e4, &RopeScaling::None);
        let rotation = table.rotation(&positions, rows, v[0].tensor().device())?;
        rope(&v[0], &rotation)
    })
}
