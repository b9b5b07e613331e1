//! What a request would mean, without starting it: reads all it names, and decides the rest.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::SystemTime,
};

use models::{
    arch::config::DecoderConfig,
    checkpoint::folder::ModelFolder,
    data::{DataRequest, encode::Learn, tokenizer::TOKENIZER},
    tasks::language::text::{Text, TokenizerFrom},
    train::{
        Facts, Resolved, TrainPlan, TrainRequest,
        plan::{DataFacts, ModelFacts},
        preset,
        request::{Method, TokenizerSource},
        resolve,
    },
};

use super::{Host, locked};
use crate::{
    store::{
        self,
        reliefs::{self, Relief},
    },
    wire::error::{AppError, Result},
};

/// Data that was read and counted for a plan. A form asks again after each change, mostly for the same data.
pub(super) struct LookedAt {
    what: What,
    seen: Arc<Seen>,
}

/// What was read.
struct Seen {
    text: Text,
    facts: DataFacts,
    /// What was last warned of, and what of a plan that depends on. To know it, every row is made into tokens.
    warned: Mutex<Option<(Cut, Vec<String>)>>,
}

/// What of a plan says which rows are learned from, and how much of each.
#[derive(PartialEq)]
struct Cut {
    learn: Learn,
    max_length: usize,
    row_length: usize,
    skip_bad_rows: bool,
}

/// Everything that the text and its facts depend on.
#[derive(PartialEq)]
struct What {
    request: DataRequest,
    /// When each file or folder was last changed.
    changed: Vec<Option<SystemTime>>,
    held_out: f64,
    /// The folder of the tokenizer, or how many tokens a new one may have.
    tokenizer: (Option<PathBuf>, usize),
    seed: u64,
}

impl Seen {
    fn warnings(&self, plan: &TrainPlan) -> Result<Vec<String>> {
        let cut = Cut {
            learn: plan.data.learn,
            max_length: plan.data.max_length,
            row_length: plan.batch.length,
            skip_bad_rows: plan.data.skip_bad_rows,
        };
        let mut warned = locked(&self.warned);
        if let Some((_, warnings)) = warned.as_ref().filter(|(known, _)| *known == cut) {
            return Ok(warnings.clone());
        }
        let warnings = self.text.warnings(plan)?;
        *warned = Some((cut, warnings.clone()));
        Ok(warnings)
    }
}

impl Host {
    /// What a request would mean, without starting it: reads all it names, and decides the rest.
    pub(crate) fn plan(&self, mut request: TrainRequest) -> Result<Resolved> {
        let scratch = request.method_or_default().value == Method::Scratch;
        if let Some(model) = request.model.as_mut().filter(|_| !scratch) {
            *model = store::models::find(&self.paths, &self.settings(), model)
                .map_err(|error| error.with_field("model"))?;
        }
        for file in &mut request.data.files {
            *file = std::path::absolute(&file).map_err(AppError::file("find the data", &file))?;
        }
        if let Some(scratch) = &mut request.scratch
            && let Some(TokenizerSource::File(path)) = &mut scratch.tokenizer
        {
            *path = tokenizer_folder(path)?;
        }
        let strict = request.strict.unwrap_or_default();
        let device = self.choose_device(request.device, strict, &self.devices())?;
        let checked = self.checked(&device.device);
        let model = request.model.as_deref().filter(|_| !scratch);
        let mut facts = Facts {
            model: model.map(model_facts).transpose()?,
            data: DataFacts::default(),
            vocab_size: 0,
            device,
            checked,
        };
        // Without data or model there is nothing to read; resolving says so, with all else that is wrong.
        let mut seen = None;
        if !request.data.files.is_empty() && (scratch || request.model.is_some()) {
            let looked = self
                .look_at_data(&request)
                .map_err(|error| match error.field {
                    None => error.with_field("data.files"),
                    Some(_) => error,
                })?;
            facts.data = looked.facts.clone();
            facts.vocab_size = looked.text.tokenizer.vocabulary_size();
            seen = Some(looked);
        }
        let mut resolved = resolve(&request, &facts)?;
        if let Some(known) = reliefs::find(&self.paths.reliefs, &resolved.plan) {
            resolved = start_where_memory_sufficed(&request, &facts, resolved, &known)?;
        }
        if let Some(scratch) = &resolved.plan.scratch {
            check_config(&scratch.config)?;
        }
        if let Some(seen) = seen {
            resolved.warnings.extend(seen.warnings(&resolved.plan)?);
        }
        Ok(resolved)
    }

    /// The shape of the model that a plan trains.
    pub(crate) fn shape(plan: &TrainPlan) -> Result<DecoderConfig> {
        let config = match (&plan.scratch, &plan.model) {
            (Some(scratch), _) => serde_json::Value::Object(scratch.config.clone()),
            (None, Some(model)) => ModelFolder::open(model)?.config,
            (None, None) => return Err(AppError::failed("the plan names no model")),
        };
        Ok(DecoderConfig::from_json(&config)?)
    }

