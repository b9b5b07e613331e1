//! What language says as a kind of learning.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    LanguageFacts, LanguagePlan, LanguageRequest, LanguageTask,
    fields::FIELDS,
    fit, footprint,
    outlines::Outlines,
    plan::{DataFacts, ModelShape},
    preset,
    request::{Method, TokenizerSource},
    resolve,
    text::{Text, TokenizerFrom},
};
use crate::{
    Error, Result,
    checkpoint::{
        folder::{ModelFolder, WEIGHTS_INDEX},
        save::name_of,
    },
    data::{
        self, DataRequest,
        marks::Marks,
        tokenizer::{COMPANIONS, TOKENIZER},
    },
    random::stable_hash,
    train::{
        Problem, TrainPlan, TrainRequest, defaults,
        estimate::Estimate,
        fields::Field,
        fit::Measure,
        kind::{Basis, Kind, RunPlace, Subject, Tiny},
        resolve::Resolver,
    },
};

/// The files of a model beside its weights that decide what it learns.
const OF_MODEL: [&str; 2] = ["config.json", "generation_config.json"];

/// Language models learn from text.
pub enum Language {}

/// Data that was read and counted for a plan.
pub struct ReadText {
    key: Key,
    text: Text,
    facts: DataFacts,
    outlines: Outlines,
}

/// What was read: the same key means the same text.
#[derive(PartialEq)]
struct Key {
    request: DataRequest,
    changed: Vec<data::source::Changed>,
    held_out: f64,
    /// A folder, or how many tokens one that is trained may have, and which for turns.
    tokenizer: (Option<PathBuf>, usize, Marks),
    seed: u64,
}

