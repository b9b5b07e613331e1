//! What a run would be, before it starts.

use std::collections::BTreeMap;

use models::{
    tasks::AnyResolved,
    train::{
        Problem,
        estimate::{Estimate, MemoryGroup},
        fit::{Fit, Fix, room},
        forecast::Forecast,
    },
};
use serde::Serialize;
use specta::Type;
use specta_typescript::Number;

use crate::{host::form::Field, wire::error::AppError};

/// What a request means, or what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanView {
    /// What is wrong, by field. While there is something, nothing else is known.
    problems: Vec<FieldProblemView>,
    /// Every value of the plan.
    choices: Vec<ChoiceView>,
    /// What will probably not be what was wanted.
    warnings: Vec<String>,
    steps: u32,
    /// Tokens in one step.
    step_units: u32,
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

/// A value of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChoiceView {
    field: String,
    value: String,
    why: String,
    /// Whether it was chosen here, rather than asked for.
    automatic: bool,
}

/// What a run will take, from shapes alone.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EstimateView {
    #[specta(type = Number)]
    parameters: f64,
    #[specta(type = Number)]
    trainable_parameters: f64,
    #[specta(type = Number)]
    weights_bytes: f64,
    /// The adapter, gradients and the optimizer's moments.
    #[specta(type = Number)]
    optimizer_bytes: f64,
    /// What the forward pass keeps, or the keys and values of a sample where they are more.
    #[specta(type = Number)]
    activations_bytes: f64,
    /// Libraries, the data, and what is left over between tensors.
    #[specta(type = Number)]
    rest_bytes: f64,
    /// The same by what it is for.
    parts: Vec<PartView>,
    free_bytes: Option<f64>,
    /// What of it a run may take, so that enough is left to everything else.
    room_bytes: Option<f64>,
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
    #[specta(type = Number)]
    bytes: f64,
}

/// Whether a run fits with a fifth of what is free to spare, by its estimate.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunFitView {
    fits: bool,
    #[specta(type = Number)]
    needed_bytes: f64,
    #[specta(type = Number)]
    free_bytes: f64,
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
    #[specta(type = Number)]
    needed_bytes: f64,
}

/// What a few real steps took.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MeasureView {
    /// Steps that were measured, after one to warm up.
    pub(crate) steps: u32,
    /// Of one step.
    #[specta(type = Number)]
    pub(crate) millis: f64,
    /// The whole run: steps, evaluations, samples and saves.
    #[specta(type = Number)]
    pub(crate) seconds: f64,
    /// The most memory that will be in use.
    pub(crate) peak_bytes: Option<f64>,
    /// Whether steps of the run's own size were taken; if not, it would not have fit, and the rest follows from smaller
    /// ones.
    pub(crate) whole: bool,
}

/// A setting of a run, as the form shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FieldView {
    /// As in a run file: `lora.rank`.
    field: String,
    /// The part of the form it stands in.
    group: String,
    label: String,
    help: String,
    /// The words it knows. Without any, it takes what is typed.
    words: Vec<String>,
    /// The methods that have it. Empty is all.
    methods: Vec<String>,
}

impl PlanView {
    /// What a request means.
    pub(crate) fn new(resolved: &AnyResolved, estimate: Option<EstimateView>) -> Self {
        let plan = &resolved.plan;
        Self {
            problems: Vec::new(),
            choices: resolved
                .reasons
                .iter()
                .map(|reason| ChoiceView {
                    field: reason.field.clone(),
                    value: reason.value.clone(),
                    why: reason.why.clone(),
                    automatic: reason.automatic,
                })
                .collect(),
            warnings: resolved.warnings.clone(),
            steps: plan.run.steps as u32,
            step_units: plan.run.batch.units_per_step() as u32,
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
            field: error.field.unwrap_or_default(),
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
            parameters: estimate.parameters as f64,
            trainable_parameters: estimate.trainable_parameters as f64,
            weights_bytes: estimate.group(MemoryGroup::Weights) as f64,
            optimizer_bytes: estimate.group(MemoryGroup::Training) as f64,
            activations_bytes: estimate.group(MemoryGroup::Activations) as f64,
            rest_bytes: estimate.group(MemoryGroup::Rest) as f64,
            parts: estimate
                .parts
                .iter()
                .filter(|part| part.bytes > 0)
                .map(|part| PartView {
                    name: part.name.clone(),
                    bytes: part.bytes as f64,
                })
                .collect(),
            free_bytes: free_bytes.map(|bytes| bytes as f64),
            room_bytes: free_bytes.map(|bytes| room(bytes) as f64),
            seconds: rate.as_ref().map(|(_, rate)| estimate.operations / rate),
            rate_from: rate.map(|(run, _)| run),
        }
    }
}

impl From<&Fit> for RunFitView {
    fn from(fit: &Fit) -> Self {
        Self {
            fits: fit.fits,
            needed_bytes: fit.needed_bytes as f64,
            free_bytes: fit.free_bytes as f64,
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
            needed_bytes: fix.needed_bytes as f64,
        }
    }
}

impl From<Forecast> for MeasureView {
    fn from(forecast: Forecast) -> Self {
        Self {
            steps: forecast.steps_tried as u32,
            millis: forecast.step_millis,
            seconds: forecast.seconds,
            peak_bytes: forecast.peak_bytes.map(|bytes| bytes as f64),
            whole: forecast.whole,
        }
    }
}

impl From<&Field> for FieldView {
    fn from(field: &Field) -> Self {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Self {
            field: field.name.to_owned(),
            group: field.group.to_owned(),
            label: field.label.to_owned(),
            help: field.help.to_owned(),
            words: owned(field.words),
            methods: owned(field.methods),
        }
    }
}
