//! Scores of the tokens that can come next: the likeliest, and which token lies at a share of the weights of all.
//!
//! A token's weight is e to the power of how far its score is below the highest, by a temperature. It is a whole number, so that sums
//! don't depend on the order in which they are made: threads of a GPU add as they like. Tokens are in order by their scores, equal ones
//! by their numbers. No vocabulary is sorted for that: tokens are counted in buckets, and only in the one or two that matter are they put
//! in order, which are few unless all are nearly alike.
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

/// How the score of a token is changed: first `added`, and then divided, or multiplied where it is below 0. Both are finite, the
/// penalty more than 0.
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
    pub(crate) buckets: Vec<Weighed>,
    /// The tokens of the bucket that was looked at last, with their weights.
    seen: Option<(usize, Vec<(u32, u64)>)>,
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

    /// The highest, the first of equals; nothing where one is not a finite number. On the host, where it is checked before, such
    /// ones are passed over.
    pub(crate) fn likeliest(&self) -> Result<Option<u32>> {
        match self {
            Self::Here(scores) => {
                let better = |best: Option<(u32, f32)>, (token, score): (u32, f32)| match best {
                    Some((_, highest)) if score <= highest => best,
                    _ => Some((token, score)),
                };
                let scores = (0..).zip(scores.iter().copied());
                let scores = scores.filter(|(_, score)| score.is_finite());
                Ok(scores.fold(None, better).map(|(token, _)| token))
            }
            #[cfg(feature = "cuda")]
            Self::OnGpu(scores) => kernels::cuda::scores::likeliest(scores),
        }
    }

    /// Tokens in order; nothing where a score is not a finite number. On the host, where it is checked before, such ones are passed
    /// over.
    pub(crate) fn ranked(&self, temperature: f64) -> Result<Option<Ranked<'_>>> {
        let temperature = temperature.min(f32::MAX.into()) as f32;
        let by = |highest| Scale {
            highest,
            temperature,
        };
        let (highest, buckets) = match self {
            Self::Here(scores) => {
                let finite = scores.iter().copied().filter(|it| it.is_finite());
                let highest = finite.fold(f32::NEG_INFINITY, f32::max);
                let scale = by(highest);
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
        Ok(highest.is_finite().then_some(Ranked {
            scores: self,
            scale: by(highest),
            buckets,
            seen: None,
        }))
    }
}

impl Change {
    fn of(&self, score: f32) -> f32 {
        let score = score + self.added;
        let changed = match score < 0.0 {
            true => score * self.penalty,
            false => score / self.penalty,
        };
        // One that is forbidden stays so, and no other becomes it.
        match score.is_finite() {
            true => changed.clamp(f32::MIN, f32::MAX),
            false => score,
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
        match score.is_finite() {
            true => (self.below(score) * BUCKETS_PER_POWER) as usize,
            false => usize::MAX,
        }
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

    /// What lies before the first place where something `is_past`, by what lies before it and the weight of the token there, and the
    /// token right before it. What is past stays so for all places after it and for smaller weights. Without such a place, all lie
    /// before it.
    pub(crate) fn until(
        &mut self,
        is_past: impl Fn(Weighed, u64) -> bool,
    ) -> Result<(Weighed, Option<u32>)> {
        let (mut before, mut last) = (Weighed::default(), None);
        for at in 0..self.buckets.len() {
            let bucket = self.buckets[at];
            if bucket.tokens == 0 {
                continue;
            }
            let after = before.and(bucket);
            // Weights are larger than where the bucket ends.
            let end = (-((at + 1) as f64) / BUCKETS_PER_POWER).exp();
            if is_past(after, (end * LARGEST_WEIGHT as f64) as u64) {
                for (token, weight) in self.tokens(at)? {
                    if is_past(before, *weight) {
                        return Ok((before, last));
                    }
                    last = Some(*token);
                    before = before.and(Weighed {
                        tokens: 1,
                        sum: *weight,
                    });
                }
                // By the sum of the bucket, from which that of its tokens may differ by what exponentials are rounded.
                return Ok((after, last));
            }
            before = after;
        }
        Ok((before, last))
    }

    /// The tokens of a bucket with their weights, in order.
    fn tokens(&mut self, at: usize) -> Result<&[(u32, u64)]> {
        if self.seen.as_ref().is_none_or(|it| it.0 != at) {
            let scale = self.scale;
            let mut tokens: Vec<(u32, f32)> = match self.scores {
                Scores::Here(scores) => {
                    let tokens = (0..).zip(scores.iter().copied());
                    tokens.filter(|it| scale.bucket(it.1) == at).collect()
                }
                #[cfg(feature = "cuda")]
                Scores::OnGpu(scores) => {
                    let count = self.buckets[at].tokens as usize;
                    kernels::cuda::scores::bucket(scores, scale, at, count)?
                }
            };
            // The two zeros are equal.
            let order = |it: &(u32, f32)| it.1 + 0.0;
            tokens.sort_unstable_by(|a, b| order(b).total_cmp(&order(a)).then(a.0.cmp(&b.0)));
            let weighed = tokens.into_iter().map(|it| (it.0, scale.weight(it.1)));
            self.seen = Some((at, weighed.collect()));
        }
        Ok(self.seen.as_ref().map_or(&[], |it| &it.1))
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
