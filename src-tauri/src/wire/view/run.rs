//! A run, and what happens in it.

use models::train::{TrainEvent, TrainPlan, forecast::words_for_cost, request::Method};
use serde::Serialize;
use specta::Type;
use specta_typescript::Number;

use crate::store::{
    record::RecordedEvent,
    run_state::{RunState, RunStatus},
};

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
    /// `lora`, `full` or `scratch`.
    method: String,
    /// The names of the files it learns from.
    data: Vec<String>,
    /// The folder of the model it started from.
    base: Option<String>,
    /// What it is doing.
    status: RunStatus,
    /// Its place among those that wait, from 1.
    place: Option<u32>,
    /// The last step done.
    step: u32,
    /// The step at which it ends.
    steps: u32,
    first_loss: Option<f64>,
    /// The loss of the last step.
    loss: Option<f64>,
    /// The lowest loss on held-out data.
    best_loss: Option<f64>,
    /// What ended it, when it failed; what it waits for, when it was paused and nobody asked for that.
    problem: Option<String>,
    /// What to try then, if we know.
    hint: Option<String>,
    /// Whether it goes on all the same when that is forced.
    force_helps: bool,
    /// When it first started, and when something last happened, in UTC.
    started: Option<String>,
    changed: Option<String>,
    /// Seconds of training so far, and until it is done at the rate of the latest steps.
    #[specta(type = Number)]
    seconds: f64,
    seconds_left: Option<f64>,
    tokens_per_second: Option<f64>,
    memory_bytes: Option<f64>,
    peak_memory_bytes: Option<f64>,
    device: Option<String>,
    parameters: Option<f64>,
    trainable_parameters: Option<f64>,
    /// Whether something was saved that can be talked to.
    saved: bool,
    /// What of its files is damaged, each in a sentence.
    damage: Vec<String>,
}

/// What is new in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunNews {
    pub(crate) run: RunView,
    pub(crate) events: EventsView,
}

/// A file of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileView {
    /// From the run's folder: `checkpoints/step-000500`.
    pub(crate) name: String,
    #[specta(type = Number)]
    pub(crate) bytes: f64,
    /// What it is for.
    pub(crate) what: String,
}

/// A value of a run's plan.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanLineView {
    pub(crate) field: String,
    pub(crate) value: String,
    pub(crate) why: String,
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

impl RunView {
    /// A run, whose plan may be lost. `place` is that among the runs that wait, from 1.
    pub(crate) fn new(state: RunState, plan: Option<&TrainPlan>, place: Option<usize>) -> Self {
        let name_of = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let base = plan.and_then(|plan| plan.model.as_ref());
        let model = base.map(name_of).unwrap_or_default();
        let (method, what) = match plan.map(|plan| plan.method) {
            Some(Method::Scratch) => ("scratch", "a new model".to_owned()),
            Some(Method::Lora) => ("lora", format!("adapter for {model}")),
            Some(Method::Full) => ("full", format!("all of {model}")),
            None => ("", "a run without its plan".to_owned()),
        };
        let data = plan.map_or(&[][..], |plan| &plan.data.files);
        let planned_steps = plan.map_or(0, |plan| plan.steps);
        let large = |count: Option<u64>| count.map(|count| count as f64);
        Self {
            what,
            method: method.to_owned(),
            name: plan.map_or_else(|| state.id.clone(), |plan| plan.name.clone()),
            data: data.iter().map(name_of).collect(),
            base: base.map(|path| path.display().to_string()),
            place: place.map(|place| place as u32),
            step: state.step as u32,
            // The plan may have been made longer since it was read.
            steps: planned_steps.max(state.steps) as u32,
            seconds_left: state.seconds_left(),
            memory_bytes: large(state.memory_bytes),
            peak_memory_bytes: large(state.peak_memory_bytes),
            parameters: large(state.parameters),
            trainable_parameters: large(state.trainable_parameters),
            id: state.id,
            status: state.status,
            first_loss: state.first_loss,
            loss: state.loss,
            best_loss: state.best_loss,
            problem: state.problem,
            hint: state.hint,
            force_helps: state.force_helps,
            started: state.started,
            changed: state.changed,
            seconds: state.seconds,
            tokens_per_second: state.tokens_per_second,
            device: state.device,
            saved: state.saved,
            damage: state.damage,
        }
    }
}

impl EventsView {
    /// The number of the last event.
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

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
            other => sentence(other),
        };
        self.sentences.push(SentenceView { time, text, bad });
    }
}

/// What happened, in words, and whether it is a warning or an error. What has columns of its own says nothing.
fn sentence(event: TrainEvent) -> (String, bool) {
    match event {
        TrainEvent::Started {
            step: 0, device, ..
        } => (format!("Started on {device}."), false),
        TrainEvent::Started { step, device, .. } => {
            (format!("Went on from step {step}, on {device}."), false)
        }
        TrainEvent::Tried {
            steps,
            seconds,
            peak_bytes,
            free_bytes,
        } => {
            let cost = words_for_cost(seconds, peak_bytes, free_bytes);
            (
                format!("Tried {steps} steps first: the run takes {cost}."),
                false,
            )
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
        TrainEvent::Relieved {
            to_step, why, how, ..
        } => {
            let words = format!("{why}. On from step {to_step}: {how}.");
            (capitalized(&words), true)
        }
        TrainEvent::Waiting {
            step,
            why,
            missing_bytes,
        } => {
            let missing = missing_bytes
                .map(|bytes| format!(" {} MB are missing.", bytes.div_ceil(1_000_000)));
            let missing = missing.unwrap_or_default();
            let words =
                "What was saved before stands, and the run goes on when the disk can take it.";
            (
                format!("Step {step} waits for the disk: {why}.{missing} {words}"),
                true,
            )
        }
        TrainEvent::Warned { message } => (format!("{message}."), true),
        TrainEvent::Paused { step, why } => {
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            (format!("Paused at step {step}, saved{why}."), false)
        }
        TrainEvent::Continued { step } => (format!("On from step {step}."), false),
        TrainEvent::Stopped { step: 0 } => ("Stopped before the first step.".to_owned(), false),
        TrainEvent::Stopped { step } => (format!("Stopped at step {step}, saved."), false),
        TrainEvent::Failed { message, .. } => (format!("{message}."), true),
        TrainEvent::Finished { step, .. } => (format!("All {step} steps are done."), false),
        TrainEvent::Stepped { .. } | TrainEvent::Evaluated { .. } | TrainEvent::Sampled { .. } => {
            (String::new(), false)
        }
    }
}

/// A clause as the beginning of a sentence.
fn capitalized(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
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
