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
//! `causal` is the form of it that reads from left to right, for text.
//!
//! Deliberately absent: when thinking ends, and what is learned from it (`tasks::puzzle`).

mod blocks;
mod causal;
mod config;

use candle_core::{D, DType, Device, Tensor};

use self::blocks::{Places, Stack, named};
use super::{WeightRequest, Weights};
use crate::{
    Result,
    ops::{
        attention::Spans,
        classify::{classify, probabilities, yes_or_no},
        elementwise::{add, convert, join, narrow, pad, reshape, scale, swap},
        embedding::embedding,
        linear::linear,
        rope::{Rope, RopeScaling, Rotation},
    },
    parameters::{Parameter, Parameters},
    tape::{Tape, Value},
};

pub use self::{
    causal::{CausalTrm, CausalTrmConfig, MODEL_TYPE, unread},
    config::{Positions, TrmConfig},
};
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

/// A model with its weights. A clone has the same.
#[derive(Clone)]
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
        let turns = config.pos_encodings == Positions::Rope && !config.mlp_t;
        let rotation = turns.then(|| {
            let all: Vec<u32> = (0..config.places() as u32).collect();
            let rope = Rope::new(config.head_width(), config.rope_theta, &RopeScaling::None);
            rope.rotation(&all, 1, device)
        });
        Ok(Self {
            rotation: rotation.transpose()?,
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

    /// The same model, which thinks with other cycles than those of its shape.
    pub fn with_cycles(&self, cycles: Option<Cycles>) -> Self {
        Self {
            cycles,
            ..self.clone()
        }
    }

    /// The cycles of a step.
    pub fn cycles(&self) -> Cycles {
        self.cycles.unwrap_or(Cycles {
            answer: self.config.h_cycles,
            thought: self.config.l_cycles,
        })
    }

    /// What the places of so many puzzles see: all of their own.
    pub fn spans(&self, rows: usize) -> Spans {
        Spans::full(rows, self.config.places())
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

    /// One step of thinking about x [b, l, d] with its [`Trm::spans`], which several steps can share. Only the last cycle is on the
    /// tape.
    pub fn think(
        &self,
        tape: Option<&Tape>,
        state: &State,
        x: &Value,
        spans: &Spans,
    ) -> Result<Thought> {
        let config = &self.config;
        let stack = Stack::bind(config, &self.parameters, self.dtype, tape)?;
        let silent = stack.constant();
        let places = Places {
            spans: spans.clone(),
            rotation: self.rotation.clone(),
        };
        // From here on to the scores, places come first where blocks multiply along them.
        let order = |x: &Value| match config.mlp_t {
            true => swap(x),
            false => Ok(x.clone()),
        };
        let x = &order(x)?;
        let constant_x = Value::constant(x.tensor().clone());
        let mut answer = order(&Value::constant(state.answer.clone()))?;
        let mut thoughts = order(&Value::constant(state.thoughts.clone()))?;
        let cycles = self.cycles();
        for cycle in 1..=cycles.answer {
            let is_last = cycle == cycles.answer;
            let (stack, x) = match is_last {
                true => (&stack, x),
                false => (&silent, &constant_x),
            };
            let beside = add(&answer, x)?;
            for _ in 0..cycles.thought {
                thoughts = stack.improve(&thoughts, &beside, &places)?;
            }
            answer = stack.improve(&answer, &thoughts, &places)?;
        }
        let along = usize::from(!config.mlp_t);
        let cells = narrow(&answer, along, config.puzzle_places(), config.seq_len)?;
        let head = convert(&self.weight(HEAD, tape)?, self.dtype)?;
        let scores = order(&linear(&cells, &head, None)?)?;
        let rows = scores.tensor().dim(0)?;
        let first = narrow(&answer, along, 0, 1)?;
        let first = reshape(&first, &[rows, config.hidden_size])?;
        let halt = linear(
            &first,
            &convert(&self.weight(HALT, tape)?, self.dtype)?,
            Some(&convert(&self.weight(HALT_BIAS, tape)?, self.dtype)?),
        )?;
        let halt = narrow(&convert(&halt, DType::F32)?, D::Minus1, 0, 1)?;
        Ok(Thought {
            scores,
            halt: reshape(&halt, &[rows])?,
            state: State {
                answer: order(&Value::constant(answer.tensor().clone()))?
                    .tensor()
                    .clone(),
                thoughts: order(&Value::constant(thoughts.tensor().clone()))?
                    .tensor()
                    .clone(),
            },
        })
    }

    fn weight(&self, name: &str, tape: Option<&Tape>) -> Result<Value> {
        named(&self.parameters, name, tape)
    }
}
