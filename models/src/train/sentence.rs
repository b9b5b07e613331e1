//! What happened in a run, in words: the same in the window, in the terminal and in a notice.

use super::{TrainEvent, fit::amount, forecast::words_for_cost};
use crate::figures::{count, duration};

/// A clause without a capital letter and a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// What happened.
    pub text: String,
    /// Whether it is a warning or an error.
    pub is_bad: bool,
}

impl Sentence {
    /// With a capital letter and a full stop.
    pub fn whole(&self) -> String {
        let mut letters = self.text.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        format!("{}.", first.chain(letters).collect::<String>())
    }
}

impl TrainEvent {
    /// What happened. Nothing for what is shown as figures, or as what it is.
    pub fn sentence(&self) -> Option<Sentence> {
        let (text, is_bad) = match self {
            Self::Stepped { .. } | Self::Evaluated { .. } | Self::Showed(_) => return None,
            Self::Started {
                step,
                trainable_parameters,
                parameters,
                device,
                ..
            } => {
                let began = match step {
                    0 => "started".to_owned(),
                    step => format!("resumed at step {step}"),
                };
                let (trained, all) = (count(*trainable_parameters), count(*parameters));
                let words =
                    format!("{began} on {device}; {trained} of {all} parameters are trained");
                (words, false)
            }
            Self::Tried {
                steps,
                seconds,
                peak_bytes,
                free_bytes,
            } => {
                let cost = words_for_cost(*seconds, *peak_bytes, *free_bytes);
                (
                    format!("the run takes {cost}, measured in {steps} steps"),
                    false,
                )
            }
            Self::Saved { step, bytes, .. } => {
                (format!("step {step} saved, {}", amount(*bytes)), false)
            }
            Self::RolledBack {
                step,
                to_step,
                why,
                learning_rate,
            } => {
                let back =
                    format!("back to step {to_step}, on with learning rate {learning_rate:.1e}");
                (format!("step {step}: {why}; {back}"), true)
            }
            Self::Relieved {
                to_step, why, how, ..
            } => (format!("{why}; on from step {to_step}: {how}"), true),
            Self::Waiting {
                step,
                why,
                missing_bytes,
            } => {
                let missing = missing_bytes.map(|bytes| format!(", {} are missing", amount(bytes)));
                let missing = missing.unwrap_or_default();
                let stands =
                    "what was saved before stands, and the run resumes when the disk can take it";
                (
                    format!("step {step} waits for the disk: {why}{missing}; {stands}"),
                    true,
                )
            }
            Self::Warned { message } => (message.clone(), true),
            Self::Paused { step, why } => {
                let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
                (format!("paused at step {step}, saved{why}"), false)
            }
            Self::Continued { step } => (format!("resumed at step {step}"), false),
            Self::Stopped { step: 0 } => ("stopped before the first step".to_owned(), false),
            Self::Stopped { step } => (format!("stopped at step {step}, saved"), false),
            Self::Failed { message, .. } => (message.clone(), true),
            Self::Finished { step, seconds, .. } => (
                format!("all {step} steps are done, in {}", duration(*seconds)),
                false,
            ),
        };
        Some(Sentence { text, is_bad })
    }
}
