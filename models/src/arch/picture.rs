//! Networks that say what a picture shows: a list of steps, each of which reads what an earlier one wrote.
//!
//! The list is data, from which everything follows: what is computed forward, the shapes and so the memory, which weights there
//! are, and what a file for other programs has to say. `nets` and `vit` have the lists, by the names of the architectures; `weights` has
//! what their steps need.
//!
//! Letters: b pictures, h and w height and width, c channels, t tokens, d width of a token, v classes. Pictures are [b, h, w, c].
//!
//! Deliberately absent: pixels and how they are made into numbers, losses, and when running means and variances move.

mod nets;
mod vit;
mod weights;

use candle_core::{DType, Tensor};

pub use nets::{Architecture, NetConfig, Stem};
pub use vit::Transformer;
pub use weights::{Need, weights_of};

use self::weights::needs;
use super::{WeightRequest, Weights};
use crate::{
    Error, Result,
    ops::{
        batch_norm::{Moments, batch_norm, follow},
        convolution::{Geometry, convolution},
        elementwise::{activate, add, convert, narrow, reshape, scale, turn},
        linear::linear,
        norm::layer_norm,
        patches::with_class_token,
        pool::{max_pool, mean_pool},
    },
    parameters::{Parameter, Parameters},
    tape::{Tape, Value},
};

pub use crate::ops::batch_norm::Then;

/// One step of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The step whose output it reads, counted from 1. 0 is the picture.
    pub from: usize,
    /// What it does.
    pub layer: Layer,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Layer {
    /// A convolution, with the weights `name.weight` [out, c, k, k] and perhaps `name.bias` [out].
    Convolution {
        /// What its weights are called.
        name: String,
        /// Channels that it writes.
        out: usize,
        /// How it moves.
        geometry: Geometry,
        /// How it begins.
        begins: Begins,
        /// Whether a number is added for each channel.
        bias: bool,
    },
    /// Batch norm, with `name.weight`, `name.bias`, `name.running_mean` and `name.running_var`, all [c].
    Norm {
        /// What its weights are called.
        name: String,
        /// The step whose output is added before what follows.
        add: Option<usize>,
        /// What follows it.
        then: Then,
        /// What is added to the variance.
        epsilon: f64,
        /// What its weight begins with.
        begins: f64,
        /// Whether its weight learns.
        learns: bool,
    },
    /// The largest number of each window.
    MaxPool(Geometry),
    /// The mean of all places.
    MeanPool,
    /// All numbers of a picture in a row, channel by channel, as PyTorch has them.
    Flatten,
    /// A function of each number.
    Activation(Then),
    /// A product, with `name.weight` [out, d] and perhaps `name.bias` [out].
    Linear {
        /// What its weights are called.
        name: String,
        /// Numbers that it writes.
        out: usize,
        /// Whether a number is added for each output.
        bias: bool,
        /// What the outcome is multiplied with.
        scale: f64,
    },
    /// A map of patches as tokens, one that stands for the class before them, and what says where each is: with `cls_token` [1, 1, d]
    /// and `pos_embed` [1, t, d].
    Tokens,
    /// Layer norm of each token, with `name.weight` and `name.bias`, both [d].
    LayerNorm {
        /// What its weights are called.
        name: String,
        /// What is added to the variance.
        epsilon: f64,
    },
    /// Attention of all tokens to all, with `name.qkv.weight` [3d, d], `name.qkv.bias`, `name.proj.weight` [d, d] and
    /// `name.proj.bias`.
    Attention {
        /// What its weights are called.
        name: String,
        /// How many heads it has.
        heads: usize,
    },
    /// The sum with what another step wrote.
    Add(usize),
    /// The token that stands for the class.
    ClassToken,
}

impl Step {
    /// The steps whose outputs it reads.
    pub fn reads(&self) -> impl Iterator<Item = usize> {
        let also = match self.layer {
            Layer::Norm { add, .. } => add,
            Layer::Add(add) => Some(add),
            _ => None,
        };
        std::iter::once(self.from).chain(also)
    }
}

