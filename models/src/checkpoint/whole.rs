//! Whether a checkpoint is whole: `state.json` lists every other file with its length and its sum, and seals itself.
//!
//! A checkpoint gets its name only when all of it is on disk. Even so, disks fail, copies are interrupted and
//! machines lose power, so a checkpoint is verified before a run resumes from it. The sums are CRC-32: they detect
//! accidental damage, not tampering.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{ErrorKind, Read},
    path::Path,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::save::{replace_file, write_file};
use crate::{Error, Result, figures::count, limits};

/// The file that says how far a run was, and what else is in the folder.
pub const STATE: &str = "state.json";

/// The field with all other files.
const FILES: &str = "files";
/// The field with the sum of everything before it. It is the last one.
const SEAL: &str = "crc32";
/// What stands between the text that is summed and its sum.
const BEFORE_SEAL: &str = ",\n  \"crc32\": ";
/// How much of a file is read at once.
const PIECE_BYTES: usize = 1 << 20;

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Listed {
    bytes: u64,
    /// In hexadecimal digits.
    crc32: String,
}

type List = BTreeMap<String, Listed>;

/// Writes `state.json` as the last file of a checkpoint that is being made.
pub fn write_state(folder: &Path, mut fields: Map<String, Json>) -> Result<()> {
    let path = folder.join(STATE);
    put(&mut fields, FILES, &list(folder)?, &path)?;
    write_file(&path, seal(&fields, &path)?.as_bytes())
}

/// Writes other values for some fields of the `state.json` of a checkpoint, whole or not at all.
pub fn change_state(folder: &Path, changes: Map<String, Json>) -> Result<()> {
    let path = folder.join(STATE);
    let mut fields = read_state(folder)?;
    fields.remove(SEAL);
    fields.extend(changes);
    if !fields.contains_key(FILES) {
        put(&mut fields, FILES, &list(folder)?, &path)?;
    }
    replace_file(&path, seal(&fields, &path)?.as_bytes())
}

/// The fields of `state.json`, to the last bit as they were written.
pub fn read_state(folder: &Path) -> Result<Map<String, Json>> {
    let path = folder.join(STATE);
    let damaged = |problem: &str| Error::format(&path, format!("`{STATE}` {problem}"));
    let text = limits::MODEL_JSON.read(&path, "read the run’s state");
    let text = text.map_err(|error| match error {
        Error::File { source, .. } if source.kind() == ErrorKind::NotFound => damaged("is missing"),
        other => other,
    })?;
    let text = String::from_utf8(text).map_err(|_| damaged("is not text"))?;
    let fields: Map<String, Json> =
        serde_json::from_str(&text).map_err(|error| damaged(&format!("is damaged: {error}")))?;
    // What was saved before there were sums has no such field, and is taken at its word.
    let has_sums = fields.contains_key(FILES) || fields.contains_key(SEAL);
    if has_sums && !is_sealed(&text) {
        return Err(damaged("is not what was written: its sum is another"));
    }
    Ok(fields)
}

/// Whether a checkpoint is what was written, to the last bit. The error names the file and what is wrong with it.
pub fn verify(folder: &Path) -> Result<()> {
    check(folder, true)
}

/// The same without reading the files: whether they are there and as long as they were.
pub fn verify_lengths(folder: &Path) -> Result<()> {
    check(folder, false)
}

fn check(folder: &Path, sums: bool) -> Result<()> {
    let fields = read_state(folder)?;
    let Some(list) = fields.get(FILES) else {
        return Ok(());
    };
    let unreadable = |error| Error::format(folder, format!("the list in `{STATE}`: {error}"));
    let list: List = serde_json::from_value(list.clone()).map_err(unreadable)?;
    for (name, listed) in list {
        let path = folder.join(&name);
        let damaged = |problem: String| Error::format(folder, format!("`{name}` {problem}"));
        let there = match fs::metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(damaged("is missing".to_owned()));
            }
            looked => looked.map_err(Error::file("look at a file of the checkpoint", &path))?,
        };
        if there.len() != listed.bytes {
            let (found, expected) = (count(there.len()), count(listed.bytes));
            return Err(damaged(format!("has {found} of {expected} bytes")));
        }
        if sums && sum_of(&path)? != listed.crc32 {
            return Err(damaged(
                "is not what was written: its sum is another".to_owned(),
            ));
        }
    }
    Ok(())
}

