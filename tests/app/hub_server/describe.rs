//! What the Hub tells of repositories: descriptions, lists of them, and trees of files.

use std::{cmp::Ordering, collections::BTreeSet};

use serde_json::{Map, Value, json};

use super::{File, Gated, Kind, Repository, Request, git_digest};

/// What `expand` may ask for, of both kinds.
const EXPANDED: &str = "author cardData createdAt disabled downloads downloadsAllTime gated lastModified likes private \
                        resourceGroup sha siblings tags trendingScore usedStorage";
const EXPANDED_OF_MODELS: &str = "baseModels childrenModelCount config evalResults gguf inference \
                                  inferenceProviderMapping library_name mask_token model-index pipeline_tag \
                                  safetensors spaces transformersInfo widgetData xetEnabled";
const EXPANDED_OF_DATASETS: &str = "citation description mainSize paperswithcode_id";

/// What is told only to those who ask for it by name.
const UNTOLD: &str = "baseModels childrenModelCount downloadsAllTime trendingScore";

/// What a list tells, and what it tells in full.
const LISTED_OF_MODELS: &str =
    "likes trendingScore private downloads tags pipeline_tag library_name createdAt modelId";
const LISTED_OF_DATASETS: &str = "author disabled gated lastModified likes trendingScore private sha description \
                                  downloads tags createdAt";
const LISTED_IN_FULL: &str = "author gated disabled lastModified sha siblings";

const SORTED: [&str; 5] = [
    "createdAt",
    "downloads",
    "lastModified",
    "likes",
    "trendingScore",
];

/// All there is to tell of a repository.
pub(super) fn describe(repository: &Repository, with_blobs: bool) -> Map<String, Value> {
    let siblings: Vec<Value> = repository
        .files
        .iter()
        .map(|file| match (with_blobs, &file.large) {
            (false, _) => json!({"rfilename": file.path}),
            (true, None) => {
                json!({"rfilename": file.path, "blobId": file.oid, "size": file.size})
            }
            (true, Some(large)) => {
                let lfs = json!({
                    "sha256": large.sha256, "size": file.size, "pointerSize": large.pointer_bytes,
                });
                json!({"rfilename": file.path, "blobId": file.oid, "size": file.size, "lfs": lfs})
            }
        })
        .collect();
    let mut all = json!({
        "_id": hub_id(repository),
        "id": repository.id,
        "private": repository.private,
        "tags": repository.tags,
        "downloads": repository.downloads,
        "likes": repository.likes,
        "trendingScore": repository.likes,
        "sha": repository.commit,
        "lastModified": repository.last_modified,
        "gated": match repository.gated {
            Gated::No => json!(false),
            Gated::Auto => json!("auto"),
            Gated::Manual => json!("manual"),
        },
        "disabled": false,
        "siblings": siblings,
        "createdAt": repository.created_at,
        "usedStorage": repository.files.iter().map(|it| it.bytes.len()).sum::<usize>(),
    });
    if let Some((author, _)) = repository.id.split_once('/') {
        all["author"] = json!(author);
    }
    if repository.kind == Kind::Model {
        all["modelId"] = json!(repository.id);
        all["spaces"] = json!([]);
    }
    if let Some(tag) = &repository.pipeline_tag {
        all["pipeline_tag"] = json!(tag);
    }
    if let Some(name) = &repository.library_name {
        all["library_name"] = json!(name);
    }
    let mut all = all.as_object().cloned().unwrap_or_default();
    all.extend(repository.info.clone());
    all
}

/// What of a description is told to who asks like this, or why nothing is.
pub(super) fn told(
    kind: Kind,
    all: Map<String, Value>,
    request: &Request,
    in_list: bool,
) -> Result<Value, String> {
    let has = |names: &str, name: &str| names.split(' ').any(|it| it == name);
    let (more, listed) = match kind {
        Kind::Model => (EXPANDED_OF_MODELS, LISTED_OF_MODELS),
        Kind::Dataset => (EXPANDED_OF_DATASETS, LISTED_OF_DATASETS),
    };
    let expand: Vec<&str> = request.query_values("expand").collect();
    let can_expand = |name: &str| has(EXPANDED, name) || has(more, name);
    if let Some(stranger) = expand.iter().find(|it| !can_expand(it)) {
        let all = format!("{EXPANDED} {more}").replace(' ', "|");
        return Err(format!(
            "Invalid option `{stranger}`: expected one of {all}"
        ));
    }
    let in_full = in_list && request.is_set("full");
    let is_told = |name: &str| match name {
        "_id" | "id" => true,
        _ if !expand.is_empty() => expand.contains(&name),
        _ if !in_list => !has(UNTOLD, name),
        "cardData" => request.is_set("cardData") || (in_full && kind == Kind::Dataset),
        "config" => request.is_set("config"),
        _ => has(listed, name) || (in_full && has(LISTED_IN_FULL, name)),
    };
    let told = all.into_iter().filter(|(name, _)| is_told(name));
    Ok(Value::Object(told.collect()))
}

