//! Products whose operands are rounded to bf16 and whose sums are f32, as on a GPU that computes in bf16.
//!
//! Both operands are packed once, on all threads, into tiles that the processor's units for bf16 read as they are; then
//! blocks of the product are computed from them. Sums are taken in an order that depends on shapes only.
//!
//! | unit | where | what it does at once |
//! |---|---|---|
//! | AMX | Intel Xeon from 2023 on, under Linux | 16 x 16 sums of 32 products |
//! | AVX-512 BF16 | AMD from Zen 4 on, and the same Xeons | 16 sums of 2 products |
//! | portable | everywhere | nothing: it is there to compare with |
//!
//! Units flush what is smaller than the least normal number to zero, and the portable one does not.
//!
//! Deliberately absent: products with fewer than [`LEAST`] terms, or fewer rows and columns, which read more than they
//! compute and stay in f32, as those of the few rows of a written token do; and Apple's processors, whose matrix units are
//! reached through Accelerate, in f32.

mod pack;
mod units;

use std::cell::RefCell;

pub(crate) use self::units::Unit;
use self::{
    pack::{Line, Lines, PANEL, STEP, pack_panel, panel_length},
    units::{Block, Target},
};
use super::{Matrix, Output, Shared, Size, Stored, WORTH_THREADS};
use crate::ops::kernels::cpu::each_if;

/// Rows or columns, whichever are more, and terms below which a product stays in f32.
const LEAST: usize = 32;

/// Terms that are summed by one pass over packed operands, and how many more may join them.
const DEPTH: (usize, usize) = (4096, 256);

/// Numbers of an operand that are packed at once: 8 MB, however large it is.
const PACKED: usize = 1 << 22;

/// Panels of rows and of columns in one task.
const TASK: (usize, usize) = (4, 8);

/// What is multiplied: factor · a b.
#[derive(Clone, Copy)]
pub(crate) struct Multiplied<'a> {
    a: Lines<'a>,
    b: Lines<'a>,
}

impl<'a> Multiplied<'a> {
    /// Panics unless both lie within their numbers.
    pub(crate) fn new<T: Stored>(a: Matrix<'a>, b: Matrix<'a, T>, size: Size, factor: f32) -> Self {
        a.check(size.rows, size.depth);
        b.check(size.depth, size.columns);
        Self {
            a: Lines::of_rows(a, size.rows, size.depth, factor),
            b: Lines::of_columns(b, size.columns, size.depth),
        }
    }

    fn terms(self, first: usize, depth: usize) -> Self {
        Self {
            a: self.a.terms(first, depth),
            b: self.b.terms(first, depth),
        }
    }
}

/// Whether a product is computed here.
pub(crate) fn serves(size: Size) -> bool {
    size.rows.max(size.columns).min(size.depth) >= LEAST
}

/// c = Σ factor · a b, or c += Σ factor · a b, on all threads: c [rows, columns], of which rows start `width` numbers after each
/// other. Every product has as many rows and columns.
pub(crate) fn multiply(
    unit: Unit,
    c: &mut [f32],
    width: usize,
    products: &[Multiplied],
    mut output: Output,
) {
    let Some(first) = products.first() else {
        return;
    };
    let (rows, columns) = (first.a.count, first.b.count);
    Matrix::rows(&*c, width).check(rows, columns);
    assert!(width >= columns || rows <= 1);
    assert!(
        products
            .iter()
            .all(|it| (it.a.count, it.b.count) == (rows, columns))
    );
    if rows == 0 || columns == 0 {
        return;
    }
    if output == Output::Replace && products.iter().all(|it| it.a.depth == 0) {
        c.chunks_mut(width)
            .take(rows)
            .for_each(|c| c[..columns].fill(0.0));
    }
    let start = Shared(c.as_mut_ptr());
    for products in passes(products) {
        let depth: usize = products
            .iter()
            .map(|it| it.a.depth.next_multiple_of(STEP))
            .sum();
        let is_large = rows * columns * depth >= WORTH_THREADS;
        let at_once = (PACKED / depth.max(1) / PANEL).max(1) * PANEL;
        let parts = |count: usize| {
            let firsts = (0..count).step_by(at_once);
            firsts.map(move |first| (first, at_once.min(count - first)))
        };
        for (row, rows) in parts(rows) {
            let a: Vec<Lines> = products.iter().map(|it| it.a.lines(row, rows)).collect();
            let mut packed_a = Packed::lent(&a);
            for (index, (column, columns)) in parts(columns).enumerate() {
                let b = products.iter().map(|it| it.b.lines(column, columns));
                let b: Vec<Lines> = b.collect();
                let mut packed_b = Packed::lent(&b);
                let mut panels = packed_b.panels(&b);
                if index == 0 {
                    panels.extend(packed_a.panels(&a));
                }
                each_if(is_large, panels, |(lines, first, panel)| {
                    pack_panels(unit, lines, first, panel);
                });
                let part = Size {
                    rows,
                    columns,
                    depth,
                };
                // Safety: the part lies within c.
                let c = Shared(unsafe { start.get().add(row * width + column) });
                let packed = (packed_a.lines(), packed_b.lines());
                multiply_packed(unit, (c, width), packed, part, output, is_large);
            }
        }
        output = Output::Add;
    }
}