    /// Forgets the data that was planned with; a text of millions of rows is not kept for nothing.
    pub(crate) fn forget_data(&self) {
        *locked(&self.looked_at) = None;
    }

    fn look_at_data(&self, request: &TrainRequest) -> Result<Arc<Seen>> {
        let (source, vocab_size) = request.tokenizer_or_default();
        let folder = match (&request.model, source) {
            (Some(model), _) => Some(model.clone()),
            (None, TokenizerSource::File(path)) => Some(path),
            (None, TokenizerSource::Trained) => None,
        };
        let held_out = request.data.held_out.unwrap_or(preset::HELD_OUT);
        let changed = |path: &PathBuf| fs::metadata(path).and_then(|it| it.modified()).ok();
        let what = What {
            request: request.data.source(),
            changed: request.data.files.iter().map(changed).collect(),
            held_out: held_out.clamp(0.0, 0.5),
            tokenizer: (folder, vocab_size),
            seed: request.seed.unwrap_or(preset::SEED),
        };
        let mut looked_at = locked(&self.looked_at);
        if let Some(known) = looked_at.as_ref().filter(|known| known.what == what) {
            return Ok(known.seen.clone());
        }
        let tokenizer = match &what.tokenizer {
            (Some(folder), _) => TokenizerFrom::Folder(folder),
            (None, vocab_size) => TokenizerFrom::Data {
                vocab_size: *vocab_size,
            },
        };
        let text = Text::open(&what.request, what.held_out, tokenizer, what.seed)?;
        let seen = Arc::new(Seen {
            facts: text.facts()?,
            text,
            warned: Mutex::default(),
        });
        *looked_at = Some(LookedAt {
            what,
            seen: seen.clone(),
        });
        Ok(seen)
    }
}

/// The plan that gives up at once what a run of the same model had to give up on this machine, unless it was asked for.
fn start_where_memory_sufficed(
    request: &TrainRequest,
    facts: &Facts,
    resolved: Resolved,
    known: &Relief,
) -> Result<Resolved> {
    let (mut asked, mut plan) = (request.clone(), resolved.plan.clone());
    let mut changed = Vec::new();
    if request.batch.rows.is_none() && plan.batch.rows > known.rows {
        plan.limit_rows(known.rows);
        asked.batch.rows = Some(plan.batch.rows);
        asked.batch.accumulate = Some(plan.batch.accumulate);
        asked.evaluate.batches = Some(plan.evaluate.batches);
        changed.extend(["batch.rows", "batch.accumulate", "evaluate.batches"]);
    }
    if request.checkpointing.is_none() && known.checkpointing && !plan.checkpointing {
        asked.checkpointing = Some(true);
        changed.push("checkpointing");
    }
    if changed.is_empty() {
        return Ok(resolved);
    }
    let mut resolved = resolve(&asked, facts)?;
    let (rows, day) = (known.failed_rows, &known.day);
    let reasons = resolved.reasons.iter_mut();
    for reason in reasons.filter(|it| changed.contains(&it.field.as_str())) {
        reason.why = format!("Memory ran out with {rows} rows at once on {day}.");
        reason.automatic = true;
    }
    Ok(resolved)
}

/// What a plan depends on in a model.
fn model_facts(folder: &Path) -> Result<ModelFacts> {
    let config = DecoderConfig::from_json(&ModelFolder::open(folder)?.config)?;
    Ok(ModelFacts::of(&config))
}

/// The folder of a tokenizer that is named by its folder, or by its file `tokenizer.json`.
fn tokenizer_folder(path: &Path) -> Result<PathBuf> {
    let wrong = |problem: &str| {
        let path = path.display();
        AppError::invalid(format!("`scratch.tokenizer` {problem}: `{path}`"))
            .with_field("scratch.tokenizer")
    };
    let absolute = std::path::absolute(path).map_err(AppError::file("find the tokenizer", path))?;
    match absolute.is_file() {
        false if absolute.join(TOKENIZER).is_file() => Ok(absolute),
        false => Err(wrong(
            "is neither `trained` nor a folder with a `tokenizer.json`",
        )),
        true if absolute.ends_with(TOKENIZER) => {
            Ok(absolute.parent().map(Path::to_owned).unwrap_or_default())
        }
        true => Err(wrong("is a file with another name than `tokenizer.json`")),
    }
}

/// Whether a new model can be made from a plan's config.
fn check_config(config: &serde_json::Map<String, serde_json::Value>) -> Result<()> {
    let described = DecoderConfig::from_json(&serde_json::Value::Object(config.clone()));
    match described {
        Ok(_) => Ok(()),
        Err(models::Error::Setting { field, problem }) => {
            Err(models::Error::setting(format!("scratch.config.{field}"), problem).into())
        }
        Err(error) => Err(error.into()),
    }
}
