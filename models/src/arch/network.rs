//! A network that reads tokens and predicts the next one: a decoder, a recursive model, or one that is for chat only. Training,
//! generation and files of language models know no more of an architecture than this; what only one of them can do is asked of it directly.

use candle_core::{DType, Device, Tensor};
use serde_json::{Map, Value as Json};

use super::{
    Weights,
    chat_only::ChatOnly,
    config,
    config::DecoderConfig,
    decoder::{Decoder, Input},
    kv_cache::{KvCache, KvCaches},
    sites::Site,
    trm::{self, CausalTrm, CausalTrmConfig},
};
use crate::{
    Error, Result,
    ops::kept::CacheType,
    parameters::Parameters,
    tape::{FixedPass, Tape, Value},
};

/// A network of some architecture. Cheap to clone, since clones share the weights.
#[derive(Debug, Clone)]
pub enum Network {
    /// A decoder-only transformer.
    Decoder(Decoder),
    /// A Tiny Recursive Model with causal attention.
    Recursive(CausalTrm),
    /// A decoder that training doesn't know.
    ChatOnly(ChatOnly),
}

/// The shape of a network that can learn: what a `config.json` says.
#[derive(Debug, Clone, PartialEq)]
pub enum NetworkConfig {
    /// Of a decoder-only transformer.
    Decoder(DecoderConfig),
    /// Of a Tiny Recursive Model with causal attention.
    Recursive(CausalTrmConfig),
}

/// Whether a `config.json` is that of a recursive model.
pub fn is_recursive(config: &Map<String, Json>) -> bool {
    config.get("model_type").and_then(Json::as_str) == Some(trm::MODEL_TYPE)
}

/// What is wrong with a field of a `config.json` that somebody wrote, apart from its value where that is read.
pub fn unread(is_recursive: bool, name: &str, value: &Json) -> Option<String> {
    match is_recursive {
        true => trm::unread(name),
        false => config::unread(name, value),
    }
}

impl NetworkConfig {
    /// Reads a `config.json`. Errors name the field.
    pub fn from_json(json: &Json) -> Result<Self> {
        let map = json.as_object();
        Ok(match map.is_some_and(is_recursive) {
            true => Self::Recursive(CausalTrmConfig::from_json(json)?),
            false => Self::Decoder(DecoderConfig::from_json(json)?),
        })
    }

    /// Tokens known.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::Decoder(config) => config.vocab_size,
            Self::Recursive(config) => config.vocab_size(),
        }
    }

    /// The longest text it can see, in tokens.
    pub fn context(&self) -> usize {
        match self {
            Self::Decoder(config) => config.max_position_embeddings,
            Self::Recursive(config) => config.context(),
        }
    }

    /// Values of the whole model, without adapters.
    pub fn parameters(&self) -> u64 {
        match self {
            Self::Decoder(config) => config.parameters(),
            Self::Recursive(config) => config.parameters(),
        }
    }

    /// That of a decoder, if it is one: only decoders can have adapters.
    pub fn decoder(&self) -> Option<&DecoderConfig> {
        match self {
            Self::Decoder(config) => Some(config),
            Self::Recursive(_) => None,
        }
    }
}

impl Network {
    /// Builds the network that `config` describes from `weights`; `trainable` says whether training may change them.
    pub fn new(
        config: NetworkConfig,
        weights: &mut dyn Weights,
        trainable: bool,
        compute_dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        Ok(match config {
            NetworkConfig::Decoder(config) => Self::Decoder(Decoder::new(
                config,
                weights,
                trainable,
                compute_dtype,
                device,
            )?),
            NetworkConfig::Recursive(config) => Self::Recursive(CausalTrm::new(
                config,
                weights,
                trainable,
                compute_dtype,
                device,
            )?),
        })
    }

    /// The decoder, if it is one, to be changed.
    pub fn decoder_mut(&mut self) -> Result<&mut Decoder> {
        match self {
            Self::Decoder(decoder) => Ok(decoder),
            Self::Recursive(_) => Err(Error::Data(
                "a recursive model can’t have an adapter".to_owned(),
            )),
            Self::ChatOnly(model) => Err(model.cannot_learn()),
        }
    }

    /// The decoder, if it is one.
    pub fn decoder(&self) -> Option<&Decoder> {
        match self {
            Self::Decoder(decoder) => Some(decoder),
            Self::Recursive(_) | Self::ChatOnly(_) => None,
        }
    }

