//! Writing text: one token after another, each from what came before it.
//!
//! No tape is used. The keys and values of everything read so far stay in a cache, so that a conversation that continues
//! reads only what is new.

pub mod chances;
mod json;
pub mod sample;
pub mod slots;
pub mod stop;
mod writing;

use std::{ops::ControlFlow, rc::Rc};

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::{
    Result,
    arch::{kv_cache::KvCache, network::Network, sites::Site, steering::Steering},
    data::tokenizer::Tokenizer,
    ops::{
        kept::CacheType,
        kernels::{self, metal::in_pool},
    },
    profile::{self, Place},
};
use chances::Chances;
use json::JsonTokens;
use sample::{Biases, SamplingSettings};
use writing::Writing;

/// Tokens of a prompt read in one pass, so that a long prompt needs no more memory than this many.
const PROMPT_CHUNK_TOKENS: usize = 512;

/// When an answer ends, besides at the model's own end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The most tokens of an answer.
    pub max_tokens: usize,
    /// Texts that end it; they are not part of it.
    pub stop: Vec<String>,
    /// Tokens that end it, besides the tokenizer's own.
    pub stop_tokens: Vec<u32>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The model said so.
    StopToken,
    /// A stop text appeared.
    StopText,
    /// It has as many tokens as it may.
    MaxTokens,
    /// The model's context is full.
    Context,
    /// Whoever listens asked for it.
    Asked,
}

/// An answer, and what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// All of its text.
    pub text: String,
    /// Its tokens, without the one that ended it.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub ended: Ended,
    /// Tokens of the prompt that had to be read, and those that were still in the cache.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that were in the cache.
    pub cached_tokens: usize,
    /// Seconds until the first token.
    pub prompt_seconds: f64,
    /// Seconds for the tokens after the first.
    pub seconds: f64,
}

impl Answer {
    /// Tokens a second, not counting the first, which pays for the prompt.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens.len().saturating_sub(1) as f64 / self.seconds.max(1e-9)
    }
}

/// What is to be continued, and how.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// How tokens are drawn.
    pub sampling: SamplingSettings,
    /// What is added to scores before.
    pub biases: Biases,
    /// When the answer ends.
    pub limits: Limits,
    /// Whether it is one object of JSON. It ends with it.
    pub is_json: bool,
    /// How many of the most probable tokens are told with each one that is written. Without it, no probabilities are.
    pub likeliest: Option<usize>,
    /// Reads all of the prompt, also what is in the cache: numbers that were computed in other groups of tokens can differ in their
    /// last digit.
    pub anew: bool,
}

/// What is heard while text is written.
#[derive(Debug)]
pub struct Written<'a> {
    /// Text that is certain now. It may be empty.
    pub piece: &'a str,
    /// Whether a token was written; otherwise a part of the prompt was read, or the rest of the text is given out.
    pub is_token: bool,
    /// How probable the token was, if that was wanted.
    pub chances: Option<Chances>,
}

/// Looks at the hidden states of what is read and written, and changes nothing of it.
pub trait Watch {
    /// The hidden states [1, t, d] of a site. Of one pass, sites come in the order in which it reaches them.
    fn state(&mut self, site: Site, x: &Tensor);

    /// The pass is over. It read these tokens, whose states were the last of those that were shown; `is_answer` says whether they were
    /// written and not given. What the cache holds has to be the same afterwards.
    fn read(
        &mut self,
        tokens: &[u32],
        is_answer: bool,
        network: &Network,
        cache: &mut KvCache,
    ) -> Result<()>;
}

/// A model that writes, with what it has read so far.
pub struct Generator {
    network: Network,
    cache: KvCache,
    avoid_kernels: Vec<String>,
    watch: Option<Box<dyn Watch>>,
    json: JsonTokens,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_tokens: 512,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
        }
    }
}

