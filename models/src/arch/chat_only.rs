//! Decoders of families that training doesn't know. candle-transformers computes them (the feature `chat-only`): they read tokens and
//! score the next one.
//!
//! That library reads the fields of a `config.json` that it knows and passes over all others, so what a row of `families.json` doesn't
//! list is refused here, as are sizes beyond their limits. Where it computes something else than Transformers, the model reads no
//! further than both agree: a text is never longer than a sliding window.
//!
//! Deliberately absent: hidden states, adapters, steering, gradients, several texts in one pass.

#[cfg(feature = "chat-only")]
mod candle_models;

use std::{collections::BTreeMap, fmt, rc::Rc, sync::LazyLock};

use candle_core::{DType, Device, Tensor};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::{
    config::{self, limits::Limit},
    families::FAMILIES,
    kv_cache::KvCache,
};
use crate::{Error, Result, caught, embedded::table, parameters::Parameters};

#[cfg(feature = "chat-only")]
pub use candle_models::candle_nn;
#[cfg(feature = "chat-only")]
use {
    candle_core::quantized::gguf_file::TensorInfo,
    std::{
        collections::HashMap,
        io::{Read, Seek},
    },
};

/// The most tokens of a text. The library makes a table of all positions at once.
const MOST_TOKENS: usize = 1 << 17;
/// The widest head: with as many tokens, those tables take 268 MB at most.
const WIDEST_HEAD: usize = 256;
/// The most tokens that are read in one pass.
const PASS_TOKENS: usize = 256;
/// Names of `config.json`.
const CONTEXT: &str = "max_position_embeddings";
const WINDOW: &str = "sliding_window";
const KEY_HEADS: &str = "num_key_value_heads";
const HEADS: &str = "num_attention_heads";
const HEAD_DIM: &str = "head_dim";
const ROPES: [&str; 2] = ["rope_parameters", "rope_scaling"];

/// The sizes that every family has.
const SIZES: [&str; 6] = [
    "hidden_size",
    "intermediate_size",
    CONTEXT,
    HEADS,
    "num_hidden_layers",
    "vocab_size",
];

/// What else every family reads, and what matters only where there are no weights yet.
const COMMON: [&str; 4] = ["initializer_range", KEY_HEADS, "model_type", "rope_theta"];

/// Sizes that only these families have, and the most that they may be: each expert and layer is listed before it is read.
const MOST: [(&str, u64); 6] = [
    ("decoder_sparse_step", 1 << 10),
    ("moe_intermediate_size", 1 << 20),
    ("num_experts", 1 << 12),
    ("num_experts_per_tok", 1 << 12),
    ("num_local_experts", 1 << 12),
    ("shared_expert_intermediate_size", 1 << 20),
];

/// A family, as `families.json` has it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Family {
    /// The `model_type` of `config.json`.
    pub model_type: String,
    /// The fields that the library reads besides sizes.
    reads: Vec<String>,
    /// Those that change nothing about these models, whatever they hold.
    ignores: Vec<String>,
    /// Other names of fields, with those that the library reads.
    renames: BTreeMap<String, String>,
    /// Those that the library passes over, with the values for which it computes the right numbers.
    only: BTreeMap<String, Vec<Json>>,
    /// What fields are that the file leaves out.
    defaults: Map<String, Json>,
    /// Whether it is read from GGUF files only.
    pub only_gguf: bool,
}

/// Every family that is for chat only, also where this build can't open it.
pub static CHAT_ONLY: LazyLock<Vec<Family>> = LazyLock::new(|| {
    table(
        "chat_only/families.json",
        include_str!("chat_only/families.json"),
    )
});

/// The family that a `config.json` names, if it is one of these and this build opens them.
pub fn family(config: &Json) -> Option<&'static Family> {
    if cfg!(not(feature = "chat-only")) {
        return None;
    }
    let model_type = config.get("model_type")?.as_str()?;
    CHAT_ONLY.iter().find(|it| it.model_type == model_type)
}

