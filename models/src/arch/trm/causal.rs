//! A Tiny Recursive Model that reads from left to right: a language model whose states are improved again and again.
//!
//! It is the model of the module above, with weights of the same names, without puzzles' vectors and places before the cells,
//! and with causal attention: what is thought of a token depends on it and on what came before it alone. So the keys and
//! values of a token, one pair for each layer of each use of the stack, are all that later tokens need of it, and the
//! states of earlier tokens are never computed again. The cache has H · (n + 1) · layers entries for each step of thinking.
//!
//! With several steps of thinking, each is learned from, and begins where the one before it ended; the last one writes. All of
//! them are always thought, by every token anew: when to halt is not learned.
//!
//! Deliberately absent: blocks that multiply along the sequence, which would see later tokens; the head that says when to
//! halt, whose weights are kept for the sake of the file alone.
//!
//! Letters in shapes: b rows, t tokens, d width, v vocabulary.

mod config;

use candle_core::{DType, Device, Tensor};

use super::{
    ANSWER, HALT, HALT_BIAS, HEAD, PLACES, SYMBOLS, THOUGHTS,
    blocks::{Places, Stack, named},
};
use crate::{
    Error, Result,
    arch::{WeightRequest, Weights, decoder::Input, kv_cache::KvCache, trm::config::Positions},
    ops::{
        attention::Spans,
        cross_entropy::head_cross_entropy,
        elementwise::{add, convert, scale},
        embedding::embedding,
        kernels::Kernel,
        linear::{Term, project},
        rope::{Rope, RopeScaling},
    },
    parameters::{Parameter, Parameters},
    tape::{Tape, Value},
};

pub use config::{CausalTrmConfig, MODEL_TYPE, unread};

/// A recursive language model with its weights. Cheap to clone, since clones share the weights.
#[derive(Clone)]
pub struct CausalTrm {
    config: CausalTrmConfig,
    parameters: Parameters,
    /// What is computed in.
    dtype: DType,
    device: Device,
    /// How queries and keys turn, where tokens know their places so.
    rope: Option<Rope>,
}

impl CausalTrm {
    /// A model whose weights come from `weights`; `trainable` says whether training may change them.
    pub fn new(
        config: CausalTrmConfig,
        weights: &mut dyn Weights,
        trainable: bool,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let shape = config.trm();
        let mut parameters = Parameters::default();
        for (name, dims, initial) in shape.weights() {
            let request = WeightRequest {
                name: &name,
                shape: &dims,
                initial,
            };
            let tensor = weights.tensor(&request)?;
            // The first states are drawn once, and nothing here halts.
            let learns = ![ANSWER, THOUGHTS, HALT, HALT_BIAS].contains(&name.as_str());
            let parameter = Parameter::new(&name, &tensor, trainable && learns)?;
            parameters.insert(match name.as_str() {
                SYMBOLS | PLACES => parameter.as_embedding(),
                HEAD | HALT => parameter.as_head(),
                _ => parameter,
            });
        }
        let turns = shape.pos_encodings == Positions::Rope;
        let rope = || Rope::new(shape.head_width(), shape.rope_theta, &RopeScaling::None);
        Ok(Self {
            rope: turns.then(rope),
            config,
            parameters,
            dtype,
            device: device.clone(),
        })
    }

    /// Its shape.
    pub fn config(&self) -> &CausalTrmConfig {
        &self.config
    }

    /// Its weights by name.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Where it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// An empty cache for this model.
    pub fn new_cache(&self) -> KvCache {
        KvCache::new(self.config.cached_layers(), self.config.context())
    }

    /// The answers [b, t, d] after each step of thinking. Of every step, only the last cycle is on the tape.
    ///
    /// With a cache, the tokens continue what it has seen, and it sees them too. With `gradient_checkpointing`, a recorded pass
    /// keeps one activation for each use of the stack and computes the rest again in backward.
    pub fn hidden(
        &self,
        tape: Option<&Tape>,
        input: Input,
        mut cache: Option<&mut KvCache>,
        gradient_checkpointing: bool,
    ) -> Result<Vec<Value>> {
        let past = cache.as_ref().map_or(0, |cache| cache.tokens());
        let (x, places) = self.prepare(tape, input, past)?;
        let shape = self.config.trm();
        let stack = Stack::bind(shape, &self.parameters, self.dtype, tape)?;
        let silent = stack.constant();
        let constant_x = Value::constant(x.tensor().clone());
        let mut answer = self.first(ANSWER, x.tensor())?;
        let mut thoughts = self.first(THOUGHTS, x.tensor())?;
        let mut uses = 0;
        let mut answers = Vec::new();
        let mut improve = |learns: bool, state: &Value, beside: &Value| -> Result<Value> {
            let x = add(state, beside)?;
            let read = cache.as_deref_mut().map(|it| (it, uses * shape.l_layers));
            uses += 1;
            match tape {
                Some(tape) if learns && gradient_checkpointing => {
                    let (model, places) = (self.clone(), places.clone());
                    tape.checkpoint(&x, move |tape, x| {
                        let shape = model.config.trm();
                        let weights = &model.parameters;
                        Stack::bind(shape, weights, model.dtype, Some(tape))?.run(x, &places, None)
                    })
                }
                _ if learns => stack.run(&x, &places, read),
                _ => silent.run(&x, &places, read),
            }
        };
        for _ in 0..shape.halt_max_steps {
            for cycle in 1..=shape.h_cycles {
                let learns = cycle == shape.h_cycles;
                let x = if learns { &x } else { &constant_x };
                let beside = add(&answer, x)?;
                for _ in 0..shape.l_cycles {
                    thoughts = improve(learns, &thoughts, &beside)?;
                }
                answer = improve(learns, &answer, &thoughts)?;
            }
            answers.push(answer.clone());
            // The next step goes on from here, and learns by itself.
            answer = Value::constant(answer.tensor().clone());
            thoughts = Value::constant(thoughts.tensor().clone());
        }
        if let (Some(cache), 1) = (cache, input.rows) {
            cache.remember(input.tokens);
        }
        Ok(answers)
    }

