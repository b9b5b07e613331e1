//! Matrix products of f32 with any strides, on one thread or on all.
//!
//! On Apple silicon they go to Accelerate, which alone reaches the matrix units; elsewhere to the gemm crate.
//! The product on all threads is cut into tiles of a fixed size, each computed by one thread from its own packed copy
//! of the operands. This is faster than the crate's own threads, which wait for each other at every packing.

#![allow(unsafe_code)]

pub(crate) mod narrow;

use std::{cell::RefCell, ops::Range};

use candle_core::{DType, WithDType};
use half::{bf16, f16};

use crate::ops::kernels::cpu::{each_if, pieces, simd, with_scratch};

/// Rows and columns of one tile: small enough to give several cores something to do at the widths of small models, and a
/// whole number of the crate's register tiles.
const TILE: (usize, usize) = (256, 192);

/// The same where there would be very many tiles: fewer and wider, so that the left operand is read less often.
const WIDE_TILE: (usize, usize) = (256, 768);

/// The same where all columns fit in one tile: an adapter's rank, or the keys of few heads.
const NARROW_TILE: (usize, usize) = (128, 192);

/// Tiles that are very many.
const MANY_TILES: usize = 64;

/// Multiplications below which one thread is faster than two.
const WORTH_THREADS: usize = 1 << 19;

/// Numbers of a matrix that are turned at once: 16 MB, however large it is.
const TURNED: usize = 1 << 22;

/// A matrix to read, with any distance between rows and between columns.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T = f32> {
    numbers: &'a [T],
    rows_apart: usize,
    columns_apart: usize,
}

/// A dtype in which weights are kept. Narrow ones are widened to f32, which changes none of their numbers.
pub(crate) trait Stored: WithDType {
    fn widen(self) -> f32;

    /// The numbers, told by their dtype.
    fn kept(numbers: &[Self]) -> Kept<'_>;

    /// The numbers themselves, where they are f32.
    #[inline(always)]
    fn wide(_: &[Self]) -> Option<&[f32]> {
        None
    }
}

/// Numbers in a dtype in which weights are kept.
#[derive(Clone, Copy)]
pub(crate) enum Kept<'a> {
    F32(&'a [f32]),
    Bf16(&'a [bf16]),
    F16(&'a [f16]),
}

impl Kept<'_> {
    /// Without the numbers before this one.
    fn starting_at(self, first: usize) -> Self {
        match self {
            Self::F32(numbers) => Self::F32(&numbers[first..]),
            Self::Bf16(numbers) => Self::Bf16(&numbers[first..]),
            Self::F16(numbers) => Self::F16(&numbers[first..]),
        }
    }
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

impl<'a, T> Matrix<'a, T> {
    /// Rows that start `rows_apart` numbers after each other, their numbers side by side.
    pub(crate) fn rows(numbers: &'a [T], rows_apart: usize) -> Self {
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

    /// Without the rows before this one.
    fn starting_at(self, row: usize) -> Self {
        Self {
            numbers: &self.numbers[row * self.rows_apart..],
            ..self
        }
    }

    /// Panics unless a matrix of this size lies within the numbers.
    fn check(self, rows: usize, columns: usize) {
        let end = |rows, columns| rows * self.rows_apart + columns * self.columns_apart;
        assert!(rows == 0 || columns == 0 || end(rows - 1, columns - 1) < self.numbers.len());
    }
}

impl Stored for f32 {
    fn kept(numbers: &[Self]) -> Kept<'_> {
        Kept::F32(numbers)
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn wide(numbers: &[Self]) -> Option<&[f32]> {
        Some(numbers)
    }
}

impl Stored for bf16 {
    fn kept(numbers: &[Self]) -> Kept<'_> {
        Kept::Bf16(numbers)
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

impl Stored for f16 {
    fn kept(numbers: &[Self]) -> Kept<'_> {
        Kept::F16(numbers)
    }

    /// Without a branch, so that loops become vectors: the exponent's bias is corrected by a multiplication, which
    /// also makes subnormal numbers right.
    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((254 - 15) << 23);
        let magnitude = if magnitude >= 65536.0 {
            f32::from_bits(magnitude.to_bits() | 0x7f80_0000)
        } else {
            magnitude
        };
        f32::from_bits(magnitude.to_bits() | ((bits & 0x8000) << 16))
    }
}

/// A row of numbers in f32: the numbers themselves if they are, else widened in `scratch`.
#[inline(always)]
pub(crate) fn widened<'a, T: Stored>(row: &'a [T], scratch: &'a mut [f32]) -> &'a [f32] {
    T::wide(row).unwrap_or_else(|| {
        for (wide, x) in scratch.iter_mut().zip(row) {
            *wide = x.widen();
        }
        scratch
    })
}

/// Some columns of a matrix in f32: the numbers themselves if they are, else widened in `scratch`, in the order in which
/// the matrix lies in memory.
fn columns_of<'a, T: Stored>(
    matrix: Matrix<'a, T>,
    depth: usize,
    columns: Range<usize>,
    scratch: &'a mut Vec<f32>,
) -> Matrix<'a> {
    let (rows_apart, columns_apart) = (matrix.rows_apart, matrix.columns_apart);
    let numbers = &matrix.numbers[columns.start * columns_apart..];
    if let Some(numbers) = T::wide(numbers) {
        return Matrix {
            numbers,
            rows_apart,
            columns_apart,
        };
    }
    let by_column = rows_apart == 1;
    let (lines, width, apart) = match by_column {
        true => (columns.len(), depth, columns_apart),
        false => (depth, columns.len(), rows_apart),
    };
    scratch.resize(lines * width, 0.0);
    simd(
        #[inline(always)]
        || {
            for (line, wide) in scratch.chunks_mut(width).enumerate() {
                widened(&numbers[line * apart..][..width], wide);
            }
        },
    );
    let copy = Matrix::rows(&scratch[..], width);
    if by_column { copy.transposed() } else { copy }
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
    unsafe { tile(c.as_mut_ptr(), width, a, b, size, factor, output) }
}

