//! Any kernel, as a product of patches: what each place is computed from, side by side, for some places at a time.

use rayon::prelude::*;

use crate::ops::{
    convolution::Shape,
    kernels::cpu::{
        filled,
        product::{Matrix, Output, Size, multiply},
        with_scratch,
    },
};

/// Numbers of patches that are there at once on a thread: 1 MiB, so that they stay in its own cache.
const PATCHES: usize = 1 << 18;
/// Sums of pictures that a gradient of a weight is added up from.
const PARTS: usize = 8;

/// y [n, h', w', o] of x [n, h, w, c] and W [o, c, k, k].
pub(super) fn forward(
    y: &mut [f32],
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    shape: &Shape,
) {
    let (depth, out) = (shape.depth(), shape.channels[1]);
    let matrix = by_tap(weight, shape);
    let block = places_at_once(shape);
    y.par_chunks_mut(block * out)
        .enumerate()
        .for_each(|(index, y)| {
            let first = index * block;
            let size = Size {
                rows: y.len() / out,
                columns: out,
                depth,
            };
            let output = match bias {
                Some(bias) => {
                    y.chunks_mut(out).for_each(|y| y.copy_from_slice(bias));
                    Output::Add
                }
                None => Output::Replace,
            };
            let weight = Matrix::rows(&matrix, out);
            if shape.is_linear() {
                let x = Matrix::rows(&x[first * depth..], depth);
                return multiply(y, out, x, weight, size, 1.0, output);
            }
            with_scratch(size.rows * depth, |patches| {
                gather(patches, x, first, shape);
                let patches = Matrix::rows(patches, depth);
                multiply(y, out, patches, weight, size, 1.0, output);
            });
        });
}

/// The gradient of x [n, h, w, c] from g [n, h', w', o], a picture at a time.
pub(super) fn to_picture(dx: &mut [f32], gradient: &[f32], weight: &[f32], shape: &Shape) {
    let (depth, out, places) = (shape.depth(), shape.channels[1], shape.places());
    let matrix = by_tap(weight, shape);
    let block = places_at_once(shape).min(places);
    let picture = shape.from[0] * shape.from[1] * shape.channels[0];
    dx.par_chunks_mut(picture)
        .enumerate()
        .for_each(|(index, dx)| {
            dx.fill(0.0);
            for first in (0..places).step_by(block) {
                let size = Size {
                    rows: block.min(places - first),
                    columns: depth,
                    depth: out,
                };
                let gradient = Matrix::rows(&gradient[(index * places + first) * out..], out);
                let weight = Matrix::rows(&matrix, out).transposed();
                if shape.is_linear() {
                    let dx = &mut dx[first * depth..];
                    multiply(dx, depth, gradient, weight, size, 1.0, Output::Replace);
                    continue;
                }
                with_scratch(size.rows * depth, |patches| {
                    multiply(patches, depth, gradient, weight, size, 1.0, Output::Replace);
                    scatter(dx, patches, first, shape);
                });
            }
        });
}

/// The gradient of W [o, c, k, k] from g [n, h', w', o] and x [n, h, w, c].
pub(super) fn to_weight(gradient: &[f32], x: &[f32], shape: &Shape) -> Vec<f32> {
    let (depth, out, places) = (shape.depth(), shape.channels[1], shape.places());
    let all = shape.pictures * places;
    let of_part = all.div_ceil(PARTS).max(1);
    let block = places_at_once(shape);
    let parts: Vec<Vec<f32>> = (0..all.div_ceil(of_part))
        .into_par_iter()
        .map(|part| {
            let mut sum = vec![0.0; out * depth];
            let end = ((part + 1) * of_part).min(all);
            for first in (part * of_part..end).step_by(block) {
                let rows = block.min(end - first);
                let size = Size {
                    rows: out,
                    columns: depth,
                    depth: rows,
                };
                let gradient = Matrix::rows(&gradient[first * out..], out).transposed();
                if shape.is_linear() {
                    let x = Matrix::rows(&x[first * depth..], depth);
                    multiply(&mut sum, depth, gradient, x, size, 1.0, Output::Add);
                    continue;
                }
                with_scratch(rows * depth, |patches| {
                    gather(patches, x, first, shape);
                    let patches = Matrix::rows(patches, depth);
                    multiply(&mut sum, depth, gradient, patches, size, 1.0, Output::Add);
                });
            }
            sum
        })
        .collect();
    let taps = shape.geometry.kernel * shape.geometry.kernel;
    let channels = shape.channels[0];
    filled(out * depth, |dw| {
        dw.par_chunks_mut(depth).enumerate().for_each(|(o, dw)| {
            for (at, dw) in dw.iter_mut().enumerate() {
                let (c, tap) = (at / taps, at % taps);
                let from = o * depth + tap * channels + c;
                *dw = parts.iter().map(|part| part[from]).sum();
            }
        });
    })
}

/// Places whose patches are there at once: so many that a product is worth its beginning.
fn places_at_once(shape: &Shape) -> usize {
    (PATCHES / shape.depth().max(1)).clamp(64, 1024)
}

/// W [o, c, k, k] -> [k k c, o].
fn by_tap(weight: &[f32], shape: &Shape) -> Vec<f32> {
    let [channels, out] = shape.channels;
    let taps = shape.geometry.kernel * shape.geometry.kernel;
    filled(weight.len(), |matrix| {
        for (row, numbers) in matrix.chunks_mut(out).enumerate() {
            let (tap, c) = (row / channels, row % channels);
            for (o, number) in numbers.iter_mut().enumerate() {
                *number = weight[(o * channels + c) * taps + tap];
            }
        }
    })
}

/// For each tap of a place: where in the picture's rows it lies, unless that is outside.
fn taps(place: usize, shape: &Shape) -> impl Iterator<Item = Option<usize>> {
    let Shape {
        geometry, from, to, ..
    } = *shape;
    let corner = [place / to[1], place % to[1]].map(|at| at * geometry.stride);
    let inside = move |at: usize, side: usize| {
        at.checked_sub(geometry.padding)
            .filter(|at| *at < from[side])
    };
    (0..geometry.kernel).flat_map(move |r| {
        let row = inside(corner[0] + r, 0);
        (0..geometry.kernel).map(move |t| Some(row? * from[1] + inside(corner[1] + t, 1)?))
    })
}

/// The patches [rows, k k c] of the places from `first` on.
fn gather(patches: &mut [f32], x: &[f32], first: usize, shape: &Shape) {
    let channels = shape.channels[0];
    let picture = shape.from[0] * shape.from[1] * channels;
    for (place, patch) in (first..).zip(patches.chunks_mut(shape.depth())) {
        let x = &x[place / shape.places() * picture..][..picture];
        let taps = taps(place % shape.places(), shape);
        for (tap, patch) in taps.zip(patch.chunks_mut(channels)) {
            match tap {
                Some(at) => patch.copy_from_slice(&x[at * channels..][..channels]),
                None => patch.fill(0.0),
            }
        }
    }
}

/// Adds patches [rows, k k c] of the places from `first` on to a picture.
fn scatter(picture: &mut [f32], patches: &[f32], first: usize, shape: &Shape) {
    let channels = shape.channels[0];
    for (place, patch) in (first..).zip(patches.chunks(shape.depth())) {
        for (tap, patch) in taps(place, shape).zip(patch.chunks(channels)) {
            if let Some(at) = tap {
                let pixel = &mut picture[at * channels..][..channels];
                pixel.iter_mut().zip(patch).for_each(|(sum, x)| *sum += x);
            }
        }
    }
}
