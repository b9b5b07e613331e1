//! Windows of pictures, and norms over a batch.

use super::each;
use crate::{
    check::{
        Check,
        Data::{Empty, EmptyWhole, EmptyWide, Numbers, Whole, Wide},
        Field::{self, F, U},
    },
    storage::{normal, wide},
};

/// Pictures [n, h, w, c], and how a window of `side` moves over them.
struct Windows {
    from: [usize; 4],
    side: usize,
    stride: usize,
    padding: usize,
}

impl Windows {
    fn of(check: &Check) -> [Self; 2] {
        let channels = if check.storage.lanes() == 4 { 12 } else { 3 };
        let windows = |side, stride, padding| Self {
            from: [2, 7, 9, channels],
            side,
            stride,
            padding,
        };
        [windows(3, 2, 1), windows(2, 1, 0)]
    }

    /// h' and w'.
    fn to(&self) -> [usize; 2] {
        [1, 2].map(|at| (self.from[at] + 2 * self.padding - self.side) / self.stride + 1)
    }

    fn fields(&self, count: usize) -> [Field; 12] {
        let [_, height, width, channels] = self.from;
        let [down, across] = self.to();
        let sizes = [count, height, width, down, across, channels];
        let moves = [self.side, self.stride, self.padding, 0, 0, 0];
        let mut all = [U(0); 12];
        for (to, from) in all.iter_mut().zip(sizes.into_iter().chain(moves)) {
            *to = U(from);
        }
        all
    }

    fn pixels(&self) -> usize {
        self.from.iter().product()
    }

    fn windows(&self) -> usize {
        let [down, across] = self.to();
        self.from[0] * down * across
    }

    /// The place of the number of a channel that a tap of a window sees, unless it is outside.
    fn seen(&self, window: usize, tap: usize, channel: usize) -> Option<usize> {
        let [_, height, width, channels] = self.from;
        let [down, across] = self.to();
        let row = window / across % down * self.stride + tap / self.side;
        let column = window % across * self.stride + tap % self.side;
        let row = row.checked_sub(self.padding).filter(|it| *it < height)?;
        let column = column.checked_sub(self.padding).filter(|it| *it < width)?;
        Some(
            (window / across / down * height + row) * width * channels
                + column * channels
                + channel,
        )
    }
}

pub(crate) fn patches(check: &mut Check) {
    for windows in Windows::of(check) {
        let (channels, taps) = (windows.from[3], windows.side * windows.side);
        let (n, rows) = (windows.pixels(), windows.windows() * taps * windows.from[3]);
        let x = check.storage.normal(1, n, 1.0);
        let seen =
            |at: usize| windows.seen(at / channels / taps, at / channels % taps, at % channels);
        let data = [Numbers(&x), Empty(rows)];
        if let Some(out) = check.run("patches", &data, &windows.fields(rows), [2, 1]) {
            let want = each(rows, |at| seen(at).map_or(0.0, |place| x[place]));
            check.same("patches", &out[1], &want);
        }
        let g = check.storage.normal(2, rows, 1.0);
        let data = [Numbers(&g), Empty(n)];
        if let Some(out) = check.run("patches_back", &data, &windows.fields(n), [2, 1]) {
            let mut sums = vec![0.0; n];
            (0..rows).for_each(|at| {
                if let Some(place) = seen(at) {
                    sums[place] += g[at];
                }
            });
            check.same("patches_back", &out[1], &sums);
        }
    }
}

pub(crate) fn max_pool(check: &mut Check) {
    for windows in Windows::of(check) {
        let (channels, taps) = (windows.from[3], windows.side * windows.side);
        let (n, count) = (windows.pixels(), windows.windows() * windows.from[3]);
        // Some are equal, and the first of them is chosen.
        let x = check.storage.normal(1, n, 1.0);
        let x: Vec<f64> = x.iter().map(|it| (it * 2.0).round()).collect();
        let largest = |at: usize| {
            let mut most = (f64::MIN, 0, 0);
            for tap in 0..taps {
                if let Some(place) = windows.seen(at / channels, tap, at % channels)
                    && x[place] > most.0
                {
                    most = (x[place], tap, place);
                }
            }
            most
        };
        let data = [Numbers(&x), Empty(count), EmptyWhole(count)];
        if let Some(out) = check.run("max_pool", &data, &windows.fields(count), [2, 1]) {
            check.same("max_pool", &out[1], &each(count, |at| largest(at).0));
            let chosen = out[2].as_chunks::<4>().0.iter();
            let chosen: Vec<f64> = chosen
                .map(|it| f64::from(u32::from_le_bytes(*it)))
                .collect();
            let want = each(count, |at| largest(at).1 as f64);
            check.compare("max_pool: chosen", &chosen, &want, 0.0);
        }
        let g = check.storage.normal(2, count, 1.0);
        let chosen: Vec<u32> = (0..count).map(|at| largest(at).1 as u32).collect();
        let data = [Numbers(&g), Whole(&chosen), Empty(n)];
        if let Some(out) = check.run("max_pool_back", &data, &windows.fields(n), [2, 1]) {
            let mut sums = vec![0.0; n];
            (0..count).for_each(|at| sums[largest(at).2] += g[at]);
            check.same("max_pool_back", &out[2], &sums);
        }
    }
}

