//! Asking the Hub: time limits, and what is tried again.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use reqwest::{
    Client, Response, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue, LINK, RANGE, RETRY_AFTER},
    redirect::{Attempt, Policy},
};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::{
    limits,
    refusal::{GATED, cause, is_distrusted, no_hub, refusal_of, unreachable},
    token::Token,
};
use crate::{
    store::hub_cache::names::{RepositoryId, RepositoryKind},
    wire::error::AppError,
};

/// How often a question is asked before it is given up.
const TRIES: usize = 3;
/// How long an answer may take in all that is no file.
pub(super) const TIMEOUT: Duration = Duration::from_secs(90);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection may be silent.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
/// The shortest that a server can have us wait.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// Who is looked at by somebody does not wait longer than this for an answer.
const PATIENT: Duration = Duration::from_secs(10);
/// The longest that a server may have us wait.
const MAX_WAIT: Duration = Duration::from_secs(300);

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
    /// It may work in a moment.
    Passing {
        error: Box<AppError>,
        /// How long the server asks to wait, if it does.
        wait: Option<Duration>,
        /// Whether nobody answered, rather than somebody wrongly.
        is_network: bool,
    },
    /// It won't.
    Lasting(AppError),
    /// It won't before the user has accepted something.
    Gated(AppError),
}

impl Trouble {
    /// What a person is told.
    pub(super) fn error(self) -> AppError {
        match self {
            Self::Passing { error, .. } => *error,
            Self::Lasting(error) | Self::Gated(error) => error,
        }
    }

    /// The connection did not come about, or ended.
    pub(super) fn network(error: AppError) -> Self {
        Self::Passing {
            error: Box::new(error),
            wait: None,
            is_network: true,
        }
    }

    /// An answer that may be another one in a moment.
    pub(super) fn answer(error: AppError) -> Self {
        Self::Passing {
            error: Box::new(error),
            wait: None,
            is_network: false,
        }
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
        if !url.username().is_empty() || url.password().is_some() {
            // Nothing of it may be shown.
            return Err(AppError::invalid("HF_ENDPOINT holds a name or a password")
                .with_hint("an address is shown and sent around; give a token as HF_TOKEN"));
        }
        // Another one may be set already, which does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("anneal/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .redirect(Policy::custom(redirect))
            .referer(false)
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

    /// The address of a question about facts, of parts that may hold anything.
    pub(super) fn api_url(&self, parts: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.url(["api"].iter().chain(parts).copied());
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// The address of a file.
    pub(super) fn file_url(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        commit: &str,
        path: &str,
    ) -> Url {
        let prefix = (kind == RepositoryKind::Data).then(|| kind.plural());
        let repository = prefix.into_iter().chain(id.as_str().split('/'));
        let revision = repository.chain(["resolve", commit]);
        self.url(revision.chain(path.split('/')))
    }

    fn url<'a>(&self, parts: impl Iterator<Item = &'a str>) -> Url {
        let mut url = self.shared.endpoint.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(parts);
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
            self.body(action, response, most).await
        };
        again(ask).await
    }

