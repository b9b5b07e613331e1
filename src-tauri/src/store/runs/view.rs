//! A run, and what happens in it.

use models::{
    tasks::AnyPlan,
    train::{
        TrainEvent,
        event::{RankFigures, Showed},
        exhibit::Exhibit,
        task::Metric,
    },
};
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
    /// Its kind of learning: `language`. Empty where the plan is lost.
    task: String,
    /// What that learns from, in the plural: `tokens`.
    unit: String,
    /// What can be done with its result: `chat`.
    uses: Vec<String>,
    /// How it learns, on what.
    what: String,
    /// How its weights are trained: `lora`, `full` or `scratch`.
    method: String,
    /// The names of the files it learns from.
    data: Vec<String>,
    /// The folder of the model it started from.
    base: Option<String>,
    /// What it is doing.
    status: RunStatus,
    /// Its place among those that wait, from 1.
    place: Option<usize>,
    /// The last step done.
    step: usize,
    /// The step at which it ends.
    steps: usize,
    first_loss: Option<f64>,
    /// The loss of the last step, and through the middle of the latest ones.
    loss: Option<f64>,
    smoothed_loss: Option<f64>,
    /// The loss on held-out data before the first step.
    first_held_out_loss: Option<f64>,
    /// The lowest loss on held-out data, and the step that had it.
    best_loss: Option<f64>,
    best_step: Option<usize>,
    /// What else was last measured on held-out data.
    metrics: Vec<MetricView>,
    /// What ended it, when it failed; what it waits for, when it was paused and nobody asked for that.
    problem: Option<String>,
    /// What to try then, if we know.
    hint: Option<String>,
    /// Whether it continues all the same when that is forced.
    force_helps: bool,
    /// When it first started, and when something last happened, in UTC.
    started: Option<String>,
    changed: Option<String>,
    /// Seconds of training so far.
    #[specta(type = Number)]
    seconds: f64,
    /// Seconds until it is done, in round figures: while it is running, as soon as that can be known.
    seconds_left: Option<f64>,
    /// Whether it is much slower than usual, since something else uses this computer.
    busy: bool,
    /// Units a second: in the latest steps of a run that is running or paused, on average over all steps of another.
    units_per_second: Option<f64>,
    memory_bytes: Option<u64>,
    peak_memory_bytes: Option<u64>,
    device: Option<String>,
    /// Its devices, by their ranks, where it computes on several.
    ranks: Vec<RankView>,
    parameters: Option<u64>,
    trainable_parameters: Option<u64>,
    /// Whether something was saved that can be used.
    saved: bool,
    /// What of its files is damaged, each in a sentence.
    damage: Vec<String>,
}

/// One of the devices of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RankView {
    /// What it is, and where.
    device: String,
    /// Memory in use there, and the most so far, where it is known.
    memory_bytes: Option<u64>,
    peak_bytes: Option<u64>,
}

impl From<RankFigures> for RankView {
    fn from(figures: RankFigures) -> Self {
        Self {
            device: figures.device,
            memory_bytes: Some(figures.memory_bytes).filter(|it| *it > 0),
            peak_bytes: figures.peak_bytes,
        }
    }
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
    pub(crate) bytes: u64,
    /// What it is for.
    pub(crate) what: String,
}

/// What happened in a run after some event. Columns of numbers are as long as `steps`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventsView {
    /// The number of the last event: what to ask from next time.
    last: u64,
    steps: Vec<usize>,
    losses: Vec<Option<f64>>,
    learning_rates: Vec<Option<f64>>,
    gradient_norms: Vec<Option<f64>>,
    units_per_second: Vec<f64>,
    memory_bytes: Vec<u64>,
    /// Milliseconds of each step.
    millis: Vec<f64>,
    /// Held-out losses.
    evaluations: Vec<EvaluationView>,
    /// What the model showed of itself.
    exhibits: Vec<ExhibitView>,
    /// What happened, in sentences.
    sentences: Vec<SentenceView>,
}

/// A look at held-out data.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvaluationView {
    step: usize,
    loss: f64,
    metrics: Vec<MetricView>,
    best: bool,
}

