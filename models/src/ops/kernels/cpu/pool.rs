//! The largest number of each window, in f32.

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use crate::{
    Result,
    ops::{
        kernels::cpu::{Numbers, filled, simd, tensor},
        pool::Windows,
    },
};

/// The largest numbers, and the tap of the window where each was: [n, h', w', c], the latter u8.
pub(crate) fn largest(x: &Tensor, shape: &Windows) -> Result<(Tensor, Tensor)> {
    let (of_picture, of_output) = sizes(shape);
    let numbers = Numbers::<f32>::of(x)?;
    let numbers: &[f32] = &numbers;
    let channels = shape.channels;
    let mut chosen = vec![0u8; shape.pictures * of_output];
    let y = filled(chosen.len(), |y| {
        let both = y.par_chunks_mut(of_output);
        let both = both.zip(chosen.par_chunks_mut(of_output)).enumerate();
        both.for_each(|(picture, (y, chosen))| {
            let x = &numbers[picture * of_picture..][..of_picture];
            let lines = y.chunks_mut(channels).zip(chosen.chunks_mut(channels));
            for (place, (y, chosen)) in lines.enumerate() {
                y.fill(f32::NEG_INFINITY);
                for (tap, at) in taps(place, shape) {
                    let x = &x[at * channels..][..channels];
                    simd(
                        #[inline(always)]
                        || {
                            for ((y, chosen), x) in y.iter_mut().zip(chosen.iter_mut()).zip(x) {
                                let larger = *x > *y;
                                *y = if larger { *x } else { *y };
                                *chosen = if larger { tap } else { *chosen };
                            }
                        },
                    );
                }
            }
        });
    });
    let dims = shape.of_output();
    let chosen = Tensor::from_vec(chosen, &dims, &Device::Cpu)?;
    Ok((tensor(y, &dims)?, chosen))
}

/// The gradient of x [n, h, w, c] from g [n, h', w', c].
pub(crate) fn largest_back(gradient: &Tensor, chosen: &Tensor, shape: &Windows) -> Result<Tensor> {
    let (of_picture, of_output) = sizes(shape);
    let (g, chosen) = (Numbers::<f32>::of(gradient)?, Numbers::<u8>::of(chosen)?);
    let (g, chosen): (&[f32], &[u8]) = (&g, &chosen);
    let channels = shape.channels;
    let dx = filled(shape.pictures * of_picture, |dx| {
        dx.par_chunks_mut(of_picture)
            .enumerate()
            .for_each(|(picture, dx)| {
                dx.fill(0.0);
                let part = picture * of_output..(picture + 1) * of_output;
                let lines = g[part.clone()].chunks(channels);
                let lines = lines.zip(chosen[part].chunks(channels));
                for (place, (g, chosen)) in lines.enumerate() {
                    for (tap, at) in taps(place, shape) {
                        let dx = &mut dx[at * channels..][..channels];
                        simd(
                            #[inline(always)]
                            || {
                                for ((dx, g), chosen) in dx.iter_mut().zip(g).zip(chosen) {
                                    *dx += if *chosen == tap { *g } else { 0.0 };
                                }
                            },
                        );
                    }
                }
            });
    });
    tensor(dx, &shape.of_input())
}

/// Numbers of a picture, before and after.
fn sizes(shape: &Windows) -> (usize, usize) {
    let of = |sides: [usize; 2]| sides[0] * sides[1] * shape.channels;
    (of(shape.from), of(shape.to))
}

/// The taps of a window that lie in the picture: the number of each, and its pixel.
fn taps(place: usize, shape: &Windows) -> impl Iterator<Item = (u8, usize)> {
    let Windows {
        from, to, window, ..
    } = *shape;
    let corner = [place / to[1], place % to[1]].map(|at| at * window.stride);
    let inside =
        move |at: usize, side: usize| at.checked_sub(window.padding).filter(|at| *at < from[side]);
    let all = 0..window.kernel * window.kernel;
    all.filter_map(move |tap| {
        let row = inside(corner[0] + tap / window.kernel, 0)?;
        let column = inside(corner[1] + tap % window.kernel, 1)?;
        Some((tap as u8, row * from[1] + column))
    })
}
