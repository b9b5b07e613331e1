//! Kernels of three that move by one, by tiles of 2 x 2 places: 16 products where 36 would be needed.
//!
//! With d the 4 x 4 pixels that a tile is computed from: Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A, where ⊙ sums over channels, which makes
//! it 16 matrix products. The gradient of g is that of this formula: Gᵀ [Σ (A dY Aᵀ) ⊙ (Bᵀ d B)] G, summed over tiles.
//! Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015 (<https://arxiv.org/abs/1509.09308>).
//!
//! Deliberately absent: larger tiles, whose numbers are some ten times less exact.

use std::{array, ops::Range};

use rayon::prelude::*;

use crate::ops::{
    convolution::Shape,
    kernels::cpu::{
        each, filled,
        product::{Matrix, Output, Size, multiply},
        simd, with_scratch,
    },
};

/// Products of a tile.
const POINTS: usize = 16;
/// Numbers of transformed tiles, in and out, that are there at once on a thread.
const ON_A_THREAD: usize = 1 << 19;
/// The fewest tiles in a product.
const MIN_TILES: usize = 64;
/// Tiles of a block that one thread transforms for the gradient of a weight.
const TILES_OF_BLOCK: usize = 128;
/// Tiles that such a gradient is summed over at once, by all threads.
const SUMMED_TILES: usize = 1024;

/// G g Gᵀ of each kernel: 16 matrices [c, o].
pub(super) struct Transformed {
    numbers: Vec<f32>,
    channels: [usize; 2],
}

impl Transformed {
    /// Of W [o, c, 3, 3] with `channels` c and o. For the way back each kernel is turned by half, and c and o change places.
    pub(super) fn of(weight: &[f32], [c, o]: [usize; 2], back: bool) -> Self {
        let channels = if back { [o, c] } else { [c, o] };
        let [from, to] = channels;
        let rows = filled(POINTS * c * o, |rows| {
            // All points of a channel first, so that threads write apart.
            rows.par_chunks_mut(POINTS * to)
                .enumerate()
                .for_each(|(at, points)| {
                    for other in 0..to {
                        let kernel = if back { at * c + other } else { other * c + at };
                        let mut kernel: [f32; 9] = array::from_fn(|tap| weight[kernel * 9 + tap]);
                        if back {
                            kernel.reverse();
                        }
                        for (point, number) in transform_kernel(&kernel).iter().enumerate() {
                            points[point * to + other] = *number;
                        }
                    }
                });
        });
        let numbers = filled(rows.len(), |numbers| {
            numbers
                .par_chunks_mut(from * to)
                .enumerate()
                .for_each(|(point, matrix)| {
                    for (at, row) in matrix.chunks_mut(to).enumerate() {
                        row.copy_from_slice(&rows[(at * POINTS + point) * to..][..to]);
                    }
                });
        });
        Self { numbers, channels }
    }

    fn point(&self, point: usize) -> Matrix<'_> {
        let [from, to] = self.channels;
        Matrix::rows(&self.numbers[point * from * to..][..from * to], to)
    }
}

/// y [n, h', w', o] of x [n, h, w, c].
pub(super) fn forward(
    y: &mut [f32],
    x: &[f32],
    weight: &Transformed,
    bias: Option<&[f32]>,
    shape: &Shape,
) {
    let tiles = Tiles::of(shape);
    let [channels, out] = shape.channels;
    let lines = tiles.lines_of((ON_A_THREAD / (POINTS * (channels + out))).max(MIN_TILES));
    let mut rest = y;
    let mut tasks = Vec::new();
    for first in (0..tiles.lines()).step_by(lines) {
        let end = (first + lines).min(tiles.lines());
        let numbers = (tiles.row(end) - tiles.row(first)) * shape.to[1] * out;
        let (part, after) = rest.split_at_mut(numbers);
        tasks.push((first..end, part));
        rest = after;
    }
    let input = Pixels::of_input(x, shape);
    let products = shape.pictures * shape.places() * channels * out;
    each(tasks, products, |(part, y)| {
        let count = part.len() * tiles.across;
        with_scratch(POINTS * count * (channels + out), |scratch| {
            let (v, m) = scratch.split_at_mut(POINTS * count * channels);
            tiles.transform(v, part.clone(), &input, &PIXELS);
            for point in 0..POINTS {
                let size = Size {
                    rows: count,
                    columns: out,
                    depth: channels,
                };
                let v = Matrix::rows(&v[point * count * channels..], channels);
                let m = &mut m[point * count * out..][..count * out];
                multiply(m, out, v, weight.point(point), size, 1.0, Output::Replace);
            }
            tiles.untransform(y, m, part.clone(), bias, shape);
        });
    });
}

