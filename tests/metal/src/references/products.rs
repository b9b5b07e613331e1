//! Thin products that are added to what is there.

use super::each;
use crate::check::{
    Check,
    Data::{Empty, Numbers},
    Field::{F, U},
};

const SCALE: f64 = 0.5;

pub(crate) fn add_low_rank(check: &mut Check) {
    // Rows that are no multiple of four; more columns than a group has; a rank of one pack, and of several.
    let shapes = match check.storage.lanes() {
        4 => [(37, 192, 16), (6, 1_100, 4)],
        _ => [(13, 45, 7), (6, 300, 1)],
    };
    for (rows, width, rank) in shapes {
        let z = check.storage.normal(1, rows * rank, 1.0);
        let factor = check.storage.normal(2, width * rank, 1.0);
        let y = check.storage.normal(3, rows * width, 1.0);
        let fields = [U(rows), U(width), U(rank), F(SCALE)];
        let groups = [
            (width / check.storage.lanes()).div_ceil(256),
            rows.div_ceil(4),
        ];
        for (kernel, at) in [
            (
                "add_low_rank",
                (|column, k, [_, rank]| column * rank + k) as fn(usize, usize, [usize; 2]) -> usize,
            ),
            ("add_low_rank_back", |column, k, [width, _]| {
                k * width + column
            }),
        ] {
            let data = [Numbers(&z), Numbers(&factor), Numbers(&y), Empty(z.len())];
            if let Some(out) = check.run(kernel, &data, &fields, groups) {
                let expected = each(rows * width, |i| {
                    let (row, column) = (i / width, i % width);
                    let part = |k: usize| z[row * rank + k] * factor[at(column, k, [width, rank])];
                    y[i] + SCALE * (0..rank).map(part).sum::<f64>()
                });
                check.same(&format!("{kernel}: y, rank {rank}"), &out[2], &expected);
                check.same(
                    &format!("{kernel}: z, rank {rank}"),
                    &out[3],
                    &each(z.len(), |i| z[i] * SCALE),
                );
            }
        }
    }
}