impl Generator {
    /// A writer that has read nothing.
    pub fn new(network: Network) -> Self {
        Self {
            cache: network.new_cache(),
            network,
            avoid_kernels: Vec::new(),
            watch: None,
            json: JsonTokens::default(),
        }
    }

    /// Has somebody look at hidden states from now on, or nobody. What is written is the same.
    pub fn watch(&mut self, watch: Option<Box<dyn Watch>>) {
        self.watch = watch;
    }

    /// Has hidden states changed from now on, or without changes nothing. What was read is read again.
    pub fn steer(&mut self, steering: Rc<[Steering]>) {
        self.cache.steer(steering);
    }

    /// Has keys and values of what was read kept so from now on. Where that is another way, all is read again.
    pub fn keep(&mut self, chosen: CacheType) {
        self.cache.keep(self.network.cache_type(chosen));
    }

    /// The same writer, without the kernels of these operations, which the device check found wrong.
    pub fn avoiding(self, avoid_kernels: Vec<String>) -> Self {
        Self {
            avoid_kernels,
            ..self
        }
    }

    /// The model that scores the next token.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Continues `prompt`. `show` gets each piece of text as soon as it is certain, and can break to stop at once. It is
    /// asked after every pass, also while the prompt is read; then the piece is empty.
    ///
    /// What `prompt` has in common with what was read and written before is not read again.
    pub fn write(
        &mut self,
        tokenizer: &Tokenizer,
        prompt: &[u32],
        sampling: &SamplingSettings,
        limits: &Limits,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Answer> {
        let wanted = Wanted {
            sampling: sampling.clone(),
            limits: limits.clone(),
            ..Wanted::default()
        };
        self.complete(tokenizer, prompt, &wanted, &mut |it| show(it.piece))
    }

    /// The same with everything that can be wanted of it.
    pub fn complete(
        &mut self,
        tokenizer: &Tokenizer,
        prompt: &[u32],
        wanted: &Wanted,
        show: &mut dyn FnMut(Written) -> ControlFlow<()>,
    ) -> Result<Answer> {
        let _avoided = kernels::avoid(&self.avoid_kernels)?;
        let context = self.network.context();
        let mut writing = Writing::new(tokenizer, &mut self.json, wanted, context)?;
        let most = PROMPT_CHUNK_TOKENS;
        let unread = writing.prepare(&self.network, &mut self.cache, prompt, most)?;
        let mut logits = None;
        for part in prompt[unread.first..].chunks(unread.at_once) {
            logits = Some(self.step(part, false)?);
            if show(Written::rest("")).is_break() {
                return Ok(writing.end(Ended::Asked));
            }
        }
        while let Some(scores) = logits {
            let held = self.cache.read().len();
            match writing.draw(tokenizer, &scores, held, show)? {
                ControlFlow::Break(ended) => return writing.finish(ended, show),
                // Nobody asks what would follow; but who watches is shown every token as it is read.
                ControlFlow::Continue(_) if writing.is_full() && self.watch.is_none() => break,
                ControlFlow::Continue(token) => logits = Some(self.step(&[token], true)?),
            }
        }
        writing.finish(Ended::MaxTokens, show)
    }

    /// Reads tokens and returns the scores [v] after the last.
    fn step(&mut self, tokens: &[u32], is_answer: bool) -> Result<Tensor> {
        let _profiled = profile::at(Place::Forward);
        let Self {
            network,
            cache,
            watch,
            ..
        } = self;
        let Some(watch) = watch else {
            return in_pool(|| network.next_logits(tokens, cache));
        };
        let mut seen = |site, x: &Tensor| watch.state(site, x);
        let logits = in_pool(|| network.next_logits_seen(tokens, cache, &mut seen))?;
        watch.read(tokens, is_answer, network, cache)?;
        Ok(logits)
    }
}

impl<'a> Written<'a> {
    /// Text without a token.
    fn rest(piece: &'a str) -> Self {
        Self {
            piece,
            is_token: false,
            chances: None,
        }
    }
}