/// The products cut up by their terms, so that no pass has too many.
fn passes<'a>(products: &[Multiplied<'a>]) -> Vec<Vec<Multiplied<'a>>> {
    let mut passes: Vec<Vec<Multiplied>> = Vec::new();
    let mut terms = 0;
    for product in products {
        let depth = product.a.depth;
        for first in (0..depth).step_by(DEPTH.0) {
            let part = DEPTH.0.min(depth - first);
            let fits = terms + part <= DEPTH.0 + DEPTH.1;
            terms = if fits { terms + part } else { part };
            let part = product.terms(first, part);
            match passes.last_mut().filter(|_| fits) {
                Some(pass) => pass.push(part),
                None => passes.push(vec![part]),
            }
        }
    }
    passes
}

/// The product of packed operands, a task at a time.
fn multiply_packed(
    unit: Unit,
    (c, width): (Shared, usize),
    (a, b): (&[Line], &[Line]),
    size: Size,
    output: Output,
    on_threads: bool,
) {
    let length = panel_length(size.depth);
    let (down, across) = (size.rows.div_ceil(PANEL), size.columns.div_ceil(PANEL));
    let tasks_down = down.div_ceil(TASK.0);
    let compute = |task: usize| {
        let (row, column) = (task % tasks_down * TASK.0, task / tasks_down * TASK.1);
        let a = &a[row * length..(row + TASK.0).min(down) * length];
        let b = &b[column * length..(column + TASK.1).min(across) * length];
        let (row, column) = (row * PANEL, column * PANEL);
        // Safety: tasks lie within c and don't overlap.
        let target = unsafe {
            Target {
                start: c.get().add(row * width + column),
                width,
                rows: size.rows - row,
                columns: size.columns - column,
            }
        };
        // Safety: as above; a and b are whole panels of the same length.
        unsafe { unit.multiply(Block { a, b, length }, target, output) };
    };
    let tasks = tasks_down * across.div_ceil(TASK.1);
    each_if(on_threads, 0..tasks, compute);
}

/// Packs a panel of an operand: what is summed one after another lies side by side.
fn pack_panels(unit: Unit, operand: &[Lines], first: usize, mut panel: &mut [Line]) {
    for lines in operand {
        let (part, rest) = panel.split_at_mut(panel_length(lines.depth));
        pack_panel(unit, lines, first, part);
        panel = rest;
    }
}

thread_local! {
    /// Room for operands that stays allocated between products.
    static ROOM: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Room for an operand in tiles, lent by this thread.
struct Packed {
    room: Vec<Line>,
    count: usize,
    /// Lines of a panel.
    length: usize,
}

impl Packed {
    fn lent(operand: &[Lines]) -> Self {
        let length: usize = operand.iter().map(|it| panel_length(it.depth)).sum();
        let count = operand.first().map_or(0, |it| it.count.div_ceil(PANEL)) * length;
        let mut room = ROOM.with_borrow_mut(Vec::pop).unwrap_or_default();
        if room.len() < count {
            room.resize(count, Line::default());
        }
        Self {
            room,
            count,
            length,
        }
    }

    /// What is to be packed: each panel with the first line that goes there.
    fn panels<'a, 'b>(
        &'a mut self,
        operand: &'a [Lines<'b>],
    ) -> Vec<(&'a [Lines<'b>], usize, &'a mut [Line])> {
        let panels = self.room[..self.count].chunks_mut(self.length).enumerate();
        panels
            .map(|(index, panel)| (operand, index * PANEL, panel))
            .collect()
    }

    fn lines(&self) -> &[Line] {
        &self.room[..self.count]
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        ROOM.with_borrow_mut(|it| it.push(std::mem::take(&mut self.room)));
    }
}

#[cfg(test)]
mod tests;
