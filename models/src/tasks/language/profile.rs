//! Where an answer spends its time and memory: reading a prompt, and writing one token after it.
//!
//! Deliberately absent: how steps are measured, which is `train/profile.rs`.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::model::LanguageModel;
use crate::{
    Result,
    generate::{Generator, Limits, Wanted, sample::SamplingSettings},
    train::profile::{Profile, profile_steps},
};

/// Tokens of the prompt, where the model’s context has room for twice as many.
const PROMPT_TOKENS: usize = 512;
/// Which token follows which in it: any will do, and not all the same.
const APART: usize = 7919;

/// Where an answer spends its time and memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerProfile {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Reading all of it.
    pub prompt: Profile,
    /// Reading one token after it, and choosing the next one.
    pub token: Profile,
}

/// Reads a prompt a few times, writes a few tokens after it, and says where both spend their time and memory. Nothing when it was
/// stopped.
pub fn profile_answer(
    model: &LanguageModel,
    generator: &mut Generator,
    stop: &dyn Fn() -> bool,
) -> Result<Option<AnswerProfile>> {
    let (device, tokenizer) = (model.network.device(), &model.tokenizer);
    let prompt_tokens = PROMPT_TOKENS.min(model.network.context() / 2).max(1);
    let known = model.network.vocab_size().max(1);
    let prompt: Vec<u32> = (0..prompt_tokens)
        .map(|at| (at * APART % known) as u32)
        .collect();
    // What was read before is not read again, but for the last token: as many are read as when one is written.
    let mut complete = |anew: bool, max_tokens: usize| {
        let wanted = Wanted {
            sampling: SamplingSettings::greedy(),
            limits: Limits {
                max_tokens,
                ..Limits::default()
            },
            anew,
            ..Wanted::default()
        };
        let mut hear = |_: crate::generate::Written| ControlFlow::Continue(());
        generator.complete(tokenizer, &prompt, &wanted, &mut hear)?;
        Ok(())
    };
    let Some(of_prompt) = profile_steps(device, &mut || complete(true, 0), stop)? else {
        return Ok(None);
    };
    let of_token = profile_steps(device, &mut || complete(false, 1), stop)?;
    Ok(of_token.map(|token| AnswerProfile {
        prompt_tokens,
        prompt: of_prompt,
        token,
    }))
}
