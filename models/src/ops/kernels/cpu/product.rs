//! Matrix products of f32 with any strides, on one thread or on all.
//!
//! On Apple silicon they go to Accelerate, which alone reaches the matrix units; elsewhere to the gemm crate.
//! The product on all threads is cut into tiles of a fixed size, each computed by one thread from its own packed copy
//! of the operands. This is faster than the crate's own threads, which wait for each other at every packing.

#![allow(unsafe_code)]

use rayon::prelude::*;

/// Columns of one tile: a whole number of the crate's register tiles, which are 48 or 96 wide with AVX-512.
const TILE_COLUMNS: usize = 96;

/// Multiplications below which one thread is faster than two.
const WORTH_THREADS: usize = 1 << 19;

/// A matrix to read, with any distance between rows and between columns.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    numbers: &'a [f32],
    rows_apart: usize,
    columns_apart: usize,
}

/// What happens to the numbers that are in the output already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// They are overwritten, unread.
    Replace,
    /// The product is added to them.
    Add,
}

/// Rows and columns of the product, and the dimension that is summed over.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) depth: usize,
}

impl<'a> Matrix<'a> {
    /// Rows that start `rows_apart` numbers after each other, their numbers side by side.
    pub(crate) fn rows(numbers: &'a [f32], rows_apart: usize) -> Self {
        Self {
            numbers,
            rows_apart,
            columns_apart: 1,
        }
    }

    /// The same numbers with rows and columns exchanged. Costs nothing.
    pub(crate) fn transposed(self) -> Self {
        Self {
            rows_apart: self.columns_apart,
            columns_apart: self.rows_apart,
            ..self
        }
    }

    /// Checks that a matrix of this size lies within the numbers.
    fn check(self, rows: usize, columns: usize) {
        assert!(rows == 0 || columns == 0 || self.end(rows, columns) <= self.numbers.len());
    }

    fn end(self, rows: usize, columns: usize) -> usize {
        (rows - 1) * self.rows_apart + (columns - 1) * self.columns_apart + 1
    }

    fn from(self, row: usize, column: usize) -> *const f32 {
        // Within the numbers, since `check` has been called for the whole product.
        self.numbers
            .as_ptr()
            .wrapping_add(row * self.rows_apart + column * self.columns_apart)
    }
}

/// c = factor · a b, or c += factor · a b, on this thread. Rows of c start `width` numbers after each other.
pub(crate) fn multiply(
    c: &mut [f32],
    width: usize,
    a: Matrix,
    b: Matrix,
    size: Size,
    factor: f32,
    output: Output,
) {
    check(c, width, a, b, size);
    // Safety: all three lie within their slices.
    unsafe { tile(c.as_mut_ptr(), width, a, b, (0, 0), size, factor, output) }
}

/// The same on all threads.
pub(crate) fn multiply_on_threads(
    c: &mut [f32],
    width: usize,
    a: Matrix,
    b: Matrix,
    size: Size,
    factor: f32,
    output: Output,
) {
    let work = size.rows * size.columns * size.depth;
    // Accelerate has threads of its own.
    if work < WORTH_THREADS || cfg!(feature = "accelerate") {
        return multiply(c, width, a, b, size, factor, output);
    }
    check(c, width, a, b, size);
    // Many columns give enough tiles; then a tile takes many rows, so that b is packed as rarely as possible.
    let tile_rows = if size.columns >= 4 * TILE_COLUMNS {
        512
    } else {
        128
    };
    let tiles_across = size.columns.div_ceil(TILE_COLUMNS);
    let tiles_down = size.rows.div_ceil(tile_rows);
    let start = Shared(c.as_mut_ptr());
    (0..tiles_across * tiles_down)
        .into_par_iter()
        .for_each(|index| {
            let (row, column) = (
                index / tiles_across * tile_rows,
                index % tiles_across * TILE_COLUMNS,
            );
            let part = Size {
                rows: tile_rows.min(size.rows - row),
                columns: TILE_COLUMNS.min(size.columns - column),
                depth: size.depth,
            };
            // Safety: tiles lie within c and don't overlap.
            unsafe {
                tile(
                    start.get(),
                    width,
                    a,
                    b,
                    (row, column),
                    part,
                    factor,
                    output,
                )
            }
        });
}

