//! Tiny Recursive Models: two small states that one stack of blocks improves again and again (Jolicoeur-Martineau, 2025,
//! <https://arxiv.org/abs/2510.04871>).
//!
//! With the embedded puzzle x, the answer z_H and the thoughts z_L, one step of thinking is H cycles; a cycle is n times
//! z_L ← f(z_L + z_H + x), then z_H ← f(z_H + z_L). Only the last cycle is learned from. f is the same for both: blocks of
//! attention, or of a product along the sequence, each followed by SwiGLU, with the norm after each sum and no weight in it.
//! Names of settings and weights are those of the reference, so that its files can be read.
//!
//! Letters in shapes: b puzzles, s cells, p places before them, l = p + s, d width, v symbols, h heads, e width of a head.
//!
//! Deliberately absent: when thinking ends, and what is learned from it (`tasks::puzzle`).

mod config;

use candle_core::{D, DType, Device, Tensor};

use self::config::weight;
use super::{WeightRequest, Weights};
use crate::{
    Error, Result,
    ops::{
        attention::{Scoring, Spans, attention},
        classify::{classify, probabilities, yes_or_no},
        elementwise::{add, convert, join, narrow, pad, reshape, scale, transpose},
        embedding::embedding,
        gated::{Activation, gated},
        linear::linear,
        norm::rms_norm,
        rope::{Rope, RopeScaling, Rotation, rope},
    },
    parameters::{Parameter, Parameters},
    tape::{Tape, Value},
};

pub use self::config::{Positions, TrmConfig};
pub use crate::ops::classify::Squash;

/// The table of learned vectors, one for each puzzle.
pub const PUZZLES: &str = "puzzle_emb.weights";
const SYMBOLS: &str = "embed_tokens.embedding_weight";
const PLACES: &str = "embed_pos.embedding_weight";
const HEAD: &str = "lm_head.weight";
const HALT: &str = "q_head.weight";
const HALT_BIAS: &str = "q_head.bias";
const ANSWER: &str = "H_init";
const THOUGHTS: &str = "L_init";

/// The cycles of a step of thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycles {
    /// H: answer cycles.
    pub answer: usize,
    /// n: thought cycles in each.
    pub thought: usize,
}

/// What is carried from one step of thinking to the next: [b, l, d] each.
#[derive(Debug, Clone)]
pub struct State {
    /// z_H: the answer.
    pub answer: Tensor,
    /// z_L: the thoughts.
    pub thoughts: Tensor,
}

/// What a step of thinking says.
pub struct Thought {
    /// What is carried on. It has no gradient.
    pub state: State,
    /// The scores of the symbols: [b, s, v].
    pub scores: Value,
    /// How much it wants to halt: [b], f32. Above 0 is yes.
    pub halt: Value,
}

/// What a step of thinking should have said.
pub struct Truth<'a> {
    /// The symbol of each cell: [b, s], u32.
    pub classes: &'a Tensor,
    /// How much each cell counts: [b, s], f32.
    pub weights: &'a Tensor,
    /// How much of each label is shared among all symbols.
    pub smoothing: f64,
    /// Whether the answer is right, so that it should halt: [b], f32, 1 or 0.
    pub is_right: &'a Tensor,
    /// How much halting counts.
    pub halting_weight: f64,
}

impl Thought {
    /// How probable each symbol is in each cell: [b, s, v].
    pub fn probabilities(&self, squash: Squash) -> Result<Tensor> {
        probabilities(self.scores.tensor(), squash)
    }

    /// How far it is from the truth: the loss of the cells and that of halting, each weighed.
    pub fn loss(&self, truth: &Truth, squash: Squash) -> Result<Value> {
        let (count, symbols) = (
            truth.classes.elem_count(),
            self.scores.tensor().dim(D::Minus1)?,
        );
        let cells = classify(
            &reshape(&self.scores, &[count, symbols])?,
            &truth.classes.flatten_all()?,
            &truth.weights.flatten_all()?,
            squash,
            truth.smoothing,
        )?;
        add(
            &cells,
            &yes_or_no(&self.halt, truth.is_right, truth.halting_weight)?,
        )
    }
}

/// A model with its weights.
pub struct Trm {
    config: TrmConfig,
    parameters: Parameters,
    /// What is computed in.
    dtype: DType,
    device: Device,
    /// The cycles of a step now, where they are not those of the shape.
    cycles: Option<Cycles>,
    /// The turns of all places, where blocks know places so.
    rotation: Option<Rotation>,
    /// Ones for the norm, which has no weight: [d] and [l].
    ones: [Value; 2],
}

