//! One repository: what it is, what it holds, and what of it is needed here.

use std::collections::BTreeSet;

use futures_util::join;
use serde_json::Value as Json;

use super::{
    Hub,
    http::{Http, Trouble},
    limits,
    needed::{RemoteFile, needed},
    search::{Info, text},
    splits::{Split, splits},
    wait,
};
use crate::{
    store::hub_cache::names::{
        Digest, RepositoryId, RepositoryKind, is_commit, relative_path, shown,
    },
    wire::error::{AppError, Result},
};

/// The branch that is meant when none is named.
pub(crate) const MAIN: &str = "main";

/// What the Hub says of a repository at one commit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Repository {
    pub(crate) kind: RepositoryKind,
    pub(crate) id: RepositoryId,
    /// Its page for a browser.
    pub(crate) url: String,
    /// The branch, tag or commit that was asked for.
    pub(crate) revision: String,
    /// The commit that this is.
    pub(crate) commit: String,
    pub(crate) task: Option<String>,
    pub(crate) license: Option<String>,
    /// Why its files can't be had, though it can be looked at.
    pub(crate) gate: Option<AppError>,
    /// In the last thirty days.
    pub(crate) downloads: Option<u64>,
    pub(crate) likes: Option<u64>,
    pub(crate) changed: Option<String>,
    /// How many numbers a model has, as the Hub counted them.
    pub(crate) parameters: Option<u64>,
    /// Whether a model has a chat template.
    pub(crate) answers: bool,
    /// The `config.json` of a model.
    pub(crate) config: Option<Json>,
    /// Its files, by name.
    pub(crate) files: Vec<RemoteFile>,
    /// How many files can't be kept: their names or sizes are none.
    pub(crate) left_out: usize,
    /// The parts of a data set.
    pub(crate) splits: Vec<Split>,
    /// Its description, in Markdown, without the header.
    pub(crate) card: String,
}

impl Repository {
    /// The files that a download without further wishes fetches.
    pub(crate) fn needed(&self) -> Vec<&RemoteFile> {
        needed(self.kind, &self.files)
    }

    /// The parts of data with these names. An empty name is any.
    pub(crate) fn split(&self, config: &str, name: &str) -> Result<Vec<&Split>> {
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let found: Vec<&Split> = self
            .splits
            .iter()
            .filter(|split| is(config, &split.config) && is(name, &split.name))
            .collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let known = self.splits.iter();
        let known: BTreeSet<String> = known
            .map(|it| format!("{} of {}", it.name, it.config))
            .collect();
        let known: Vec<String> = known.into_iter().collect();
        let asked = part_of(name, config);
        let error = AppError::invalid(format!("`{}` has no part `{asked}`", self.id));
        Err(match known.is_empty() {
            true => error.with_hint("it has no files that data is read from"),
            false => error.with_hint(format!("its parts are {}", known.join(", "))),
        })
    }
}

impl Hub {
    /// Asks for a repository at a branch, tag or commit.
    pub(crate) fn repository(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        revision: &str,
    ) -> Result<Repository> {
        let http = self.http()?;
        let revision = if revision.is_empty() { MAIN } else { revision }.to_owned();
        let action = format!("look at `{id}`");
        let parts = [&[kind.plural()][..], &id.parts(), &["revision", &revision]].concat();
        let info: Info = self.ask(&http, &action, &parts, &[])?;
        let commit = info.sha.clone().filter(|commit| is_commit(commit));
        let commit = commit.ok_or_else(|| {
            AppError::failed(format!("could not {action}: the Hub names no commit"))
        })?;
        let (wanted, at) = (id.clone(), commit.clone());
        let looked = wait(async move { look(&http, &action, kind, &wanted, &at).await })?;
        let Looked {
            entries,
            card,
            config,
            gate,
        } = self.noted(looked)?;
        let (files, left_out) = read_tree(entries);
        let (prefix, splits) = match kind {
            RepositoryKind::Model => ("", Vec::new()),
            RepositoryKind::Data => ("datasets/", splits(info.card_data.as_ref(), &files)),
        };
        let template = |config: &Json| {
            let template = config.get("tokenizer_config")?.get("chat_template");
            template.map(|_| ())
        };
        let answers = info.config.as_ref().and_then(template).is_some();
        let parameters = info
            .safetensors
            .as_ref()
            .and_then(|it| it.get("total")?.as_u64());
        Ok(Repository {
            kind,
            url: format!("{}/{prefix}{id}", self.endpoint()),
            id: id.clone(),
            revision,
            commit,
            task: info.task(kind),
            license: info.tagged("license:"),
            gate,
            downloads: info.downloads,
            likes: info.likes,
            changed: text(info.last_modified),
            parameters,
            answers: answers || files.iter().any(|file| file.path == "chat_template.jinja"),
            config,
            splits,
            files,
            left_out,
            card,
        })
    }
}

