//! A folder in the layout of the Hub: `config.json`, safetensors in one file or several, a tokenizer.

use std::{
    fs::{self, File},
    io::Read,
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
    pub fn parameter_count(&self) -> Result<u64> {
        self.weight_files
            .iter()
            .map(|file| count_numbers(file))
            .sum()
    }
}

/// How many numbers a safetensors file holds.
fn count_numbers(path: &Path) -> Result<u64> {
    let mut file = File::open(path).map_err(Error::file("look at the weights", path))?;
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(Error::file("look at the weights", path))?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        let problem = format!("not safetensors: its header would have {length} bytes");
        return Err(Error::format(path, problem));
    }
    let mut header = Vec::new();
    file.take(length)
        .read_to_end(&mut header)
        .map_err(Error::file("look at the weights", path))?;
    let header: Map<String, Json> = serde_json::from_slice(&header)
        .map_err(|error| Error::format(path, format!("not safetensors: {error}")))?;
    let shapes = header.values().filter_map(|it| it.get("shape")?.as_array());
    let numbers = shapes.map(|shape| shape.iter().filter_map(Json::as_u64).product::<u64>());
    Ok(numbers.sum())
}

/// Reads a JSON file; an error has the line and column.
pub fn read_json(path: &Path, action: &'static str) -> Result<Json> {
    let text = fs::read_to_string(path).map_err(Error::file(action, path))?;
    serde_json::from_str(&text).map_err(|error| Error::format(path, format!("not JSON: {error}")))
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
