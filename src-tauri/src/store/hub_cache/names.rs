//! Names that come from the network, and what they may be. Nothing else is ever made into a path.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::wire::error::{AppError, Result};

/// Letters that a name of an owner or a repository may have.
const MAX_ID_LETTERS: usize = 96;
/// Bytes that one part of a path may have; most file systems take no more.
const MAX_PART_BYTES: usize = 200;
/// Bytes that a path may have.
const MAX_PATH_BYTES: usize = 800;
/// Names that Windows keeps for devices, whatever follows the first dot.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// What a repository of the Hub holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub(crate) enum RepositoryKind {
    /// Weights, with their configuration and tokenizer.
    Model,
    /// A data set.
    Data,
}

impl RepositoryKind {
    /// What the Hub calls many of it: in addresses, and in the cache.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Data => "datasets",
        }
    }
}

impl fmt::Display for RepositoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "model",
            Self::Data => "data set",
        })
    }
}

/// The name of a repository: `HuggingFaceTB/SmolLM2-135M`, or `gpt2` for some old ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct RepositoryId(String);

impl RepositoryId {
    /// The name as the Hub writes it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Who made it, if it says, and how it is called.
    pub(crate) fn parts(&self) -> Vec<&str> {
        self.0.split('/').collect()
    }

    /// `models--maker--name`, as its folder in the cache is called.
    pub(super) fn folder_name(&self, kind: RepositoryKind) -> String {
        format!("{}--{}", kind.plural(), self.0.replace('/', "--"))
    }

    /// The repository of a folder in the cache.
    pub(in crate::store) fn of_folder(name: &str) -> Option<(RepositoryKind, Self)> {
        let (plural, id) = name.split_once("--")?;
        let kinds = [RepositoryKind::Model, RepositoryKind::Data];
        let kind = kinds.into_iter().find(|kind| kind.plural() == plural)?;
        Some((kind, id.replacen("--", "/", 1).parse().ok()?))
    }
}

impl FromStr for RepositoryId {
    type Err = AppError;

    fn from_str(text: &str) -> Result<Self> {
        let is_name = |part: &str| {
            let letters = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
            (1..=MAX_ID_LETTERS).contains(&part.len())
                && part.chars().all(letters)
                && !part.starts_with(['-', '.'])
                && !part.ends_with(['-', '.'])
                && !part.contains("--")
                && !part.contains("..")
        };
        let parts: Vec<&str> = text.split('/').collect();
        if parts.len() <= 2 && parts.iter().all(|part| is_name(part)) {
            return Ok(Self(text.to_owned()));
        }
        let text = shown(text);
        Err(
            AppError::invalid(format!("`{text}` is no name of the Hugging Face Hub")).with_hint(
                "a name is the maker’s, a slash and the repository’s: HuggingFaceTB/SmolLM2-135M",
            ),
        )
    }
}

impl TryFrom<String> for RepositoryId {
    type Error = AppError;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<RepositoryId> for String {
    fn from(id: RepositoryId) -> Self {
        id.0
    }
}

impl fmt::Display for RepositoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the content of a file must be. Also the name of its blob in the cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Digest {
    /// SHA-256 of a large file's bytes.
    Sha256(String),
    /// What git calls a small file: SHA-1 of `blob`, its length and its bytes.
    Git(String),
}

impl Digest {
    /// The digest of a large file, in hexadecimal.
    pub(crate) fn sha256(hex: &str) -> Option<Self> {
        is_hex(hex, 64).then(|| Self::Sha256(hex.to_ascii_lowercase()))
    }

    /// The digest of a small file, in hexadecimal.
    pub(crate) fn git(hex: &str) -> Option<Self> {
        is_hex(hex, 40).then(|| Self::Git(hex.to_ascii_lowercase()))
    }

    /// Whether it is one: it may have been read from a file that somebody changed.
    #[cfg(feature = "gui")]
    pub(crate) fn is_sound(&self) -> bool {
        match self {
            Self::Sha256(hex) => is_hex(hex, 64),
            Self::Git(hex) => is_hex(hex, 40),
        }
    }