/// The same on all threads, with b in any dtype of weights.
pub(crate) fn multiply_on_threads<T: Stored>(
    c: &mut [f32],
    width: usize,
    a: Matrix,
    b: Matrix<T>,
    size: Size,
    factor: f32,
    output: Output,
) {
    let tiles = Tiles::of(size, T::DTYPE == DType::F32);
    let lies_by_column = b.rows_apart == 1 && b.columns_apart > 1;
    if !(tiles.on_threads && lies_by_column && size.rows > tiles.rows) {
        return multiply_tiles(c, width, a, b, size, factor, output);
    }
    check(c, width, a, b, size);
    // Each tile packs its columns again, which takes long where they don't lie in rows: they are turned once for all of them.
    let columns = TURNED.div_ceil(size.depth).next_multiple_of(tiles.columns);
    for start in (0..size.columns).step_by(columns) {
        let part = Size {
            columns: columns.min(size.columns - start),
            ..size
        };
        with_scratch(size.depth * part.columns, |turned| {
            turn(
                &b.numbers[start * b.columns_apart..],
                b.columns_apart,
                part,
                turned,
            );
            let b = Matrix::rows(turned, part.columns);
            multiply_tiles(&mut c[start..], width, a, b, part, factor, output);
        });
    }
}

/// Columns that lie `apart` numbers after each other, as rows in f32: b [depth, columns].
fn turn<T: Stored>(columns: &[T], apart: usize, size: Size, b: &mut [f32]) {
    /// Lines of a processor's cache that are read together, each for as many rows.
    const LINES: usize = 16;
    pieces(b, LINES * size.columns, |index, rows| {
        let first = index * LINES;
        for start in (0..size.columns).step_by(LINES) {
            let lines = start..(start + LINES).min(size.columns);
            for (row, b) in rows.chunks_mut(size.columns).enumerate() {
                for (column, b) in lines.clone().zip(&mut b[lines.clone()]) {
                    *b = columns[column * apart + first + row].widen();
                }
            }
        }
    });
}

/// The product on all threads, a tile at a time.
fn multiply_tiles<T: Stored>(
    c: &mut [f32],
    width: usize,
    a: Matrix,
    b: Matrix<T>,
    size: Size,
    factor: f32,
    output: Output,
) {
    check(c, width, a, b, size);
    let tiles = Tiles::of(size, T::DTYPE == DType::F32);
    let start = Shared(c.as_mut_ptr());
    let compute = |index: usize| {
        let (rows, columns) = tiles.part(index, size);
        let part = Size {
            rows: rows.len(),
            columns: columns.len(),
            depth: size.depth,
        };
        with_widened(|scratch| {
            let b = columns_of(b, size.depth, columns.clone(), scratch);
            let a = a.starting_at(rows.start);
            // Safety: tiles lie within c and don't overlap.
            unsafe {
                let c = start.get().add(rows.start * width + columns.start);
                tile(c, width, a, b, part, factor, output);
            }
        });
    };
    each_if(tiles.on_threads, 0..tiles.count(size), compute);
}

