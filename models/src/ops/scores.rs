//! Scores of the tokens that can come next: the likeliest, and which token lies at a share of the weights of all.
//!
//! A token's weight is e to the power of how far its score is below the highest, by a temperature. It is a whole number, so that sums
//! don't depend on the order in which they are made: threads of a GPU add as they like. Tokens are in order by their scores, equal ones
//! by their numbers. No vocabulary is sorted for that: tokens are counted in buckets, and of these the one or two are looked at that
//! matter.
//!
//! On a GPU scores stay there. Deliberately absent: which tokens a filter leaves (`generate::sample`).

use candle_core::{DType, Tensor};

#[cfg(feature = "cuda")]
use super::kernels::{self, Kernel};
use crate::Result;

/// The weight of the likeliest token. Sums of two million of them fit.
pub(crate) const LARGEST_WEIGHT: u64 = 1 << 42;

/// Buckets for each power of e, and how many there are. What is beyond the last weighs nothing.
pub(crate) const BUCKETS_PER_POWER: f64 = 64.0;
pub(crate) const BUCKETS: usize = 2048;

/// The highest of scores [v], the first of equals; nothing where one is not a finite number.
pub(crate) fn likeliest(scores: &Tensor) -> Result<Option<u32>> {
    let scores = scores.to_dtype(DType::F32)?.contiguous()?;
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::NextToken, &[&scores]) {
        return kernels::cuda::scores::likeliest(&scores);
    }
    // One that is not finite makes the sum so.
    let sum = scores.sum_all()?.to_scalar::<f32>()?;
    match sum.is_finite() {
        true => Ok(Some(scores.argmax(0)?.to_scalar::<u32>()?)),
        false => Ok(None),
    }
}

/// Scores [v], where they are looked at.
#[derive(Debug)]
pub(crate) enum Scores {
    Here(Vec<f32>),
    #[cfg(feature = "cuda")]
    OnGpu(Tensor),
}

/// How the score of a token is changed: first `added`, and then divided, or multiplied where it is below 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    pub(crate) token: u32,
    pub(crate) added: f32,
    pub(crate) penalty: f32,
}

/// What a bucket holds, or what lies before a place: tokens, and the sum of their weights.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Weighed {
    pub(crate) tokens: u64,
    pub(crate) sum: u64,
}

/// Tokens in order, by a temperature.
pub(crate) struct Ranked<'a> {
    scores: &'a Scores,
    scale: Scale,
    buckets: Vec<Weighed>,
}

/// By what scores become weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) highest: f32,
    pub(crate) temperature: f32,
}

impl Scores {
    /// These scores, on the GPU where its kernels serve.
    pub(crate) fn new(scores: &Tensor) -> Result<Self> {
        #[cfg(feature = "cuda")]
        {
            let scores = scores.to_dtype(DType::F32)?.contiguous()?;
            if kernels::cuda::serves(Kernel::NextToken, &[&scores]) {
                return Ok(Self::OnGpu(scores));
            }
        }
        Self::on_host(scores)
    }

    /// These scores on the host, wherever they are.
    pub(crate) fn on_host(scores: &Tensor) -> Result<Self> {
        Ok(Self::Here(scores.to_dtype(DType::F32)?.to_vec1()?))
    }

    /// The scores, if they are on the host.
    pub(crate) fn here(&mut self) -> Option<&mut [f32]> {
        match self {
            Self::Here(scores) => Some(scores),
            #[cfg(feature = "cuda")]
            Self::OnGpu(_) => None,
        }
    }

    /// Changes the scores of some tokens, each named once. Ones that the model doesn't know change nothing.
    pub(crate) fn change(&mut self, changes: &[Change]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        match self {
            Self::Here(scores) => {
                for change in changes {
                    if let Some(score) = scores.get_mut(change.token as usize) {
                        *score = change.of(*score);
                    }
                }
            }
            #[cfg(feature = "cuda")]
            Self::OnGpu(scores) => *scores = kernels::cuda::scores::changed(scores, changes)?,
        }
        Ok(())
    }

