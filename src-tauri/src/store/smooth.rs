//! A value through the middle of noise.

/// The end of a straight line through the latest values, each counting less the longer ago it was. A mean of the same
/// values would lag behind where they fall. The window draws its lines by the same rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Smooth {
    /// Sums of the weights, and of the weights times age once and twice.
    weights: [f64; 3],
    /// Sums of the weighted values, and of those times age.
    values: [f64; 2],
}

/// Holds the line level as long as few values are known.
const LEVEL: f64 = 10.0;

impl Smooth {
    /// Takes the next value. `reach` is after how many values one counts for about a third.
    pub(crate) fn add(&mut self, value: f64, reach: f64) {
        if !value.is_finite() {
            return;
        }
        let past = (-1.0 / reach.max(1.0)).exp();
        let [w0, w1, w2] = self.weights;
        let [v0, v1] = self.values;
        self.weights = [
            past * w0 + 1.0,
            past * (w1 + w0),
            past * (w2 + 2.0 * w1 + w0),
        ];
        self.values = [past * v0 + value, past * (v1 + v0)];
    }

    /// The value now.
    pub(crate) fn value(&self) -> Option<f64> {
        let [w0, w1, w2] = self.weights;
        let [v0, v1] = self.values;
        let w2 = w2 + LEVEL;
        (w0 > 0.0).then(|| (v0 * w2 - v1 * w1) / (w0 * w2 - w1 * w1))
    }
}

/// After how many steps a value counts for about a third, in a run of so many steps.
pub(crate) fn reach(steps: usize) -> f64 {
    (steps as f64 / 100.0).max(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_line_is_followed_without_lag_and_noise_is_not() {
        let mut smooth = Smooth::default();
        assert_eq!(smooth.value(), None);
        for step in 0..200 {
            let noise = if step % 2 == 0 { 0.1 } else { -0.1 };
            smooth.add(3.0 - 0.01 * f64::from(step) + noise, 20.0);
        }
        smooth.add(f64::NAN, 20.0);
        let value = smooth.value().unwrap();
        assert!((value - 1.01).abs() < 0.015, "{value}");
    }

    #[test]
    fn what_stays_the_same_is_what_it_is_from_the_first_value_on() {
        let mut smooth = Smooth::default();
        for _ in 0..50 {
            smooth.add(4.0, 10.0);
            assert!((smooth.value().unwrap() - 4.0).abs() < 1e-9);
        }
    }
}
