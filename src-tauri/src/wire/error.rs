//! The one error of the app, in the form in which a person meets it.

use std::path::Path;

use models::{
    ReadAs,
    error::{file_advice, system_says},
    train::{Problem, Problems, TrainEvent, fit::Fit},
};
use serde::{Deserialize, Serialize};

/// The result of everything in the app that can fail.
pub(crate) type Result<T, E = AppError> = std::result::Result<T, E>;

/// What a person learns when something fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[error("{message}")]
pub(crate) struct AppError {
    /// What the caller can do about it.
    pub(crate) code: Code,
    /// What was tried, on what, with which numbers: one sentence without a full stop.
    pub(crate) message: String,
    /// What to try next, if we know.
    pub(crate) hint: Option<String>,
    /// What a library said, where the message is in our words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "gui", specta(optional))]
    pub(crate) details: Option<Box<str>>,
    /// The setting at fault, as in a run file, if there is one.
    pub(crate) field: Option<Box<str>>,
    /// How else data can be read that can't be read as it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "gui", specta(optional))]
    pub(crate) proposal: Option<Box<ReadAs>>,
    /// Whether the same works when it is forced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "gui", specta(skip))]
    pub(crate) force_helps: bool,
    /// What else is wrong with the same request.
    #[serde(default, skip_serializing_if = "<[Problem]>::is_empty")]
    #[cfg_attr(feature = "gui", specta(skip))]
    pub(crate) others: Box<[Problem]>,
    /// Why a run does not fit, and what would make it fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "gui", specta(skip))]
    pub(crate) fit: Option<Box<Fit>>,
}

/// A variant exists only while someone acts on it: each has its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Code {
    /// A command, run file or setting that has to be changed. Exit code 2.
    InvalidRequest,
    /// Something that whoever asks may know better: it is done when it is forced. Exit code 2.
    NeedsForce,
    /// The Hub can't be asked now. What is on this machine works all the same. Exit code 3.
    Offline,
    /// Memory ran out, also with everything given up that may be. What a run has learned is saved. Exit code 4.
    OutOfMemory,
    /// A process that trained the run together with others is gone. What the run has learned is saved. Exit code 1.
    LostRank,
    /// Anything else. Exit code 1.
    Failed,
}

impl AppError {
    /// Something that did not work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            code: Code::Failed,
            message: message.into(),
            hint: None,
            details: None,
            field: None,
            proposal: None,
            force_helps: false,
            others: Box::default(),
            fit: None,
        }
    }

    /// Something that was asked for and can't be meant.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self {
            code: Code::InvalidRequest,
            ..Self::failed(message)
        }
    }

    /// Adds what to try next.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the setting at fault.
    pub(crate) fn with_field(mut self, field: impl Into<Box<str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Says that the same works when it is forced.
    pub(crate) fn unless_forced(mut self) -> Self {
        self.force_helps = true;
        self
    }

    /// What went wrong and what to try next, in one sentence.
    pub(crate) fn sentence(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// What a run says that it ended.
    pub(crate) fn failure(&self, step: usize) -> TrainEvent {
        TrainEvent::Failed {
            step,
            message: self.message.clone(),
            hint: self.hint.clone(),
            force_helps: self.force_helps,
        }
    }

    /// For `map_err` on file operations: `fs::read(path).map_err(AppError::file("read the settings", path))`.
    pub(crate) fn file(
        action: &str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        move |source| {
            let path = path.as_ref().display();
            let said = system_says(&source);
            Self {
                hint: file_advice(&source).map(str::to_owned),
                ..Self::failed(format!("could not {action}: {said}: `{path}`"))
            }
        }
    }
}

impl From<models::Error> for AppError {
    fn from(error: models::Error) -> Self {
        let base = match &error {
            models::Error::Setting { field, .. } => {
                Self::invalid(error.to_string()).with_field(field.clone())
            }
            models::Error::Reading { proposal, .. } => Self {
                proposal: Some(Box::new(proposal.clone())),
                ..Self::failed(error.to_string()).with_field(proposal.field())
            },
            error if error.is_out_of_memory() => Self {
                code: Code::OutOfMemory,
                ..Self::failed(error.to_string())
            },
            _ => Self::failed(error.to_string()),
        };
        Self {
            hint: error.hint(),
            details: error.details().map(Box::from),
            ..base
        }
    }
}

impl From<Problems> for AppError {
    fn from(problems: Problems) -> Self {
        let mut problems = problems.0.into_iter();
        match problems.next() {
            Some(first) => Self {
                others: problems.collect(),
                ..Self::invalid(first.to_string()).with_field(first.field)
            },
            None => Self::invalid("the request can’t be planned"),
        }
    }
}