/// The weights of a step, in the dtype that is computed in: converted once, however often a step uses them.
struct Bound {
    blocks: Vec<Block>,
    spans: Spans,
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

impl Trm {
    /// A model whose weights come from `weights`.
    pub fn new(
        config: TrmConfig,
        weights: &mut dyn Weights,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        config.check()?;
        let mut parameters = Parameters::default();
        for (name, shape, initial) in config.weights() {
            let request = WeightRequest {
                name: &name,
                shape: &shape,
                initial,
            };
            let tensor = weights.tensor(&request)?;
            // The first states are drawn once, and never learned.
            let learns = name != ANSWER && name != THOUGHTS;
            let parameter = Parameter::new(&name, &tensor, learns)?;
            parameters.insert(match name.as_str() {
                SYMBOLS | PLACES | PUZZLES => parameter.as_embedding(),
                HEAD | HALT => parameter.as_head(),
                _ => parameter,
            });
        }
        let ones = |width| -> Result<Value> {
            Ok(Value::constant(Tensor::ones(width, DType::F32, device)?))
        };
        let turns = config.pos_encodings == Positions::Rope && !config.mlp_t;
        let rotation = turns.then(|| {
            let all: Vec<u32> = (0..config.places() as u32).collect();
            let rope = Rope::new(config.head_width(), config.rope_theta, &RopeScaling::None);
            rope.rotation(&all, 1, device)
        });
        Ok(Self {
            rotation: rotation.transpose()?,
            ones: [ones(config.hidden_size)?, ones(config.places())?],
            cycles: None,
            config,
            parameters,
            dtype,
            device: device.clone(),
        })
    }

    /// Its shape.
    pub fn config(&self) -> &TrmConfig {
        &self.config
    }

    /// Thinks with other cycles than those of its shape, until it is told otherwise.
    pub fn set_cycles(&mut self, cycles: Option<Cycles>) {
        self.cycles = cycles;
    }

    /// Its weights.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// What is computed in.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What puzzles are thought about with at first: [b, l, d].
    pub fn first_state(&self, rows: usize) -> Result<State> {
        let shape = (rows, self.config.places(), self.config.hidden_size);
        let of = |name| -> Result<Tensor> {
            let vector = self.weight(name, None)?.tensor().to_dtype(self.dtype)?;
            Ok(vector.broadcast_as(shape)?.contiguous()?)
        };
        Ok(State {
            answer: of(ANSWER)?,
            thoughts: of(THOUGHTS)?,
        })
    }

    /// x: puzzles `cells` [b, s] (u32) of the kinds `puzzles` [b] (u32) -> [b, l, d].
    pub fn embed(&self, tape: Option<&Tape>, cells: &Tensor, puzzles: &Tensor) -> Result<Value> {
        let config = &self.config;
        let (rows, d) = (cells.dim(0)?, config.hidden_size);
        let mut x = embedding(&self.weight(SYMBOLS, tape)?, cells)?;
        if config.puzzle_emb_ndim > 0 {
            let own = embedding(&self.weight(PUZZLES, tape)?, puzzles)?;
            let places = config.puzzle_places();
            let own = pad(&own, places * d)?;
            let own = reshape(&own, &[rows, places, d])?;
            x = join(&own, &x)?;
        }
        if config.pos_encodings == Positions::Learned {
            let all = Tensor::arange(0, config.places() as u32, &self.device)?;
            let all = all.unsqueeze(0)?.broadcast_as((rows, config.places()))?;
            let places = embedding(&self.weight(PLACES, tape)?, &all.contiguous()?)?;
            x = scale(&add(&x, &places)?, std::f64::consts::FRAC_1_SQRT_2)?;
        }
        scale(&convert(&x, self.dtype)?, (d as f64).sqrt())
    }

