//! What of a run's settings was changed since its newest checkpoint was saved.
//!
//! Most may change: the run continues with them, and says so. Some decide the shape of what was saved, or which row of the
//! data is next; with another value there, the checkpoint does not fit.

use std::collections::BTreeMap;

use models::{
    tasks::AnyPlan,
    train::{Kind, RunPlan, TrainPlan, state::Saved, tree::is_in},
    with_kind,
};
use serde::Deserialize;
use serde_json::Value;

use crate::wire::error::{AppError, Result};

/// What decides the shape of what the optimizer keeps, beside what the kind of learning says of the weights.
const SHAPE: [&str; 1] = ["optimizer.kind"];
/// What decides which rows there are, and in which order they come, beside what the kind of learning says.
const ORDER: [&str; 2] = ["batch.length", "seed"];
/// What changes without a word, beside the names of files.
const SILENT: [&str; 1] = ["name"];

/// What a run gives up when memory runs out, which is said when it does.
const GIVEN_UP: [&str; 7] = [
    "batch.rows",
    "batch.accumulate",
    "evaluate.batches",
    "gradient_checkpointing",
    "dtype",
    "device",
    "avoid_kernels",
];

/// Compares the plan of a run with the one it had when it was saved. Returns what changed, in a sentence, if anything did. Of a run
/// that has just given something up, that is said already.
///
/// A checkpoint has the plan of its kind without the kind's name, so the plan is compared without it too.
///
/// Where the checkpoint does not fit, an error names the setting. Who insists may have the data in another order.
pub(crate) fn check(
    saved: &Saved,
    now: &AnyPlan,
    insists: bool,
    had_fallback: bool,
) -> Result<Option<String>> {
    let Some(tree) = &saved.plan else {
        return Ok(None);
    };
    let (now_tree, before) = with_kind!(TaskPlan, &now.task, K, task => {
        let plan = TrainPlan { run: now.run.clone(), task: task.clone() };
        (serde_json::to_value(&plan), run_of::<K>(tree))
    });
    let now_tree = now_tree.map_err(|error| AppError::failed(error.to_string()))?;
    let Some(before) = before else {
        return Ok(None);
    };
    let step = saved.progress.step;
    let [shape, order, silent] = now.task.decisive_fields();
    let [shape, order, silent] = [
        [shape, &SHAPE].concat(),
        [order, &ORDER].concat(),
        [silent, &SILENT].concat(),
    ];
    let (old, new, now) = (fields(tree.clone()), fields(now_tree), &now.run);
    let mut sentences = Vec::new();
    for field in old
        .keys()
        .chain(new.keys().filter(|it| !old.contains_key(*it)))
    {
        let (was, is) = (old.get(field), new.get(field));
        let longer = field == "steps" && now.steps > before.steps;
        let given_up = had_fallback && is_in(field, &GIVEN_UP);
        if was == is || longer || given_up || is_in(field, &silent) {
            continue;
        }
        let (was, is) = (describe(was), describe(is));
        let sentence = match sentences.is_empty() {
            true => format!("`{field}` was {was} when step {step} was saved, and is {is} now"),
            false => format!("`{field}` was {was}, and is {is}"),
        };
        // An average of the weights can't be had afterwards, nor be taken for the weights themselves.
        let average = field == "ema" && (before.ema > 0.0) != (now.ema > 0.0);
        if average || is_in(field, &shape) || (is_in(field, &order) && !insists) {
            let message = format!("{sentence}, and what was saved does not fit that");
            let hint = format!("put `{field}` back to {was} in the run’s `run.yaml`");
            let error = AppError::failed(message).with_field(field.as_str());
            return Err(match is_in(field, &order) {
                true => error.with_hint(hint).unless_forced(),
                false => error.with_hint(hint + ", or start a new run"),
            });
        }
        sentences.push(sentence);
    }
    Ok((!sentences.is_empty()).then(|| sentences.join("; ")))
}

/// What every run has of a plan that was saved by this kind, which may not read all of it.
fn run_of<K: Kind>(tree: &Value) -> Option<RunPlan> {
    let whole = TrainPlan::<K::Plan>::deserialize(tree).map(|plan| plan.run);
    whole.or_else(|_| RunPlan::deserialize(tree)).ok()
}

/// Every value of a plan by its field, such as `lora.rank`.
fn fields(tree: Value) -> BTreeMap<String, Value> {
    fn collect(field: String, value: Value, fields: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(section) => {
                for (name, value) in section {
                    let field = match field.as_str() {
                        "" => name,
                        section => format!("{section}.{name}"),
                    };
                    collect(field, value, fields);
                }
            }
            value => {
                fields.insert(field, value);
            }
        }
    }
    let mut fields = BTreeMap::new();
    collect(String::new(), tree, &mut fields);
    fields
}

fn describe(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "not set".to_owned(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(value) => value.to_string(),
    }
}
