//! The parts of a data set: configurations and splits, as its card declares them, or as its files are called.
//!
//! The rules are those of Python's `datasets` for repositories without a program: `configs` in the card's header; without
//! it, a split in the name of a folder or file; without that, everything is `train`.

use std::collections::BTreeSet;

use globset::{GlobBuilder, GlobMatcher};
use serde_json::Value as Json;

use super::{needed::RemoteFile, search::text};

/// What the only configuration is called.
pub(super) const DEFAULT: &str = "default";
/// What files are called that belong to a split, apart from its own name.
const SPLITS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];
/// What data of pictures is called.
const PICTURES: &str = "pictures";
/// What data is called that has to be unpacked.
const COMPRESSED: &str = "compressed";
/// Kinds of files that hold data, by how their names end, and what they are called.
const FORMATS: [(&str, &str); 17] = [
    (".parquet", "Parquet"),
    (".jsonl", "JSON lines"),
    (".ndjson", "JSON lines"),
    (".json", "JSON"),
    (".csv", "CSV"),
    (".tsv", "TSV"),
    (".txt", "text"),
    (".png", PICTURES),
    (".jpg", PICTURES),
    (".jpeg", PICTURES),
    (".webp", PICTURES),
    (".gif", PICTURES),
    (".gz", COMPRESSED),
    (".zst", COMPRESSED),
    (".xz", COMPRESSED),
    (".bz2", COMPRESSED),
    (".zip", COMPRESSED),
];
/// What beside data ends like it.
const NO_DATA: [&str; 4] = [
    "dataset_infos.json",
    "dataset_info.json",
    "state.json",
    "metadata.json",
];

/// A part of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Split {
    /// The configuration: `main`.
    pub(crate) config: String,
    /// `train`.
    pub(crate) name: String,
    /// What kind of files it has: `Parquet`.
    pub(crate) format: &'static str,
    /// Its files, in order.
    pub(crate) files: Vec<RemoteFile>,
}

impl Split {
    /// Bytes of its files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Why nothing can be learned from it here.
    pub(crate) fn problem(&self) -> Option<String> {
        (self.format == PICTURES).then(|| "Anneal learns from text; these are pictures.".to_owned())
    }
}

/// The files that hold data.
pub(super) fn data_files(files: &[RemoteFile]) -> Vec<&RemoteFile> {
    files
        .iter()
        .filter(|file| format_of(&file.path).is_some())
        .collect()
}

/// Whether rows of text are read from a file.
pub(super) fn is_text(path: &str) -> bool {
    format_of(path).is_some_and(|format| ![PICTURES, COMPRESSED].contains(&format))
}

/// The parts of a data set, from the header of its card and the names of its files.
pub(crate) fn splits(card: Option<&Json>, files: &[RemoteFile]) -> Vec<Split> {
    let files = data_files(files);
    let declared = card.and_then(|card| card.get("configs")?.as_array());
    let declared = declared.into_iter().flatten();
    let declared: Vec<Split> = declared
        .flat_map(|it| declared_splits(it, &files))
        .collect();
    match declared.is_empty() {
        true => by_name(DEFAULT, &files),
        false => declared,
    }
}

/// What kind of data a file holds.
fn format_of(path: &str) -> Option<&'static str> {
    let lower = path.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    if name.starts_with('.') || NO_DATA.contains(&name) {
        return None;
    }
    FORMATS
        .iter()
        .find(|(ending, _)| lower.ends_with(ending))
        .map(|(_, format)| *format)
}

/// The splits that a configuration of the card declares.
fn declared_splits(config: &Json, files: &[&RemoteFile]) -> Vec<Split> {
    let word = |name: &str| Some(config.get(name)?.as_str()?.to_owned());
    let name = text(word("config_name")).unwrap_or_else(|| DEFAULT.to_owned());
    let folder = word("data_dir").unwrap_or_default();
    let folder = folder.trim_matches('/');
    match config.get("data_files") {
        Some(Json::Array(parts)) if parts.iter().any(Json::is_object) => {
            let part = |part: &Json| {
                let split = text(Some(part.get("split")?.as_str()?.to_owned()))?;
                split_of(&name, &split, folder, part.get("path")?, files)
            };
            parts.iter().filter_map(part).collect()
        }
        Some(paths) => split_of(&name, "train", folder, paths, files)
            .into_iter()
            .collect(),
        None if folder.is_empty() => by_name(&name, files),
        None => {
            let inside = format!("{folder}/");
            by_name(&name, &of(files, |path| path.starts_with(&inside)))
        }
    }
}

/// The files that one pattern names, or several.
fn split_of(
    config: &str,
    name: &str,
    folder: &str,
    paths: &Json,
    files: &[&RemoteFile],
) -> Option<Split> {
    let patterns = match paths {
        Json::Array(paths) => paths.iter().filter_map(Json::as_str).collect(),
        path => vec![path.as_str()?],
    };
    let patterns = patterns.into_iter();
    let patterns: Vec<GlobMatcher> = patterns.filter_map(|it| pattern(folder, it)).collect();
    let is_meant = |path: &str| patterns.iter().any(|pattern| pattern.is_match(path));
    split(config, name, of(files, is_meant))
}

/// The files whose paths are wanted.
fn of<'a>(files: &[&'a RemoteFile], is_wanted: impl Fn(&str) -> bool) -> Vec<&'a RemoteFile> {
    let wanted = files.iter().filter(|file| is_wanted(&file.path));
    wanted.copied().collect()
}

fn pattern(folder: &str, path: &str) -> Option<GlobMatcher> {
    let path = path.trim_start_matches("./");
    let whole = match folder {
        "" => path.to_owned(),
        folder => format!("{folder}/{path}"),
    };
    let glob = GlobBuilder::new(&whole)
        .literal_separator(true)
        .build()
        .ok()?;
    Some(glob.compile_matcher())
}

