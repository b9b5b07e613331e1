//! A Hugging Face Hub of our own for tests: it holds repositories in memory and can be told to fail.
//!
//! It listens on two ports of this machine. One stands for the Hub itself, the other for the host that large files are
//! fetched from, so that a test can see what is sent where. Every request is written down.

mod answers;
mod describe;
mod http;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A running server. It ends when this is dropped, and with it every connection.
pub(crate) struct Server {
    state: Arc<State>,
    addresses: [SocketAddr; 2],
    listeners: Vec<JoinHandle<()>>,
}

/// What a repository holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Dataset,
}

/// Whether its makers ask for something before they let one have the files. The rest can be seen by everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gated {
    No,
    Auto,
    Manual,
}

/// A repository at one commit.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    pub(crate) kind: Kind,
    /// `maker/name`.
    pub(crate) id: String,
    /// Ids it had before. The Hub redirects from them.
    pub(crate) former_ids: Vec<String>,
    /// Forty digits; empty means that they are made from the files.
    pub(crate) commit: String,
    /// Branches and tags that mean this commit.
    pub(crate) refs: Vec<String>,
    pub(crate) files: Vec<File>,
    pub(crate) gated: Gated,
    pub(crate) private: bool,
    pub(crate) downloads: u64,
    pub(crate) likes: u64,
    pub(crate) last_modified: String,
    pub(crate) created_at: String,
    pub(crate) pipeline_tag: Option<String>,
    pub(crate) library_name: Option<String>,
    pub(crate) tags: Vec<String>,
    /// More of what is told about it, or other: `{"cardData": …, "config": …, "safetensors": …}`.
    pub(crate) info: Map<String, Value>,
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
    pub(crate) oid: String,
    /// Of a large file.
    pub(crate) large: Option<Large>,
}

/// What is known of a file that lies with the other host.
#[derive(Debug, Clone)]
pub(crate) struct Large {
    pub(crate) sha256: String,
    /// What the other host calls it: as long as the digest, and another.
    pub(crate) name: String,
    pub(crate) pointer_bytes: usize,
}

/// Which of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    Api,
    Cdn,
}

/// A request that came in.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) host: Host,
    pub(crate) method: String,
    /// As it was sent, without the query.
    pub(crate) path: String,
    /// Names and values, decoded.
    pub(crate) query: Vec<(String, String)>,
    /// Names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    /// Path and query, as they were sent.
    target: String,
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
    CutAfter(u64),
    /// Sends no more bytes of the body in a second than this.
    BytesPerSecond(u64),
    /// Says that the body has so many bytes more, or fewer, than are sent.
    WrongLength(i64),
    /// Changes the byte at this place of the file.
    WrongByte(u64),
    /// Sends the whole file when a part is asked for.
    IgnoreRange,
    /// Sends the right part and says this of it in `Content-Range`.
    WrongRange(String),
}

/// How often something goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    First(u64),
    Always,
}

/// What the listeners and connections share.
struct State {
    endpoint: String,
    cdn: String,
    settings: Mutex<Settings>,
    requests: Mutex<Vec<Request>>,
    connections: Mutex<BTreeMap<(Host, u64), TcpStream>>,
    is_stopping: AtomicBool,
}

/// What a test can change at any time.
struct Settings {
    /// In the order they were added: the last of an id is what it is now, those before are older commits.
    repositories: Vec<Arc<Repository>>,
    token: Option<String>,
    token_without_access: Option<String>,
    tree_page: usize,
    redirects_small_files: bool,
    faults: Vec<FaultRule>,
}

struct FaultRule {
    text: String,
    times: Times,
    fault: Fault,
}

impl Server {
    /// Starts with nothing in it, on two free ports.
    pub(crate) fn start() -> Self {
        let [api, cdn] = [0, 0].map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
        let addresses = [api.local_addr().unwrap(), cdn.local_addr().unwrap()];
        let state = Arc::new(State {
            endpoint: format!("http://{}", addresses[0]),
            cdn: format!("http://{}", addresses[1]),
            settings: Mutex::new(Settings {
                repositories: Vec::new(),
                token: None,
                token_without_access: None,
                tree_page: 1000,
                redirects_small_files: false,
                faults: Vec::new(),
            }),
            requests: Mutex::default(),
            connections: Mutex::default(),
            is_stopping: AtomicBool::new(false),
        });
        let listeners = [(Host::Api, api), (Host::Cdn, cdn)].map(|(host, listener)| {
            let state = Arc::clone(&state);
            thread::spawn(move || http::listen(&state, host, &listener))
        });
        Self {
            state,
            addresses,
            listeners: listeners.into(),
        }
    }

