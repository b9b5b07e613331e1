//! What was trained, written for other programs.
//!
//! A name means a run, a model or a checkpoint; what that is decides in which formats it can be written. `language` and `picture` know
//! theirs.

mod language;
pub(crate) mod ollama;
mod picture;
#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::{
    checkpoint::{adapter::ADAPTER_CONFIG, save::name_of},
    tasks::{
        TaskPlan,
        language::export::{FORMATS as LANGUAGE, Stage},
        picture::{classifier::CLASSIFIER, export::FORMATS as PICTURE},
    },
};
use serde::Serialize;
use serde_json::Value as Json;

use super::Host;
use crate::{
    store::{
        self, lm_studio,
        runs::{self, Run},
    },
    wire::error::{AppError, Result},
};

/// One way to write something.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offered {
    /// The format, as it is asked for.
    pub(crate) name: &'static str,
    /// Its name for people.
    pub(crate) title: &'static str,
    /// How the name of a file ends. Nothing where it is a folder.
    pub(crate) ending: Option<&'static str>,
    /// Its size, where that is known before it is written.
    pub(crate) bytes: Option<u64>,
    /// The programs that it works in.
    pub(crate) readers: &'static str,
    /// What is lost, in sentences.
    pub(crate) losses: Vec<String>,
    /// Why it can't be written.
    pub(crate) refused: Option<String>,
    /// Why it can't be compared with what was trained now.
    pub(crate) uncomparable: Option<String>,
}

impl Offered {
    /// Whether LM Studio reads it and is on this machine.
    pub(crate) fn is_for_lm_studio(&self) -> bool {
        lm_studio_reads(self.readers) && lm_studio::folder().is_some()
    }
}

/// Where something is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// Where the program works, called after the run or model.
    Here,
    /// The file or folder.
    At(PathBuf),
    /// Among the models of LM Studio.
    LmStudio,
}

/// How something is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// Also where another program would compute something else.
    pub(crate) force: bool,
    /// Whether a language model is compared with what was trained.
    pub(crate) compares: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    /// The file or folder.
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Whom it is for.
    pub(crate) readers: &'static str,
    /// How it was compared with what was trained, in a sentence.
    pub(crate) compared: String,
    /// What whoever uses it has to know, in sentences.
    pub(crate) notes: Vec<String>,
    /// All of that for programs.
    pub(crate) details: Json,
}

impl Written {
    /// Whether it can be added to Ollama, which is on this machine.
    pub(crate) fn is_for_ollama(&self) -> bool {
        ollama::takes(&self.path)
    }
}

/// What a name means.
enum Source {
    /// A language model, or an adapter on one: its folder or file, what it is called, and the run that trained it.
    Language(PathBuf, String, Option<Run>),
    /// The checkpoint of a network for pictures, and what it is called.
    Picture(PathBuf, String),
}

impl Host {
    /// The ways in which something can be written.
    pub(crate) fn exports(&self, name: &str) -> Result<Vec<Offered>> {
        match self.export_source(name)? {
            Source::Language(folder, called, _) => language::offers(&folder, &called),
            Source::Picture(..) => Ok(picture::offers()),
        }
    }

    /// Writes something in a format. What another program would compute otherwise is written only where `how` says so. What hears the
    /// stages of a language model ends it with an error; a network for pictures is written in a moment.
    pub(crate) fn export(
        &self,
        name: &str,
        format: &str,
        place: Place,
        how: How,
        stage: &mut dyn FnMut(Stage) -> models::Result<()>,
    ) -> Result<Written> {
        match self.export_source(name)? {
            Source::Language(folder, called, run) => {
                let format = known(LANGUAGE.iter().map(|it| (it.name, it.format)), format)?;
                let about = format.about();
                let is_theirs = place == Place::LmStudio;
                let out = out_path(place, &called, about.name, about.ending, about.readers)?;
                let written =
                    language::export(&folder, &called, run.as_ref(), format, &out, how, stage);
                if is_theirs
                    && written.is_err()
                    && let Some(made) = out.parent()
                {
                    // The folder that was made for it, which goes only if it is empty.
                    drop(fs::remove_dir(made));
                }
                written
            }
            Source::Picture(checkpoint, called) => {
                let format = known(PICTURE.iter().map(|it| (it.name, it.format)), format)?;
                let about = format.about();
                let out = out_path(place, &called, about.name, about.ending, about.reader)?;
                picture::export(&checkpoint, format, &out)
            }
        }
    }

