//! The layers architectures are made of: weights by checkpoint name, and the operation they go through.

use candle_core::{D, DType, Tensor};

use crate::{
    Error, Result,
    ops::{
        self,
        dropout::Dropout,
        elementwise::narrow,
        lora::{AdaptedLinear, Adapter},
        weight::{Converted, Quantized, Stacked, Weight},
        widen,
    },
    parameters::{Parameter, Parameters},
    tape::{Tape, Value},
};

use super::{Initial, WeightRequest, Weights, config::DecoderConfig};

/// Asks a source for weights under a growing name, as they stand in the checkpoint. The sizes are those of a config.
pub(super) struct Builder<'a> {
    pub(super) weights: &'a mut dyn Weights,
    pub(super) parameters: &'a mut Parameters,
    pub(super) config: &'a DecoderConfig,
    pub(super) trainable: bool,
    pub(super) prefix: String,
}

/// y = x Wᵀ + c, with an adapter if one was attached.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    name: String,
    weight: LinearWeight,
    bias: Option<Parameter>,
    pub(super) adapter: Option<LinearAdapter>,
}

/// W [o, i].
#[derive(Debug, Clone)]
enum LinearWeight {
    Dense(Parameter),
    Quantized(Quantized),
}

/// The low-rank adapter of one linear layer. See [`ops::lora`].
#[derive(Debug, Clone)]
pub(super) struct LinearAdapter {
    pub(super) a: Parameter,
    pub(super) b: Parameter,
    pub(super) scale: f64,
    pub(super) dropout: f64,
}

/// Several projections of one input: one matrix each, or all in one.
#[derive(Debug, Clone)]
pub(super) struct Projections {
    linears: Vec<Linear>,
    /// The weights below each other [Σ o, i], where those of the layers are parts of it: see [`Projections::join`].
    below: Option<Tensor>,
}

/// RMS norm over the last dimension.
#[derive(Debug, Clone)]
pub(super) struct RmsNorm {
    weight: Parameter,
    offset: f64,
    epsilon: f64,
}

impl Builder<'_> {
    /// The same source, for names that continue with `part`.
    pub(super) fn at(&mut self, part: impl std::fmt::Display) -> Builder<'_> {
        Builder {
            weights: self.weights,
            parameters: self.parameters,
            config: self.config,
            trainable: self.trainable,
            prefix: format!("{}{part}.", self.prefix),
        }
    }

    fn weight(&mut self, name: &str, shape: &[usize], initial: Initial) -> Result<Parameter> {
        let parameter = self.read(name, shape, initial)?;
        self.parameters.insert(parameter.clone());
        Ok(parameter)
    }

    /// The head [v, d], where it is not the embedding table.
    pub(super) fn head(&mut self) -> Result<Parameter> {
        let (shape, initial) = self.table();
        let parameter = self.read("weight", &shape, initial)?.as_head();
        self.parameters.insert(parameter.clone());
        Ok(parameter)
    }

    /// The table [v, d] whose rows are looked up.
    pub(super) fn embedding(&mut self) -> Result<Parameter> {
        let (shape, initial) = self.table();
        let parameter = self.read("weight", &shape, initial)?.as_embedding();
        self.parameters.insert(parameter.clone());
        Ok(parameter)
    }

    /// The blocks of such a table, where the source has them.
    pub(super) fn table_in_blocks(&mut self) -> Result<Option<Quantized>> {
        let (shape, initial) = self.table();
        let name = &format!("{}weight", self.prefix);
        self.weights.table_in_blocks(&WeightRequest {
            name,
            shape: &shape,
            initial,
        })
    }

    fn table(&self) -> ([usize; 2], Initial) {
        let shape = [self.config.vocab_size, self.config.hidden_size];
        (shape, Initial::Normal(self.config.initializer_range))
    }

    fn read(&mut self, name: &str, shape: &[usize], initial: Initial) -> Result<Parameter> {
        let name = &format!("{}{name}", self.prefix);
        let tensor = self.weights.tensor(&WeightRequest {
            name,
            shape,
            initial,
        })?;
        Parameter::new(name, &tensor, self.trainable)
    }

    /// One of the config's linear layers. `narrowed` is what its deviation is divided by.
    fn linear(&mut self, name: &str, bias: bool, narrowed: f64) -> Result<Linear> {
        let shape = self.config.linear_shape(name);
        let shape = shape.ok_or_else(|| Error::Data(format!("no linear layer is `{name}`")))?;
        let deviation = self.config.initializer_range / narrowed;
        let mut at = self.at(name);
        let weight = at.linear_weight(&shape, Initial::Normal(deviation))?;
        let bias = bias.then(|| at.weight("bias", &shape[..1], Initial::Constant(0.0)));
        Ok(Linear {
            name: at.prefix.trim_end_matches('.').to_owned(),
            weight,
            bias: bias.transpose()?,
            adapter: None,
        })
    }

    /// A linear layer onto the residual sum: its deviation is narrowed by the number of sums (as in GPT-2).
    pub(super) fn onto_sum(&mut self, name: &str, bias: bool) -> Result<Linear> {
        let sums = 2.0 * self.config.layers.len() as f64;
        self.linear(name, bias, sums.sqrt())
    }

    /// Linear layers of one input.
    pub(super) fn projections(&mut self, names: &[&str], bias: bool) -> Result<Projections> {
        let linears = names.iter().map(|name| self.linear(name, bias, 1.0));
        Ok(Projections {
            linears: linears.collect::<Result<_>>()?,
            below: None,
        })
    }

    fn linear_weight(&mut self, shape: &[usize], initial: Initial) -> Result<LinearWeight> {
        let name = &format!("{}weight", self.prefix);
        let request = WeightRequest {
            name,
            shape,
            initial,
        };
        let Some(weight) = self.weights.quantized(&request)? else {
            let weight = self.weight("weight", shape, initial)?;
            return Ok(LinearWeight::Dense(weight));
        };
        let (outputs, inputs) = weight.dims2()?;
        if [outputs, inputs] != *shape {
            let problem =
                format!("`{name}` is [{outputs}, {inputs}] in quantized blocks, not {shape:?}");
            return Err(Error::Data(problem));
        }
        let bytes = weight.bytes();
        self.parameters
            .count_quantized(name, outputs * inputs, bytes);
        Ok(LinearWeight::Quantized(weight))
    }

    /// An RMS norm over rows of the model's width.
    pub(super) fn norm(&mut self, name: &str) -> Result<RmsNorm> {
        self.rms_norm(name, self.config.hidden_size)
    }

    /// An RMS norm over `width` numbers. Its weight is kept in f32 or wider, since every pass needs it so.
    pub(super) fn rms_norm(&mut self, name: &str, width: usize) -> Result<RmsNorm> {
        let offset = self.config.norm_offset;
        let ones = Initial::Constant(1.0 - offset);
        let mut at = self.at(name);
        let read = at.read("weight", &[width], ones)?;
        let wide = widen(&read.tensor())?;
        let weight = Parameter::new(read.name(), &wide, at.trainable)?;
        at.parameters.insert(weight.clone());
        Ok(RmsNorm {
            weight,
            offset,
            epsilon: self.config.rms_norm_eps,
        })
    }
}

