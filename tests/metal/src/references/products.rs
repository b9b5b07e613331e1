//! Thin products that are added to what is there, and tensors that are put side by side for them.

use super::each;
use crate::{
    check::{
        Check,
        Data::{self, Empty, Numbers, Wide},
        Field::{self, F, U},
    },
    storage::normal,
};

const SCALE: f64 = 0.5;

pub(crate) fn add_low_rank(check: &mut Check) {
    // Rows that are no multiple of four; more columns than a group has; a rank of one pack, and of several.
    let shapes = match check.storage.lanes() {
        4 => [(37, 192, 16), (6, 1_100, 4)],
        _ => [(13, 45, 7), (6, 300, 1)],
    };
    for (rows, width, rank) in shapes {
        // Thin rows are parts of longer ones: some numbers lie between them.
        let (z_apart, scaled_apart) = (rank + 8, rank + 4);
        let z = check.storage.normal(1, rows * z_apart, 1.0);
        let factor = check.storage.normal(2, width * rank, 1.0);
        let y = check.storage.normal(3, rows * width, 1.0);
        let fields = [
            U(rows),
            U(width),
            U(rank),
            F(SCALE),
            U(z_apart),
            U(scaled_apart),
            U(0),
            U(0),
        ];
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
            let data = [
                Numbers(&z),
                Numbers(&factor),
                Numbers(&y),
                Empty(rows * scaled_apart),
            ];
            if let Some(out) = check.run(kernel, &data, &fields, groups) {
                let expected = each(rows * width, |i| {
                    let (row, column) = (i / width, i % width);
                    let part =
                        |k: usize| z[row * z_apart + k] * factor[at(column, k, [width, rank])];
                    y[i] + SCALE * (0..rank).map(part).sum::<f64>()
                });
                check.same(&format!("{kernel}: y, rank {rank}"), &out[2], &expected);
                check.same(
                    &format!("{kernel}: z, rank {rank}"),
                    &out[3],
                    &each(rows * scaled_apart, |i| match i % scaled_apart {
                        k if k < rank => z[i / scaled_apart * z_apart + k] * SCALE,
                        _ => 0.0,
                    }),
                );
            }
        }
    }
}

/// Tensors of unequal sizes, fewer than one launch takes.
pub(crate) fn gather(check: &mut Check) {
    const SLOTS: usize = 8;
    let sizes = match check.storage.lanes() {
        4 => [2_000, 4, 64, 12, 400, 8, 0, 0],
        _ => [2_001, 1, 65, 13, 399, 7, 0, 0],
    };
    let starts: [usize; SLOTS] = std::array::from_fn(|at| sizes[..at].iter().sum());
    let tensors: Vec<Vec<f64>> = (0..)
        .zip(sizes)
        .map(|(seed, size): (u64, usize)| normal(seed, size.max(4)))
        .collect();
    let all: usize = sizes.iter().sum();
    let mut data: Vec<Data> = tensors.iter().map(|it| Wide(it)).collect();
    data.push(Empty(all));
    let fields: Vec<Field> = sizes.iter().chain(&starts).map(|it| U(*it)).collect();
    if let Some(out) = check.run("gather", &data, &fields, [2, SLOTS]) {
        let parts = tensors.iter().zip(sizes);
        let want: Vec<f64> = parts.flat_map(|(it, size)| it[..size].to_vec()).collect();
        check.same("gather", &out[SLOTS], &want);
    }
}
