//! The next token of an answer on CUDA: five launches a layer, recorded once and then played for each token.
//!
//! Between two tokens a decoder computes little and launches hundreds of kernels, so the host is what an answer waits for. Here
//! everything that differs from token to token lies on the device, and the whole pass is one launch. It serves decoders with a norm
//! before each part, whose weights are dense, of one dtype, and as they are computed in; adapters are computed beside them.
//! Everything else goes the ordinary way.

use std::fmt;

use candle_core::{DType, Tensor};

use super::{Block, Decoder, KvCache, Linear, RmsNorm};
use crate::{
    Result,
    arch::layers::LinearParts,
    ops::kernels::{
        self, Kernel,
        cuda::{
            graph::{Graph, record, rehearse},
            next_token::{
                self as kernel, TokenAdapter, TokenAttention, TokenBuffers, TokenLinear, TokenNorm,
            },
        },
    },
    profile,
};

/// What reads one token after another into one cache.
pub(in crate::arch) struct NextToken {
    layers: Vec<Layer>,
    norm: TokenNorm,
    /// The table [v, d] that tokens are looked up in, and the head.
    embedding: Tensor,
    embedding_scale: f64,
    head: Tensor,
    final_soft_cap: Option<f64>,
    buffers: TokenBuffers,
    recording: Recording,
}

/// How far the recording of a pass is.
enum Recording {
    /// Nothing was launched yet.
    Nothing,
    /// It was launched once, so that its kernels are loaded.
    Rehearsed,
    Recorded(Graph),
    /// It can’t be recorded here, and is launched for each token.
    Launched,
}

struct Layer {
    input_norm: TokenNorm,
    projections: Vec<TokenLinear>,
    attention: TokenAttention,
    output: TokenLinear,
    feed_forward_norm: TokenNorm,
    gate_and_up: [TokenLinear; 2],
    down: TokenLinear,
    activation: crate::ops::gated::Activation,
}

impl fmt::Debug for NextToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextToken").finish_non_exhaustive()
    }
}

impl Decoder {
    /// Scores [v] of the token after this one, which follows what the cache holds; nothing where it has to be read the ordinary way.
    pub(super) fn next_token(&self, token: u32, cache: &mut KvCache) -> Result<Option<Tensor>> {
        if !self.serves_next_token(cache) || token as usize >= self.config.vocab_size {
            return Ok(None);
        }
        let position = cache.tokens();
        cache.make_room(1)?;
        let mut pass = match cache.next_token.take() {
            Some(pass) if pass.is_of(cache) => pass,
            outgrown => {
                drop(outgrown);
                match NextToken::new(self, cache)? {
                    Some(pass) => Box::new(pass),
                    None => return Ok(None),
                }
            }
        };
        let profiled = profile::operation("one token by its own kernels");
        profile::computed(|| [2.0 * self.config.parameters() as f64, 0.0]);
        let scores = pass.read(token, position)?;
        drop(profiled);
        cache.next_token = Some(pass);
        cache.count(&[token]);
        Ok(Some(scores))
    }

    /// Whether one token can be read in a pass of its own, as far as that is quickly said.
    fn serves_next_token(&self, cache: &KvCache) -> bool {
        let config = &self.config;
        self.device.is_cuda()
            && kernels::enabled(Kernel::NextToken)
            && cache.tokens() > 0
            && cache.room().0 == 1
            && cache.steering().is_empty()
            && !config.post_norms
            && kernel::serves_head(config.head_dim)
            && kernel::serves_width(config.hidden_size, true)
            && kernel::serves_width(config.intermediate_size, false)
    }
}