/// Splits by the names of files: parts of a numbered whole name any split; then folders do, then files; one rule for all.
fn by_name(config: &str, files: &[&RemoteFile]) -> Vec<Split> {
    let numbers: BTreeSet<&str> = files.iter().filter_map(|it| numbered(&it.path)).collect();
    if !numbers.is_empty() {
        let part = |name: &&str| split(config, name, of(files, |it| numbered(it) == Some(name)));
        return numbers.iter().filter_map(part).collect();
    }
    let rules: [fn(&str) -> &str; 2] = [
        |path| path.rsplit_once('/').map_or("", |(folder, _)| folder),
        |path| path.rsplit('/').next().unwrap_or_default(),
    ];
    for rule in rules {
        let part = |(name, words): &(&str, &[&str])| {
            split(config, name, of(files, |path| has_word(rule(path), words)))
        };
        let splits: Vec<Split> = SPLITS.iter().filter_map(part).collect();
        if !splits.is_empty() {
            return splits;
        }
    }
    split(config, "train", files.to_vec()).into_iter().collect()
}

/// The split in `data/train_sft-00000-of-00004-1a2b.parquet`: `train_sft`.
fn numbered(path: &str) -> Option<&str> {
    let name = path.strip_prefix("data/")?;
    let (before, count) = name.split_once("-of-")?;
    let (split, number) = before.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_part = is_number(number) && count.get(..5).is_some_and(is_number);
    (is_part && !split.is_empty() && !split.contains('/')).then_some(split)
}

/// Whether one of some words stands in a path, apart from letters: `data/train-00000.parquet`, but not `trainer.json`.
fn has_word(path: &str, words: &[&str]) -> bool {
    let lower = path.to_ascii_lowercase();
    let mut parts = lower.split(|letter: char| !letter.is_ascii_alphabetic());
    parts.any(|part| words.contains(&part))
}

/// A split of files of one kind: the kind that holds most.
fn split(config: &str, name: &str, files: Vec<&RemoteFile>) -> Option<Split> {
    let files_of = |format: &str| of(&files, |path| format_of(path) == Some(format));
    let bytes_of = |format: &str| -> u64 { files_of(format).iter().map(|it| it.bytes).sum() };
    let formats = FORMATS.iter().map(|(_, format)| *format);
    let format = formats.max_by_key(|format| bytes_of(format))?;
    let files: Vec<RemoteFile> = files_of(format).into_iter().cloned().collect();
    (!files.is_empty()).then(|| Split {
        config: config.to_owned(),
        name: name.to_owned(),
        format,
        files,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hub::needed::tests::files;

    /// Expects the parts of these files, each as `configuration split format: files`.
    #[track_caller]
    fn check(card: Json, names: &str, expected: &[&str]) {
        let files = files(&names.split_whitespace().collect::<Vec<_>>());
        let found = splits(Some(&card), &files);
        let found = found.iter().map(|it| {
            let files: Vec<&str> = it.files.iter().map(|file| file.path.as_str()).collect();
            format!(
                "{} {} {}: {}",
                it.config,
                it.name,
                it.format,
                files.join(" ")
            )
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_card_declares_configurations_and_splits() {
        let card = json!({"configs": [
            {"config_name": "main", "data_files": [
                {"split": "train", "path": "main/train-*"},
                {"split": "test", "path": ["main/test-*", "more/**"]},
            ]},
            {"config_name": "extra", "data_files": "extra/*.csv"},
            {"config_name": "folder", "data_dir": "sub"},
        ]});
        check(
            card,
            "README.md main/train-0-of-2.parquet main/train-1-of-2.parquet main/test-0.parquet more/a/b.parquet \
             extra/x.csv extra/deep/y.csv sub/dev.jsonl sub/train.jsonl",
            &[
                "main train Parquet: main/train-0-of-2.parquet main/train-1-of-2.parquet",
                "main test Parquet: main/test-0.parquet more/a/b.parquet",
                "extra train CSV: extra/x.csv",
                "folder train JSON lines: sub/train.jsonl",
                "folder validation JSON lines: sub/dev.jsonl",
            ],
        );
    }

    #[test]
    fn without_a_declaration_the_names_of_files_say_it() {
        let cases: [(&str, &[&str]); 6] = [
            (
                "data/train-00000.parquet data/test-00000.parquet dataset_infos.json trainer.json",
                &[
                    "default train Parquet: data/train-00000.parquet",
                    "default test Parquet: data/test-00000.parquet",
                ],
            ),
            (
                "data/a_sft-00000-of-00002.parquet data/a_sft-00001-of-00002.parquet data/b-00000-of-00001.parquet",
                &[
                    "default a_sft Parquet: data/a_sft-00000-of-00002.parquet data/a_sft-00001-of-00002.parquet",
                    "default b Parquet: data/b-00000-of-00001.parquet",
                ],
            ),
            // Folders come before files, and a file belongs to one split.
            (
                "train/eval_x.jsonl test/y.jsonl",
                &[
                    "default train JSON lines: train/eval_x.jsonl",
                    "default test JSON lines: test/y.jsonl",
                ],
            ),
            (
                "train.jsonl.gz",
                &["default train compressed: train.jsonl.gz"],
            ),
            ("poems.txt README.md", &["default train text: poems.txt"]),
            (
                "cats/1.png dogs/2.png",
                &["default train pictures: cats/1.png dogs/2.png"],
            ),
        ];
        for (names, expected) in cases {
            check(json!({}), names, expected);
        }
        check(json!({"configs": "nonsense"}), "README.md", &[]);
    }
}
