//! Who keeps what an optimizer keeps of each weight, where several ranks train one run: each weight has one owner, which changes it
//! for all.
//!
//! This is the first stage of ZeRO (Rajbhandari et al., 2019, <https://arxiv.org/abs/1910.02054>), by whole weights: a rule may need all
//! of a matrix, and what is saved is what one rank would save. Deliberately absent: bringing changed weights to the others.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::parameters::Parameters;

/// The owner of each weight that learns, by rank.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    own: usize,
    /// Nothing where one rank owns all.
    of: BTreeMap<String, usize>,
}

impl Owners {
    /// Divides weights among so many ranks, about as many numbers for each, as rank `own` sees it. A weight is not divided, so one
    /// rank may have more than its part. Every rank finds the same.
    pub fn among(world: usize, own: usize, parameters: &Parameters) -> Self {
        let mut sizes: Vec<_> = parameters
            .trainable()
            .map(|it| (Reverse(it.tensor().elem_count()), it.name()))
            .collect();
        sizes.sort_unstable();
        let mut numbers = vec![0; world.max(1)];
        let mut of = BTreeMap::new();
        for (Reverse(count), name) in sizes {
            let least = numbers.iter_mut().enumerate().min_by_key(|(_, it)| **it);
            if let Some((rank, numbers)) = least {
                *numbers += count;
                of.insert(name.to_owned(), rank);
            }
        }
        Self { own, of }
    }

    /// Whether others own something.
    pub fn are_several(&self) -> bool {
        self.of.values().any(|it| *it != self.own)
    }

    /// The owner of a weight.
    pub fn of(&self, name: &str) -> usize {
        self.of.get(name).copied().unwrap_or(self.own)
    }

    /// Whether a weight is this rank’s own.
    pub(super) fn has(&self, name: &str) -> bool {
        self.of(name) == self.own
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor};

    use super::*;
    use crate::parameters::Parameter;

    #[test]
    fn weights_are_divided_so_that_each_rank_has_about_as_many_numbers() {
        let mut parameters = Parameters::default();
        let sizes = [
            ("a", 3),
            ("b", 9),
            ("c", 4),
            ("d", 2),
            ("e", 2),
            ("frozen", 50),
        ];
        for (name, size) in sizes {
            let zeros = Tensor::zeros(size, DType::F32, &Device::Cpu).unwrap();
            parameters.insert(Parameter::new(name, &zeros, name != "frozen").unwrap());
        }
        let owners = Owners::among(2, 1, &parameters);
        let of: Vec<_> = sizes
            .map(|(name, _)| owners.of(name))
            .into_iter()
            .take(5)
            .collect();
        assert_eq!(of, [1, 0, 1, 1, 0]);
        assert!(owners.are_several() && owners.has("a") && !owners.has("b"));
        let alone = Owners::among(1, 0, &parameters);
        assert!(!alone.are_several() && sizes.iter().all(|(name, _)| alone.has(name)));
        assert!(!Owners::default().are_several() && Owners::default().has("anything"));
    }
}