    /// One step of thinking about x [b, l, d]. Only the last cycle is on the tape.
    pub fn think(&self, tape: Option<&Tape>, state: &State, x: &Value) -> Result<Thought> {
        let bound = self.bind(tape, x.tensor().dim(0)?)?;
        let silent = bound.constant();
        let constant_x = Value::constant(x.tensor().clone());
        let mut answer = Value::constant(state.answer.clone());
        let mut thoughts = Value::constant(state.thoughts.clone());
        let own = Cycles {
            answer: self.config.h_cycles,
            thought: self.config.l_cycles,
        };
        let cycles = self.cycles.unwrap_or(own);
        for cycle in 1..=cycles.answer {
            let is_last = cycle == cycles.answer;
            let (bound, x) = match is_last {
                true => (&bound, x),
                false => (&silent, &constant_x),
            };
            for _ in 0..cycles.thought {
                let beside = add(&answer, x)?;
                thoughts = self.improve(bound, &thoughts, &beside)?;
            }
            answer = self.improve(bound, &answer, &thoughts)?;
        }
        let config = &self.config;
        let cells = narrow(&answer, 1, config.puzzle_places(), config.seq_len)?;
        let head = convert(&self.weight(HEAD, tape)?, self.dtype)?;
        let first = narrow(&answer, 1, 0, 1)?;
        let rows = first.tensor().dim(0)?;
        let first = reshape(&first, &[rows, config.hidden_size])?;
        let halt = linear(
            &first,
            &convert(&self.weight(HALT, tape)?, self.dtype)?,
            Some(&convert(&self.weight(HALT_BIAS, tape)?, self.dtype)?),
        )?;
        let halt = narrow(&convert(&halt, DType::F32)?, D::Minus1, 0, 1)?;
        Ok(Thought {
            scores: linear(&cells, &head, None)?,
            halt: reshape(&halt, &[rows])?,
            state: State {
                answer: answer.tensor().clone(),
                thoughts: thoughts.tensor().clone(),
            },
        })
    }

    /// f(state + beside).
    fn improve(&self, bound: &Bound, state: &Value, beside: &Value) -> Result<Value> {
        let [by_width, by_length] = &self.ones;
        let epsilon = self.config.rms_norm_eps;
        let mut x = add(state, beside)?;
        for block in &bound.blocks {
            x = match &block.mix {
                Mix::Attention(weights) => {
                    let y = self.attend(&x, weights, bound)?;
                    rms_norm(&add(&x, &y)?, by_width, 0.0, epsilon)?
                }
                Mix::Sequence(weights) => {
                    let y = transpose(&x)?;
                    let y = rms_norm(&add(&y, &weights.apply(&y)?)?, by_length, 0.0, epsilon)?;
                    transpose(&y)?
                }
            };
            x = rms_norm(&add(&x, &block.mlp.apply(&x)?)?, by_width, 0.0, epsilon)?;
        }
        Ok(x)
    }

    fn attend(&self, x: &Value, [q, k, v, output]: &[Value; 4], bound: &Bound) -> Result<Value> {
        let (rows, places, _) = x.tensor().dims3()?;
        let (heads, width) = (self.config.num_heads, self.config.head_width());
        let project = |weight: &Value, turns: bool| {
            let y = reshape(&linear(x, weight, None)?, &[rows, places, heads, width])?;
            match &self.rotation {
                Some(rotation) if turns => rope(&y, rotation),
                _ => Ok(y),
            }
        };
        let scoring = Scoring {
            scale: 1.0 / (width as f64).sqrt(),
            soft_cap: None,
        };
        let (q, k, v) = (project(q, true)?, project(k, true)?, project(v, false)?);
        let y = attention(&q, &k, &v, &bound.spans, scoring)?;
        linear(&reshape(&y, &[rows, places, heads * width])?, output, None)
    }

    fn bind(&self, tape: Option<&Tape>, rows: usize) -> Result<Bound> {
        let config = &self.config;
        let places = config.places();
        let get = |layer, part, name| {
            convert(&self.weight(&weight(layer, part, name), tape)?, self.dtype)
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
        Ok(Bound {
            blocks: (0..config.l_layers).map(block).collect::<Result<_>>()?,
            spans: Spans::full(rows, places),
        })
    }

    fn weight(&self, name: &str, tape: Option<&Tape>) -> Result<Value> {
        let missing = || Error::Data(format!("`{name}` is missing from the model"));
        Ok(self.parameters.get(name).ok_or_else(missing)?.on(tape))
    }
}

impl Bound {
    /// The same weights, of which nobody wants a gradient.
    fn constant(&self) -> Self {
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
            spans: self.spans.clone(),
        }
    }
}

impl Gate {
    /// SwiGLU: W_down (silu(W_gate x) ⊙ W_up x).
    fn apply(&self, x: &Value) -> Result<Value> {
        let (gate, up) = (linear(x, &self.gate, None)?, linear(x, &self.up, None)?);
        linear(&gated(&gate, &up, Activation::Silu)?, &self.down, None)
    }
}
