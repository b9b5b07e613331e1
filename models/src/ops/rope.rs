//! Rotary positions: each pair of numbers in a head is turned by an angle that grows with the token's position.
//!
//! Su et al., "RoFormer", 2021 (<https://arxiv.org/abs/2104.09864>), in the layout of the Hub's checkpoints: number i is
//! paired with number i + r/2 of the r rotated ones; the rest of the head passes unchanged (partial rotation).
//! y₁ = x₁ cos - x₂ sin, y₂ = x₂ cos + x₁ sin. Backward turns the gradient the other way. Saves the angles only.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use candle_core::{D, Device, Tensor};

use crate::{
    Error, Result,
    ops::{
        kernels::{self, Kernel},
        wide_dtype, widen,
    },
    profile,
    tape::Value,
};

/// How the angles of a checkpoint were stretched for contexts longer than it was first trained on.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Not stretched.
    None,
    /// Every angle divided by a factor.
    Linear {
        /// What every angle is divided by: how many times longer the context became.
        factor: f64,
    },
    /// Llama 3: slow turns divided by a factor, fast ones kept, a smooth passage between.
    Llama3 {
        /// What slow turns are divided by: how many times longer the context became.
        factor: f64,
        /// Wavelengths above the original context over this are stretched.
        low_frequency_factor: f64,
        /// Wavelengths below the original context over this are kept.
        high_frequency_factor: f64,
        /// The context of the first training, in tokens.
        original_context: f64,
    },
    /// YaRN: Peng et al., 2023 (<https://arxiv.org/abs/2309.00071>).
    Yarn {
        /// What slow turns are divided by: the new context over `original_context`.
        factor: f64,
        /// Turns over the original context above which an angle is kept.
        beta_fast: f64,
        /// Turns over the original context below which an angle is divided.
        beta_slow: f64,
        /// The context of the first training, in tokens.
        original_context: f64,
        /// What cosines and sines are multiplied with.
        attention_factor: f64,
        /// Whether the bounds of the passage are rounded to whole dimensions.
        truncate: bool,
    },
    /// LongRoPE: Ding et al., 2024 (<https://arxiv.org/abs/2402.13753>): each angle divided by a factor of its own, one
    /// list of factors for texts within the original context and one for longer ones.
    LongRope {
        /// One factor per pair, for texts within the original context.
        short_factors: Vec<f64>,
        /// One factor per pair, for longer texts.
        long_factors: Vec<f64>,
        /// The context of the first training, in tokens.
        original_context: f64,
        /// What cosines and sines are multiplied with.
        attention_factor: f64,
    },
}

/// The angles per position of one kind of layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// How many numbers of a head it rotates.
    pub width: usize,
    /// θ.
    pub theta: f64,
    /// How its angles were stretched.
    pub scaling: RopeScaling,
    /// Radians per position, for each of the r/2 pairs.
    frequencies: Vec<f64>,
    /// What cosines and sines are multiplied with.
    magnitude: f64,
    /// The context above which a text turns by other angles, and those.
    beyond: Option<(u32, Vec<f64>)>,
    known: Known,
}

/// The last position that is remembered: of 64 pairs, all of them are 64 MiB.
const MAX_KNOWN: u32 = 1 << 17;

/// Cosines and sines of the first positions, each [.., r/2], which every pass asks for again: of a text within the original context,
/// and of a longer one. Clones share them.
#[derive(Clone, Default)]
struct Known(Arc<Mutex<[[Vec<f32>; 2]; 2]>>);

/// It follows from the rest of a rope.
impl PartialEq for Known {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known")
    }
}

/// Cosines and sines of the tokens of one batch: [b or 1, t, 1, r/2], f32 or wider.
#[derive(Debug, Clone)]
pub struct Rotation {
    pub(crate) cos: Tensor,
    pub(crate) sin: Tensor,
}

