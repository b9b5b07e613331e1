//! Which model states are of: its name, its revision, and its weights by their content.
//!
//! A probe that was trained on one model says nothing about another, and an adapter makes another model of it.

use std::path::Path;

use super::states::{ModelIdentity, SourceFile};
use crate::{
    Result,
    checkpoint::{
        adapter::{ADAPTER_CONFIG, ADAPTER_WEIGHTS},
        folder::ModelFolder,
        save::name_of,
    },
    tasks::language::model::base_of,
};

/// How the cache of the Hub calls the folder of a model, and what separates its maker from its name.
const CACHED: &str = "models--";
const SEPARATOR: &str = "--";
/// Where the cache has the revisions of a model.
const SNAPSHOTS: &str = "snapshots";

impl ModelIdentity {
    /// Whether both have the same weights, whatever their folders are called. Where the weights of one are not known, as in files of
    /// other programs, the names say it.
    pub fn is_same(&self, other: &Self) -> bool {
        if self.weights.is_empty() || other.weights.is_empty() {
            return self.name == other.name;
        }
        let sums = |it: &Self| {
            let mut sums: Vec<String> = it.weights.iter().map(|it| it.sha256.clone()).collect();
            sums.sort_unstable();
            sums
        };
        sums(self) == sums(other)
    }
}

/// The model in a folder, and the adapter if the folder is one of an adapter. Reads all weights once.
pub fn identities(folder: &Path) -> Result<(ModelIdentity, Option<ModelIdentity>)> {
    if !folder.join(ADAPTER_CONFIG).exists() {
        return Ok((model(folder)?, None));
    }
    let base = base_of(folder)?;
    let files = [ADAPTER_CONFIG, ADAPTER_WEIGHTS].map(|name| folder.join(name));
    let (name, revision) = name_and_revision(folder);
    let adapter = ModelIdentity {
        name,
        revision,
        weights: files
            .iter()
            .map(|file| SourceFile::of(file))
            .collect::<Result<_>>()?,
        ..ModelIdentity::default()
    };
    Ok((model(Path::new(&base))?, Some(adapter)))
}

fn model(folder: &Path) -> Result<ModelIdentity> {
    let found = ModelFolder::open(folder)?;
    let (name, revision) = name_and_revision(folder);
    let family = found.config.get("model_type").and_then(|it| it.as_str());
    let files = found.weight_files.iter();
    Ok(ModelIdentity {
        name,
        revision,
        family: family.unwrap_or_default().to_owned(),
        weights: files
            .map(|file| SourceFile::of(file))
            .collect::<Result<_>>()?,
    })
}

/// What the model is called on the Hub and at which revision, where the folder is one of the Hub's cache; or its folder's name.
fn name_and_revision(folder: &Path) -> (String, Option<String>) {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let parts: Vec<String> = folder
        .components()
        .map(|it| it.as_os_str().to_string_lossy().into_owned())
        .collect();
    if let [.., cached, snapshots, revision] = parts.as_slice()
        && let Some(name) = cached.strip_prefix(CACHED)
        && snapshots == SNAPSHOTS
    {
        return (name.replace(SEPARATOR, "/"), Some(revision.clone()));
    }
    (name_of(&folder), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_in_the_cache_of_the_hub_is_known_by_its_name_and_revision() {
        let cases = [
            (
                "/c/models--google--gemma-3-4b-it/snapshots/09a",
                "google/gemma-3-4b-it",
                Some("09a"),
            ),
            ("/c/models--gpt2/snapshots/1", "gpt2", Some("1")),
            ("/c/my-model", "my-model", None),
            ("/c/snapshots/1", "1", None),
        ];
        for (folder, name, revision) in cases {
            let (found, at) = name_and_revision(Path::new(folder));
            assert_eq!(
                (found.as_str(), at.as_deref()),
                (name, revision),
                "{folder}"
            );
        }
    }
}
