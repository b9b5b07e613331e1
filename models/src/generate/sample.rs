//! Choosing the next token from scores.
//!
//! The draw itself is candle-transformers' sampler. Added here: min-p, which it has not, and the repetition penalty over
//! the tokens of one answer (Keskar et al., 2019, <https://arxiv.org/abs/1909.05858>).

use candle_core::Tensor;
use candle_transformers::{
    generation::{LogitsProcessor, Sampling},
    utils::apply_repeat_penalty,
};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How the next token is chosen. Every filter is off by default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingSettings {
    /// Scores are divided by it: 0 always takes the likeliest token, 1 draws as the model says.
    pub temperature: f64,
    /// Draw from so many of the likeliest tokens. 0 is all.
    pub top_k: usize,
    /// Draw from the likeliest tokens that together have this probability. 1 is all.
    pub top_p: f64,
    /// Draw from tokens with at least this share of the likeliest token's probability. 0 is all.
    pub min_p: f64,
    /// Scores of tokens already written are divided by it. 1 is off.
    pub repetition_penalty: f64,
    /// Where the draw starts. The same seed gives the same text.
    pub seed: u64,
}

impl Default for SamplingSettings {
    fn default() -> Self {
        Self {
            temperature: 0.7,
            top_k: 0,
            top_p: 0.95,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 0,
        }
    }
}

impl SamplingSettings {
    /// Always the likeliest token.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_p: 1.0,
            ..Self::default()
        }
    }

    /// Whether every number can mean something. Errors name the field.
    pub fn check(&self) -> Result<()> {
        let problem = |field: &str, problem: String| Err(Error::setting(field, problem));
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return problem(
                "temperature",
                format!("is {}; it must be 0 or more", self.temperature),
            );
        }
        for (field, share) in [("top_p", self.top_p), ("min_p", self.min_p)] {
            if !(0.0..=1.0).contains(&share) {
                return problem(field, format!("is {share}; it must be from 0 to 1"));
            }
        }
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            let penalty = self.repetition_penalty;
            return problem(
                "repetition_penalty",
                format!("is {penalty}; it must be more than 0"),
            );
        }
        Ok(())
    }
}

/// Draws tokens, one after another.
pub struct Sampler {
    processor: LogitsProcessor,
    min_p: f32,
    repetition_penalty: f32,
}

impl Sampler {
    /// A sampler at the beginning of its draw.
    pub fn new(settings: &SamplingSettings) -> Result<Self> {
        settings.check()?;
        let SamplingSettings {
            temperature,
            top_k: k,
            top_p: p,
            ..
        } = *settings;
        let sampling = match (k, p < 1.0) {
            _ if temperature == 0.0 => Sampling::ArgMax,
            (0, false) => Sampling::All { temperature },
            (0, true) => Sampling::TopP { p, temperature },
            (k, false) => Sampling::TopK { k, temperature },
            (k, true) => Sampling::TopKThenTopP { k, p, temperature },
        };
        Ok(Self {
            processor: LogitsProcessor::from_sampling(settings.seed, sampling),
            min_p: settings.min_p as f32,
            repetition_penalty: settings.repetition_penalty as f32,
        })
    }

    /// The next token, from scores [v] and the tokens `written` so far.
    pub fn next(&mut self, logits: &Tensor, written: &[u32]) -> Result<u32> {
        let penalized = match self.repetition_penalty == 1.0 || written.is_empty() {
            true => logits.clone(),
            false => apply_repeat_penalty(logits, self.repetition_penalty, written)?,
        };
        let min_p = self.min_p;
        let keep_likely = |probabilities: &mut [f32]| {
            let largest = probabilities
                .iter()
                .fold(0f32, |largest, p| largest.max(*p));
            for p in probabilities.iter_mut().filter(|p| **p < min_p * largest) {
                *p = 0.0;
            }
        };
        Ok(self.processor.sample_f(&penalized, keep_likely)?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use candle_core::Device;

    use super::*;

    /// Tokens that a thousand draws give, from probabilities 0.5, 0.3, 0.15, 0.05.
    fn drawn(settings: SamplingSettings) -> Vec<u32> {
        let logits: Vec<f32> = [0.5f32, 0.3, 0.15, 0.05].iter().map(|p| p.ln()).collect();
        let logits = Tensor::new(logits, &Device::Cpu).unwrap();
        let mut sampler = Sampler::new(&settings).unwrap();
        let drawn: BTreeSet<u32> = (0..1000)
            .map(|_| sampler.next(&logits, &[]).unwrap())
            .collect();
        drawn.into_iter().collect()
    }

    #[test]
    fn each_filter_leaves_the_tokens_it_should() {
        let all = SamplingSettings {
            temperature: 1.0,
            top_p: 1.0,
            ..Default::default()
        };
        assert_eq!(drawn(all.clone()), [0, 1, 2, 3]);
        assert_eq!(drawn(SamplingSettings::greedy()), [0]);
        assert_eq!(
            drawn(SamplingSettings {
                top_k: 2,
                ..all.clone()
            }),
            [0, 1]
        );
        assert_eq!(
            drawn(SamplingSettings {
                top_p: 0.7,
                ..all.clone()
            }),
            [0, 1]
        );
        assert_eq!(
            drawn(SamplingSettings {
                min_p: 0.25,
                ..all.clone()
            }),
            [0, 1, 2]
        );
        assert_eq!(
            drawn(SamplingSettings {
                top_k: 3,
                top_p: 0.6,
                ..all
            }),
            [0, 1]
        );
    }

    #[test]
    fn a_penalty_turns_away_from_what_was_written() {
        let logits = Tensor::new(&[2.0f32, 1.9], &Device::Cpu).unwrap();
        let settings = SamplingSettings {
            repetition_penalty: 1.3,
            ..SamplingSettings::greedy()
        };
        let mut sampler = Sampler::new(&settings).unwrap();
        assert_eq!(sampler.next(&logits, &[]).unwrap(), 0);
        assert_eq!(sampler.next(&logits, &[0]).unwrap(), 1);
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let logits = Tensor::zeros(64, candle_core::DType::F32, &Device::Cpu).unwrap();
        let draw = |seed| {
            let settings = SamplingSettings {
                seed,
                ..Default::default()
            };
            let mut sampler = Sampler::new(&settings).unwrap();
            (0..20)
                .map(|_| sampler.next(&logits, &[]).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn a_setting_out_of_range_is_named() {
        let settings = SamplingSettings {
            top_p: 1.5,
            ..Default::default()
        };
        let error = Sampler::new(&settings).err().unwrap().to_string();
        assert_eq!(error, "`top_p` is 1.5; it must be from 0 to 1");
    }
}
