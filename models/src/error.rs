//! What can go wrong, once for the whole crate.
//!
//! A message says what was tried, on what and with which numbers; what to do about it is a separate hint.
//! Variants exist where a caller acts differently, not for every place that can fail.

use std::{
    any::Any,
    io::ErrorKind,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    thread,
};

use serde::{Deserialize, Serialize};

/// What devices and allocators say when memory has run out, in small letters.
///
/// CUDA names its error, and cuBLAS another; Metal refuses a buffer, or says so of a command buffer that failed earlier;
/// the allocator of a processor speaks of the allocation that failed.
const OUT_OF_MEMORY_WORDS: [&str; 6] = [
    "out of memory",
    "out_of_memory",
    "outofmemory",
    "cublas_status_alloc_failed",
    "insufficient memory",
    "memory allocation",
];
/// What is said of a device that failed at something else, which a new process may find well again.
const DEVICE_WORDS: [&str; 3] = [
    "drivererror",
    "cublaserror",
    "command buffer had following error",
];
/// What candle says when Metal has no room for a buffer, in small letters.
const NO_METAL_BUFFER: &str = "failed to create metal resource: buffer";

/// Stacks for what goes as deep as a file says, the largest that can be had first: a template within its limit can be nested one
/// level a byte, of less than 2 KB each. A process whose memory is limited may have no room for the largest.
const DEEP_STACKS_BYTES: [usize; 3] = [512 << 20, 128 << 20, 32 << 20];

/// What a disk says that is full or may only be read.
const DISK_KINDS: [ErrorKind; 4] = [
    ErrorKind::StorageFull,
    ErrorKind::QuotaExceeded,
    ErrorKind::FileTooLarge,
    ErrorKind::ReadOnlyFilesystem,
];
/// The numbers of what a Unix says of a disk that fails or is gone: EIO, ENXIO, ENODEV.
const DISK_ERRORS: [i32; 3] = [5, 6, 19];

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
    #[error("could not {action}: {}: `{}`", system_says(source), path.display())]
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

    /// Data whose bytes or columns mean nothing as they were read, and how else they can be read.
    #[error("{problem}: `{}`", path.display())]
    Reading {
        /// What is wrong, with the place in the file when there is one.
        problem: String,
        /// What to try.
        proposal: ReadAs,
        /// Last in the message, since it may name the user.
        path: PathBuf,
    },

    /// A file of a model that was cut off or overwritten. What a library said of it is kept apart.
    #[error("{problem}: `{}`", path.display())]
    Damaged {
        /// What is wrong, in our words: `the weights are incomplete`.
        problem: String,
        /// What the library said, or what was counted.
        details: String,
        /// Last in the message, since it may name the user.
        path: PathBuf,
    },

    /// Data that can't be learned from: nothing in it, no column known, rows too long for the model.
    #[error("{0}")]
    Data(String),

    /// The device is missing, can't do this, or refused.
    #[error("{0}")]
    Device(String),

    /// Memory ran out, or was about to, in a run that could not continue by itself: when, and in which words.
    #[error("{0}")]
    OutOfMemory(String),

    /// Training continued with half the learning rate as often as it may, and the numbers still were not finite.
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

    /// Another process that trains the same run failed or is gone: what it said, or who it was.
    #[error("{0}")]
    Peer(String),

    /// Held-out data was being measured, or a model exported, and whoever waits asked to stop. Nothing is lost: it is done another
    /// time.
    #[error("it was asked to stop before it was done")]
    Interrupted,

    /// A tensor operation failed: shapes, dtypes, or a kernel the device lacks.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// How else data can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum ReadAs {
    /// In another encoding, by its label.
    Encoding(String),
    /// With these columns as parts of a row, each part with its column. Nothing where only a person can know.
    Columns(Vec<(String, String)>),
}