impl Rotation {
    /// Whether it turns all numbers of a head, by whole packs of what a GPU reads at once.
    pub fn turns_packs(&self, head_dim: usize) -> bool {
        let half = self.cos.dims().last().copied().unwrap_or_default();
        2 * half == head_dim && half.is_multiple_of(8)
    }
}

impl Rope {
    /// The angles for heads of which `width` numbers are rotated, with base `theta`. An odd width rotates one number more, by
    /// angles that are spaced as its own.
    pub fn new(width: usize, theta: f64, scaling: &RopeScaling) -> Self {
        let pairs = width.div_ceil(2);
        let plain = |pair: usize| theta.powf(-2.0 * pair as f64 / width as f64);
        let (mut magnitude, mut beyond, known) = (1.0, None, Known::default());
        let frequencies = match scaling.clone() {
            RopeScaling::None => (0..pairs).map(plain).collect(),
            RopeScaling::Linear { factor } => (0..pairs).map(|pair| plain(pair) / factor).collect(),
            RopeScaling::Llama3 {
                factor,
                low_frequency_factor: low,
                high_frequency_factor: high,
                original_context,
            } => {
                let stretch = |pair: usize| {
                    let turns = original_context * plain(pair) / std::f64::consts::TAU;
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    plain(pair) * (kept + (1.0 - kept) / factor)
                };
                (0..pairs).map(stretch).collect()
            }
            RopeScaling::Yarn {
                factor,
                beta_fast,
                beta_slow,
                original_context,
                attention_factor,
                truncate,
            } => {
                magnitude = attention_factor;
                let passage = [beta_fast, beta_slow].map(|turns| {
                    // The dimension that makes this many turns over the original context.
                    let radians = turns * std::f64::consts::TAU;
                    width as f64 * (original_context / radians).ln() / (2.0 * theta.ln())
                });
                let (low, high) = bounds(passage, width, truncate);
                let stretch = |pair: usize| {
                    let divided = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    plain(pair) * (1.0 - divided + divided / factor)
                };
                (0..pairs).map(stretch).collect()
            }
            RopeScaling::LongRope {
                short_factors,
                long_factors,
                original_context,
                attention_factor,
            } => {
                magnitude = attention_factor;
                let divided = |factors: Vec<f64>| {
                    (0..pairs.min(factors.len()))
                        .map(|at| plain(at) / factors[at])
                        .collect()
                };
                beyond = Some((original_context as u32, divided(long_factors)));
                divided(short_factors)
            }
        };
        Self {
            width,
            theta,
            scaling: scaling.clone(),
            frequencies,
            magnitude,
            beyond,
            known,
        }
    }

    /// What every angle of an unstretched rope is divided by, for each of the r/2 pairs.
    pub fn divisors(&self) -> Vec<f64> {
        let plain = Self::new(self.width, self.theta, &RopeScaling::None);
        let pairs = plain.frequencies.iter().zip(&self.frequencies);
        pairs.map(|(plain, own)| plain / own).collect()
    }

    /// The length of text, in tokens, above which all of it turns by other angles; none for most models.
    pub fn changes_beyond(&self) -> Option<usize> {
        self.beyond.as_ref().map(|(context, _)| *context as usize)
    }

