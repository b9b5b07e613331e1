//! What there is on the Hub.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::Hub;
use crate::{
    store::hub_cache::names::{RepositoryId, RepositoryKind, shown},
    wire::error::Result,
};

/// How many can be asked for at once.
pub(crate) const MAX_FOUND: usize = 900;

/// How the tags of data begin that say what it is for.
const TASKS: &str = "task_categories:";

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

/// What the Hub says of a repository, in a list or alone.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Info {
    id: String,
    /// The hash of the commit that the answer is about.
    pub(super) sha: Option<String>,
    tags: Option<Vec<String>>,
    #[serde(rename = "pipeline_tag")]
    pipeline_tag: Option<String>,
    pub(super) downloads: Option<u64>,
    pub(super) likes: Option<u64>,
    pub(super) last_modified: Option<String>,
    gated: Option<Json>,
    /// Of a model: of its configs, what the Hub reads.
    pub(super) config: Option<Json>,
    /// Of a model: how many numbers it has.
    pub(super) safetensors: Option<Json>,
    /// The header of the card.
    pub(super) card_data: Option<Json>,
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
        let (kind, limit) = (search.kind, search.limit.clamp(1, MAX_FOUND));
        let (action, task) = match kind {
            RepositoryKind::Model => {
                let task = search.task.map(|task| ("pipeline_tag", task));
                ("search the Hub for models", task)
            }
            RepositoryKind::Data => {
                let task = search.task.map(|task| ("filter", format!("{TASKS}{task}")));
                ("search the Hub for data", task)
            }
        };
        // One more says whether there is more.
        let fixed = [
            ("sort", search.sort.field().to_owned()),
            ("full", true.to_string()),
            ("limit", (limit + 1).to_string()),
        ];
        let words = search.words.map(|words| ("search", words));
        let author = search.author.map(|author| ("author", author));
        let wishes = [words, author, task].into_iter().flatten();
        let query: Vec<(&str, String)> = wishes.chain(fixed).collect();
        let found: Vec<Info> = self.ask(&self.http()?, action, &[kind.plural()], &query)?;
        let more = found.len() > limit && limit < MAX_FOUND;
        // A name that can't be one of the Hub's is nothing to show.
        let found = found.into_iter().take(limit);
        Ok((found.filter_map(|it| it.found(kind)).collect(), more))
    }
}

impl Info {
    /// What it is for.
    pub(super) fn task(&self, kind: RepositoryKind) -> Option<String> {
        match kind {
            RepositoryKind::Model => text(self.pipeline_tag.clone()),
            RepositoryKind::Data => self.tagged(TASKS),
        }
    }

    /// The value of a tag such as `license:mit`.
    pub(super) fn tagged(&self, name: &str) -> Option<String> {
        let mut tags = self.tags.as_ref()?.iter();
        Some(shown(tags.find_map(|tag| tag.strip_prefix(name))?))
    }

    pub(super) fn found(self, kind: RepositoryKind) -> Option<Found> {
        Some(Found {
            id: self.id.parse().ok()?,
            task: self.task(kind),
            license: self.tagged("license:"),
            downloads: self.downloads,
            likes: self.likes,
            changed: text(self.last_modified),
            // The Hub says `false`, or how access is given.
            gated: !matches!(self.gated, None | Some(Json::Bool(false))),
        })
    }
}

/// Text from the network in one line. An empty one is none.
pub(super) fn text(text: Option<String>) -> Option<String> {
    let text = shown(&text?).replace(['\n', '\t'], " ");
    (!text.trim().is_empty()).then(|| text.trim().to_owned())
}
