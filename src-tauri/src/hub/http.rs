//! Asking the Hub: time limits, what is tried again, and what an answer that is no answer means for a person.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hf_hub::HFError;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue, LINK, RANGE, RETRY_AFTER},
    redirect::{Attempt, Policy},
};
use serde_json::Value as Json;

use super::token::Token;
use crate::{
    store::hub_cache::names::{RepositoryId, RepositoryKind, shown},
    wire::error::{AppError, Code},
};

/// How often a question is asked before it is given up.
pub(super) const TRIES: usize = 3;
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection may be silent.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
/// How many addresses may follow one another.
const MOST_REDIRECTS: usize = 8;
/// The longest that a server may have us wait.
const MOST_WAIT: Duration = Duration::from_secs(300);
/// The longest answer that is not a file.
const MOST_JSON_BYTES: usize = 64 << 20;
/// The longest list of files, in answers of a thousand each.
const MOST_PAGES: usize = 100;
/// What the Hub says of itself in an error is cut after so many letters.
const MOST_WORDS: usize = 300;

/// One way to ask for files and lists.
#[derive(Clone)]
pub(super) struct Http {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    endpoint: Url,
    token: Option<Token>,
}

/// Why an answer did not come, and whether to ask again.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It may work in a moment. The time is how long the server asks to wait, if it does.
    Passing(AppError, Option<Duration>),
    /// It won't.
    Lasting(AppError),
}

impl Trouble {
    /// What a person is told.
    pub(super) fn error(self) -> AppError {
        let (Self::Passing(error, _) | Self::Lasting(error)) = self;
        error
    }
}

impl From<AppError> for Trouble {
    fn from(error: AppError) -> Self {
        Self::Lasting(error)
    }
}