/// All files of a folder but `state.json`.
fn list(folder: &Path) -> Result<List> {
    let failed = || Error::file("list the files of the checkpoint", folder);
    let mut list = List::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let about = entry.metadata().map_err(failed())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A name with a dot is that of a file that is just being replaced.
        if about.is_file() && name != STATE && !name.starts_with('.') {
            let crc32 = sum_of(&entry.path())?;
            let bytes = about.len();
            list.insert(name, Listed { bytes, crc32 });
        }
    }
    Ok(list)
}

fn sum_of(path: &Path) -> Result<String> {
    let failed = || Error::file("read a file of the checkpoint", path);
    let mut file = File::open(path).map_err(failed())?;
    let mut hasher = crc32fast::Hasher::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece).map_err(failed())? {
            0 => return Ok(in_hex(hasher.finalize())),
            read => hasher.update(&piece[..read]),
        }
    }
}

/// The text of `state.json`: the fields, and the sum of all that stands before it.
fn seal(fields: &Map<String, Json>, path: &Path) -> Result<String> {
    let text = serde_json::to_string_pretty(fields)
        .map_err(|error| Error::format(path, error.to_string()))?;
    let text = text.strip_suffix("\n}").unwrap_or(&text);
    let sum = in_hex(crc32fast::hash(text.as_bytes()));
    Ok(format!("{text}{BEFORE_SEAL}\"{sum}\"\n}}"))
}

fn is_sealed(text: &str) -> bool {
    let Some((text, seal)) = text.rsplit_once(BEFORE_SEAL) else {
        return false;
    };
    seal == format!("\"{}\"\n}}", in_hex(crc32fast::hash(text.as_bytes())))
}

fn put(
    fields: &mut Map<String, Json>,
    name: &str,
    value: &impl Serialize,
    path: &Path,
) -> Result<()> {
    let value =
        serde_json::to_value(value).map_err(|error| Error::format(path, error.to_string()))?;
    fields.insert(name.to_owned(), value);
    Ok(())
}

fn in_hex(sum: u32) -> String {
    format!("{sum:08x}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checkpoint() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.safetensors"), vec![7; 90_000]).unwrap();
        let fields = json!({"step": 3, "seconds": 0.1});
        write_state(folder.path(), fields.as_object().unwrap().clone()).unwrap();
        folder
    }

    #[track_caller]
    fn check_problem(folder: &Path, expected: &str) {
        let error = verify(folder).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named_with_its_numbers() {
        let folder = checkpoint();
        let path = folder.path().join("model.safetensors");
        verify(folder.path()).unwrap();
        fs::write(&path, vec![7; 1_024]).unwrap();
        check_problem(
            folder.path(),
            "`model.safetensors` has 1,024 of 90,000 bytes",
        );
        assert!(verify_lengths(folder.path()).is_err());
        fs::write(&path, vec![8; 90_000]).unwrap();
        check_problem(folder.path(), "`model.safetensors` is not what was written");
        verify_lengths(folder.path()).unwrap();
        fs::remove_file(&path).unwrap();
        check_problem(folder.path(), "`model.safetensors` is missing");
        fs::remove_file(folder.path().join(STATE)).unwrap();
        check_problem(folder.path(), "`state.json` is missing");
    }

    #[test]
    fn changed_fields_keep_the_list_and_are_sealed_anew() {
        let folder = checkpoint();
        let changes = json!({"step": 4}).as_object().unwrap().clone();
        change_state(folder.path(), changes).unwrap();
        let fields = read_state(folder.path()).unwrap();
        assert_eq!(
            (&fields["step"], &fields["seconds"]),
            (&json!(4), &json!(0.1))
        );
        assert_eq!(fields["files"]["model.safetensors"]["bytes"], 90_000);
        verify(folder.path()).unwrap();
    }

    #[test]
    fn a_checkpoint_from_before_there_were_sums_is_taken_at_its_word() {
        let folder = checkpoint();
        fs::write(folder.path().join(STATE), "{\"step\": 3}").unwrap();
        verify(folder.path()).unwrap();
        change_state(folder.path(), Map::new()).unwrap();
        fs::write(folder.path().join("model.safetensors"), "").unwrap();
        assert!(verify(folder.path()).is_err(), "from now on it has sums");
    }
}
