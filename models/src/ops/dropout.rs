//! Dropout: sets a random share of the numbers to zero and scales up the rest.
//!
//! The mask is a function of the pass's seed and the name of the place, drawn on the host. It is never saved: backward
//! draws it again, and so does a checkpointed segment that runs a second time.

use candle_core::Tensor;

use crate::{
    Result, profile,
    random::{Random, stable_hash},
    tape::{Tape, Value},
};

/// Dropout at one place of a model in one pass.
#[derive(Debug, Clone)]
pub struct Dropout {
    probability: f64,
    seed: u64,
}

impl Dropout {
    /// Dropout with this probability at the place of this name; `None` where nothing would be dropped: a probability of
    /// zero, or a pass that is not training.
    pub fn new(tape: Option<&Tape>, probability: f64, place: &str) -> Option<Self> {
        let tape = tape.filter(|_| probability > 0.0)?;
        Some(Self {
            probability,
            seed: stable_hash(tape.dropout_seed(), place.as_bytes()),
        })
    }

    /// x · m / (1 - p) with the mask m. Its own transpose, so backward applies it to the gradient.
    pub(crate) fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let mut random = Random::new(self.seed);
        let kept = (1.0 / (1.0 - self.probability)) as f32;
        // One draw of 64 bits serves two elements.
        let threshold = (self.probability * f64::from(u32::MAX)) as u32;
        let choose = |bits: u32| if bits < threshold { 0.0 } else { kept };
        let mut mask = Vec::with_capacity(x.elem_count() + 1);
        while mask.len() < x.elem_count() {
            let bits = random.bits();
            mask.extend([choose(bits as u32), choose((bits >> 32) as u32)]);
        }
        mask.truncate(x.elem_count());
        let mask = Tensor::from_vec(mask, x.shape(), x.device())?.to_dtype(x.dtype())?;
        Ok(x.mul(&mask)?)
    }
}

/// Dropout of an activation of any shape. `None` returns it unchanged.
pub fn dropout(x: &Value, dropout: Option<Dropout>) -> Result<Value> {
    let _profiled = profile::operation("dropout");
    let Some(dropout) = dropout else {
        return Ok(x.clone());
    };
    let y = dropout.apply(x.tensor())?;
    Ok(Value::record(y, &[x], move |gradient| {
        Ok(vec![Some(dropout.apply(&gradient)?)])
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_gradients, normal};

    #[test]
    fn gradients_flow_where_numbers_were_kept() {
        check_gradients(&[normal(1, &[7, 9])], |tape, v| {
            dropout(&v[0], Dropout::new(Some(tape), 0.3, "place"))
        });
    }

    #[test]
    fn the_share_is_the_probability_and_the_mean_is_kept() {
        let tape = Tape::new(1);
        let ones = Value::constant(normal(1, &[100_001]).ones_like().unwrap());
        let y = dropout(&ones, Dropout::new(Some(&tape), 0.25, "place")).unwrap();
        let numbers: Vec<f64> = y.tensor().to_vec1().unwrap();
        let zeros = numbers.iter().filter(|x| **x == 0.0).count() as f64 / 100_001.0;
        assert!((zeros - 0.25).abs() < 0.01, "{zeros}");
        assert!((numbers.iter().sum::<f64>() / 100_001.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn two_places_draw_two_masks_and_one_place_the_same() {
        let tape = Tape::new(1);
        let x = normal(1, &[64]);
        let at = |place| {
            let dropout = Dropout::new(Some(&tape), 0.5, place).unwrap();
            dropout.apply(&x).unwrap().to_vec1::<f64>().unwrap()
        };
        assert_eq!(at("here"), at("here"));
        assert_ne!(at("here"), at("there"));
    }

    #[test]
    fn nothing_is_dropped_outside_training() {
        assert!(Dropout::new(None, 0.5, "place").is_none());
    }
}
