//! A completion for the server, or a vector: of the text as it was sent, or a sentence about why not.
//!
//! Unlike in a conversation of the app, nothing is left out of a beginning that is too long: who sent it has to know.

use std::{ops::ControlFlow, time::Instant};

use models::{
    generate::{Limits, Wanted, Written},
    ops::{kept::CacheType, kernels},
    tasks::language::embed::embed,
};

use super::Chat;
use crate::wire::{
    completion::{Beginning, Completed, Completion, Drafted, Embedded, Usage},
    error::Result,
};

impl Chat {
    /// Completes, with keys and values kept as `cache` says. `show` hears every token, and can break to stop at once.
    pub(crate) fn complete(
        &mut self,
        completion: Completion,
        cache: CacheType,
        show: &mut dyn FnMut(Drafted) -> ControlFlow<()>,
    ) -> Result<Completed> {
        let (prompt, ends) = match self.beginning(&completion.beginning)? {
            Ok(beginning) => beginning,
            Err(why) => return Ok(Completed::Unfit(why)),
        };
        let context = self.context();
        if prompt.len() >= context {
            let tokens = prompt.len();
            return Ok(Completed::TooLong { tokens, context });
        }
        if completion.echo {
            let piece = self.model.tokenizer.decode(&prompt, false)?;
            let _ = show(Drafted {
                piece,
                is_token: false,
                chances: None,
            });
        }
        let wanted = Wanted {
            sampling: completion.sampling,
            biases: completion.biases,
            limits: Limits {
                max_tokens: completion.max_tokens.unwrap_or(context),
                stop: [ends.stop, completion.stop].concat(),
                stop_tokens: ends.stop_tokens,
            },
            is_json: completion.is_json,
            likeliest: completion.likeliest,
            anew: completion.anew,
        };
        let mut tell = |it: Written| {
            show(Drafted {
                piece: it.piece.to_owned(),
                is_token: it.is_token,
                chances: it.chances,
            })
        };
        self.generator.keep(cache);
        let tokenizer = &self.model.tokenizer;
        let answer = self
            .generator
            .complete(tokenizer, &prompt, &wanted, &mut tell)?;
        Ok(Completed::Written(Usage {
            prompt_tokens: prompt.len(),
            cached_tokens: answer.cached_tokens,
            completion_tokens: answer.tokens.len(),
            prompt_seconds: answer.prompt_seconds,
            seconds: answer.seconds,
            ended: answer.ended,
        }))
    }

    /// Makes a vector of a text: the mean of its hidden states.
    pub(crate) fn embed(&mut self, text: &Beginning) -> Result<Embedded> {
        let started = Instant::now();
        let (tokens, _) = match self.beginning(text)? {
            Ok(text) => text,
            Err(why) => return Ok(Embedded::Unfit(why)),
        };
        let (context, count) = (self.context(), tokens.len());
        if count > context {
            let tokens = count;
            return Ok(Embedded::TooLong { tokens, context });
        }
        let Some(decoder) = self.model.network.decoder() else {
            let why = "this model is no decoder, and has no states that a vector could be made of";
            return Ok(Embedded::Unfit(why.to_owned()));
        };
        let _avoided = kernels::avoid(&self.checked.composed)?;
        Ok(Embedded::Vector {
            numbers: embed(decoder, &tokens)?,
            tokens: count,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// The tokens of a beginning and what ends it, or why this model can’t complete it.
    fn beginning(&self, beginning: &Beginning) -> Result<Result<(Vec<u32>, Limits), String>> {
        let plain = || Limits {
            stop: Vec::new(),
            ..self.model.limits(0)
        };
        let known = self.model.network.vocab_size();
        let (tokens, ends) = match beginning {
            Beginning::Messages(_) if !self.answers() => {
                let why =
                    "this model continues text and was not trained to chat; ask /v1/completions";
                return Ok(Err(why.to_owned()));
            }
            // What a template refuses, it refuses for the messages: roles in another order, or one that it does not know.
            Beginning::Messages(messages) => match self.model.chat_prompt(messages) {
                Ok(tokens) => (tokens, self.model.limits(0)),
                Err(error) => return Ok(Err(error.to_string())),
            },
            Beginning::Text(text) => (self.model.tokenizer.encode(text, true)?, plain()),
            Beginning::Tokens(tokens) => (tokens.clone(), plain()),
        };
        if let Some(token) = tokens.iter().find(|it| **it as usize >= known) {
            let why = format!("there is no token {token}; the model knows those below {known}");
            return Ok(Err(why));
        }
        match tokens.is_empty() {
            true => Ok(Err(
                "there is nothing to continue: the prompt has no tokens".to_owned(),
            )),
            false => Ok(Ok((tokens, ends))),
        }
    }
}