/// The repositories that are searched for, in the order that is asked for, or why that can't be.
pub(super) fn search(
    mut all: Vec<Map<String, Value>>,
    request: &Request,
) -> Result<Vec<Map<String, Value>>, String> {
    let sort = request.query_value("sort").unwrap_or("trendingScore");
    if !SORTED.contains(&sort) {
        return Err(format!(
            "Invalid sort: expected one of {}",
            SORTED.join(", ")
        ));
    }
    all.retain(|it| is_wanted(it, request));
    all.sort_by(|a, b| order(&a[sort], &b[sort]).then_with(|| order(&b["id"], &a["id"])));
    if request.query_value("direction") != Some("1") {
        all.reverse();
    }
    Ok(all)
}

/// Whether a repository fits a search.
fn is_wanted(repository: &Map<String, Value>, request: &Request) -> bool {
    let text = |name: &str| {
        repository
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let id = text("id").to_lowercase();
    let has_tag = |tag: &str| {
        let tags = repository["tags"].as_array().into_iter().flatten();
        let names = ["pipeline_tag", "library_name"].map(text);
        tags.filter_map(Value::as_str)
            .chain(names)
            .any(|it| it == tag)
    };
    let search = request
        .query_values("search")
        .flat_map(str::split_whitespace);
    search.map(str::to_lowercase).all(|word| id.contains(&word))
        && request
            .query_values("author")
            .all(|it| it.eq_ignore_ascii_case(text("author")))
        && request
            .query_values("filter")
            .flat_map(|it| it.split(','))
            .all(has_tag)
        && request
            .query_values("pipeline_tag")
            .all(|it| it == text("pipeline_tag"))
}

fn order(a: &Value, b: &Value) -> Ordering {
    let number = |it: &Value| it.as_f64().unwrap_or_default();
    let text = |it: &Value| it.as_str().map(str::to_owned);
    number(a)
        .total_cmp(&number(b))
        .then_with(|| text(a).cmp(&text(b)))
}

/// The entries of a folder, or of all that is below it: first folders, then files.
pub(super) fn tree(repository: &Repository, folder: &str, is_recursive: bool) -> Vec<Value> {
    let prefix = match folder {
        "" => String::new(),
        folder => format!("{folder}/"),
    };
    let is_inside = |path: &str| {
        let rest = path.strip_prefix(&prefix);
        rest.is_some_and(|it| is_recursive || !it.contains('/'))
    };
    let folders = folders(repository);
    let folders = folders.iter().filter(|it| is_inside(it)).map(|path| {
        let oid = git_digest(path.as_bytes());
        json!({"type": "directory", "oid": oid, "size": 0, "path": path})
    });
    let files = repository.files.iter().filter(|it| is_inside(&it.path));
    folders.chain(files.map(tree_entry)).collect()
}

/// Every folder that a file lies in, or a folder of it.
fn folders(repository: &Repository) -> BTreeSet<&str> {
    let paths = repository.files.iter().map(|it| it.path.as_str());
    paths
        .flat_map(|path| path.match_indices('/').map(|(end, _)| &path[..end]))
        .filter(|folder| !folder.is_empty())
        .collect()
}

fn tree_entry(file: &File) -> Value {
    match &file.large {
        None => json!({"type": "file", "oid": file.oid, "size": file.size, "path": file.path}),
        Some(large) => json!({
            "type": "file",
            "oid": file.oid,
            "size": file.size,
            "lfs": {"oid": large.sha256, "size": file.size, "pointerSize": large.pointer_bytes},
            "path": file.path,
        }),
    }
}

/// The name of a repository in the Hub's own database.
pub(super) fn hub_id(repository: &Repository) -> String {
    let mut id = git_digest(repository.id.as_bytes());
    id.truncate(24);
    id
}
