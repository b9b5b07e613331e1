//! One layer of a decoder: attention and feed-forward, with the norms around them.

use candle_core::Tensor;

use super::{Builder, LayerCache, LayerKind, Linear, Projections, RmsNorm};
use crate::{
    Error, Result,
    ops::{
        attention::{Scoring, Spans, attention},
        elementwise::{add, reshape},
        feed_forward::{Along, feed_forward},
        gated::{Activation, gated, gated_joined},
        linear::stacked_linear,
        rope::{Rotation, rope, turned_heads},
        weight::{Converted, Stacked},
    },
    parameters::{Parameter, Parameters},
    tape::{Tape, Value},
};

/// One layer.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) kind: LayerKind,
    pub(super) input_norm: RmsNorm,
    pub(super) attention: Attention,
    pub(super) post_attention_norm: Option<RmsNorm>,
    pub(super) feed_forward_norm: RmsNorm,
    pub(super) feed_forward: FeedForward,
    pub(super) post_feed_forward_norm: Option<RmsNorm>,
}

#[derive(Debug, Clone)]
pub(super) struct Attention {
    pub(super) heads: usize,
    pub(super) key_heads: usize,
    pub(super) head_dim: usize,
    pub(super) scoring: Scoring,
    pub(super) input: Projections,
    pub(super) output: Linear,
    pub(super) qk_norms: Option<(RmsNorm, RmsNorm)>,
}

#[derive(Debug, Clone)]
pub(super) struct FeedForward {
    pub(super) width: usize,
    pub(super) activation: Activation,
    pub(super) input: Projections,
    pub(super) down: Linear,
}

/// What all layers of one pass share.
#[derive(Clone)]
pub(super) struct Shared {
    /// One rotation for each of the model's ropes.
    pub(super) rotations: Vec<Rotation>,
    /// The spans of each window that occurs, by window: of all rows together, or of each row that has a cache of its own.
    pub(super) spans: Vec<(Option<usize>, Vec<Spans>)>,
    /// Where keys and values of the tokens [t] go in the buffers of a cache, where that is said on the device.
    #[cfg(feature = "cuda")]
    pub(super) places: Option<Tensor>,
}

impl Block {
    pub(super) fn new(kind: LayerKind, mut builder: Builder) -> Result<Self> {
        // The same name means the norm before feed-forward in most families, and the one after attention in others.
        let input_norm = builder.norm("input_layernorm")?;
        let after_attention = builder.norm("post_attention_layernorm")?;
        let (post_attention_norm, feed_forward_norm, post_feed_forward_norm) =
            match builder.config.post_norms {
                false => (None, after_attention, None),
                true => {
                    let before = builder.norm("pre_feedforward_layernorm")?;
                    let after = builder.norm("post_feedforward_layernorm")?;
                    (Some(after_attention), before, Some(after))
                }
            };
        Ok(Self {
            kind,
            input_norm,
            attention: Attention::new(builder.at("self_attn"))?,
            post_attention_norm,
            feed_forward_norm,
            feed_forward: FeedForward::new(builder.at("mlp"))?,
            post_feed_forward_norm,
        })
    }

    pub(super) fn forward(
        &self,
        tape: Option<&Tape>,
        x: &Value,
        shared: &Shared,
        caches: &mut [&mut LayerCache],
        stacked: Option<&Stacked>,
    ) -> Result<Value> {
        let attended = self.input_norm.forward(tape, x)?;
        let attended = self
            .attention
            .forward(tape, &attended, self.kind, shared, caches, stacked)?;
        let attended = apply(&self.post_attention_norm, tape, attended)?;
        let x = add(x, &attended)?;
        let fed = self.feed_forward_norm.forward(tape, &x)?;
        let fed = self.feed_forward.forward(tape, &fed, stacked)?;
        let fed = apply(&self.post_feed_forward_norm, tape, fed)?;
        add(&x, &fed)
    }

    /// The matrices of the layer, where a GPU converts them for its products at once.
    pub(super) fn stacked(&self, x: &Value) -> Option<Stacked> {
        let attention = self.attention.input.iter().chain([&self.attention.output]);
        let all = attention.chain(self.feed_forward.linears());
        let weights = all.filter_map(Linear::plain).map(Parameter::tensor);
        Stacked::of(weights.collect(), x.tensor())
    }