impl Http {
    /// A way to ask a Hub.
    pub(super) fn new(endpoint: &str, token: Option<Token>) -> Result<Self, AppError> {
        let wrong = |words: &str| {
            AppError::invalid(format!(
                "HF_ENDPOINT is no address of a Hub: {words}: `{endpoint}`"
            ))
            .with_hint("it looks like https://huggingface.co")
        };
        let url = Url::parse(endpoint).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong("it must begin with https:// or http://"));
        }
        let client = Client::builder()
            .user_agent(concat!("anneal/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .redirect(Policy::custom(redirect))
            .build();
        let client = client
            .map_err(|error| AppError::failed(format!("could not set up the network: {error}")))?;
        Ok(Self {
            shared: Arc::new(Shared {
                client,
                endpoint: url,
                token,
            }),
        })
    }

    /// For others who ask the same Hub.
    pub(super) fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Whether it asks with a token.
    pub(super) fn has_token(&self) -> bool {
        self.shared.token.is_some()
    }

    /// The address of a file. A name that is no path of a repository has none.
    pub(super) fn file_url(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        commit: &str,
        path: &str,
    ) -> Url {
        let mut url = self.shared.endpoint.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
            if kind == RepositoryKind::Data {
                segments.push(kind.plural());
            }
            segments
                .extend(id.as_str().split('/'))
                .push("resolve")
                .push(commit)
                .extend(path.split('/'));
        }
        url
    }

    /// Asks for a file from some byte on, to some byte or its end. Any answer but an error is returned.
    pub(super) async fn file(
        &self,
        action: &str,
        url: &Url,
        from: u64,
        to: Option<u64>,
    ) -> Result<Response, Trouble> {
        let mut headers = HeaderMap::new();
        if from > 0 || to.is_some() {
            let to = to.map(|to| to.to_string()).unwrap_or_default();
            let range = HeaderValue::from_str(&format!("bytes={from}-{to}"));
            headers.insert(
                RANGE,
                range.map_err(|error| AppError::failed(error.to_string()))?,
            );
        }
        self.get(action, url, headers).await
    }

    /// The beginning of a small file, whole or cut, tried a few times.
    pub(super) async fn beginning(
        &self,
        action: &str,
        url: &Url,
        most: usize,
    ) -> Result<Vec<u8>, Trouble> {
        let ask = || async {
            let response = self.get(action, url, HeaderMap::new()).await?;
            Ok((self.body(action, response, most).await?, ()))
        };
        again(ask).await.map(|(bytes, ())| bytes)
    }

    /// Some bytes of a file, tried a few times. A server that knows no ranges is an error.
    pub(super) async fn range(
        &self,
        action: &str,
        url: &Url,
        from: u64,
        length: usize,
    ) -> Result<Vec<u8>, Trouble> {
        let to = from + length as u64 - 1;
        let ask = || async {
            let response = self.file(action, url, from, Some(to)).await?;
            if response.status() != StatusCode::PARTIAL_CONTENT && from > 0 {
                let words = format!("could not {action}: the server sends no parts of files");
                return Err(AppError::failed(words).into());
            }
            self.body(action, response, length).await
        };
        again(ask).await
    }

    /// All files of a revision, as the Hub lists them.
    pub(super) async fn tree(
        &self,
        action: &str,
        kind: RepositoryKind,
        id: &RepositoryId,
        commit: &str,
    ) -> Result<Vec<Json>, Trouble> {
        let mut url = self.shared.endpoint.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
            segments
                .extend(["api", kind.plural()])
                .extend(id.as_str().split('/'))
                .push("tree")
                .push(commit);
        }
        url.set_query(Some("recursive=true"));
        let mut entries = Vec::new();
        let mut next = Some(url);
        for _ in 0..MOST_PAGES {
            let Some(url) = next else {
                return Ok(entries);
            };
            let ask = || async {
                let response = self.get(action, &url, HeaderMap::new()).await?;
                // Whoever answers could name any address; the token goes to the Hub alone.
                let next =
                    next_page(response.headers()).filter(|next| next.origin() == url.origin());
                let bytes = self.body(action, response, MOST_JSON_BYTES).await?;
                let page: Vec<Json> = serde_json::from_slice(&bytes).map_err(|error| {
                    no_hub(action, &format!("the answer is no list of files: {error}"))
                })?;
                Ok((page, next))
            };
            let (page, following) = again(ask).await?;
            entries.extend(page);
            next = following;
        }
        Err(AppError::failed(format!(
            "could not {action}: `{id}` has more than {} files",
            entries.len()
        ))
        .into())
    }

    async fn get(
        &self,
        action: &str,
        url: &Url,
        mut headers: HeaderMap,
    ) -> Result<Response, Trouble> {
        if let Some(token) = &self.shared.token {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.secret()));
            if let Ok(mut value) = value {
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
        }
        let sent = self
            .shared
            .client
            .get(url.clone())
            .headers(headers)
            .send()
            .await;
        let response = sent.map_err(|error| self.unanswered(action, &error))?;
        match response.status().is_success()
            || response.status() == StatusCode::RANGE_NOT_SATISFIABLE
        {
            true => Ok(response),
            false => Err(self.refused(action, response).await),
        }
    }

    /// The bytes of an answer; one that is longer than `most` is cut.
    async fn body(
        &self,
        action: &str,
        mut response: Response,
        most: usize,
    ) -> Result<Vec<u8>, Trouble> {
        let mut bytes = Vec::new();
        while bytes.len() < most {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    bytes.extend_from_slice(&chunk[..chunk.len().min(most - bytes.len())])
                }
                Ok(None) => break,
                Err(error) => return Err(self.unanswered(action, &error)),
            }
        }
        Ok(bytes)
    }

    /// A connection that did not come about, or ended.
    pub(super) fn unanswered(&self, action: &str, error: &reqwest::Error) -> Trouble {
        let host = self.shared.endpoint.host_str().unwrap_or_default();
        let error_words = cause(error);
        let words = match error {
            error if error.is_redirect() => {
                return no_hub(action, &format!("the server leads nowhere: {error_words}")).into();
            }
            error if error.is_connect() => {
                return Trouble::Passing(unreachable(action, host, &error_words), None);
            }
            error if error.is_timeout() => format!("nothing came for {} s", SILENCE.as_secs()),
            _ => format!("the connection ended: {error_words}"),
        };
        Trouble::Passing(
            AppError::failed(format!("could not {action}: {words}")),
            None,
        )
    }

    /// An answer that says no.
    async fn refused(&self, action: &str, response: Response) -> Trouble {
        let status = response.status();
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let (code, message) = (header("x-error-code"), header("x-error-message"));
        let wait = header(RETRY_AFTER.as_str()).and_then(|value| value.trim().parse().ok());
        let wait = wait.map(|seconds| Duration::from_secs(seconds).min(MOST_WAIT));
        let error = refusal_of(
            action,
            status,
            code.as_deref(),
            message.as_deref(),
            self.has_token(),
        );
        match is_passing(status) {
            true => Trouble::Passing(error, wait),
            false => Trouble::Lasting(error),
        }
    }
}

