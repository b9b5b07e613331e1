//! Models on disk: folders in the layout of the Hugging Face Hub, with a `config.json` and weights.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{paths::Paths, settings::Settings};
use crate::wire::error::{AppError, Result};

/// A model that can be trained further or talked to.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct StoredModel {
    /// How it is called here: its folder below a folder of models, such as `HuggingFaceTB/SmolLM2-135M`.
    pub(crate) name: String,
    /// Its folder.
    pub(crate) path: PathBuf,
}

/// All models in the app's folder and in those the user added, by name.
pub(crate) fn list(paths: &Paths, settings: &Settings) -> Vec<StoredModel> {
    let mut models = Vec::new();
    for root in std::iter::once(&paths.models).chain(&settings.model_folders) {
        for folder in folders(root) {
            if is_model(&folder) {
                models.push(stored(root, folder));
            } else {
                let inner = folders(&folder).into_iter();
                models.extend(
                    inner
                        .filter(|path| is_model(path))
                        .map(|path| stored(root, path)),
                );
            }
        }
    }
    models.sort_by(|a, b| a.name.cmp(&b.name));
    models
}

/// The folder of a model that is named by its path, or as [`list`] names it.
pub(crate) fn find(paths: &Paths, settings: &Settings, name: &Path) -> Result<PathBuf> {
    if is_model(name) {
        return std::path::absolute(name).map_err(AppError::file("find the model", name));
    }
    let models = list(paths, settings);
    if let Some(model) = models.iter().find(|model| Path::new(&model.name) == name) {
        return Ok(model.path.clone());
    }
    let name_shown = name.display();
    if name.is_dir() {
        return Err(AppError::invalid(format!(
            "the folder has no `config.json`, so it is not a model: `{name_shown}`"
        )));
    }
    let known: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    let hint = match known.is_empty() {
        true => format!(
            "put models into `{}`, or name a folder",
            paths.models.display()
        ),
        false => format!("the models here are {}", known.join(", ")),
    };
    Err(AppError::invalid(format!("there is no model `{name_shown}`")).with_hint(hint))
}

fn stored(root: &Path, path: PathBuf) -> StoredModel {
    let name = path.strip_prefix(root).unwrap_or(&path);
    let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
    StoredModel {
        name: parts.join("/"),
        path,
    }
}

fn is_model(path: &Path) -> bool {
    path.join("config.json").is_file()
}

/// The folders in a folder, in order. A folder that can't be read has none.
fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_with_and_without_the_name_of_their_maker() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::new(Some(home.path())).unwrap();
        for model in ["tiny", "maker/large", "maker/half"] {
            fs::create_dir_all(paths.models.join(model)).unwrap();
        }
        for model in ["tiny", "maker/large"] {
            fs::write(paths.models.join(model).join("config.json"), "{}").unwrap();
        }
        let settings = Settings::default();
        let names: Vec<String> = list(&paths, &settings)
            .into_iter()
            .map(|model| model.name)
            .collect();
        assert_eq!(names, ["maker/large", "tiny"]);

        let found = find(&paths, &settings, Path::new("maker/large")).unwrap();
        assert_eq!(found, paths.models.join("maker/large"));
        let error = find(&paths, &settings, Path::new("huge")).unwrap_err();
        assert_eq!(error.message, "there is no model `huge`");
        assert_eq!(error.hint.unwrap(), "the models here are maker/large, tiny");
    }
}
