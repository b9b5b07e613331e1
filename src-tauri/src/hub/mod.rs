//! The Hugging Face Hub, and the only door to the network.
//!
//! - [`http`]: one way to ask: time limits, and what is tried again
//! - [`refusal`]: what a failed request means for the user
//! - [`search`]: what there is
//! - [`repository`]: what one repository holds, and what of it is needed ([`needed`], [`splits`])
//! - [`preview`]: the first rows of data that is not here
//! - [`fetch`]: one file, from where it was left to its last byte, checked
//! - [`download`]: the files of one revision, into the cache that all programs of the Hub share
//! - [`event`]: the same, told to a terminal as it proceeds
//! - [`downloads`]: what the window has fetched, pauses and continues with
//! - [`token`]: the user's token, which tells the Hub who asks
//!
//! No request is sent unless the user asked for something, and nothing from the network is trusted: names and sizes are
//! checked, and a file is used only once its digest matches.
//!
//! Deliberately absent: uploads, and Xet's own protocol. Files that the Hub keeps there are fetched by ranges like others.

pub(crate) mod download;
#[cfg(feature = "gui")]
pub(crate) mod downloads;
pub(crate) mod event;
pub(crate) mod fetch;
mod http;
pub(crate) mod limits;
pub(crate) mod needed;
pub(crate) mod pace;
pub(crate) mod preview;
mod refusal;
pub(crate) mod repository;
pub(crate) mod search;
pub(crate) mod splits;
pub(crate) mod token;

use std::{
    env,
    future::Future,
    sync::{Mutex, OnceLock, mpsc},
};

use serde::{Deserialize, de::DeserializeOwned};
use tokio::runtime::Runtime;

use crate::{
    hub::{
        http::{Http, Trouble},
        token::{Token, TokenPlace, TokenStore},
    },
    lock::locked,
    store::{
        hub_cache::{HubCache, names::shown},
        paths::Paths,
    },
    wire::error::{AppError, Code, Result},
};

/// The Hub itself, where no variable names another.
const ENDPOINT: &str = "https://huggingface.co";
/// What counts as yes in a variable, as other programs of the Hub read it.
const YES: [&str; 4] = ["1", "ON", "YES", "TRUE"];

/// The door to the Hub.
pub(crate) struct Hub {
    endpoint: String,
    cache: Option<HubCache>,
    tokens: TokenStore,
    /// How it was last asked, and by whom.
    http: Mutex<Option<(Option<Token>, Http)>>,
    /// Whether the user said that nobody is to be asked.
    switched_off: bool,
    /// Why it could not be reached when it was last asked.
    unreachable: Mutex<Option<String>>,
}

/// A person of the Hub.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) full_name: Option<String>,
    /// Where the token is kept, in words.
    pub(crate) token_place: String,
}

