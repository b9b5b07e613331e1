//! The state of one answer while it is written: what the next token is drawn by, what of its text is certain, and when it ends.
//!
//! Deliberately absent: reading. Whoever writes reads the prompt and each token that is drawn, alone or beside others.

use std::{ops::ControlFlow, time::Instant};

use candle_core::Tensor;

use super::{
    Answer, Ended, Wanted, Written,
    chances::Chances,
    json::{JsonText, JsonTokens},
    sample::Sampler,
    stop::{Passed, StopTexts},
};
use crate::{
    Error, Result,
    arch::{kv_cache::KvCache, network::Network},
    data::{stream::StreamDecoder, tokenizer::Tokenizer},
};

/// Tokens of an answer that there is room for from its start. One that becomes longer, which is rare where the limit is
/// this high, gets more on the way.
const RESERVED_TOKENS: usize = 1024;

/// Room is made for so many tokens more, so that an answer that is a little longer than the last finds it.
const ROOM_TOKENS: usize = 256;

/// An answer that is being written.
pub(super) struct Writing {
    wanted: Wanted,
    /// The most tokens that the model can read.
    context: usize,
    sampler: Sampler,
    stream: StreamDecoder,
    stops: StopTexts,
    json: Option<JsonText>,
    answer: Answer,
    began: Instant,
    first_token: Option<Instant>,
}

/// What of a prompt has to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unread {
    /// The first token of it.
    pub(super) first: usize,
    /// The most tokens to read in one pass.
    pub(super) at_once: usize,
}

impl Writing {
    /// An answer of which nothing is written, by a model that can read so many tokens. `json` is that of the tokenizer.
    pub(super) fn new(
        tokenizer: &Tokenizer,
        json: &mut JsonTokens,
        wanted: &Wanted,
        context: usize,
    ) -> Result<Self> {
        let ends = &wanted.limits.stop_tokens;
        Ok(Self {
            context,
            sampler: Sampler::new(&wanted.sampling)?.with_biases(wanted.biases.clone()),
            stream: tokenizer.stream_decoder(),
            stops: StopTexts::new(&wanted.limits.stop),
            json: wanted.is_json.then(|| json.text(tokenizer, ends)),
            answer: Answer {
                text: String::new(),
                tokens: Vec::new(),
                ended: Ended::Asked,
                prompt_tokens: 0,
                cached_tokens: 0,
                prompt_seconds: 0.0,
                seconds: 0.0,
            },
            began: Instant::now(),
            first_token: None,
            wanted: wanted.clone(),
        })
    }

    /// Has a cache keep what it has read of the prompt already, with room for the rest and an answer. Returns what is to be read,
    /// in parts of at most so many tokens.
    pub(super) fn prepare(
        &mut self,
        network: &Network,
        cache: &mut KvCache,
        prompt: &[u32],
        most_at_once: usize,
    ) -> Result<Unread> {
        if prompt.is_empty() || prompt.len() >= self.context {
            let (tokens, most) = (prompt.len(), self.context - 1);
            let problem =
                format!("the prompt has {tokens} tokens; the model reads from 1 to {most}");
            return Err(Error::Data(problem));
        }
        // At least the last token has to be read, since its scores are wanted.
        let cached = match self.wanted.anew {
            true => 0,
            false => in_common(network, cache, prompt).min(prompt.len() - 1),
        };
        cache.truncate(cached);
        let max_tokens = self.wanted.limits.max_tokens;
        cache.expect(expected_tokens(prompt.len(), max_tokens, self.context));
        self.answer.prompt_tokens = prompt.len() - cached;
        self.answer.cached_tokens = cached;
        // A text that is long for the model is read in one pass.
        let at_once = match network.is_long(prompt.len()) {
            true => prompt.len(),
            false => most_at_once,
        };
        Ok(Unread {
            first: cached,
            at_once,
        })
    }

