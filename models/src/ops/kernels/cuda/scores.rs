//! Scores of the tokens that can come next, where the GPU has them: `ops::scores`.
//!
//! Letters: v tokens.

use candle_core::{DType, Tensor};

use super::{
    Launch,
    code::{Code, compiled},
    output,
};
use crate::{
    Result,
    ops::scores::{BUCKETS, Change, Scale, Weighed},
};

const SCORES: Code = compiled!("scores");

/// Blocks that look for the likeliest token, as in `scores.cu`, and threads of each.
const BLOCKS: usize = 32;
const BLOCK_THREADS: usize = 512;

/// The highest of scores [v] in f32, the first of equals; nothing where one is not finite.
pub(crate) fn likeliest(scores: &Tensor) -> Result<Option<u32>> {
    let best = output((BLOCKS, 2), DType::U32, scores)?;
    find_best(scores, &best)?;
    let best = highest(&numbers(&best)?);
    Ok(best.map(|it| it.0))
}

/// The highest score, and the tokens that are so far below it; nothing where one is not finite.
pub(crate) fn buckets(scores: &Tensor, temperature: f32) -> Result<Option<(f32, Vec<Weighed>)>> {
    let found = Tensor::zeros((BLOCKS + 2 * BUCKETS, 2), DType::U32, scores.device())?;
    find_best(scores, &found)?;
    over(scores, "scores_buckets")?
        .tensors(&[scores, &found])?
        .whole(&[scores.dims1()?])
        .numbers(&[f64::from(temperature)])
        .launch(BLOCKS, BLOCK_THREADS)?;
    let found = numbers(&found)?;
    let (ranks, buckets) = found.split_at(BLOCKS);
    let weighed = |it: &[u64]| Weighed {
        tokens: it[0],
        sum: it[1],
    };
    let buckets = buckets.chunks_exact(2).map(weighed);
    Ok(highest(ranks).map(|(_, score)| (score, buckets.collect())))
}

/// The tokens of a bucket, which holds so many, with their scores, in any order.
pub(crate) fn bucket(
    scores: &Tensor,
    scale: Scale,
    at: usize,
    tokens: usize,
) -> Result<Vec<(u32, f32)>> {
    let found = Tensor::zeros((1 + tokens, 2), DType::U32, scores.device())?;
    over(scores, "scores_of_bucket")?
        .tensors(&[scores, &found])?
        .whole(&[scores.dims1()?, at, tokens])
        .numbers(&[scale.highest.into(), scale.temperature.into()])
        .launch(BLOCKS, BLOCK_THREADS)?;
    let found = found.flatten_all()?.to_vec1::<u32>()?;
    let tokens = found.chunks_exact(2).skip(1);
    Ok(tokens.map(|it| (it[0], f32::from_bits(it[1]))).collect())
}

/// Scores [v] of which those of some tokens, each named once, are changed.
pub(crate) fn changed(scores: &Tensor, changes: &[Change]) -> Result<Tensor> {
    let numbers = changes.iter();
    let numbers = numbers.flat_map(|it| [it.token, it.added.to_bits(), it.penalty.to_bits()]);
    let numbers = Tensor::from_iter(numbers, scores.device())?;
    let y = scores.force_contiguous()?;
    over(&y, "scores_changed")?
        .tensors(&[&y, &numbers])?
        .whole(&[changes.len(), y.dims1()?])
        .for_each(changes.len())?;
    Ok(y)
}

fn over(scores: &Tensor, name: &str) -> Result<Launch> {
    Launch::of_code(&SCORES, name, scores)
}

/// Puts the best rank of each part of the scores at the beginning of `found`.
fn find_best(scores: &Tensor, found: &Tensor) -> Result<()> {
    over(scores, "scores_likeliest")?
        .tensors(&[scores, found])?
        .whole(&[scores.dims1()?])
        .launch(BLOCKS, BLOCK_THREADS)
}

/// What lies in memory [n, 2] as halves of whole numbers, the low one first.
fn numbers(halves: &Tensor) -> Result<Vec<u64>> {
    let halves = halves.flatten_all()?.to_vec1::<u32>()?;
    let whole = halves.chunks_exact(2);
    let whole = whole.map(|it| u64::from(it[1]) << 32 | u64::from(it[0]));
    Ok(whole.collect())
}

/// The token with the highest of these ranks, and its score; nothing where one is not finite.
fn highest(ranks: &[u64]) -> Option<(u32, f32)> {
    let highest = ranks.iter().max()?;
    let order = (highest >> 32) as u32;
    // As `rank_of` of `scores.cu` makes it.
    let bits = match order >> 31 {
        0 => !order,
        _ => order & 0x7fff_ffff,
    };
    (order != u32::MAX).then_some((!(*highest as u32), f32::from_bits(bits)))
}