/// What is wrong with a model of such a family where it is more than read.
pub fn only_for_chat(model_type: &str) -> String {
    let build = match cfg!(feature = "chat-only") {
        true => "",
        false => ", in a build with the feature `chat-only`",
    };
    format!(
        "is `{model_type}`, which is for chat only{build}; {}",
        trained()
    )
}

/// What is said of such a model where it stands among others.
pub fn note() -> String {
    format!("Chat only: {}.", trained())
}

/// Which families are not.
fn trained() -> String {
    let names = FAMILIES.iter().map(|it| it.model_type.as_str());
    format!("training knows {}", names.collect::<Vec<_>>().join(", "))
}

/// The shape of a model for chat only, with everything that the library is told.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatOnlyConfig {
    /// `olmo2`.
    pub model_type: &'static str,
    /// Tokens known.
    pub vocab_size: usize,
    /// The longest text it reads here, in tokens.
    pub context: usize,
    /// Keys and values of a token are so many numbers.
    pub cached_numbers: usize,
    /// A `config.json` with nothing left out.
    json: Json,
}

impl ChatOnlyConfig {
    /// Reads a `config.json` of one of these families. Errors name the field.
    pub fn from_json(json: &Json) -> Result<Self> {
        let family = family(json);
        let family = family.ok_or_else(|| {
            Error::setting("model_type", "is not a family that is opened for chat only")
        })?;
        let mut fields = family.fields(json)?;
        let size = |name: &str| {
            let size = fields.get(name).and_then(Json::as_u64);
            let size = size.and_then(|it| usize::try_from(it).ok());
            size.ok_or_else(|| Error::setting(name, "is not there, or no whole number"))
        };
        for name in SIZES {
            size(name)?;
        }
        let heads = size(HEADS)?;
        let head_dim = match fields.contains_key(HEAD_DIM) {
            true => size(HEAD_DIM)?,
            false => size("hidden_size")? / heads,
        };
        let key_heads = match fields.contains_key(KEY_HEADS) {
            true => size(KEY_HEADS)?,
            false => heads,
        };
        if !(1..=WIDEST_HEAD).contains(&head_dim) {
            let problem = format!("is {head_dim}; it must be from 1 to {WIDEST_HEAD}");
            return Err(Error::setting(HEAD_DIM, problem));
        }
        if !heads.is_multiple_of(key_heads) {
            let problem =
                format!("is {key_heads}, which does not divide the {heads} attention heads");
            return Err(Error::setting(KEY_HEADS, problem));
        }
        let window = match family.reads(WINDOW) && fields.contains_key(WINDOW) {
            true => size(WINDOW)?,
            false => usize::MAX,
        };
        let context = size(CONTEXT)?.min(window).min(MOST_TOKENS);
        let layers = size("num_hidden_layers")?;
        let vocab_size = size("vocab_size")?;
        for (name, size) in [
            (CONTEXT, context),
            (WINDOW, context),
            (KEY_HEADS, key_heads),
        ] {
            fields.insert(name.into(), json!(size));
        }
        Ok(Self {
            model_type: &family.model_type,
            vocab_size,
            context,
            cached_numbers: 2 * layers * key_heads * head_dim,
            json: Json::Object(fields),
        })
    }

    /// Whether the head is the table of tokens.
    pub fn ties_head(&self) -> bool {
        self.json.get("tie_word_embeddings") == Some(&json!(true))
    }
}

impl Family {
    fn reads(&self, field: &str) -> bool {
        self.reads.iter().any(|it| it == field)
    }

