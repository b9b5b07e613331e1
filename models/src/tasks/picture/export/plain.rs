//! A network without norms, as other programs compute it fastest: the numbers of each norm are in the weights of the convolution before
//! it, what scores are divided by is in the head, and what pixels are normalised with is said beside it.
//!
//! With the mean m, the variance v, the weight g and the bias e of a norm, y = g (W x - m)/√(v + ε) + e is a convolution with the
//! weights s W and the bias e - s m, where s = g/√(v + ε). Where a pool of largest numbers lies between, it is the same as long as no
//! s is below 0.
//!
//! Letters: n pictures, h and w height and width, c channels, v classes.

use candle_core::{DType, Device, Tensor};

use crate::{
    Error, Result,
    arch::picture::{Layer, Network, Step, Then},
    ops::{
        convolution::{Geometry, convolution},
        elementwise::{activate, add, reshape, turn},
        linear::linear,
        pool::{max_pool, mean_pool},
    },
    tape::Value,
    tasks::picture::{classifier::Classifier, pixels::Shape},
};

/// A step, and the steps it reads. They are counted from 1; 0 is the picture, normalised.
#[derive(Debug, Clone)]
pub(super) struct PlainStep {
    pub(super) from: Vec<usize>,
    pub(super) what: Plain,
}

/// What a step does.
#[derive(Debug, Clone)]
pub(super) enum Plain {
    /// With the weights [o, c, k, k] and the bias [o].
    Convolution {
        weight: Tensor,
        bias: Tensor,
        geometry: Geometry,
    },
    /// The sum of two steps.
    Add,
    Activation(Then),
    MaxPool(Geometry),
    MeanPool,
    /// Channel by channel.
    Flatten,
    /// With the weights [o, d] and the bias [o].
    Linear {
        weight: Tensor,
        bias: Tensor,
    },
}

/// A network without norms.
#[derive(Debug, Clone)]
pub(super) struct Net {
    pub(super) shape: Shape,
    /// For each channel, of values from 0 to 1.
    pub(super) mean: Vec<f32>,
    pub(super) std: Vec<f32>,
    pub(super) steps: Vec<PlainStep>,
    pub(super) classes: Vec<String>,
}

/// That of each channel, of numbers of which one stands for all.
pub(super) fn of_channels(numbers: &[f32], channels: usize, otherwise: f32) -> Vec<f32> {
    let of = |channel| numbers.get(channel).or(numbers.last());
    let of = |channel| of(channel).copied().unwrap_or(otherwise);
    (0..channels).map(of).collect()
}

impl Net {
    pub(super) fn of(classifier: &Classifier) -> Result<Self> {
        let about = classifier.about();
        let network = classifier.network();
        let shape = about.view.shape;
        let mut folding = Folding {
            network,
            steps: Vec::new(),
            place: vec![0],
        };
        for (at, step) in (1..).zip(network.steps()) {
            folding.take(at, step)?;
        }
        let mut steps = folding.steps;
        if let Some(PlainStep {
            what: Plain::Linear { weight, bias },
            ..
        }) = steps.last_mut()
        {
            let factor = 1.0 / about.temperature;
            (*weight, *bias) = (weight.affine(factor, 0.0)?, bias.affine(factor, 0.0)?);
        } else {
            return Err(Error::Data(
                "the network does not end with a product, so nothing can be written of it"
                    .to_owned(),
            ));
        }
        Ok(Self {
            shape,
            mean: of_channels(&about.view.mean, shape.channels, 0.0),
            std: of_channels(&about.view.std, shape.channels, 1.0),
            steps,
            classes: about.classes.clone(),
        })
    }

