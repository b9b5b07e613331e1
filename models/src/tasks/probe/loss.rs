//! The losses of linear classifiers along a line: value, slope and curvature at one step, and what is left over of each row.
//!
//! Scores along the line are z + a·p, of which both products are known, so that a step costs no further product. z is f64, so that
//! values of one line and the next can be compared to the last digit. Loops are written
//! over eight rows at once, since a compiler may not reorder sums; the order depends on nothing but the number of rows.

use rayon::prelude::*;

use crate::ops::kernels::cpu::simd;

/// Rows that are computed side by side.
const LANES: usize = 8;
/// Rows whose terms 1 + e⁻ˣ are multiplied before one logarithm is taken: the product is at most 2⁵¹², and fits.
const PER_LOGARITHM: usize = 512;
/// Rows of a softmax that one thread adds up.
const SOFTMAX_ROWS: usize = 512;

/// A sum over rows as a function of the step, at one step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Point {
    pub(super) value: f64,
    pub(super) slope: f64,
    pub(super) curvature: f64,
}

/// eˣ for x ≤ 0, to a unit in the last place. It doesn't branch, so that a loop over it becomes one over vectors.
#[inline(always)]
fn exp(x: f64) -> f64 {
    // Adding 1.5 · 2⁵² rounds to a whole number and leaves it in the low bits.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let x = x.max(-700.0);
    let shifted = x.mul_add(std::f64::consts::LOG2_E, SHIFT);
    let whole = shifted - SHIFT;
    let r = whole.mul_add(-LN_2_LOW, whole.mul_add(-LN_2_HIGH, x));
    // 1/k! from k = 13 down: on |r| ≤ 0.35 the rest is below 2⁻⁵³.
    const FACTORIALS: [f64; 12] = [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
    ];
    let mut p = 1.0 / 6_227_020_800.0;
    for factor in FACTORIALS {
        p = r.mul_add(p, factor);
    }
    let p = r.mul_add(p, 1.0);
    let n = (shifted.to_bits() as i64).wrapping_sub(SHIFT.to_bits() as i64);
    p * f64::from_bits(((n + 1023) as u64) << 52)
}

/// Σ cᵢ log(1 + e^(-yᵢ tᵢ)) with tᵢ = zᵢ + step·pᵢ, and cᵢ (σ(tᵢ) - yᵢ) as residuals. `signs` are yᵢ as 1 and -1; the
/// weights are those of a negative and of a positive row. All of one length.
pub(super) fn logistic(
    (z, p): (&[f64], &[f32]),
    signs: &[f32],
    weights: [f64; 2],
    step: f64,
    residuals: &mut [f32],
) -> Point {
    let mut sum = Point::default();
    for start in (0..z.len()).step_by(PER_LOGARITHM) {
        let end = (start + PER_LOGARITHM).min(z.len());
        let part = (&z[start..end], &p[start..end], &signs[start..end]);
        let point = simd(
            #[inline(always)]
            || logistic_part(part, weights, step, &mut residuals[start..end]),
        );
        sum.value += point.value;
        sum.slope += point.slope;
        sum.curvature += point.curvature;
    }
    sum
}

#[inline(always)]
fn logistic_part(
    (z, p, signs): (&[f64], &[f32], &[f32]),
    weights: [f64; 2],
    step: f64,
    residuals: &mut [f32],
) -> Point {
    let (mut far, mut slope, mut curvature) = ([[0.0; LANES]; 2], [0.0; LANES], [0.0; LANES]);
    let mut near = [[1.0; LANES]; 2];
    let whole = z.len() - z.len() % LANES;
    for start in (0..z.len()).step_by(LANES) {
        // Rows after the last are far on the right side, and weigh nothing.
        let (mut zs, mut ps, mut ys) = ([700.0; LANES], [0.0; LANES], [1.0; LANES]);
        let count = if start < whole {
            LANES
        } else {
            z.len() - start
        };
        for lane in 0..count {
            zs[lane] = z[start + lane];
            ps[lane] = f64::from(p[start + lane]);
            ys[lane] = f64::from(signs[start + lane]);
        }
        let mut left = [0.0f32; LANES];
        for lane in 0..LANES {
            let t = step.mul_add(ps[lane], zs[lane]);
            let margin = ys[lane] * t;
            let e = exp(-margin.abs());
            let one = 1.0 / (1.0 + e);
            // σ(-margin), without a difference of near numbers.
            let wrong = if margin > 0.0 { e * one } else { one };
            let positive = ys[lane] > 0.0;
            let weight = if positive { weights[1] } else { weights[0] };
            let residual = -weight * ys[lane] * wrong;
            let miss = (-margin).max(0.0);
            far[0][lane] += if positive { 0.0 } else { miss };
            far[1][lane] += if positive { miss } else { 0.0 };
            near[0][lane] *= if positive { 1.0 } else { 1.0 + e };
            near[1][lane] *= if positive { 1.0 + e } else { 1.0 };
            slope[lane] += residual * ps[lane];
            curvature[lane] += weight * e * one * one * ps[lane] * ps[lane];
            left[lane] = residual as f32;
        }
        residuals[start..start + count].copy_from_slice(&left[..count]);
    }
    let value = |class: usize| {
        let near: f64 = near[class].iter().map(|it| f64::ln(*it)).sum();
        weights[class] * (near + far[class].iter().sum::<f64>())
    };
    Point {
        value: value(0) + value(1),
        slope: slope.iter().sum(),
        curvature: curvature.iter().sum(),
    }
}

