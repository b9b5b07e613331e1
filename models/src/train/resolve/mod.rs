//! From what was asked to what will be done: fills every field, checks it, and says why.
//!
//! One function per section of the plan, in its order. A value that was asked for is taken as it is and checked; any
//! other is chosen from the facts. Nothing stops at the first problem, since a form shows all of them at once.
//! Deliberately absent: looking anything up. Files, devices and tokenizers were asked before.

mod device;
mod learner;
mod run;

use serde::Serialize;

use super::{
    estimate::Estimate,
    fit::{self, Fit},
    plan::*,
    preset::{MethodDefaults, SEED},
    request::*,
};
use crate::Error;

/// Turns a request into a plan with its reasons, or says everything that is wrong with it.
pub fn resolve(request: &TrainRequest, facts: &Facts) -> Result<Resolved, Problems> {
    let resolved = resolve_with(request, facts, None)?;
    match most_rows(request, &resolved) {
        // Fewer rows at once change how many batches make an update, and the reasons.
        Some(most) => resolve_with(request, facts, Some(most)),
        None => Ok(resolved),
    }
}

/// The most rows at once, where that is fewer than a plan has which nobody asked for.
fn most_rows(request: &TrainRequest, resolved: &Resolved) -> Option<MostRows> {
    let (plan, fit) = (&resolved.plan, resolved.fit.as_ref()?);
    if fit.fits || plan.batch.rows == 1 || request.batch.rows.is_some() {
        return None;
    }
    let (before, free) = (plan.batch.rows, fit::amount(fit.free_bytes));
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

fn resolve_with(
    request: &TrainRequest,
    facts: &Facts,
    most_rows: Option<MostRows>,
) -> Result<Resolved, Problems> {
    let mut resolver = Resolver {
        request,
        facts,
        most_rows,
        reasons: Vec::new(),
        warnings: Vec::new(),
        problems: Vec::new(),
    };
    let other = resolver.device_that_trains();
    resolver.facts = other.as_ref().unwrap_or(facts);
    let facts = resolver.facts;
    let plan = resolver.plan();
    if !resolver.problems.is_empty() {
        // Without the model, nothing that is read with it is known; that is no second mistake.
        let mut problems = resolver.problems;
        if problems.iter().any(|it| it.field == "model") {
            problems.retain(|it| it.field != "data.files" && !it.field.starts_with("lora."));
        }
        return Err(Problems(problems));
    }
    let shape = facts.shape(&plan);
    Ok(Resolved {
        estimate: shape.map(|config| Estimate::new(&plan, &config)),
        fit: Fit::new(&plan, facts),
        plan,
        reasons: resolver.reasons,
        warnings: resolver.warnings,
    })
}

impl TrainRequest {
    /// The method that was asked for, or follows from the rest.
    pub fn method_or_default(&self) -> Chosen<Method> {
        match (self.method, &self.model, &self.scratch) {
            (Some(method), ..) => Chosen::new(method, ""),
            (None, Some(_), _) => Chosen::new(
                Method::Lora,
                "a model is given; an adapter needs the least memory",
            ),
            (None, None, _) => Chosen::new(Method::Scratch, "no model is given"),
        }
    }

    /// The preset that was asked for, or the one that fits any machine.
    pub fn preset_or_default(&self) -> Chosen<Preset> {
        match self.scratch.as_ref().and_then(|scratch| scratch.preset) {
            Some(preset) => Chosen::new(preset, ""),
            None => Chosen::new(Preset::Micro, "learns in minutes on any machine"),
        }
    }

    /// Where the tokenizer of a new model comes from, and how many tokens it may have.
    pub fn tokenizer_or_default(&self) -> (TokenizerSource, usize) {
        let scratch = self.scratch.clone().unwrap_or_default();
        let mut config = self.preset_or_default().value.config();
        config.extend(scratch.config);
        let vocab_size = config.get("vocab_size").and_then(|size| size.as_u64());
        (
            scratch.tokenizer.unwrap_or(TokenizerSource::Trained),
            scratch
                .vocab_size
                .unwrap_or(vocab_size.unwrap_or_default() as usize),
        )
    }
}

struct Resolver<'a> {
    request: &'a TrainRequest,
    facts: &'a Facts,
    most_rows: Option<MostRows>,
    reasons: Vec<Reason>,
    warnings: Vec<String>,
    problems: Vec<Problem>,
}

/// A cap on the rows at once that nobody asked for.
struct MostRows {
    rows: usize,
    /// How many there would be with more memory.
    before: usize,
    why: String,
}