    /// The scores [n, v] of pictures in bytes.
    pub(super) fn scores(&self, pictures: &[&[u8]]) -> Result<Tensor> {
        let Shape {
            height,
            width,
            channels,
        } = self.shape;
        let number = |(at, byte): (usize, &u8)| {
            let channel = at % channels;
            (f32::from(*byte) / 255.0 - self.mean[channel]) / self.std[channel]
        };
        let numbers = pictures.iter().flat_map(|it| it.iter().enumerate());
        let numbers: Vec<f32> = numbers.map(number).collect();
        let dims = (pictures.len(), height, width, channels);
        let mut values = vec![Value::constant(Tensor::from_vec(
            numbers,
            dims,
            &Device::Cpu,
        )?)];
        for step in &self.steps {
            let value = |at: usize| {
                let from = step.from.get(at).and_then(|it| values.get(*it));
                from.ok_or_else(|| Error::Data("a step reads what was not written".to_owned()))
            };
            let x = value(0)?;
            values.push(match &step.what {
                Plain::Convolution {
                    weight,
                    bias,
                    geometry,
                } => {
                    let [weight, bias] = [weight, bias].map(|it| Value::constant(it.clone()));
                    convolution(x, &weight, Some(&bias), *geometry)?
                }
                Plain::Add => add(x, value(1)?)?,
                Plain::Activation(then) => activate(x, *then)?,
                Plain::MaxPool(window) => max_pool(x, *window)?,
                Plain::MeanPool => mean_pool(x)?,
                Plain::Flatten => {
                    let turned = turn(x, [0, 3, 1, 2])?;
                    let count = turned.tensor().elem_count() / pictures.len().max(1);
                    reshape(&turned, &[pictures.len(), count])?
                }
                Plain::Linear { weight, bias } => {
                    let [weight, bias] = [weight, bias].map(|it| Value::constant(it.clone()));
                    linear(x, &weight, Some(&bias))?
                }
            });
        }
        let scores = values.pop().map(|it| it.tensor().clone());
        scores.ok_or_else(|| Error::Data("a network without steps".to_owned()))
    }
}

/// A network on its way to be a plain one.
struct Folding<'a> {
    network: &'a Network,
    steps: Vec<PlainStep>,
    /// The plain step that writes what each step of the network writes.
    place: Vec<usize>,
}