const EPSILON: f64 = 1e-5;

/// What follows a norm, with its slope, by the number that a kernel knows it by.
type Function = (usize, fn(f64) -> f64, fn(f64) -> f64);
const FUNCTIONS: [Function; 2] = [
    (3, |x| x.max(0.0), |x| if x > 0.0 { 1.0 } else { 0.0 }),
    (4, |x| x, |_| 1.0),
];

/// A batch that is normalized, in f64.
struct Batch {
    rows: usize,
    width: usize,
    x: Vec<f64>,
    z: Vec<f64>,
    g: Vec<f64>,
    weight: Vec<f64>,
    bias: Vec<f64>,
}

impl Batch {
    fn of(check: &Check) -> Self {
        let (rows, width) = match check.storage.lanes() {
            4 => (301, 72),
            _ => (37, 21),
        };
        let n = rows * width;
        let far = check.storage.normal(1, n, 1.0);
        Self {
            rows,
            width,
            x: check.storage.kept(far.iter().map(|it| it + 3.0).collect()),
            z: check.storage.normal(2, n, 1.0),
            g: check.storage.normal(3, n, 1.0),
            weight: normal(4, width),
            bias: normal(5, width),
        }
    }

    /// The mean of a number of each row, for each channel.
    fn means(&self, of: impl Fn(usize) -> f64) -> Vec<f64> {
        let mean = |column: usize| {
            let places = (0..self.rows).map(|row| row * self.width + column);
            places.map(&of).sum::<f64>() / self.rows as f64
        };
        each(self.width, mean)
    }

    /// Mean, variance, rho, factor and shift.
    fn channels(&self) -> Vec<f64> {
        let column = |i: usize| i % self.width;
        let mean = self.means(|i| self.x[i]);
        let variance = self.means(|i| (self.x[i] - mean[column(i)]).powi(2));
        let rho = each(self.width, |c| 1.0 / (variance[c] + EPSILON).sqrt());
        let factor = each(self.width, |c| self.weight[c] * rho[c]);
        let shift = each(self.width, |c| self.bias[c] - mean[c] * factor[c]);
        [mean, variance, rho, factor, shift].concat()
    }
}

pub(crate) fn batch_norm(check: &mut Check) {
    let batch = Batch::of(check);
    let channels = batch_channels(check, &batch);
    for function in FUNCTIONS {
        for has_residual in [false, true] {
            batch_passes(check, &batch, &channels, function, has_residual);
        }
    }
    let width = batch.width;
    let [mean, variance, now] = [6, 7, 8].map(|seed| normal(seed, 2 * width));
    let (share, unbiased) = (0.1, 1.25);
    let data = [
        Wide(&mean[..width]),
        Wide(&variance[..width]),
        Wide(&now),
        EmptyWide(2 * width),
    ];
    let fields = [U(width), F(share), F(unbiased), U(0)];
    if let Some(out) = check.run("batch_follow", &data, &fields, [1, 1]) {
        let want = each(2 * width, |at| match at < width {
            true => mean[at] * (1.0 - share) + now[at] * share,
            false => variance[at - width] * (1.0 - share) + now[at] * unbiased * share,
        });
        check.same_wide("batch_follow", &out[3], &want);
    }
}

const PARTS: usize = 3;

/// Threads side by side that have the channels of a row, and the groups that all channels need.
fn across(check: &Check, width: usize) -> (usize, usize) {
    let packs = width / check.storage.lanes();
    (16, packs.div_ceil(16))
}

fn batch_channels(check: &mut Check, batch: &Batch) -> Vec<f64> {
    let Batch { rows, width, .. } = *batch;
    let want = batch.channels();
    let (across, groups) = across(check, width);
    let data = [Numbers(&batch.x), EmptyWide(2 * PARTS * width)];
    let fields = [U(rows), U(width), U(PARTS), U(across)];
    let Some(out) = check.run("batch_sums", &data, &fields, [groups, PARTS]) else {
        return want;
    };
    let sums = wide(&out[1]);
    let data = [
        Numbers(&batch.x),
        Wide(&sums),
        Wide(&batch.weight),
        Wide(&batch.bias),
        EmptyWide(5 * width),
    ];
    let fields = [U(rows), U(width), U(PARTS), F(EPSILON)];
    if let Some(out) = check.run("batch_channels", &data, &fields, [1, 1]) {
        check.same_wide("batch_channels", &out[4], &want);
    }
    want
}

/// A batch with what follows its norm, as kernels are given it.
struct Applied<'a> {
    batch: &'a Batch,
    channels: &'a [f64],
    function: Function,
    has_residual: bool,
}