    /// What a client is told instead of `https://huggingface.co`.
    pub(crate) fn endpoint(&self) -> String {
        self.state.endpoint.clone()
    }

    /// Puts a repository in, and returns its commit. What its id had before stays, as an older commit.
    pub(crate) fn add(&self, mut repository: Repository) -> String {
        if repository.commit.is_empty() {
            repository.commit = repository.commit_of_files();
        }
        repository.files.sort_by(|a, b| a.path.cmp(&b.path));
        let commit = repository.commit.clone();
        let mut settings = self.state.settings();
        settings
            .repositories
            .retain(|other| !(repository.is(other.kind, &other.id) && other.commit == commit));
        settings.repositories.push(Arc::new(repository));
        commit
    }

    /// The token that may have everything. Any other is refused wherever it is sent.
    pub(crate) fn set_token(&self, token: Option<&str>) {
        self.state.settings().token = token.map(str::to_owned);
    }

    /// The token of somebody who may have neither private nor gated repositories.
    pub(crate) fn set_token_without_access(&self, token: Option<&str>) {
        self.state.settings().token_without_access = token.map(str::to_owned);
    }

    /// How many entries of a tree are told at once.
    pub(crate) fn set_tree_page(&self, entries: usize) {
        self.state.settings().tree_page = entries;
    }

    /// Whether small files are redirected to another path of the same host, as the Hub does since 2025.
    pub(crate) fn set_redirects_small_files(&self, redirects: bool) {
        self.state.settings().redirects_small_files = redirects;
    }

    /// Has requests fail whose line, `GET /path?query` as it was sent, contains the text.
    ///
    /// All faults that fit a request happen to it. What concerns a body counts only requests that would get one; what
    /// concerns ranges, only those that ask for one.
    pub(crate) fn fail(&self, text: &str, times: Times, fault: Fault) {
        self.state.settings().faults.push(FaultRule {
            text: text.to_owned(),
            times,
            fault,
        });
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

impl Drop for Server {
    fn drop(&mut self) {
        self.state.is_stopping.store(true, Ordering::SeqCst);
        // A listener looks whether it is to stop when somebody connects.
        for address in self.addresses {
            let _ = TcpStream::connect(address);
        }
        for listener in self.listeners.drain(..) {
            let _ = listener.join();
        }
        for connection in self.state.connections.lock().unwrap().values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Repository {
    /// An empty public repository whose `main` is its only commit.
    pub(crate) fn new(kind: Kind, id: &str) -> Self {
        Self {
            kind,
            id: id.to_owned(),
            former_ids: Vec::new(),
            commit: String::new(),
            refs: vec!["main".to_owned()],
            files: Vec::new(),
            gated: Gated::No,
            private: false,
            downloads: 0,
            likes: 0,
            last_modified: "2026-01-02T03:04:05.000Z".to_owned(),
            created_at: "2025-06-07T08:09:10.000Z".to_owned(),
            pipeline_tag: None,
            library_name: None,
            tags: Vec::new(),
            info: Map::new(),
        }
    }

    /// With a file more.
    pub(crate) fn with(mut self, file: File) -> Self {
        self.files.push(file);
        self
    }

    fn is(&self, kind: Kind, id: &str) -> bool {
        self.kind == kind && self.id == id
    }

    fn commit_of_files(&self) -> String {
        let mut digest = Sha1::new_with_prefix(&self.id);
        for file in &self.files {
            digest.update(format!("\n{} {}", file.oid, file.path));
        }
        hex(&digest.finalize())
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
            large: None,
        }
    }

    /// A file that lies with the other host. It may have any size.
    pub(crate) fn large(path: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let sha256 = hex(&Sha256::digest(&bytes));
        let pointer = format!(
            "version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {}\n",
            bytes.len()
        );
        Self {
            path: path.to_owned(),
            size: json!(bytes.len()),
            oid: git_digest(pointer.as_bytes()),
            large: Some(Large {
                name: hex(&Sha256::digest(&sha256)),
                sha256,
                pointer_bytes: pointer.len(),
            }),
            bytes,
        }
    }

    /// What the Hub knows the content by, and clients call it in their caches.
    pub(crate) fn etag(&self) -> &str {
        self.large.as_ref().map_or(&self.oid, |it| &it.sha256)
    }
}

/// Paths that must never be written to.
pub(crate) fn hostile_paths() -> Vec<String> {
    let mut paths: Vec<String> = [
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
    ]
    .map(str::to_owned)
    .into();
    paths.push("x".repeat(5000));
    paths
}

/// Sizes that no file has.
pub(crate) fn absurd_sizes() -> Vec<Value> {
    let all = [json!(u64::MAX), json!(i64::MAX), json!(-1)];
    let odd = [json!(1e300), json!(0.5), json!("12"), Value::Null];
    all.into_iter().chain(odd).collect()
}

impl Request {
    /// The value of a header, whose name is in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(it, _)| it == name)?;
        Some(value)
    }

    /// The first value of that name in the query.
    pub(crate) fn query_value(&self, name: &str) -> Option<&str> {
        self.query_values(name).next()
    }

    /// Bytes of the body that went out, so far.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::SeqCst)
    }

    /// All values of that name, or of the name with `[]`.
    fn query_values(&self, name: &str) -> impl Iterator<Item = &str> {
        let is_it = move |it: &str| it.strip_suffix("[]").unwrap_or(it) == name;
        self.query
            .iter()
            .filter(move |(it, _)| is_it(it))
            .map(|(_, value)| value.as_str())
    }

    /// Whether something was asked for, as `true` is written in Rust, Python or a browser.
    fn is_set(&self, name: &str) -> bool {
        matches!(self.query_value(name), Some("true" | "True" | "1"))
    }
}

impl Fault {
    /// An answer that has only a status.
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer {
            status,
            headers: Vec::new(),
            body: format!("{{\"error\":\"{}\"}}", http::reason(status)).into(),
        }
    }