impl NextToken {
    /// A pass over this decoder's weights and this cache, which has room for the next token.
    fn new(decoder: &Decoder, cache: &mut KvCache) -> Result<Option<Self>> {
        let config = &decoder.config;
        let dtype = decoder.compute_dtype;
        let (_, capacity) = cache.room();
        // Where angles depend on the length of the text, a table of them would be wrong for some.
        let mut changes = config.ropes.iter().filter_map(|it| it.changes_beyond());
        if changes.any(|length| capacity > length) {
            return Ok(None);
        }
        let positions: Vec<u32> = (0..capacity as u32).collect();
        let mut angles = Vec::new();
        for rope in &config.ropes {
            let rotation = rope.rotation(&positions, 1, &decoder.device)?;
            let table = |it: &Tensor| it.reshape((capacity, ()))?.contiguous();
            angles.push((table(&rotation.cos)?, table(&rotation.sin)?));
        }
        let mut layers = Vec::new();
        for (index, block) in decoder.blocks.iter().enumerate() {
            let Some(layer) = Layer::new(block, dtype, &angles, cache.buffers(index))? else {
                return Ok(None);
            };
            layers.push(layer);
        }
        let embedding = decoder.embedding.tensor();
        let head = decoder.head.as_ref().unwrap_or(&decoder.embedding).tensor();
        let is_served = |it: &Tensor| it.dtype() == dtype && it.is_contiguous();
        if !is_served(&embedding) || !is_served(&head) {
            return Ok(None);
        }
        let ranks = layers.iter().map(Layer::ranks).max().unwrap_or(0);
        let heads = [
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        ];
        let sizes = [config.intermediate_size, config.vocab_size, ranks];
        Ok(Some(Self {
            layers,
            norm: norm(&decoder.norm)?,
            embedding: embedding.clone(),
            embedding_scale: config.embedding_scale.unwrap_or(1.0),
            head: head.clone(),
            final_soft_cap: config.final_soft_cap,
            buffers: TokenBuffers::new(config.hidden_size, heads, sizes, dtype, &decoder.device)?,
            recording: Recording::Nothing,
        }))
    }

    /// Whether it reads into the buffers that this cache has now.
    fn is_of(&self, cache: &KvCache) -> bool {
        let mut layers = self.layers.iter().enumerate();
        layers.all(|(index, layer)| match cache.buffers(index) {
            Some((keys, values)) => {
                let own = &layer.attention;
                (own.keys.id(), own.values.id()) == (keys.id(), values.id())
            }
            None => false,
        })
    }

    /// Reads a token at its position. Returns the scores [v] of the next.
    fn read(&mut self, token: u32, position: usize) -> Result<Tensor> {
        let state = &self.buffers.state;
        let device = state.device().clone();
        let now = Tensor::new(&[token, position as u32], &device)?;
        state.slice_set(&now, 0, 0)?;
        self.recording = match std::mem::replace(&mut self.recording, Recording::Launched) {
            Recording::Nothing => {
                rehearse(&device, || self.launch())?;
                Recording::Rehearsed
            }
            Recording::Rehearsed => match record(&device, || self.launch()) {
                Ok((graph, ())) => Recording::Recorded(graph),
                Err(_) => {
                    self.launch()?;
                    Recording::Launched
                }
            },
            Recording::Recorded(graph) => {
                graph.play()?;
                Recording::Recorded(graph)
            }
            Recording::Launched => {
                self.launch()?;
                Recording::Launched
            }
        };
        // The next token is scored in the same memory.
        Ok(self.buffers.scores.copy()?)
    }

    fn launch(&self) -> Result<()> {
        let at = &self.buffers;
        kernel::embedding(at, &self.embedding, self.embedding_scale)?;
        for layer in &self.layers {
            kernel::projections(at, &layer.input_norm, &layer.projections)?;
            kernel::attention(at, &layer.attention)?;
            kernel::output_projection(at, &layer.output)?;
            let (norm, down) = (&layer.feed_forward_norm, &layer.down);
            kernel::feed_forward(at, norm, &layer.gate_and_up, down, layer.activation)?;
        }
        kernel::head(at, &self.norm, &self.head, self.final_soft_cap)
    }
}

