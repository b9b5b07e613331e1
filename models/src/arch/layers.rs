//! The layers architectures are made of: weights by checkpoint name, and the operation they go through.

use crate::{
    Error, Result,
    ops::{
        self,
        dropout::Dropout,
        elementwise::narrow,
        lora::Adapter,
        weight::{Quantized, Weight},
    },
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
    name: String,
    weight: LinearWeight,
    bias: Option<Parameter>,
    adapter: Option<LinearAdapter>,
}

/// W [o, i].
#[derive(Debug, Clone)]
enum LinearWeight {
    Dense(Parameter),
    Quantized(Quantized),
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
        let weight = at.linear_weight(&[outputs, inputs], Initial::Normal(deviation))?;
        let bias = bias
            .then(|| at.weight("bias", &[outputs], Initial::Constant(0.0)))
            .transpose()?;
        Ok(Linear {
            name: at.prefix.trim_end_matches('.').to_owned(),
            weight,
            bias,
            adapter: None,
        })
    }

    fn linear_weight(&mut self, shape: &[usize], initial: Initial) -> Result<LinearWeight> {
        let name = format!("{}weight", self.prefix);
        let request = WeightRequest {
            name: &name,
            shape,
            initial,
        };
        let Some(blocks) = self.weights.quantized(&request)? else {
            let weight = self.weight("weight", shape, initial)?;
            return Ok(LinearWeight::Dense(weight));
        };
        if blocks.shape().dims() != shape {
            let found = blocks.shape();
            let problem = format!("`{name}` is {found:?} in quantized blocks, not {shape:?}");
            return Err(Error::Data(problem));
        }
        let weight = Quantized::new(blocks)?;
        let blocks = weight.blocks().clone();
        self.parameters.insert_quantized(&name, blocks);
        Ok(LinearWeight::Quantized(weight))
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
        let weight = match &self.weight {
            LinearWeight::Dense(weight) => Weight::Dense(weight.on(tape)),
            LinearWeight::Quantized(weight) => Weight::Quantized(weight.clone()),
        };
        let bias = self.bias.as_ref().map(|bias| bias.on(tape));
        match &self.adapter {
            None => ops::linear::linear(x, weight, bias.as_ref()),
            Some(adapter) => {
                // The place has the name of the weight.
                let place = format!("{}.weight", self.name);
                let dropout = Dropout::new(tape, adapter.dropout, &place);
                let (a, b) = (adapter.a.on(tape), adapter.b.on(tape));
                let adapter = Adapter {
                    a,
                    b,
                    scale: adapter.scale,
                    dropout,
                };
                ops::lora::linear_with_adapter(x, weight, bias.as_ref(), &adapter)
            }
        }
    }

    /// The name in the checkpoint: `model.layers.3.self_attn.q_proj`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many numbers come out and go in: o and i.
    pub fn dims2(&self) -> Result<(usize, usize)> {
        match &self.weight {
            LinearWeight::Dense(weight) => Ok(weight.tensor().dims2()?),
            LinearWeight::Quantized(weight) => weight.dims2(),
        }
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
                    narrow(&all, start - width, *width)
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

#[cfg(test)]
mod tests {
    use candle_core::{
        DType, Device, Tensor,
        quantized::{GgmlDType, QTensor},
    };
    use serde_json::json;

    use super::*;
    use crate::{
        arch::{
            config::DecoderConfig,
            decoder::{Decoder, Input},
            initial::InitialWeights,
            lora::{self, LoraConfig},
        },
        checkpoint::model::save_model,
        tape::Gradients,
    };

    /// Drawn weights, where those of linear layers are in quantized blocks, or what these stand for.
    struct Rounded {
        initial: InitialWeights,
        in_blocks: bool,
    }

    impl Rounded {
        fn blocks(&mut self, request: &WeightRequest) -> Result<QTensor> {
            let numbers = self.initial.tensor(request)?;
            Ok(QTensor::quantize(&numbers, GgmlDType::Q8_0)?)
        }
    }

    impl Weights for Rounded {
        fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
            match request.name.ends_with("_proj.weight") {
                true => Ok(self.blocks(request)?.dequantize(&Device::Cpu)?),
                false => self.initial.tensor(request),
            }
        }

        fn quantized(&mut self, request: &WeightRequest) -> Result<Option<QTensor>> {
            let in_blocks = self.in_blocks;
            in_blocks.then(|| self.blocks(request)).transpose()
        }
    }

    /// A decoder of 2 blocks with adapters.
    fn decoder(in_blocks: bool) -> Decoder {
        let config = DecoderConfig::from_json(&json!({
            "model_type": "llama", "vocab_size": 40, "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 16,
        }));
        let initial = InitialWeights {
            seed: 1,
            dtype: DType::F32,
            device: Device::Cpu,
        };
        let mut weights = Rounded {
            initial: initial.clone(),
            in_blocks,
        };
        let config = config.unwrap();
        let mut decoder =
            Decoder::new(config, &mut weights, false, DType::F32, &Device::Cpu).unwrap();
        let config = LoraConfig {
            rank: 2,
            alpha: 4.0,
            dropout: 0.1,
            rank_stabilized: false,
            targets: vec!["q_proj".to_owned(), "down_proj".to_owned()],
            layers: None,
        };
        let mut adapters = initial;
        lora::attach(&mut decoder, &config, &mut adapters).unwrap();
        decoder
    }

    #[test]
    fn a_decoder_in_quantized_blocks_learns_as_one_of_the_numbers_they_stand_for() {
        let learn = |decoder: &Decoder| {
            let tape = Tape::new(1);
            let input = Input {
                tokens: &[3, 1, 4, 1, 5, 9],
                rows: 2,
                positions: None,
                documents: None,
            };
            let hidden = decoder.hidden(Some(&tape), input, None, true).unwrap();
            let targets = [1, 4, 1, 5, 9, 2];
            let loss = decoder.loss(Some(&tape), &hidden, &targets, 6.0).unwrap();
            let value = loss.tensor().to_scalar::<f32>().unwrap();
            let mut gradients = Gradients::default();
            tape.backward(&loss, 1.0, &mut gradients).unwrap();
            let numbers = |it: &Tensor| it.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let gradients = gradients.iter().map(|it| (it.0.to_owned(), numbers(it.1)));
            (value, gradients.collect::<Vec<_>>())
        };
        let (quantized, dense) = (decoder(true), decoder(false));
        let (loss, gradients) = learn(&quantized);
        assert_eq!((loss, gradients.clone()), learn(&dense));
        // Two weights of each of two adapters in two blocks.
        assert_eq!(gradients.len(), 8);
        let (left, right) = (quantized.parameters(), dense.parameters());
        assert_eq!(left.count(), right.count());
        assert_eq!(left.quantized_count(), 14);
        assert!(left.bytes() < right.bytes() / 2);
    }

    #[test]
    fn a_model_in_quantized_blocks_is_not_written_as_if_it_were_whole() {
        let folder = tempfile::tempdir().unwrap();
        let written = save_model(&decoder(true), &json!({}), folder.path());
        assert_eq!(
            written.unwrap_err().to_string(),
            "the model can't be written whole: 14 of its weights are in quantized blocks; save its adapter"
        );
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
