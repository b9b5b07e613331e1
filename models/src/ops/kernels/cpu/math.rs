//! Functions of one number that compile to vector instructions, and sums over rows.
//!
//! The functions don't branch, so that a loop over a slice becomes a loop over vectors when it is called within
//! [`simd`](super::simd). Their polynomials are minimax fits of ours. Sums are written in vectors by hand, since a
//! compiler may not reorder additions; a sum is the same on every run, though not on every kind of processor.

use pulp::{Simd, WithSimd};

/// eˣ, to 1.5 units in the last place, also where the result is subnormal, zero or infinite.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding 1.5 · 2²³ rounds to a whole number and leaves it in the low bits.
    const SHIFT: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = std::f32::consts::LN_2;
    const LN_2_LOW: f32 = (std::f64::consts::LN_2 - LN_2_HIGH as f64) as f32;
    let x = x.clamp(-105.0, 89.0);
    let shifted = x.mul_add(std::f32::consts::LOG2_E, SHIFT);
    let whole = shifted - SHIFT;
    let r = whole.mul_add(-LN_2_LOW, whole.mul_add(-LN_2_HIGH, x));
    let p = polynomial(
        r,
        [
            1.381_459_5e-3,
            8.368_717e-3,
            4.166_839e-2,
            1.666_652_1e-1,
            4.999_999_3e-1,
        ],
    );
    let p = (r * r).mul_add(p, r) + 1.0;
    // Two factors, since 2ⁿ alone may be outside of the range in which the product lies.
    let n = (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
    let half = n >> 1;
    p * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Hyperbolic tangent, to a few units in the last place.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let square = x * x;
    let p = polynomial(
        square,
        [
            -5.601_557e-3,
            2.054_961e-2,
            -5.371_346_5e-2,
            1.333_114_5e-1,
            -3.333_327_2e-1,
        ],
    );
    let small = (x * square).mul_add(p, x);
    let large = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    if x.abs() < 0.625 {
        small
    } else {
        large.copysign(x)
    }
}

/// The error function, to a few units in the last place.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let small = x * polynomial(
        x * x,
        [
            7.889_126_5e-5,
            -8.020_843_4e-4,
            5.189_535_6e-3,
            -2.685_444_5e-2,
            1.128_36e-1,
            -3.761_262_7e-1,
            std::f32::consts::FRAC_2_SQRT_PI,
        ],
    );
    // The logarithm of 1 - erf is smooth; from 4 on erf rounds to 1.
    let y = x.abs().clamp(1.0, 4.0);
    let logarithm = polynomial(
        y,
        [
            -1.944_531_9e-5,
            4.138_101e-4,
            -4.063_629e-3,
            2.481_769e-2,
            -1.077_849_4e-1,
            -6.338_225e-1,
            -1.129_266_9,
            1.204_439_8e-4,
        ],
    );
    let large = 1.0 - exp(logarithm);
    if x.abs() < 1.0 {
        small
    } else {
        large.copysign(x)
    }
}

/// Σ x.
pub(crate) fn sum(x: &[f32]) -> f32 {
    pulp::Arch::new().dispatch(Sum(x))
}

/// Σ a b, of equally many numbers.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    pulp::Arch::new().dispatch(Dot { a, b, less: 0.0 })
}

/// The same among others that were compiled for the same instructions: choosing them takes as long as a short sum.
#[inline(always)]
pub(crate) fn dot_in<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    Dot { a, b, less: 0.0 }.with_simd(simd)
}

/// [`dot`] of a row with each of several.
pub(crate) fn dots<'a>(a: &[f32], row: impl Fn(usize) -> &'a [f32], dots: &mut [f32]) {
    struct Dots<'a, F> {
        a: &'a [f32],
        row: F,
        dots: &'a mut [f32],
    }

    impl<'b, F: Fn(usize) -> &'b [f32]> WithSimd for Dots<'_, F> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            for (index, dot) in self.dots.iter_mut().enumerate() {
                *dot = dot_in(simd, self.a, (self.row)(index));
            }
        }
    }
    pulp::Arch::new().dispatch(Dots { a, row, dots });
}

/// Σ a (b - c), of equally many numbers.
pub(crate) fn dot_less(a: &[f32], b: &[f32], c: f32) -> f32 {
    pulp::Arch::new().dispatch(Dot { a, b, less: c })
}

/// The largest of the numbers; -∞ if there are none. NaN counts as smaller than any number.
pub(crate) fn largest(x: &[f32]) -> f32 {
    pulp::Arch::new().dispatch(Largest(x))
}

/// Vectors that are summed side by side, so that an addition need not wait for the one before it.
const SIDE_BY_SIDE: usize = 4;

struct Sum<'a>(&'a [f32]);

impl WithSimd for Sum<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (vectors, rest) = S::as_simd_f32s(self.0);
        let (groups, single) = vectors.as_chunks::<SIDE_BY_SIDE>();
        let mut sums = [simd.splat_f32s(0.0); SIDE_BY_SIDE];
        for group in groups {
            for i in 0..SIDE_BY_SIDE {
                sums[i] = simd.add_f32s(sums[i], group[i]);
            }
        }
        for vector in single {
            sums[0] = simd.add_f32s(sums[0], *vector);
        }
        add_up(simd, sums) + rest.iter().sum::<f32>()
    }
}