/// The tensors of a dense linear layer.
#[cfg(feature = "cuda")]
pub(super) struct LinearParts {
    /// [outputs, inputs].
    pub(super) weight: Tensor,
    /// [outputs].
    pub(super) bias: Option<Tensor>,
    /// A [r, inputs], B [outputs, r], and what their product is multiplied with.
    pub(super) adapter: Option<(Tensor, Tensor, f64)>,
}

impl Linear {
    /// x [.., i] -> [.., o].
    pub(super) fn forward(
        &self,
        tape: Option<&Tape>,
        x: &Value,
        stacked: Option<&Stacked>,
    ) -> Result<Value> {
        if let Some(adapted) = self.adapted(tape, &self.name) {
            let mut outputs = ops::lora::linears_with_adapters(x, &[adapted])?;
            return outputs
                .pop()
                .ok_or_else(|| Error::Data("no output".to_owned()));
        }
        let bias = self.bias.as_ref().map(|bias| bias.on(tape));
        ops::linear::linear(x, self.weight_on(tape, stacked), bias.as_ref())
    }

    /// As it is with its adapter, if it has one. `place` is where its input is dropped.
    fn adapted(&self, tape: Option<&Tape>, place: &str) -> Option<AdaptedLinear> {
        let adapter = self.adapter.as_ref()?;
        Some(AdaptedLinear {
            weight: self.weight_on(tape, None),
            bias: self.bias.as_ref().map(|bias| bias.on(tape)),
            adapter: Adapter {
                a: adapter.a.on(tape),
                b: adapter.b.on(tape),
                scale: adapter.scale,
                dropout: Dropout::new(tape, adapter.dropout, place),
            },
        })
    }

    /// Whether its weight is in blocks.
    pub(super) fn is_in_blocks(&self) -> bool {
        matches!(self.weight, LinearWeight::Quantized(_))
    }

    /// Its tensors, where the weight is dense.
    #[cfg(feature = "cuda")]
    pub(super) fn parts(&self) -> Option<LinearParts> {
        let LinearWeight::Dense(weight) = &self.weight else {
            return None;
        };
        let adapter = self.adapter.as_ref();
        Some(LinearParts {
            weight: weight.tensor().clone(),
            bias: self.bias.as_ref().map(|it| it.tensor().clone()),
            adapter: adapter.map(|it| (it.a.tensor().clone(), it.b.tensor().clone(), it.scale)),
        })
    }

