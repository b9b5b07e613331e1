//! What the window can ask for. A command is an adapter: it reads its arguments, asks the host, and returns a view.

mod bench;
mod chat;
mod data;
pub(crate) mod device;
mod export;
pub(crate) mod home;
mod hub;
mod models;
mod native;
mod predict;
mod probe;
mod runs;
mod serve;
pub(crate) mod settings;
mod solve;
mod train;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ::models::tasks::{self, AnyPlan};
use tauri::{Wry, ipc::Channel};

use crate::{
    host::{Host, chat::OpenModel, predict::OpenClassifier, solve::OpenSolver},
    hub::downloads::Downloads,
    jobs::queue::Queue,
    lock::locked,
    serve::Server,
    store::{
        checks::view::CheckProgressView,
        run_state::{RunProgress, RunState},
        runs::{self as stored_runs, Run, view::RunView},
    },
    wire::error::{AppError, Result},
};

use home::view::News;

/// How many models can be open for chat: one, and the one it is compared with.
const CHAT_PLACES: usize = 2;

/// A step of a benchmark may take so long; then the app ends without it.
const BENCH_ENDS: Duration = Duration::from_secs(5);

/// What commands share.
pub(crate) struct App {
    /// Everything the app can do.
    pub(crate) host: Arc<Host>,
    /// The runs that are running and wait.
    pub(crate) queue: Queue,
    /// What is fetched from the Hub.
    pub(crate) downloads: Downloads,
    /// The plan of each run, and how far it was when it was last looked at, by its id.
    known: Mutex<HashMap<String, RunProgress>>,
    /// What is odd about the settings.
    warnings: Vec<String>,
    /// The models that are open for chat.
    chats: [ModelSlot<OpenModel>; CHAT_PLACES],
    /// The puzzle model that is open.
    solver: ModelSlot<OpenSolver>,
    /// The classifier of pictures that is open.
    classifier: ModelSlot<OpenClassifier>,
    /// What other programs ask, while it is switched on.
    server: Mutex<Option<Server>>,
    /// How often a set of puzzles was asked for, or its end: one that began before ends.
    builds_asked: AtomicU32,
    /// The number of the page that follows a run; an older one hears no more.
    follower: Arc<AtomicU32>,
    /// Where the user said that something is to be written.
    picked: Mutex<HashSet<PathBuf>>,
    /// How often a check was asked for, or its end: one that began before ends.
    pub(crate) checks_asked: AtomicU32,
    /// Held by the check that is running: one at a time.
    pub(crate) check_turn: Mutex<()>,
    /// How far the check is that is running.
    checking: Mutex<Option<CheckProgressView>>,
    /// How often a count of data was asked for, or its end: one that began before ends.
    counts_asked: Arc<AtomicU32>,
    /// Runs and models of which the export should end.
    stopped_exports: Mutex<BTreeSet<String>>,
    /// Whether the benchmark should end.
    stop_bench: AtomicBool,
    /// Whether the steps that are tried should end.
    stop_trial: AtomicBool,
    /// The window, once its page is there.
    window: Mutex<Option<Channel<News>>>,
    /// How the machine is kept awake, while it is.
    pub(crate) awake: Mutex<Option<String>>,
    /// What the user wants to happen to the run when the window closes.
    pub(crate) leaving: Mutex<Option<Leaving>>,
    /// When the window last asked that.
    pub(crate) asked: Mutex<Option<Instant>>,
}

/// What happens to the run that is running when the window closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, specta::Type)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Leaving {
    /// It continues without a window, and the app ends after it.
    Background,
    /// It is saved and stopped.
    Save,
}

/// A model that is open to be asked.
struct ModelSlot<M> {
    model: Mutex<Option<M>>,
    /// Whether what it does should end.
    stop: AtomicBool,
}

impl<M> Default for ModelSlot<M> {
    fn default() -> Self {
        Self {
            model: Mutex::default(),
            stop: AtomicBool::default(),
        }
    }
}