impl Layer {
    fn new(
        block: &Block,
        dtype: DType,
        angles: &[(Tensor, Tensor)],
        buffers: Option<(&Tensor, &Tensor)>,
    ) -> Result<Option<Self>> {
        let (attention, fed) = (&block.attention, &block.feed_forward);
        let linears = |linears: &mut dyn Iterator<Item = &Linear>| -> Result<Option<Vec<_>>> {
            linears.map(|it| linear(it, dtype)).collect()
        };
        let (Some(projections), Some(inputs), Some(ends), Some((keys, values))) = (
            linears(&mut attention.input.iter())?,
            linears(&mut fed.input.iter())?,
            linears(&mut [&attention.output, &fed.down].into_iter())?,
            buffers,
        ) else {
            return Ok(None);
        };
        let gate_and_up = match inputs.as_slice() {
            [both] => [both.rows(0, fed.width)?, both.rows(fed.width, fed.width)?],
            [gate, up] => [gate.clone(), up.clone()],
            _ => return Ok(None),
        };
        let [output, down] = ends.as_slice() else {
            return Ok(None);
        };
        let norms = attention.qk_norms.as_ref();
        let qk_norms = norms.map(|(q, k)| Ok::<_, crate::Error>((norm(q)?, norm(k)?)));
        Ok(Some(Self {
            input_norm: norm(&block.input_norm)?,
            projections,
            attention: TokenAttention {
                heads: [attention.heads, attention.key_heads, attention.head_dim],
                qk_norms: qk_norms.transpose()?,
                angles: block.kind.rope.map(|index| angles[index].clone()),
                window: block.kind.window,
                scoring: attention.scoring,
                keys: keys.clone(),
                values: values.clone(),
            },
            output: output.clone(),
            feed_forward_norm: norm(&block.feed_forward_norm)?,
            gate_and_up,
            down: down.clone(),
            activation: fed.activation,
        }))
    }

    /// The most numbers between the halves of the adapters of one input.
    fn ranks(&self) -> usize {
        let of = |linears: &[TokenLinear]| linears.iter().map(TokenLinear::rank).sum::<usize>();
        let inputs = of(&self.projections).max(of(&self.gate_and_up));
        inputs.max(self.output.rank()).max(self.down.rank())
    }
}

impl TokenLinear {
    fn rank(&self) -> usize {
        let adapter = self.adapter.as_ref();
        adapter.map_or(0, |it| it.a.dims().first().copied().unwrap_or(0))
    }

    /// Some of its outputs.
    fn rows(&self, from: usize, count: usize) -> Result<Self> {
        let part = |tensor: &Tensor| tensor.narrow(0, from, count);
        let adapter = self.adapter.as_ref().map(|it| {
            Ok::<_, crate::Error>(TokenAdapter {
                a: it.a.clone(),
                b: part(&it.b)?,
            })
        });
        Ok(Self {
            weight: part(&self.weight)?,
            bias: self.bias.as_ref().map(part).transpose()?,
            adapter: adapter.transpose()?,
        })
    }
}

/// A layer whose weight is dense and of this dtype.
fn linear(linear: &Linear, dtype: DType) -> Result<Option<TokenLinear>> {
    let Some(LinearParts {
        weight,
        bias,
        adapter,
    }) = linear.parts()
    else {
        return Ok(None);
    };
    if weight.dtype() != dtype || !weight.is_contiguous() {
        return Ok(None);
    }
    let adapter = adapter.map(|(a, b, scale)| {
        let b = (b.to_dtype(DType::F32)? * scale)?;
        Ok::<_, crate::Error>(TokenAdapter {
            a: a.to_dtype(dtype)?.contiguous()?,
            b: b.to_dtype(dtype)?.contiguous()?,
        })
    });
    let bias = bias.map(|it| it.to_dtype(dtype)?.contiguous());
    Ok(Some(TokenLinear {
        weight,
        bias: bias.transpose()?,
        adapter: adapter.transpose()?,
    }))
}

fn norm(norm: &RmsNorm) -> Result<TokenNorm> {
    Ok(TokenNorm {
        factor: norm.factor()?,
        epsilon: norm.epsilon(),
    })
}
