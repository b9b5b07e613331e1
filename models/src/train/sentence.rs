//! What happened in a run, in words: the same in the window, in the terminal and in a notice.

use super::{TrainEvent, forecast::words_for_cost};
use crate::figures::{self, capitalized, count, counted, duration};

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
        format!("{}.", capitalized(&self.text))
    }
}

impl TrainEvent {
    /// What happened. Nothing for what is shown as figures, or as what it is.
    pub fn sentence(&self) -> Option<Sentence> {
        let at = |step: &usize| count(*step as u64);
        let (text, is_bad) = match self {
            Self::Stepped { .. }
            | Self::Ranks { .. }
            | Self::Evaluated { .. }
            | Self::Showed(_) => {
                return None;
            }
            Self::Started {
                step,
                trainable_parameters,
                parameters,
                device,
                ..
            } => {
                let began = match step {
                    0 => "started".to_owned(),
                    step => format!("resumed at step {}", at(step)),
                };
                let (trained, all) = (count(*trainable_parameters), count(*parameters));
                let message = match *parameters {
                    0 => format!("{began} on {device}"),
                    _ => format!("{began} on {device}; {trained} of {all} parameters are trained"),
                };
                (message, false)
            }
            Self::Tried {
                steps,
                seconds,
                peak_bytes,
                free_bytes,
            } => {
                let cost = words_for_cost(*seconds, *peak_bytes, *free_bytes);
                (
                    format!(
                        "the run takes {cost}, measured in {}",
                        counted(*steps as u64, "step")
                    ),
                    false,
                )
            }
            Self::Saved { step, bytes, .. } => (
                format!("step {} saved, {}", at(step), figures::bytes(*bytes)),
                false,
            ),
            Self::RolledBack {
                step,
                to_step,
                why,
                learning_rate,
            } => {
                let back = format!(
                    "back to step {}, on with learning rate {learning_rate:.1e}",
                    at(to_step)
                );
                (format!("step {}: {why}; {back}", at(step)), true)
            }
            Self::MemoryFallback {
                to_step, why, how, ..
            } => (format!("{why}; on from step {}: {how}", at(to_step)), true),
            Self::Waiting {
                step,
                why,
                missing_bytes,
            } => {
                let why = waits_because(why, *missing_bytes);
                let stands =
                    "what was saved before stands, and the run resumes when the disk can take it";
                let message = format!("step {} waits for the disk: {why}; {stands}", at(step));
                (message, true)
            }
            Self::Warned { message } => (message.clone(), true),
            Self::Paused { step, why } => {
                let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
                (format!("paused at step {}, saved{why}", at(step)), false)
            }
            Self::Continued { step } => (format!("resumed at step {}", at(step)), false),
            Self::Stopped { step: 0 } => ("stopped before the first step".to_owned(), false),
            Self::Stopped { step } => (format!("stopped at step {}, saved", at(step)), false),
            Self::Failed { message, .. } => (message.clone(), true),
            Self::Finished { step, seconds, .. } => (
                format!(
                    "done, {} in {}",
                    counted(*step as u64, "step"),
                    duration(*seconds)
                ),
                false,
            ),
        };
        Some(Sentence { text, is_bad })
    }
}

/// Why a run waits for its disk, with what is missing there where that is known.
pub fn waits_because(why: &str, missing_bytes: Option<u64>) -> String {
    let missing = missing_bytes.map(|bytes| format!(", {} are missing", figures::bytes(bytes)));
    format!("{why}{}", missing.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::train::event::Showed;

    #[test]
    fn every_event_is_a_sentence_but_those_that_are_shown() {
        let why = || "it broke".to_owned();
        let started = |step| TrainEvent::Started {
            step,
            steps: 10,
            trainable_parameters: 1_200,
            parameters: 34_000,
            device: "cpu".to_owned(),
        };
        let waiting = |missing_bytes| TrainEvent::Waiting {
            step: 4,
            why: why(),
            missing_bytes,
        };
        let stands = "what was saved before stands, and the run resumes when the disk can take it";
        let (alone, missing) = (
            format!("step 4 waits for the disk: it broke; {stands}"),
            format!("step 4 waits for the disk: it broke, 5.0 MB are missing; {stands}"),
        );
        let cases = [
            (
                started(0),
                "started on cpu; 1,200 of 34,000 parameters are trained",
                false,
            ),
            (
                started(7),
                "resumed at step 7 on cpu; 1,200 of 34,000 parameters are trained",
                false,
            ),
            (
                TrainEvent::Tried {
                    steps: 5,
                    seconds: 90.0,
                    peak_bytes: None,
                    free_bytes: None,
                },
                "the run takes about 1 min 30 s, measured in 5 steps",
                false,
            ),
            (
                TrainEvent::Saved {
                    step: 4,
                    path: PathBuf::new(),
                    bytes: 12_000_000,
                },
                "step 4 saved, 12 MB",
                false,
            ),
            (
                TrainEvent::RolledBack {
                    step: 4,
                    to_step: 2,
                    why: why(),
                    learning_rate: 1e-4,
                },
                "step 4: it broke; back to step 2, on with learning rate 1.0e-4",
                true,
            ),
            (
                TrainEvent::MemoryFallback {
                    step: 4,
                    to_step: 2,
                    why: why(),
                    how: "less".to_owned(),
                },
                "it broke; on from step 2: less",
                true,
            ),
            (waiting(None), &alone, true),
            (waiting(Some(5_000_000)), &missing, true),
            (TrainEvent::Warned { message: why() }, "it broke", true),
            (
                TrainEvent::Paused { step: 4, why: None },
                "paused at step 4, saved",
                false,
            ),
            (
                TrainEvent::Paused {
                    step: 4,
                    why: Some("on battery".to_owned()),
                },
                "paused at step 4, saved: on battery",
                false,
            ),
            (
                TrainEvent::Continued { step: 4 },
                "resumed at step 4",
                false,
            ),
            (
                TrainEvent::Stopped { step: 0 },
                "stopped before the first step",
                false,
            ),
            (
                TrainEvent::Stopped { step: 4 },
                "stopped at step 4, saved",
                false,
            ),
            (
                TrainEvent::Failed {
                    step: 4,
                    message: why(),
                    hint: None,
                    force_helps: false,
                },
                "it broke",
                true,
            ),
            (
                TrainEvent::Finished {
                    step: 10,
                    best_loss: None,
                    best_step: None,
                    seconds: 61.0,
                },
                "done, 10 steps in 1 min 01 s",
                false,
            ),
        ];
        for (event, text, is_bad) in cases {
            let text = text.to_owned();
            assert_eq!(event.sentence(), Some(Sentence { text, is_bad }));
        }
        let showed = TrainEvent::Showed(Showed {
            step: 4,
            exhibits: Vec::new(),
        });
        assert_eq!(showed.sentence(), None);
        let whole = started(0).sentence().unwrap().whole();
        assert_eq!(
            whole,
            "Started on cpu; 1,200 of 34,000 parameters are trained."
        );
    }
}