    /// Has layers of one input be computed by one product with their adapters, where a device does that.
    pub(super) fn join(&mut self, parameters: &mut Parameters) -> Result<()> {
        // Heads with norms come one by one.
        if self.attention.qk_norms.is_none() {
            self.attention.input.join(parameters)?;
        }
        self.feed_forward.input.join(parameters)
    }
}

impl Attention {
    pub(super) fn new(mut builder: Builder) -> Result<Self> {
        let config = builder.config;
        let names: &[&str] = match config.fused_projections {
            true => &["qkv_proj"],
            false => &["q_proj", "k_proj", "v_proj"],
        };
        let input = builder.projections(names, config.qkv_bias && !config.fused_projections)?;
        let output = builder.onto_sum("o_proj", config.output_bias)?;
        let mut norm = |name: &str| builder.rms_norm(name, config.head_dim);
        let qk_norms = match config.qk_norm {
            true => Some((norm("q_norm")?, norm("k_norm")?)),
            false => None,
        };
        Ok(Self {
            heads: config.num_attention_heads,
            key_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            scoring: config.scoring,
            input,
            output,
            qk_norms,
        })
    }

    /// x [b, t, d] -> [b, t, d]. All rows have one cache, or each its own.
    pub(super) fn forward(
        &self,
        tape: Option<&Tape>,
        x: &Value,
        kind: LayerKind,
        shared: &Shared,
        caches: &mut [&mut LayerCache],
        stacked: Option<&Stacked>,
    ) -> Result<Value> {
        let rotation = kind.rope.map(|index| &shared.rotations[index]);
        let [q, k, v] = match self.joined(tape, x, rotation, stacked)? {
            Some(parts) => parts,
            None => self.apart(tape, x, rotation, stacked)?,
        };
        let spans = shared
            .spans
            .iter()
            .find(|(window, _)| *window == kind.window)
            .map(|(_, spans)| spans.as_slice());
        let y = match (spans, caches) {
            (Some([spans]), []) => attention(&q, &k, &v, spans, self.scoring)?,
            #[cfg(feature = "cuda")]
            (Some([spans]), [cache]) if let Some(places) = &shared.places => {
                let (k, v) = cache.put(k.tensor(), v.tensor(), places)?;
                let [k, v] = [k, v].map(Value::constant);
                attention(&q, &k, &v, spans, self.scoring)?
            }
            (Some([spans]), [cache]) => {
                self.attend(q.tensor(), k.tensor(), v.tensor(), spans, cache)?
            }
            (Some(spans), caches) if spans.len() == caches.len() => {
                let mut ys = Vec::new();
                for (row, (spans, cache)) in spans.iter().zip(caches).enumerate() {
                    let [q, k, v] = [&q, &k, &v].map(|it| it.tensor().narrow(0, row, 1));
                    ys.push(self.attend(&q?, &k?, &v?, spans, cache)?);
                }
                let ys: Vec<&Tensor> = ys.iter().map(Value::tensor).collect();
                Value::constant(Tensor::cat(&ys, 0)?)
            }
            (spans, caches) => {
                let (spans, caches) = (spans.map_or(0, <[_]>::len), caches.len());
                let problem = format!("a layer has {spans} spans for {caches} caches");
                return Err(Error::Data(problem));
            }
        };
        self.output.forward(tape, &join_heads(&y)?, stacked)
    }

    /// Queries, keys and values of x by one product, where they are turned as they come out of it, or not at all: [b, t, d] -> [b, t, h, e]
    /// each. What else is computed of them would be kept beside them.
    fn joined(
        &self,
        tape: Option<&Tape>,
        x: &Value,
        rotation: Option<&Rotation>,
        stacked: Option<&Stacked>,
    ) -> Result<Option<[Value; 3]>> {
        let is_whole = |it: &Rotation| it.turns_packs(self.head_dim);
        if self.qk_norms.is_some() || !rotation.is_none_or(is_whole) {
            return Ok(None);
        }
        let stacked = stacked.and_then(|it| self.input.converted(tape, it));
        let all = match stacked {
            Some((weights, biases)) => Some(stacked_linear(x, &weights, &biases)?),
            None => self.input.joined(tape, x)?,
        };
        let heads = [self.heads, self.key_heads, self.key_heads];
        all.map(|all| turned_heads(&all, heads, self.head_dim, rotation))
            .transpose()
    }