    /// All fields that the library reads, of a `config.json` that says nothing else that matters.
    fn fields(&self, json: &Json) -> Result<Map<String, Json>> {
        let mut fields = self.defaults.clone();
        for (name, value) in json.as_object().into_iter().flatten() {
            if value.is_null() {
                continue;
            }
            if let Some(only) = self.only.get(name)
                && !only.contains(value)
            {
                let only = only.iter().map(Json::to_string).collect::<Vec<_>>();
                let problem = format!(
                    "is {value}, and only {} is computed here",
                    only.join(" or ")
                );
                return Err(Error::setting(name, problem));
            }
            if !self.ignores.contains(name) {
                let name = self.renames.get(name).unwrap_or(name);
                fields.insert(name.clone(), value.clone());
            }
        }
        take_ropes(&mut fields)?;
        if !self.reads(HEAD_DIM) && is_usual_head(&fields) {
            fields.remove(HEAD_DIM);
        }
        self.check(&fields)?;
        Ok(fields)
    }

    /// Refuses fields that the library passes over though they change what the model computes, and numbers beyond their limits.
    fn check(&self, fields: &Map<String, Json>) -> Result<()> {
        for (name, value) in fields {
            let is_in = |names: &[&str]| names.contains(&name.as_str());
            let is_read = is_in(&SIZES) || is_in(&COMMON) || self.reads(name);
            let is_known =
                is_read || self.only.contains_key(name) || self.defaults.get(name) == Some(value);
            if let Some(problem) = (!is_known).then(|| config::harmful(name, value)).flatten() {
                return Err(Error::setting(name, problem));
            }
            if let Some(number) = value.as_f64().filter(|_| is_read) {
                Limit::check(name, name, number, value)?;
            }
            let most = MOST.iter().find(|(limited, _)| limited == name);
            if let Some((_, most)) = most.filter(|_| is_read)
                && !value.as_u64().is_some_and(|it| (1..=*most).contains(&it))
            {
                let problem = format!("is {value}; it must be from 1 to {most}");
                return Err(Error::setting(name, problem));
            }
        }
        Ok(())
    }
}

/// Whether heads are as wide as the model is for each of them, which is so where nothing is said.
fn is_usual_head(fields: &Map<String, Json>) -> bool {
    let size = |name: &str| fields.get(name).and_then(Json::as_u64);
    let width = size("hidden_size").zip(size(HEADS));
    let width = width.and_then(|(width, heads)| width.checked_div(heads));
    width.is_some() && size(HEAD_DIM) == width
}

/// Writes what stands about rotary positions in an object of its own beside the other fields, where the library reads it.
fn take_ropes(fields: &mut Map<String, Json>) -> Result<()> {
    for place in ROPES {
        let rope = match fields.remove(place) {
            None => continue,
            Some(Json::Object(rope)) => rope,
            Some(other) => {
                let problem = format!("is {other}, and not an object");
                return Err(Error::setting(place, problem));
            }
        };
        for (name, value) in rope {
            match name.as_str() {
                "rope_type" | "type" if value == "default" => {}
                "rope_theta" | "partial_rotary_factor" => {
                    fields.insert(name, value);
                }
                _ => {
                    let problem = format!("is {value}, which is not computed for this family");
                    return Err(Error::setting(format!("{place}.{name}"), problem));
                }
            }
        }
    }
    Ok(())
}

/// A model of the library. It remembers what it has read, and can't go back.
pub(super) trait Reader {
    /// Scores, v numbers, of the token after these [1, t], which follow so many that it has read.
    fn read(&mut self, tokens: &Tensor, seen: usize) -> candle_core::Result<Tensor>;

    /// The same weights, with the same tokens read.
    fn copy(&self) -> Box<dyn Reader>;
}

/// What a cache of such a model holds.
pub(super) struct Reading {
    reader: Box<dyn Reader>,
    /// How many tokens it has read.
    seen: usize,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Reading({} tokens)", self.seen)
    }
}

/// A decoder that reads and writes only. Cheap to clone, since clones share the weights.
#[derive(Clone)]
pub struct ChatOnly {
    config: ChatOnlyConfig,
    /// One that has read nothing.
    untouched: Rc<dyn Reader>,
    device: Device,
    /// None of its weights can be trained or saved.
    parameters: Parameters,
}

