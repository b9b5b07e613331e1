//! A server for other programs on this machine, with OpenAI's interface: editors, chat apps and scripts ask it as they would ask a
//! service on the network.
//!
//! The app serves and an engine writes, so that a client gets an error with an explanation when the engine ends. Several requests are
//! answered at once, each as it would be alone; the beginning that one shares with an earlier one is not read again. Deliberately
//! absent: other addresses than this machine's, headers that let pages of the web in, and tools, pictures and JSON schemas, which
//! are refused by their names.

mod asked;
mod door;
pub(crate) mod journal;
pub(crate) mod limits;
pub(crate) mod listen;
mod queue;
mod refusal;
mod routes;
mod told;
#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use axum::http::StatusCode;
use jiff::Timestamp;
use models::{device::RequestedDevice, generate::slots::Slots, ops::kept::CacheType};
use serde_json::{Value, json};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Semaphore,
};

use crate::{
    host::Host,
    wire::{
        completion::Usage,
        error::{AppError, Result},
    },
};
use door::Door;
use journal::{Journal, RequestEntry};
use queue::Queue;
use refusal::Refusal;

/// Threads for the network. The work is done elsewhere.
const THREADS: usize = 2;

/// A server that is running, until it is dropped.
pub(crate) struct Server {
    shared: Arc<Shared>,
    about: About,
    runtime: Option<Runtime>,
    worker: Option<JoinHandle<()>>,
}

/// What its parts share.
struct Shared {
    /// What the model is called.
    model: String,
    /// Since when it is served, in seconds since 1970.
    created: i64,
    door: Door,
    queue: Queue,
    journal: Arc<Journal>,
}

/// What is known of the model since it was opened.
struct About {
    /// What was asked for.
    name: String,
    answers: bool,
    context: usize,
    slots: usize,
    warnings: Vec<String>,
    since: Timestamp,
}

/// What is served, and to whom.
#[derive(Clone)]
pub(crate) struct Served {
    /// The run, the folder or the name of the model.
    pub(crate) name: String,
    /// The device it is opened on.
    pub(crate) device: Option<RequestedDevice>,
    /// Whether it is opened although it does not fit into memory.
    pub(crate) force: bool,
    /// The port that is wanted, 0 for any. Without one, the first that is free from [`listen::PORT`] on.
    pub(crate) port: Option<u16>,
    /// The key that clients have to show. Without one, any is accepted.
    pub(crate) key: Option<String>,
    /// How keys and values of what was read are kept.
    pub(crate) cache: CacheType,
    /// How many requests are answered at once.
    pub(crate) slots: usize,
}

impl Served {
    /// The most of them.
    pub(crate) const SLOTS: usize = Slots::MOST;

    /// So many requests at once, or why that can't be.
    pub(crate) fn checked_slots(slots: usize) -> std::result::Result<usize, String> {
        match (1..=Self::SLOTS).contains(&slots) {
            true => Ok(slots),
            false => Err(format!(
                "{slots} requests can’t be answered at once; choose from 1 to {}",
                Self::SLOTS
            )),
        }
    }
}

/// What a server is doing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// Requests that were answered with text.
    pub(crate) answered: u32,
    /// Requests that are being answered.
    pub(crate) answering: usize,
    /// Requests that wait.
    pub(crate) waiting: usize,
    /// What the last answer took.
    pub(crate) last: Option<Usage>,
}

impl Server {
    /// Opens a model and serves it.
    pub(crate) fn start(served: Served, host: &Arc<Host>) -> Result<Self> {
        if served.key.as_ref().is_some_and(String::is_empty) {
            let why = "the key is empty; leave it out to accept any";
            return Err(AppError::invalid(why).with_field("key"));
        }
        let slots = served.slots;
        let open = {
            let (host, served) = (host.clone(), served.clone());
            move || {
                let Served {
                    name,
                    device,
                    force,
                    cache,
                    slots,
                    ..
                } = &served;
                host.open_to_serve(*slots, *cache, name, *device, *force)
            }
        };
        let model = open()?;
        let called = host.served_name(&served.name);
        let about = About {
            name: served.name,
            answers: model.answers(),
            context: model.context(),
            slots,
            warnings: model.warnings().to_vec(),
            since: Timestamp::now(),
        };
        let (port, listeners) = listen::bind(served.port)?;
        let shared = Arc::new(Shared {
            model: called,
            created: about.since.as_second(),
            door: Door::new(port, served.key.as_deref()),
            queue: Queue::default(),
            journal: Arc::default(),
        });
        let failed = |what: &str, error: std::io::Error| {
            AppError::failed(format!("could not start {what}: {error}"))
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("server")
            .enable_all()
            .build()
            .map_err(|error| failed("the server", error))?;
        let worker = {
            let shared = shared.clone();
            let open: queue::Open = Box::new(open);
            thread::Builder::new()
                .name("answers".to_owned())
                .spawn(move || shared.queue.work(model, slots, &open))
                .map_err(|error| failed("what answers requests", error))?
        };
        let router = routes::router(shared.clone());
        let free = Arc::new(Semaphore::new(limits::CONNECTIONS.most as usize));
        for listener in listeners {
            runtime.spawn(listen::accept(listener, router.clone(), free.clone()));
        }
        Ok(Self {
            shared,
            about,
            runtime: Some(runtime),
            worker: Some(worker),
        })
    }

    /// The address that clients are given.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.shared.door.port)
    }

    /// What clients call the model.
    pub(crate) fn model(&self) -> &str {
        &self.shared.model
    }

    /// What a person should know about where it computes.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.about.warnings
    }

    /// What it is doing.
    pub(crate) fn standing(&self) -> Standing {
        let (answering, waiting) = self.shared.queue.counts();
        let (answered, last) = self.shared.journal.answered();
        Standing {
            answered,
            answering,
            waiting,
            last,
        }
    }

    /// The requests after one with this number, as far as they are kept.
    pub(crate) fn entries(&self, after: u32) -> Vec<RequestEntry> {
        self.shared.journal.after(after)
    }
}

/// Reads a request as both interfaces do. For tests of what strangers send.
#[cfg(test)]
pub(crate) fn read_request(body: &[u8]) -> std::result::Result<(), String> {
    let read = asked::chat(body).or_else(|_| asked::text(body));
    read.map(drop)
        .map_err(|refusal| refusal.message().to_owned())
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.queue.close();
        // What is being sent breaks off, and with it the answer.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        // The model gives its memory back before anybody opens another.
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn model_json(&self) -> Value {
        json!({"id": self.model, "object": "model", "created": self.created, "owned_by": "anneal"})
    }

    /// Whether a request means the model that is served. One that names none does.
    fn check_model(&self, asked: Option<&str>) -> Result<(), Refusal> {
        match asked {
            None | Some("" | "default") => Ok(()),
            Some(asked) if asked == self.model => Ok(()),
            Some(asked) => {
                let asked: String = asked.chars().take(100).collect();
                let why = format!("there is no model `{asked}`; `{}` is served", self.model);
                let refusal = Refusal::new(StatusCode::NOT_FOUND, why);
                Err(refusal.with_code("model_not_found"))
            }
        }
    }
}
