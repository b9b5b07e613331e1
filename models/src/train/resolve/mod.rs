//! From what was asked to what will be done: fills every field, checks it, and says why.
//!
//! One function per section of the plan, in its order. A value that was asked for is taken as it is and checked; any
//! other is chosen from the facts. Nothing stops at the first problem, since a form shows all of them at once.
//! Deliberately absent: looking anything up. Files, devices and tokenizers were asked before.

mod device;
mod run;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    defaults,
    fit::Fit,
    kind::Kind,
    plan::*,
    request::*,
    tree::{Part, is_in},
};
use crate::{
    Error,
    figures::{bytes, capitalized},
};

/// Sharing what an optimizer keeps is worth while where that is at least one part in so many of what a run needs.
const LEAST_SHARDED: u64 = 20;

/// Turns a request into a plan with its reasons, or says everything that is wrong with it.
pub fn resolve<K: Kind>(
    request: &TrainRequest<K::Request>,
    facts: &Facts<K::Facts>,
) -> Result<Resolved<K::Plan>, Problems> {
    let mut limits = Limits::default();
    let mut resolved = resolve_with::<K>(request, facts, &limits)?;
    limits.shard = shard(&request.run, &resolved);
    if limits.shard.is_some() {
        resolved = resolve_with::<K>(request, facts, &limits)?;
    }
    limits.most_rows = most_rows(&request.run, &resolved);
    match limits.most_rows {
        // Fewer rows at once change how many batches make an update, and the reasons.
        Some(_) => resolve_with::<K>(request, facts, &limits),
        None => Ok(resolved),
    }
}

/// Why each of several devices keeps only a part of what the optimizer keeps, where nobody said anything about it, and a plan does not
/// fit otherwise.
fn shard<T>(request: &RunRequest, resolved: &Resolved<T>) -> Option<String> {
    let (plan, fit) = (&resolved.plan.run, resolved.fit.as_ref()?);
    let optimizer_bytes = resolved.estimate.as_ref()?.part("optimizer");
    let matters = optimizer_bytes > fit.needed_bytes / LEAST_SHARDED;
    let is_open = request.shard.is_none() && plan.devices > 1;
    (is_open && !fit.fits && matters).then(|| {
        format!(
            "each device keeps its part of the optimizer’s {}, since all of it does not fit in {} free with 20 % to spare",
            bytes(optimizer_bytes),
            bytes(fit.free_bytes)
        )
    })
}

/// The most rows at once, where that is fewer than a plan has which nobody asked for.
fn most_rows<T>(request: &RunRequest, resolved: &Resolved<T>) -> Option<MostRows> {
    let (plan, fit) = (&resolved.plan.run, resolved.fit.as_ref()?);
    if fit.fits || plan.batch.rows == 1 || request.batch.rows.is_some() {
        return None;
    }
    let (before, free) = (plan.batch.rows, bytes(fit.free_bytes));
    let most = match fit.most_rows {
        Some(rows) => MostRows {
            rows,
            before,
            why: format!("the largest that fits in {free} free with 20 % to spare"),
        },
        None => MostRows {
            rows: 1,
            before,
            why: format!("not even one fits in {free} free with 20 % to spare"),
        },
    };
    Some(most)
}

fn resolve_with<K: Kind>(
    request: &TrainRequest<K::Request>,
    facts: &Facts<K::Facts>,
    limits: &Limits,
) -> Result<Resolved<K::Plan>, Problems> {
    let mut resolver: Resolver<K> = Resolver {
        request,
        facts,
        limits,
        usual: Vec::new(),
        unread: &[],
        reasons: Vec::new(),
        reasons_of_samples: Vec::new(),
        warnings: Vec::new(),
        problems: Vec::new(),
    };
    let other = resolver.device_that_trains();
    resolver.facts = other.as_ref().unwrap_or(facts);
    let facts = resolver.facts;
    let plan = resolver.plan();
    if !resolver.problems.is_empty() {
        return Err(Problems(K::first_problems(resolver.problems)));
    }
    let shape = K::shape(&plan.task, &facts.task);
    let shape = shape.as_ref();
    Ok(Resolved {
        estimate: shape.map(|shape| K::estimate(&plan, shape)),
        fit: shape.and_then(|shape| Fit::new::<K>(&plan, shape, facts)),
        plan,
        reasons: resolver.reasons,
        warnings: resolver.warnings,
    })
}