    /// The loss of predicting `targets` [b · t] from the answers of all steps: their mean. See [`head_cross_entropy`].
    pub fn loss(
        &self,
        tape: Option<&Tape>,
        answers: &[Value],
        targets: &[u32],
        tokens: f64,
    ) -> Result<Value> {
        let head = named(&self.parameters, HEAD, tape)?;
        let steps = answers.len() as f64;
        let of = |answer| head_cross_entropy(answer, &head, targets, None, tokens * steps);
        let (first, rest) = answers
            .split_first()
            .ok_or_else(|| Error::Data("there is no step of thinking to learn from".to_owned()))?;
        rest.iter()
            .try_fold(of(first)?, |sum, answer| add(&sum, &of(answer)?))
    }

    /// Scores for the next token, in f32: answers [n, d] -> [n, v].
    pub fn logits(&self, answer: &Tensor) -> Result<Tensor> {
        let head = named(&self.parameters, HEAD, None)?;
        let terms = [Term::new(answer, head.tensor())];
        Ok(project(Kernel::Linear, &terms, None)?.to_dtype(DType::F32)?)
    }

    /// Scores [v] for the token after these, which continue what the cache has seen.
    pub fn next_logits(&self, tokens: &[u32], cache: &mut KvCache) -> Result<Tensor> {
        let answers = self.hidden(None, Input::new(tokens, 1), Some(cache), false)?;
        let last = answers.last().map(Value::tensor);
        let last = last.ok_or_else(|| Error::Data("nothing was thought".to_owned()))?;
        let last = last.narrow(1, tokens.len() - 1, 1)?.squeeze(0)?;
        Ok(self.logits(&last.contiguous()?)?.squeeze(0)?)
    }

    /// One of the first states for all places of x [b, t, d].
    fn first(&self, name: &str, x: &Tensor) -> Result<Value> {
        let vector = named(&self.parameters, name, None)?;
        let vector = vector.tensor().to_dtype(self.dtype)?;
        Ok(Value::constant(
            vector.broadcast_as(x.shape())?.contiguous()?,
        ))
    }

    /// x [b, t, d], and where its places are.
    fn prepare(&self, tape: Option<&Tape>, input: Input, past: usize) -> Result<(Value, Places)> {
        let Input { tokens, rows, .. } = input;
        let length = input.row_length(self.config.vocab_size())?;
        let counted: Vec<u32> = (0..rows)
            .flat_map(|_| past as u32..(past + length) as u32)
            .collect();
        let positions = input.positions.unwrap_or(&counted);
        let context = self.config.context();
        if let Some(beyond) = positions.iter().find(|it| **it as usize >= context) {
            let problem = format!("place {beyond} is beyond the {context} that the model can see");
            return Err(Error::Data(problem));
        }
        let spans = match input.documents {
            Some(documents) => Spans::documents(rows, documents, None),
            None => Spans::causal(rows, length, past, None),
        };
        let rope = self.rope.as_ref();
        let rotation = rope.map(|rope| rope.rotation(positions, rows, &self.device));
        let shape = self.config.trm();
        let on_device = |numbers| Tensor::from_slice(numbers, (rows, length), &self.device);
        let table = named(&self.parameters, SYMBOLS, tape)?;
        let mut x = embedding(&table, &on_device(tokens)?)?;
        if shape.pos_encodings == Positions::Learned {
            let table = named(&self.parameters, PLACES, tape)?;
            let places = embedding(&table, &on_device(positions)?)?;
            x = scale(&add(&x, &places)?, std::f64::consts::FRAC_1_SQRT_2)?;
        }
        let x = scale(&convert(&x, self.dtype)?, (shape.hidden_size as f64).sqrt())?;
        let places = Places {
            spans,
            rotation: rotation.transpose()?,
        };
        Ok((x, places))
    }
}

impl std::fmt::Debug for CausalTrm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CausalTrm")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