    /// 429, and when to come again.
    pub(crate) fn too_many_requests(seconds: u64) -> Self {
        let headers = [
            ("Retry-After", seconds.to_string()),
            ("RateLimit", format!("\"api\";r=0;t={seconds}")),
            (
                "RateLimit-Policy",
                "\"fixed window\";\"api\";q=500;w=300".to_owned(),
            ),
        ];
        Self::Answer {
            status: 429,
            headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
            body: b"{\"error\":\"Too Many Requests\"}".into(),
        }
    }

    /// A page for people that says it is JSON, as a hotel's network sends it.
    pub(crate) fn garbage() -> Self {
        let header = ("Content-Type", "application/json; charset=utf-8");
        Self::Answer {
            status: 200,
            headers: vec![(header.0.to_owned(), header.1.to_owned())],
            body: b"<html><body>Please log in to the network.</body></html>".into(),
        }
    }

    fn concerns(&self, request: &Request, answer: &http::Answer) -> bool {
        match self {
            Self::Answer { .. } | Self::RedirectForever => true,
            Self::Pause(_) | Self::Silence | Self::HangUp => true,
            Self::CutAfter(_)
            | Self::BytesPerSecond(_)
            | Self::WrongLength(_)
            | Self::WrongByte(_) => answer.status == 200 && request.method != "HEAD",
            Self::IgnoreRange | Self::WrongRange(_) => {
                answer.is_file && request.header("range").is_some()
            }
        }
    }
}

impl State {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap()
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// The faults that happen to a request, each counted.
    fn faults(&self, request: &Request, answer: &http::Answer) -> Vec<Fault> {
        let line = format!("{} {}", request.method, request.target);
        let mut settings = self.settings();
        let mut faults = Vec::new();
        for rule in &mut settings.faults {
            if rule.times == Times::First(0)
                || !line.contains(&rule.text)
                || !rule.fault.concerns(request, answer)
            {
                continue;
            }
            if let Times::First(left) = &mut rule.times {
                *left -= 1;
            }
            faults.push(rule.fault.clone());
        }
        faults
    }

    /// Waits, unless the server ends.
    fn sleep_until(&self, time: Instant) {
        while !self.is_stopping() {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
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