/// Σ cᵢ (log Σₖ e^tₖᵢ - t_yᵢ) over n rows and K classes, with t = z + step·p of [K, n], and cᵢ (softmax - 1_y) as residuals
/// [K, n]. `weights` has one number a class.
pub(super) fn softmax(
    (z, p): (&[f64], &[f32]),
    classes: &[u32],
    weights: &[f64],
    step: f64,
    residuals: &mut [f32],
) -> Point {
    let (n, k) = (classes.len(), weights.len());
    let parts = n.div_ceil(SOFTMAX_ROWS);
    let part = |part: usize| {
        let rows = part * SOFTMAX_ROWS..((part + 1) * SOFTMAX_ROWS).min(n);
        let mut left = vec![0.0f32; rows.len() * k];
        let mut sum = Point::default();
        let (mut t, mut along) = (vec![0.0; k], vec![0.0; k]);
        for row in rows.clone() {
            for class in 0..k {
                along[class] = f64::from(p[class * n + row]);
                t[class] = z[class * n + row] + step * along[class];
            }
            let (class, left) = (
                classes[row] as usize,
                &mut left[(row - rows.start) * k..][..k],
            );
            add_row(&mut sum, (&mut t, &along), class, weights[class], left);
        }
        (sum, left)
    };
    let done: Vec<(Point, Vec<f32>)> = (0..parts).into_par_iter().map(part).collect();
    let mut sum = Point::default();
    for (part, (point, left)) in done.iter().enumerate() {
        sum.value += point.value;
        sum.slope += point.slope;
        sum.curvature += point.curvature;
        for (row, left) in left.chunks(k).enumerate() {
            for (class, &left) in left.iter().enumerate() {
                residuals[class * n + part * SOFTMAX_ROWS + row] = left;
            }
        }
    }
    sum
}

/// One row of a softmax. `t` are its scores, and become probabilities.
fn add_row(
    sum: &mut Point,
    (t, along): (&mut [f64], &[f64]),
    class: usize,
    weight: f64,
    left: &mut [f32],
) {
    let largest = t.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    let own = t[class];
    let mut total = 0.0;
    for t in t.iter_mut() {
        *t = (*t - largest).exp();
        total += *t;
    }
    sum.value += weight * (total.ln() + largest - own);
    let (mut mean, mut square) = (0.0, 0.0);
    for (other, t) in t.iter_mut().enumerate() {
        *t /= total;
        mean += *t * along[other];
        square += *t * along[other] * along[other];
        let is = if other == class { 1.0 } else { 0.0 };
        left[other] = (weight * (*t - is)) as f32;
    }
    sum.slope += weight * (mean - along[class]);
    sum.curvature += weight * (square - mean * mean);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_those_of_the_library() {
        for step in 0..70_000 {
            let x = -f64::from(step) * 0.01;
            let (found, expected) = (exp(x), x.exp());
            assert!(
                (found / expected - 1.0).abs() < 4e-16,
                "{x}: {found} {expected}"
            );
        }
    }

    #[test]
    fn a_line_has_the_value_the_slope_and_the_curvature_of_its_formula() {
        let n = 1_003;
        let z: Vec<f64> = (0..n)
            .map(|it| ((it * 37) % 101) as f64 / 5.0 - 10.0)
            .collect();
        let p: Vec<f32> = (0..n)
            .map(|it| ((it * 53) % 97) as f32 / 40.0 - 1.0)
            .collect();
        let signs: Vec<f32> = (0..n)
            .map(|it| if it % 7 == 0 { 1.0 } else { -1.0 })
            .collect();
        let mut left = vec![0.0; n];
        let point = logistic((&z, &p), &signs, [0.5, 3.0], 0.7, &mut left);
        let mut expected = Point::default();
        for row in 0..n {
            let (along, y) = (f64::from(p[row]), f64::from(signs[row]));
            let t = z[row] + 0.7 * along;
            let weight = if y > 0.0 { 3.0 } else { 0.5 };
            let wrong = 1.0 / (1.0 + (y * t).exp());
            expected.value += weight * (-y * t).exp().ln_1p();
            expected.slope -= weight * y * wrong * along;
            expected.curvature += weight * wrong * (1.0 - wrong) * along * along;
            assert!((f64::from(left[row]) + weight * y * wrong).abs() < 1e-6);
        }
        for (found, expected) in [
            (point.value, expected.value),
            (point.slope, expected.slope),
            (point.curvature, expected.curvature),
        ] {
            assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
        }
    }

    #[test]
    fn two_classes_of_a_softmax_are_a_logistic_of_their_difference() {
        let z = [0.3, -0.2, 1.0, 0.0, 0.0, 0.0];
        let p = [1.0f32, 0.5, -0.5, 0.0, 0.0, 0.0];
        let (mut left, mut one) = ([0.0; 6], [0.0; 3]);
        let both = softmax((&z, &p), &[0, 1, 0], &[1.0; 2], 0.4, &mut left);
        let signs = [1.0, -1.0, 1.0];
        let single = logistic((&z[..3], &p[..3]), &signs, [1.0; 2], 0.4, &mut one);
        assert!((both.value - single.value).abs() < 1e-12);
        assert!((both.slope - single.slope).abs() < 1e-12);
        assert!((both.curvature - single.curvature).abs() < 1e-12);
        assert!(left[..3].iter().zip(one).all(|(a, b)| (a - b).abs() < 1e-7));
    }
}