impl Kind for Language {
    const NAME: &'static str = "language";
    const UNIT: &'static str = "tokens";
    const FIELDS: &'static [Field] = FIELDS;
    const SHAPED_BY: &'static [&'static str] = &[
        "method",
        "scratch",
        "quantize",
        "lora.rank",
        "lora.targets",
        "lora.layers",
    ];
    const NAMES_OF_FILES: &'static [&'static str] = &["model", "data.files", "scratch.tokenizer"];
    const MEASURES: &'static [Measure<Self>] = fit::MEASURES;
    const TINY: Option<Tiny> = Some(Tiny {
        files: tiny_files,
        request: r#"{"method": "scratch", "scratch": {"preset": "nano", "vocab_size": 300}, "data": {"held_out": 0.25},
            "batch": {"rows": 4, "length": 32}}"#,
    });

    type Request = LanguageRequest;
    type Plan = LanguagePlan;
    type Facts = LanguageFacts;
    type Read = ReadText;
    type Shape = ModelShape;
    type Task = LanguageTask;

    fn files(request: &mut LanguageRequest) -> &mut Vec<PathBuf> {
        &mut request.data.files
    }

    fn data(plan: &LanguagePlan) -> &[PathBuf] {
        &plan.data.files
    }

    /// Without the model, nothing that is read with it is known; that is no second mistake.
    fn first_problems(mut problems: Vec<Problem>) -> Vec<Problem> {
        if problems.iter().any(|it| it.field == "model") {
            problems.retain(|it| it.field != "data.files" && !it.field.starts_with("lora."));
        }
        problems
    }

    fn resolve(resolver: &mut Resolver<Self>) -> (LanguagePlan, Basis) {
        resolve::resolve(resolver)
    }

    fn shape(plan: &LanguagePlan, facts: &LanguageFacts) -> Option<ModelShape> {
        facts.shape(plan)
    }

    fn read_shape(plan: &LanguagePlan) -> Result<ModelShape> {
        match (&plan.scratch, &plan.model) {
            (Some(scratch), _) => scratch.shape().map(ModelShape::from),
            (None, Some(model)) => ModelShape::of(&ModelFolder::open(model)?),
            (None, None) => Err(no_model()),
        }
    }

    fn estimate(plan: &TrainPlan<LanguagePlan>, shape: &ModelShape) -> Estimate {
        footprint::estimate(plan, shape)
    }

    fn has_frozen_weights(plan: &LanguagePlan) -> bool {
        plan.lora.is_some()
    }

    fn model(request: &mut LanguageRequest) -> Option<&mut PathBuf> {
        let is_needed = needs_model(request);
        request.model.as_mut().filter(|_| is_needed)
    }

    fn find_files(request: &mut LanguageRequest) -> Result<()> {
        for file in &mut request.data.files {
            *file = absolute(file, "find the data")?;
        }
        if let Some(path) = tokenizer_file(request) {
            *path = tokenizer_folder(path)?;
        }
        Ok(())
    }

    fn seen_from(request: &mut LanguageRequest, folder: &Path) {
        let from_folder = |path: &mut PathBuf| *path = folder.join(&path);
        // What is not there may be the name of a model.
        let models = request.model.iter_mut();
        models
            .filter(|model| folder.join(model).exists())
            .for_each(from_folder);
        request.data.files.iter_mut().for_each(from_folder);
        tokenizer_file(request).into_iter().for_each(from_folder);
    }

    fn read(
        request: &TrainRequest<LanguageRequest>,
        known: Option<&Arc<ReadText>>,
    ) -> Result<Option<Arc<ReadText>>> {
        // Without data or model there is nothing to read; resolving says so, with all else that is wrong.
        if request.task.data.files.is_empty()
            || (needs_model(&request.task) && request.task.model.is_none())
        {
            return Ok(None);
        }
        let key = Key::of(request);
        if let Some(known) = known.filter(|known| known.key == key) {
            return Ok(Some(known.clone()));
        }
        let tokenizer = match &key.tokenizer {
            (Some(folder), ..) => TokenizerFrom::Folder(folder),
            (None, vocab_size, marks) => TokenizerFrom::Data {
                vocab_size: *vocab_size,
                marks: *marks,
            },
        };
        let text = Text::open(&key.request, key.held_out, tokenizer, key.seed)?;
        Ok(Some(Arc::new(ReadText {
            facts: text.facts()?,
            text,
            outlines: Outlines::default(),
            key,
        })))
    }

    fn facts(
        request: &TrainRequest<LanguageRequest>,
        read: Option<&ReadText>,
    ) -> Result<LanguageFacts> {
        let model = request.task.model.as_deref();
        let model = model.filter(|_| needs_model(&request.task));
        // Weights that were cut off are found now, and not when the run has begun.
        let shape = |folder| ModelShape::of(&ModelFolder::open(folder)?);
        Ok(LanguageFacts {
            model: model.map(shape).transpose()?,
            data: read.map(|read| read.facts.clone()).unwrap_or_default(),
            vocab_size: read.map_or(0, |read| read.text.tokenizer.vocabulary_size()),
        })
    }

    fn check(plan: &LanguagePlan) -> Result<()> {
        let Some(scratch) = &plan.scratch else {
            return Ok(());
        };
        match scratch.shape() {
            Err(Error::Setting { field, problem }) => {
                Err(Error::setting(format!("scratch.config.{field}"), problem))
            }
            described => described.map(|_| ()),
        }
    }

    fn warnings(plan: &TrainPlan<LanguagePlan>, read: &ReadText) -> Result<Vec<String>> {
        read.outlines.warnings(&read.text, plan)
    }

    fn open(plan: &TrainPlan<LanguagePlan>, place: &RunPlace) -> Result<LanguageTask> {
        let data = &plan.task.data;
        let tokenizer = match (&plan.task.model, &plan.task.scratch, place.learned_from) {
            (Some(model), ..) => TokenizerFrom::Folder(model),
            // What was learned means nothing with a tokenizer made from other data.
            (None, Some(scratch), Some(folder))
                if scratch.tokenizer == TokenizerSource::Trained =>
            {
                TokenizerFrom::Folder(folder)
            }
            (None, Some(scratch), _) => match &scratch.tokenizer {
                TokenizerSource::File(folder) => TokenizerFrom::Folder(folder),
                TokenizerSource::Trained => TokenizerFrom::Data {
                    vocab_size: scratch.vocab_size,
                    marks: scratch.marks(),
                },
            },
            (None, None, _) => return Err(no_model()),
        };
        let text = Text::open(&data.source(), data.held_out, tokenizer, plan.run.seed)?;
        LanguageTask::new(plan, text, place.device)
    }

    fn sources(plan: &LanguagePlan) -> BTreeMap<String, PathBuf> {
        let mut sources = data::source::places(&plan.data.files);
        if let Some(model) = &plan.model {
            sources.extend(files_of_model(model));
        } else if let Some(scratch) = &plan.scratch
            && let TokenizerSource::File(folder) = &scratch.tokenizer
        {
            sources.extend(beside_weights("tokenizer", folder));
        }
        sources
    }

    fn uses(_: &LanguagePlan) -> &'static [&'static str] {
        &["chat"]
    }

    fn subject(plan: &LanguagePlan) -> Subject {
        let model = match (&plan.model, &plan.scratch) {
            (Some(folder), _) => folder.display().to_string(),
            (None, Some(scratch)) => {
                let config = serde_json::to_string(&scratch.config).unwrap_or_default();
                format!("{:016x}", stable_hash(0, config.as_bytes()))
            }
            (None, None) => String::new(),
        };
        let base = plan.model.clone();
        let base_name = base.as_deref().map(name_of).unwrap_or_default();
        Subject {
            model,
            method: plan.method.name().to_owned(),
            what: match plan.method {
                Method::Scratch => "a new model".to_owned(),
                Method::Lora => format!("adapter for {base_name}"),
                Method::Full => format!("all of {base_name}"),
            },
            base,
        }
    }

    fn smaller(plan: &LanguagePlan) -> Option<String> {
        let length = plan.data.max_length;
        Some(format!(
            "start it with shorter rows (`data.max_length` below {length})"
        ))
    }
}