impl fmt::Debug for ChatOnly {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("ChatOnly")
            .field("config", &self.config)
            .finish()
    }
}

impl ChatOnly {
    /// In which dtype it computes what stands in no blocks: in 16 bits the library rounds the angles of positions, of which far ones
    /// become alike.
    pub const DTYPE: DType = DType::F32;

    /// Builds the model that a config describes. `weights` are on its device, in [`Self::DTYPE`].
    #[cfg(feature = "chat-only")]
    pub fn new(config: ChatOnlyConfig, weights: candle_nn::VarBuilder) -> Result<Self> {
        let device = weights.device().clone();
        Self::opened(config, device, |model_type, json| {
            candle_models::open(model_type, json, weights)
        })
    }

    /// Builds the model that a GGUF file describes, with its matrices in their blocks. `tensors` say where they begin in the `file`.
    #[cfg(feature = "chat-only")]
    pub fn of_gguf(
        config: ChatOnlyConfig,
        tensors: HashMap<String, TensorInfo>,
        file: &mut (impl Read + Seek),
        device: Device,
    ) -> Result<Self> {
        Self::opened(config, device.clone(), |model_type, json| {
            candle_models::open_gguf(model_type, json, tensors, file, &device)
        })
    }

    #[cfg(feature = "chat-only")]
    fn opened(
        config: ChatOnlyConfig,
        device: Device,
        open: impl FnOnce(&str, &Json) -> Result<Box<dyn Reader>>,
    ) -> Result<Self> {
        let opened = caught(|| open(config.model_type, &config.json));
        Ok(Self {
            untouched: opened.map_err(broken)??.into(),
            config,
            device,
            parameters: Parameters::default(),
        })
    }

    /// Its shape.
    pub fn config(&self) -> &ChatOnlyConfig {
        &self.config
    }

    pub(super) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Why nothing is learned with it.
    pub fn cannot_learn(&self) -> Error {
        Error::setting("model_type", only_for_chat(self.config.model_type))
    }

    /// An empty cache.
    pub fn new_cache(&self) -> KvCache {
        KvCache::new(0, self.config.context)
    }

    /// Scores [v] for the token after these, which continue what the cache has seen.
    pub fn next_logits(&self, tokens: &[u32], cache: &mut KvCache) -> Result<Tensor> {
        // A GPU that looks up what is beyond its table computes nothing any more.
        let vocabulary = self.config.vocab_size;
        if let Some(token) = tokens.iter().find(|it| **it as usize >= vocabulary) {
            let problem = format!("token {token} in a vocabulary of {vocabulary}");
            return Err(Error::Data(problem));
        }
        let held = cache.read().to_vec();
        let kept = cache.reading.take().filter(|it| it.seen == held.len());
        // What was forgotten since can't be taken out again: all before it is read anew.
        let (mut reading, unread) = match kept {
            Some(reading) => (reading, tokens.to_vec()),
            None => {
                let (reader, seen) = (self.untouched.copy(), 0);
                (Reading { reader, seen }, [&held, tokens].concat())
            }
        };
        let mut logits = None;
        for part in unread.chunks(PASS_TOKENS) {
            let part = Tensor::new(part, &self.device)?.unsqueeze(0)?;
            let (reader, seen) = (&mut reading.reader, reading.seen);
            logits = Some(caught(|| reader.read(&part, seen)).map_err(broken)??);
            reading.seen += part.dim(1)?;
        }
        let logits = logits.ok_or_else(|| Error::Data("there are no tokens to read".to_owned()))?;
        cache.reading = Some(reading);
        cache.remember(tokens);
        Ok(logits.flatten_all()?.to_dtype(DType::F32)?)
    }
}

/// What the library said when it gave up.
fn broken(words: String) -> Error {
    Error::Tensor(candle_core::Error::Msg(words))
}