/// A plan in the making: what it is made from, and what there is to say about it so far.
pub struct Resolver<'a, K: Kind> {
    /// What was asked.
    pub request: &'a TrainRequest<K::Request>,
    /// What was looked up.
    pub facts: &'a Facts<K::Facts>,
    limits: &'a Limits,
    /// What the kind of learning does otherwise than others, by the names of the fields.
    usual: Vec<(&'static str, Chosen<Value>)>,
    /// The sections that a run with this plan doesn't read.
    unread: &'static [&'static str],
    reasons: Vec<Reason>,
    /// Of what is shown between steps, which comes after how often it is.
    reasons_of_samples: Vec<Reason>,
    /// What will probably not be what was wanted.
    pub warnings: Vec<String>,
    problems: Vec<Problem>,
}

/// What memory says about a plan.
#[derive(Default)]
struct Limits {
    most_rows: Option<MostRows>,
    /// Why devices share what the optimizer keeps, if they do.
    shard: Option<String>,
}

/// A cap on the rows at once that nobody asked for.
struct MostRows {
    rows: usize,
    /// How many there would be with more memory.
    before: usize,
    why: String,
}

impl<'a, K: Kind> Resolver<'a, K> {
    /// Takes what was asked, else what is usual for the kind of learning, else what is chosen, and notes why.
    pub fn take<T: Clone + Serialize + DeserializeOwned>(
        &mut self,
        field: &str,
        asked: &Option<T>,
        choose: impl FnOnce() -> Chosen<T>,
    ) -> T {
        let automatic = asked.is_none();
        let Chosen { value, why } = match asked {
            Some(value) => Chosen::new(value.clone(), "your setting"),
            None => self.usual(field).unwrap_or_else(choose),
        };
        if is_in(field, self.unread) {
            if !automatic {
                self.problem(field, "is given, and this run doesn’t read it");
            }
            return value;
        }
        let words = match serde_json::to_value(&value) {
            Ok(Value::String(text)) => text,
            Ok(value) => value.to_string(),
            Err(_) => String::new(),
        };
        self.note(field, &words, &why, automatic);
        value
    }

    /// What is usual for the kind of learning.
    fn usual<T: DeserializeOwned>(&self, field: &str) -> Option<Chosen<T>> {
        let (_, usual) = self.usual.iter().find(|(name, _)| *name == field)?;
        let value = serde_json::from_value(usual.value.clone()).ok()?;
        Some(Chosen::new(value, usual.why.clone()))
    }

    /// Notes why a field has its value. Reasons come from many tables; here they all become sentences.
    pub fn note(&mut self, field: &str, value: &str, why: &str, automatic: bool) {
        self.reasons.push(Reason {
            field: field.to_owned(),
            value: value.to_owned(),
            why: format!("{}.", capitalized(why.trim_end_matches('.'))),
            automatic,
        });
    }

    /// Replaces the reason of a field whose value was changed after it was noted.
    fn note_again(&mut self, field: &str, value: usize, why: &str) {
        self.note(field, &value.to_string(), why, true);
        let noted = self.reasons.pop();
        let before = self.reasons.iter_mut().find(|it| it.field == field);
        if let (Some(noted), Some(before)) = (noted, before) {
            *before = noted;
        }
    }

    /// Chooses what is shown between steps.
    pub fn choose_samples<T>(&mut self, choose: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.reasons.len();
        let chosen = choose(self);
        self.reasons_of_samples = self.reasons.split_off(before);
        chosen
    }

    /// Notes an error of a table that was asked.
    fn error(&mut self, error: Error) {
        match error {
            Error::Setting { field, problem } => self.problem(&field, problem),
            other => self.problem("device", other.to_string()),
        }
    }

