//! Names that tell things apart: data by the folder of a file that is called like many others, repeats by a number.

use std::path::Path;

/// What files of data are called whatever is in them.
const COMMON: [&str; 26] = [
    "all",
    "chat",
    "data",
    "dataset",
    "default",
    "dev",
    "eval",
    "examples",
    "file",
    "input",
    "of",
    "output",
    "part",
    "rows",
    "samples",
    "shard",
    "sft",
    "split",
    "test",
    "text",
    "train",
    "training",
    "val",
    "valid",
    "validation",
    "csv",
];

/// The name of data: that of its folder or file without the ending, after that of its folder where files of many data sets
/// are called the same: `gsm8k · train`.
pub(crate) fn of_data(path: &Path) -> String {
    let words =
        |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    if path.is_dir() {
        return words(path.file_name());
    }
    let name = words(path.file_stem());
    let folders = path
        .ancestors()
        .skip(1)
        .map(|folder| words(folder.file_name()));
    let folder = folders.into_iter().find(|folder| !is_common(folder));
    match folder.filter(|folder| !folder.is_empty() && is_common(&name)) {
        Some(folder) => format!("{folder} · {name}"),
        None => name,
    }
}

/// A name that is not taken: the same with a number behind it, from 2, where it is.
pub(crate) fn numbered(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbers = (2u32..).map(|number| format!("{name} {number}"));
    let names = std::iter::once(name.to_owned()).chain(numbers);
    names
        .into_iter()
        .find(|name| !is_taken(name))
        .unwrap_or_else(|| name.to_owned())
}

/// Whether a name has nothing but common words and numbers: `train-00000-of-00001`. Nothing at all is no name.
fn is_common(name: &str) -> bool {
    let name = name.to_lowercase();
    let mut words = name
        .split(|letter: char| !letter.is_alphabetic())
        .filter(|word| !word.is_empty());
    !name.is_empty() && words.all(|word| COMMON.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_called_like_many_others_is_named_after_its_folder() {
        for (path, name) in [
            ("/a/gsm8k/train.jsonl", "gsm8k · train"),
            (
                "/a/gsm8k/data/train-00000-of-00001.parquet",
                "gsm8k · train-00000-of-00001",
            ),
            ("/a/poems/0000.txt", "poems · 0000"),
            ("/a/b/support.jsonl", "support"),
            ("/a/b/train tickets.csv", "train tickets"),
            ("/train.jsonl", "train"),
        ] {
            assert_eq!(of_data(Path::new(path)), name);
        }
        let folder = tempfile::Builder::new().prefix("v1.2-").tempdir().unwrap();
        assert!(of_data(folder.path()).starts_with("v1.2-"));
    }

    #[test]
    fn a_name_that_is_taken_gets_the_next_number() {
        let numbered = |taken: &[&str]| numbered("starter", |name| taken.contains(&name));
        assert_eq!(numbered(&[]), "starter");
        assert_eq!(numbered(&["starter"]), "starter 2");
        assert_eq!(
            numbered(&["starter", "starter 2", "starter 4"]),
            "starter 3"
        );
    }
}
