//! Products of f32, on one thread and on all, beside sums in f64.

use super::*;
use crate::random::Random;

fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.normal() as f32).collect()
}

/// Compares both products with sums in f64, for every layout of the operands.
#[track_caller]
fn check(rows: usize, columns: usize, depth: usize) {
    let (a, b) = (numbers(1, rows * depth), numbers(2, depth * columns));
    let size = Size {
        rows,
        columns,
        depth,
    };
    for (a_transposed, b_transposed) in [(false, false), (false, true), (true, false), (true, true)]
    {
        let a = if a_transposed {
            Matrix::rows(&a, rows).transposed()
        } else {
            Matrix::rows(&a, depth)
        };
        let b = if b_transposed {
            Matrix::rows(&b, depth).transposed()
        } else {
            Matrix::rows(&b, columns)
        };
        let before = numbers(3, rows * columns);
        let mut one = before.clone();
        let mut all = before.clone();
        multiply(&mut one, columns, a, b, size, 0.5, Output::Add);
        multiply_on_threads(&mut all, columns, a, b, size, 0.5, Output::Add);
        for index in 0..rows * columns {
            let (row, column) = (index / columns, index % columns);
            let at = |m: Matrix, row, column| {
                f64::from(m.numbers[row * m.rows_apart + column * m.columns_apart])
            };
            let product: f64 = (0..depth).map(|i| at(a, row, i) * at(b, i, column)).sum();
            let expected = f64::from(before[index]) + 0.5 * product;
            for got in [one[index], all[index]] {
                assert!((f64::from(got) - expected).abs() < 1e-5 * depth as f64);
            }
        }
    }
}

#[test]
fn every_layout_gives_the_product() {
    check(1, 1, 1);
    check(3, 5, 7);
    check(130, 100, 65);
    check(70, 500, 33);
}

#[test]
fn columns_that_are_turned_in_parts_give_the_product() {
    let size = Size {
        rows: 300,
        columns: 800,
        depth: 6000,
    };
    let (a, b) = (
        numbers(1, size.rows * size.depth),
        numbers(2, size.columns * size.depth),
    );
    let narrow: Vec<bf16> = b.iter().map(|it| bf16::from_f32(*it)).collect();
    let wide: Vec<f32> = narrow.iter().map(|it| it.to_f32()).collect();
    let (a, width) = (Matrix::rows(&a, size.depth), size.columns);
    let [mut one, mut all, mut of_narrow] = [(); 3].map(|()| vec![0.0; size.rows * width]);
    let by_column = Matrix::rows(&wide[..], size.depth).transposed();
    multiply(&mut one, width, a, by_column, size, 1.0, Output::Replace);
    multiply_on_threads(&mut all, width, a, by_column, size, 1.0, Output::Replace);
    let by_column = Matrix::rows(&narrow[..], size.depth).transposed();
    multiply_on_threads(
        &mut of_narrow,
        width,
        a,
        by_column,
        size,
        1.0,
        Output::Replace,
    );
    assert!(all == of_narrow);
    for (one, all) in one.iter().zip(&all) {
        assert!((one - all).abs() < 1e-2, "{one} and {all}");
    }
}

#[test]
fn widening_keeps_every_number() {
    for bits in 0..=u16::MAX {
        let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
        for (got, expected) in [
            (Stored::widen(half), half.to_f32()),
            (Stored::widen(brain), brain.to_f32()),
        ] {
            assert!(
                got == expected || (got.is_nan() && expected.is_nan()),
                "{bits:x}: {got}"
            );
        }
    }
}

#[test]
fn an_output_that_is_replaced_is_not_read() {
    let mut c = vec![f32::NAN; 4];
    let size = Size {
        rows: 2,
        columns: 2,
        depth: 2,
    };
    let ones = [1.0; 4];
    let ones = Matrix::rows(&ones, 2);
    multiply(&mut c, 2, ones, ones, size, 1.0, Output::Replace);
    assert_eq!(c, [2.0; 4]);
}