    /// The highest, the first of equals; nothing where one is not a finite number.
    pub(crate) fn likeliest(&self) -> Result<Option<u32>> {
        match self {
            Self::Here(scores) => {
                let better = |best: Option<(u32, f32)>, (token, score): (u32, f32)| match best {
                    Some((_, highest)) if score <= highest => best,
                    _ => Some((token, score)),
                };
                let scores = (0..).zip(scores.iter().copied());
                Ok(scores.fold(None, better).map(|(token, _)| token))
            }
            #[cfg(feature = "cuda")]
            Self::OnGpu(scores) => kernels::cuda::scores::likeliest(scores),
        }
    }

    /// Tokens in order; nothing where a score is not a finite number. On the host, one that is below all numbers weighs nothing.
    pub(crate) fn ranked(&self, temperature: f64) -> Result<Option<Ranked<'_>>> {
        let temperature = temperature as f32;
        let (highest, buckets) = match self {
            Self::Here(scores) => {
                let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let scale = Scale {
                    highest,
                    temperature,
                };
                let mut buckets = vec![Weighed::default(); BUCKETS];
                for score in scores {
                    if let Some(bucket) = buckets.get_mut(scale.bucket(*score)) {
                        bucket.tokens += 1;
                        bucket.sum += scale.weight(*score);
                    }
                }
                (highest, buckets)
            }
            #[cfg(feature = "cuda")]
            Self::OnGpu(scores) => match kernels::cuda::scores::buckets(scores, temperature)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let scale = Scale {
            highest,
            temperature,
        };
        Ok(highest.is_finite().then_some(Ranked {
            scores: self,
            scale,
            buckets,
        }))
    }
}

impl Change {
    fn of(&self, score: f32) -> f32 {
        let score = score + self.added;
        match score < 0.0 {
            true => score * self.penalty,
            false => score / self.penalty,
        }
    }
}

impl Scale {
    /// How many powers of e a score is below the highest.
    fn below(self, score: f32) -> f64 {
        let colder = 1.0 / f64::from(self.temperature);
        (f64::from(self.highest) - f64::from(score)) * colder
    }

    fn bucket(self, score: f32) -> usize {
        (self.below(score) * BUCKETS_PER_POWER) as usize
    }

    fn weight(self, score: f32) -> u64 {
        ((-self.below(score)).exp() * LARGEST_WEIGHT as f64) as u64
    }
}

impl Ranked<'_> {
    /// Those of all tokens that weigh something.
    pub(crate) fn all(&self) -> Weighed {
        let none = Weighed::default();
        self.buckets.iter().fold(none, |sum, it| sum.and(*it))
    }

    /// The first token that `is_past` something, by what lies before it and its weight, and what lies before. `is_past` holds for all
    /// after one for which it does, and for any weight that is smaller. Without one, the last token that was looked at.
    pub(crate) fn first(
        &self,
        is_past: impl Fn(Weighed, u64) -> bool,
    ) -> Result<(Weighed, Option<u32>)> {
        let (mut before, mut last) = (Weighed::default(), None);
        for (at, bucket) in self.buckets.iter().enumerate() {
            let after = before.and(*bucket);
            // Weights are larger than where the bucket ends.
            let end = (-((at + 1) as f64) / BUCKETS_PER_POWER).exp();
            if bucket.tokens > 0 && is_past(after, (end * LARGEST_WEIGHT as f64) as u64) {
                for (token, weight) in self.tokens(at, *bucket)? {
                    last = Some(token);
                    if is_past(before, weight) {
                        return Ok((before, last));
                    }
                    let one = Weighed {
                        tokens: 1,
                        sum: weight,
                    };
                    before = before.and(one);
                }
            }
            before = after;
        }
        Ok((before, last))
    }

    /// The tokens of a bucket with their weights, in order.
    fn tokens(&self, at: usize, held: Weighed) -> Result<Vec<(u32, u64)>> {
        let mut tokens: Vec<(u32, f32)> = match self.scores {
            Scores::Here(scores) => {
                let tokens = (0..).zip(scores.iter().copied());
                tokens.filter(|it| self.scale.bucket(it.1) == at).collect()
            }
            #[cfg(feature = "cuda")]
            Scores::OnGpu(scores) => {
                kernels::cuda::scores::bucket(scores, self.scale, at, held.tokens as usize)?
            }
        };
        let _ = held;
        tokens.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let weighed = tokens.into_iter();
        Ok(weighed.map(|it| (it.0, self.scale.weight(it.1))).collect())
    }
}

impl Weighed {
    fn and(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            sum: self.sum + other.sum,
        }
    }
}
