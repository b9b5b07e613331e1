//! One token of each of a few texts through a decoder, in a few launches a layer, with everything that differs from token to token on
//! the device: so it can be recorded once for all tokens. A text has the numbers that it has alone.
//!
//! Letters: n texts, d width, h query heads, k key heads, e head width, f feed-forward width, v vocabulary, c capacity of the cache.
//!
//! Deliberately absent: which decoders this serves (`arch::decoder`), and several tokens of a text at once.

use candle_core::{
    DType, Device, Tensor,
    cuda::{
        WrapErr,
        cudarc::driver::{DeviceRepr, result::memcpy_htod_async},
    },
};

use super::{
    super::cpu::linear::FEW_ROWS,
    Argument, Launch, PACK, SHARED_BYTES, address, broken,
    code::{Code, compiled},
    device, is_of,
};
use crate::{Result, ops::attention::Scoring, ops::gated::Activation};

const NEXT_TOKEN: Code = compiled!("next_token");

/// The oldest GPUs that can begin a kernel while the one before it ends: their major compute capability.
const OLDEST_OVERLAPPING: i32 = 9;

/// As in `next_token.cu`.
const WARPS: usize = 4;
const THREADS: usize = 32 * WARPS;
const WIDEST_HEAD: usize = 256;
/// Into how many parts the keys of a head are split: a block each, as in `next_token.cu`.
const KEY_PARTS: usize = 8;
/// Numbers of a row that a warp multiplies alone: in 16 bits, those that it has at once. A longer one is the work of a block.
const WARP_WIDTH: usize = 1024;
/// Blocks that read the head, each many rows: normalizing for each anew would cost as much as the rows.
const HEAD_BLOCKS: usize = 1056;
/// A linear layer has so many weights at most, whose outputs lie one after the other.
const PARTS: usize = 3;
/// Texts at most, as in `next_token.cu`.
pub(crate) const TEXTS: usize = 4;
const _: () = assert!(
    TEXTS == FEW_ROWS,
    "as many texts as a processor reads at once"
);
/// In the place of the token of a text that has none.
pub(crate) const ABSENT: u32 = u32::MAX;

/// A linear layer, or the part of one whose outputs lie together.
#[derive(Debug, Clone)]
pub(crate) struct TokenLinear {
    /// [outputs, inputs], contiguous.
    pub(crate) weight: Tensor,
    /// [outputs].
    pub(crate) bias: Option<Tensor>,
    /// What an adapter adds.
    pub(crate) adapter: Option<TokenAdapter>,
}

/// B · A, scaled, beside a weight.
#[derive(Debug, Clone)]
pub(crate) struct TokenAdapter {
    /// [r, inputs].
    pub(crate) a: Tensor,
    /// [outputs, r], scaled.
    pub(crate) b: Tensor,
}

/// A norm: what numbers are multiplied with [width], f32, and ε.
#[derive(Debug, Clone)]
pub(crate) struct TokenNorm {
    pub(crate) factor: Tensor,
    pub(crate) epsilon: f64,
}

/// Attention in one layer.
#[derive(Debug, Clone)]
pub(crate) struct TokenAttention {
    /// h, k, e.
    pub(crate) heads: [usize; 3],
    /// Norms of queries and keys.
    pub(crate) qk_norms: Option<(TokenNorm, TokenNorm)>,
    /// Cosines and sines [c, r/2], f32, of a rotated width r, in layers that turn.
    pub(crate) angles: Option<(Tensor, Tensor)>,
    /// How many tokens are seen at most.
    pub(crate) window: Option<usize>,
    pub(crate) scoring: Scoring,
    /// Keys and values [c, k, e] of each text. Those of a text that has no token are not touched, and may be missing.
    pub(crate) caches: Vec<Option<(Tensor, Tensor)>>,
}

/// Memory that every layer works in, of one token of each text.
#[derive(Debug)]
pub(crate) struct TokenBuffers {
    /// Tokens and their positions: [n, 2], u32.
    pub(crate) state: Tensor,
    /// [n, d], f32.
    x: Tensor,
    /// [n, (h + 2k) e], f32.
    qkv: Tensor,
    /// [n, h e].
    attended: Tensor,
    /// [n, f].
    fed: Tensor,
    /// Numbers between A and B of the adapters of one input, f32: at most as many a text as there is room for.
    between: Tensor,
    sums: Tensor,
    seen: Tensor,
    done: Tensor,
    /// [n, v], f32.
    pub(crate) scores: Tensor,
}

