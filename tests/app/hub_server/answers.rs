//! What the Hub answers: who may see what, where things are, and files.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use super::{File, Host, Kind, Repository, Request, Settings, State, git_digest, http::Answer};

/// A request that is being answered. A refusal is an answer too: it comes back as an error.
struct Asking<'a> {
    state: &'a State,
    settings: &'a Settings,
    request: &'a Request,
    /// Whether somebody asks that the Hub knows.
    is_known: bool,
}

type Answered = Result<Answer, Answer>;

pub(super) fn answer(state: &State, request: &Request) -> Answer {
    let asking = Asking {
        state,
        settings: &state.settings(),
        request,
        is_known: request.header("authorization").is_some(),
    };
    let answered = match request.host {
        Host::Cdn => asking.stored_file(),
        Host::Api => asking.check_token().and_then(|()| asking.route()),
    };
    answered.unwrap_or_else(|refusal| refusal)
}

impl Asking<'_> {
    /// A file on the other host. Whoever has its address may have it.
    fn stored_file(&self) -> Answered {
        let name = self.request.url.path().rsplit('/').next();
        let mut files = self
            .settings
            .repositories
            .iter()
            .flat_map(|(_, it)| &it.files);
        let file = files.find(|file| file.sha256.as_deref() == name);
        let file = file.filter(|_| self.request.query("Signature").is_some());
        file.map(bytes_of)
            .ok_or_else(|| Answer::new(403, *b"<Error/>"))
    }

    /// A token that nobody has is refused, even where none is needed.
    fn check_token(&self) -> Result<(), Answer> {
        let settings = self.settings;
        let mut known = [&settings.token, &settings.token_without_access].into_iter();
        match !self.is_known || known.any(|token| self.has(token)) {
            true => Ok(()),
            false => Err(refusal(
                401,
                "",
                "Invalid credentials in Authorization header",
            )),
        }
    }

    fn has(&self, token: &Option<String>) -> bool {
        let sent = self.request.header("authorization");
        let sent = sent.and_then(|it| it.strip_prefix("Bearer "));
        sent.is_some() && sent == token.as_deref()
    }

    fn route(&self) -> Answered {
        let parts: Vec<&str> = self.request.url.path().split('/').skip(1).collect();
        match parts.as_slice() {
            ["api", "whoami-v2"] if self.is_known => Ok(json_answer(
                &json!({"name": "tester", "fullname": "Tess Tester"}),
            )),
            ["api", "whoami-v2"] => Err(refusal(401, "", "Invalid username or password.")),
            ["api", "models"] => Ok(self.list(Kind::Model)),
            ["api", "datasets"] => Ok(self.list(Kind::Dataset)),
            ["api", "resolve-cache", kind, maker, name, commit, path @ ..] => {
                self.file(kind, [maker, name], commit, path, true)
            }
            ["api", kind, maker, name, "revision", revision] => {
                let (commit, repository) = self.find(kind, [maker, name], revision)?;
                Ok(json_answer(&told(commit, repository)))
            }
            ["api", kind, maker, name, "tree", revision] => {
                let (_, repository) = self.find(kind, [maker, name], revision)?;
                Ok(self.page(tree(repository)))
            }
            ["datasets", maker, name, "resolve", revision, path @ ..] => {
                self.file("datasets", [maker, name], revision, path, false)
            }
            [maker, name, "resolve", revision, path @ ..] => {
                self.file("models", [maker, name], revision, path, false)
            }
            _ => Err(refusal(
                404,
                "",
                "Sorry, we can’t find the page you are looking for.",
            )),
        }
    }

    /// The repositories that are searched for, the newest first.
    fn list(&self, kind: Kind) -> Answer {
        let mut seen = BTreeSet::new();
        let words = self
            .request
            .query("search")
            .unwrap_or_default()
            .to_lowercase();
        let task = self.request.query("pipeline_tag").map(Value::from);
        let newest = self.settings.repositories.iter().rev();
        let found = newest.filter(|(_, it)| {
            let id = it.id.to_lowercase();
            it.kind == kind
                && words.split_whitespace().all(|word| id.contains(word))
                && task
                    .as_ref()
                    .is_none_or(|task| it.about["pipeline_tag"] == *task)
                && seen.insert(&it.id)
        });
        let found: Vec<Value> = found.map(|(commit, it)| told(commit, it)).collect();
        json_answer(&json!(found))
    }

    fn file(
        &self,
        kind: &str,
        id: [&str; 2],
        revision: &str,
        path: &[&str],
        is_cache: bool,
    ) -> Answered {
        let (commit, repository) = self.find(kind, id, revision)?;
        self.check_gate(repository)?;
        let path = path.join("/");
        let Some(file) = repository.files.iter().find(|it| it.path == path) else {
            return Err(refusal(404, "EntryNotFound", "Entry not found"));
        };
        let id = &repository.id;
        Ok(if let Some(sha256) = &file.sha256 {
            let cdn = &self.state.cdn;
            redirect(format!(
                "{cdn}/xet-bridge-us/{id}/{sha256}?Signature=abc&Expires=1"
            ))
        } else if self.settings.redirects_small_files && !is_cache {
            redirect(format!("/api/resolve-cache/{kind}/{id}/{commit}/{path}"))
        } else {
            bytes_of(file)
        })
    }

    /// The repository at a revision, and its commit.
    fn find(
        &self,
        kind: &str,
        id: [&str; 2],
        revision: &str,
    ) -> Result<(&str, &Repository), Answer> {
        let id = id.join("/");
        let all = self.settings.repositories.iter().rev();
        let mut commits = all
            .filter(|(_, it)| plural(it.kind) == kind && it.id == id)
            .peekable();
        if commits.peek().is_none() {
            // To somebody whom it does not know, the Hub does not even say that there is nothing.
            return Err(match self.is_known {
                true => refusal(404, "RepoNotFound", "Repository not found"),
                false => refusal(401, "", "Invalid username or password."),
            });
        }
        let found = commits.find(|(commit, _)| revision == "main" || commit == revision);
        let found = found.map(|(commit, it)| (commit.as_str(), &**it));
        found.ok_or_else(|| refusal(404, "RevisionNotFound", "Invalid rev id"))
    }

    fn check_gate(&self, repository: &Repository) -> Result<(), Answer> {
        if !repository.gated || self.has(&self.settings.token) {
            return Ok(());
        }
        let status = if self.is_known { 403 } else { 401 };
        Err(refusal(status, "GatedRepo", "Access to it is restricted."))
    }

    /// A page of a list, and where the next one is.
    fn page(&self, mut all: Vec<Value>) -> Answer {
        let limit = self.settings.tree_page.unwrap_or(1000);
        let cursor = self.request.query("cursor").unwrap_or_default();
        // The sign at the end is there to be lost by those who do not encode what they send.
        let start = cursor.trim_end_matches('=').parse().unwrap_or(0);
        let mut page = all.split_off(all.len().min(start));
        let has_more = page.len() > limit;
        page.truncate(limit);
        let answer = json_answer(&json!(page));
        match has_more {
            false => answer,
            true => {
                let next = self
                    .request
                    .with_query("cursor", &format!("{}=", start + limit));
                answer.with("Link", format!("<{next}>; rel=\"next\""))
            }
        }
    }
}

