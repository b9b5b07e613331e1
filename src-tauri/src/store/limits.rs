//! How large the files of the app may be, beside what `models` reads.
//!
//! Most of them were written by Anneal, and a person can change any of them.

use std::path::Path;

use models::limits::Limit;

use crate::wire::error::{AppError, Result};

::models::limits! {
    #[cfg(test)]
    pub(crate) LIMITS;

    /// What is written in YAML.
    YAML_FILE = "a run file, a plan or the settings", 4 << 20, "bytes",
        "30,000 paths of data have room in it";
    /// What Anneal keeps as JSON.
    JSON_FILE = "a list or a conversation that Anneal keeps", 64 << 20, "bytes",
        "a conversation of a million words has 6 MB";
    /// A line of `events.jsonl`.
    EVENT = "an event of a run", 4 << 20, "bytes",
        "the longest hold pictures, 400 kB";
    /// `sources.json` of a run.
    SOURCES = "the list of the files of a run", 1 << 30, "bytes",
        "a folder of a million pictures has 300 MB of names with their sums";
    /// A word that has a file of its own.
    WORD_FILE = "a file of one word, such as a commit or a token", 4 << 10, "bytes",
        "a commit has 40, and a token of the Hub 37";
    /// A benchmark of this or another machine.
    BENCHMARK = "a file with a benchmark", 16 << 20, "bytes",
        "a whole one has 100 kB";
}

/// Reads a file of text whole, unless it is larger than its limit.
pub(crate) fn read_text(limit: Limit, path: &Path, action: &'static str) -> Result<String> {
    let bytes = limit.read(path, action)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        AppError::failed(format!(
            "could not {action}: not UTF-8 at byte {at}: `{}`",
            path.display()
        ))
    })
}