impl TokenLinear {
    /// Numbers between the halves of its adapter.
    pub(crate) fn rank(&self) -> usize {
        let adapter = self.adapter.as_ref();
        adapter.map_or(0, |it| it.a.dims().first().copied().unwrap_or(0))
    }
}

impl TokenBuffers {
    /// Memory for so many texts and a decoder of this width, these heads, f and v, whose adapters of one input have `ranks` together.
    pub(crate) fn new(
        texts: usize,
        width: usize,
        [heads, key_heads, head]: [usize; 3],
        [fed, vocabulary, ranks]: [usize; 3],
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let of = |count: usize, dtype| Tensor::zeros((texts, count.max(1)), dtype, device);
        Ok(Self {
            state: of(2, DType::U32)?,
            x: of(width, DType::F32)?,
            qkv: of((heads + 2 * key_heads) * head, DType::F32)?,
            attended: of(heads * head, dtype)?,
            fed: of(fed, dtype)?,
            between: of(ranks, DType::F32)?,
            sums: of(heads * KEY_PARTS * head, DType::F32)?,
            seen: of(heads * KEY_PARTS * 2, DType::F32)?,
            done: of(heads, DType::U32)?,
            scores: of(vocabulary, DType::F32)?,
        })
    }

    fn texts(&self) -> Result<usize> {
        Ok(self.state.dim(0)?)
    }
}

/// Whether heads of this width are served.
pub(crate) fn serves_head(width: usize) -> bool {
    width.is_power_of_two() && (2 * PACK..=WIDEST_HEAD).contains(&width)
}

/// Whether inputs of this width are served: `is_normalized` ones are held by every block.
pub(crate) fn serves_width(width: usize, is_normalized: bool) -> bool {
    width.is_multiple_of(PACK) && (!is_normalized || width * size_of::<f32>() <= SHARED_BYTES)
}

/// Puts tokens and their positions where the next pass reads them: `state` of [`TokenBuffers`].
#[allow(unsafe_code)]
pub(crate) fn put(now: &[u32], state: &Tensor) -> Result<()> {
    if now.len() != state.elem_count() {
        return Err(broken("tokens and positions of another number of texts"));
    }
    let (to, device) = (address(state)?, device(state)?);
    let stream = device.cuda_stream();
    stream.context().bind_to_thread().w()?;
    // Safety: there is room for as many numbers, and what is copied is read before this returns.
    unsafe { memcpy_htod_async(to, now, stream.cu_stream()) }.w()?;
    Ok(())
}

/// A kernel of this file, which waits by itself for the launch before it where it can.
fn launch(name: &str, like: &Tensor) -> Result<Launch> {
    let overlaps = is_of(like.device(), OLDEST_OVERLAPPING)?;
    Ok(Launch::of_code(&NEXT_TOKEN, name, like)?.overlapping(overlaps))
}

/// x = the row of the token in the table [v, d], scaled. What was launched before has to end before it begins.
pub(crate) fn embedding(at: &TokenBuffers, table: &Tensor, scale: f64) -> Result<()> {
    let (texts, width) = at.x.dims2()?;
    launch("token_embedding", table)?
        .overlapping(false)
        .tensors(&[&at.state, table, &at.x])?
        .whole(&[width])
        .numbers(&[scale])
        .launch_grid([texts, width.div_ceil(THREADS)], THREADS)
}

/// qkv = the projections of norm(x).
pub(crate) fn projections(
    at: &TokenBuffers,
    norm: &TokenNorm,
    linears: &[TokenLinear],
) -> Result<()> {
    let z = narrow_normalized(at, norm, linears)?;
    normalized(at, norm, &Parts::of(linears, &z)?, &at.qkv, linears)
}