    fn export_source(&self, name: &str) -> Result<Source> {
        let path = Path::new(name);
        let called = |path: &Path| -> Result<String> {
            let whole =
                std::path::absolute(path).map_err(AppError::file("find what is exported", path))?;
            let called = name_of(&whole);
            Ok(called.strip_suffix(".gguf").unwrap_or(&called).to_owned())
        };
        if path.join(CLASSIFIER).is_file() {
            return Ok(Source::Picture(path.to_owned(), called(path)?));
        }
        if store::models::is_model(path) || path.join(ADAPTER_CONFIG).is_file() {
            return Ok(Source::Language(path.to_owned(), called(path)?, None));
        }
        // A word can be part of a run's id and the name of a model; the whole name of a model comes first.
        if let Ok(folder) = store::models::find(&self.paths, &self.settings(), path) {
            let called = called(&folder)?;
            return Ok(Source::Language(folder, called, None));
        }
        let run = runs::find(&self.paths, name).map_err(|error| match path.is_dir() {
            true => AppError::invalid(format!(
                "the folder holds no model, adapter or network for pictures: `{name}`"
            ))
            .with_hint("name a run, a model, or the folder of a checkpoint"),
            false => error,
        })?;
        let checkpoint = run.best_checkpoint()?;
        match run.plan()?.task {
            TaskPlan::Language(_) => Ok(Source::Language(checkpoint, run.id.clone(), Some(run))),
            TaskPlan::Picture(_) if checkpoint.join(CLASSIFIER).is_file() => {
                Ok(Source::Picture(checkpoint, run.id))
            }
            TaskPlan::Picture(_) => Err(AppError::failed(format!(
                "the checkpoint does not say what its network is: `{}`",
                checkpoint.display()
            ))),
            TaskPlan::Puzzle(_) => Err(elsewhere(
                &run,
                "runs export",
                "step_1",
                "its weights for PyTorch",
            )),
            TaskPlan::Probe(_) => Err(elsewhere(
                &run,
                "probe export",
                "--gguf FILE",
                "the direction of a probe",
            )),
        }
    }
}

/// What a run is told that has a command of its own.
fn elsewhere(run: &Run, command: &str, words: &str, what: &str) -> AppError {
    let id = &run.id;
    let error = AppError::invalid(format!("`{id}` learned neither language nor pictures"));
    error.with_hint(format!("`anneal {command} {id} {words}` writes {what}"))
}

/// The format of a name, among those that there are.
fn known<T: Copy>(
    formats: impl Iterator<Item = (&'static str, T)> + Clone,
    name: &str,
) -> Result<T> {
    let found = formats.clone().find(|(known, _)| *known == name);
    found.map(|it| it.1).ok_or_else(|| {
        let names: Vec<&str> = formats.map(|it| it.0).collect();
        AppError::invalid(format!(
            "`{name}` is no format for it; there are: {}",
            names.join(", ")
        ))
    })
}

/// What was written, for programs.
fn told(exported: &impl Serialize) -> Result<Json> {
    let told = serde_json::to_value(exported);
    told.map_err(|error| AppError::failed(format!("what was written can’t be told: {error}")))
}

/// Whether LM Studio reads a format, by whom the format is for.
fn lm_studio_reads(readers: &str) -> bool {
    readers.split(", ").any(|reader| reader == "LM Studio")
}

/// The path of what is written. Among the models of LM Studio, the folders above it are made.
fn out_path(
    place: Place,
    called: &str,
    format: &str,
    ending: Option<&str>,
    readers: &str,
) -> Result<PathBuf> {
    let name = default_path(called, format, ending);
    match place {
        Place::Here => Ok(name),
        Place::At(path) => Ok(path),
        Place::LmStudio if !lm_studio_reads(readers) => Err(AppError::invalid(format!(
            "LM Studio does not read `{format}`"
        ))
        .with_hint("it reads GGUF files, and on a Mac the formats of MLX")),
        Place::LmStudio => {
            let folder = lm_studio::folder().ok_or_else(|| {
                AppError::invalid("LM Studio has no folder of models here")
                    .with_hint("open LM Studio once, or write the file elsewhere with `--out`")
            })?;
            let path = lm_studio::place(&folder, called, &name, ending.is_some());
            store::make_folder_of(&path)?;
            Ok(path)
        }
    }
}

/// What an export is called. The ending of a file says its format; of several kinds of GGUF, the name says which.
fn default_path(called: &str, format: &str, ending: Option<&str>) -> PathBuf {
    PathBuf::from(match (ending, format.strip_prefix("gguf-")) {
        (Some(ending), Some(kind)) => format!("{called}-{kind}.{ending}"),
        (Some(ending), None) => format!("{called}.{ending}"),
        (None, _) => format!("{called}-{format}"),
    })
}
