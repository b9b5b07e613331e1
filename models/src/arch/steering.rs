//! Hidden states that are changed on the way through a decoder, so that it writes more of something, or less.
//!
//! A change belongs to a cache ([`super::kv_cache::KvCache::steer`]): keys and values after it are those of changed states. The
//! first token of a text is left as it is, since many models use it as an attention sink.

use candle_core::{DType, Device, Tensor};

use super::sites::Site;
use crate::Result;

/// One change of the states at a site.
#[derive(Debug, Clone)]
pub struct Steering {
    site: Site,
    change: Change,
}

#[derive(Debug, Clone)]
enum Change {
    /// A vector [d] is added, in f32.
    Add(Tensor),
    /// What states have along a direction of length 1, [d, 1] and [d] in f32, is taken away.
    Remove(Tensor, Tensor),
}

impl Steering {
    /// Adds a vector [d] to each state at a site.
    pub fn add(site: Site, vector: &[f32], device: &Device) -> Result<Self> {
        let vector = Tensor::new(vector, device)?;
        let change = Change::Add(vector);
        Ok(Self { site, change })
    }

    /// Takes from each state at a site what it has along a direction [d] of length 1.
    pub fn remove(site: Site, unit: &[f32], device: &Device) -> Result<Self> {
        let unit = Tensor::new(unit, device)?;
        let change = Change::Remove(unit.unsqueeze(1)?, unit);
        Ok(Self { site, change })
    }

    /// Where it changes states.
    pub(super) fn site(&self) -> Site {
        self.site
    }

    /// Changes states [b, t, d] that follow so many tokens.
    pub(super) fn change(&self, x: &Tensor, past: usize) -> Result<Tensor> {
        let tokens = x.dim(1)?;
        let first = usize::from(past == 0);
        if first == tokens {
            return Ok(x.clone());
        }
        let rest = x.narrow(1, first, tokens - first)?.to_dtype(DType::F32)?;
        let changed = match &self.change {
            Change::Add(vector) => rest.broadcast_add(vector)?,
            Change::Remove(column, unit) => {
                let along = rest.contiguous()?.broadcast_matmul(column)?;
                (&rest - along.broadcast_mul(unit)?)?
            }
        };
        let changed = changed.to_dtype(x.dtype())?;
        match first {
            0 => Ok(changed),
            first => Ok(Tensor::cat(&[x.narrow(1, 0, first)?, changed], 1)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(numbers: &[[f32; 2]; 2]) -> Tensor {
        Tensor::new(numbers, &Device::Cpu)
            .unwrap()
            .unsqueeze(0)
            .unwrap()
    }

    #[test]
    fn the_first_token_of_a_text_stays_and_the_others_are_moved() {
        let add = Steering::add(Site::Block(0), &[1.0, -2.0], &Device::Cpu).unwrap();
        let remove = Steering::remove(Site::Block(0), &[0.6, 0.8], &Device::Cpu).unwrap();
        let x = [[3.0, 4.0], [5.0, 10.0]];
        let changed = |it: &Steering, past| -> Vec<Vec<f32>> {
            let changed = it.change(&states(&x), past).unwrap();
            changed.squeeze(0).unwrap().to_vec2().unwrap()
        };
        assert_eq!(changed(&add, 0), [[3.0, 4.0], [6.0, 8.0]]);
        assert_eq!(changed(&add, 7), [[4.0, 2.0], [6.0, 8.0]]);
        // The first one lies along the direction, and nothing is left of it.
        for (found, expected) in changed(&remove, 7)
            .concat()
            .iter()
            .zip([0.0, 0.0, -1.6, 1.2])
        {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
        assert_eq!(changed(&remove, 0)[0], [3.0, 4.0]);
    }
}