/// The gradient of W [o, c, 3, 3] from g [n, h', w', o] and x [n, h, w, c].
pub(super) fn to_weight(gradient: &[f32], x: &[f32], shape: &Shape) -> Vec<f32> {
    let tiles = Tiles::of(shape);
    let [channels, out] = shape.channels;
    // Blocks of tiles are transformed side by side, and each point is summed over them by one thread.
    let lines = tiles.lines_of(TILES_OF_BLOCK);
    let of_block = POINTS * lines * tiles.across;
    let blocks = SUMMED_TILES.div_ceil(lines * tiles.across);
    let [input, output] = [
        Pixels::of_input(x, shape),
        Pixels::of_output(gradient, shape),
    ];
    let mut sums = vec![0.0f32; POINTS * channels * out];
    let mut v = vec![0.0f32; blocks * of_block * channels];
    let mut z = vec![0.0f32; blocks * of_block * out];
    for first in (0..tiles.lines()).step_by(lines * blocks) {
        let part = |block: usize| {
            let start = (first + block * lines).min(tiles.lines());
            start..(start + lines).min(tiles.lines())
        };
        let both = v.par_chunks_mut(of_block * channels);
        let both = both.zip(z.par_chunks_mut(of_block * out)).enumerate();
        both.for_each(|(block, (v, z))| {
            tiles.transform(v, part(block), &input, &PIXELS);
            tiles.transform(z, part(block), &output, &GRADIENTS);
        });
        let sums = sums.par_chunks_mut(channels * out).enumerate();
        sums.for_each(|(point, sum)| {
            for block in 0..blocks {
                let count = part(block).len() * tiles.across;
                let size = Size {
                    rows: channels,
                    columns: out,
                    depth: count,
                };
                let v = &v[(block * of_block + point * count) * channels..];
                let z = &z[(block * of_block + point * count) * out..];
                let v = Matrix::rows(v, channels).transposed();
                multiply(sum, out, v, Matrix::rows(z, out), size, 1.0, Output::Add);
            }
        });
    }
    untransform_kernels(&sums, shape.channels)
}

/// The tiles of all pictures, by lines: those that stand side by side.
struct Tiles {
    across: usize,
    /// Lines of a picture.
    down: usize,
    pictures: usize,
    /// Rows of places of a picture.
    rows: usize,
}

impl Tiles {
    fn of(shape: &Shape) -> Self {
        Self {
            across: shape.to[1].div_ceil(2),
            down: shape.to[0].div_ceil(2),
            pictures: shape.pictures,
            rows: shape.to[0],
        }
    }

    fn lines(&self) -> usize {
        self.pictures * self.down
    }

    /// Lines that have so many tiles or a few more.
    fn lines_of(&self, tiles: usize) -> usize {
        tiles.div_ceil(self.across.max(1)).max(1)
    }

    /// The row of places, of all pictures, at which a line begins.
    fn row(&self, line: usize) -> usize {
        line / self.down * self.rows + line % self.down * 2
    }