/// A figure beside the loss.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetricView {
    name: String,
    label: String,
    #[specta(type = Number)]
    value: f64,
    higher_is_better: bool,
    /// Of how many it is the share, where it is one.
    of: Option<usize>,
}

/// What the model showed of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExhibitView {
    step: usize,
    exhibit: Exhibit,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentenceView {
    /// When, in UTC: `2026-11-21T09:30:00.123Z`.
    time: String,
    /// The step it belongs to, where it has one.
    step: Option<usize>,
    text: String,
    /// Whether it says no more than that the run was saved, which happens often.
    saved: bool,
    /// Whether it is a warning or an error.
    bad: bool,
}

impl RunView {
    /// A run, whose plan may be lost. `place` is that among the runs that wait, from 1.
    pub(crate) fn new(state: RunState, plan: Option<&AnyPlan>, place: Option<usize>) -> Self {
        let name_of = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let subject = plan.map(|plan| plan.task.subject()).unwrap_or_default();
        let what = match plan {
            Some(_) => subject.what,
            None => "a run without its plan".to_owned(),
        };
        let uses = plan.map(|plan| plan.task.uses()).unwrap_or_default();
        let planned_steps = plan.map_or(0, |plan| plan.run.steps);
        Self {
            task: plan.map_or("", |plan| plan.task.name()).to_owned(),
            unit: plan.map_or("", |plan| plan.task.unit()).to_owned(),
            uses: uses.iter().map(|&it| it.to_owned()).collect(),
            what,
            method: subject.method,
            name: plan.map_or_else(|| state.id.clone(), |plan| plan.run.name.clone()),
            data: plan
                .map_or(&[][..], |plan| plan.task.data())
                .iter()
                .map(name_of)
                .collect(),
            base: subject.base.map(|path| path.display().to_string()),
            place,
            step: state.step,
            // The plan may have been made longer since it was read.
            steps: planned_steps.max(state.steps),
            seconds_left: state.seconds_left,
            busy: state.busy,
            smoothed_loss: state.smoothed_loss,
            best_step: state.best_step,
            metrics: state.metrics.into_iter().map(MetricView::from).collect(),
            memory_bytes: state.memory_bytes,
            peak_memory_bytes: state.peak_memory_bytes,
            ranks: state.ranks.into_iter().map(RankView::from).collect(),
            parameters: state.parameters,
            trainable_parameters: state.trainable_parameters,
            id: state.id,
            status: state.status,
            first_loss: state.first_loss,
            loss: state.loss,
            first_held_out_loss: state.first_held_out_loss,
            best_loss: state.best_loss,
            problem: state.problem,
            hint: state.hint,
            force_helps: state.force_helps,
            started: state.started,
            changed: state.changed,
            seconds: state.seconds,
            units_per_second: state.units_per_second,
            device: state.device,
            saved: state.saved,
            damage: state.damage,
        }
    }
}

impl EventsView {
    /// The number of the last event.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// What happened after number `after`.
    pub(crate) fn new(after: u64, events: Vec<RecordedEvent>) -> Self {
        let mut view = Self {
            last: after,
            ..Self::default()
        };
        for recorded in events {
            view.last = recorded.number;
            view.add(recorded);
        }
        view
    }

    fn add(&mut self, RecordedEvent { time, event, .. }: RecordedEvent) {
        match event {
            TrainEvent::Stepped {
                step,
                loss,
                learning_rate,
                gradient_norm,
                units_per_second,
                millis,
                memory_bytes,
                ..
            } => {
                self.steps.push(step);
                self.losses.push(loss);
                self.learning_rates.push(learning_rate);
                self.gradient_norms.push(gradient_norm);
                self.units_per_second.push(units_per_second);
                self.memory_bytes.push(memory_bytes);
                self.millis.push(millis);
            }
            TrainEvent::Evaluated {
                step,
                loss,
                metrics,
                best,
                ..
            } => self.evaluations.push(EvaluationView {
                step,
                loss,
                metrics: metrics.into_iter().map(MetricView::from).collect(),
                best,
            }),
            TrainEvent::Showed(Showed { step, exhibits }) => {
                let exhibits = exhibits
                    .into_iter()
                    .map(|exhibit| ExhibitView { step, exhibit });
                self.exhibits.extend(exhibits);
            }
            other => {
                let sentence = other.sentence();
                self.sentences.extend(sentence.map(|sentence| SentenceView {
                    time,
                    step: other.step(),
                    saved: matches!(other, TrainEvent::Saved { .. }),
                    text: sentence.whole(),
                    bad: sentence.is_bad,
                }));
            }
        }
    }
}

