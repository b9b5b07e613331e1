//! A Hugging Face Hub of our own for tests: it holds repositories in memory and can be told to fail.
//!
//! It listens on two ports of this machine. One stands for the Hub itself, the other for the host that large files are
//! fetched from, so that a test can see what is sent where. Every request is written down. It answers what Anneal asks,
//! with what Anneal reads of it. A server ends with the process.

mod answers;
mod http;

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use reqwest::{StatusCode, Url};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A running server.
pub(crate) struct Server {
    state: Arc<State>,
}

/// What a repository holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Dataset,
}

/// A repository at one commit.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    pub(crate) kind: Kind,
    /// `maker/name`.
    pub(crate) id: String,
    pub(crate) files: Vec<File>,
    /// Whether its makers ask for something before they let one have the files. The rest can be seen by everybody.
    pub(crate) gated: bool,
    /// What is told about it: `{"downloads": 0, "cardData": …}`.
    pub(crate) about: Value,
}

/// A file of a repository. Its digests are made once; a copy shares its bytes.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Any text, also one that no file can be called.
    pub(crate) path: String,
    pub(crate) bytes: Arc<[u8]>,
    /// What the Hub says its size is. The true one, unless a test sets another.
    pub(crate) size: Value,
    /// The digest that git knows it by. Of a large file, that of the pointer git has in its place.
    oid: String,
    /// Of a large file, which lies with the other host under this name.
    sha256: Option<String>,
}

/// Which of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    Api,
    Cdn,
}

/// A request that came in.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) host: Host,
    url: Url,
    /// Names in small letters.
    headers: Vec<(String, String)>,
    bytes_sent: Arc<AtomicU64>,
}

/// Something that goes wrong.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Answers this, whatever was asked for.
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// Sends the client on to a place that sends it on, without end.
    RedirectForever,
    /// Waits before it answers.
    Pause(Duration),
    /// Takes the request and never answers.
    Silence,
    /// Breaks the connection off without an answer.
    HangUp,
    /// Breaks the connection off after so many bytes of the body.
    CutAfter(usize),
    /// Sends no more bytes of the body in a second than this.
    BytesPerSecond(usize),
    /// Says that the body has so many bytes more, or fewer, than are sent.
    WrongLength(i64),
    /// Changes the byte at this place of the file.
    WrongByte(usize),
    /// Sends the whole file when a part is asked for.
    IgnoreRange,
    /// Sends the right part and says this of it in `Content-Range`.
    WrongRange(String),
}

/// So often does something go wrong that always does.
pub(crate) const ALWAYS: u64 = u64::MAX;

/// What the listeners and connections share.
struct State {
    endpoint: String,
    cdn: String,
    settings: Mutex<Settings>,
    requests: Mutex<Vec<Request>>,
}

/// What a test can change at any time.
#[derive(Default)]
struct Settings {
    /// Each with its commit, in the order they were added: the last of an id is its `main`, those before are older.
    repositories: Vec<(String, Arc<Repository>)>,
    token: Option<String>,
    token_without_access: Option<String>,
    tree_page: Option<usize>,
    redirects_small_files: bool,
    /// What the line of a request contains, how often it still fails, and how.
    faults: Vec<(String, u64, Fault)>,
}

impl Server {
    /// Starts with nothing in it, on two free ports.
    pub(crate) fn start() -> Self {
        let [api, cdn] = [0, 0].map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
        let address = |of: &TcpListener| format!("http://{}", of.local_addr().unwrap());
        let state = Arc::new(State {
            endpoint: address(&api),
            cdn: address(&cdn),
            settings: Mutex::default(),
            requests: Mutex::default(),
        });
        for (host, listener) in [(Host::Api, api), (Host::Cdn, cdn)] {
            let state = Arc::clone(&state);
            thread::spawn(move || http::listen(&state, host, &listener));
        }
        Self { state }
    }

    /// What a client is told instead of `https://huggingface.co`.
    pub(crate) fn endpoint(&self) -> String {
        self.state.endpoint.clone()
    }

    /// Puts a repository in, and returns its commit. What its id had before stays, as an older commit.
    pub(crate) fn add(&self, mut repository: Repository) -> String {
        repository.files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut digest = Sha1::new_with_prefix(&repository.id);
        for file in &repository.files {
            digest.update(format!("\n{} {}", file.oid, file.path));
        }
        let commit = hex(&digest.finalize());
        let mut settings = self.state.settings();
        settings
            .repositories
            .push((commit.clone(), Arc::new(repository)));
        commit
    }

    /// The token that may have everything. Any other is refused wherever it is sent.
    pub(crate) fn set_token(&self, token: &str) {
        self.state.settings().token = Some(token.to_owned());
    }

    /// The token of somebody who may not have gated repositories.
    pub(crate) fn set_token_without_access(&self, token: &str) {
        self.state.settings().token_without_access = Some(token.to_owned());
    }

    /// How many entries of a tree are told at once.
    pub(crate) fn set_tree_page(&self, entries: usize) {
        self.state.settings().tree_page = Some(entries);
    }

    /// Redirects small files to another path of the same host, as the Hub does since 2025.
    pub(crate) fn redirect_small_files(&self) {
        self.state.settings().redirects_small_files = true;
    }

