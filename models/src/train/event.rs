//! What a run tells while it is running, and who listens.
//!
//! An event is small, complete in itself and safe to write to a file: a page that opens late reads the file and has
//! seen everything. Deliberately absent: the number and the time of an event, which the writer of the file adds, and
//! anything about how an event is shown.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

use super::{exhibit::Exhibit, task::Metric};
use crate::device::pressure::Scarce;

/// Something that happened in a run. Steps are counted from 1: step 5 is the state after five updates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TrainEvent {
    /// The loop begins, at step 0 or where it was saved.
    Started {
        /// The last step done.
        step: usize,
        /// The step at which the run ends.
        steps: usize,
        /// How many parameters are trained.
        trainable_parameters: u64,
        /// How many parameters there are, trained or not.
        parameters: u64,
        /// Where it computes, in words.
        device: String,
    },

    /// A few steps were tried before the first one, to know what the run will take.
    Tried {
        /// How many.
        steps: usize,
        /// The whole run, after it was opened.
        seconds: f64,
        /// The most memory in use, where it is known.
        peak_bytes: Option<u64>,
        /// What is free of it, where it is known.
        free_bytes: Option<u64>,
    },

    /// A step was done: the weights were updated once, or what stands in place of that.
    Stepped {
        /// The step just done.
        step: usize,
        /// Mean loss of the batch per target, in nats, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss: Option<f64>,
        /// The learning rate of this step, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        learning_rate: Option<f64>,
        /// The norm of all gradients before clipping, if there are any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gradient_norm: Option<f64>,
        /// Units in this step, without padding: what its kind of learning counts, such as tokens.
        #[serde(alias = "tokens")]
        units: usize,
        /// Units of this step over its duration.
        #[serde(alias = "tokens_per_second")]
        units_per_second: f64,
        /// The duration of this step.
        millis: f64,
        /// Memory in use by this process or device after the step. 0 when it can't be known.
        memory_bytes: u64,
        /// The most memory that this process has held there so far, where the system keeps count.
        #[serde(default)]
        peak_bytes: Option<u64>,
    },

    /// How each device of a run on several stands. Told once in a few steps.
    Ranks {
        /// The last step done.
        step: usize,
        /// Each of them, by its rank.
        ranks: Vec<RankFigures>,
    },

    /// The held-out data was looked at.
    Evaluated {
        /// The state that was measured.
        step: usize,
        /// Mean loss per target, in nats.
        loss: f64,
        /// What else was measured.
        #[serde(
            default,
            alias = "loss_per_character",
            deserialize_with = "metrics_or_the_one_of_old"
        )]
        metrics: Vec<Metric>,
        /// Targets measured.
        #[serde(alias = "tokens")]
        targets: usize,
        /// Whether no earlier loss of this run was lower.
        best: bool,
        /// How long it took.
        millis: f64,
    },

    /// The model showed something of itself.
    #[serde(alias = "sampled")]
    Showed(Showed),

    /// The run was saved and can continue from here.
    Saved {
        /// The state that was saved.
        step: usize,
        /// The folder of the checkpoint.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },

    /// A loss or gradient was not finite, or a gradient out of all proportion; the run went back and continues more
    /// carefully.
    RolledBack {
        /// The step that could not be taken.
        step: usize,
        /// The last good state, where it continues.
        to_step: usize,
        /// What was wrong.
        why: String,
        /// The highest learning rate from here on.
        learning_rate: f64,
    },

    /// Memory ran out, or nearly; the run gave something up and continues.
    #[serde(alias = "relieved")]
    MemoryFallback {
        /// The step that could not be taken.
        step: usize,
        /// The last good state, where it continues.
        to_step: usize,
        /// When and in which words memory ran out.
        why: String,
        /// What was given up.
        how: String,
    },

    /// The disk can't take what is to be saved. What was saved before stands, and the run continues when there is room.
    Waiting {
        /// The last step done.
        step: usize,
        /// What could not be written, and why.
        why: String,
        /// How much more room is needed, if that is the reason.
        missing_bytes: Option<u64>,
    },

    /// Something the user should know. The run continues.
    Warned {
        /// One sentence.
        message: String,
    },

    /// The run was asked to pause, was saved, and waits in memory.
    Paused {
        /// The last step done.
        step: usize,
        /// Why, if no person asked for it: `on battery`.
        #[serde(default)]
        why: Option<String>,
    },

    /// The run continues after a pause.
    Continued {
        /// The last step done.
        step: usize,
    },

    /// The run was asked to stop, was saved, and can continue.
    Stopped {
        /// The last step done.
        step: usize,
    },

    /// The run ended with an error. The loop returns errors, so this is written by whoever called it.
    Failed {
        /// The last step done.
        step: usize,
        /// What was tried, on what, with which numbers.
        message: String,
        /// What to try next, if we know.
        hint: Option<String>,
        /// Whether it resumes from here when that is forced: what it learns from, or how, is not what it was.
        #[serde(default)]
        force_helps: bool,
    },

    /// The plan is done.
    Finished {
        /// The last step done.
        step: usize,
        /// The lowest loss on held-out data, if it was measured.
        best_loss: Option<f64>,
        /// The state that had it.
        best_step: Option<usize>,
        /// How long this process trained.
        seconds: f64,
    },
}

/// One of the devices that train a run together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankFigures {
    /// What it is, and where: `NVIDIA H200 on gpu08`.
    pub device: String,
    /// Memory in use there by its rank. 0 when it can’t be known.
    pub memory_bytes: u64,
    /// The most that its rank has held there so far, where the system keeps count.
    pub peak_bytes: Option<u64>,
}