    /// Cosines and sines for `positions` [b · t] of a batch of `rows` rows, computed in f64 on the host.
    pub fn rotation(&self, positions: &[u32], rows: usize, device: &Device) -> Result<Rotation> {
        if rows == 0 || !positions.len().is_multiple_of(rows) {
            return Err(Error::Data(format!(
                "{} positions don’t divide into {rows} rows",
                positions.len()
            )));
        }
        // Most batches have the same positions in every row; then one table serves all.
        let tokens = positions.len() / rows;
        let same = positions
            .chunks(tokens)
            .all(|row| row == &positions[..tokens]);
        let positions = if same {
            &positions[..tokens]
        } else {
            positions
        };
        let longest = positions.iter().max().copied().unwrap_or(0);
        let (is_long, frequencies) = match &self.beyond {
            Some((context, frequencies)) if longest >= *context => (true, frequencies),
            _ => (false, &self.frequencies),
        };
        let pairs = frequencies.len();
        let shape = (positions.len() / tokens, tokens, 1, pairs);
        let row = |position: u32, of: fn(f64) -> f64| {
            let angles = frequencies.iter().map(move |it| f64::from(position) * it);
            angles.map(move |angle| (of(angle) * self.magnitude) as f32)
        };
        let mut known = self.known.0.lock().unwrap_or_else(|it| it.into_inner());
        let [cosines, sines] = &mut known[usize::from(is_long)];
        let numbers = |table: &mut Vec<f32>, of: fn(f64) -> f64| {
            let known = (table.len() / pairs.max(1)) as u32;
            table.extend((known..=longest.min(MAX_KNOWN)).flat_map(|it| row(it, of)));
            let mut numbers = Vec::with_capacity(positions.len() * pairs);
            for position in positions {
                match *position <= MAX_KNOWN {
                    true => {
                        numbers.extend_from_slice(&table[*position as usize * pairs..][..pairs])
                    }
                    false => numbers.extend(row(*position, of)),
                }
            }
            Tensor::from_vec(numbers, shape, device)
        };
        Ok(Rotation {
            cos: numbers(cosines, f64::cos)?,
            sin: numbers(sines, f64::sin)?,
        })
    }
}

/// From where to where angles pass from kept to divided, as YaRN bounds it.
fn bounds([mut low, mut high]: [f64; 2], width: usize, truncate: bool) -> (f64, f64) {
    if truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    let (low, high) = (low.max(0.0), high.min(width as f64 - 1.0));
    (low, if low == high { high + 0.001 } else { high })
}

/// Turns the heads of x [b, t, h, e] by the angles of their positions -> [b, t, h, e].
pub fn rope(x: &Value, rotation: &Rotation) -> Result<Value> {
    let _profiled = profile::operation("rope");
    let y = rotate(x.tensor(), rotation, false)?;
    let rotation = rotation.clone();
    Ok(Value::record(y, &[x], move |gradient: Tensor| {
        Ok(vec![Some(rotate(&gradient, &rotation, true)?)])
    }))
}

/// Queries, keys and values, whose heads lie beside each other and are read by nobody else: all [b, t, Σ h · e] -> [b, t, h, e] for each of
/// `heads`, the first two of them turned. CUDA turns them where they lie. Saves nothing.
///
/// Their way back is one tensor, so all of them have to be used.
pub fn turned_heads(
    all: &Value,
    heads: [usize; 3],
    head_dim: usize,
    rotation: Option<&Rotation>,
) -> Result<[Value; 3]> {
    let _profiled = profile::operation("rope");
    let (b, t, width) = all.tensor().dims3()?;
    let apart = (b, t, width / head_dim.max(1), head_dim);
    let first = heads[0] + heads[1];
    let turned = turn_first(all.tensor().reshape(apart)?, first, rotation, false)?;
    let mut start = 0;
    let parts = heads.map(|count| {
        start += count;
        turned.narrow(2, start - count, count)
    });
    let [q, k, v] = parts;
    let rotation = rotation.cloned();
    let back = move |gradients: Vec<Tensor>| {
        let gradient = join(&gradients)?;
        drop(gradients);
        let gradient = turn_first(gradient, first, rotation.as_ref(), true)?;
        Ok(vec![Some(gradient.reshape((b, t, width))?)])
    };
    let parts = Value::record_together(vec![q?, k?, v?], &[all], back);
    parts
        .try_into()
        .map_err(|_| Error::Data("no three results".to_owned()))
}