impl From<Metric> for MetricView {
    fn from(metric: Metric) -> Self {
        Self {
            name: metric.name,
            label: metric.label,
            value: metric.value,
            higher_is_better: metric.higher_is_better,
            of: metric.of,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(number: u64, event: TrainEvent) -> RecordedEvent {
        let time = "2026-11-21T09:30:00.123Z".to_owned();
        RecordedEvent {
            number,
            time,
            event,
        }
    }

    fn stepped(step: usize, loss: f64) -> TrainEvent {
        TrainEvent::Stepped {
            step,
            loss: Some(loss),
            learning_rate: Some(0.5),
            gradient_norm: Some(2.0),
            units: 64,
            units_per_second: 32.0,
            millis: 2000.0,
            memory_bytes: 1024,
            peak_bytes: None,
        }
    }

    #[test]
    fn events_are_columns_lists_and_sentences_from_a_number_on() {
        let metric = Metric {
            name: "accuracy".to_owned(),
            label: "accuracy".to_owned(),
            value: 0.75,
            higher_is_better: true,
            of: Some(4),
        };
        let evaluated = TrainEvent::Evaluated {
            step: 2,
            loss: 1.5,
            metrics: vec![metric.clone()],
            targets: 8,
            best: true,
            millis: 1.0,
        };
        let text = Exhibit::Text {
            title: "To be".to_owned(),
            text: ", or not".to_owned(),
        };
        let showed = TrainEvent::Showed(Showed {
            step: 2,
            exhibits: vec![text.clone()],
        });
        let events = [
            stepped(1, 3.0),
            stepped(2, f64::NAN),
            evaluated,
            showed,
            TrainEvent::Saved {
                step: 2,
                path: "step-000002".into(),
                bytes: 1000,
            },
            TrainEvent::Stopped { step: 2 },
        ];
        let numbered = events.into_iter().zip(2..);
        let numbered = numbered.map(|(event, number)| recorded(number, event));
        let view = EventsView::new(1, numbered.collect());
        assert_eq!((view.last, &view.steps), (7, &vec![1, 2]));
        assert!(view.losses[0] == Some(3.0) && view.losses[1].is_some_and(f64::is_nan));
        assert_eq!(view.learning_rates, [Some(0.5); 2]);
        assert_eq!(view.gradient_norms, [Some(2.0); 2]);
        assert_eq!(view.units_per_second, [32.0; 2]);
        assert_eq!(view.memory_bytes, [1024; 2]);
        assert_eq!(view.millis, [2000.0; 2]);
        let evaluation = EvaluationView {
            step: 2,
            loss: 1.5,
            metrics: vec![metric.into()],
            best: true,
        };
        assert_eq!(view.evaluations, [evaluation]);
        let exhibit = ExhibitView {
            step: 2,
            exhibit: text,
        };
        assert_eq!(view.exhibits, [exhibit]);
        let sentences = view.sentences.iter();
        let sentences: Vec<_> = sentences
            .map(|it| (&*it.text, it.step, it.saved, it.bad))
            .collect();
        let saved = ("Step 2 saved, 1.0 kB.", Some(2), true, false);
        assert_eq!(sentences[0], saved);
        assert_eq!(sentences[1].0, "Stopped at step 2, saved.");
        // A loss that is not a number is none for a page.
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["losses"], serde_json::json!([3.0, null]));
        assert_eq!(EventsView::new(3, Vec::new()).last, 3);
    }
}