    /// Tokens known.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::Decoder(decoder) => decoder.config().vocab_size,
            Self::Recursive(model) => model.config().vocab_size(),
            Self::ChatOnly(model) => model.config().vocab_size,
        }
    }

    /// The longest text it can see, in tokens.
    pub fn context(&self) -> usize {
        match self {
            Self::Decoder(decoder) => decoder.config().max_position_embeddings,
            Self::Recursive(model) => model.config().context(),
            Self::ChatOnly(model) => model.config().context,
        }
    }

    /// All weights by name, those of adapters included.
    pub fn parameters(&self) -> &Parameters {
        match self {
            Self::Decoder(decoder) => decoder.parameters(),
            Self::Recursive(model) => model.parameters(),
            Self::ChatOnly(model) => model.parameters(),
        }
    }

    /// Where the weights are.
    pub fn device(&self) -> &Device {
        match self {
            Self::Decoder(decoder) => decoder.device(),
            Self::Recursive(model) => model.device(),
            Self::ChatOnly(model) => model.device(),
        }
    }

    /// An empty cache for this network.
    pub fn new_cache(&self) -> KvCache {
        match self {
            Self::Decoder(decoder) => decoder.new_cache(),
            Self::Recursive(model) => model.new_cache(),
            Self::ChatOnly(model) => model.new_cache(),
        }
    }

    /// How a cache for this network keeps keys and values, where this was chosen.
    pub fn cache_type(&self, chosen: CacheType) -> CacheType {
        match self {
            Self::Decoder(decoder) => decoder.cache_type(chosen),
            Self::Recursive(_) | Self::ChatOnly(_) => CacheType::Full,
        }
    }

    /// The loss of predicting `targets` [b · t], to learn from: a sum over tokens, divided by `tokens`.
    pub fn learning_loss(
        &self,
        tape: &Tape,
        input: Input,
        targets: &[u32],
        tokens: f64,
        gradient_checkpointing: bool,
    ) -> Result<Value> {
        match self {
            Self::Decoder(decoder) => {
                let hidden = decoder.hidden(Some(tape), input, None, gradient_checkpointing)?;
                decoder.loss(Some(tape), &hidden, targets, tokens)
            }
            Self::Recursive(model) => {
                let answers = model.hidden(Some(tape), input, None, gradient_checkpointing)?;
                model.loss(Some(tape), &answers, targets, tokens)
            }
            Self::ChatOnly(model) => Err(model.cannot_learn()),
        }
    }

    /// The same as a pass that can be recorded, where there is one. See [`Decoder::fixed_pass`].
    pub fn fixed_pass(
        &self,
        input: Input,
        targets: &[u32],
        tokens: f64,
        gradient_checkpointing: bool,
    ) -> Result<Option<Box<dyn FixedPass>>> {
        let decoder = self.decoder();
        let pass = decoder.map(|it| it.fixed_pass(input, targets, tokens, gradient_checkpointing));
        pass.transpose()
    }

    /// The sum of the losses of `targets` [b · t] as it would write them. Nothing is recorded.
    pub fn measured_loss(&self, input: Input, targets: &[u32]) -> Result<f64> {
        let loss = match self {
            Self::Decoder(decoder) => {
                let hidden = decoder.hidden(None, input, None, false)?;
                decoder.loss(None, &hidden, targets, 1.0)?
            }
            Self::Recursive(model) => {
                let answers = model.hidden(None, input, None, false)?;
                let last = &answers[answers.len().saturating_sub(1)..];
                model.loss(None, last, targets, 1.0)?
            }
            Self::ChatOnly(model) => return Err(model.cannot_learn()),
        };
        Ok(loss.tensor().to_dtype(DType::F64)?.to_scalar::<f64>()?)
    }

    /// Whether it can forget the last tokens that it has read, without reading all others again.
    pub fn can_go_back(&self) -> bool {
        !matches!(self, Self::ChatOnly(_))
    }

    /// Whether a text of so many tokens turns by other angles than a shorter one, from its first token on.
    pub fn is_long(&self, tokens: usize) -> bool {
        self.decoder()
            .is_some_and(|decoder| decoder.is_long(tokens))
    }

    /// Scores [v] for the token after these, which continue what the cache has seen.
    pub fn next_logits(&self, tokens: &[u32], cache: &mut KvCache) -> Result<Tensor> {
        match self {
            Self::Decoder(decoder) => decoder.next_logits(tokens, cache),
            Self::Recursive(model) => model.next_logits(tokens, cache),
            Self::ChatOnly(model) => model.next_logits(tokens, cache),
        }
    }

    /// Scores [v] for the token after each of these, every one of which continues what a cache of its own has seen; some may have none.
    /// See [`Decoder::next_logits_each`].
    pub fn next_logits_each(
        &self,
        tokens: &[Option<u32>],
        caches: &mut KvCaches,
    ) -> Result<Vec<Option<Tensor>>> {
        match self {
            Self::Decoder(decoder) => decoder.next_logits_each(tokens, caches),
            Self::Recursive(_) | Self::ChatOnly(_) => {
                let each = tokens.iter().zip(caches.iter_mut());
                let read = |(token, cache): (&Option<u32>, &mut KvCache)| {
                    token.map(|token| self.next_logits(&[token], cache))
                };
                each.map(read).map(Option::transpose).collect()
            }
        }
    }

    /// The same, showing the hidden states [1, t, d] of each site on the way, where the network has sites. See
    /// [`Decoder::next_logits_seen`].
    pub fn next_logits_seen(
        &self,
        tokens: &[u32],
        cache: &mut KvCache,
        seen: &mut dyn FnMut(Site, &Tensor),
    ) -> Result<Tensor> {
        match self {
            Self::Decoder(decoder) => decoder.next_logits_seen(tokens, cache, seen),
            Self::Recursive(_) | Self::ChatOnly(_) => self.next_logits(tokens, cache),
        }
    }
}

impl From<Decoder> for Network {
    fn from(decoder: Decoder) -> Self {
        Self::Decoder(decoder)
    }
}

impl From<DecoderConfig> for NetworkConfig {
    fn from(config: DecoderConfig) -> Self {
        Self::Decoder(config)
    }
}