    /// Draws a token by scores [v], after so many tokens that were read. Returns it, to be read, or why the answer ends without one
    /// more being read.
    pub(super) fn draw(
        &mut self,
        tokenizer: &Tokenizer,
        logits: &Tensor,
        held: usize,
        show: &mut dyn FnMut(Written) -> ControlFlow<()>,
    ) -> Result<ControlFlow<Ended, u32>> {
        let now = Instant::now();
        self.first_token.get_or_insert(now);
        if self.is_full() {
            return Ok(ControlFlow::Break(Ended::MaxTokens));
        }
        let ends = &self.wanted.limits.stop_tokens;
        let json = self.json.as_ref();
        let token = self.sampler.next_of(logits, &self.answer.tokens, json)?;
        if tokenizer.special.stop.contains(&token) || ends.contains(&token) {
            return Ok(ControlFlow::Break(Ended::StopToken));
        }
        let chances = self.wanted.likeliest;
        let chances = chances.map(|most| Chances::of(logits, token, most, tokenizer));
        self.answer.tokens.push(token);
        if let Some(json) = &mut self.json {
            json.push(tokenizer, token);
        }
        let passed = self.stops.push(&self.stream.push(token)?);
        let (Passed::On(piece) | Passed::Stopped(piece)) = &passed;
        self.answer.text.push_str(piece);
        let written = Written {
            piece,
            is_token: true,
            chances: chances.transpose()?,
        };
        let ended = match (show(written), &passed) {
            (_, Passed::Stopped(_)) => Ended::StopText,
            (ControlFlow::Break(()), _) => Ended::Asked,
            _ if self.json.as_ref().is_some_and(JsonText::is_over) => Ended::StopToken,
            _ if held + 1 >= self.context && !self.is_full() => Ended::Context,
            _ => return Ok(ControlFlow::Continue(token)),
        };
        Ok(ControlFlow::Break(ended))
    }

    /// Whether it has as many tokens as it may.
    pub(super) fn is_full(&self) -> bool {
        self.answer.tokens.len() >= self.wanted.limits.max_tokens
    }

    /// The answer, after text that could still have become something that ends it was given out.
    pub(super) fn finish(
        mut self,
        mut ended: Ended,
        show: &mut dyn FnMut(Written) -> ControlFlow<()>,
    ) -> Result<Answer> {
        if matches!(ended, Ended::StopToken | Ended::MaxTokens | Ended::Context) {
            let passed = self.stops.push(&self.stream.finish()?);
            let (Passed::On(piece) | Passed::Stopped(piece)) = &passed;
            let rest = match passed {
                Passed::On(_) => format!("{piece}{}", self.stops.finish()),
                Passed::Stopped(_) => {
                    ended = Ended::StopText;
                    piece.clone()
                }
            };
            self.answer.text.push_str(&rest);
            // The answer is over; whether the listener wants more changes nothing.
            let _ = show(Written::rest(&rest));
        }
        Ok(self.end(ended))
    }

    /// The answer as far as it came.
    pub(super) fn end(self, ended: Ended) -> Answer {
        let first = self.first_token.unwrap_or_else(Instant::now);
        Answer {
            ended,
            prompt_seconds: (first - self.began).as_secs_f64(),
            seconds: first.elapsed().as_secs_f64(),
            ..self.answer
        }
    }
}

/// How many tokens at the beginning of a prompt need not be read, since a cache holds them, turned as they would be in it.
pub(super) fn in_common(network: &Network, cache: &KvCache, prompt: &[u32]) -> usize {
    // A text that is long for the model turns by other angles from its first token on: what was read while it was shorter is of no
    // use, as is what was read of a long one for a shorter one.
    let read = cache.read();
    if network.is_long(prompt.len()) != network.is_long(read.len()) {
        return 0;
    }
    let common = read.iter().zip(prompt).take_while(|(a, b)| a == b).count();
    // What can't go back continues what it has read, or reads all of it anew: part by part, so that it can be stopped.
    let is_continued = common == read.len() && common < prompt.len();
    match network.can_go_back() || is_continued {
        true => common,
        false => 0,
    }
}

/// How many tokens to make room for before an answer begins: the prompt and what the answer may become.
fn expected_tokens(prompt: usize, max_tokens: usize, context: usize) -> usize {
    let tokens = prompt + max_tokens.min(RESERVED_TOKENS);
    tokens.next_multiple_of(ROOM_TOKENS).min(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_for_what_an_answer_may_become_and_not_for_a_whole_long_context() {
        for (prompt, max_tokens, expected) in [
            (10, 512, 768),
            (10, 30_000, 1_280),
            (32_500, 512, 32_768),
            (10, usize::MAX, 1_280),
        ] {
            let room = expected_tokens(prompt, max_tokens, 32_768);
            assert_eq!(room, expected, "{prompt} and {max_tokens}");
        }
    }
}