impl Applied<'_> {
    fn named(&self, what: &str) -> String {
        let (number, has_residual) = (self.function.0, self.has_residual);
        format!("{what}, {number}, residual: {has_residual}")
    }

    fn flag(&self) -> Field {
        U(usize::from(self.has_residual))
    }

    /// What is known of channels: mean, variance, rho, factor or shift.
    fn row(&self, of: usize) -> &[f64] {
        &self.channels[of * self.batch.width..][..self.batch.width]
    }

    /// What the function is applied to.
    fn before(&self) -> Vec<f64> {
        let Batch { x, z, width, .. } = self.batch;
        let (factor, shift) = (self.row(3), self.row(4));
        each(x.len(), |i| {
            let residual = if self.has_residual { z[i] } else { 0.0 };
            x[i] * factor[i % width] + shift[i % width] + residual
        })
    }

    /// The gradient of that.
    fn u(&self) -> Vec<f64> {
        let before = self.before();
        each(before.len(), |i| {
            self.batch.g[i] * (self.function.2)(before[i])
        })
    }

    /// The gradients of bias and weight, and slope and offset.
    fn slopes(&self, u: &[f64]) -> [Vec<f64>; 4] {
        let Batch { x, width, rows, .. } = self.batch;
        let (width, count) = (*width, *rows as f64);
        let (mean, rho, factor) = (self.row(0), self.row(2), self.row(3));
        let sum = self.batch.means(|i| u[i] * count);
        let along = self
            .batch
            .means(|i| u[i] * (x[i] - mean[i % width]) * count);
        let dw = each(width, |c| along[c] * rho[c]);
        let lean = each(width, |c| -factor[c] * rho[c] * dw[c] / count);
        let offset = each(width, |c| -factor[c] * sum[c] / count - lean[c] * mean[c]);
        [sum, dw, lean, offset]
    }
}

fn batch_passes(
    check: &mut Check,
    batch: &Batch,
    channels: &[f64],
    function: Function,
    has_residual: bool,
) {
    let applied = Applied {
        batch,
        channels,
        function,
        has_residual,
    };
    let (n, width) = (batch.x.len(), batch.width);
    let data = [
        Numbers(&batch.x),
        Numbers(&batch.z),
        Wide(channels),
        Empty(n),
    ];
    let fields = [U(n), U(width), U(function.0), applied.flag()];
    if let Some(out) = check.run("batch_apply", &data, &fields, [3, 1]) {
        let before = applied.before();
        let y = each(n, |i| (function.1)(before[i]));
        check.same(&applied.named("batch_apply"), &out[3], &y);
    }
    let u = applied.u();
    let slopes = applied.slopes(&u);
    batch_slopes(check, &applied, &slopes.concat());
    batch_back(check, &applied, &u, &slopes);
}

fn batch_slopes(check: &mut Check, applied: &Applied, slopes: &[f64]) {
    let Batch {
        rows,
        width,
        x,
        z,
        g,
        ..
    } = applied.batch;
    let (rows, width) = (*rows, *width);
    let (across, groups) = across(check, width);
    let channels = Wide(applied.channels);
    let sums = EmptyWide(2 * PARTS * width);
    let data = [Numbers(g), Numbers(x), Numbers(z), channels, sums];
    let fields = [
        U(rows),
        U(width),
        U(PARTS),
        U(across),
        U(applied.function.0),
        applied.flag(),
        U(0),
        U(0),
    ];
    let Some(out) = check.run("batch_slope_sums", &data, &fields, [groups, PARTS]) else {
        return;
    };
    let sums = wide(&out[4]);
    let data = [Wide(&sums), Wide(applied.channels), EmptyWide(4 * width)];
    let fields = [U(rows), U(width), U(PARTS), U(1)];
    if let Some(out) = check.run("batch_slopes", &data, &fields, [1, 1]) {
        check.same_wide(&applied.named("batch_slopes"), &out[2], slopes);
    }
}

fn batch_back(check: &mut Check, applied: &Applied, u: &[f64], slopes: &[Vec<f64>; 4]) {
    let Batch { width, x, z, g, .. } = applied.batch;
    let (n, flag, all) = (x.len(), applied.flag(), slopes.concat());
    let data = [
        Numbers(g),
        Numbers(x),
        Numbers(z),
        Wide(applied.channels),
        Wide(&all),
        Empty(n),
        Empty(n),
    ];
    let number = U(applied.function.0);
    let fields = [U(n), U(*width), number, flag, flag, U(0), U(0), U(0)];
    if let Some(out) = check.run("batch_back", &data, &fields, [3, 1]) {
        let [_, _, lean, offset] = slopes;
        let dx = each(n, |i| {
            let column = i % width;
            applied.row(3)[column] * u[i] + x[i] * lean[column] + offset[column]
        });
        check.same(&applied.named("batch_back: dx"), &out[5], &dx);
        let u = if applied.has_residual {
            u.to_vec()
        } else {
            vec![0.0; n]
        };
        check.same(&applied.named("batch_back: u"), &out[6], &u);
    }
}
