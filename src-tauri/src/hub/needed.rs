//! Which files of a model are needed to train and to use it.

use serde::{Deserialize, Serialize};

use crate::store::hub_cache::{
    RepositoryFolder,
    names::{Digest, RepositoryKind},
};

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemoteFile {
    /// Its path in the repository.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) digest: Digest,
}

impl RemoteFile {
    /// Whether a cache has all of it, for one commit.
    pub(crate) fn is_here(&self, folder: &RepositoryFolder, commit: &str) -> bool {
        folder.has(commit, &self.path, self.bytes)
    }

    /// What of it is in a cache, for one commit: all of it, or what was fetched so far.
    pub(crate) fn bytes_here(&self, folder: &RepositoryFolder, commit: &str) -> u64 {
        match self.is_here(folder, commit) {
            true => self.bytes,
            false => folder.bytes_here(&self.digest, self.bytes),
        }
    }
}

/// The files beside the weights that are read here.
const SMALL: [&str; 13] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "adapter_config.json",
];
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const ADAPTER: &str = "adapter_model.safetensors";
/// Weights that are a program of Python, which does anything when it is opened.
const PICKLES: [&str; 7] = [".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".npy"];
/// Programs.
const PROGRAMS: [&str; 8] = [
    ".py", ".sh", ".exe", ".dll", ".so", ".dylib", ".bat", ".ps1",
];

/// The needed files, by name. Of a data set these are all files that hold data; of a model, what is read here.
pub(crate) fn needed(kind: RepositoryKind, files: &[RemoteFile]) -> Vec<&RemoteFile> {
    match kind {
        RepositoryKind::Model => files
            .iter()
            .filter(|file| is_needed(&file.path, files))
            .collect(),
        RepositoryKind::Data => super::splits::data_files(files),
    }
}

/// Why a file is fetched only when it is asked for by name.
pub(crate) fn warning(path: &str) -> Option<&'static str> {
    let path = path.to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| path.ends_with(ending));
    match () {
        () if ends(&PICKLES) => Some(
            "It may be a pickle, which can do anything to your machine when a program opens it. Anneal never opens one.",
        ),
        () if ends(&PROGRAMS) => Some("It is a program. Anneal never runs one."),
        () => None,
    }
}

fn is_needed(path: &str, files: &[RemoteFile]) -> bool {
    let has = |name: &str| files.iter().any(|file| file.path == name);
    if SMALL.contains(&path) || path == ADAPTER {
        return true;
    }
    // As they are loaded: one file before several.
    match (has(SINGLE), has(INDEX)) {
        (true, _) => path == SINGLE,
        (false, true) => path == INDEX || is_shard(path),
        (false, false) => false,
    }
}

/// Whether a file is one of several with the weights: `model-00001-of-00004.safetensors`.
fn is_shard(path: &str) -> bool {
    let numbers = path
        .strip_prefix("model-")
        .and_then(|rest| rest.strip_suffix(".safetensors"));
    let numbers = numbers.and_then(|numbers| numbers.split_once("-of-"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(number, count)| is_number(number) && is_number(count))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::hub) fn files(names: &[&str]) -> Vec<RemoteFile> {
        let file = |name: &&str| RemoteFile {
            path: (*name).to_owned(),
            bytes: 1,
            digest: Digest::git(&"a".repeat(40)).unwrap(),
        };
        names.iter().map(file).collect()
    }

    #[track_caller]
    fn check(names: &str, expected: &str) {
        let files = files(&names.split_whitespace().collect::<Vec<_>>());
        let found = needed(RepositoryKind::Model, &files);
        let found: Vec<&str> = found.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn a_model_needs_its_config_its_tokenizer_and_one_set_of_weights() {
        check(
            ".gitattributes LICENSE README.md config.json generation_config.json model.safetensors \
             model.fp16.safetensors onnx/model.onnx original/consolidated.00.pth pytorch_model.bin runs/events.out \
             tokenizer.json tokenizer_config.json tf_model.h5",
            "config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json",
        );
        check(
            "config.json consolidated.safetensors model-00001-of-00002.safetensors model-00002-of-00002.safetensors \
             model.safetensors.index.json model-q4.gguf",
            "config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json",
        );
        check("config.json pytorch_model.bin modeling.py", "config.json");
        let adapter = "adapter_config.json adapter_model.safetensors";
        check(adapter, adapter);
    }

    #[test]
    fn what_can_harm_is_said_to() {
        for harmful in ["pytorch_model.bin", "a/b.PT", "modeling.py", "run.sh"] {
            assert!(warning(harmful).is_some(), "{harmful}");
        }
        for harmless in ["a.safetensors", "tokenizer.json", "q4.gguf", "a/b.parquet"] {
            assert_eq!(warning(harmless), None);
        }
    }
}