    fn weight_on(&self, tape: Option<&Tape>, stacked: Option<&Stacked>) -> Weight {
        let weight = match &self.weight {
            LinearWeight::Dense(weight) => weight.on(tape),
            LinearWeight::Quantized(weight) => return Weight::Quantized(weight.clone()),
        };
        let converted = stacked.and_then(|it| it.find(std::slice::from_ref(&weight)));
        converted.map_or(Weight::Dense(weight), Weight::Converted)
    }

    /// The weight, if it is used as it is: dense, and without an adapter.
    pub(super) fn plain(&self) -> Option<&Parameter> {
        match &self.weight {
            LinearWeight::Dense(weight) if self.adapter.is_none() => Some(weight),
            _ => None,
        }
    }

    /// The weight as it was converted, if nothing is added to what comes out.
    pub(super) fn converted(&self, tape: Option<&Tape>, stacked: &Stacked) -> Option<Converted> {
        let weight = self.plain().filter(|_| self.bias.is_none())?.on(tape);
        stacked.find(&[weight])
    }

    /// The name in the checkpoint: `model.layers.3.self_attn.q_proj`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How many numbers come out and go in: o and i.
    pub(super) fn dims2(&self) -> Result<(usize, usize)> {
        match &self.weight {
            LinearWeight::Dense(weight) => Ok(weight.tensor().dims2()?),
            LinearWeight::Quantized(weight) => weight.dims2(),
        }
    }
}

impl Projections {
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Linear> {
        self.linears.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Linear> {
        self.linears.iter_mut()
    }

    /// The weights of all below each other, and their biases, of which there are none or all.
    pub(super) fn converted(
        &self,
        tape: Option<&Tape>,
        stacked: &Stacked,
    ) -> Option<(Converted, Vec<Value>)> {
        let weights = self
            .linears
            .iter()
            .map(|it| it.plain().map(|it| it.on(tape)));
        let biases = self.linears.iter().filter_map(|it| it.bias.as_ref());
        let biases: Vec<Value> = biases.map(|it| it.on(tape)).collect();
        let weights = stacked.find(&weights.collect::<Option<Vec<_>>>()?)?;
        (biases.is_empty() || biases.len() == self.linears.len()).then_some((weights, biases))
    }

    /// Puts the weights of layers with adapters below each other in memory, where these are computed so: frozen ones in 16 bits on CUDA.
    /// Until it has returned, they are there twice.
    pub(super) fn join(&mut self, parameters: &mut Parameters) -> Result<()> {
        let dense = |it: &Linear| match &it.weight {
            LinearWeight::Dense(weight) if it.adapter.is_some() => Some(weight.clone()),
            _ => None,
        };
        let weights: Option<Vec<Parameter>> = self.linears.iter().map(dense).collect();
        let Some(weights) = weights else {
            return Ok(());
        };
        let tensors: Vec<Tensor> = weights.iter().map(Parameter::tensor).collect();
        let is_served = |it: &Tensor| {
            it.device().is_cuda()
                && matches!(it.dtype(), DType::BF16 | DType::F16)
                && it.dtype() == tensors[0].dtype()
        };
        if weights.iter().any(Parameter::trainable) || !tensors.iter().all(is_served) {
            return Ok(());
        }
        let below = Tensor::cat(&tensors, 0)?;
        let mut start = 0;
        for (linear, weight) in self.linears.iter_mut().zip(weights) {
            let rows = weight.tensor().dim(0)?;
            let part = below.narrow(0, start, rows)?;
            start += rows;
            let parameter = Parameter::new(weight.name(), &part, false)?;
            parameters.insert(parameter.clone());
            linear.weight = LinearWeight::Dense(parameter);
        }
        self.below = Some(below);
        Ok(())
    }

    /// All that comes out beside each other, x [.., d] -> [.., Σ o], where it is learned with adapters by one product.
    pub(super) fn joined(&self, tape: Option<&Tape>, x: &Value) -> Result<Option<Value>> {
        match (&self.below, tape.and_then(|_| self.adapted(tape))) {
            (Some(below), Some(adapted)) => {
                ops::lora::joined_linears_with_adapters(x, &adapted, below)
            }
            _ => Ok(None),
        }
    }

    /// All with their adapters, if each has one.
    fn adapted(&self, tape: Option<&Tape>) -> Option<Vec<AdaptedLinear>> {
        // What is dropped of an input is the same for all that read it, so that they can be computed together.
        let place = self.linears.first().map_or("", Linear::name);
        let adapted = self.linears.iter().map(|it| it.adapted(tape, place));
        adapted.collect()
    }

    /// x [.., d] -> one [.., width] for each of `widths`.
    pub(super) fn forward<const N: usize>(
        &self,
        tape: Option<&Tape>,
        x: &Value,
        widths: [usize; N],
        stacked: Option<&Stacked>,
    ) -> Result<[Value; N]> {
        let mut parts = match self.adapted(tape) {
            Some(adapted) => ops::lora::linears_with_adapters(x, &adapted)?,
            None if self.linears.iter().all(|it| it.adapter.is_none()) => {
                let plain = |it: &Linear| {
                    let bias = it.bias.as_ref().map(|it| it.on(tape));
                    (it.weight_on(tape, stacked), bias)
                };
                let plain: Vec<_> = self.linears.iter().map(plain).collect();
                ops::linear::linears(x, &plain)?
            }
            None => {
                let outputs = self
                    .linears
                    .iter()
                    .map(|linear| linear.forward(tape, x, stacked));
                outputs.collect::<Result<Vec<_>>>()?
            }
        };
        if let [all] = parts.as_slice() {
            let mut start = 0;
            let part = |width: &usize| {
                start += width;
                narrow(all, D::Minus1, start - width, *width)
            };
            parts = widths.iter().map(part).collect::<Result<_>>()?;
        }
        parts.try_into().map_err(|parts: Vec<Value>| {
            let count = parts.len();
            Error::Data(format!("{count} projections where {N} were expected"))
        })
    }
}

impl RmsNorm {
    /// What normalized numbers are multiplied with, in f32.
    #[cfg(feature = "cuda")]
    pub(super) fn factor(&self) -> Result<Tensor> {
        let weight = self.weight.tensor().to_dtype(DType::F32)?;
        Ok(weight.affine(1.0, self.offset)?.contiguous()?)
    }

