//! Dropout: sets a random share of the numbers to zero and scales up the rest.
//!
//! Whether a number stays is a function of its place in the tensor and of a key, which is the pass's seed with the name of the
//! place in the model: with the mixing m of 32 bits by Wellons (<https://nullprogram.com/blog/2018/07/31/>), number i of a tensor
//! stays where m(m(i ⊕ low) + high) ≥ p 2³², low and high being the halves of the key. So every device finds the same mask, each
//! thread its own part of it, and nothing is saved: backward finds it again, and so does a checkpointed segment that runs a
//! second time.

use candle_core::Tensor;

use crate::{
    Result,
    ops::kernels::{self, Kernel},
    profile,
    random::stable_hash,
    tape::{DropoutSeed, Tape, Value},
};

/// Dropout at one place of a model in one pass.
#[derive(Debug, Clone)]
pub struct Dropout {
    probability: f64,
    /// Of the place, and of the pass.
    key: DropoutSeed,
}

/// Which numbers stay, and what they are multiplied with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mask {
    /// The lower half of the key, and the upper.
    pub(crate) key: [u32; 2],
    /// What the bits of a number that stays reach.
    pub(crate) threshold: u32,
    /// 1 / (1 - p).
    pub(crate) kept: f32,
}

impl Mask {
    /// What number `index` is multiplied with.
    #[inline(always)]
    pub(crate) fn factor(self, index: u32) -> f32 {
        let bits = mix(mix(index ^ self.key[0]).wrapping_add(self.key[1]));
        match bits >= self.threshold {
            true => self.kept,
            false => 0.0,
        }
    }
}

/// Wellons' `lowbias32`.
#[inline(always)]
fn mix(mut bits: u32) -> u32 {
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x7feb_352d);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x846c_a68b);
    bits ^ (bits >> 16)
}

impl Dropout {
    /// Dropout with this probability at the place of this name; `None` where nothing would be dropped: a probability of
    /// zero, or a pass that is not training.
    pub fn new(tape: Option<&Tape>, probability: f64, place: &str) -> Option<Self> {
        let tape = tape.filter(|_| probability > 0.0)?;
        Some(Self {
            probability,
            key: tape.dropout_seed().at(stable_hash(0, place.as_bytes())),
        })
    }

    /// x · m / (1 - p) with the mask m. Its own transpose, so backward applies it to the gradient.
    pub(crate) fn apply(&self, x: &Tensor) -> Result<Tensor> {
        if kernels::metal::serves(Kernel::Dropout, &[x]) {
            return kernels::metal::dropout::apply(x, self.mask()?);
        }
        if kernels::cpu::serves(Kernel::Dropout, &[x]) {
            return kernels::cpu::dropout::apply(x, self.mask()?);
        }
        #[cfg(feature = "cuda")]
        if kernels::cuda::serves(Kernel::Dropout, &[x]) {
            return kernels::cuda::dropout::apply(x, self.half_mask(), self.key.placed());
        }
        let mask = self.mask()?;
        let factors = (0..x.elem_count()).map(|index| mask.factor(index as u32));
        let factors = Tensor::from_vec(factors.collect::<Vec<_>>(), x.shape(), x.device())?;
        Ok(x.mul(&factors.to_dtype(x.dtype())?)?)
    }

    /// Adds x · m / (1 - p) to a sum of the same shape and dtype, in place.
    #[cfg(feature = "cuda")]
    pub(crate) fn add_to(&self, sum: &Tensor, x: &Tensor) -> Result<()> {
        kernels::cuda::dropout::add_to(sum, x, self.half_mask(), self.key.placed())
    }

    fn mask(&self) -> Result<Mask> {
        Ok(self.mask_of(self.key.read()?))
    }

    /// Without the part of the key that lies on a device.
    #[cfg(feature = "cuda")]
    fn half_mask(&self) -> Mask {
        self.mask_of(self.key.number())
    }

    fn mask_of(&self, key: u64) -> Mask {
        Mask {
            key: [key as u32, (key >> 32) as u32],
            threshold: (self.probability * 2f64.powi(32)) as u32,
            kept: (1.0 / (1.0 - self.probability)) as f32,
        }
    }
}

/// x as dropout leaves it, where there is any.
pub(crate) fn left_of(x: &Tensor, dropout: Option<&Dropout>) -> Result<Tensor> {
    match dropout {
        Some(dropout) => dropout.apply(x),
        None => Ok(x.clone()),
    }
}

/// Whether two places of one pass have the same mask, or none.
pub(crate) fn are_alike(one: Option<&Dropout>, other: Option<&Dropout>) -> bool {
    let of = |it: &Dropout| (it.probability, it.key.number());
    one.map(of) == other.map(of)
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