/// What a model showed of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredShowed")]
pub struct Showed {
    /// The state that it shows.
    pub step: usize,
    /// What is to be seen.
    pub exhibits: Vec<Exhibit>,
}

/// The same as it stands in a file: one text an event, before there were other kinds of learning than language.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredShowed {
    Exhibits {
        step: usize,
        exhibits: Vec<Exhibit>,
    },
    Text {
        step: usize,
        prompt: String,
        text: String,
    },
}

impl From<StoredShowed> for Showed {
    fn from(stored: StoredShowed) -> Self {
        match stored {
            StoredShowed::Exhibits { step, exhibits } => Self { step, exhibits },
            StoredShowed::Text {
                step,
                prompt: title,
                text,
            } => Self {
                step,
                exhibits: vec![Exhibit::Text { title, text }],
            },
        }
    }
}

/// Metrics, or the only one that there was when it had a field of its own.
fn metrics_or_the_one_of_old<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Metric>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Metrics(Vec<Metric>),
        LossPerCharacter(Option<f64>),
    }
    Ok(match Stored::deserialize(from)? {
        Stored::Metrics(metrics) => metrics,
        Stored::LossPerCharacter(value) => {
            let metric = value.map(|value| Metric {
                name: "loss_per_character".to_owned(),
                label: "loss per character".to_owned(),
                value,
                higher_is_better: false,
                of: None,
            });
            metric.into_iter().collect()
        }
    })
}

impl TrainEvent {
    /// The last step that counts after an event, for those that know it: where a run went back, the one it went back to.
    pub fn last_step(&self) -> Option<usize> {
        match *self {
            Self::RolledBack { to_step, .. } | Self::MemoryFallback { to_step, .. } => {
                Some(to_step)
            }
            _ => self.step(),
        }
    }

    /// The step an event belongs to, for those that have one.
    pub fn step(&self) -> Option<usize> {
        match *self {
            Self::Started { step, .. }
            | Self::Stepped { step, .. }
            | Self::Ranks { step, .. }
            | Self::Evaluated { step, .. }
            | Self::Showed(Showed { step, .. })
            | Self::Saved { step, .. }
            | Self::RolledBack { step, .. }
            | Self::MemoryFallback { step, .. }
            | Self::Waiting { step, .. }
            | Self::Failed { step, .. }
            | Self::Paused { step, .. }
            | Self::Continued { step }
            | Self::Stopped { step }
            | Self::Finished { step, .. } => Some(step),
            Self::Tried { .. } | Self::Warned { .. } => None,
        }
    }
}

/// Watches a run. The app records and shows; a test collects.
pub trait Observer {
    /// Takes an event. It can't fail: an observer that can't write keeps its error and says stop.
    fn event(&mut self, event: TrainEvent);

    /// Whether the run should be saved and left. Asked before each step, and all the time in a pause.
    fn should_stop(&self) -> bool {
        false
    }

    /// Whether the run should be saved and wait. Asked before each step, and all the time in a pause.
    fn should_pause(&self) -> bool {
        false
    }

    /// Why the run should wait, if no person asked for it.
    fn why_pause(&self) -> Option<String> {
        None
    }

    /// Whether memory is about to run out. Asked before each step.
    fn scarce_memory(&mut self) -> Option<Scarce> {
        None
    }
}

/// An observer that keeps everything.
impl Observer for Vec<TrainEvent> {
    fn event(&mut self, event: TrainEvent) {
        self.push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_written_before_there_were_other_kinds_are_read() {
        let read = |line: &str| serde_json::from_str::<TrainEvent>(line).unwrap();
        let stepped = read(
            r#"{"kind":"stepped","step":1,"loss":2.5,"learning_rate":0.1,"gradient_norm":1.0,"tokens":64,"tokens_per_second":32.0,
                "millis":2000.0,"memory_bytes":0}"#,
        );
        assert!(matches!(
            stepped,
            TrainEvent::Stepped {
                units: 64,
                units_per_second: 32.0,
                ..
            }
        ));
        for (figure, expected) in [("0.75", Some(0.75)), ("null", None)] {
            let line = format!(
                r#"{{"kind":"evaluated","step":1,"loss":2.5,"loss_per_character":{figure},"accuracy":null,"tokens":9,"best":true,
                    "millis":1.0}}"#
            );
            let TrainEvent::Evaluated {
                metrics, targets, ..
            } = read(&line)
            else {
                panic!("{line}");
            };
            let found = metrics.first().map(|it| (it.name.as_str(), it.value));
            assert_eq!(found, expected.map(|value| ("loss_per_character", value)));
            assert_eq!(targets, 9);
        }
        let text = Exhibit::Text {
            title: "Hello".to_owned(),
            text: "world".to_owned(),
        };
        let showed = TrainEvent::Showed(Showed {
            step: 7,
            exhibits: vec![text],
        });
        let old = r#"{"kind":"sampled","step":7,"prompt":"Hello","text":"world"}"#;
        assert_eq!(read(old), showed);
        assert_eq!(read(&serde_json::to_string(&showed).unwrap()), showed);
    }

    #[test]
    fn an_event_names_its_kind_and_is_read_back() {
        let event = TrainEvent::RolledBack {
            step: 12,
            to_step: 10,
            why: "the loss is not a number".to_owned(),
            learning_rate: 1e-4,
        };
        let line = serde_json::to_string(&event).unwrap();
        assert!(
            line.starts_with(r#"{"kind":"rolled_back","step":12"#),
            "{line}"
        );
        assert_eq!(serde_json::from_str::<TrainEvent>(&line).unwrap(), event);
    }
}