impl App {
    pub(crate) fn new(host: Host, warnings: Vec<String>) -> Self {
        let host = Arc::new(host);
        Self {
            queue: Queue::new(host.paths.waiting.clone(), {
                let host = host.clone();
                move |run, force, heard, control| {
                    host.train(run, force, &mut |_| {}, heard, control)
                }
            }),
            downloads: Downloads::new(host.hub.clone(), host.paths.clone()),
            host,
            known: Mutex::default(),
            warnings,
            chats: Default::default(),
            solver: ModelSlot::default(),
            classifier: ModelSlot::default(),
            server: Mutex::default(),
            builds_asked: AtomicU32::default(),
            follower: Arc::default(),
            picked: Mutex::default(),
            checks_asked: AtomicU32::default(),
            check_turn: Mutex::default(),
            checking: Mutex::default(),
            counts_asked: Arc::default(),
            stopped_exports: Mutex::default(),
            stop_bench: false.into(),
            stop_trial: false.into(),
            window: Mutex::default(),
            awake: Mutex::default(),
            leaving: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    /// Tells the window something. Whether there is a page to hear it.
    pub(crate) fn send(&self, news: News) -> bool {
        let window = locked(&self.window);
        window
            .as_ref()
            .is_some_and(|window| window.send(news).is_ok())
    }

    /// Ends the benchmark that is running, and waits a while until what it measured is kept.
    pub(crate) fn stop_benchmark(&self) {
        self.stop_bench.store(true, Ordering::SeqCst);
        let asked = Instant::now();
        while self.queue.has_turn() && asked.elapsed() < BENCH_ENDS {
            thread::sleep(BENCH_ENDS / 100);
        }
    }

    /// How far a run is, and its plan if it still has one. Of its events only the new ones are read.
    pub(crate) fn state(&self, run: &Run) -> Result<(RunState, Option<AnyPlan>)> {
        let mut known = locked(&self.known);
        let progress = known
            .entry(run.id.clone())
            .or_insert_with(|| RunProgress::new(run));
        progress.catch_up_with_all()?;
        let goes_on = self.queue.whether_goes_on(&run.id)();
        Ok((progress.state(run, goes_on)?, progress.plan()))
    }

    /// A run as the window shows it.
    fn view(&self, run: &Run) -> Result<RunView> {
        Ok(self.show(run, self.state(run)?))
    }

    /// The same for a run whose state is known.
    fn show(&self, run: &Run, (state, plan): (RunState, Option<AnyPlan>)) -> RunView {
        RunView::new(state, plan.as_ref(), self.queue.place(&run.id))
    }

    /// The run with an id.
    fn run(&self, id: &str) -> Result<Run> {
        stored_runs::exact(&self.host.paths, id)
    }

    /// All runs, the newest first. One that can't be read is left out; its folder stays.
    fn views(&self) -> Vec<RunView> {
        let runs = stored_runs::list(&self.host.paths);
        runs.iter()
            .rev()
            .filter_map(|run| self.view(run).ok())
            .collect()
    }

    /// Reads a run anew the next time.
    fn forget(&self, id: &str) {
        locked(&self.known).remove(id);
    }

    /// A path to write to, which the user has chosen in a dialog: the page alone can't name one.
    fn picked(&self, path: &str) -> Result<PathBuf> {
        let path = PathBuf::from(path);
        match locked(&self.picked).contains(&path) {
            true => Ok(path),
            false => Err(AppError::invalid(format!(
                "nobody chose to write to `{}`",
                path.display()
            ))),
        }
    }

    fn place(&self, place: u32) -> Result<&ModelSlot<OpenModel>> {
        let found = self.chats.get(place as usize);
        found.ok_or_else(|| AppError::invalid(format!("there is no place {place} for a model")))
    }
}

/// The commands of a window on the runtime `R`: the real one, or the one of the tests.
macro_rules! commands {
    ($($module:ident: $($name:ident $(<$runtime:ident>)?),+;)+) => {
        tauri_specta::Builder::<R>::new().commands(tauri_specta::collect_commands![
            $($(self::$module::$name $(::<$runtime>)?),+),+
        ])
    };
}

/// All commands, with the types that the window's code is checked against.
pub(crate) fn builder() -> tauri_specta::Builder<Wry> {
    type R = Wry;
    let commands = include!("names.in");
    commands
        // What is sent is what is read: neither leaves a field out.
        .disable_serde_phases()
        // A page counts exactly up to 2^53, and nothing here is more.
        .dangerously_cast_bigints_to_number()
        .constant("trainFields", tasks::fields::fields())
        .constant("publishedFigures", bench::published_figures())
}

#[cfg(test)]
mod tests;