/// What is read of a repository before anything is fetched.
struct Looked {
    entries: Vec<Json>,
    card: String,
    config: Option<Json>,
    gate: Option<AppError>,
}

async fn look(
    http: &Http,
    action: &str,
    kind: RepositoryKind,
    id: &RepositoryId,
    commit: &str,
) -> Result<Looked> {
    let card = http.file_url(kind, id, commit, "README.md");
    let config = http.file_url(kind, id, commit, "config.json");
    let (entries, card, config) = join!(
        http.tree(action, kind, id, commit),
        http.beginning(action, &card, limits::CARD.most as usize),
        async {
            match kind {
                RepositoryKind::Model => {
                    http.beginning(action, &config, limits::CONFIG.most as usize)
                        .await
                }
                RepositoryKind::Data => Ok(Vec::new()),
            }
        },
    );
    let entries = entries.map_err(Trouble::error)?;
    // A repository without a card, or without a config, is still one; one that is gated says so when a file is asked for.
    let mut gate = None;
    let config = match config {
        Ok(bytes) => serde_json::from_slice(&bytes).ok(),
        Err(Trouble::Passing { error, .. }) => return Err(*error),
        Err(Trouble::Gated(error)) => {
            gate = Some(error);
            None
        }
        Err(Trouble::Lasting(_)) => None,
    };
    let first = entries.iter().find_map(|entry| read_file(entry)?.ok());
    if let Some(first) = first.filter(|_| kind == RepositoryKind::Data) {
        let url = http.file_url(kind, id, commit, &first.path);
        if let Err(Trouble::Gated(error)) = http.range(action, &url, 0, 1).await {
            gate = Some(error);
        }
    }
    let card = match card {
        Ok(bytes) => without_header(&String::from_utf8_lossy(&bytes)),
        Err(Trouble::Passing { error, .. }) => {
            format!("Its description could not be read: {error}.")
        }
        Err(_) => String::new(),
    };
    Ok(Looked {
        entries,
        card,
        config,
        gate,
    })
}

/// Reads an answer as a list of repositories or of files, and finds the parts of data in it.
#[cfg(test)]
pub(crate) fn read_answer(bytes: &[u8]) -> Result<(), String> {
    let entries: Vec<Json> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let infos = entries.iter().cloned().map(serde_json::from_value::<Info>);
    let infos: Vec<Info> = infos.filter_map(Result::ok).collect();
    let (files, _) = read_tree(entries);
    drop(needed(RepositoryKind::Model, &files));
    drop(splits(None, &files));
    for info in infos {
        for split in splits(info.card_data.as_ref(), &files) {
            drop((split.bytes(), split.problem()));
        }
        drop((info.task(RepositoryKind::Data), info.tagged("license:")));
        drop(info.found(RepositoryKind::Model));
    }
    drop(without_header(&String::from_utf8_lossy(bytes)));
    Ok(())
}

/// Reads the description of a repository as its page shows it.
#[cfg(test)]
pub(crate) fn read_card(bytes: &[u8]) {
    drop(without_header(&String::from_utf8_lossy(bytes)));
}

