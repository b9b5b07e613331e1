//! The next token of an answer on CUDA, or of several answers: five launches a layer, recorded once and then played for each token.
//!
//! Between two tokens a decoder computes little and launches hundreds of kernels, so the host is what an answer waits for. Here
//! everything that differs from token to token lies on the device, and the whole pass is one launch. It serves decoders with a norm
//! before each part, whose weights are dense, of one dtype, and as they are computed in; adapters are computed beside them.
//! Everything else goes the ordinary way.

use std::{cell::RefCell, fmt};

use candle_core::{DType, Tensor};

use super::{Block, Decoder, KvCache, KvCaches, Linear, RmsNorm};
use crate::{
    Result,
    arch::layers::LinearParts,
    ops::kernels::{
        self, Kernel,
        cuda::{
            graph::Repeated,
            next_token::{
                self as kernel, ABSENT, TokenAdapter, TokenAttention, TokenBuffers, TokenLinear,
                TokenNorm,
            },
        },
    },
    profile,
};

/// What reads one token after another into one cache, or a token of each text into several.
pub(in crate::arch) struct NextToken {
    layers: Vec<Layer>,
    norm: TokenNorm,
    /// The table [v, d] that tokens are looked up in, and the head.
    embedding: Tensor,
    embedding_scale: f64,
    head: Tensor,
    final_soft_cap: Option<f64>,
    /// The most tokens of a text.
    capacity: usize,
    buffers: TokenBuffers,
    launches: RefCell<Repeated<()>>,
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
        let pass = cache.next_token.take();
        let Some((pass, scores)) = self.read_by(pass, &[Some(token)], &mut [&mut *cache])? else {
            return Ok(None);
        };
        cache.next_token = Some(pass);
        Ok(Some(scores.get(0)?))
    }

    /// The same of a token of each text that has one; nothing where one of them has to be read the ordinary way.
    pub(super) fn next_tokens(
        &self,
        tokens: &[Option<u32>],
        caches: &mut KvCaches,
    ) -> Result<Option<Vec<Option<Tensor>>>> {
        let mut each = caches.iter().zip(tokens);
        let are_served = each.all(|(cache, token)| {
            token.is_none_or(|it| {
                self.serves_next_token(cache) && (it as usize) < self.config.vocab_size
            })
        });
        if !are_served || tokens.len() > kernel::TEXTS {
            return Ok(None);
        }
        let pass = caches.shared_pass.take();
        let mut each: Vec<&mut KvCache> = caches.iter_mut().collect();
        for (cache, _) in each
            .iter_mut()
            .zip(tokens)
            .filter(|(_, token)| token.is_some())
        {
            // It read a prompt of one token, and would keep buffers alive that the text outgrows.
            cache.next_token = None;
        }
        let Some((pass, scores)) = self.read_by(pass, tokens, &mut each)? else {
            return Ok(None);
        };
        caches.shared_pass = Some(pass);
        let of_text = |(text, token): (usize, &Option<u32>)| token.map(|_| Ok(scores.get(text)?));
        let each = tokens.iter().enumerate().map(of_text);
        each.map(Option::transpose).collect::<Result<_>>().map(Some)
    }

    /// Reads tokens by a pass that did so before, if it is still of these caches, or by another. Returns it, and the scores [n, v].
    fn read_by(
        &self,
        pass: Option<Box<NextToken>>,
        tokens: &[Option<u32>],
        caches: &mut [&mut KvCache],
    ) -> Result<Option<(Box<NextToken>, Tensor)>> {
        let mut state = Vec::new();
        for (token, cache) in tokens.iter().zip(caches.iter_mut()) {
            state.extend([token.unwrap_or(ABSENT), cache.tokens() as u32]);
            if token.is_some() {
                cache.make_room(1)?;
            }
        }
        let pass = match pass {
            Some(pass) if pass.is_of(tokens, caches) => pass,
            outgrown => {
                drop(outgrown);
                match NextToken::new(self, tokens, caches)? {
                    Some(pass) => Box::new(pass),
                    None => return Ok(None),
                }
            }
        };
        let profiled = profile::operation("one token by its own kernels");
        let read = tokens.iter().flatten().count();
        profile::computed(|| [2.0 * (read as u64 * self.config.parameters()) as f64, 0.0]);
        let scores = pass.read(&state)?;
        drop(profiled);
        for (token, cache) in tokens.iter().zip(caches) {
            if let Some(token) = token {
                cache.count(&[*token]);
            }
        }
        Ok(Some((pass, scores)))
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
            && self.has_dense_weights()
    }
}

impl NextToken {
    /// A pass over this decoder's weights and these caches, of which those with a token have room for it.
    fn new(
        decoder: &Decoder,
        tokens: &[Option<u32>],
        caches: &[&mut KvCache],
    ) -> Result<Option<Self>> {
        let config = &decoder.config;
        let dtype = decoder.compute_dtype;
        let read = tokens
            .iter()
            .zip(caches)
            .filter(|(token, _)| token.is_some());
        let capacity = read.map(|(_, cache)| cache.room().1).max().unwrap_or(0);
        let Some(angles) = decoder.angles(capacity)? else {
            return Ok(None);
        };
        let mut layers = Vec::new();
        for (index, block) in decoder.blocks.iter().enumerate() {
            let buffers = tokens.iter().zip(caches).map(|(token, cache)| {
                let (keys, values) = cache.buffers(index).filter(|_| token.is_some())?;
                Some((keys.clone(), values.clone()))
            });
            let Some(layer) = Layer::new(block, dtype, &angles, buffers.collect())? else {
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
            capacity,
            buffers: TokenBuffers::new(
                caches.len(),
                config.hidden_size,
                heads,
                sizes,
                dtype,
                &decoder.device,
            )?,
            launches: RefCell::new(Repeated::New),
        }))
    }

    /// Whether it reads these tokens into the buffers that their caches have now.
    fn is_of(&self, tokens: &[Option<u32>], caches: &[&mut KvCache]) -> bool {
        let mut texts = tokens.iter().zip(caches).enumerate();
        texts.all(|(text, (token, cache))| {
            let mut layers = self.layers.iter().enumerate();
            let mut is_own = || {
                layers.all(|(index, layer)| {
                    let own = layer.attention.caches.get(text).and_then(Option::as_ref);
                    own.zip(cache.buffers(index))
                        .is_some_and(|(own, (keys, values))| {
                            (own.0.id(), own.1.id()) == (keys.id(), values.id())
                        })
                })
            };
            token.is_none() || cache.room().1 <= self.capacity && is_own()
        })
    }

    /// Reads a token and its position of each text. Returns the scores [n, v] of the next.
    fn read(&self, now: &[u32]) -> Result<Tensor> {
        let state = &self.buffers.state;
        let device = state.device().clone();
        kernel::put(now, state)?;
        let mut launches = self.launches.borrow_mut();
        launches.go(&device, || self.launch())?;
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
        caches: Vec<Option<(Tensor, Tensor)>>,
    ) -> Result<Option<Self>> {
        let (attention, fed) = (&block.attention, &block.feed_forward);
        let linears = |linears: &mut dyn Iterator<Item = &Linear>| -> Result<Option<Vec<_>>> {
            linears.map(|it| linear(it, dtype)).collect()
        };
        let (Some(projections), Some(inputs), Some(ends)) = (
            linears(&mut attention.input.iter())?,
            linears(&mut fed.input.iter())?,
            linears(&mut [&attention.output, &fed.down].into_iter())?,
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
                caches,
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
