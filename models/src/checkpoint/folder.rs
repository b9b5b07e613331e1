//! A folder in the layout of the Hub: `config.json`, safetensors in one file or several, a tokenizer.

use std::{
    cmp::Ordering,
    fs::{self, File},
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value as Json};

use crate::{Error, Result};

/// The name of a model's configuration.
pub const CONFIG: &str = "config.json";
/// The name of a model's weights when they are in one file.
pub const WEIGHTS: &str = "model.safetensors";
/// The name of the list of files when there are several.
pub const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// The longest header that is read, as in the format's own library.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// A model as it lies on disk: what it is, and which files hold its weights.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    /// The folder.
    pub path: PathBuf,
    /// Its `config.json`.
    pub config: Json,
    /// Its safetensors files.
    pub weight_files: Vec<PathBuf>,
}

impl ModelFolder {
    /// Reads what a folder holds, without its weights.
    pub fn open(path: &Path) -> Result<Self> {
        let config = read_json(&path.join(CONFIG), "read the model's config")?;
        let index = path.join(WEIGHTS_INDEX);
        let weight_files = match (path.join(WEIGHTS), index.exists()) {
            (single, _) if single.exists() => vec![single],
            (_, true) => files_of_index(path, &index)?,
            _ => {
                let problem = format!("the folder holds neither `{WEIGHTS}` nor `{WEIGHTS_INDEX}`");
                return Err(Error::format(path, problem));
            }
        };
        Ok(Self {
            path: path.to_owned(),
            config,
            weight_files,
        })
    }

    /// How many numbers the weights are, read from the files' headers.
    ///
    /// Errors: [`Error::Damaged`] when a file is missing, shorter or longer than its header says, or has no header.
    pub fn parameter_count(&self) -> Result<u64> {
        let counts = self.weight_files.iter().map(|file| count_numbers(file));
        counts.sum()
    }
}

/// How many numbers a safetensors file holds, and that it is as long as its header says.
fn count_numbers(path: &Path) -> Result<u64> {
    let damaged = |details: String| Error::damaged(path, "the weights are damaged", details);
    let incomplete = |details: String| Error::damaged(path, "the weights are incomplete", details);
    let failed = || Error::file("look at the weights", path);
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(incomplete(format!("{}: {error}", path.display())));
        }
        opened => opened.map_err(failed())?,
    };
    let bytes = file.metadata().map_err(failed())?.len();
    let mut length = [0; 8];
    if bytes < length.len() as u64 {
        return Err(incomplete(format!("the file has {bytes} bytes")));
    }
    file.read_exact(&mut length).map_err(failed())?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        return Err(damaged(format!("its header would have {length} bytes")));
    }
    let mut header = Vec::new();
    file.take(length)
        .read_to_end(&mut header)
        .map_err(failed())?;
    if (header.len() as u64) < length {
        return Err(incomplete(format!(
            "the file ends in its header of {length} bytes"
        )));
    }
    let header: Map<String, Json> =
        serde_json::from_slice(&header).map_err(|error| damaged(error.to_string()))?;
    let (numbers, end) =
        measured(&header).ok_or_else(|| damaged("a tensor has no size".to_owned()))?;
    let whole = end.saturating_add(8 + length);
    let details = format!("the header speaks of {whole} bytes, and the file has {bytes}");
    match bytes.cmp(&whole) {
        Ordering::Less => Err(incomplete(details)),
        Ordering::Equal => Ok(numbers),
        Ordering::Greater => Err(damaged(details)),
    }
}

/// How many numbers the tensors of a header are, and where the last one ends. Nothing where a header is no header.
fn measured(header: &Map<String, Json>) -> Option<(u64, u64)> {
    let (mut numbers, mut end) = (0u64, 0);
    for (_, tensor) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        let mut shape = tensor.get("shape")?.as_array()?.iter();
        let product = shape.try_fold(1u64, |product, it| product.checked_mul(it.as_u64()?))?;
        numbers = numbers.checked_add(product)?;
        end = tensor.get("data_offsets")?.get(1)?.as_u64()?.max(end);
    }
    Some((numbers, end))
}