/// What is told of a repository.
fn told(commit: &str, repository: &Repository) -> Value {
    let mut told = repository.about.clone();
    told["id"] = json!(repository.id);
    told["sha"] = json!(commit);
    told["gated"] = if repository.gated {
        json!("manual")
    } else {
        json!(false)
    };
    told
}

/// Every folder that a file lies in, and every file.
fn tree(repository: &Repository) -> Vec<Value> {
    let paths = repository.files.iter().map(|it| it.path.as_str());
    let folders: BTreeSet<&str> = paths
        .flat_map(|path| path.match_indices('/').map(|(end, _)| &path[..end]))
        .collect();
    let folders = folders.into_iter().map(|path| {
        let oid = git_digest(path.as_bytes());
        json!({"type": "directory", "oid": oid, "size": 0, "path": path})
    });
    let files = repository.files.iter().map(|file| {
        let mut entry =
            json!({"type": "file", "oid": file.oid, "size": file.size, "path": file.path});
        if let Some(sha256) = &file.sha256 {
            entry["lfs"] = json!({"oid": sha256, "size": file.size, "pointerSize": 134});
        }
        entry
    });
    folders.chain(files).collect()
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Model => "models",
        Kind::Dataset => "datasets",
    }
}

fn bytes_of(file: &File) -> Answer {
    Answer {
        is_file: true,
        ..Answer::new(200, Arc::clone(&file.bytes))
    }
}

fn json_answer(value: &Value) -> Answer {
    Answer::new(200, value.to_string().into_bytes()).with("Content-Type", "application/json")
}

fn redirect(location: String) -> Answer {
    Answer::new(307, Vec::new()).with("Location", location)
}

fn refusal(status: u16, code: &str, message: &str) -> Answer {
    let body = json!({"error": message}).to_string().into_bytes();
    let answer = Answer::new(status, body).with("X-Error-Message", message);
    match code {
        "" => answer,
        code => answer.with("X-Error-Code", code),
    }
}
