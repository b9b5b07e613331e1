//! Models on disk: folders in the layout of the Hugging Face Hub, with a `config.json` and weights, and GGUF files.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use models::{checkpoint::save::name_of, gguf::Gguf};
use serde::Serialize;

use super::{
    folders,
    hub_cache::{
        HubCache,
        names::{RepositoryId, RepositoryKind},
    },
    paths::Paths,
    settings::Settings,
};
use crate::wire::error::{AppError, Result};

/// A model that can be trained further or used for chat.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StoredModel {
    /// How it is called here: its folder below a folder of models, such as `HuggingFaceTB/SmolLM2-135M`, or its file.
    pub(crate) name: String,
    /// Its folder, or its file.
    pub(crate) path: PathBuf,
    /// Where it comes from.
    pub(crate) place: ModelPlace,
}

/// Where a model lies, which says what may be done with its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ModelPlace {
    /// In the app's own folder: it can be deleted.
    Own,
    /// In a folder that the user added: it can be taken out of the list.
    Added,
    /// In the cache that all programs of the Hugging Face Hub share.
    Cache,
}

/// All models in the app's folder, in those the user added and in the Hub's cache, by name.
pub(crate) fn list(paths: &Paths, settings: &Settings) -> Vec<StoredModel> {
    let mut models = below(&paths.models, ModelPlace::Own);
    let added = settings.model_folders.iter();
    models.extend(added.flat_map(|folder| models_in(folder)));
    models.extend(
        HubCache::of_user()
            .into_iter()
            .flat_map(|cache| cached(cache.root())),
    );
    // A folder that was added may lie in another; where it was found first says most about it.
    let mut seen = BTreeSet::new();
    models.retain(|model| seen.insert(model.path.clone()));
    models.sort_by(|a, b| a.name.cmp(&b.name));
    models
}

/// The models in a folder that may be a model itself, or the model that a file is.
pub(crate) fn models_in(folder: &Path) -> Vec<StoredModel> {
    match is_model(folder) {
        true => vec![stored(
            folder.parent().unwrap_or(folder),
            folder.to_owned(),
            ModelPlace::Added,
        )],
        false => below(folder, ModelPlace::Added),
    }
}

/// Bytes of the files in a folder. A link to a file counts as nothing: the file lies elsewhere, and is counted there.
#[cfg(feature = "gui")]
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    sum_files(folder, &|entry| entry.metadata().ok())
}

/// Bytes of a model’s files, those behind links too: the Hub's cache keeps the files of a model in another folder.
#[cfg(feature = "gui")]
pub(crate) fn model_bytes(folder: &Path) -> u64 {
    match fs::metadata(folder) {
        Ok(file) if file.is_file() => file.len(),
        _ => sum_files(folder, &|entry| fs::metadata(entry.path()).ok()),
    }
}

#[cfg(feature = "gui")]
fn sum_files(folder: &Path, look: &dyn Fn(&fs::DirEntry) -> Option<fs::Metadata>) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.file_type() {
        // A folder behind a link may be above this one.
        Ok(kind) if kind.is_dir() => sum_files(&entry.path(), look),
        _ => look(&entry)
            .filter(fs::Metadata::is_file)
            .map_or(0, |file| file.len()),
    });
    sizes.sum()
}

/// The models in a folder of models, with or without a folder for their maker.
fn below(root: &Path, place: ModelPlace) -> Vec<StoredModel> {
    let mut models: Vec<StoredModel> = gguf_files(root)
        .map(|file| stored(root, file, place))
        .collect();
    for folder in folders(root) {
        if is_model(&folder) {
            models.push(stored(root, folder, place));
        } else {
            // LM Studio keeps a file in a folder of its own, in that of its maker.
            let inner = folders(&folder).into_iter();
            let inner = inner.flat_map(|path| match is_model(&path) {
                true => vec![path],
                false => gguf_files(&path).collect(),
            });
            models.extend(
                inner
                    .chain(gguf_files(&folder))
                    .map(|path| stored(root, path, place)),
            );
        }
    }
    models
}

/// The models in a cache: `models--maker--name/snapshots/<revision>`, of each the revision that was fetched last. Where that is no
/// model itself, its GGUF files are.
fn cached(cache: &Path) -> Vec<StoredModel> {
    let fetched = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    let mut models = Vec::new();
    for folder in folders(cache) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let Some((RepositoryKind::Model, id)) = RepositoryId::of_folder(&name) else {
            continue;
        };
        let snapshots = folders(&folder.join("snapshots")).into_iter();
        let newest = snapshots
            .filter(|path| is_model(path) || gguf_files(path).next().is_some())
            .max_by_key(|path| fetched(path));
        let Some(path) = newest else { continue };
        let cached = |name: String, path: PathBuf| StoredModel {
            name,
            path,
            place: ModelPlace::Cache,
        };
        match is_model(&path) {
            true => models.push(cached(id.to_string(), path)),
            false => models
                .extend(gguf_files(&path).map(|it| cached(format!("{id}/{}", name_of(&it)), it))),
        }
    }
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
    if name.is_file() {
        return Err(AppError::invalid(format!(
            "a model is a folder or a GGUF file, and this is another file: `{name_shown}`"
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

fn stored(root: &Path, path: PathBuf, place: ModelPlace) -> StoredModel {
    let name = path.strip_prefix(root).unwrap_or(&path);
    let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
    StoredModel {
        name: parts.join("/"),
        path,
        place,
    }
}

/// Whether a path is a model: a folder with a config, or a file of the format of llama.cpp.
pub(crate) fn is_model(path: &Path) -> bool {
    path.join("config.json").is_file() || Gguf::is_one(path)
}

/// The files in a folder that are called as GGUF files are.
fn gguf_files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    files.filter(|it| {
        it.extension()
            .is_some_and(|it| it.eq_ignore_ascii_case("gguf"))
            && Gguf::is_one(it)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_of_the_hub_has_the_newest_revision_of_each_model() {
        let cache = tempfile::tempdir().unwrap();
        let snapshots = cache.path().join("models--maker--large/snapshots");
        let fetch = |revision: &str| {
            let folder = snapshots.join(revision);
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("config.json"), "{}").unwrap();
            fs::metadata(folder).unwrap().modified().unwrap()
        };
        let first = fetch("1a");
        // File systems differ in how finely they tell the time.
        while fetch("2b") <= first {}
        fs::create_dir_all(cache.path().join("datasets--maker--rows/snapshots/1a")).unwrap();
        let found = cached(cache.path());
        let names: Vec<(&str, &Path)> = found
            .iter()
            .map(|model| (model.name.as_str(), model.path.as_path()))
            .collect();
        assert_eq!(names, [("maker/large", snapshots.join("2b").as_path())]);

        let other = cache.path().join("models--maker--small/snapshots/1a");
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("q4.gguf"), "GGUF and so on").unwrap();
        fs::write(other.join("q8.gguf"), "a pointer of Git").unwrap();
        let found = cached(cache.path());
        let names: Vec<&str> = found.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["maker/large", "maker/small/q4.gguf"]);
    }

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
        let names: Vec<String> = below(&paths.models, ModelPlace::Own)
            .into_iter()
            .map(|model| model.name)
            .collect();
        assert_eq!(names, ["maker/large", "tiny"]);

        let found = find(&paths, &settings, Path::new("maker/large")).unwrap();
        assert_eq!(found, paths.models.join("maker/large"));
        let error = find(&paths, &settings, Path::new("huge")).unwrap_err();
        assert_eq!(error.message, "there is no model `huge`");
        assert!(error.hint.unwrap().contains("maker/large"));
    }
}