/// Reads a JSON file of a model; the details of an error have the line and column.
///
/// Errors: [`Error::Damaged`] when it is not JSON, [`Error::File`] when it can't be read.
pub fn read_json(path: &Path, action: &'static str) -> Result<Json> {
    let bytes = fs::read(path).map_err(Error::file(action, path))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Error::damaged(path, format!("{name} is damaged"), error)
    })
}

/// The files an index names, each once, in the order of their names.
fn files_of_index(folder: &Path, index: &Path) -> Result<Vec<PathBuf>> {
    let json = read_json(index, "read the list of weight files")?;
    let map = json.get("weight_map").and_then(Json::as_object);
    let map = map.ok_or_else(|| Error::format(index, "has no `weight_map`"))?;
    let mut names: Vec<&str> = map.values().filter_map(Json::as_str).collect();
    names.sort_unstable();
    names.dedup();
    // A name from a downloaded file must not lead out of its folder.
    if let Some(name) = names
        .iter()
        .find(|name| name.contains(['/', '\\']) || **name == "..")
    {
        return Err(Error::format(
            index,
            format!("names `{name}`, which is not a plain file name"),
        ));
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one tensor of four numbers, with its header.
    fn weights() -> Vec<u8> {
        let header = br#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header, &[0; 16]].concat()
    }

    /// A folder with a config and these weights.
    fn model(weights: &[u8]) -> (tempfile::TempDir, ModelFolder) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(CONFIG), "{}").unwrap();
        fs::write(folder.path().join(WEIGHTS), weights).unwrap();
        let model = ModelFolder::open(folder.path()).unwrap();
        (folder, model)
    }

    #[test]
    fn weights_are_whole_only_when_they_are_as_long_as_their_header_says() {
        let whole = weights();
        assert_eq!(model(&whole).1.parameter_count().unwrap(), 4);
        for cut in [0, 7, 30, whole.len() - 1] {
            let error = model(&whole[..cut]).1.parameter_count().unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("the weights are incomplete: "),
                "{cut}: {error}"
            );
            assert_eq!(error.hint().unwrap(), "download the model again");
            assert!(error.details().is_some());
        }
        let longer = [&whole[..], b"x"].concat();
        let page = b"<!DOCTYPE html><html>This is an error page.</html>";
        for broken in [&longer[..], page, b"\x02\0\0\0\0\0\0\0[]"] {
            let error = model(broken).1.parameter_count().unwrap_err();
            assert!(
                error.to_string().starts_with("the weights are damaged: "),
                "{error}"
            );
        }
    }

    #[test]
    fn a_shape_that_no_memory_holds_is_damage() {
        let header = br#"{"a":{"shape":[18446744073709551615,2],"data_offsets":[0,16]}}"#;
        let length = (header.len() as u64).to_le_bytes();
        let error = model(&[&length[..], header].concat())
            .1
            .parameter_count()
            .unwrap_err();
        assert!(
            error.to_string().starts_with("the weights are damaged: "),
            "{error}"
        );
    }

    #[test]
    fn a_config_that_is_not_json_is_damaged() {
        let (folder, _) = model(&weights());
        fs::write(folder.path().join(CONFIG), "{\"model_type\": ").unwrap();
        let error = ModelFolder::open(folder.path()).unwrap_err();
        assert!(
            error.to_string().starts_with("config.json is damaged: "),
            "{error}"
        );
        assert!(error.details().unwrap().contains("EOF"));
    }

    #[test]
    fn a_file_that_the_list_names_and_that_is_gone_leaves_the_weights_incomplete() {
        let (folder, _) = model(&weights());
        fs::remove_file(folder.path().join(WEIGHTS)).unwrap();
        let index = r#"{"weight_map": {"a": "model-00001-of-00002.safetensors"}}"#;
        fs::write(folder.path().join(WEIGHTS_INDEX), index).unwrap();
        let error = ModelFolder::open(folder.path())
            .unwrap()
            .parameter_count()
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the weights are incomplete: "),
            "{error}"
        );
    }
}
