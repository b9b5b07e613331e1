//! What a run would be, before it starts.

use std::collections::BTreeMap;

use models::{
    tasks::AnyResolved,
    train::{
        Problem, Reason,
        estimate::{Estimate, MemoryGroup},
        fit::{Fit, Fix, room},
        forecast::Forecast,
    },
};
use serde::Serialize;
use specta::Type;
use specta_typescript::Number;

use crate::wire::error::AppError;

/// What a request means, or what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanView {
    /// What is wrong, by field. While there is something, nothing else is known.
    problems: Vec<FieldProblemView>,
    /// Every value of the plan.
    choices: Vec<Reason>,
    /// What will probably not be what was wanted.
    warnings: Vec<String>,
    steps: usize,
    /// Tokens in one step.
    step_units: usize,
    estimate: Option<EstimateView>,
    /// Whether it fits, where that is known.
    fit: Option<RunFitView>,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FieldProblemView {
    /// The field, as in a run file. Empty for what belongs to none.
    field: String,
    text: String,
    hint: Option<String>,
}

/// What a run will take, from shapes alone.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EstimateView {
    parameters: u64,
    trainable_parameters: u64,
    weights_bytes: u64,
    /// The adapter, gradients and the optimizer's moments.
    optimizer_bytes: u64,
    /// What the forward pass keeps, or the keys and values of a sample where they are more.
    activations_bytes: u64,
    /// Libraries, the data, and what is left over between tensors.
    rest_bytes: u64,
    /// The same by what it is for.
    parts: Vec<PartView>,
    free_bytes: Option<u64>,
    /// What of it a run may take, so that enough is left to everything else.
    room_bytes: Option<u64>,
    /// The whole run, at the rate of an earlier one on the same device.
    seconds: Option<f64>,
    /// Which run that was.
    rate_from: Option<String>,
}

/// A part of the memory.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartView {
    name: String,
    bytes: u64,
}

/// Whether a run fits with a fifth of what is free to spare, by its estimate.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunFitView {
    fits: bool,
    needed_bytes: u64,
    free_bytes: u64,
    /// What is wrong, in words. Empty when it fits.
    refusal: String,
    /// What would make it fit, the cheapest first.
    fixes: Vec<FixView>,
}

/// A change of the form that makes a run fit.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FixView {
    /// What is changed, as in a run file.
    fields: BTreeMap<String, String>,
    message: String,
    needed_bytes: u64,
}

/// What a few real steps took.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MeasureView {
    /// Steps that were measured, after one to warm up.
    pub(crate) steps: usize,
    /// Of one step.
    #[specta(type = Number)]
    pub(crate) millis: f64,
    /// The whole run: steps, evaluations, samples and saves.
    #[specta(type = Number)]
    pub(crate) seconds: f64,
    /// The most memory that will be in use.
    pub(crate) peak_bytes: Option<u64>,
    /// Whether steps of the run's own size were taken; if not, it would not have fit, and the rest follows from smaller
    /// ones.
    pub(crate) whole: bool,
}

impl PlanView {
    /// What a request means.
    pub(crate) fn new(resolved: &AnyResolved, estimate: Option<EstimateView>) -> Self {
        let plan = &resolved.plan;
        Self {
            problems: Vec::new(),
            choices: resolved.reasons.clone(),
            warnings: resolved.warnings.clone(),
            steps: plan.run.steps,
            step_units: plan.run.batch.units_per_step(),
            estimate,
            fit: resolved.fit.as_ref().map(RunFitView::from),
        }
    }

    /// What is wrong with a request.
    pub(crate) fn refused(error: AppError) -> Self {
        let others = error
            .others
            .into_iter()
            .map(|Problem { field, problem }| FieldProblemView {
                text: format!("`{field}` {problem}"),
                field,
                hint: None,
            });
        let first = FieldProblemView {
            field: error.field.map(String::from).unwrap_or_default(),
            text: error.message,
            hint: error.hint,
        };
        Self {
            problems: std::iter::once(first).chain(others).collect(),
            ..Self::default()
        }
    }
}

impl EstimateView {
    /// An estimate beside what is free, and the rate of an earlier run if one is known.
    pub(crate) fn new(
        estimate: &Estimate,
        free_bytes: Option<u64>,
        rate: Option<(String, f64)>,
    ) -> Self {
        Self {
            parameters: estimate.parameters,
            trainable_parameters: estimate.trainable_parameters,
            weights_bytes: estimate.group(MemoryGroup::Weights),
            optimizer_bytes: estimate.group(MemoryGroup::Training),
            activations_bytes: estimate.group(MemoryGroup::Activations),
            rest_bytes: estimate.group(MemoryGroup::Rest),
            parts: estimate
                .parts
                .iter()
                .filter(|part| part.bytes > 0)
                .map(|part| PartView {
                    name: part.name.clone(),
                    bytes: part.bytes,
                })
                .collect(),
            free_bytes,
            room_bytes: free_bytes.map(room),
            seconds: rate.as_ref().map(|(_, rate)| estimate.operations / rate),
            rate_from: rate.map(|(run, _)| run),
        }
    }
}

impl From<&Fit> for RunFitView {
    fn from(fit: &Fit) -> Self {
        Self {
            fits: fit.fits,
            needed_bytes: fit.needed_bytes,
            free_bytes: fit.free_bytes,
            refusal: match fit.fits {
                true => String::new(),
                false => fit.refusal(),
            },
            fixes: fit.fixes.iter().map(FixView::from).collect(),
        }
    }
}

impl From<&Fix> for FixView {
    fn from(fix: &Fix) -> Self {
        let changes = fix.changes.iter();
        Self {
            fields: changes
                .map(|change| (change.field.clone(), change.value.clone()))
                .collect(),
            message: fix.message.clone(),
            needed_bytes: fix.needed_bytes,
        }
    }
}

impl From<Forecast> for MeasureView {
    fn from(forecast: Forecast) -> Self {
        Self {
            steps: forecast.steps_tried,
            millis: forecast.step_millis,
            seconds: forecast.seconds,
            peak_bytes: forecast.peak_bytes,
            whole: forecast.whole,
        }
    }
}
