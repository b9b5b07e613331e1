//! What the Hub answers: who may see what, where things are, and files.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{
    Gated, Host, Kind, Repository, Request, Settings, State,
    describe::{describe, hub_id, search, told, tree},
    hex,
    http::{Answer, decode, encode, encode_query},
};

/// How long an address of the other host is good for.
const LINK_SECONDS: u64 = 3600;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    Nobody,
    WithoutAccess,
    WithAccess,
}

/// A request that is being answered. A refusal is an answer too: it comes back as an error.
struct Asking<'a> {
    state: &'a State,
    settings: &'a Settings,
    request: &'a Request,
    caller: Caller,
    /// Whether problems are told as JSON.
    speaks_json: bool,
}

type Answered = Result<Answer, Answer>;

pub(super) fn answer(state: &State, request: &Request) -> Answer {
    let settings = state.settings();
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Answer::new(405, Vec::new()).with("Allow", "GET, HEAD");
    }
    if request.host == Host::Cdn {
        return stored_file(&settings, request);
    }
    let mut asking = Asking {
        state,
        settings: &settings,
        request,
        caller: Caller::Nobody,
        speaks_json: request.path.starts_with("/api/"),
    };
    let answered = asking.find_caller().and_then(|()| asking.route());
    let answer = answered.unwrap_or_else(|refusal| refusal);
    answer.with("X-Request-Id", "Root=1-00000000-000000000000000000000000")
}

/// A file on the other host. Whoever has its address may have it, for a while.
fn stored_file(settings: &Settings, request: &Request) -> Answer {
    let refusal = |status, code: &str| {
        let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
        Answer::new(status, body.into_bytes()).with("Content-Type", "application/xml")
    };
    let expires = request.query_value("Expires").unwrap_or_default();
    let is_late = expires.parse().is_ok_and(|it: u64| it < now());
    let signature = signature(&request.path, expires);
    if is_late || request.query_value("Signature") != Some(&signature) {
        return refusal(403, "AccessDenied");
    }
    let name = request.path.rsplit('/').next();
    let mut files = settings.repositories.iter().flat_map(|it| &it.files);
    let file = files.find(|file| file.large.as_ref().map(|it| it.name.as_str()) == name);
    let (Some(file), Some(name)) = (file, name) else {
        return refusal(404, "NoSuchKey");
    };
    let mut answer = Answer::new(200, Arc::clone(&file.bytes))
        .with("Content-Type", "application/octet-stream")
        .with("Accept-Ranges", "bytes")
        .with("ETag", format!("\"{name}\""));
    answer.is_file = true;
    answer
}

