//! `anneal train --config-name cfg_pretrain arch=trm …`: the command line of the program that Tiny Recursive Models come from.

use std::path::PathBuf;

use models::{
    figures::counted,
    tasks::{AnyRequest, overrides},
};

use super::{Arguments, Terminal};
use crate::{
    store::run_file,
    wire::error::{AppError, Result},
};

/// The request that the words ask for, where they are overrides: what they say is told as it was understood.
pub(super) fn request(arguments: &Arguments, terminal: &Terminal) -> Result<Option<AnyRequest>> {
    if arguments.multirun {
        let problem = "--multirun starts many runs by one command, which is not done here";
        return Err(AppError::invalid(problem).with_hint("start them one after the other"));
    }
    let words = &arguments.words;
    let has_overrides = words.iter().any(|word| is_override(word));
    if arguments.config_name.is_none() && !has_overrides {
        return Ok(None);
    }
    let understood = overrides::read(arguments.config_name.as_deref(), words);
    let understood = understood.map_err(|error| {
        AppError::from(error).with_hint(
            "keys are those of the reference’s config/cfg_pretrain.yaml and config/arch/trm.yaml, or of its fork for chats",
        )
    })?;
    for note in &understood.notes {
        terminal.note(note);
    }
    let fields = understood.fields.as_object().cloned().unwrap_or_default();
    let task = fields.get("task").cloned();
    let empty = serde_json::json!({"task": task});
    let empty = AnyRequest::read(&empty).map_err(|it| AppError::invalid(it.to_string()))?;
    run_file::put_fields(empty, fields).map(Some)
}

/// The one word that names a run file.
pub(super) fn run_file(words: &[String]) -> Result<Option<PathBuf>> {
    match words {
        [] => Ok(None),
        [file] => Ok(Some(PathBuf::from(file))),
        several => Err(AppError::invalid(format!(
            "{} are given, and one run file is the most",
            counted(several.len() as u64, "name")
        ))
        .with_hint("name data with --data, and fields with --set")),
    }
}

/// Whether a word is an override. A file that is there is itself.
fn is_override(word: &str) -> bool {
    overrides::is_override(word) && !PathBuf::from(word).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_run_files_are_refused() {
        let words = ["a.yaml", "b.yaml"].map(str::to_owned);
        assert!(run_file(&words[..1]).unwrap().is_some());
        let error = run_file(&words).unwrap_err().to_string();
        assert!(error.contains("2 names are given"), "{error}");
    }
}
