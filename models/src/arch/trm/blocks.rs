//! f: the one stack of blocks by which both states are improved.
//!
//! Letters in shapes: b rows, l places, d width, h heads, e width of a head. Blocks of attention work on [b, l, d], blocks that
//! multiply along the sequence on [l, b, d]: then that product is one for all rows, and nothing is turned in memory.

use candle_core::DType;

use super::config::{TrmConfig, weight};
use crate::{
    Error, Result,
    arch::kv_cache::KvCache,
    ops::{
        attention::{Scoring, Spans, attention},
        elementwise::{add, reshape},
        feed_forward::{Along, feed_forward},
        gated::Activation,
        linear::linear,
        norm::residual_norm,
        rope::{Rotation, rope},
        weight::Converted,
    },
    parameters::Parameters,
    tape::{Tape, Value},
};

/// Where each place is, and which others it sees.
#[derive(Clone)]
pub(super) struct Places {
    pub(super) spans: Spans,
    /// Where places are known by turns.
    pub(super) rotation: Option<Rotation>,
}

/// Keys and values of what was read before, and the first of the layers of the cache that are those of this use of the stack.
pub(super) type Read<'a> = Option<(&'a mut KvCache, usize)>;

/// The weights of the stack in the dtype that is computed in: converted once, however often a step uses them.
pub(super) struct Stack {
    blocks: Vec<Block>,
    epsilon: f64,
    heads: usize,
    head_width: usize,
}

struct Block {
    mix: Mix,
    mlp: Gate,
}

enum Mix {
    /// Queries, keys, values, output.
    Attention([Converted; 4]),
    Sequence(Gate),
}

/// SwiGLU: W_down (silu(W_gate x) ⊙ W_up x), with the first two in one.
struct Gate {
    up: Converted,
    down: Converted,
}

/// The weight of this name.
pub(super) fn named(parameters: &Parameters, name: &str, tape: Option<&Tape>) -> Result<Value> {
    let missing = || Error::Data(format!("`{name}` is missing from the model"));
    Ok(parameters.get(name).ok_or_else(missing)?.on(tape))
}

impl Stack {
    /// The stack of a model of this shape.
    pub(super) fn bind(
        config: &TrmConfig,
        parameters: &Parameters,
        dtype: DType,
        tape: Option<&Tape>,
    ) -> Result<Self> {
        let get = |layer, part, name| {
            Converted::new(&named(parameters, &weight(layer, part, name), tape)?, dtype)
        };
        let gate = |layer, part| -> Result<Gate> {
            Ok(Gate {
                up: get(layer, part, "gate_up_proj")?,
                down: get(layer, part, "down_proj")?,
            })
        };
        let width = config.num_heads * config.head_width();
        let block = |layer| -> Result<Block> {
            let mix = match config.mlp_t {
                true => Mix::Sequence(gate(layer, "mlp_t")?),
                false => {
                    let all = get(layer, "self_attn", "qkv_proj")?;
                    let part = |at: usize| all.rows(at * width, width);
                    let output = get(layer, "self_attn", "o_proj")?;
                    Mix::Attention([part(0)?, part(1)?, part(2)?, output])
                }
            };
            Ok(Block {
                mix,
                mlp: gate(layer, "mlp")?,
            })
        };
        Ok(Self {
            blocks: (0..config.l_layers).map(block).collect::<Result<_>>()?,
            epsilon: config.rms_norm_eps,
            heads: config.num_heads,
            head_width: config.head_width(),
        })
    }

    /// The same weights, of which nobody wants a gradient.
    pub(super) fn constant(&self) -> Self {
        let gate = |it: &Gate| Gate {
            up: it.up.constant(),
            down: it.down.constant(),
        };
        let block = |it: &Block| Block {
            mix: match &it.mix {
                Mix::Attention(weights) => {
                    Mix::Attention(weights.each_ref().map(|it| it.constant()))
                }
                Mix::Sequence(weights) => Mix::Sequence(gate(weights)),
            },
            mlp: gate(&it.mlp),
        };
        Self {
            blocks: self.blocks.iter().map(block).collect(),
            ..*self
        }
    }

    /// f(state + beside).
    pub(super) fn improve(&self, state: &Value, beside: &Value, places: &Places) -> Result<Value> {
        self.run(&add(state, beside)?, places, None)
    }

    /// f(x). With what was read before, places see that too.
    pub(super) fn run(&self, x: &Value, places: &Places, mut read: Read) -> Result<Value> {
        let norm = |x: &Value, branch: &Value, along| residual_norm(x, branch, along, self.epsilon);
        let mut x = x.clone();
        for (index, block) in self.blocks.iter().enumerate() {
            x = match &block.mix {
                Mix::Sequence(weights) => {
                    norm(&x, &weights.apply(&x, Along::First)?, Along::First)?
                }
                Mix::Attention(weights) => {
                    let read = read
                        .as_mut()
                        .map(|(cache, first)| (&mut **cache, *first + index));
                    let branch = self.attend(&x, weights, places, read)?;
                    norm(&x, &branch, Along::Last)?
                }
            };
            let branch = block.mlp.apply(&x, Along::Last)?;
            x = norm(&x, &branch, Along::Last)?;
        }
        Ok(x)
    }

    fn attend(
        &self,
        x: &Value,
        [q, k, v, output]: &[Converted; 4],
        places: &Places,
        read: Read,
    ) -> Result<Value> {
        let (rows, length, _) = x.tensor().dims3()?;
        let (heads, width) = (self.heads, self.head_width);
        let project = |weight: &Converted, turns: bool| {
            let y = reshape(&linear(x, weight, None)?, &[rows, length, heads, width])?;
            match &places.rotation {
                Some(rotation) if turns => rope(&y, rotation),
                _ => Ok(y),
            }
        };
        let scoring = Scoring {
            scale: 1.0 / (width as f64).sqrt(),
            soft_cap: None,
        };
        let (q, mut k, mut v) = (project(q, true)?, project(k, true)?, project(v, false)?);
        if let Some((cache, layer)) = read {
            let (keys, values) = cache.layer(layer).append(k.tensor(), v.tensor())?;
            (k, v) = (Value::constant(keys), Value::constant(values));
        }
        let y = attention(&q, &k, &v, &places.spans, scoring)?;
        linear(&reshape(&y, &[rows, length, heads * width])?, output, None)
    }
}

impl Gate {
    fn apply(&self, x: &Value, along: Along) -> Result<Value> {
        feed_forward(x, &self.up, &self.down, Activation::Silu, along)
    }
}