/// Heads [b, t, h, e], the first of which are turned.
fn turn_first(
    all: Tensor,
    count: usize,
    rotation: Option<&Rotation>,
    back: bool,
) -> Result<Tensor> {
    let Some(rotation) = rotation else {
        return Ok(all);
    };
    let first = all.narrow(2, 0, count)?;
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::Rope, &[&first])
        && kernels::cuda::rope::rotate_in_place(&first, rotation, back)?
    {
        return Ok(all);
    }
    let rest = all.narrow(2, count, all.dim(2)? - count)?;
    let first = rotate(&first.contiguous()?, rotation, back)?;
    Ok(Tensor::cat(&[first, rest], 2)?)
}

/// Heads [b, t, h, e] beside each other.
fn join(heads: &[Tensor]) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if kernels::enabled(Kernel::Rope)
        && let Some(joined) = kernels::cuda::many::join(heads, 2)?
    {
        return Ok(joined);
    }
    Ok(Tensor::cat(heads, 2)?)
}

fn rotate(x: &Tensor, rotation: &Rotation, back: bool) -> Result<Tensor> {
    if kernels::metal::serves(Kernel::Rope, &[x]) {
        return kernels::metal::rope::rotate(x, rotation, back);
    }
    if kernels::cpu::serves(Kernel::Rope, &[x, &rotation.cos, &rotation.sin]) {
        return kernels::cpu::rope::rotate(x, rotation, back);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::Rope, &[x]) {
        return kernels::cuda::rope::rotate(x, rotation, back);
    }
    let head = x.dim(D::Minus1)?;
    let half = rotation.cos.dim(D::Minus1)?;
    let cos = rotation.cos.to_dtype(wide_dtype(x))?;
    let sin = rotation.sin.to_dtype(wide_dtype(x))?;
    let sin = if back { sin.neg()? } else { sin };
    let first = widen(&x.narrow(D::Minus1, 0, half)?)?;
    let second = widen(&x.narrow(D::Minus1, half, half)?)?;
    let turned_first =
        (first.broadcast_mul(&cos)? - second.broadcast_mul(&sin)?)?.to_dtype(x.dtype())?;
    let turned_second =
        (second.broadcast_mul(&cos)? + first.broadcast_mul(&sin)?)?.to_dtype(x.dtype())?;
    let mut parts = vec![turned_first, turned_second];
    if 2 * half < head {
        parts.push(x.narrow(D::Minus1, 2 * half, head - 2 * half)?);
    }
    Ok(Tensor::cat(&parts, D::Minus1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_close, check_gradients, normal};

    fn rotation(width: usize, positions: &[u32], rows: usize) -> Rotation {
        Rope::new(width, 100.0, &RopeScaling::None)
            .rotation(positions, rows, &Device::Cpu)
            .unwrap()
    }

    #[test]
    fn gradients_match_finite_differences() {
        let x = [normal(1, &[2, 3, 2, 6])];
        check_gradients(&x, |_, v| rope(&v[0], &rotation(6, &[0, 1, 2, 4, 5, 6], 2)));
        check_gradients(&x, |_, v| rope(&v[0], &rotation(4, &[0, 1, 2, 0, 1, 2], 2)));
    }

    #[test]
    fn turning_keeps_lengths_and_depends_on_the_distance_only() {
        let x = normal(1, &[1, 1, 1, 8]);
        let at = |position| rotate(&x, &rotation(8, &[position], 1), false).unwrap();
        let product = |a: &Tensor, b: &Tensor| (a * b).unwrap().sum_all().unwrap();
        check_close("length", &product(&at(9), &at(9)), &product(&x, &x), 1e-6);
        check_close(
            "distance",
            &product(&at(9), &at(4)),
            &product(&at(25), &at(20)),
            1e-6,
        );
    }

    #[test]
    fn position_zero_changes_nothing() {
        let x = normal(1, &[1, 1, 2, 8]);
        check_close(
            "x",
            &rotate(&x, &rotation(6, &[0], 1), false).unwrap(),
            &x,
            1e-12,
        );
    }
}
