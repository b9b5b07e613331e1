//! Products of rounded operands, by every unit that is here.

use half::bf16;

use super::{
    super::{Matrix, Output, Size, Stored},
    *,
};
use crate::random::Random;

fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.normal() as f32).collect()
}

/// Compares the product of every unit, for every layout of the operands, with sums in f64 of numbers rounded to bf16.
#[track_caller]
fn check<T: Stored>(size: Size, output: Output, stored: fn(f32) -> T) {
    let Size {
        rows,
        columns,
        depth,
    } = size;
    let a = numbers(1, rows * depth);
    let b: Vec<T> = numbers(2, depth * columns)
        .into_iter()
        .map(stored)
        .collect();
    // Another product is added, as that of an adapter.
    let more = Size { depth: 5, ..size };
    let (x, y) = (numbers(4, rows * 5), numbers(5, columns * 5));
    let (x, y) = (Matrix::rows(&x, 5), Matrix::rows(&y, columns));
    let before = numbers(3, rows * columns);
    let round = |number: f32| f64::from(bf16::from_f32(number));
    for (a_turned, b_turned) in [(false, false), (false, true), (true, false), (true, true)] {
        let a = match a_turned {
            true => Matrix::rows(&a, rows).transposed(),
            false => Matrix::rows(&a, depth),
        };
        let b = match b_turned {
            true => Matrix::rows(&b, depth).transposed(),
            false => Matrix::rows(&b, columns),
        };
        let product = |row: usize, column: usize| -> f64 {
            let of_term = |term: usize| {
                let a = a.numbers[row * a.rows_apart + term * a.columns_apart];
                let b = b.numbers[term * b.rows_apart + column * b.columns_apart];
                round(0.7 * a) * round(b.widen())
            };
            let of_more = |term: usize| {
                let x = x.numbers[row * more.depth + term];
                round(x) * round(y.numbers[term * columns + column])
            };
            (0..depth).map(of_term).sum::<f64>() + (0..more.depth).map(of_more).sum::<f64>()
        };
        for unit in Unit::all_here() {
            // A row has room behind it, which stays as it is.
            let width = columns + 3;
            let mut c = vec![7.0; rows * width];
            for (c, before) in c.chunks_mut(width).zip(before.chunks(columns)) {
                c[..columns].copy_from_slice(before);
            }
            let products = [
                Multiplied::new(a, b, size, 0.7),
                Multiplied::new(x, y, more, 1.0),
            ];
            multiply(unit, &mut c, width, &products, output);
            for (row, c) in c.chunks(width).enumerate() {
                for (column, found) in c.iter().enumerate() {
                    let expected = match output {
                        _ if column >= columns => 7.0,
                        Output::Replace => product(row, column),
                        Output::Add => {
                            f64::from(before[row * columns + column]) + product(row, column)
                        }
                    };
                    let off = (f64::from(*found) - expected).abs();
                    assert!(
                        off < 1e-6 * depth as f64,
                        "{unit:?} at {row}, {column}: off by {off}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_unit_gives_the_product_of_rounded_numbers() {
    for (rows, columns, depth) in [(32, 32, 32), (33, 70, 65), (130, 8, 600), (64, 33, 4100)] {
        let size = Size {
            rows,
            columns,
            depth,
        };
        check(size, Output::Replace, |it| it);
        check(size, Output::Add, |it| it);
        check(size, Output::Replace, bf16::from_f32);
        check(size, Output::Add, half::f16::from_f32);
    }
}

#[test]
fn operands_that_are_packed_in_parts_give_the_product() {
    // More terms than a pass has, and more rows and columns than are packed at once beside them.
    let size = Size {
        rows: 5,
        columns: 1100,
        depth: 4100,
    };
    check(size, Output::Replace, bf16::from_f32);
    let turned = Size {
        rows: size.columns,
        columns: size.rows,
        ..size
    };
    check(turned, Output::Add, |it| it);
}

#[test]
fn nothing_multiplied_is_zero_and_no_rows_are_left_alone() {
    let product = |rows: usize, depth: usize| {
        let size = Size {
            rows,
            columns: 3,
            depth,
        };
        let mut c = vec![7.0; 2 * 4];
        let nothing: [f32; 0] = [];
        let (a, b) = (
            Matrix::rows(&nothing[..], depth),
            Matrix::rows(&nothing[..], 3),
        );
        let products = [Multiplied::new(a, b, size, 1.0)];
        multiply(Unit::here(), &mut c, 4, &products, Output::Replace);
        c
    };
    assert_eq!(product(2, 0), [0.0, 0.0, 0.0, 7.0, 0.0, 0.0, 0.0, 7.0]);
    assert_eq!(product(0, 0), [7.0; 8]);
}
