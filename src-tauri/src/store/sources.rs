//! What a run learns from and starts from: each file with its length, its time and its SHA-256, noted when the run first
//! starts in `sources.json`, so that one that moved or changed is noticed before the run continues.
//!
//! A file of the same length and time is taken to be unchanged. Otherwise its sum decides, wherever it lies now.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use models::{
    checkpoint::save::{name_of, put_aside},
    tasks::AnyPlan,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{hub_cache, limits::SOURCES, runs::Run, write_json};
use crate::wire::error::{AppError, Result};

/// How much of a file is read at once.
const PIECE_BYTES: usize = 1 << 20;
/// How many files an error names.
const MAX_NAMED: usize = 3;

/// A file as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    path: PathBuf,
    bytes: u64,
    /// When it was last written, in UTC.
    modified: String,
    sha256: String,
}

/// Files by what they are for the run: `data/1`, `data/1/rows.jsonl` of a folder, `model/config.json`.
pub(crate) type Sources = BTreeMap<String, Source>;

/// What a run noted of its files.
pub(crate) enum Noted {
    /// It has not begun.
    Nothing,
    /// The files as they were.
    Files(Sources),
    /// Something that can't be read, and why.
    Damaged(String),
}

/// Notes the files of a run that starts for the first time, and compares those of one that is running.
///
/// Returns what the user should know. A file that is missing or changed is an error that names it; who insists gets a
/// sentence instead, and the files as they are now are noted.
pub(crate) fn check(run: &Run, plan: &AnyPlan, insists: bool) -> Result<Vec<String>> {
    let file = run.sources_file();
    let now = plan.task.sources();
    let mut reported = Vec::new();
    let known = match read(&file)? {
        Noted::Nothing => None,
        Noted::Files(known) => Some(known),
        Noted::Damaged(problem) => {
            let aside = name_of(&put_aside(&file)?);
            reported.push(format!(
                "`sources.json` is damaged ({problem}), so whether data or model changed is not known; it was put aside as \
                 `{aside}`, and the files are noted anew"
            ));
            None
        }
    };
    let Some(known) = known else {
        write_json(&file, &note(&now)?)?;
        return Ok(reported);
    };
    let (problems, sources) = compare(&known, &now)?;
    if let (Some(first), false) = (problems.first(), insists) {
        let more = problems.len().saturating_sub(MAX_NAMED);
        let named: Vec<&str> = problems
            .iter()
            .take(MAX_NAMED)
            .map(String::as_str)
            .collect();
        let mut message = named.join("; ");
        if more > 0 {
            message += &format!("; and {more} more files");
        }
        let what = if first.contains("missing") {
            "put it back"
        } else {
            "bring back what it was"
        };
        let hint = format!("{what}, or name the right file in the run’s `run.yaml`");
        return Err(AppError::failed(message).with_hint(hint).unless_forced());
    }
    if sources != known {
        write_json(&file, &sources)?;
    }
    reported.extend(problems);
    Ok(reported)
}

/// One sum for all files of a run, by what they are for it: the same where all files are. Those that a run noted and that have the
/// same length and time are not read.
pub(crate) fn sum(run: &Run, plan: &AnyPlan) -> Result<String> {
    let now = plan.task.sources();
    let sources = match read(&run.sources_file())? {
        Noted::Files(known) => compare(&known, &now)?.1,
        Noted::Nothing | Noted::Damaged(_) => note(&now)?,
    };
    let mut sum = Sha256::new();
    for (place, source) in &sources {
        sum.update(format!("{place}\0{}\0", source.sha256));
    }
    Ok(sum
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// What `sources.json` says, if it is there.
pub(crate) fn read(file: &Path) -> Result<Noted> {
    let text = match SOURCES.read_text_if_there(file, "read the sources") {
        Err(models::Error::Format { problem, .. }) => return Ok(Noted::Damaged(problem)),
        read => read?,
    };
    Ok(match text.map(|text| serde_json::from_str(&text)) {
        None => Noted::Nothing,
        Some(Ok(known)) => Noted::Files(known),
        Some(Err(error)) => Noted::Damaged(error.to_string()),
    })
}

/// What is wrong with files that were noted, and the files as they are.
fn compare(known: &Sources, now: &BTreeMap<String, PathBuf>) -> Result<(Vec<String>, Sources)> {
    let (mut problems, mut sources) = (Vec::new(), Sources::new());
    for (place, before) in known {
        let path = now.get(place).unwrap_or(&before.path);
        let name = name_of(path);
        let was = format!("{} bytes, written {}", before.bytes, before.modified);
        let about = fs::metadata(path).ok().filter(|_| now.contains_key(place));
        let Some(about) = about else {
            problems.push(format!(
                "`{name}` is missing, which had {was}, when the run began: `{}`",
                path.display()
            ));
            continue;
        };
        let same_time = *path == before.path && modified(&about) == before.modified;
        if same_time && about.len() == before.bytes {
            sources.insert(place.clone(), before.clone());
            continue;
        }
        let source = source(path)?;
        if source.sha256 != before.sha256 {
            let is = match source.bytes == before.bytes {
                true => "as many now, and others".to_owned(),
                false => format!("{} now", source.bytes),
            };
            problems.push(format!(
                "`{name}` is not what it was when the run began: it had {was}, and has {is}: `{}`",
                path.display()
            ));
        }
        sources.insert(place.clone(), source);
    }
    for (place, path) in now.iter().filter(|(place, _)| !known.contains_key(*place)) {
        if let Ok(source) = source(path) {
            problems.push(format!(
                "`{}` was not there when the run began: `{}`",
                name_of(path),
                path.display()
            ));
            sources.insert(place.clone(), source);
        }
    }
    Ok((problems, sources))
}

fn note(now: &BTreeMap<String, PathBuf>) -> Result<Sources> {
    let there = now.iter().filter(|(_, path)| path.is_file());
    let noted = there.map(|(place, path)| Ok((place.clone(), source(path)?)));
    noted.collect()
}

fn source(path: &Path) -> Result<Source> {
    let failed = || AppError::file("read a file that the run needs", path);
    let about = fs::metadata(path).map_err(failed())?;
    Ok(Source {
        path: path.to_owned(),
        bytes: about.len(),
        modified: modified(&about),
        sha256: match sum_in_cache(path) {
            Some(sum) => sum,
            None => sum_of(path).map_err(failed())?,
        },
    })
}

fn modified(about: &fs::Metadata) -> String {
    let time = about.modified().ok();
    let moment = time.and_then(|time| jiff::Timestamp::try_from(time).ok());
    moment.map_or_else(String::new, |moment| moment.to_string())
}

/// The sum of a file in the Hub's cache, which is the name of what its link leads to. A download is checked against it.
fn sum_in_cache(path: &Path) -> Option<String> {
    let blob = fs::canonicalize(path).ok()?;
    let is_blob = blob.parent()?.file_name()? == "blobs";
    let name = name_of(&blob);
    let digest = hub_cache::names::Digest::sha256(&name).filter(|_| is_blob)?;
    Some(digest.hex().to_owned())
}

fn sum_of(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => hasher.update(&piece[..read]),
        }
    }
    let digits = hasher.finalize();
    Ok(digits.iter().map(|byte| format!("{byte:02x}")).collect())
}