    /// Notes a problem with a field.
    pub fn problem(&mut self, field: &str, problem: impl Into<String>) {
        self.problems.push(Problem {
            field: field.to_owned(),
            problem: problem.into(),
        });
    }

    /// Notes a problem unless the number is in the range.
    pub fn within(&mut self, field: &str, value: f64, low: f64, high: f64) {
        if !(low..=high).contains(&value) {
            self.problem(
                field,
                format!("is {value}, and has to be from {low} to {high}"),
            );
        }
    }

    /// Notes a problem when the count is 0.
    pub fn positive(&mut self, field: &str, value: usize) {
        if value == 0 {
            self.problem(field, "is 0, and has to be at least 1");
        }
    }

    /// Notes a problem when the count is 0, or more than `most`.
    pub fn counted(&mut self, field: &str, value: usize, most: usize) {
        self.positive(field, value);
        if value > most {
            self.problem(field, format!("is {value}, and has to be at most {most}"));
        }
    }

    fn plan(&mut self) -> TrainPlan<K::Plan> {
        let request = &self.request.run;
        let name = self.name();
        let (task, mut basis) = K::resolve(self);
        self.usual = std::mem::take(&mut basis.usual);
        self.unread = task.unread();
        let mut batch = self.batch(&basis);
        let devices = self.devices(&mut batch, basis.why_one_device);
        let shard = self.shard(devices);
        let steps = self.steps(&basis, &batch);
        let of_muon = self.optimizer_kind().value == OptimizerKind::Muon;
        let learning_rate = self.take("learning_rate", &request.learning_rate, || match of_muon {
            true => Chosen::new(defaults::MUON_LEARNING_RATE, "the usual value of Muon"),
            false => basis.learning_rate.clone(),
        });
        if !(learning_rate > 0.0 && learning_rate <= 10.0) {
            self.problem(
                "learning_rate",
                format!("is {learning_rate}, and has to be above 0 and at most 10"),
            );
        }
        let schedule = self.schedule(steps);
        let optimizer = self.optimizer(&basis);
        let (clip_norm, ema, gradient_checkpointing) = self.step_switches();
        let strict = self.take("strict", &request.strict, || {
            Chosen::new(false, "the next best is taken with a warning")
        });
        let dtype = self.dtype(strict);
        let memory_fallback = self.memory_fallback(strict);
        let avoid_kernels = self.avoid_kernels(strict);
        let device = self.device();
        let seed = self.take("seed", &request.seed, || {
            Chosen::new(
                defaults::SEED,
                "fixed, so that the same run can be repeated",
            )
        });
        let evaluate = self.evaluate(steps, batch.rows, basis.held_out_rows);
        let sample = self.sample(steps);
        let save = self.save(steps, &evaluate);
        let run = RunPlan {
            name,
            steps,
            batch,
            learning_rate,
            schedule,
            optimizer,
            clip_norm,
            ema,
            gradient_checkpointing,
            dtype,
            memory_fallback,
            avoid_kernels,
            device,
            devices,
            shard,
            strict,
            seed,
            evaluate,
            sample,
            save,
        };
        TrainPlan {
            run: run.without(task.unread()),
            task,
        }
    }

    fn name(&mut self) -> String {
        let request = self.request;
        let name = self.take("name", &request.run.name, || {
            let mut task = request.task.clone();
            let file = K::files(&mut task).first();
            let stem = |path: &std::path::Path| {
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned())
            };
            let folder = file.and_then(|file| file.parent()).and_then(stem);
            match (file.and_then(|file| stem(file)), folder) {
                (Some(stem), Some(folder))
                    if ["train", "input", "data"].contains(&stem.as_str()) =>
                {
                    Chosen::new(folder, "after the folder of the data")
                }
                (Some(stem), _) => Chosen::new(stem, "after the data"),
                (None, _) => Chosen::new("run".to_owned(), "there is no file to name it after"),
            }
        });
        if name.trim().is_empty() {
            self.problem("name", "is empty");
        }
        name
    }
}