impl Hub {
    /// The door for an app with these folders, where the usual variables say. Asks nobody.
    pub(crate) fn new(paths: &Paths) -> Self {
        let read = |name| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let endpoint = read("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let offline = read("HF_HUB_OFFLINE").unwrap_or_default().to_uppercase();
        Self {
            switched_off: YES.contains(&offline.as_str()),
            ..Self::at(&endpoint, HubCache::of_user(), paths)
        }
    }

    /// The door to a Hub with an address.
    fn at(endpoint: &str, cache: Option<HubCache>, paths: &Paths) -> Self {
        Self {
            endpoint: endpoint.trim().trim_end_matches('/').to_owned(),
            cache,
            tokens: TokenStore::new(paths),
            http: Mutex::default(),
            switched_off: false,
            unreachable: Mutex::default(),
        }
    }

    /// A Hub of a test, with a cache of its own and no token of the machine's user.
    #[cfg(all(test, feature = "gui"))]
    pub(crate) fn of_test(endpoint: &str, cache: &std::path::Path, paths: &Paths) -> Self {
        Self {
            tokens: TokenStore::empty(paths),
            ..Self::at(endpoint, Some(HubCache::at(cache.to_owned())), paths)
        }
    }

    /// Its address.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The folder that all programs of the Hub share.
    pub(crate) fn cache(&self) -> Result<&HubCache> {
        self.cache.as_ref().ok_or_else(|| {
            AppError::failed(
                "could not find your home folder, so there is no cache of the Hugging Face Hub",
            )
            .with_hint("set HF_HUB_CACHE to a folder")
        })
    }

    /// Why it is not asked, if it is known not to answer.
    pub(crate) fn offline(&self) -> Option<String> {
        match self.switched_off {
            true => Some("Switched off by the variable HF_HUB_OFFLINE".to_owned()),
            false => locked(&self.unreachable).clone(),
        }
    }

    /// Where the token comes from, if there is one.
    pub(crate) fn token_place(&self) -> Option<TokenPlace> {
        self.tokens.find().map(|(_, place)| place)
    }

    /// Who the token belongs to. Nobody without a token.
    pub(crate) fn user(&self) -> Result<Option<User>> {
        let Some((token, place)) = self.tokens.find() else {
            return Ok(None);
        };
        self.owner(token, &place).map(Some)
    }

    /// Keeps a token, once the Hub has said whose it is.
    pub(crate) fn login(&self, token: Token) -> Result<User> {
        let user = self.owner(token.clone(), &TokenPlace::Keychain)?;
        let place = self.tokens.keep(&token)?;
        Ok(User {
            token_place: place.to_string(),
            ..user
        })
    }

    /// Forgets the token that was kept here.
    pub(crate) fn logout(&self) -> Result<()> {
        self.tokens.forget()
    }

    fn owner(&self, token: Token, place: &TokenPlace) -> Result<User> {
        /// What the Hub says of who asks.
        #[derive(Deserialize)]
        struct Owner {
            name: String,
            fullname: Option<String>,
        }
        let (http, action) = (
            self.http_of(Some(token))?,
            "ask the Hub whose token this is",
        );
        let owner: Owner = self.ask(&http, action, &["whoami-v2"], &[])?;
        Ok(User {
            name: shown(&owner.name),
            full_name: owner.fullname.map(|name| shown(&name)),
            token_place: place.to_string(),
        })
    }

    /// Asks for facts, and remembers whether anybody answered.
    fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        http: &Http,
        action: &str,
        parts: &[&str],
        query: &[(&str, String)],
    ) -> Result<T> {
        let (url, words, http) = (http.api_url(parts, query), action.to_owned(), http.clone());
        let answer =
            wait(
                async move { tokio::time::timeout(http::TIMEOUT, http.json(&words, &url)).await },
            )?;
        let answer = answer.map_err(|_| refusal::too_slow(action))?;
        self.noted(answer.map(|(said, _)| said).map_err(Trouble::error))
    }

    /// Remembers whether the Hub could be reached.
    fn noted<T>(&self, answer: Result<T>) -> Result<T> {
        let mut unreachable = locked(&self.unreachable);
        match &answer {
            Err(error) if error.code == Code::Offline => *unreachable = Some(error.message.clone()),
            // Whatever it says, somebody answered.
            _ => *unreachable = None,
        }
        drop(unreachable);
        answer
    }

    /// The way to ask with the user's token.
    fn http(&self) -> Result<Http> {
        self.http_of(self.tokens.find().map(|(token, _)| token))
    }

    fn http_of(&self, token: Option<Token>) -> Result<Http> {
        if self.switched_off {
            return Err(refusal::switched_off());
        }
        let mut known = locked(&self.http);
        if let Some((_, http)) = known.as_ref().filter(|(known, _)| *known == token) {
            return Ok(http.clone());
        }
        let http = Http::new(&self.endpoint, token.clone())?;
        *known = Some((token, http.clone()));
        Ok(http)
    }
}

/// Waits for something that is done on the threads of the network.
fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (done, result) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let _ = done.send(work.await);
    });
    result
        .recv()
        .map_err(|_| AppError::failed("asking the Hub ended in the middle"))
}

/// The threads of the network. They start when something is first asked, and end with the process.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("hub")
            .enable_all()
            .build()
    });
    runtime.as_ref().map_err(|error| {
        AppError::failed(format!("could not start a thread for the network: {error}"))
    })
}