    /// Has requests fail whose line, `GET /path?query` as it was sent, contains the text, so many times.
    ///
    /// All faults that fit a request happen to it. What concerns a body counts only requests that would get one; what
    /// concerns ranges, only those that ask for one.
    pub(crate) fn fail(&self, text: &str, times: u64, fault: Fault) {
        let mut settings = self.state.settings();
        settings.faults.push((text.to_owned(), times, fault));
    }

    /// From here on, nothing goes wrong.
    pub(crate) fn heal(&self) {
        self.state.settings().faults.clear();
    }

    /// Every request so far, in the order they came in.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Starts to count requests anew.
    pub(crate) fn forget_requests(&self) {
        self.state.requests.lock().unwrap().clear();
    }
}

impl Repository {
    /// An empty public repository.
    pub(crate) fn new(kind: Kind, id: &str) -> Self {
        Self {
            kind,
            id: id.to_owned(),
            files: Vec::new(),
            gated: false,
            about: json!({"downloads": 0, "likes": 0, "tags": [], "lastModified": "2026-01-02T03:04:05.000Z"}),
        }
    }

    /// With a file more.
    pub(crate) fn with(mut self, file: File) -> Self {
        self.files.push(file);
        self
    }
}

impl File {
    /// A file that git keeps itself.
    pub(crate) fn small(path: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self {
            path: path.to_owned(),
            size: json!(bytes.len()),
            oid: git_digest(&bytes),
            bytes,
            sha256: None,
        }
    }

    /// A file that lies with the other host. It may have any size.
    pub(crate) fn large(path: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let sha256 = hex(&Sha256::digest(&bytes));
        Self {
            oid: git_digest(sha256.as_bytes()),
            sha256: Some(sha256),
            ..Self::small(path, bytes)
        }
    }
}

/// Paths that must never be written to.
pub(crate) fn hostile_paths() -> Vec<String> {
    let long = "x".repeat(5000);
    let paths = [
        "../../escaped.txt",
        "/etc/passwd",
        "a/../../b.txt",
        "a//b.txt",
        "a\\b.txt",
        "..\\..\\b.txt",
        "C:\\b.txt",
        "nul\0.txt",
        "bell\u{7}\r\n.txt",
        "turned\u{202e}txt.exe",
        "..",
        "",
        &long,
    ];
    paths.map(str::to_owned).into()
}

impl Request {
    /// The value of a header, whose name is in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(it, _)| it == name)?;
        Some(value)
    }

    /// Bytes of the body that went out, so far.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::SeqCst)
    }

    /// The value of that name in the query.
    fn query(&self, name: &str) -> Option<String> {
        let mut pairs = self.url.query_pairs();
        pairs.find_map(|(it, value)| (it == name).then(|| value.into_owned()))
    }

    /// The same address with another value of that name.
    fn with_query(&self, name: &str, value: &str) -> Url {
        let mut url = self.url.clone();
        let kept = self.url.query_pairs().filter(|(it, _)| it != name);
        url.query_pairs_mut()
            .clear()
            .extend_pairs(kept)
            .append_pair(name, value);
        url
    }
}

impl Fault {
    /// An answer that has only a status.
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer {
            status,
            headers: Vec::new(),
            body: format!("{{\"error\":\"{}\"}}", reason(status)).into(),
        }
    }

    /// 429, and when to come again.
    pub(crate) fn too_many_requests(seconds: u64) -> Self {
        let headers = [
            ("Retry-After", seconds.to_string()),
            ("RateLimit", format!("\"api\";r=0;t={seconds}")),
        ];
        Self::Answer {
            status: 429,
            headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
            body: b"{\"error\":\"Too Many Requests\"}".into(),
        }
    }

    /// A page for people that says it is JSON, as a hotel's network sends it.
    pub(crate) fn garbage() -> Self {
        Self::Answer {
            status: 200,
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: b"<html><body>Please log in to the network.</body></html>".into(),
        }
    }

    fn concerns(&self, request: &Request, answer: &http::Answer) -> bool {
        match self {
            Self::CutAfter(_)
            | Self::BytesPerSecond(_)
            | Self::WrongLength(_)
            | Self::WrongByte(_) => answer.status == 200,
            Self::IgnoreRange | Self::WrongRange(_) => {
                answer.is_file && request.header("range").is_some()
            }
            _ => true,
        }
    }
}

impl State {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap()
    }

    /// The faults that happen to a request, each counted.
    fn faults(&self, request: &Request, answer: &http::Answer) -> Vec<Fault> {
        let query = request.url.query().unwrap_or_default();
        let line = format!("GET {}?{query}", request.url.path());
        let mut settings = self.settings();
        let happens = |(text, left, fault): &&mut (String, u64, Fault)| {
            *left > 0 && line.contains(text.as_str()) && fault.concerns(request, answer)
        };
        let faults = settings.faults.iter_mut().filter(happens);
        let counted = faults.map(|(_, left, fault)| {
            *left -= 1;
            fault.clone()
        });
        counted.collect()
    }
}

/// The words beside a status.
fn reason(status: u16) -> &'static str {
    let status = StatusCode::from_u16(status).ok();
    status.and_then(|it| it.canonical_reason()).unwrap_or("")
}

/// The digest of a file in git.
fn git_digest(bytes: &[u8]) -> String {
    let mut digest = Sha1::new_with_prefix(format!("blob {}\0", bytes.len()));
    digest.update(bytes);
    hex(&digest.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
