//! What can be done with a file or folder that was dropped on the window, by its name and what is in it.

use std::path::{Path, PathBuf};

use models::{
    data::{not_text, source},
    tasks::recognized,
};
use serde::Serialize;

use super::{
    models::{is_model, models_in},
    picture_files, run_file,
};
use crate::wire::error::AppError;

/// What can be done with it.
#[derive(Debug, Clone, PartialEq, Serialize, specta::Type)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Dropped {
    /// It is a model, a folder of models, or a file of a model in this folder.
    Model { path: PathBuf },
    /// It asks for a run.
    RunFile,
    /// It may be learned from. Whether it can is said once it is read.
    Data,
    /// Nothing yet, and why.
    Nothing { problem: AppError },
}

/// What can be used, where something can't.
const USABLE: &str = "drop text, JSON lines, CSV or Parquet, a folder of pictures or with a model, a GGUF file, or a run file";

/// Says what can be done with a file or folder.
pub(crate) fn look(path: &Path) -> Dropped {
    let nothing = |message: String, hint: &str| Dropped::Nothing {
        problem: AppError::invalid(message).with_hint(hint),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() {
        let is_data = || recognized(path).is_some() || source::files(&[path.to_owned()]).is_ok();
        return match models_in(path).is_empty() {
            false => model(path),
            true if is_data() => Dropped::Data,
            true => nothing(format!("“{name}” holds neither a model nor data"), USABLE),
        };
    }
    if picture_files::is_picture(path) {
        return nothing(
            format!("“{name}” is a single picture, and pictures are learned from in folders"),
            "drop the folder that has a folder of pictures for each class; to ask what this one shows, drop it on Classify",
        );
    }
    if recognized(path).is_some() {
        return Dropped::Data;
    }
    let ending = path.extension().unwrap_or_default();
    match ending.to_string_lossy().to_ascii_lowercase().as_str() {
        "yaml" | "yml" => match run_file::read(path) {
            Ok(_) => Dropped::RunFile,
            Err(problem) => Dropped::Nothing { problem },
        },
        "gguf" if is_model(path) => model(path),
        "gguf" => nothing(
            format!("“{name}” is called like a model of llama.cpp, and is none"),
            "download it again",
        ),
        "safetensors" | "json" if folder_of_model(path).is_some() => {
            model(folder_of_model(path).unwrap_or(path))
        }
        _ => match not_text::check_name(path) {
            Ok(()) => Dropped::Data,
            Err(error) => Dropped::Nothing {
                problem: AppError::from(error).with_hint(USABLE),
            },
        },
    }
}

fn model(path: &Path) -> Dropped {
    Dropped::Model {
        path: path.to_owned(),
    }
}

/// The folder of a model whose weights or config this is.
fn folder_of_model(path: &Path) -> Option<&Path> {
    let is_its = path.ends_with("config.json") || path.extension()? == "safetensors";
    path.parent()
        .filter(|folder| is_its && folder.join("config.json").is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_dropped_is_known_by_its_name_and_what_is_in_it() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for folder in ["maker/tiny", "rows", "empty", "moths/dark"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        for (file, text) in [
            ("maker/tiny/config.json", "{}"),
            ("maker/tiny/model.safetensors", ""),
            ("rows/a.jsonl", "{}"),
            ("rows/config.json", "[]"),
            ("run.yaml", "method: lora\n"),
            ("notes.yml", "no: run\n"),
            ("tiny.GGUF", ""),
            ("maker/small.gguf", "GGUF and so on"),
            ("pic.png", "x"),
            ("moths/dark/1.jpg", "x"),
            ("train-images-idx3-ubyte.gz", "x"),
            ("poems.txt", "x"),
        ] {
            fs::write(path(file), text).unwrap();
        }
        for folder in ["maker/tiny", "maker"] {
            assert_eq!(look(&path(folder)), model(&path(folder)));
        }
        for file in ["maker/tiny/config.json", "maker/tiny/model.safetensors"] {
            assert_eq!(look(&path(file)), model(&path("maker/tiny")), "{file}");
        }
        let file = path("maker/small.gguf");
        assert_eq!(look(&file), model(&file));
        assert_eq!(look(&path("rows")), model(&path("rows")), "it has a config");
        fs::remove_file(path("rows/config.json")).unwrap();
        for data in [
            "rows",
            "rows/a.jsonl",
            "poems.txt",
            "moths",
            "train-images-idx3-ubyte.gz",
        ] {
            assert_eq!(look(&path(data)), Dropped::Data, "{data}");
        }
        assert_eq!(look(&path("run.yaml")), Dropped::RunFile);
        for (file, words) in [
            ("notes.yml", "no"),
            ("tiny.GGUF", "and is none"),
            ("pic.png", "a single picture"),
            ("empty", "neither a model nor data"),
        ] {
            let Dropped::Nothing { problem } = look(&path(file)) else {
                panic!("{file} can be used");
            };
            assert!(problem.message.contains(words), "{problem}");
        }
    }
}