    /// In hexadecimal.
    pub(crate) fn hex(&self) -> &str {
        let (Self::Sha256(hex) | Self::Git(hex)) = self;
        hex
    }
}

/// A commit in full.
pub(crate) fn is_commit(text: &str) -> bool {
    is_hex(text, 40)
}

/// The path of a file in a repository, below some folder of ours, if it is one that every system can keep there.
pub(crate) fn relative_path(name: &str) -> Option<PathBuf> {
    let is_part = |part: &str| {
        let stem = part.split('.').next().unwrap_or_default();
        let numbered = stem.len() == 4
            && ["com", "lpt"]
                .iter()
                .any(|port| stem.as_bytes()[..3].eq_ignore_ascii_case(port.as_bytes()));
        !part.is_empty()
            && part.len() <= MAX_PART_BYTES
            && !part.ends_with(['.', ' '])
            && !part.contains(['\\', ':', '*', '?', '"', '<', '>', '|'])
            && !part.chars().any(is_unseen)
            && !DEVICES
                .iter()
                .any(|device| stem.eq_ignore_ascii_case(device))
            && !numbered
    };
    let is_path = name.len() <= MAX_PATH_BYTES && name.split('/').all(is_part);
    is_path.then(|| name.split('/').collect())
}

/// Text from the network, without what would steer a screen or hide on it. Lines and tabs stay.
pub(crate) fn shown(text: &str) -> String {
    let keeps = |letter: &char| matches!(letter, '\n' | '\t') || !is_unseen(*letter);
    text.chars().filter(keeps).collect()
}

/// Control characters, marks that turn the direction of what follows, and spaces without width.
fn is_unseen(letter: char) -> bool {
    let hidden = [
        '\u{61c}'..='\u{61c}',
        '\u{200b}'..='\u{200b}',
        '\u{200e}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2060}'..='\u{2069}',
        '\u{feff}'..='\u{feff}',
    ];
    letter.is_control() || hidden.iter().any(|range| range.contains(&letter))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_hub_become_folders() {
        for good in ["gpt2", "HuggingFaceTB/SmolLM2-1.7B-Instruct", "a_b/c.d-e"] {
            let id: RepositoryId = good.parse().unwrap();
            let folder = id.folder_name(RepositoryKind::Model);
            assert_eq!(
                RepositoryId::of_folder(&folder),
                Some((RepositoryKind::Model, id))
            );
        }
        let long = "x".repeat(97);
        for bad in [
            "", "/", "a/b/c", "../a", "a/..", "a/b--c", "-a/b", "a b", "a/b\n", "é/b", "C:\\x",
            &long,
        ] {
            assert!(bad.parse::<RepositoryId>().is_err(), "{bad}");
        }
        assert_eq!(RepositoryId::of_folder("spaces--a--b"), None);
    }

    #[test]
    fn no_path_leads_out_of_its_folder() {
        let goods =
            "config.json data/train-00000-of-00001.parquet a/b/c/ü.txt .gitattributes 😀.png";
        for good in goods.split(' ') {
            let path = Some(good.split('/').collect());
            assert_eq!(relative_path(good), path, "{good}");
        }
        let bads = "/etc/passwd ../up a/../b a//b a/. a\\b C:x nul CON.txt com1 a. \u{202e}txt.exe";
        let long = "x".repeat(5000);
        for bad in bads.split(' ').chain(["", "a\nb", &long]) {
            assert_eq!(relative_path(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_digest_is_hexadecimal_of_the_right_length() {
        assert!(Digest::git(&"a1".repeat(20)).is_some());
        assert!(Digest::sha256(&"A1".repeat(32)).is_some_and(|it| it.hex().starts_with("a1")));
        assert!(Digest::git("../../x").is_none() && Digest::sha256(&"a1".repeat(20)).is_none());
    }

    #[test]
    fn text_from_the_network_cannot_hide() {
        assert_eq!(shown("a\u{1b}[31m\u{202e}b\r\n\tc"), "a[31mb\n\tc");
    }
}