/// The keys and values of the token go into the cache, and what its queries find into `attended`.
pub(crate) fn attention(at: &TokenBuffers, attention: &TokenAttention) -> Result<()> {
    let [heads, key_heads, width] = attention.heads;
    let norms = attention.qk_norms.as_ref();
    let angles = attention.angles.as_ref();
    let pairs = angles.map_or(Ok(0), |(cosines, _)| cosines.dim(1))?;
    let cap = attention.scoring.soft_cap.unwrap_or(0.0);
    let epsilon = norms.map_or(0.0, |(q, _)| q.epsilon);
    launch("token_attention", &at.attended)?
        .tensors(&[&at.state, &at.qkv])?
        .perhaps(norms.map(|(q, _)| &q.factor))?
        .perhaps(norms.map(|(_, k)| &k.factor))?
        .perhaps(angles.map(|(cosines, _)| cosines))?
        .perhaps(angles.map(|(_, sines)| sines))?
        .caches(Caches::of(&attention.caches)?)
        .tensors(&[&at.attended, &at.sums, &at.seen, &at.done])?
        .whole(&[heads, key_heads, width, pairs])
        .whole(&[attention.window.unwrap_or(0)])
        .numbers(&[attention.scoring.scale, cap, epsilon])
        .clustered(KEY_PARTS)
        .launch_grid([at.texts()? * heads, KEY_PARTS], THREADS)
}

/// x += the output projection of what was attended to.
pub(crate) fn output_projection(at: &TokenBuffers, linear: &TokenLinear) -> Result<()> {
    onto_sum(at, &at.attended, linear)
}

/// The gated feed-forward part: x += down(act(gate) ⊙ up) of norm(x).
pub(crate) fn feed_forward(
    at: &TokenBuffers,
    norm: &TokenNorm,
    gate_and_up: &[TokenLinear; 2],
    down: &TokenLinear,
    activation: Activation,
) -> Result<()> {
    let z = narrow_normalized(at, norm, gate_and_up)?;
    let (rows, width) = gate_and_up[0].weight.dims2()?;
    launch("token_gate", &at.fed)?
        .tensors(&[&at.state, &at.x, &norm.factor])?
        .parts(Parts::of(gate_and_up, &z)?)
        .tensors(&[&at.fed])?
        .whole(&[rows, width, activation.number()])
        .numbers(&[norm.epsilon])
        .sharing(width * size_of::<f32>())
        .launch_grid([at.texts()?, rows.div_ceil(WARPS)], THREADS)?;
    onto_sum(at, &at.fed, down)
}

/// The scores of the token after it, by the head [v, d].
pub(crate) fn head(
    at: &TokenBuffers,
    norm: &TokenNorm,
    weight: &Tensor,
    cap: Option<f64>,
) -> Result<()> {
    let (rows, width) = weight.dims2()?;
    launch("token_head", weight)?
        .tensors(&[&at.state, &at.x, &norm.factor, weight, &at.scores])?
        .whole(&[rows, width])
        .numbers(&[norm.epsilon, cap.unwrap_or(0.0)])
        .sharing(width * size_of::<f32>())
        .launch_grid(
            [at.texts()?, rows.div_ceil(WARPS).min(HEAD_BLOCKS)],
            THREADS,
        )
}

/// z = A norm(x) of all adapters of these layers. Returns where each has its own.
fn narrow_normalized(
    at: &TokenBuffers,
    norm: &TokenNorm,
    linears: &[TokenLinear],
) -> Result<Vec<Option<Tensor>>> {
    let (narrowing, z) = narrowing(at, linears)?;
    if !narrowing.is_empty() {
        let parts = Parts::of(&narrowing, &vec![None; narrowing.len()])?;
        normalized(at, norm, &parts, &at.between, &narrowing)?;
    }
    Ok(z)
}

/// The first halves of the adapters of some layers, as layers, and where each puts what it computes of the first text.
fn narrowing(
    at: &TokenBuffers,
    linears: &[TokenLinear],
) -> Result<(Vec<TokenLinear>, Vec<Option<Tensor>>)> {
    let between = at.between.flatten_all()?;
    let (mut layers, mut z, mut start) = (Vec::new(), Vec::new(), 0);
    for linear in linears {
        let Some(TokenAdapter { a, .. }) = &linear.adapter else {
            z.push(None);
            continue;
        };
        let rank = a.dim(0)?;
        z.push(Some(between.narrow(0, start, rank)?));
        start += rank;
        layers.push(TokenLinear {
            weight: a.clone(),
            bias: None,
            adapter: None,
        });
    }
    Ok((layers, z))
}

