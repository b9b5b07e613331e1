//! A model as it lies on disk: a folder in the layout of the Hub, with `config.json`, safetensors in one file or several, and a
//! tokenizer; or a GGUF file, which has all of it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value as Json;

use super::{gguf, header::Header, packed::Packing};
use crate::{
    Error, Result,
    arch::config::DecoderConfig,
    gguf::{Gguf, Stored},
    instead, limits,
};

/// The name of a model's configuration.
pub const CONFIG: &str = "config.json";
/// The name of a model's weights when they are in one file.
pub const WEIGHTS: &str = "model.safetensors";
/// The name of the list of files when there are several.
pub const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// A model as it lies on disk: what it is, and which files hold its weights.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    /// The folder, or the GGUF file.
    pub path: PathBuf,
    /// Its `config.json`, or what stands for it.
    pub config: Json,
    /// The files with its weights: safetensors, or the one of GGUF.
    pub weight_files: Vec<PathBuf>,
    /// The file, where it is GGUF.
    pub gguf: Option<Arc<Gguf>>,
    /// How the weights are packed, where another program packed them into few bits.
    pub packing: Option<Packing>,
}

impl ModelFolder {
    /// Reads what a folder holds, without its weights.
    pub fn open(path: &Path) -> Result<Self> {
        if Gguf::is_one(path) {
            let file = Gguf::open(path)?;
            return Ok(Self {
                path: path.to_owned(),
                config: gguf::config::config(&file)?,
                weight_files: vec![path.to_owned()],
                gguf: Some(Arc::new(file)),
                packing: None,
            });
        }
        let mut config = read_json(&path.join(CONFIG), "read the model’s config")?;
        let packing = Packing::take(&mut config)?;
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
            gguf: None,
            packing,
        })
    }

    /// How many numbers the weights are, read from the files' headers.
    ///
    /// Errors: [`Error::Damaged`] when a file is missing, shorter or longer than its header says, or has no header;
    /// [`Error::Format`] when two files have a tensor of one name.
    pub fn parameter_count(&self) -> Result<u64> {
        if let Some(file) = &self.gguf {
            let tensors = file.tensors.values().map(Stored::rows);
            return Ok(tensors.map(|(rows, width)| (rows * width) as u64).sum());
        }
        let headers = headers(&self.weight_files)?;
        if self.packing.is_some() {
            return Ok(DecoderConfig::from_json(&self.config)?.parameters());
        }
        let counts = headers.iter().map(Header::values);
        let count = counts.sum::<Option<u64>>();
        count.ok_or_else(|| Error::format(&self.path, "the weights are more than any memory holds"))
    }
}

/// The headers of files with weights, in their order. No name is in two of them.
pub(super) fn headers(files: &[PathBuf]) -> Result<Vec<Header>> {
    let headers = files.iter().map(|file| Header::read(file));
    let headers: Vec<Header> = headers.collect::<Result<_>>()?;
    let mut file_of: HashMap<&str, &Path> = HashMap::new();
    for (header, file) in headers.iter().zip(files) {
        for name in header.tensors.keys() {
            if let Some(other) = file_of.insert(name, file) {
                let other = other.file_name().unwrap_or_default().to_string_lossy();
                let problem =
                    format!("`{name}` is in this file and in `{other}`, and only one can be meant");
                return Err(Error::format(file, problem));
            }
        }
    }
    Ok(headers)
}

/// Reads a JSON file of a model; the details of an error have the line and column.
///
/// Errors: [`Error::Damaged`] when it is not JSON, [`Error::File`] when it can't be read.
pub fn read_json(path: &Path, action: &'static str) -> Result<Json> {
    let bytes = limits::MODEL_JSON.read(path, action)?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match instead::found(&bytes) {
            Some(what) => Error::damaged(path, what, error),
            None => Error::damaged(path, format!("{name} is damaged"), error),
        }
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
    use std::fs;

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
        for broken in [&longer[..], b"\x02\0\0\0\0\0\0\0[]"] {
            let error = model(broken).1.parameter_count().unwrap_err();
            assert!(
                error.to_string().starts_with("the weights are damaged: "),
                "{error}"
            );
        }
    }

    /// Expects the weights to be refused with these words, in the message or what is told apart from it.
    #[track_caller]
    fn check_refused(weights: &[u8], words: &str) {
        let error = model(weights).1.parameter_count().unwrap_err();
        let said = format!("{error} {}", error.details().unwrap_or_default());
        assert!(said.contains(words), "{said}");
    }

    /// A file with this header and so many bytes.
    fn file_of(header: &str, bytes: usize) -> Vec<u8> {
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), &vec![0; bytes]].concat()
    }

    #[test]
    fn what_is_no_weights_is_called_what_it_is() {
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 271000000\n";
        check_refused(pointer.as_bytes(), "a pointer of Git LFS");
        let page = "\n<!DOCTYPE html><html>This is an error page.</html>";
        check_refused(page.as_bytes(), "a page of a website");
        check_refused(b"PK\x03\x04archive/data.pkl", "pickles are not opened");
        check_refused(b"GGUF\x03\0\0\0and more", "is GGUF");
    }

    #[test]
    fn a_header_in_which_two_tensors_share_a_name_or_bytes_is_refused() {
        let tensor = |name: &str, start: u64| {
            let end = start + 16;
            format!(r#""{name}":{{"dtype":"F32","shape":[4],"data_offsets":[{start},{end}]}}"#)
        };
        let two = |a: &str, b: &str| format!("{{{a},{b}}}");
        let check = |header: &str, words: &str| check_refused(&file_of(header, 32), words);
        check(
            &two(&tensor("a", 0), &tensor("a", 16)),
            "two tensors have the name `a`",
        );
        check(
            &two(&tensor("a", 0), &tensor("b", 8)),
            "`b` begins at byte 8, and what stands before it ends at 16",
        );
        check(
            r#"{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,32]}}"#,
            "the number of dimensions of `a` is 9, and 8 dimensions are the most",
        );
        check_refused(
            &[&u64::MAX.to_le_bytes()[..], b"{}"].concat(),
            "the length of its header is 18,446,744,073,709,551,615, and 100,000,000 bytes are the most",
        );
    }

    #[test]
    fn a_name_in_two_files_is_refused_with_both() {
        let (folder, _) = model(&weights());
        let index = r#"{"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}"#;
        fs::remove_file(folder.path().join(WEIGHTS)).unwrap();
        fs::write(folder.path().join(WEIGHTS_INDEX), index).unwrap();
        for name in ["one.safetensors", "two.safetensors"] {
            fs::write(folder.path().join(name), weights()).unwrap();
        }
        let model = ModelFolder::open(folder.path()).unwrap();
        let error = model.parameter_count().unwrap_err().to_string();
        assert!(
            error.starts_with("`a` is in this file and in `one.safetensors`"),
            "{error}"
        );
    }

    #[test]
    fn a_shape_that_no_memory_holds_is_damage() {
        let header =
            r#"{"a":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,16]}}"#;
        let error = model(&file_of(header, 0)).1.parameter_count().unwrap_err();
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
        let page = "<!DOCTYPE html><html>Log in.</html>";
        fs::write(folder.path().join(CONFIG), page).unwrap();
        let error = ModelFolder::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is a page of a website"), "{error}");
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