/// How a product is cut up.
struct Tiles {
    rows: usize,
    columns: usize,
    on_threads: bool,
}

impl Tiles {
    fn of(size: Size, in_place: bool) -> Self {
        let whole = Self {
            rows: size.rows.max(1),
            columns: size.columns.max(1),
            on_threads: false,
        };
        if cfg!(feature = "accelerate") {
            // It has threads of its own; only widening wants panels.
            let columns = if in_place { whole.columns } else { 1024 };
            return Self { columns, ..whole };
        }
        if size.rows * size.columns * size.depth < WORTH_THREADS {
            return whole;
        }
        let tiles = |(rows, columns)| Self {
            rows,
            columns,
            on_threads: true,
        };
        if size.columns <= NARROW_TILE.1 {
            tiles(NARROW_TILE)
        } else if tiles(TILE).count(size) > MANY_TILES {
            tiles(WIDE_TILE)
        } else {
            tiles(TILE)
        }
    }

    fn count(&self, size: Size) -> usize {
        size.rows.div_ceil(self.rows) * size.columns.div_ceil(self.columns)
    }

    /// Rows and columns of one tile.
    fn part(&self, index: usize, size: Size) -> (Range<usize>, Range<usize>) {
        let down = size.rows.div_ceil(self.rows);
        // Tiles of the same columns follow each other.
        let (row, column) = (index % down * self.rows, index / down * self.columns);
        (
            row..(row + self.rows).min(size.rows),
            column..(column + self.columns).min(size.columns),
        )
    }
}

/// Lends `work` this thread's numbers for widened weights.
fn with_widened(work: impl FnOnce(&mut Vec<f32>)) {
    thread_local! {
        static WIDENED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    let mut numbers = WIDENED.take();
    work(&mut numbers);
    WIDENED.set(numbers);
}

/// A pointer into an output of which every thread writes other parts.
#[derive(Clone, Copy)]
struct Shared(*mut f32);

// Safety: what is written through it are parts that don’t overlap.
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}

impl Shared {
    fn get(self) -> *mut f32 {
        self.0
    }
}

fn check<T>(c: &[f32], width: usize, a: Matrix, b: Matrix<T>, size: Size) {
    Matrix::rows(c, width).check(size.rows, size.columns);
    assert!(width >= size.columns || size.rows <= 1);
    a.check(size.rows, size.depth);
    b.check(size.depth, size.columns);
}

/// The product of matrices that were checked, into numbers that nobody else uses.
#[cfg(not(feature = "accelerate"))]
#[allow(clippy::too_many_arguments)]
unsafe fn tile(
    c: *mut f32,
    width: usize,
    a: Matrix,
    b: Matrix,
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
            c,
            1,
            width as isize,
            add,
            a.numbers.as_ptr(),
            a.columns_apart as isize,
            a.rows_apart as isize,
            b.numbers.as_ptr(),
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
    size: Size,
    factor: f32,
    output: Output,
) {
    const ROW_MAJOR: i32 = 101;
    // A single row may claim any distance to the next; BLAS wants a possible one.
    let at_least = |apart: usize, width: usize| apart.max(width).max(1) as i32;
    let layout = |matrix: Matrix, rows: usize, columns: usize| match matrix.columns_apart {
        // Numbers side by side along rows, or along columns.
        1 => (111, at_least(matrix.rows_apart, columns)),
        apart => (112, at_least(apart, rows)),
    };
    let (a_order, a_apart) = layout(a, size.rows, size.depth);
    let (b_order, b_apart) = layout(b, size.depth, size.columns);
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
            a.numbers.as_ptr(),
            a_apart,
            b.numbers.as_ptr(),
            b_apart,
            if output == Output::Add { 1.0 } else { 0.0 },
            c,
            at_least(width, size.columns),
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
mod tests;
