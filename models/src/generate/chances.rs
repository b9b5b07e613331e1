//! How probable a token was, as the model says, before temperature and filters.

use candle_core::{DType, Tensor};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, data::tokenizer::Tokenizer};

/// A token with its probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chance {
    /// The token's id.
    pub token: u32,
    /// Its bytes, which may be only a part of a letter.
    pub bytes: Vec<u8>,
    /// The natural logarithm of its probability.
    pub logprob: f64,
}

/// A token that was written, and what else was probable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chances {
    /// What was written.
    pub written: Chance,
    /// The most probable tokens, the most probable first.
    pub likeliest: Vec<Chance>,
}

impl Chances {
    /// Those of a token and of the `most` most probable ones, from scores [v].
    pub(super) fn of(
        logits: &Tensor,
        token: u32,
        most: usize,
        tokenizer: &Tokenizer,
    ) -> Result<Self> {
        let scores = logits.to_dtype(DType::F32)?.to_vec1::<f32>()?;
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = scores.iter().map(|it| f64::from(it - largest).exp()).sum();
        let total = f64::from(largest) + sum.ln();
        let chance = |token: u32| {
            let score = scores.get(token as usize).copied();
            let score =
                score.ok_or_else(|| Error::Data(format!("the model has no token {token}")))?;
            Ok(Chance {
                token,
                bytes: tokenizer.token_bytes(token),
                logprob: f64::from(score) - total,
            })
        };
        let mut order: Vec<u32> = (0..scores.len() as u32).collect();
        // Equal scores stand in the order of the tokens.
        let likelier = |a: &u32, b: &u32| {
            let (x, y) = (scores[*a as usize], scores[*b as usize]);
            y.total_cmp(&x).then(a.cmp(b))
        };
        let most = most.min(order.len());
        if most < order.len() {
            order.select_nth_unstable_by(most, likelier);
            order.truncate(most);
        }
        order.sort_unstable_by(likelier);
        Ok(Self {
            written: chance(token)?,
            likeliest: order.into_iter().map(chance).collect::<Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn chances_are_those_of_the_softmax_and_the_likeliest_come_first() {
        let tokenizer = Tokenizer::train(["abc"].into_iter(), 259).unwrap();
        let shares = [0.1f32, 0.5, 0.15, 0.25];
        let logits: Vec<f32> = shares.iter().map(|share| share.ln() + 3.0).collect();
        let logits = Tensor::new(logits, &Device::Cpu).unwrap();
        let chances = Chances::of(&logits, 2, 2, &tokenizer).unwrap();
        assert_eq!(chances.written.token, 2);
        assert!((chances.written.logprob.exp() - 0.15).abs() < 1e-6);
        let likeliest: Vec<u32> = chances.likeliest.iter().map(|it| it.token).collect();
        assert_eq!(likeliest, [1, 3]);
        assert!((chances.likeliest[0].logprob.exp() - 0.5).abs() < 1e-6);
        let none = Chances::of(&logits, 2, 0, &tokenizer).unwrap();
        assert_eq!(none.likeliest, []);
        let all = Chances::of(&logits, 2, 20, &tokenizer).unwrap();
        assert_eq!(all.likeliest.len(), 4);
    }
}