impl Folding<'_> {
    fn push(&mut self, from: Vec<usize>, what: Plain) -> usize {
        self.steps.push(PlainStep { from, what });
        self.steps.len()
    }

    fn numbers(&self, name: &str, what: &str) -> Result<Tensor> {
        let name = format!("{name}.{what}");
        let parameter = self.network.parameters().get(&name);
        let missing = || Error::Data(format!("the network has no weight `{name}`"));
        let tensor = parameter.ok_or_else(missing)?.tensor();
        Ok(tensor.to_dtype(DType::F32)?.to_device(&Device::Cpu)?)
    }

    /// The bias of a layer, or nothing for each output.
    fn bias(&self, name: &str, has: bool, outputs: usize) -> Result<Tensor> {
        match has {
            true => self.numbers(name, "bias"),
            false => Ok(Tensor::zeros(outputs, DType::F32, &Device::Cpu)?),
        }
    }

    /// Takes step number `at`.
    fn take(&mut self, at: usize, step: &Step) -> Result<()> {
        let from = self.place[step.from];
        let written = match &step.layer {
            Layer::Convolution {
                name,
                out,
                geometry,
                bias,
                ..
            } => {
                let weight = self.numbers(name, "weight")?;
                let bias = self.bias(name, *bias, *out)?;
                let geometry = *geometry;
                let convolution = Plain::Convolution {
                    weight,
                    bias,
                    geometry,
                };
                self.push(vec![from], convolution)
            }
            Layer::Norm {
                name,
                add,
                then,
                epsilon,
                ..
            } => {
                self.fold(at, step.from, name, *epsilon)?;
                let mut last = from;
                if let Some(add) = add {
                    last = self.push(vec![last, self.place[*add]], Plain::Add);
                }
                if *then != Then::Nothing {
                    last = self.push(vec![last], Plain::Activation(*then));
                }
                last
            }
            Layer::MaxPool(window) => self.push(vec![from], Plain::MaxPool(*window)),
            Layer::MeanPool => self.push(vec![from], Plain::MeanPool),
            Layer::Flatten => self.push(vec![from], Plain::Flatten),
            Layer::Activation(Then::Nothing) => from,
            Layer::Activation(then) => self.push(vec![from], Plain::Activation(*then)),
            Layer::Linear {
                name,
                out,
                bias,
                scale,
            } => {
                let weight = self.numbers(name, "weight")?.affine(*scale, 0.0)?;
                let bias = self.bias(name, *bias, *out)?.affine(*scale, 0.0)?;
                self.push(vec![from], Plain::Linear { weight, bias })
            }
            Layer::Tokens
            | Layer::LayerNorm { .. }
            | Layer::Attention { .. }
            | Layer::Add(_)
            | Layer::ClassToken => {
                return Err(Error::Data(
                    "the network is a ViT, and of those only safetensors are written here: attention and layer norms are not known to \
                     this format’s writer"
                        .to_owned(),
                ));
            }
        };
        self.place.push(written);
        Ok(())
    }

    /// Puts the numbers of a norm, which is step `at` and reads `read`, into the convolution before it.
    fn fold(&mut self, at: usize, read: usize, name: &str, epsilon: f64) -> Result<()> {
        let numbers = |what: &str| -> Result<Vec<f64>> {
            Ok(self.numbers(name, what)?.to_dtype(DType::F64)?.to_vec1()?)
        };
        let (weight, variance) = (numbers("weight")?, numbers("running_var")?);
        let (bias, mean) = (numbers("bias")?, numbers("running_mean")?);
        let scales = weight.iter().zip(&variance);
        let scales = scales.map(|(weight, variance)| weight / (variance + epsilon).sqrt());
        let scales: Vec<f64> = scales.collect();
        let cannot = || {
            Error::Data(format!(
                "the norm `{name}` follows no convolution that it could be put into, so nothing can be written of the network"
            ))
        };
        let mut place = read;
        if let Some(Step {
            from,
            layer: Layer::MaxPool(_),
        }) = self.network.steps().get(place.wrapping_sub(1))
        {
            self.check_read_once(place, at).ok_or_else(cannot)?;
            if scales.iter().any(|it| *it < 0.0) {
                return Err(cannot());
            }
            self.check_read_once(*from, place).ok_or_else(cannot)?;
            place = *from;
        } else {
            self.check_read_once(place, at).ok_or_else(cannot)?;
        }
        let step = self.place.get(place).and_then(|it| it.checked_sub(1));
        let step = step.and_then(|it| self.steps.get_mut(it));
        let Some(PlainStep {
            what:
                Plain::Convolution {
                    weight: kernel,
                    bias: kept,
                    ..
                },
            ..
        }) = step
        else {
            return Err(cannot());
        };
        let before: Vec<f64> = kept.to_dtype(DType::F64)?.to_vec1()?;
        let offset = |at: usize| bias[at] + scales[at] * (before[at] - mean[at]);
        let offsets: Vec<f64> = (0..scales.len()).map(offset).collect();
        let count = scales.len();
        let scales = Tensor::from_vec(scales, (count, 1, 1, 1), &Device::Cpu)?;
        let wide = kernel.to_dtype(DType::F64)?.broadcast_mul(&scales)?;
        *kernel = wide.to_dtype(DType::F32)?;
        *kept = Tensor::from_vec(offsets, count, &Device::Cpu)?.to_dtype(DType::F32)?;
        Ok(())
    }

    /// Whether step `reader` is the only one that reads step `at`.
    fn check_read_once(&self, at: usize, reader: usize) -> Option<()> {
        let reads = |step: &Step| step.reads().any(|it| it == at);
        let mut readers = (1..)
            .zip(self.network.steps())
            .filter(|(_, step)| reads(step));
        let is_only = readers.next().is_some_and(|it| it.0 == reader) && readers.next().is_none();
        is_only.then_some(())
    }
}
