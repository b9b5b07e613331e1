//! What can go wrong, once for the whole crate.
//!
//! A message says what was tried, on what and with which numbers; what to do about it is a separate hint.
//! Variants exist where a caller acts differently, not for every place that can fail.

use std::path::{Path, PathBuf};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong while a model is made, trained or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that can't mean anything, or can't be served here. The user has to change it.
    #[error("`{field}` {problem}")]
    Setting {
        /// The setting, as it is written in a run file: `lora.rank`.
        field: String,
        /// What is wrong with its value, with the value.
        problem: String,
    },

    /// A file or folder that could not be read or written.
    #[error("could not {action}: {source}: `{}`", path.display())]
    File {
        /// What was tried: `read the tokenizer`.
        action: &'static str,
        /// What the operating system says.
        source: std::io::Error,
        /// Last in the message, since it may name the user.
        path: PathBuf,
    },

    /// A file that was read, but holds something else than it should.
    #[error("{problem}: `{}`", path.display())]
    Format {
        /// What is wrong, with the place in the file when there is one.
        problem: String,
        /// Last in the message, since it may name the user.
        path: PathBuf,
    },

    /// Data that can't be learned from: nothing in it, no column known, rows too long for the model.
    #[error("{0}")]
    Data(String),

    /// The device is missing, can't do this, or refused.
    #[error("{0}")]
    Device(String),

    /// The device has no memory left for what was asked.
    #[error("not enough memory on {device} while {doing}: {words}")]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// What was being done.
        doing: &'static str,
        /// The device's own words.
        words: String,
    },

    /// Training went on with half the learning rate as often as it may, and the numbers still were not finite.
    #[error(
        "the {what} is not a number at step {step}, also after {rollbacks} attempts at half the learning rate; \
         last saved: {saved}"
    )]
    NotFinite {
        /// `loss` or `gradient`.
        what: &'static str,
        /// The step that could not be taken.
        step: usize,
        /// How often the run went back.
        rollbacks: usize,
        /// The step of the newest checkpoint, in words.
        saved: String,
    },

    /// A tensor operation failed: shapes, dtypes, or a kernel the device lacks.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

impl Error {
    /// A setting that can't be served: its name as in a run file, and what is wrong with it.
    pub fn setting(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Setting {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// For `map_err` on file operations: `fs::read(path).map_err(Error::file("read the tokenizer", path))`.
    pub fn file(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File {
            action,
            source,
            path,
        }
    }

    /// A file that holds something else than it should.
    pub fn format(path: impl AsRef<Path>, problem: impl Into<String>) -> Self {
        Self::Format {
            problem: problem.into(),
            path: path.as_ref().to_owned(),
        }
    }

    /// What a person can try next, when we know.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::OutOfMemory { .. } => Some(
                "set a smaller batch, shorten the context, or turn checkpointing on".to_owned(),
            ),
            Self::NotFinite { .. } => Some("lower the learning rate, or compute in f32".to_owned()),
            _ => None,
        }
    }
}
