//! What the window shows: small values, ready to be drawn. JavaScript has no 64-bit integers, so there are none.

use models::{
    device::FoundDevice,
    train::{TrainEvent, TrainPlan, request::Method},
};
use serde::Serialize;
use specta::Type;

use super::error::AppError;
use crate::store::{
    record::RecordedEvent,
    runs::{RunState, RunStatus},
};

/// An error as the window shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorView {
    /// What was tried, on what, with which numbers.
    message: String,
    /// What to try next, if we know.
    hint: Option<String>,
    /// The setting at fault, as in a run file, if there is one.
    field: Option<String>,
}

/// The first page: where it computes, and what was done so far.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HomeView {
    /// The device that is used.
    device: DeviceView,
    /// Every device that was found.
    devices: Vec<DeviceView>,
    /// Why the device is used, and what is odd about others: whole sentences.
    notes: Vec<String>,
    /// All runs, the newest first.
    runs: Vec<RunView>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceView {
    /// `Apple M3 Max`.
    name: String,
    /// `Metal`.
    kind: String,
    /// Memory a model could use there.
    total_bytes: Option<f64>,
    /// What of it is free.
    free_bytes: Option<f64>,
    /// Why it can't be used.
    problem: Option<String>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunView {
    /// `2026-11-21-shakespeare-7f3a`.
    id: String,
    /// What the user called it.
    name: String,
    /// How it learns, on what.
    what: String,
    /// What it is doing.
    status: RunStatus,
    /// Whether it waits until another run is done.
    waiting: bool,
    /// The last step done.
    step: u32,
    /// The step at which it ends.
    steps: u32,
    /// The loss of the last step.
    loss: Option<f64>,
    /// The lowest loss on held-out data.
    best_loss: Option<f64>,
    /// What ended it, when it failed.
    problem: Option<String>,
}

/// What happened in a run after some event. Columns of numbers are as long as `steps`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventsView {
    /// The number of the last event: what to ask from next time.
    last: u32,
    steps: Vec<u32>,
    losses: Vec<f64>,
    learning_rates: Vec<f64>,
    gradient_norms: Vec<f64>,
    tokens_per_second: Vec<f64>,
    memory_bytes: Vec<f64>,
    /// Milliseconds of each step.
    millis: Vec<f64>,
    /// Held-out losses.
    evaluations: Vec<EvaluationView>,
    /// What the model wrote.
    samples: Vec<SampleView>,
    /// What happened, in sentences.
    sentences: Vec<SentenceView>,
}

/// A look at held-out data.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvaluationView {
    step: u32,
    loss: f64,
    best: bool,
}

/// What the model wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SampleView {
    step: u32,
    prompt: String,
    text: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentenceView {
    /// When, in UTC: `2026-11-21T09:30:00.123Z`.
    time: String,
    text: String,
    /// Whether it is a warning or an error.
    bad: bool,
}

/// A model that is open to be talked to.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatView {
    /// Whether it answers; otherwise it continues what is said.
    pub(crate) answers: bool,
    /// What a person should know about where it computes.
    pub(crate) warnings: Vec<String>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnswerView {
    pub(crate) text: String,
    pub(crate) tokens: u32,
    pub(crate) tokens_per_second: f64,
}

impl From<AppError> for ErrorView {
    fn from(error: AppError) -> Self {
        Self {
            message: error.message,
            hint: error.hint,
            field: error.field,
        }
    }
}

impl HomeView {
    pub(crate) fn new(
        chosen: &FoundDevice,
        found: &[FoundDevice],
        notes: Vec<String>,
        runs: Vec<RunView>,
    ) -> Self {
        Self {
            device: DeviceView::from(chosen),
            devices: found.iter().map(DeviceView::from).collect(),
            notes,
            runs,
        }
    }
}

impl From<&FoundDevice> for DeviceView {
    fn from(device: &FoundDevice) -> Self {
        Self {
            name: device.name.clone(),
            kind: device.kind.to_string(),
            total_bytes: device.total_bytes.map(|bytes| bytes as f64),
            free_bytes: device.free_bytes.map(|bytes| bytes as f64),
            problem: device.problem.clone(),
        }
    }
}

impl RunView {
    pub(crate) fn new(state: RunState, plan: &TrainPlan, waiting: bool) -> Self {
        let model = plan.model.as_deref().and_then(|model| model.file_name());
        let model = model
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        Self {
            what: match plan.method {
                Method::Scratch => "a new model".to_owned(),
                Method::Lora => format!("adapter for {model}"),
                Method::Full => format!("all of {model}"),
            },
            name: plan.name.clone(),
            id: state.id,
            status: state.status,
            waiting,
            step: state.step as u32,
            steps: plan.steps as u32,
            loss: state.loss,
            best_loss: state.best_loss,
            problem: state.problem,
        }
    }
}

impl EventsView {
    /// What happened after number `after`.
    pub(crate) fn new(after: u32, events: Vec<RecordedEvent>) -> Self {
        let mut view = Self {
            last: after,
            ..Self::default()
        };
        for recorded in events {
            view.last = recorded.number as u32;
            view.add(recorded);
        }
        view
    }

    fn add(&mut self, RecordedEvent { time, event, .. }: RecordedEvent) {
        let (text, bad) = match event {
            TrainEvent::Stepped {
                step,
                loss,
                learning_rate,
                gradient_norm,
                tokens_per_second,
                millis,
                memory_bytes,
                ..
            } => {
                self.steps.push(step as u32);
                self.losses.push(loss);
                self.learning_rates.push(learning_rate);
                self.gradient_norms.push(gradient_norm);
                self.tokens_per_second.push(tokens_per_second);
                self.memory_bytes.push(memory_bytes as f64);
                self.millis.push(millis);
                return;
            }
            TrainEvent::Evaluated {
                step, loss, best, ..
            } => {
                let step = step as u32;
                self.evaluations.push(EvaluationView { step, loss, best });
                return;
            }
            TrainEvent::Sampled { step, prompt, text } => {
                let step = step as u32;
                self.samples.push(SampleView { step, prompt, text });
                return;
            }
            TrainEvent::Started {
                step: 0, device, ..
            } => (format!("Started on {device}."), false),
            TrainEvent::Started { step, device, .. } => {
                (format!("Went on from step {step}, on {device}."), false)
            }
            TrainEvent::Saved { step, .. } => (format!("Step {step} saved."), false),
            TrainEvent::RolledBack {
                step,
                to_step,
                why,
                learning_rate,
            } => (
                format!(
                    "Step {step}: {why}. Back to step {to_step}, on with learning rate {learning_rate:.1e}."
                ),
                true,
            ),
            TrainEvent::Warned { message } => (format!("{message}."), true),
            TrainEvent::Stopped { step } => (format!("Stopped at step {step}, saved."), false),
            TrainEvent::Failed { message, .. } => (format!("{message}."), true),
            TrainEvent::Finished { step, .. } => (format!("All {step} steps are done."), false),
        };
        self.sentences.push(SentenceView { time, text, bad });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_columns_and_sentences_from_a_number_on() {
        let stopped = |number| RecordedEvent {
            number,
            time: "2026-11-21T09:30:00.123Z".to_owned(),
            event: TrainEvent::Stopped { step: 4 },
        };
        let view = EventsView::new(1, vec![stopped(2), stopped(3)]);
        assert_eq!((view.last, view.sentences.len()), (3, 2));
        assert_eq!(view.sentences[0].text, "Stopped at step 4, saved.");
        assert_eq!(EventsView::new(3, Vec::new()).last, 3);
    }
}