/// How the weights of a convolution begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// Evenly between ±1/√(inputs of an output), as PyTorch has it (He et al., 2015, with a = √5).
    Uniform,
    /// Normal numbers with the variance 2/(k k outputs), as torchvision has it.
    NormalByOutputs,
    /// As [`Begins::Uniform`], but the first channels pass the picture on as it is, as many as there are.
    Identity,
    /// By the pictures: [`Network::set`] gives it, and it does not learn.
    ByPictures,
}

/// The shape of what a step writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// [b, h, w, c].
    Picture([usize; 3]),
    /// One for the class and then one for each of h x w patches, [b, 1 + h w, d]: h, w and d.
    Tokens([usize; 3]),
    /// [b, d].
    Row(usize),
}

impl Written {
    /// Numbers for a picture.
    pub fn count(self) -> usize {
        match self {
            Self::Picture([height, width, channels]) => height * width * channels,
            Self::Tokens([height, width, numbers]) => (1 + height * width) * numbers,
            Self::Row(numbers) => numbers,
        }
    }

    /// The last dimension.
    pub fn channels(self) -> usize {
        match self {
            Self::Picture([_, _, channels]) | Self::Tokens([_, _, channels]) => channels,
            Self::Row(numbers) => numbers,
        }
    }
}

/// Whether batch norm takes its numbers from the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// From the batch, to learn.
    Batch,
    /// From the running means and variances, to be used, or to learn with them as they are.
    Running,
}

/// What a pass through a network said.
pub struct Output {
    /// The scores of the classes: [b, v], f32.
    pub scores: Value,
    /// Mean and variance of the batch at each norm, by its name: [2, c].
    pub moments: Vec<(String, Tensor)>,
}

/// A network with its weights.
pub struct Network {
    config: NetConfig,
    steps: Vec<Step>,
    written: Vec<Written>,
    parameters: Parameters,
    dtype: DType,
}

/// The fewest places of a map.
const MIN_PLACES: usize = 9;

/// The share of the batch in a running mean, as in PyTorch.
pub const MOMENTUM: f64 = 0.1;

impl Network {
    /// A network whose weights come from `weights`, and that computes in `dtype`.
    ///
    /// Errors: [`Error::Setting`] for pictures that are too small for it, and what `weights` says.
    pub fn new(config: NetConfig, weights: &mut dyn Weights, dtype: DType) -> Result<Self> {
        let steps = config.steps();
        let written = shapes(&config, &steps)?;
        let mut parameters = Parameters::default();
        for need in needs(&steps, &written) {
            let request = WeightRequest {
                name: &need.name,
                shape: &need.shape,
                initial: need.initial,
            };
            let tensor = weights.tensor(&request)?;
            let parameter = Parameter::new(&need.name, &tensor, need.learns)?;
            parameters.insert(match need.is_head {
                true => parameter.as_head(),
                false => parameter,
            });
        }
        Ok(Self {
            config,
            steps,
            written,
            parameters,
            dtype,
        })
    }

    /// What it was made by.
    pub fn config(&self) -> &NetConfig {
        &self.config
    }

    /// Its steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Its weights.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Gives a weight other numbers, also one that does not learn. They are written to where its numbers are: a recorded pass reads them
    /// there.
    ///
    /// Errors: [`Error::Data`] for one that is not there or has another shape.
    pub fn set(&mut self, name: &str, tensor: &Tensor) -> Result<()> {
        let known = self.parameters.get(name);
        let known = known.filter(|it| it.tensor().shape() == tensor.shape());
        let Some(known) = known else {
            return Err(Error::Data(format!(
                "`{name}` can’t take numbers of the shape {:?}",
                tensor.dims()
            )));
        };
        if known.trainable() {
            return known.assign(tensor);
        }
        let place = known.tensor();
        let tensor = tensor.to_dtype(place.dtype())?.to_device(place.device())?;
        Ok(place.slice_set(&tensor.contiguous()?, 0, 0)?)
    }

