//! Functions of one number that compile to vector instructions, and sums in an order that does.
//!
//! Nothing here branches, so that a loop over a slice becomes a loop over vectors when it is called within
//! [`simd`](super::simd). The polynomials are minimax fits of ours.

/// Partial sums kept side by side. Fixed, so that a sum is the same on every processor.
const LANES: usize = 32;

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
            1.128_379_2,
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

/// Σ f(x).
#[inline(always)]
pub(crate) fn sum(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0f32; LANES];
    for x in chunks {
        for lane in 0..LANES {
            lanes[lane] += f(x[lane]);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += f(*x);
    }
    by_halves(lanes, |a, b| a + b)
}

/// Σ a b.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    fold(a, b, |sum, a, b| a.mul_add(b, sum))
}

/// A sum over pairs; `add` adds a pair's part to what there is.
#[inline(always)]
pub(crate) fn fold<A: Copy, B: Copy>(a: &[A], b: &[B], add: impl Fn(f32, A, B) -> f32) -> f32 {
    let ((a_chunks, a_rest), (b_chunks, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0f32; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] = add(lanes[lane], a[lane], b[lane]);
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane = add(*lane, *a, *b);
    }
    by_halves(lanes, |a, b| a + b)
}

/// The largest of the numbers; -∞ if there are none.
#[inline(always)]
pub(crate) fn largest(x: &[f32]) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for x in chunks {
        for lane in 0..LANES {
            lanes[lane] = if x[lane] > lanes[lane] {
                x[lane]
            } else {
                lanes[lane]
            };
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = if *x > *lane { *x } else { *lane };
    }
    by_halves(lanes, f32::max)
}

/// The lanes combined to one number, by halves.
#[inline(always)]
fn by_halves(mut lanes: [f32; LANES], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = combine(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
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
            || outputs.iter_mut().for_each(|x| *x = got(*x)),
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
            (0.1, 0.112_462_916),
            (0.5, 0.520_499_878),
            (0.99, 0.838_508_070),
            (1.0, 0.842_700_793),
            (1.5, 0.966_105_146),
            (2.0, 0.995_322_265),
            (3.0, 0.999_977_910),
            (10.0, 1.0),
        ] {
            assert!((erf(x) - expected).abs() < 2e-7, "at {x}: {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }

    #[test]
    fn sums_take_every_number_once() {
        for count in [0usize, 1, 31, 32, 33, 100] {
            let x: Vec<f32> = (1..=count).map(|x| x as f32).collect();
            let expected = (count * (count + 1) / 2) as f32;
            assert_eq!(sum(&x, |x| x), expected);
            assert_eq!(dot(&x, &vec![1.0; count]), expected);
            assert_eq!(largest(&x), x.last().copied().unwrap_or(f32::NEG_INFINITY));
        }
    }
}