    /// 16 matrices [tiles, channels] of the tiles of some lines: first each column of a tile, then each row of what that gave.
    fn transform(&self, to: &mut [f32], lines: Range<usize>, from: &Pixels, by: &Transformation) {
        let channels = from.channels;
        let (side, plane) = (by.side, lines.len() * self.across * channels);
        let zeros = vec![0.0; channels];
        let mut columns = vec![0.0; 4 * side * channels];
        let mut at = 0;
        for line in lines {
            let (picture, row) = (line / self.down, line % self.down * 2);
            for tile in 0..self.across {
                for t in 0..side {
                    let pixel = |r: usize| match from.start(picture, row + r, tile * 2 + t) {
                        Some(start) => &from.numbers[start..start + channels],
                        None => &zeros,
                    };
                    for (r, terms) in by.terms.iter().enumerate() {
                        let out = &mut columns[(r * side + t) * channels..][..channels];
                        add_up(out, terms, pixel);
                    }
                }
                for r in 0..4 {
                    let number = |t: usize| &columns[(r * side + t) * channels..][..channels];
                    for (t, terms) in by.terms.iter().enumerate() {
                        let out = &mut to[(r * 4 + t) * plane + at..][..channels];
                        add_up(out, terms, number);
                    }
                }
                at += channels;
            }
        }
    }

    /// The places of some lines, from 16 matrices [tiles, o].
    fn untransform(
        &self,
        y: &mut [f32],
        m: &[f32],
        lines: Range<usize>,
        bias: Option<&[f32]>,
        shape: &Shape,
    ) {
        let out = shape.channels[1];
        let plane = lines.len() * self.across * out;
        let mut columns = vec![0.0; 2 * 4 * out];
        let (above, mut at) = (self.row(lines.start), 0);
        for line in lines {
            let row = self.row(line) - above;
            let rows = self.row(line + 1) - self.row(line);
            for tile in 0..self.across {
                for t in 0..4 {
                    let point = |r: usize| &m[(r * 4 + t) * plane + at..][..out];
                    for (r, terms) in PLACES.iter().enumerate() {
                        add_up(&mut columns[(r * 4 + t) * out..][..out], terms, point);
                    }
                }
                for r in 0..rows {
                    let number = |t: usize| &columns[(r * 4 + t) * out..][..out];
                    let inside = shape.to[1] - tile * 2;
                    for (t, terms) in PLACES.iter().enumerate().take(inside) {
                        let start = ((row + r) * shape.to[1] + tile * 2 + t) * out;
                        let y = &mut y[start..start + out];
                        add_up(y, terms, number);
                        if let Some(bias) = bias {
                            y.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
                        }
                    }
                }
                at += out;
            }
        }
    }
}

/// Numbers of a tile that are added up, each with its sign.
type Terms = &'static [(usize, bool)];

/// What four numbers along a side of a tile are made from.
struct Transformation {
    /// Numbers along a side before.
    side: usize,
    terms: [Terms; 4],
}

/// Bᵀ d B.
const PIXELS: Transformation = Transformation {
    side: 4,
    terms: [
        &[(0, true), (2, false)],
        &[(1, true), (2, true)],
        &[(2, true), (1, false)],
        &[(1, true), (3, false)],
    ],
};
/// A g Aᵀ.
const GRADIENTS: Transformation = Transformation {
    side: 2,
    terms: [
        &[(0, true)],
        &[(0, true), (1, true)],
        &[(0, true), (1, false)],
        &[(1, false)],
    ],
};
/// Aᵀ m A.
const PLACES: [Terms; 2] = [
    &[(0, true), (1, true), (2, true)],
    &[(1, true), (2, false), (3, false)],
];