fn normalized(
    at: &TokenBuffers,
    norm: &TokenNorm,
    parts: &Parts,
    y: &Tensor,
    linears: &[TokenLinear],
) -> Result<()> {
    let like = linears.first().ok_or_else(|| broken("no linear layer"))?;
    let (rows, width) = (parts.rows(), like.weight.dim(1)?);
    launch("token_inputs", &like.weight)?
        .tensors(&[&at.state, &at.x, &norm.factor])?
        .parts(*parts)
        .tensors(&[y])?
        .whole(&[rows, width])
        .numbers(&[norm.epsilon])
        .sharing(width * size_of::<f32>())
        .launch_grid([at.texts()?, rows.div_ceil(WARPS)], THREADS)
}

/// x += the layer of y.
fn onto_sum(at: &TokenBuffers, y: &Tensor, linear: &TokenLinear) -> Result<()> {
    let linears = std::slice::from_ref(linear);
    let (narrowing, z) = narrowing(at, linears)?;
    if !narrowing.is_empty() {
        let parts = Parts::of(&narrowing, &[None])?;
        of_numbers(&at.state, y, &parts, &at.between, false)?;
    }
    of_numbers(&at.state, y, &Parts::of(linears, &z)?, &at.x, true)
}

fn of_numbers(state: &Tensor, y: &Tensor, parts: &Parts, x: &Tensor, adds: bool) -> Result<()> {
    let (texts, width) = y.dims2()?;
    let rows = parts.rows();
    let lanes = if width <= WARP_WIDTH { 32 } else { THREADS };
    launch("token_output", y)?
        .tensors(&[state, y])?
        .parts(*parts)
        .tensors(&[x])?
        .whole(&[rows, width, lanes, usize::from(adds)])
        .launch_grid([texts, rows.div_ceil(THREADS / lanes)], THREADS)
}

/// Where the keys and values of each text lie, in the order of `next_token.cu`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Caches([[u64; TEXTS]; 2]);

// Safety: it is addresses, as in `next_token.cu`.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Caches {}

impl Caches {
    fn of(caches: &[Option<(Tensor, Tensor)>]) -> Result<Self> {
        let mut addresses = Self::default();
        if caches.len() > TEXTS {
            return Err(broken("so many texts are not read at once"));
        }
        for (text, cache) in caches.iter().enumerate() {
            if let Some((keys, values)) = cache {
                addresses.0[0][text] = address(keys)?;
                addresses.0[1][text] = address(values)?;
            }
        }
        Ok(addresses)
    }
}

/// Up to three linear layers of one input, in the order of `next_token.cu`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Parts([Part; PARTS]);

#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Part {
    weight: u64,
    bias: u64,
    b: u64,
    z: u64,
    rows: u64,
    rank: u64,
    z_apart: u64,
}

// Safety: it is whole numbers, as in `next_token.cu`.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Parts {}

impl Parts {
    fn of(linears: &[TokenLinear], z: &[Option<Tensor>]) -> Result<Self> {
        let mut parts = Self::default();
        if linears.len() > PARTS || linears.len() != z.len() {
            return Err(broken("so many linear layers don’t have one input"));
        }
        let ranks = linears.iter().zip(z).filter(|(_, z)| z.is_some());
        let ranks: usize = ranks.map(|(linear, _)| linear.rank()).sum();
        let places = parts.0.iter_mut().zip(linears.iter().zip(z));
        for (part, (linear, z)) in places {
            let somewhere =
                |tensor: Option<&Tensor>| tensor.map_or(Ok(0), |tensor| address(tensor));
            let adapter = linear.adapter.as_ref().filter(|_| z.is_some());
            *part = Part {
                weight: address(&linear.weight)?,
                bias: somewhere(linear.bias.as_ref())?,
                b: somewhere(adapter.map(|it| &it.b))?,
                z: somewhere(z.as_ref())?,
                rows: linear.weight.dim(0)? as u64,
                rank: adapter.map_or(Ok(0), |it| it.a.dim(0))? as u64,
                z_apart: ranks as u64,
            };
        }
        Ok(parts)
    }

    fn rows(&self) -> usize {
        self.0.iter().map(|part| part.rows as usize).sum()
    }
}

impl Launch {
    fn caches(mut self, caches: Caches) -> Self {
        self.arguments.push(Argument::Caches(Box::new(caches)));
        self
    }

    fn parts(mut self, parts: Parts) -> Self {
        self.arguments.push(Argument::Parts(Box::new(parts)));
        self
    }
}