/// `train of main`, as far as it is said.
pub(super) fn part_of(split: &str, config: &str) -> String {
    let words = [split, config].into_iter().filter(|it| !it.is_empty());
    words.collect::<Vec<_>>().join(" of ")
}

/// The files of a tree, by name, and how many of them can't be kept.
fn read_tree(entries: Vec<Json>) -> (Vec<RemoteFile>, usize) {
    let mut files = Vec::new();
    let mut left_out = 0;
    for file in entries.iter().filter_map(read_file) {
        match file {
            Ok(file) if (files.len() as u64) < limits::FILES.most => files.push(file),
            _ => left_out += 1,
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let count = files.len();
    files.dedup_by(|a, b| a.path == b.path);
    if cfg!(any(target_os = "macos", windows)) {
        // There, names that differ only in case are one.
        let mut seen = BTreeSet::new();
        files.retain(|file| seen.insert(file.path.to_lowercase()));
    }
    left_out += count - files.len();
    (files, left_out)
}

/// A file of a tree. A folder is none; a file that can't be kept is an error.
fn read_file(entry: &Json) -> Option<Result<RemoteFile, ()>> {
    if entry.get("type")?.as_str()? != "file" {
        return None;
    }
    let read = || {
        let path = entry.get("path")?.as_str()?;
        relative_path(path)?;
        let large = entry.get("lfs").filter(|lfs| !lfs.is_null());
        let hex = large.unwrap_or(entry).get("oid")?.as_str()?;
        let digest = match large {
            Some(_) => Digest::sha256(hex.strip_prefix("sha256:").unwrap_or(hex))?,
            None => Digest::git(hex)?,
        };
        let bytes = large
            .unwrap_or(entry)
            .get("size")
            .or_else(|| entry.get("size"))?
            .as_u64()?;
        (bytes <= limits::FILE.most).then(|| RemoteFile {
            path: path.to_owned(),
            bytes,
            digest,
        })
    };
    Some(read().ok_or(()))
}

/// A card without the header that is meant for programs.
fn without_header(card: &str) -> String {
    let card = card.replace("\r\n", "\n");
    let header = card
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---\n"));
    let body = header.map_or(card.as_str(), |(_, body)| body);
    shown(body.trim())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tree_is_read_and_what_is_hostile_in_it_left_out() {
        let (git, sha) = ("a".repeat(40), "B".repeat(64));
        let entries = vec![
            json!({"type": "directory", "oid": git, "path": "data", "size": 0}),
            json!({"type": "file", "oid": git, "path": "model.safetensors", "size": 135,
                "lfs": {"oid": sha, "size": 271_000_000, "pointerSize": 135}}),
            json!({"type": "file", "oid": git, "path": "config.json", "size": 700}),
            json!({"type": "file", "oid": git, "path": "../../.bashrc", "size": 7}),
            json!({"type": "file", "oid": "../x", "path": "a", "size": 7}),
            json!({"type": "file", "oid": git, "path": "huge", "size": u64::MAX}),
            json!({"type": "file", "oid": git, "path": "less than nothing", "size": -1}),
            json!({"type": "file"}),
            json!("nonsense"),
        ];
        let (files, left_out) = read_tree(entries);
        let found: Vec<(&str, u64, usize)> = files
            .iter()
            .map(|it| (it.path.as_str(), it.bytes, it.digest.hex().len()))
            .collect();
        assert_eq!(
            found,
            [
                ("config.json", 700, 40),
                ("model.safetensors", 271_000_000, 64)
            ]
        );
        assert_eq!(left_out, 5);
    }

    #[test]
    fn a_card_is_shown_without_its_header() {
        assert_eq!(
            without_header("---\r\nlicense: mit\r\n---\r\n# Name\r\n"),
            "# Name"
        );
        assert_eq!(without_header("# Name\n---\nmore"), "# Name\n---\nmore");
        assert_eq!(without_header("---\nlicense: mit"), "---\nlicense: mit");
        assert_eq!(without_header("a\u{1b}[2Jb"), "a[2Jb");
    }
}
