//! Ollama, which takes a GGUF file into a store of its own. Its command does that, and talks to its server, so no connection is ours.
//!
//! Deliberately absent: adapters. The Modelfile of one has to name a model that only the user knows.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use models::{
    checkpoint::save,
    tasks::language::export::{FORMATS, Format, MODELFILE},
};

use crate::wire::error::{AppError, Result};

/// What its command is called.
const PROGRAM: &str = if cfg!(windows) {
    "ollama.exe"
} else {
    "ollama"
};

/// Where its command lies where no variable says so: an app that a Mac's Finder opened is told no folders of the user's.
const FOLDERS: [&str; 3] = [
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "/Applications/Ollama.app/Contents/Resources",
];

/// Its command, if it is on this machine.
fn program() -> Option<PathBuf> {
    let named = env::var_os("PATH").unwrap_or_default();
    let named = env::split_paths(&named);
    let usual = FOLDERS.iter().map(PathBuf::from);
    named
        .chain(usual)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(PROGRAM))
        .find(|program| program.is_file())
}

/// Whether what is written in a format can be added here, before it is.
pub(crate) fn check(format: &str) -> Result<()> {
    let mut whole = FORMATS
        .iter()
        .filter(|it| matches!(it.format, Format::Gguf(_)));
    if !whole.any(|it| it.name == format) {
        let problem = format!("Ollama takes a GGUF file of a whole model, not `{format}`");
        return Err(AppError::invalid(problem));
    }
    program().map(|_| ()).ok_or_else(absent)
}

fn absent() -> AppError {
    AppError::invalid("Ollama is not on this machine, or its command is in no folder of PATH")
        .with_hint("install it from ollama.com")
}

/// Whether a file that was written can be added to it here.
pub(super) fn takes(path: &Path) -> bool {
    has_model(path) && program().is_some()
}

fn modelfile_of(path: &Path) -> PathBuf {
    path.with_file_name(format!("{}.{MODELFILE}", save::name_of(path)))
}

fn has_model(path: &Path) -> bool {
    let text = fs::read_to_string(modelfile_of(path));
    path.extension().is_some_and(|it| it == "gguf")
        && text.is_ok_and(|text| !text.contains("\nADAPTER "))
}

/// Adds a file that was written, and returns what Ollama calls it.
pub(crate) fn add(path: &Path) -> Result<String> {
    let shown = path.display();
    if !has_model(path) {
        return Err(AppError::invalid(format!(
            "Ollama takes a GGUF file of a whole model, with the Modelfile beside it that an export writes: `{shown}`"
        )));
    }
    let program = program().ok_or_else(absent)?;
    let name = name_of(path);
    let asked = Command::new(program)
        .arg("create")
        .arg(&name)
        .arg("-f")
        .arg(modelfile_of(path))
        .stdin(Stdio::null())
        .output();
    let answer =
        asked.map_err(|error| AppError::failed(format!("could not start Ollama: {error}")))?;
    if answer.status.success() {
        return Ok(name);
    }
    let said = String::from_utf8_lossy(&answer.stderr);
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.next_back().unwrap_or("it said nothing");
    let last: String = last
        .chars()
        .filter(|it| !it.is_control())
        .take(300)
        .collect();
    Err(
        AppError::failed(format!("Ollama did not take the model: {last}: `{shown}`"))
            .with_hint("see that Ollama is running, and try again"),
    )
}

/// A name as Ollama allows it: small letters, digits, and few signs.
fn name_of(path: &Path) -> String {
    let stem = path
        .file_stem()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default();
    let plain: String = stem
        .to_lowercase()
        .chars()
        .map(|it| match it {
            'a'..='z' | '0'..='9' | '.' | '_' => it,
            _ => '-',
        })
        .take(60)
        .collect();
    let plain = plain.trim_matches(['-', '.', '_']);
    format!("anneal/{}", if plain.is_empty() { "model" } else { plain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_ollama_allows_them() {
        for (file, name) in [
            ("/a/Support tone-Q8_0.gguf", "anneal/support-tone-q8_0"),
            (
                "2026-11-20-sums-3e90-q4_k_m.gguf",
                "anneal/2026-11-20-sums-3e90-q4_k_m",
            ),
            ("Ärzte.gguf", "anneal/rzte"),
            ("???.gguf", "anneal/model"),
        ] {
            assert_eq!(name_of(Path::new(file)), name);
        }
    }
}
