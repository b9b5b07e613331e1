//! A part of a prompt on CUDA: the ordinary pass over some tokens, recorded for each of a few lengths and then played.
//!
//! A pass over a few hundred tokens is hundreds of small launches, and the host is what it waits for. Here what differs from part to
//! part lies on the device, and the whole pass is one launch. Parts are filled up to one of a few lengths: the tokens that fill one up
//! see what the first token sees, and nothing of them is kept. It serves decoders with dense weights in 16 bits, whose attention is
//! one kernel; everything else goes the ordinary way.
//!
//! Letters: t tokens of a part, filled up; r numbers of a head that turn; v vocabulary.

use std::{fmt, iter::repeat_n, rc::Rc};

use candle_core::{DType, Tensor, TensorId};

use super::{Decoder, KvCache, Shared, Site};
use crate::{
    Result,
    ops::{
        attention::Spans,
        embedding::look_up,
        kernels::{
            self, Kernel,
            cuda::{flash, graph::Repeated, next_token::put},
        },
        rope::Rotation,
    },
    profile,
    tape::Value,
};

/// The shortest part, and what longer ones are multiples of: as many tokens as attention has in a tile.
const SHORTEST: usize = 32;
const STEP: usize = 64;
/// The longest, in tokens.
const LONGEST: usize = 512;

/// What reads parts into the buffers of one cache.
#[derive(Default)]
pub(in crate::arch) struct Parts {
    /// The buffers of all layers, in which a recorded pass writes.
    buffers: Vec<Option<TensorId>>,
    /// Cosines and sines [.., r/2] of every position, for each of the ropes.
    angles: Rc<[(Tensor, Tensor)]>,
    /// One for each length that occurred.
    passes: Vec<Pass>,
}

/// What reads parts of one length.
struct Pass {
    length: usize,
    /// What it reads: tokens [t], their places in the text [t], the run of keys that each sees [t, 2] in layers of each window, and which
    /// of the tokens is the last [1].
    state: Tensor,
    /// Scores [v] after the last token.
    launches: Repeated<Tensor>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl Decoder {
    /// Scores [v] of the token after these, which follow what the cache holds; nothing where they have to be read the ordinary way.
    pub(super) fn read_part(&self, tokens: &[u32], cache: &mut KvCache) -> Result<Option<Tensor>> {
        let past = cache.tokens();
        if !self.serves_part(tokens, cache)? {
            return Ok(None);
        }
        let heads = (self.config.num_key_value_heads, self.config.head_dim);
        cache.make_room_for(tokens.len(), heads, self.compute_dtype, &self.device)?;
        let (_, capacity) = cache.room();
        let Some(angles) = self.angles(capacity)? else {
            return Ok(None);
        };
        let buffers = cache.buffer_ids();
        let mut parts = std::mem::take(&mut cache.parts);
        if parts.buffers != buffers {
            parts = Parts {
                buffers,
                angles,
                passes: Vec::new(),
            };
        }
        let length = match tokens.len() {
            ..=SHORTEST => SHORTEST,
            more => more.next_multiple_of(STEP),
        };
        let now = self.state_of(tokens, length, past);
        let known = parts.passes.iter().position(|it| it.length == length);
        let at = known.unwrap_or(parts.passes.len());
        if known.is_none() {
            parts.passes.push(Pass {
                length,
                state: Tensor::zeros(now.len(), DType::U32, &self.device)?,
                launches: Repeated::New,
            });
        }
        let Pass {
            state, launches, ..
        } = &mut parts.passes[at];
        put(&now, state)?;
        let state = &*state;
        let scores = launches.go(&self.device, || {
            self.launch_part(state, length, capacity, &parts.angles, cache)
        })?;
        // The next part is scored in the same memory.
        let scores = scores.copy()?;
        cache.parts = parts;
        cache.count(tokens);
        Ok(Some(scores))
    }

    /// Whether these tokens can be read so, as far as that is quickly said.
    fn serves_part(&self, tokens: &[u32], cache: &KvCache) -> Result<bool> {
        let config = &self.config;
        let is_served = self.device.is_cuda()
            && kernels::all_enabled()
            && !profile::is_on()
            && (2..=LONGEST).contains(&tokens.len())
            && tokens.iter().all(|it| (*it as usize) < config.vocab_size)
            && !self.becomes_long(cache.tokens(), tokens.len())
            && cache.keeps_one_row()
            && cache.steering().is_empty()
            && self.has_dense_weights();
        let (width, dtype) = (config.head_dim, self.compute_dtype);
        Ok(is_served && flash::serves_heads(width, dtype, config.scoring, &self.device)?)
    }

    /// What a pass of this length reads for these tokens.
    fn state_of(&self, tokens: &[u32], length: usize, past: usize) -> Vec<u32> {
        let filled = length - tokens.len();
        let places = past as u32..(past + tokens.len()) as u32;
        let mut state = tokens.to_vec();
        state.extend(repeat_n(0, filled));
        state.extend(places.chain(repeat_n(past as u32, filled)));
        for window in self.windows() {
            let spans = Spans::causal(1, tokens.len(), past, window);
            let first = spans.runs.first().copied().unwrap_or_default();
            let runs = spans.runs.iter().copied().chain(repeat_n(first, filled));
            state.extend(runs.flat_map(|(start, end)| [start, end]));
        }
        state.push(tokens.len() as u32 - 1);
        state
    }

    /// The pass over what lies in `state`.
    fn launch_part(
        &self,
        state: &Tensor,
        length: usize,
        capacity: usize,
        angles: &[(Tensor, Tensor)],
        cache: &mut KvCache,
    ) -> Result<Tensor> {
        let part = |at: usize, of: usize| state.narrow(0, at * length, of);
        let tokens = part(0, length)?.unsqueeze(0)?;
        let places = part(1, length)?;
        let mut rotations = Vec::new();
        for (cosines, sines) in angles {
            let of = |table: &Tensor| -> Result<Tensor> {
                let rows = look_up(Kernel::Embedding, table, &places)?;
                Ok(rows.reshape((1, length, 1, ()))?)
            };
            rotations.push(Rotation {
                cos: of(cosines)?,
                sin: of(sines)?,
            });
        }
        let mut spans = Vec::new();
        for (index, window) in self.windows().into_iter().enumerate() {
            let runs = part(2 + 2 * index, 2 * length)?.reshape((1, length, 2))?;
            spans.push((window, vec![Spans::placed_at(runs, capacity)?]));
        }
        let shared = Shared {
            rotations,
            spans,
            places: Some(places),
        };
        let caches = &mut [cache];
        let nobody = &mut |_, _: &Value| ();
        let x = self.through(None, (&tokens, &shared), caches, false, Site::Final, nobody)?;
        let last = state.narrow(0, state.elem_count() - 1, 1)?;
        let x = look_up(Kernel::Embedding, &x.tensor().squeeze(0)?, &last)?;
        Ok(self.logits(&x)?.squeeze(0)?)
    }
}