/// A pointer into an output of which every thread writes other parts.
#[derive(Clone, Copy)]
struct Shared(*mut f32);

// Safety: see its one use.
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}

impl Shared {
    fn get(self) -> *mut f32 {
        self.0
    }
}

fn check(c: &[f32], width: usize, a: Matrix, b: Matrix, size: Size) {
    Matrix::rows(c, width).check(size.rows, size.columns);
    assert!(width >= size.columns || size.rows <= 1);
    a.check(size.rows, size.depth);
    b.check(size.depth, size.columns);
}

/// The part of the product that starts at (row, column) and has this size.
#[cfg(not(feature = "accelerate"))]
#[allow(clippy::too_many_arguments)]
unsafe fn tile(
    c: *mut f32,
    width: usize,
    a: Matrix,
    b: Matrix,
    (row, column): (usize, usize),
    size: Size,
    factor: f32,
    output: Output,
) {
    let add = output == Output::Add;
    // Safety: the caller's.
    unsafe {
        gemm::gemm(
            size.rows,
            size.columns,
            size.depth,
            c.add(row * width + column),
            1,
            width as isize,
            add,
            a.from(row, 0),
            a.columns_apart as isize,
            a.rows_apart as isize,
            b.from(0, column),
            b.columns_apart as isize,
            b.rows_apart as isize,
            if add { 1.0 } else { 0.0 },
            factor,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(feature = "accelerate")]
#[allow(clippy::too_many_arguments)]
unsafe fn tile(
    c: *mut f32,
    width: usize,
    a: Matrix,
    b: Matrix,
    (row, column): (usize, usize),
    size: Size,
    factor: f32,
    output: Output,
) {
    const ROW_MAJOR: i32 = 101;
    let layout = |matrix: Matrix| match matrix.columns_apart {
        // Numbers side by side along rows, or along columns.
        1 => (111, matrix.rows_apart as i32),
        apart => (112, apart as i32),
    };
    let at_least = |apart: i32, width: usize| apart.max(width as i32).max(1);
    let ((a_order, a_apart), (b_order, b_apart)) = (layout(a), layout(b));
    // A single row may claim any distance to the next; BLAS wants a possible one.
    let a_apart = at_least(
        a_apart,
        if a_order == 111 {
            size.depth
        } else {
            size.rows
        },
    );
    let b_apart = at_least(
        b_apart,
        if b_order == 111 {
            size.columns
        } else {
            size.depth
        },
    );
    // Safety: the caller's.
    unsafe {
        cblas_sgemm(
            ROW_MAJOR,
            a_order,
            b_order,
            size.rows as i32,
            size.columns as i32,
            size.depth as i32,
            factor,
            a.from(row, 0),
            a_apart,
            b.from(0, column),
            b_apart,
            if output == Output::Add { 1.0 } else { 0.0 },
            c.add(row * width + column),
            at_least(width as i32, size.columns),
        );
    }
}

#[cfg(feature = "accelerate")]
unsafe extern "C" {
    /// C = alpha A B + beta C, of BLAS.
    fn cblas_sgemm(
        order: i32,
        a_order: i32,
        b_order: i32,
        rows: i32,
        columns: i32,
        depth: i32,
        alpha: f32,
        a: *const f32,
        a_apart: i32,
        b: *const f32,
        b_apart: i32,
        beta: f32,
        c: *mut f32,
        c_apart: i32,
    );
}

#[cfg(test)]
mod tests {
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
        for (a_transposed, b_transposed) in
            [(false, false), (false, true), (true, false), (true, true)]
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
}