/// Asks again, a few times, with growing pauses.
async fn again<T, F>(ask: impl Fn() -> F) -> Result<T, Trouble>
where
    F: Future<Output = Result<T, Trouble>>,
{
    let mut failed = 0;
    loop {
        match ask().await {
            Err(Trouble::Passing(_, wait)) if failed + 1 < TRIES => {
                failed += 1;
                tokio::time::sleep(pause(failed, wait.filter(|it| it.as_secs() < 10))).await;
            }
            answer => return answer,
        }
    }
}

/// How long to wait after so many failures in a row: twice as long each time, up to half a minute, and not all who wait at
/// the same moment.
pub(super) fn pause(failures: usize, asked: Option<Duration>) -> Duration {
    if let Some(asked) = asked {
        return asked;
    }
    let whole = Duration::from_millis(500 << failures.min(6)).min(Duration::from_secs(30));
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |it| it.subsec_nanos());
    whole.mul_f64(0.5 + 0.5 * f64::from(nanos % 1000) / 1000.0)
}

/// What a person learns when the library that asks for facts fails.
pub(super) fn refusal(action: &str, endpoint: &str, has_token: bool, error: &HFError) -> AppError {
    let host = endpoint.split("://").last().unwrap_or(endpoint);
    let context = match error {
        HFError::Http { context }
        | HFError::AuthRequired { context }
        | HFError::Forbidden { context }
        | HFError::RateLimited { context, .. }
        | HFError::RepoNotFound {
            context: Some(context),
            ..
        }
        | HFError::RevisionNotFound {
            context: Some(context),
            ..
        } => context,
        HFError::Request { source, .. } if source.is_connect() || source.is_timeout() => {
            return unreachable(action, host, &cause(source));
        }
        HFError::Request { source, .. } if source.is_decode() => {
            return no_hub(
                action,
                &format!("the answer is not what the Hub sends: {}", cause(source)),
            );
        }
        // What the library says may hold an address with a signature, so only the innermost of its words are kept.
        HFError::Request { source, .. } => {
            return AppError::failed(format!("could not {action}: {}", cause(source)));
        }
        HFError::Json(error) => {
            return no_hub(
                action,
                &format!("the answer is not what the Hub sends: {error}"),
            );
        }
        _ => return no_hub(action, "the answer is not what the Hub sends"),
    };
    let (code, message) = (
        context.error_code.as_deref(),
        context.server_message.as_deref(),
    );
    refusal_of(action, context.status, code, message, has_token)
}

/// The error when something answers that is no Hub.
fn no_hub(action: &str, problem: &str) -> AppError {
    AppError::failed(format!("could not {action}: {problem}"))
        .with_hint("look whether something stands between, such as a page to log in to a network, and at HF_ENDPOINT")
}

/// The error when nobody is to be asked.
pub(super) fn switched_off() -> AppError {
    AppError {
        code: Code::Offline,
        ..AppError::failed("the Hub is not asked, because the variable HF_HUB_OFFLINE says so")
            .with_hint("models and data on this machine work all the same")
    }
}

fn unreachable(action: &str, host: &str, cause: &str) -> AppError {
    AppError {
        code: Code::Offline,
        ..AppError::failed(format!(
            "could not {action}: {host} can't be reached: {cause}"
        ))
        .with_hint("models and data on this machine work all the same")
    }
}

