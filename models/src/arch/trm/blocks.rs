//! f: the one stack of blocks by which both states are improved.
//!
//! Letters in shapes: b rows, l places, d width, h heads, e width of a head.

use candle_core::{DType, Device, Tensor};

use super::config::{TrmConfig, weight};
use crate::{
    Error, Result,
    arch::kv_cache::KvCache,
    ops::{
        attention::{Scoring, Spans, attention},
        elementwise::{add, convert, narrow, reshape, transpose},
        gated::{Activation, gated},
        linear::linear,
        norm::rms_norm,
        rope::{Rotation, rope},
    },
    parameters::Parameters,
    tape::{Tape, Value},
};

/// Ones for the norm, which has no weight.
#[derive(Clone)]
pub(super) struct Ones {
    by_width: Value,
    /// Along the sequence, where blocks multiply along it.
    by_length: Option<Value>,
}

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
    ones: Ones,
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
    Attention([Value; 4]),
    Sequence(Gate),
}

struct Gate {
    gate: Value,
    up: Value,
    down: Value,
}

impl Ones {
    pub(super) fn new(config: &TrmConfig, device: &Device) -> Result<Self> {
        let ones = |width| -> Result<Value> {
            Ok(Value::constant(Tensor::ones(width, DType::F32, device)?))
        };
        Ok(Self {
            by_width: ones(config.hidden_size)?,
            by_length: config.mlp_t.then(|| ones(config.places())).transpose()?,
        })
    }
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
        ones: &Ones,
        dtype: DType,
        tape: Option<&Tape>,
    ) -> Result<Self> {
        let get = |layer, part, name| {
            convert(&named(parameters, &weight(layer, part, name), tape)?, dtype)
        };
        let gate = |layer, part| -> Result<Gate> {
            let both = get(layer, part, "gate_up_proj")?;
            let inner = both.tensor().dim(0)? / 2;
            Ok(Gate {
                gate: narrow(&both, 0, 0, inner)?,
                up: narrow(&both, 0, inner, inner)?,
                down: get(layer, part, "down_proj")?,
            })
        };
        let block = |layer| -> Result<Block> {
            let mix = match config.mlp_t {
                true => Mix::Sequence(gate(layer, "mlp_t")?),
                false => {
                    let all = get(layer, "self_attn", "qkv_proj")?;
                    let width = all.tensor().dim(0)? / 3;
                    let part = |at: usize| narrow(&all, 0, at * width, width);
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
            ones: ones.clone(),
            epsilon: config.rms_norm_eps,
            heads: config.num_heads,
            head_width: config.head_width(),
        })
    }

    /// The same weights, of which nobody wants a gradient.
    pub(super) fn constant(&self) -> Self {
        let of = |value: &Value| Value::constant(value.tensor().clone());
        let gate = |it: &Gate| Gate {
            gate: of(&it.gate),
            up: of(&it.up),
            down: of(&it.down),
        };
        let block = |it: &Block| Block {
            mix: match &it.mix {
                Mix::Attention(weights) => Mix::Attention(weights.each_ref().map(of)),
                Mix::Sequence(weights) => Mix::Sequence(gate(weights)),
            },
            mlp: gate(&it.mlp),
        };
        Self {
            blocks: self.blocks.iter().map(block).collect(),
            ones: self.ones.clone(),
            ..*self
        }
    }

    /// f(state + beside): [b, l, d].
    pub(super) fn improve(&self, state: &Value, beside: &Value, places: &Places) -> Result<Value> {
        self.run(&add(state, beside)?, places, None)
    }

    /// f(x): [b, l, d]. With what was read before, places see that too.
    pub(super) fn run(&self, x: &Value, places: &Places, mut read: Read) -> Result<Value> {
        let by_width = &self.ones.by_width;
        let mut x = x.clone();
        for (index, block) in self.blocks.iter().enumerate() {
            x = match (&block.mix, &self.ones.by_length) {
                (Mix::Sequence(weights), Some(by_length)) => {
                    let y = transpose(&x)?;
                    let y = add(&y, &weights.apply(&y)?)?;
                    transpose(&rms_norm(&y, by_length, 0.0, self.epsilon)?)?
                }
                (Mix::Sequence(_), None) => {
                    let problem = "blocks multiply along a sequence whose length isn’t known";
                    return Err(Error::Data(problem.to_owned()));
                }
                (Mix::Attention(weights), _) => {
                    let read = read
                        .as_mut()
                        .map(|(cache, first)| (&mut **cache, *first + index));
                    let y = self.attend(&x, weights, places, read)?;
                    rms_norm(&add(&x, &y)?, by_width, 0.0, self.epsilon)?
                }
            };
            x = rms_norm(
                &add(&x, &block.mlp.apply(&x)?)?,
                by_width,
                0.0,
                self.epsilon,
            )?;
        }
        Ok(x)
    }

    fn attend(
        &self,
        x: &Value,
        [q, k, v, output]: &[Value; 4],
        places: &Places,
        read: Read,
    ) -> Result<Value> {
        let (rows, length, _) = x.tensor().dims3()?;
        let (heads, width) = (self.heads, self.head_width);
        let project = |weight: &Value, turns: bool| {
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
    /// SwiGLU: W_down (silu(W_gate x) ⊙ W_up x).
    fn apply(&self, x: &Value) -> Result<Value> {
        let (gate, up) = (linear(x, &self.gate, None)?, linear(x, &self.up, None)?);
        linear(&gated(&gate, &up, Activation::Silu)?, &self.down, None)
    }
}
