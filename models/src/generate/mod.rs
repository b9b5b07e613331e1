//! Writing text: one token after another, each from what came before it.
//!
//! No tape is used. The keys and values of everything read so far stay in a cache, so that a conversation that continues
//! reads only what is new.

pub mod chances;
mod json;
pub mod sample;
pub mod stop;

use std::{ops::ControlFlow, rc::Rc, time::Instant};

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    arch::{kv_cache::KvCache, network::Network, sites::Site, steering::Steering},
    data::tokenizer::Tokenizer,
    ops::{
        kept::CacheType,
        kernels::{self, metal::in_pool},
    },
    profile::{self, Place},
};
use chances::Chances;
use json::JsonText;
use sample::{Biases, Sampler, SamplingSettings};
use stop::{Passed, StopTexts};

/// Tokens of a prompt read in one pass, so that a long prompt needs no more memory than this many.
const PROMPT_CHUNK_TOKENS: usize = 512;

/// Tokens of an answer that there is room for from its start. One that becomes longer, which is rare where the limit is
/// this high, gets more on the way.
const RESERVED_TOKENS: usize = 1024;

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
        let context = self.check_length(prompt)?;
        let _avoided = kernels::avoid(&self.avoid_kernels)?;
        let started = Instant::now();
        let sampler = Sampler::new(&wanted.sampling)?.with_biases(wanted.biases.clone());
        if wanted.anew {
            self.cache.truncate(0);
        }
        let expected = expected_tokens(prompt.len(), wanted.limits.max_tokens, context);
        self.cache.expect(expected);
        let (logits, cached_tokens) = self.read(prompt, show)?;
        let mut answer = Answer {
            text: String::new(),
            tokens: Vec::new(),
            ended: Ended::Asked,
            prompt_tokens: prompt.len() - cached_tokens,
            cached_tokens,
            prompt_seconds: started.elapsed().as_secs_f64(),
            seconds: 0.0,
        };
        if let Some(logits) = logits {
            let started = Instant::now();
            self.draw(tokenizer, logits, sampler, wanted, &mut answer, show)?;
            answer.seconds = started.elapsed().as_secs_f64();
        }
        Ok(answer)
    }

    /// Writes from scores [v] on, token by token, into an answer.
    fn draw(
        &mut self,
        tokenizer: &Tokenizer,
        mut logits: Tensor,
        mut sampler: Sampler,
        wanted: &Wanted,
        answer: &mut Answer,
        show: &mut dyn FnMut(Written) -> ControlFlow<()>,
    ) -> Result<()> {
        let (limits, context) = (&wanted.limits, self.network.context());
        let mut stream = tokenizer.stream_decoder();
        let mut stops = StopTexts::new(&limits.stop);
        let mut json = wanted
            .is_json
            .then(|| JsonText::new(tokenizer, &limits.stop_tokens));
        let (text, tokens) = (&mut answer.text, &mut answer.tokens);
        let mut ended = loop {
            if tokens.len() == limits.max_tokens {
                break Ended::MaxTokens;
            }
            let token = sampler.next_of(&logits, tokens, json.as_ref())?;
            if tokenizer.special.stop.contains(&token) || limits.stop_tokens.contains(&token) {
                break Ended::StopToken;
            }
            let chances = wanted.likeliest;
            let chances = chances.map(|most| Chances::of(&logits, token, most, tokenizer));
            tokens.push(token);
            if let Some(json) = &mut json {
                json.push(tokenizer, token);
            }
            let passed = stops.push(&stream.push(token)?);
            let (Passed::On(piece) | Passed::Stopped(piece)) = &passed;
            text.push_str(piece);
            let written = Written {
                piece,
                is_token: true,
                chances: chances.transpose()?,
            };
            match (show(written), passed) {
                (_, Passed::Stopped(_)) => break Ended::StopText,
                (ControlFlow::Break(()), _) => break Ended::Asked,
                _ if json.as_ref().is_some_and(JsonText::is_over) => break Ended::StopToken,
                // Nobody asks what would follow; but who watches is shown every token as it is read.
                _ if tokens.len() == limits.max_tokens && self.watch.is_none() => {
                    break Ended::MaxTokens;
                }
                _ if self.cache.read().len() + 1 >= context => break Ended::Context,
                _ => logits = self.step(&[token], true)?,
            }
        };
        if matches!(ended, Ended::StopToken | Ended::MaxTokens | Ended::Context) {
            let passed = stops.push(&stream.finish()?);
            let (Passed::On(piece) | Passed::Stopped(piece)) = &passed;
            let rest = match passed {
                Passed::On(_) => format!("{piece}{}", stops.finish()),
                Passed::Stopped(_) => {
                    ended = Ended::StopText;
                    piece.clone()
                }
            };
            text.push_str(&rest);
            // The answer is over; whether the listener wants more changes nothing.
            let _ = show(Written::rest(&rest));
        }
        answer.ended = ended;
        Ok(())
    }

    /// The model's context, if the prompt leaves room in it.
    fn check_length(&self, prompt: &[u32]) -> Result<usize> {
        let context = self.network.context();
        if prompt.is_empty() || prompt.len() >= context {
            let (tokens, most) = (prompt.len(), context - 1);
            let problem =
                format!("the prompt has {tokens} tokens; the model reads from 1 to {most}");
            return Err(Error::Data(problem));
        }
        Ok(context)
    }

    /// Reads what of `prompt` is not in the cache. Returns the scores [v] after it, or nothing when `show` breaks before
    /// the end, and how much was cached.
    fn read(
        &mut self,
        prompt: &[u32],
        show: &mut dyn FnMut(Written) -> ControlFlow<()>,
    ) -> Result<(Option<Tensor>, usize)> {
        // A text that is long for the model turns by other angles from its first token on: it is read in one pass, and
        // what was read while it was shorter is of no use, as is what was read of a long one for a shorter one.
        let read = self.cache.read();
        let is_long = self.network.is_long(prompt.len());
        let is_alike = is_long == self.network.is_long(read.len());
        let common = read
            .iter()
            .zip(prompt)
            .take_while(|(a, b)| a == b && is_alike)
            .count();
        // At least the last token has to be read, since its scores are wanted.
        let cached = common.min(prompt.len() - 1);
        self.cache.truncate(cached);
        let chunk = if is_long {
            prompt.len()
        } else {
            PROMPT_CHUNK_TOKENS
        };
        let mut logits = None;
        for part in prompt[cached..].chunks(chunk) {
            logits = Some(self.step(part, false)?);
            if show(Written::rest("")).is_break() {
                return Ok((None, cached));
            }
        }
        Ok((logits, cached))
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

/// How many tokens to make room for before an answer begins: the prompt and what the answer may become.
fn expected_tokens(prompt: usize, max_tokens: usize, context: usize) -> usize {
    (prompt + max_tokens.min(RESERVED_TOKENS)).min(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_for_what_an_answer_may_become_and_not_for_a_whole_long_context() {
        for (prompt, max_tokens, expected) in [
            (10, 512, 522),
            (10, 30_000, 1_034),
            (32_500, 512, 32_768),
            (10, usize::MAX, 1_034),
        ] {
            let room = expected_tokens(prompt, max_tokens, 32_768);
            assert_eq!(room, expected, "{prompt} and {max_tokens}");
        }
    }
}