struct Dot<'a> {
    a: &'a [f32],
    b: &'a [f32],
    less: f32,
}

impl WithSimd for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let count = self.a.len().min(self.b.len());
        let (a, a_rest) = S::as_simd_f32s(&self.a[..count]);
        let (b, b_rest) = S::as_simd_f32s(&self.b[..count]);
        let ((a_groups, a_single), (b_groups, b_single)) =
            (a.as_chunks::<SIDE_BY_SIDE>(), b.as_chunks::<SIDE_BY_SIDE>());
        let less = simd.splat_f32s(self.less);
        let mut sums = [simd.splat_f32s(0.0); SIDE_BY_SIDE];
        for (a, b) in a_groups.iter().zip(b_groups) {
            for i in 0..SIDE_BY_SIDE {
                sums[i] = simd.mul_add_f32s(a[i], simd.sub_f32s(b[i], less), sums[i]);
            }
        }
        for (a, b) in a_single.iter().zip(b_single) {
            sums[0] = simd.mul_add_f32s(*a, simd.sub_f32s(*b, less), sums[0]);
        }
        let mut total = add_up(simd, sums);
        for (a, b) in a_rest.iter().zip(b_rest) {
            total += a * (b - self.less);
        }
        total
    }
}

#[inline(always)]
fn add_up<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; SIDE_BY_SIDE]) -> f32 {
    simd.reduce_sum_f32s(simd.add_f32s(simd.add_f32s(a, b), simd.add_f32s(c, d)))
}

struct Largest<'a>(&'a [f32]);

impl WithSimd for Largest<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (vectors, rest) = S::as_simd_f32s(self.0);
        let (groups, single) = vectors.as_chunks::<SIDE_BY_SIDE>();
        let mut most = [simd.splat_f32s(f32::NEG_INFINITY); SIDE_BY_SIDE];
        let larger = |a, b| simd.select_f32s(simd.greater_than_f32s(a, b), a, b);
        for group in groups {
            for i in 0..SIDE_BY_SIDE {
                most[i] = larger(group[i], most[i]);
            }
        }
        for vector in single {
            most[0] = larger(*vector, most[0]);
        }
        let [a, b, c, d] = most;
        let most = simd.reduce_max_f32s(larger(larger(a, b), larger(c, d)));
        rest.iter().fold(most, |most, x| most.max(*x))
    }
}

/// Horner's rule, from the highest power down.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut value = coefficients[0];
    for coefficient in &coefficients[1..] {
        value = value.mul_add(x, *coefficient);
    }
    value
}

/// 2ⁿ for n in -126..=127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::kernels::cpu::simd;

    /// Compares `got` with `expected` on every 4,099th of all f32 and around zero, in units in the last place.
    #[track_caller]
    fn check(got: impl Fn(f32) -> f32, expected: impl Fn(f64) -> f64, units: f64) {
        let inputs: Vec<f32> = (0..u32::MAX / 4099)
            .map(|index| f32::from_bits(index * 4099))
            .chain((-4000..4000).map(|index| index as f32 / 256.0))
            .filter(|x| !x.is_nan())
            .collect();
        let mut outputs = inputs.clone();
        simd(
            #[inline(always)]
            || {
                for x in &mut outputs {
                    *x = got(*x);
                }
            },
        );
        for (x, y) in inputs.into_iter().zip(outputs) {
            let exact = expected(f64::from(x));
            let rounded = exact as f32;
            if rounded.is_infinite() || y.is_infinite() {
                assert_eq!(y, rounded, "at {x}");
                continue;
            }
            let unit = f64::from(rounded.abs().next_up() - rounded.abs());
            let error = (f64::from(y) - exact).abs() / unit;
            assert!(
                error <= units,
                "at {x}: {y}, expected {exact}, {error} units"
            );
        }
    }

    #[test]
    fn exponentials_are_right_over_the_whole_range() {
        check(exp, f64::exp, 1.5);
        assert!(exp(f32::NAN).is_nan());
        assert_eq!(exp(-1e30), 0.0);
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn tangents_are_right_over_the_whole_range() {
        check(tanh, f64::tanh, 3.0);
    }

    #[test]
    fn error_function_has_known_values() {
        // Abramowitz and Stegun, table 7.1.
        for (x, expected) in [
            (0.0, 0.0),
            (0.1, 0.112_462_92),
            (0.5, 0.520_499_9),
            (0.99, 0.838_508_1),
            (1.0, 0.842_700_8),
            (1.5, 0.966_105_16),
            (2.0, 0.995_322_3),
            (3.0, 0.999_977_9),
            (10.0, 1.0),
        ] {
            assert!((erf(x) - expected).abs() < 2e-7, "at {x}: {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }

    #[test]
    fn sums_take_every_number_once() {
        for count in [0usize, 1, 15, 16, 33, 100, 1000] {
            let x: Vec<f32> = (1..=count).map(|x| x as f32).collect();
            let expected = (count * (count + 1) / 2) as f32;
            assert_eq!(sum(&x), expected);
            assert_eq!(dot(&x, &vec![1.0; count]), expected);
            assert_eq!(
                dot_less(&vec![1.0; count], &x, 1.0),
                expected - count as f32
            );
            assert_eq!(largest(&x), x.last().copied().unwrap_or(f32::NEG_INFINITY));
        }
    }
}