    /// Moves the running means and variances towards those of a batch of so many pictures, `share` of the way.
    pub fn follow(
        &mut self,
        moments: &[(String, Tensor)],
        pictures: usize,
        share: f64,
    ) -> Result<()> {
        for (name, now) in moments {
            let running = ["running_mean", "running_var"].map(|what| format!("{name}.{what}"));
            let [mean, variance] = [&running[0], &running[1]].map(|name| self.weight(name));
            let before = [&mean?.tensor(), &variance?.tensor()];
            let after = follow(before, now, pictures * self.places_of(name), share)?;
            for (name, after) in running.iter().zip(&after) {
                self.set(name, after)?;
            }
        }
        Ok(())
    }

    /// Scores of pictures [b, h, w, c].
    pub fn see(&self, tape: Option<&Tape>, pictures: &Tensor, mode: Mode) -> Result<Output> {
        let pictures = Value::constant(pictures.to_dtype(self.dtype)?);
        self.go_on(tape, 0, self.steps.len(), pictures, mode)
    }

    /// What a step wrote of pictures [b, h, w, c] that are not learned from. Steps are counted from 1.
    pub fn written(&self, step: usize, pictures: &Tensor) -> Result<Tensor> {
        let pictures = Value::constant(pictures.to_dtype(self.dtype)?);
        let seen = self.go_on(None, 0, step, pictures, Mode::Running)?;
        Ok(seen.scores.tensor().clone())
    }

    /// Scores, from what a step wrote that no later one passes by. Steps are counted from 1.
    pub fn scores_from(&self, tape: Option<&Tape>, step: usize, written: &Value) -> Result<Value> {
        let seen = self.go_on(tape, step, self.steps.len(), written.clone(), Mode::Running);
        Ok(seen?.scores)
    }

    /// The steps after one, up to another.
    fn go_on(
        &self,
        tape: Option<&Tape>,
        after: usize,
        last: usize,
        value: Value,
        mode: Mode,
    ) -> Result<Output> {
        let last_use = self.last_use();
        let mut values: Vec<Option<Value>> = vec![None; after];
        values.push(Some(value));
        let mut moments = Vec::new();
        for (at, step) in (1..).zip(&self.steps).take(last).skip(after) {
            let value = |at: usize| {
                let value = values.get(at).and_then(Option::as_ref);
                value.ok_or_else(|| Error::Data(format!("step {at} of the network wrote nothing")))
            };
            let x = value(step.from)?;
            let written = match &step.layer {
                Layer::Norm { name, add, .. } => {
                    let add = add.map(value).transpose()?;
                    let normalized = self.norm(tape, x, &step.layer, add, mode)?;
                    moments.extend(normalized.moments.map(|it| (name.clone(), it)));
                    normalized.value
                }
                Layer::Add(other) => add(x, value(*other)?)?,
                layer => self.layer(tape, x, layer)?,
            };
            values.push(Some(written));
            for (value, last) in values.iter_mut().zip(&last_use) {
                if *last == at {
                    *value = None;
                }
            }
        }
        let scores = values.pop().flatten();
        let scores = scores.ok_or_else(|| Error::Data("a network without steps".to_owned()))?;
        Ok(Output {
            scores: convert(&scores, DType::F32)?,
            moments,
        })
    }

    /// The step whose output shows best which places speak for a class: the last one that still has several of them, from which each
    /// reaches the scores, and that no later step passes by. Counted from 1.
    ///
    /// Of tokens, only that of the class reaches the scores after the last attention, so it is the step before that.
    pub fn map_step(&self) -> Option<usize> {
        let later = |at: usize| self.steps.get(at..).unwrap_or_default().iter();
        let passed_by = |at: usize| later(at).any(|step| step.reads().any(|it| it < at));
        let has_places = |at: usize| match self.written[at] {
            Written::Picture([height, width, _]) => height * width >= MIN_PLACES,
            Written::Tokens([height, width, _]) => {
                let is_mixed = |step: &Step| matches!(step.layer, Layer::Attention { .. });
                height * width >= MIN_PLACES && later(at).any(is_mixed)
            }
            Written::Row(_) => false,
        };
        (1..=self.steps.len())
            .rev()
            .find(|at| has_places(*at) && !passed_by(*at))
    }