    /// ε.
    #[cfg(feature = "cuda")]
    pub(super) fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// x [.., d] -> [.., d].
    pub(super) fn forward(&self, tape: Option<&Tape>, x: &Value) -> Result<Value> {
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
            decoder::{Decoder, Input},
            initial::InitialWeights,
            kv_cache::KvCaches,
            lora::{self, LoraConfig, Targets},
        },
        checkpoint::model::save_model,
        ops::kept::CacheType,
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

        fn quantized(&mut self, request: &WeightRequest) -> Result<Option<Quantized>> {
            let in_blocks = self.in_blocks;
            let blocks = in_blocks.then(|| self.blocks(request)).transpose()?;
            blocks.map(Quantized::new).transpose()
        }
    }

    /// A decoder of 2 blocks with adapters.
    fn decoder(in_blocks: bool) -> Decoder {
        let config = DecoderConfig::from_json(&json!({
            "model_type": "llama", "vocab_size": 40, "hidden_size": 64, "intermediate_size": 96,
            "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 16,
        }));
        let initial = InitialWeights::new(1, &Device::Cpu);
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
            targets: Targets::Named(vec!["q_proj".to_owned(), "down_proj".to_owned()]),
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
            let input = Input::new(&[3, 1, 4, 1, 5, 9], 2);
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
    fn tokens_of_texts_that_are_read_by_blocks_at_once_have_the_scores_of_each_alone() {
        for kept in [CacheType::F16, CacheType::Q8] {
            let decoder = decoder(true);
            let prompts = [&[3, 1, 4][..], &[1, 5, 9, 2, 6, 5], &[3]];
            let caches = || {
                let each = prompts.map(|prompt| {
                    let mut cache = decoder.new_cache();
                    cache.keep(decoder.cache_type(kept));
                    decoder.next_logits(prompt, &mut cache).unwrap();
                    cache
                });
                Vec::from(each)
            };
            let (mut alone, mut beside) = (caches(), KvCaches::new(caches()));
            for token in [7, 8] {
                let tokens = [Some(token), Some(token + 1), Some(token + 2)];
                let found = decoder.next_logits_each(&tokens, &mut beside).unwrap();
                for ((cache, token), found) in alone.iter_mut().zip(tokens).zip(found) {
                    let expected = decoder.next_logits(&[token.unwrap()], cache).unwrap();
                    let numbers = |it: Tensor| it.to_vec1::<f32>().unwrap();
                    assert_eq!(numbers(found.unwrap()), numbers(expected), "{kept:?}");
                }
            }
        }
    }

    #[test]
    fn a_model_in_quantized_blocks_is_not_written_as_if_it_were_whole() {
        let folder = tempfile::tempdir().unwrap();
        let written = save_model(&decoder(true), &json!({}), folder.path());
        assert_eq!(
            written.unwrap_err().to_string(),
            "the model can’t be written whole: 14 of its weights are in quantized blocks; save its adapter"
        );
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