    /// Some bytes of a file, tried a few times. A server that knows no ranges is an error.
    pub(super) async fn range(
        &self,
        action: &str,
        url: &Url,
        from: u64,
        length: usize,
    ) -> Result<Vec<u8>, Trouble> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let to = from + length as u64 - 1;
        let ask = || async {
            let response = self.file(action, url, from, Some(to)).await?;
            let is_whole = from == 0 && response.status() == StatusCode::OK;
            if response.status() != StatusCode::PARTIAL_CONTENT && !is_whole {
                let words = format!("could not {action}: the server sends no parts of files");
                return Err(AppError::failed(words).into());
            }
            self.body(action, response, length).await
        };
        again(ask).await
    }

    /// What the Hub says as JSON, and the address of what follows, tried a few times.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        action: &str,
        url: &Url,
    ) -> Result<(T, Option<Url>), Trouble> {
        let ask = || async {
            let response = self.get(action, url, HeaderMap::new()).await?;
            let next = next_page(url, response.headers());
            let bytes = self
                .body(action, response, limits::ANSWER.most as usize)
                .await?;
            let said = serde_json::from_slice(&bytes).map_err(|error| {
                let problem = format!("the answer is not what the Hub sends: {error}");
                no_hub(action, &problem)
            })?;
            Ok((said, next))
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
        let parts = [&[kind.plural()][..], &id.parts(), &["tree", commit]].concat();
        let mut next = Some(self.api_url(&parts, &[("recursive", true.to_string())]));
        let mut entries = Vec::new();
        for _ in 0..limits::PAGES.most {
            let Some(url) = next else { return Ok(entries) };
            let page: Vec<Json>;
            (page, next) = self.json(action, &url).await?;
            entries.extend(page);
        }
        let count = entries.len();
        let words = format!("could not {action}: `{id}` has more than {count} files");
        Err(AppError::failed(words).into())
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
        let request = self.shared.client.get(url.clone()).headers(headers);
        let sent = request.send().await;
        let response = sent.map_err(|error| self.unanswered(action, &error))?;
        match response.status() {
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(response),
            status if status.is_success() => Ok(response),
            _ => Err(self.refused(action, response).await),
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
        let host = self.shared.endpoint.authority();
        let error_words = cause(error);
        let stray = |what: &str| no_hub(action, &format!("{what}: {error_words}")).into();
        let words = match error {
            error if error.is_redirect() => return stray("the server leads nowhere"),
            error if is_distrusted(error) => return stray("the connection is not trusted"),
            error if error.is_connect() => {
                return Trouble::network(unreachable(action, host));
            }
            error if error.is_timeout() => format!("nothing came for {} s", SILENCE.as_secs()),
            _ => format!("the connection ended: {error_words}"),
        };
        Trouble::network(AppError::failed(format!("could not {action}: {words}")))
    }

    /// An answer that says no.
    async fn refused(&self, action: &str, response: Response) -> Trouble {
        let status = response.status();
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let (code, message) = (header("x-error-code"), header("x-error-message"));
        let wait = header(RETRY_AFTER.as_str())
            .and_then(|value| value.trim().parse().ok())
            .or_else(|| seconds_left(&header("ratelimit")?));
        let wait = wait.map(|seconds| Duration::from_secs(seconds).clamp(MIN_WAIT, MAX_WAIT));
        let error = refusal_of(
            action,
            status,
            code.as_deref(),
            message.as_deref(),
            self.shared.token.is_some(),
        );
        match status {
            status if is_passing(status) => Trouble::Passing {
                error: Box::new(error),
                wait,
                is_network: false,
            },
            _ if code.as_deref() == Some(GATED) => Trouble::Gated(error),
            _ => Trouble::Lasting(error),
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
            Err(Trouble::Passing { wait, .. })
                if failed + 1 < TRIES && wait.is_none_or(|wait| wait < PATIENT) =>
            {
                failed += 1;
                tokio::time::sleep(pause(failed, wait)).await;
            }
            answer => return answer,
        }
    }
}

/// How long the Hub asks to wait where it says how often one may ask: `"api";r=0;t=55`.
fn seconds_left(limit: &str) -> Option<u64> {
    let mut parts = limit.split(';').map(str::trim);
    parts.find_map(|part| part.strip_prefix("t=")?.parse().ok())
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
    if attempt.previous().len() > limits::REDIRECTS.most as usize {
        return attempt.error("one address leads to the next without end");
    }
    if before.as_deref() == Some("https") && attempt.url().scheme() != "https" {
        return attempt.error("it leads from a secret connection to an open one");
    }
    let asked = attempt.previous().first();
    if leads_inside(asked, attempt.url()) {
        return attempt
            .error("it leads from a server outside to an address of this machine or its network");
    }
    attempt.follow()
}

/// Whether a server outside would have us ask a machine that only we can reach. Whoever has a mirror on the own network is led
/// anywhere.
fn leads_inside(asked: Option<&Url>, next: &Url) -> bool {
    is_inside(next) && !asked.is_some_and(is_inside)
}

/// Whether an address is of this machine or its network, as far as the address itself says.
fn is_inside(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return true;
    };
    let host = host.trim_start_matches('[').trim_end_matches([']', '.']);
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => is_inside_v4(address),
        Ok(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
            Some(within) => is_inside_v4(within),
            None => {
                address.is_loopback()
                    || address.is_unspecified()
                    || address.is_unique_local()
                    || address.is_unicast_link_local()
            }
        },
        Err(_) => {
            let host = host.to_ascii_lowercase();
            let endings = [".localhost", ".local", ".internal", ".lan", ".home.arpa"];
            host == "localhost"
                || endings.iter().any(|ending| host.ends_with(ending))
                || !host.contains('.')
        }
    }
}

fn is_inside_v4(address: Ipv4Addr) -> bool {
    // Addresses that a provider shares among its customers, RFC 6598.
    let is_shared = address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64;
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || is_shared
}

/// The address of the next part of a list, if there is one.
///
/// Whoever answers names any address, and a mirror that of the Hub it mirrors. Only path and query count: the token goes to
/// the host that was asked, and to no other.
fn next_page(asked: &Url, headers: &HeaderMap) -> Option<Url> {
    let links = headers.get(LINK)?.to_str().ok()?;
    let next = links
        .split(',')
        .find(|link| link.contains("rel=\"next\""))?;
    let (start, end) = (next.find('<')? + 1, next.find('>')?);
    let named = asked.join(next.get(start..end)?).ok()?;
    let mut next = asked.clone();
    next.set_path(named.path());
    next.set_query(named.query());
    Some(next)
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
    fn a_server_outside_leads_to_no_address_inside() {
        let url = |text: &str| Url::parse(text).unwrap();
        let outside = url("https://huggingface.co/a");
        for inside in [
            "http://localhost/a",
            "https://LOCALHOST:8080/",
            "https://printer/a",
            "https://nas.local./a",
            "https://metadata.google.internal/a",
            "https://127.0.0.1/a",
            "https://2130706433/a",
            "https://0x7f.1/a",
            "https://10.1.2.3/a",
            "https://192.168.1.1/a",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/a",
            "https://0.0.0.0/a",
            "https://[::1]/a",
            "https://[::ffff:127.0.0.1]/a",
            "https://[fd00::1]/a",
            "https://[fe80::1]/a",
        ] {
            let inside = url(inside);
            assert!(leads_inside(Some(&outside), &inside), "{inside}");
            // A mirror of one’s own leads where it likes.
            assert!(
                !leads_inside(Some(&url("http://127.0.0.1:8080/")), &inside),
                "{inside}"
            );
        }
        for fine in [
            "https://cdn-lfs.hf.co/a",
            "https://8.8.8.8/a",
            "https://[2600::1]/a",
        ] {
            assert!(!leads_inside(Some(&outside), &url(fine)), "{fine}");
        }
    }

    #[test]
    fn an_endpoint_that_is_no_address_is_named() {
        for wrong in ["huggingface.co", "ftp://x", "file:///etc/passwd"] {
            let error = Http::new(wrong, None).err().unwrap();
            let beginning = "HF_ENDPOINT is no address of a Hub";
            assert!(error.message.starts_with(beginning), "{error:?}");
        }
    }
}