fn refusal_of(
    action: &str,
    status: StatusCode,
    code: Option<&str>,
    message: Option<&str>,
    has_token: bool,
) -> AppError {
    let said: String = shown(message.unwrap_or_default())
        .chars()
        .take(MOST_WORDS)
        .collect();
    let said = match said.trim().trim_end_matches('.') {
        "" => String::new(),
        said => format!(": {said}"),
    };
    let words = |what: &str| AppError::failed(format!("could not {action}: {what}"));
    let login = "log in with `anneal hub login`, or in Settings";
    match (status.as_u16(), code) {
        (401 | 403, Some("GatedRepo")) => words(
            "its makers let only those have it who accept their terms",
        )
        .with_hint(match has_token {
            true => "accept the terms on its page in a browser, with the account of your token"
                .to_owned(),
            false => format!("accept the terms on its page in a browser, then {login}"),
        }),
        // To somebody who is not logged in, the Hub does not even say that there is nothing.
        (401 | 404, Some("RepoNotFound")) | (401, None) if code.is_some() || !has_token => {
            words("the Hub has no such repository, or it is private")
                .with_hint(format!("check the name; if it is private, {login}"))
        }
        (404, Some("RevisionNotFound")) => {
            words("the repository has no such branch, tag or commit")
        }
        (404, Some("EntryNotFound")) => words("the repository has no such file"),
        (401, _) => words(&format!("the Hub does not know the token{said}")).with_hint(login),
        (403, _) => words(&format!("the Hub does not allow it{said}")).with_hint(login),
        (404, _) => words("the Hub has no such thing").with_hint("check the name"),
        (429, _) => {
            words("the Hub asks to be left alone for a while, because it was asked too often")
                .with_hint(format!(
                    "try again in a few minutes; who is logged in may ask more often: {login}"
                ))
        }
        (500.., _) => words(&format!("the Hub is in trouble: it answers {status}{said}"))
            .with_hint("try again later"),
        _ => words(&format!("the Hub answers {status}{said}")),
    }
}

fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        )
}

/// Follows a redirect, unless it gives up a secret connection. Another host never gets the token: the library takes it off.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let before = attempt.previous().last().map(|url| url.scheme().to_owned());
    if attempt.previous().len() > MOST_REDIRECTS {
        return attempt.error("one address leads to the next without end");
    }
    if before.as_deref() == Some("https") && attempt.url().scheme() != "https" {
        return attempt.error("it leads from a secret connection to an open one");
    }
    attempt.follow()
}

/// The address of the next part of a list.
fn next_page(headers: &HeaderMap) -> Option<Url> {
    let links = headers.get(LINK)?.to_str().ok()?;
    let next = links
        .split(',')
        .find(|link| link.contains("rel=\"next\""))?;
    let (start, end) = (next.find('<')? + 1, next.find('>')?);
    Url::parse(next.get(start..end)?).ok()
}

/// The innermost words of an error: the outer ones hold the address, which may hold a signature.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match std::ptr::addr_eq(innermost, error) {
        true => "no answer".to_owned(),
        false => innermost.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_half_a_minute_and_follow_the_server() {
        for failures in 1..=12 {
            let time = pause(failures, None);
            let whole = Duration::from_millis((500 << failures.min(6)).min(30_000));
            assert!(time >= whole / 2 && time <= whole, "{failures}: {time:?}");
        }
        let asked = Duration::from_secs(7);
        assert_eq!(pause(3, Some(asked)), asked);
    }

    #[test]
    fn an_address_has_every_name_in_its_own_part() {
        let http = Http::new("https://hub.example/mirror/", None).unwrap();
        let id: RepositoryId = "a/b".parse().unwrap();
        let url = http.file_url(RepositoryKind::Data, &id, "refs/pr/1", "data/a b#1?.txt");
        assert_eq!(
            url.as_str(),
            "https://hub.example/mirror/datasets/a/b/resolve/refs%2Fpr%2F1/data/a%20b%231%3F.txt"
        );
    }

    #[test]
    fn an_endpoint_that_is_no_address_is_named() {
        for wrong in ["huggingface.co", "ftp://x", "file:///etc/passwd"] {
            let error = Http::new(wrong, None).err().unwrap();
            assert!(
                error
                    .message
                    .starts_with("HF_ENDPOINT is no address of a Hub"),
                "{}",
                error.message
            );
        }
    }
}