/// Adds numbers up, each with its sign.
fn add_up<'a>(out: &mut [f32], terms: Terms, of: impl Fn(usize) -> &'a [f32]) {
    let sign = |plus: bool| if plus { 1.0f32 } else { -1.0 };
    match *terms {
        [(a, plus)] => {
            let (a, sign) = (of(a), sign(plus));
            simd(
                #[inline(always)]
                || out.iter_mut().zip(a).for_each(|(out, a)| *out = sign * a),
            );
        }
        [(a, true), (b, plus)] => {
            let (a, b, sign) = (of(a), of(b), sign(plus));
            simd(
                #[inline(always)]
                || {
                    let numbers = out.iter_mut().zip(a).zip(b);
                    numbers.for_each(|((out, a), b)| *out = sign.mul_add(*b, *a));
                },
            );
        }
        [(a, true), (b, plus), (c, too)] => {
            let (a, b, c) = (of(a), of(b), of(c));
            let (plus, too) = (sign(plus), sign(too));
            simd(
                #[inline(always)]
                || {
                    let numbers = out.iter_mut().zip(a).zip(b).zip(c);
                    numbers.for_each(|(((out, a), b), c)| {
                        *out = too.mul_add(*c, plus.mul_add(*b, *a));
                    });
                },
            );
        }
        _ => out.fill(0.0),
    }
}

/// Pictures, or gradients of places, that tiles are transformed from.
struct Pixels<'a> {
    numbers: &'a [f32],
    sides: [usize; 2],
    channels: usize,
    /// Zeros around them.
    padding: usize,
}

impl<'a> Pixels<'a> {
    fn of_input(numbers: &'a [f32], shape: &Shape) -> Self {
        Self {
            numbers,
            sides: shape.from,
            channels: shape.channels[0],
            padding: shape.geometry.padding,
        }
    }

    fn of_output(numbers: &'a [f32], shape: &Shape) -> Self {
        Self {
            numbers,
            sides: shape.to,
            channels: shape.channels[1],
            padding: 0,
        }
    }

    /// Where a pixel begins, by its place with the zeros around.
    fn start(&self, picture: usize, row: usize, column: usize) -> Option<usize> {
        let row = row.checked_sub(self.padding)?;
        let column = column.checked_sub(self.padding)?;
        let is_inside = row < self.sides[0] && column < self.sides[1];
        let pixel = (picture * self.sides[0] + row) * self.sides[1] + column;
        is_inside.then_some(pixel * self.channels)
    }
}

/// G g Gᵀ of a kernel, its rows one after another.
fn transform_kernel(g: &[f32; 9]) -> [f32; POINTS] {
    let along = |g: [f32; 3]| {
        let (even, odd) = (g[0] + g[2], g[1]);
        [g[0], (even + odd) / 2.0, (even - odd) / 2.0, g[2]]
    };
    let columns: [[f32; 4]; 3] = array::from_fn(|t| along(array::from_fn(|r| g[r * 3 + t])));
    let rows: [[f32; 4]; 4] = array::from_fn(|r| along(array::from_fn(|t| columns[t][r])));
    array::from_fn(|point| rows[point / 4][point % 4])
}

/// Gᵀ s G of each of 16 matrices [c, o]: [o, c, 3, 3].
fn untransform_kernels(sums: &[f32], [channels, out]: [usize; 2]) -> Vec<f32> {
    let along = |s: [f32; 4]| {
        let (even, odd) = ((s[1] + s[2]) / 2.0, (s[1] - s[2]) / 2.0);
        [s[0] + even, odd, even + s[3]]
    };
    filled(channels * out * 9, |dw| {
        dw.par_chunks_mut(channels * 9)
            .enumerate()
            .for_each(|(o, dw)| {
                for (c, dw) in dw.chunks_mut(9).enumerate() {
                    let at = |point: usize| sums[(point * channels + c) * out + o];
                    let columns: [[f32; 3]; 4] =
                        array::from_fn(|t| along(array::from_fn(|r| at(r * 4 + t))));
                    let rows: [[f32; 3]; 3] =
                        array::from_fn(|r| along(array::from_fn(|t| columns[t][r])));
                    dw.copy_from_slice(rows.as_flattened());
                }
            });
    })
}