    /// What a step wrote, or slopes of it, as a map [b, h, w, c]. The token of the class has no place.
    ///
    /// Errors: [`Error::Data`] for a step that writes none.
    pub fn as_map(&self, step: usize, written: &Tensor) -> Result<Tensor> {
        match self.written.get(step) {
            Some(Written::Picture(_)) => Ok(written.clone()),
            Some(Written::Tokens([height, width, _])) => {
                let patches = written.narrow(1, 1, height * width)?.contiguous()?;
                let (pictures, _, numbers) = patches.dims3()?;
                Ok(patches.reshape((pictures, *height, *width, numbers))?)
            }
            _ => Err(Error::Data(format!(
                "step {step} of the network writes no map"
            ))),
        }
    }

    /// The step that writes what the head reads, counted from 1, and how many numbers that is.
    pub fn feature_step(&self) -> Option<(usize, usize)> {
        let head = self.steps.last()?;
        Some((head.from, self.written.get(head.from)?.channels()))
    }

    /// The step after which each value is used no more. The last output stays.
    fn last_use(&self) -> Vec<usize> {
        let mut last = vec![0; self.steps.len() + 1];
        for (at, step) in (1..).zip(&self.steps) {
            step.reads().for_each(|read| last[read] = at);
        }
        last
    }

    /// Whether a weight is what a norm adds.
    pub fn is_norm_bias(&self, weight: &str) -> bool {
        let norm = weight.strip_suffix(".bias");
        let is_it = |step: &Step| matches!(&step.layer, Layer::Norm { name, .. } if Some(name.as_str()) == norm);
        norm.is_some() && self.steps.iter().any(is_it)
    }

    /// The names of its norms, in the order in which a pass reaches them.
    pub fn norms(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match &step.layer {
            Layer::Norm { name, .. } => Some(&name[..]),
            _ => None,
        })
    }

    fn weight(&self, name: &str) -> Result<&Parameter> {
        let missing = || Error::Data(format!("the network has no weight `{name}`"));
        self.parameters.get(name).ok_or_else(missing)
    }

    fn places_of(&self, norm: &str) -> usize {
        let is_it = |step: &Step| matches!(&step.layer, Layer::Norm { name, .. } if name == norm);
        let at = self.steps.iter().position(is_it).unwrap_or_default();
        let written = self.written[at + 1];
        written.count() / written.channels().max(1)
    }

    fn norm(
        &self,
        tape: Option<&Tape>,
        x: &Value,
        layer: &Layer,
        add: Option<&Value>,
        mode: Mode,
    ) -> Result<crate::ops::batch_norm::Normalized> {
        let Layer::Norm {
            name,
            then,
            epsilon,
            ..
        } = layer
        else {
            return Err(Error::Data("a norm that is none".to_owned()));
        };
        let weight = |what: &str| self.weight(&format!("{name}.{what}"));
        let (w, e) = (weight("weight")?.on(tape), weight("bias")?.on(tape));
        let running = [
            weight("running_mean")?.tensor(),
            weight("running_var")?.tensor(),
        ];
        let moments = match mode {
            Mode::Batch => Moments::OfBatch,
            Mode::Running => Moments::Given([&running[0], &running[1]]),
        };
        batch_norm(x, [&w, &e], moments, add, *then, *epsilon)
    }

    fn layer(&self, tape: Option<&Tape>, x: &Value, layer: &Layer) -> Result<Value> {
        let weight = |name: &str, what: &str| -> Result<Value> {
            Ok(self.weight(&format!("{name}.{what}"))?.on(tape))
        };
        let bias_of = |name: &str, bias: bool| bias.then(|| weight(name, "bias")).transpose();
        match layer {
            Layer::Convolution {
                name,
                geometry,
                bias,
                ..
            } => {
                let bias = bias_of(name, *bias)?;
                convolution(x, &weight(name, "weight")?, bias.as_ref(), *geometry)
            }
            Layer::MaxPool(window) => max_pool(x, *window),
            Layer::MeanPool => mean_pool(x),
            Layer::Activation(then) => activate(x, *then),
            Layer::Flatten => {
                let turned = turn(x, [0, 3, 1, 2])?;
                let (rows, count) = (x.tensor().dim(0)?, turned.tensor().elem_count());
                reshape(&turned, &[rows, count / rows.max(1)])
            }
            Layer::Linear {
                name,
                bias,
                scale: factor,
                ..
            } => {
                let bias = bias_of(name, *bias)?;
                let y = linear(x, &weight(name, "weight")?, bias.as_ref())?;
                if *factor == 1.0 {
                    Ok(y)
                } else {
                    scale(&y, *factor)
                }
            }
            Layer::Tokens => {
                let [class, positions] = [vit::CLASS_TOKEN, vit::POSITIONS];
                let [class, positions] = [self.weight(class)?, self.weight(positions)?];
                with_class_token(x, &class.on(tape), &positions.on(tape))
            }
            Layer::LayerNorm { name, epsilon } => {
                let (w, c) = (weight(name, "weight")?, weight(name, "bias")?);
                layer_norm(x, &w, &c, *epsilon)
            }
            Layer::Attention { name, heads } => {
                let of = |what: &str| -> Result<[Value; 2]> {
                    let name = format!("{name}.{what}");
                    Ok([weight(&name, "weight")?, weight(&name, "bias")?])
                };
                vit::attend(x, of("qkv")?, of("proj")?, *heads)
            }
            Layer::ClassToken => {
                let (rows, width) = (x.tensor().dim(0)?, x.tensor().dim(2)?);
                reshape(&narrow(x, 1, 0, 1)?, &[rows, width])
            }
            Layer::Norm { .. } | Layer::Add(_) => Err(Error::Data(
                "a step that reads two others was given one".to_owned(),
            )),
        }
    }
}