impl Asking<'_> {
    /// Looks at the token. One that nobody has is refused, even where none is needed.
    fn find_caller(&mut self) -> Result<(), Answer> {
        let Some(authorization) = self.request.header("authorization") else {
            return Ok(());
        };
        let token = authorization.strip_prefix("Bearer ");
        let is = |other: &Option<String>| token.is_some() && token == other.as_deref();
        self.caller = if is(&self.settings.token) {
            Caller::WithAccess
        } else if is(&self.settings.token_without_access) {
            Caller::WithoutAccess
        } else {
            return Err(self.refusal(401, "", "Invalid credentials in Authorization header"));
        };
        Ok(())
    }

    fn route(&self) -> Answered {
        let parts: Vec<String> = self.request.path.split('/').skip(1).map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["api", "whoami-v2"] => self.user(),
            ["api", "models"] => self.list(Kind::Model),
            ["api", "datasets"] => self.list(Kind::Dataset),
            ["api", "resolve-cache", kind, rest @ ..] => {
                let (id, rest) = split_id(rest, |_| false);
                match rest {
                    [commit, path @ ..] => self.file(kind_of(kind), &id, commit, path, true),
                    [] => Err(self.no_page()),
                }
            }
            ["api", kind @ ("models" | "datasets"), rest @ ..] => {
                let kind = kind_of(kind);
                let (id, rest) = split_id(rest, |it| matches!(it, "revision" | "tree"));
                match rest {
                    [] => self.repository(kind, &id, "main"),
                    ["revision", revision] => self.repository(kind, &id, revision),
                    ["tree", revision, under @ ..] => self.tree(kind, &id, revision, under),
                    _ => Err(self.no_page()),
                }
            }
            rest => {
                let (kind, rest) = match rest {
                    ["datasets", rest @ ..] => (Kind::Dataset, rest),
                    _ => (Kind::Model, rest),
                };
                match split_id(rest, |it| it == "resolve") {
                    (id, ["resolve", revision, path @ ..]) => {
                        self.file(kind, &id, revision, path, false)
                    }
                    _ => Err(self.no_page()),
                }
            }
        }
    }

    fn user(&self) -> Answered {
        if self.caller == Caller::Nobody {
            return Err(self.refusal(401, "", "Invalid username or password."));
        }
        Ok(json_answer(&json!({
            "type": "user",
            "id": "64f0c0ffee64f0c0ffee64f0",
            "name": "tester",
            "fullname": "Tess Tester",
            "isPro": false,
            "avatarUrl": "/avatars/0000.svg",
            "orgs": [],
            "auth": {
                "type": "access_token",
                "accessToken": {
                    "displayName": "test",
                    "role": "read",
                    "createdAt": "2026-01-01T00:00:00.000Z",
                },
            },
        })))
    }

    fn list(&self, kind: Kind) -> Answered {
        let mut seen = BTreeSet::new();
        let newest = self.settings.repositories.iter().rev();
        let newest = newest
            .filter(|it| it.kind == kind && self.may_see(it) && seen.insert(&it.id))
            .map(|it| describe(it, false));
        let found = search(newest.collect(), self.request);
        let (page, next) = self.page(found.map_err(|it| self.refusal(400, "", &it))?, usize::MAX);
        let page = page.into_iter().map(|it| self.told(kind, it, true));
        let page = page.collect::<Result<Vec<Value>, Answer>>()?;
        Ok(next(json_answer(&json!(page))))
    }

    fn repository(&self, kind: Kind, id: &str, revision: &str) -> Answered {
        let repository = self.find(kind, id, revision)?;
        let all = describe(&repository, self.request.is_set("blobs"));
        Ok(json_answer(&self.told(kind, all, false)?))
    }

    fn told(&self, kind: Kind, all: Map<String, Value>, in_list: bool) -> Result<Value, Answer> {
        let told = told(kind, all, self.request, in_list);
        told.map_err(|message| self.refusal(400, "", &message))
    }

    fn tree(&self, kind: Kind, id: &str, revision: &str, under: &[&str]) -> Answered {
        let repository = self.find(kind, id, revision)?;
        let folder = under.join("/");
        let entries = tree(&repository, &folder, self.request.is_set("recursive"));
        if entries.is_empty() && !folder.is_empty() {
            let message = format!("{folder} does not exist on \"{revision}\"");
            return Err(self.refusal(404, "EntryNotFound", &message));
        }
        let (page, next) = self.page(entries, self.settings.tree_page);
        Ok(next(json_answer(&json!(page))))
    }

    fn file(
        &self,
        kind: Kind,
        id: &str,
        revision: &str,
        path: &[&str],
        is_cache: bool,
    ) -> Answered {
        let repository = self.find(kind, id, revision)?;
        self.check_gate(&repository)?;
        let path = path.join("/");
        let with_commit = |answer: Answer| answer.with("X-Repo-Commit", &repository.commit);
        let Some(file) = repository.files.iter().find(|it| it.path == path) else {
            return Err(with_commit(self.refusal(
                404,
                "EntryNotFound",
                "Entry not found",
            )));
        };
        let etag = format!("\"{}\"", file.etag());
        let name = encode(path.rsplit('/').next().unwrap_or_default());
        let disposition = format!("inline; filename*=UTF-8''{name}; filename=\"{name}\";");
        let answer = if self.request.header("if-none-match") == Some(&etag) {
            Answer::new(304, Vec::new()).with("ETag", etag)
        } else if let Some(large) = &file.large {
            let location = self.link(&repository, &large.name, &disposition);
            redirect(302, &location)
                .with("X-Linked-Size", file.bytes.len().to_string())
                .with("X-Linked-ETag", etag)
                .with("Accept-Ranges", "bytes")
                .with("Cache-Control", "no-store")
        } else if self.settings.redirects_small_files && !is_cache {
            let location = format!(
                "/api/resolve-cache/{}/{}/{}/{}?{}=&etag={}",
                plural(kind),
                repository.id,
                repository.commit,
                path.split('/').map(encode).collect::<Vec<_>>().join("/"),
                encode(&self.request.path),
                encode(&etag),
            );
            redirect(307, &location)
                .with("X-Linked-ETag", etag)
                .with("Accept-Ranges", "bytes")
                .with("Content-Disposition", disposition)
        } else {
            let mut answer = Answer::new(200, Arc::clone(&file.bytes))
                .with("Content-Type", "text/plain; charset=utf-8")
                .with("Content-Disposition", disposition)
                .with("Accept-Ranges", "bytes")
                .with("ETag", etag);
            answer.is_file = true;
            answer
        };
        Ok(with_commit(answer))
    }

    /// The address of a file on the other host.
    fn link(&self, repository: &Repository, name: &str, disposition: &str) -> String {
        let path = format!("/xet-bridge-us/{}/{name}", hub_id(repository));
        let expires = (now() + LINK_SECONDS).to_string();
        let query = [
            ("X-Xet-Cas-Uid", "public".to_owned()),
            ("response-content-disposition", disposition.to_owned()),
            ("Signature", signature(&path, &expires)),
            ("Expires", expires),
            ("Key-Pair-Id", "K0000000000000".to_owned()),
        ];
        let query = query.map(|(name, value)| (name.to_owned(), value));
        format!("{}{path}?{}", self.state.cdn, encode_query(&query))
    }

    /// The repository at a revision, if the caller may know of it.
    fn find(&self, kind: Kind, id: &str, revision: &str) -> Result<Arc<Repository>, Answer> {
        let all = self.settings.repositories.iter().rev();
        let mut all = all.filter(|it| it.kind == kind && self.may_see(it));
        let commits: Vec<&Arc<Repository>> = all.clone().filter(|it| it.id == id).collect();
        if commits.is_empty() {
            let is_meant = |other: &String| other.eq_ignore_ascii_case(id);
            let moved = all.find(|it| is_meant(&it.id) || it.former_ids.iter().any(is_meant));
            return Err(match (moved, self.caller) {
                (Some(moved), _) => redirect(307, &self.request.target.replacen(id, &moved.id, 1)),
                (None, Caller::Nobody) => self.refusal(401, "", "Invalid username or password."),
                (None, _) => self.refusal(404, "RepoNotFound", "Repository not found"),
            });
        }
        let is_commit = |it: &Repository| revision.len() >= 7 && it.commit.starts_with(revision);
        let found = commits
            .iter()
            .find(|it| it.refs.iter().any(|name| name == revision) || is_commit(it));
        found.map(|it| Arc::clone(it)).ok_or_else(|| {
            let message = format!("Invalid rev id: {revision}");
            self.refusal(404, "RevisionNotFound", &message)
        })
    }

    fn may_see(&self, repository: &Repository) -> bool {
        !repository.private || self.caller == Caller::WithAccess
    }

    fn check_gate(&self, repository: &Repository) -> Result<(), Answer> {
        if repository.gated == Gated::No {
            return Ok(());
        }
        let (what, page) = match repository.kind {
            Kind::Model => ("model", "https://huggingface.co"),
            Kind::Dataset => ("dataset", "https://huggingface.co/datasets"),
        };
        let id = &repository.id;
        let (status, message) = match self.caller {
            Caller::WithAccess => return Ok(()),
            Caller::Nobody => (
                401,
                format!(
                    "Access to {what} {id} is restricted. You must have access to it and be authenticated to access \
                     it. Please log in."
                ),
            ),
            Caller::WithoutAccess => (
                403,
                format!(
                    "Access to {what} {id} is restricted and you are not in the authorized list. Visit {page}/{id} to \
                     ask for access."
                ),
            ),
        };
        Err(self.refusal(status, "GatedRepo", &message))
    }

    /// A page of something, and what tells the answer where the next one is.
    fn page<T>(&self, mut all: Vec<T>, most: usize) -> (Vec<T>, impl FnOnce(Answer) -> Answer) {
        let limit = self.request.query_value("limit");
        let limit = limit.and_then(|it| it.parse().ok()).unwrap_or(1000);
        let limit = limit.clamp(1, most.max(1));
        let cursor = self.request.query_value("cursor").unwrap_or_default();
        // The sign at the end is there to be lost by those who do not encode what they send.
        let start = cursor.trim_end_matches('=').parse().unwrap_or(0);
        let mut page = all.split_off(all.len().min(start));
        let has_more = page.len() > limit;
        page.truncate(limit);
        let next = has_more.then(|| {
            let mut query = self.request.query.clone();
            query.retain(|(name, _)| name != "cursor");
            query.push(("cursor".to_owned(), format!("{}=", start + limit)));
            let (host, path) = (&self.state.endpoint, &self.request.path);
            format!("<{host}{path}?{}>; rel=\"next\"", encode_query(&query))
        });
        (page, |answer| match next {
            Some(next) => answer.with("Link", next),
            None => answer,
        })
    }

    fn no_page(&self) -> Answer {
        self.refusal(
            404,
            "",
            "Sorry, we can't find the page you are looking for.",
        )
    }

    fn refusal(&self, status: u16, code: &str, message: &str) -> Answer {
        let (kind, body) = match self.speaks_json {
            true => ("application/json", json!({"error": message}).to_string()),
            false => ("text/plain", message.to_owned()),
        };
        let mut answer = Answer::new(status, body.into_bytes())
            .with("Content-Type", format!("{kind}; charset=utf-8"))
            .with("X-Error-Message", message);
        if !code.is_empty() {
            answer = answer.with("X-Error-Code", code);
        }
        if status == 401 {
            let realm = "Bearer realm=\"Authentication required\", charset=\"UTF-8\"";
            answer = answer.with("WWW-Authenticate", realm);
        }
        answer
    }
}

/// Splits what comes after the kind into an id, of two parts or one, and the rest.
fn split_id<'a, 'b>(
    parts: &'a [&'b str],
    ends_id: impl Fn(&str) -> bool,
) -> (String, &'a [&'b str]) {
    let ends_early = parts.get(1).is_some_and(|it| ends_id(it));
    let length = if ends_early { 1 } else { parts.len().min(2) };
    let (id, rest) = parts.split_at(length);
    (id.join("/"), rest)
}

fn kind_of(plural: &str) -> Kind {
    match plural {
        "datasets" => Kind::Dataset,
        _ => Kind::Model,
    }
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Model => "models",
        Kind::Dataset => "datasets",
    }
}

fn json_answer(value: &Value) -> Answer {
    Answer::new(200, value.to_string().into_bytes())
        .with("Content-Type", "application/json; charset=utf-8")
}

fn redirect(status: u16, location: &str) -> Answer {
    let body = format!("Redirecting to {location}");
    Answer::new(status, body.into_bytes())
        .with("Content-Type", "text/plain; charset=utf-8")
        .with("Location", location)
}

fn signature(path: &str, expires: &str) -> String {
    hex(&Sha256::digest(format!("{path} {expires}")))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| it.as_secs())
}