impl ReadAs {
    /// The setting that it changes, as in a run file.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Encoding(_) => "data.encoding",
            Self::Columns(_) => "data.columns",
        }
    }

    /// What to write into a run file.
    fn advice(&self) -> String {
        match self {
            Self::Encoding(label) => {
                format!("name the encoding of the text, for example `encoding: {label}`")
            }
            Self::Columns(columns) => {
                let written = match columns.is_empty() {
                    true => "prompt: COLUMN, completion: COLUMN".to_owned(),
                    false => columns
                        .iter()
                        .map(|(part, column)| format!("{part}: {column}"))
                        .collect::<Vec<_>>()
                        .join(", "),
                };
                format!("say which column is what, for example `columns: {{{written}}}`")
            }
        }
    }
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

    /// Data that means nothing as it was read, and how else it can be read.
    pub fn reading(path: &Path, problem: impl Into<String>, proposal: ReadAs) -> Self {
        Self::Reading {
            problem: problem.into(),
            proposal,
            path: path.to_owned(),
        }
    }

    /// A file of a model that holds something else than its writer meant, and what was said of it.
    pub fn damaged(
        path: impl AsRef<Path>,
        problem: impl Into<String>,
        details: impl ToString,
    ) -> Self {
        Self::Damaged {
            problem: problem.into(),
            details: details.to_string(),
            path: path.as_ref().to_owned(),
        }
    }

    /// What a library said, where the message is in our words.
    pub fn details(&self) -> Option<&str> {
        match self {
            Self::Damaged { details, .. } => Some(details),
            _ => None,
        }
    }

    /// Whether this is about memory that ran out, in whatever words the device has for it.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::OutOfMemory(_) => true,
            Self::Tensor(_) | Self::Device(_) => says_out_of_memory(&self.to_string()),
            _ => false,
        }
    }

    /// Whether the device failed in a way that another process may be spared: a driver that was reset, a kernel that was lost.
    pub fn is_failure_of_the_device(&self) -> bool {
        let message = match self {
            Self::Tensor(_) | Self::Device(_) => self.to_string().to_lowercase(),
            _ => return false,
        };
        !says_out_of_memory(&message) && DEVICE_WORDS.iter().any(|it| message.contains(it))
    }

    /// Whether the disk can't take or give what was asked now: full, read-only, broken or gone. It may be well again.
    pub fn is_about_the_disk(&self) -> bool {
        let Self::File { source, .. } = self else {
            return false;
        };
        DISK_KINDS.contains(&source.kind())
            || (cfg!(unix)
                && source
                    .raw_os_error()
                    .is_some_and(|it| DISK_ERRORS.contains(&it)))
    }

    /// What a person can try next, when we know.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::OutOfMemory(_) => Some(
                "set a smaller `batch.rows`, a smaller `data.max_length`, or `gradient_checkpointing: true`"
                    .to_owned(),
            ),
            Self::File { source, .. } => file_advice(source).map(str::to_owned),
            Self::Reading { proposal, .. } => Some(proposal.advice()),
            Self::Damaged { .. } => Some("download the model again".to_owned()),
            Self::NotFinite { .. } => Some("lower the learning rate, or compute in f32".to_owned()),
            _ => None,
        }
    }
}

/// What the operating system says of a file, without the number it has for it.
pub fn system_says(source: &std::io::Error) -> String {
    let words = source.to_string();
    let plain = words.split(" (os error ").next().unwrap_or(&words);
    plain.trim_end_matches('.').to_owned()
}

/// What a person can try next when the operating system refuses a file, when we know.
pub fn file_advice(source: &std::io::Error) -> Option<&'static str> {
    match source.kind() {
        ErrorKind::PermissionDenied if cfg!(target_os = "macos") => {
            Some("give Anneal access to it in the system’s settings, under Privacy & Security")
        }
        ErrorKind::PermissionDenied => Some("see who may read and change it"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some("make room on its disk"),
        ErrorKind::ReadOnlyFilesystem => Some("its disk can only be read: choose another folder"),
        _ => None,
    }
}

/// Whether words of a device, a library or a log say that memory has run out.
pub fn says_out_of_memory(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains(NO_METAL_BUFFER) || OUT_OF_MEMORY_WORDS.iter().any(|it| message.contains(it))
}

/// Calls a library with what came from outside. Its panic becomes words: whoever made the file must not end the program.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(call)).map_err(|panic| panic_message(&*panic))
}

/// Calls a library that goes as deep as a file says, on a stack that no file which is read fills.
pub fn on_a_deep_stack<T: Send>(call: impl Fn() -> T + Send + Sync) -> Result<T, String> {
    thread::scope(|scope| {
        let spawn = |bytes: &usize| {
            let deep = thread::Builder::new().stack_size(*bytes);
            deep.spawn_scoped(scope, &call)
        };
        let mut spawned = DEEP_STACKS_BYTES.iter().map(spawn);
        let first = spawned.find(Result::is_ok).or_else(|| spawned.next_back());
        match first {
            Some(Ok(deep)) => deep.join().map_err(|panic| panic_message(&*panic)),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("there is no memory for a stack".to_owned()),
        }
    })
}

/// What a panic said.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it failed without saying why").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_ran_out_is_recognized_in_the_words_of_every_device() {
        for message in [
            "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")",
            "CublasError(CUBLAS_STATUS_ALLOC_FAILED)",
            "Command buffer had following error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
            "Failed to create metal resource: Buffer",
            "memory allocation of 1073741824 bytes failed",
        ] {
            let error = Error::from(candle_core::Error::Msg(message.to_owned()));
            assert!(error.is_out_of_memory(), "{message}");
        }
        for message in [
            "shape mismatch in matmul",
            "DriverError(CUDA_ERROR_LAUNCH_FAILED, \"unspecified launch failure\")",
            "Failed to create metal resource: CommandQueue",
        ] {
            let error = Error::from(candle_core::Error::Msg(message.to_owned()));
            assert!(!error.is_out_of_memory(), "{message}");
            assert_eq!(
                error.is_failure_of_the_device(),
                message.contains("DriverError")
            );
        }
    }
}