impl Key {
    fn of(request: &TrainRequest<LanguageRequest>) -> Self {
        let (run, task) = (&request.run, &request.task);
        let (source, vocab_size) = task.tokenizer_or_default();
        let folder = match (&task.model, source) {
            (Some(model), _) => Some(model.clone()),
            (None, TokenizerSource::File(path)) => Some(path),
            (None, TokenizerSource::Trained) => None,
        };
        let held_out = task.data.held_out.unwrap_or(preset::HELD_OUT);
        Self {
            request: task.data.source(),
            changed: data::source::changed(&task.data.files),
            held_out: held_out.clamp(0.0, 0.5),
            tokenizer: (folder, vocab_size, task.marks_or_default()),
            seed: run.seed.unwrap_or(defaults::SEED),
        }
    }
}

/// The files of a model that decide what is learned from it, by what they are for a run: `model/config.json`.
pub fn files_of_model(model: &Path) -> BTreeMap<String, PathBuf> {
    let mut files = beside_weights("model", model);
    let index = model.join(WEIGHTS_INDEX);
    let weights = ModelFolder::open(model).map(|folder| folder.weight_files);
    let weights = weights.unwrap_or_default().into_iter();
    let all = weights.chain(Some(index).filter(|it| it.is_file()));
    files.extend(all.map(|file| (format!("model/{}", name_of(&file)), file)));
    files
}

/// Those of them that are no weights, as far as they are there.
fn beside_weights(kind: &str, folder: &Path) -> BTreeMap<String, PathBuf> {
    let names = OF_MODEL.iter().chain(&[TOKENIZER]).chain(&COMPANIONS);
    let there = names.filter(|name| folder.join(name).is_file());
    there
        .map(|name| (format!("{kind}/{name}"), folder.join(name)))
        .collect()
}

fn needs_model(request: &LanguageRequest) -> bool {
    request.method_or_default().value != Method::Scratch
}

fn no_model() -> Error {
    Error::setting("model", "is missing, and so is `scratch`")
}

fn absolute(path: &Path, action: &'static str) -> Result<PathBuf> {
    std::path::absolute(path).map_err(Error::file(action, path))
}

/// The file or folder of a tokenizer that a request names.
fn tokenizer_file(request: &mut LanguageRequest) -> Option<&mut PathBuf> {
    match request.scratch.as_mut()?.tokenizer.as_mut()? {
        TokenizerSource::File(path) => Some(path),
        TokenizerSource::Trained => None,
    }
}

/// The folder of a tokenizer that is named by its folder, or by its file `tokenizer.json`.
fn tokenizer_folder(path: &Path) -> Result<PathBuf> {
    let wrong = |problem: &str| {
        Error::setting(
            "scratch.tokenizer",
            format!("{problem}: `{}`", path.display()),
        )
    };
    let absolute = absolute(path, "find the tokenizer")?;
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

/// A few questions with their answers.
fn tiny_files() -> Vec<(&'static str, Vec<u8>)> {
    let row = |n: usize| {
        format!(
            "{{\"prompt\": \"What comes after {n}?\", \"completion\": \"After {n} comes {}.\"}}\n",
            n + 1
        )
    };
    vec![(
        "tiny.jsonl",
        (1..=64).map(row).collect::<String>().into_bytes(),
    )]
}
