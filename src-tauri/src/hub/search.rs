//! What there is on the Hub.

use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Clients, Hub};
use crate::{
    store::hub_cache::names::{RepositoryId, RepositoryKind, shown},
    wire::error::Result,
};

/// How many can be asked for at once.
pub(crate) const MOST: usize = 900;

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) kind: RepositoryKind,
    /// Words in the name.
    pub(crate) words: Option<String>,
    /// Who made it.
    pub(crate) author: Option<String>,
    /// What it is for, as the Hub calls it: `text-generation`.
    pub(crate) task: Option<String>,
    pub(crate) sort: SortBy,
    /// How many are wanted.
    pub(crate) limit: usize,
}

/// What comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub(crate) enum SortBy {
    /// What most people fetched in the last thirty days.
    Downloads,
    /// What most people like.
    Likes,
    /// What changed last.
    Recent,
}

/// A repository that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Found {
    pub(crate) id: RepositoryId,
    pub(crate) task: Option<String>,
    pub(crate) license: Option<String>,
    /// In the last thirty days.
    pub(crate) downloads: Option<u64>,
    pub(crate) likes: Option<u64>,
    /// When it last changed, in UTC.
    pub(crate) changed: Option<String>,
    /// Whether its makers ask for something before they let one have it.
    pub(crate) gated: bool,
}

impl SortBy {
    /// As the Hub calls it.
    fn field(self) -> &'static str {
        match self {
            Self::Downloads => "downloads",
            Self::Likes => "likes",
            Self::Recent => "lastModified",
        }
    }
}

impl Hub {
    /// Looks for models or data. The second answer is whether there is more.
    pub(crate) fn search(&self, search: Search) -> Result<(Vec<Found>, bool)> {
        let Clients { facts, http } = self.clients()?;
        let has_token = http.has_token();
        let limit = search.limit.clamp(1, MOST);
        // One more says whether there is more.
        let asked = limit + 1;
        let found: Vec<Option<Found>> = match search.kind {
            RepositoryKind::Model => {
                self.ask("search the Hub for models", has_token, async move {
                    let listed = facts
                        .list_models()
                        .maybe_search(search.words)
                        .maybe_author(search.author)
                        .maybe_pipeline_tag(search.task)
                        .sort(search.sort.field())
                        .full(true)
                        .limit(asked)
                        .send()?;
                    let found = listed.map_ok(|info| {
                        Some(Found {
                            task: text(info.pipeline_tag),
                            ..found(
                                &info.id,
                                info.tags,
                                info.downloads,
                                info.likes,
                                info.last_modified,
                                info.gated,
                            )?
                        })
                    });
                    found.try_collect().await
                })?
            }
            RepositoryKind::Data => self.ask("search the Hub for data", has_token, async move {
                let task = search.task.map(|task| format!("task_categories:{task}"));
                let listed = facts
                    .list_datasets()
                    .maybe_search(search.words)
                    .maybe_author(search.author)
                    .maybe_filter(task)
                    .sort(search.sort.field())
                    .full(true)
                    .limit(asked)
                    .send()?;
                let found = listed.map_ok(|info| {
                    let task = tagged(info.tags.as_deref(), "task_categories:");
                    Some(Found {
                        task,
                        ..found(
                            &info.id,
                            info.tags,
                            info.downloads,
                            info.likes,
                            info.last_modified,
                            info.gated,
                        )?
                    })
                });
                found.try_collect().await
            })?,
        };
        let more = found.len() > limit && limit < MOST;
        // A name that can't be one of the Hub's is nothing to show.
        Ok((found.into_iter().take(limit).flatten().collect(), more))
    }
}

fn found(
    id: &str,
    tags: Option<Vec<String>>,
    downloads: Option<u64>,
    likes: Option<u64>,
    changed: Option<String>,
    gated: Option<Json>,
) -> Option<Found> {
    Some(Found {
        id: id.parse().ok()?,
        task: None,
        license: tagged(tags.as_deref(), "license:"),
        downloads,
        likes,
        changed: text(changed),
        gated: is_gated(gated.as_ref()),
    })
}

/// Whether the Hub says that a repository is gated: it says `false`, or how access is given.
fn is_gated(gated: Option<&Json>) -> bool {
    !matches!(gated, None | Some(Json::Null | Json::Bool(false)))
}

/// The value of a tag such as `license:mit`.
pub(super) fn tagged(tags: Option<&[String]>, name: &str) -> Option<String> {
    let tag = tags?.iter().find_map(|tag| tag.strip_prefix(name))?;
    Some(shown(tag))
}

/// Text from the network in one line. An empty one is none.
pub(super) fn text(text: Option<String>) -> Option<String> {
    let text = shown(&text?).replace(['\n', '\t'], " ");
    (!text.trim().is_empty()).then(|| text.trim().to_owned())
}
