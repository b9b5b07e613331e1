//! What the server asks: completions, several at once, and vectors, of the text as it was sent, or a sentence about why not.
//!
//! Unlike in a conversation of the app, nothing is left out of a beginning that is too long: who sent it has to know.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::mpsc::Receiver,
    time::Instant,
};

use models::{
    generate::{
        Limits, Wanted,
        slots::{Heard, Slots},
    },
    ops::{kept::CacheType, kernels},
    tasks::language::embed::embed,
};

use super::{super::mistake, Chat};
use crate::wire::{
    completion::{
        Beginning, Completed, Completion, Drafted, Embedded, RequestEvent, Requested, Usage,
    },
    engine::Ask,
    error::{AppError, Result},
};

/// Hears what comes of a request.
type Tell<'a> = dyn FnMut(u64, RequestEvent) + 'a;

impl Chat {
    /// Completes so many texts at once from now on, with keys and values kept as `cache` says.
    pub(crate) fn serve(&mut self, slots: usize, cache: CacheType) {
        let (network, avoided) = (self.model.network.clone(), self.checked.composed.clone());
        self.slots = Some(Slots::new(network, slots, cache, avoided));
    }

    /// Does what the server asks, several requests at once, until all are over.
    pub(crate) fn obey_server(
        &mut self,
        first: Ask,
        asks: &Receiver<Ask>,
        tell: &mut Tell,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let mut next = Some(first);
        while !stop() {
            match next {
                Some(Ask::Begin { request, wanted }) => {
                    // A mistake in what one asks, as in a template, ends no other.
                    let begin = || self.begin(request, wanted, tell);
                    if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(begin)) {
                        let error = mistake(&*panic);
                        tell(request, RequestEvent::Failed(error));
                    }
                    // Those who write go on between two vectors.
                    self.write(tell)?;
                }
                Some(Ask::Leave { request }) => {
                    self.leave(request);
                    tell(request, RequestEvent::Left);
                }
                Some(_) => {
                    let why = "the engine is asked something else while it serves";
                    return Err(AppError::failed(why));
                }
                None if self.write(tell)? => {}
                None => return Ok(()),
            }
            next = asks.try_recv().ok();
        }
        Ok(())
    }

    /// Begins what the server was asked. A vector is made at once.
    fn begin(&mut self, request: u64, wanted: Requested, tell: &mut Tell) {
        let event = match wanted {
            Requested::Embed(text) => self.embed(&text).map(RequestEvent::Embedded).map(Some),
            Requested::Complete(completion) => {
                let begun = self.begin_completion(request, *completion, tell);
                begun.map(|over| over.map(RequestEvent::Completed))
            }
        };
        match event {
            Ok(None) => {}
            Ok(Some(event)) => tell(request, event),
            Err(error) => tell(request, RequestEvent::Failed(error)),
        }
    }

    /// Begins a completion, or says what is in its way.
    fn begin_completion(
        &mut self,
        request: u64,
        completion: Completion,
        tell: &mut Tell,
    ) -> Result<Option<Completed>> {
        let (prompt, ends) = match self.beginning(&completion.beginning)? {
            Ok(beginning) => beginning,
            Err(why) => return Ok(Some(Completed::Unfit(why))),
        };
        let context = self.context();
        if prompt.len() >= context {
            let tokens = prompt.len();
            return Ok(Some(Completed::TooLong { tokens, context }));
        }
        let tokenizer = &self.model.tokenizer;
        let echoed = match completion.echo {
            true => Some(tokenizer.decode(&prompt, false)?),
            false => None,
        };
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
        let slots = self.slots.as_mut();
        let slots = slots.ok_or_else(|| AppError::failed("this model is not served"))?;
        slots.begin(request, tokenizer, prompt, &wanted)?;
        if let Some(piece) = echoed {
            let drafted = Drafted {
                piece,
                is_token: false,
                chances: None,
            };
            tell(request, RequestEvent::Drafted(drafted));
        }
        Ok(None)
    }

    /// Ends a completion, if it is not over. Nothing more is told of it.
    fn leave(&mut self, request: u64) {
        if let Some(slots) = &mut self.slots {
            slots.leave(request);
        }
    }

    /// Writes a token of every completion, and reads a part of a beginning. Whether there is more to do.
    fn write(&mut self, tell: &mut Tell) -> Result<bool> {
        let Some(slots) = self.slots.as_mut().filter(|slots| !slots.is_idle()) else {
            return Ok(false);
        };
        let mut hear = |request, heard: Heard| {
            let event = match heard {
                Heard::Written(it) if !it.is_token && it.piece.is_empty() => return,
                Heard::Written(it) => RequestEvent::Drafted(Drafted {
                    piece: it.piece.to_owned(),
                    is_token: it.is_token,
                    chances: it.chances,
                }),
                Heard::Ended(answer) => RequestEvent::Completed(Completed::Written(Usage {
                    prompt_tokens: answer.cached_tokens + answer.prompt_tokens,
                    cached_tokens: answer.cached_tokens,
                    completion_tokens: answer.tokens.len(),
                    prompt_seconds: answer.prompt_seconds,
                    seconds: answer.seconds,
                    ended: answer.ended,
                })),
                Heard::Failed(error) => RequestEvent::Failed(error.into()),
            };
            tell(request, event);
        };
        slots.step(&self.model.tokenizer, &mut hear)?;
        Ok(true)
    }

    /// Makes a vector of a text: the mean of its hidden states.
    fn embed(&mut self, text: &Beginning) -> Result<Embedded> {
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
            let why = "only decoders that can be trained here have states that a vector could be made of, and this model is not one of them";
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