impl Resolver<'_> {
    /// Takes what was asked, or else what is chosen, and notes why.
    fn take<T: Clone + Serialize>(
        &mut self,
        field: &str,
        asked: &Option<T>,
        choose: impl FnOnce() -> Chosen<T>,
    ) -> T {
        let automatic = asked.is_none();
        let Chosen { value, why } = match asked {
            Some(value) => Chosen::new(value.clone(), "as asked"),
            None => choose(),
        };
        let words = match serde_json::to_value(&value) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(value) => value.to_string(),
            Err(_) => String::new(),
        };
        self.note(field, &words, &why, automatic);
        value
    }

    /// Notes why a field has its value. Reasons come from many tables; here they all become sentences.
    fn note(&mut self, field: &str, value: &str, why: &str, automatic: bool) {
        let mut letters = why.trim_end_matches('.').chars();
        let first: String = letters
            .next()
            .into_iter()
            .flat_map(char::to_uppercase)
            .collect();
        self.reasons.push(Reason {
            field: field.to_owned(),
            value: value.to_owned(),
            why: format!("{first}{}.", letters.as_str()),
            automatic,
        });
    }

    /// Notes an error of a table that was asked.
    fn error(&mut self, error: Error) {
        match error {
            Error::Setting { field, problem } => self.problem(&field, problem),
            other => self.problem("device", other.to_string()),
        }
    }

    /// Notes a problem with a field.
    fn problem(&mut self, field: &str, problem: impl Into<String>) {
        self.problems.push(Problem {
            field: field.to_owned(),
            problem: problem.into(),
        });
    }

    /// Notes a problem unless the number is in the range.
    fn within(&mut self, field: &str, value: f64, low: f64, high: f64) {
        if !(low..=high).contains(&value) {
            self.problem(
                field,
                format!("is {value}, and has to be from {low} to {high}"),
            );
        }
    }

    /// Notes a problem when the count is 0.
    fn positive(&mut self, field: &str, value: usize) {
        if value == 0 {
            self.problem(field, "is 0, and has to be at least 1");
        }
    }

    fn plan(&mut self) -> TrainPlan {
        let request = self.request;
        let name = self.name();
        let method = self.method();
        let scratch = (method == Method::Scratch).then(|| self.scratch());
        let context = self.context(scratch.as_ref());
        let (data, length) = self.data(context);
        let lora = (method == Method::Lora).then(|| self.lora());
        let defaults = MethodDefaults::of(method, self.parameters(scratch.as_ref()));
        let batch = self.batch(&defaults, length, &data);
        let steps = self.steps(&defaults, &batch, data.packing);
        let learning_rate = self.take("learning_rate", &request.learning_rate, || {
            Chosen::new(defaults.learning_rate, defaults.learning_rate_why)
        });
        if !(learning_rate > 0.0 && learning_rate <= 10.0) {
            self.problem(
                "learning_rate",
                format!("is {learning_rate}, and has to be above 0 and at most 10"),
            );
        }
        let schedule = self.schedule(steps);
        let optimizer = self.optimizer(&defaults);
        let (clip_norm, ema, checkpointing) = self.step_switches();
        let strict = self.take("strict", &request.strict, || {
            Chosen::new(false, "the next best is taken with a warning")
        });
        let dtype = self.dtype(strict);
        let relief = self.relief(strict);
        let avoid_kernels = self.avoid_kernels(strict);
        let device = self.device();
        let seed = self.take("seed", &request.seed, || {
            Chosen::new(SEED, "fixed, so that the same run can be repeated")
        });
        let evaluate = self.evaluate(steps, batch.rows);
        let sample = self.sample(steps, context);
        let save = self.save(steps, &evaluate);
        TrainPlan {
            name,
            method,
            model: request.model.clone().filter(|_| method != Method::Scratch),
            scratch,
            data,
            lora,
            steps,
            batch,
            learning_rate,
            schedule,
            optimizer,
            clip_norm,
            ema,
            checkpointing,
            dtype,
            relief,
            avoid_kernels,
            device,
            strict,
            seed,
            evaluate,
            sample,
            save,
        }
    }

    fn name(&mut self) -> String {
        let request = self.request;
        let name = self.take("name", &request.name, || {
            let file = request.data.files.first();
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

    fn method(&mut self) -> Method {
        let request = self.request;
        let method = self.take("method", &request.method, || request.method_or_default());
        if method != Method::Scratch {
            match &request.model {
                None => self.problem(
                    "model",
                    "is missing: name the folder of a model, or set `method: scratch` to start from nothing",
                ),
                Some(_) => {
                    self.take("model", &request.model, || {
                        Chosen::new(Default::default(), "")
                    });
                }
            }
            if request.scratch.is_some() {
                self.problem(
                    "scratch",
                    "is given together with an existing model; remove one of the two, or set `method: scratch`",
                );
            }
        } else if request.model.is_some() {
            self.problem(
                "model",
                "is given, but a new model starts from nothing; remove it, or set `method: full`",
            );
        }
        if method != Method::Lora && request.lora != LoraRequest::default() {
            self.problem(
                "lora",
                "is given, but the method has no adapter; remove it, or set `method: lora`",
            );
        }
        method
    }
}
