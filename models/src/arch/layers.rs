//! The layers architectures are made of: weights by checkpoint name, and the operation they go through.

use crate::{
    Error, Result,
    ops::{self, dropout::Dropout, elementwise::columns, lora::Adapter},
    parameters::{Parameter, Parameters},
    tape::{Tape, Value},
};

use super::{Initial, WeightRequest, Weights};

/// Asks a source for weights under a growing name, as they stand in the checkpoint.
pub struct Builder<'a> {
    weights: &'a mut dyn Weights,
    parameters: &'a mut Parameters,
    trainable: bool,
    prefix: String,
}

/// y = x Wᵀ + c, with an adapter if one was attached.
#[derive(Debug, Clone)]
pub struct Linear {
    weight: Parameter,
    bias: Option<Parameter>,
    adapter: Option<LinearAdapter>,
}

/// The low-rank adapter of one linear layer. See [`ops::lora`].
#[derive(Debug, Clone)]
pub struct LinearAdapter {
    pub(crate) a: Parameter,
    pub(crate) b: Parameter,
    pub(crate) scale: f64,
    pub(crate) dropout: f64,
}

/// Several projections of one input: one matrix each, or all in one.
#[derive(Debug, Clone)]
pub(crate) enum Projections {
    Separate(Vec<Linear>),
    Fused(Linear),
}

/// RMS norm over the last dimension.
#[derive(Debug, Clone)]
pub struct RmsNorm {
    weight: Parameter,
    offset: f64,
    epsilon: f64,
}

impl<'a> Builder<'a> {
    /// Takes weights from `weights` and notes each in `parameters`.
    pub fn new(
        weights: &'a mut dyn Weights,
        parameters: &'a mut Parameters,
        trainable: bool,
    ) -> Self {
        Self {
            weights,
            parameters,
            trainable,
            prefix: String::new(),
        }
    }

    /// The same source, for names that continue with `part`.
    pub fn at(&mut self, part: impl std::fmt::Display) -> Builder<'_> {
        let prefix = format!("{}{part}.", self.prefix);
        Builder {
            weights: self.weights,
            parameters: self.parameters,
            trainable: self.trainable,
            prefix,
        }
    }

    /// One weight.
    pub fn weight(&mut self, name: &str, shape: &[usize], initial: Initial) -> Result<Parameter> {
        let parameter = self.read(name, shape, initial)?;
        self.parameters.insert(parameter.clone());
        Ok(parameter)
    }

    /// A table [v, d] whose rows are looked up.
    pub fn embedding(
        &mut self,
        name: &str,
        shape: &[usize],
        initial: Initial,
    ) -> Result<Parameter> {
        let parameter = self.read(name, shape, initial)?.as_embedding();
        self.parameters.insert(parameter.clone());
        Ok(parameter)
    }

    fn read(&mut self, name: &str, shape: &[usize], initial: Initial) -> Result<Parameter> {
        let name = format!("{}{name}", self.prefix);
        let tensor = self.weights.tensor(&WeightRequest {
            name: &name,
            shape,
            initial,
        })?;
        Parameter::new(&name, &tensor, self.trainable)
    }

    /// A linear layer from `inputs` to `outputs` numbers.
    pub fn linear(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
        bias: bool,
        deviation: f64,
    ) -> Result<Linear> {
        let mut at = self.at(name);
        let weight = at.weight("weight", &[outputs, inputs], Initial::Normal(deviation))?;
        let bias = bias
            .then(|| at.weight("bias", &[outputs], Initial::Constant(0.0)))
            .transpose()?;
        Ok(Linear {
            weight,
            bias,
            adapter: None,
        })
    }

    /// An RMS norm over `width` numbers; `offset` is what its checkpoint leaves out of the weight.
    pub fn rms_norm(
        &mut self,
        name: &str,
        width: usize,
        offset: f64,
        epsilon: f64,
    ) -> Result<RmsNorm> {
        let weight = self
            .at(name)
            .weight("weight", &[width], Initial::Constant(1.0 - offset))?;
        Ok(RmsNorm {
            weight,
            offset,
            epsilon,
        })
    }
}

impl Linear {
    /// x [.., i] -> [.., o].
    pub fn forward(&self, tape: Option<&Tape>, x: &Value) -> Result<Value> {
        let weight = self.weight.on(tape);
        let bias = self.bias.as_ref().map(|bias| bias.on(tape));
        match &self.adapter {
            None => ops::linear::linear(x, &weight, bias.as_ref()),
            Some(adapter) => {
                let place = self.weight.name();
                let dropout = Dropout::new(tape, adapter.dropout, place);
                let (a, b) = (adapter.a.on(tape), adapter.b.on(tape));
                let adapter = Adapter {
                    a,
                    b,
                    scale: adapter.scale,
                    dropout,
                };
                ops::lora::linear_with_adapter(x, &weight, bias.as_ref(), &adapter)
            }
        }
    }

    /// The weight [o, i].
    pub fn weight(&self) -> &Parameter {
        &self.weight
    }

    /// The adapter, if there is one.
    pub fn adapter(&self) -> Option<&LinearAdapter> {
        self.adapter.as_ref()
    }

    /// Attaches an adapter, or takes it off.
    pub fn set_adapter(&mut self, adapter: Option<LinearAdapter>) {
        self.adapter = adapter;
    }
}

impl Projections {
    pub(crate) fn separate(
        builder: &mut Builder,
        names: &[&str],
        inputs: usize,
        widths: &[usize],
        bias: bool,
        deviation: f64,
    ) -> Result<Self> {
        let linear =
            |(name, width): (&&str, &usize)| builder.linear(name, inputs, *width, bias, deviation);
        Ok(Self::Separate(
            names
                .iter()
                .zip(widths)
                .map(linear)
                .collect::<Result<_>>()?,
        ))
    }

    pub(crate) fn fused(
        builder: &mut Builder,
        name: &str,
        inputs: usize,
        widths: &[usize],
        deviation: f64,
    ) -> Result<Self> {
        Ok(Self::Fused(builder.linear(
            name,
            inputs,
            widths.iter().sum(),
            false,
            deviation,
        )?))
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Linear> {
        match self {
            Self::Separate(linears) => linears.iter_mut(),
            Self::Fused(linear) => std::slice::from_mut(linear).iter_mut(),
        }
    }

    /// x [.., d] -> one [.., width] for each of `widths`.
    pub(crate) fn forward<const N: usize>(
        &self,
        tape: Option<&Tape>,
        x: &Value,
        widths: [usize; N],
    ) -> Result<[Value; N]> {
        let parts: Vec<Value> = match self {
            Self::Separate(linears) => linears
                .iter()
                .map(|it| it.forward(tape, x))
                .collect::<Result<_>>()?,
            Self::Fused(linear) => {
                let all = linear.forward(tape, x)?;
                let mut start = 0;
                let part = |width: &usize| {
                    start += width;
                    columns(&all, start - width, *width)
                };
                widths.iter().map(part).collect::<Result<_>>()?
            }
        };
        parts.try_into().map_err(|parts: Vec<Value>| {
            Error::Data(format!(
                "{} projections where {N} were expected",
                parts.len()
            ))
        })
    }
}

impl RmsNorm {
    /// x [.., d] -> [.., d].
    pub fn forward(&self, tape: Option<&Tape>, x: &Value) -> Result<Value> {
        ops::norm::rms_norm(x, &self.weight.on(tape), self.offset, self.epsilon)
    }
}