/// What each step writes, the picture first.
///
/// Errors: [`Error::Setting`] for pictures that are too small for it.
pub fn shapes(config: &NetConfig, steps: &[Step]) -> Result<Vec<Written>> {
    let [height, width] = config.sides;
    let mut written = vec![Written::Picture([height, width, config.channels])];
    for step in steps {
        let from = written[step.from];
        let moved = |geometry: &Geometry, channels| -> Result<Written> {
            let Written::Picture([height, width, _]) = from else {
                return Err(Error::Data("a convolution of no picture".to_owned()));
            };
            let too_small = |_| {
                let problem = format!(
                    "is for pictures that are larger than {} x {} pixels",
                    config.sides[1], config.sides[0]
                );
                Error::setting("net.architecture", problem)
            };
            let places = |side| geometry.places(side).map_err(too_small);
            Ok(Written::Picture([
                places(height)?,
                places(width)?,
                channels,
            ]))
        };
        written.push(match &step.layer {
            Layer::Convolution { out, geometry, .. } => moved(geometry, *out)?,
            Layer::MaxPool(window) => moved(window, from.channels())?,
            Layer::Norm { .. }
            | Layer::Activation(_)
            | Layer::LayerNorm { .. }
            | Layer::Attention { .. }
            | Layer::Add(_) => from,
            Layer::MeanPool | Layer::ClassToken => Written::Row(from.channels()),
            Layer::Flatten => Written::Row(from.count()),
            Layer::Linear { out, .. } => match from {
                Written::Tokens([height, width, _]) => Written::Tokens([height, width, *out]),
                Written::Picture(_) | Written::Row(_) => Written::Row(*out),
            },
            Layer::Tokens => match from {
                Written::Picture(patches) => Written::Tokens(patches),
                Written::Tokens(_) | Written::Row(_) => {
                    return Err(Error::Data("tokens of no picture".to_owned()));
                }
            },
        });
    }
    Ok(written)
}