    /// The same, each by its own product, with the norms of queries and keys.
    fn apart(
        &self,
        tape: Option<&Tape>,
        x: &Value,
        rotation: Option<&Rotation>,
        stacked: Option<&Stacked>,
    ) -> Result<[Value; 3]> {
        let (width, key_width) = (self.heads * self.head_dim, self.key_heads * self.head_dim);
        let widths = [width, key_width, key_width];
        let [q, k, v] = self.input.forward(tape, x, widths, stacked)?;
        let mut q = split_heads(&q, self.heads, self.head_dim)?;
        let mut k = split_heads(&k, self.key_heads, self.head_dim)?;
        let v = split_heads(&v, self.key_heads, self.head_dim)?;
        if let Some((q_norm, k_norm)) = &self.qk_norms {
            (q, k) = (q_norm.forward(tape, &q)?, k_norm.forward(tape, &k)?);
        }
        if let Some(rotation) = rotation {
            (q, k) = (rope(&q, rotation)?, rope(&k, rotation)?);
        }
        Ok([q, k, v])
    }

    /// Rows that follow what a cache holds, which holds them as well afterwards: q [b, t, h, e], k and v [b, t, k, e] -> [b, t, h, e].
    fn attend(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        spans: &Spans,
        cache: &mut LayerCache,
    ) -> Result<Value> {
        let (keys, values) = cache.append(k, v)?;
        let [q, k, v] = [q.clone(), keys, values].map(Value::constant);
        attention(&q, &k, &v, spans, self.scoring)
    }
}

impl FeedForward {
    pub(super) fn new(mut builder: Builder) -> Result<Self> {
        let config = builder.config;
        let names: &[&str] = match config.fused_projections {
            true => &["gate_up_proj"],
            false => &["gate_proj", "up_proj"],
        };
        Ok(Self {
            width: config.intermediate_size,
            activation: config.activation,
            input: builder.projections(names, config.mlp_bias && !config.fused_projections)?,
            down: builder.onto_sum("down_proj", config.mlp_bias)?,
        })
    }

    /// x [b, t, d] -> [b, t, d].
    pub(super) fn forward(
        &self,
        tape: Option<&Tape>,
        x: &Value,
        stacked: Option<&Stacked>,
    ) -> Result<Value> {
        if let Some([up, down]) = stacked.and_then(|it| self.converted(tape, it)) {
            return feed_forward(x, &up, &down, self.activation, Along::Last);
        }
        let gated = match self.input.joined(tape, x)? {
            Some(both) => gated_joined(&both, self.activation)?,
            None => {
                let [gate, up] = self.input.forward(tape, x, [self.width; 2], stacked)?;
                gated(&gate, &up, self.activation)?
            }
        };
        self.down.forward(tape, &gated, stacked)
    }

    /// Gate and up below each other, and down, where all are converted and nothing is added to what comes out of them.
    fn converted(&self, tape: Option<&Tape>, stacked: &Stacked) -> Option<[Converted; 2]> {
        let (both, biases) = self.input.converted(tape, stacked)?;
        let down = self.down.converted(tape, stacked)?;
        biases.is_empty().then_some([both, down])
    }

    /// Gate and up, or both in one, and down.
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.input.iter().chain([&self.down])
    }
}

fn apply(norm: &Option<RmsNorm>, tape: Option<&Tape>, x: Value) -> Result<Value> {
    norm.as_ref()
        .map_or(Ok(x.clone()), |norm| norm.forward(tape, &x))
}

/// [b, t, h·e] -> [b, t, h, e].
fn split_heads(x: &Value, heads: usize, head_dim: usize) -> Result<Value> {
    let (b, t, _) = x.tensor().dims3()?;
    reshape(x, &[b, t, heads, head_dim])
}

/// [b, t, h, e] -> [b, t, h·e].
fn join_heads(x: &Value) -> Result<Value> {
    let (b, t, h, e) = x.tensor().dims4()?;
    reshape(x, &[b, t, h * e])
}
