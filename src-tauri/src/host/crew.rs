//! The ranks of a run on several devices of this machine, which this program starts itself: an engine for each, with the variables
//! that a launcher would set.
//!
//! The caller has the engine of rank 0, which tells what happens. The others are started, asked and ended here. Deliberately
//! absent: what the ranks say to each other.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use models::device::DeviceKind;

use super::Host;
use crate::{
    jobs::engine::{Control, Engine},
    lock::locked,
    ranks::{
        launch::{self, Launch},
        meet::{Begun, hear_of_run},
        secret,
        store::{Server, Store},
    },
    wire::{
        engine::Ask,
        error::{AppError, Result},
    },
};

impl Host {
    /// Trains as a rank above 0 that a launcher started, until all ranks are done or stop. Nothing of it is shown.
    pub(crate) fn train_as_rank(
        &self,
        launch: &Launch,
        control: &dyn Fn() -> Control,
    ) -> Result<()> {
        let Some(begun) = wait_for_run(launch, control)? else {
            return Ok(());
        };
        let log = begun.folder.join(launch::log_name(launch.rank));
        // Where the folder is missing, the engine says so.
        let log = begun.folder.is_dir().then_some(log);
        let mut engine = Engine::start(self.kind_of(begun.plan.run.device), log.as_deref())?;
        let ask = Ask::Train {
            folder: begun.folder,
            force: begun.force,
        };
        engine.ask(&ask, &mut |_| {}, control)
    }
}

/// What rank 0 says of its run. Nothing where whoever waits is asked to stop first.
fn wait_for_run(launch: &Launch, control: &dyn Fn() -> Control) -> Result<Option<Begun>> {
    let (sender, heard) = mpsc::channel();
    let launch = launch.clone();
    // What it waits for may never be said, so that it can be left behind.
    thread::spawn(move || {
        let unsaid = || Err(AppError::failed("only rank 0 says which run it is"));
        let heard = Store::connect(&launch).and_then(|mut store| hear_of_run(&mut store, unsaid));
        let _ = sender.send(heard);
    });
    loop {
        match heard.recv_timeout(LOOK) {
            Ok(heard) => return heard.map(Some),
            Err(RecvTimeoutError::Timeout) if control() != Control::Stop => {}
            Err(_) => return Ok(None),
        }
    }
}

/// How long the other ranks may take to end once rank 0 has: after an error they can do nothing more.
const END: Duration = Duration::from_secs(10);
const END_AFTER_ERROR: Duration = Duration::from_secs(1);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(20);

/// The ranks above 0, until this is dropped.
pub(super) struct Crew {
    server: Server,
    secret: String,
    world: usize,
    others: Vec<JoinHandle<()>>,
    /// Their numbers among the processes of the system.
    ids: Arc<Mutex<Vec<u32>>>,
    stops: Arc<AtomicBool>,
    /// Whether rank 0 ended as it should.
    went_well: bool,
}

impl Crew {
    /// A place where so many ranks can meet. Nobody is there yet.
    pub(super) fn new(world: usize) -> Result<Self> {
        Ok(Self {
            server: Server::start_here(world)?,
            secret: secret()?.iter().map(|byte| format!("{byte:02x}")).collect(),
            world,
            others: Vec::new(),
            ids: Arc::default(),
            stops: Arc::default(),
            went_well: false,
        })
    }

    /// What a rank finds in its environment.
    pub(super) fn variables(&self, rank: usize) -> Vec<(&'static str, String)> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        vec![
            ("RANK", rank.to_string()),
            ("LOCAL_RANK", rank.to_string()),
            ("WORLD_SIZE", self.world.to_string()),
            ("LOCAL_WORLD_SIZE", self.world.to_string()),
            ("MASTER_ADDR", "127.0.0.1".to_owned()),
            ("MASTER_PORT", self.server.port().to_string()),
            ("TORCHELASTIC_RUN_ID", launch::OWN_RUN.to_owned()),
            ("TORCHELASTIC_RESTART_COUNT", "0".to_owned()),
            ("TORCHELASTIC_USE_AGENT_STORE", "True".to_owned()),
            (launch::SECRET, self.secret.clone()),
            // Each would take all cores, and open a socket that nobody asks.
            ("RAYON_NUM_THREADS", (cores / self.world).max(1).to_string()),
            ("NCCL_RAS_ENABLE", "0".to_owned()),
        ]
    }

    /// Starts the other ranks, each with a log of its own in the folder of the run, and asks the same of all of them.
    pub(super) fn start_others(&mut self, kind: DeviceKind, folder: &Path, ask: &Ask) {
        for rank in 1..self.world {
            let (variables, ask) = (self.variables(rank), ask.clone());
            let log = folder.join(launch::log_name(rank));
            let (ids, stops) = (self.ids.clone(), self.stops.clone());
            self.others.push(thread::spawn(move || {
                // Rank 0 says that one does not come, or what it said before it went.
                let Ok(mut engine) = Engine::start_with(kind, Some(&log), &variables) else {
                    return;
                };
                let id = engine.id();
                locked(&ids).push(id);
                let stop = || Control::stop_if(stops.load(Ordering::SeqCst));
                let _ = engine.ask(&ask, &mut |_| {}, &stop);
                drop(engine);
                locked(&ids).retain(|it| *it != id);
            }));
        }
    }

    /// Notes that rank 0 ended as it should, so that the others will too.
    pub(super) fn went_well(&mut self) {
        self.went_well = true;
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let limit = if self.went_well { END } else { END_AFTER_ERROR };
        self.stops.store(true, Ordering::SeqCst);
        let started = Instant::now();
        while self.others.iter().any(|it| !it.is_finished()) {
            if started.elapsed() > limit {
                locked(&self.ids).iter().copied().for_each(kill);
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Ends a rank that can’t be asked to leave.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn kill(id: u32) {
    // SAFETY: the process is a child of this one that nobody has waited for, so that its number is still its own.
    unsafe { libc::kill(id as libc::pid_t, libc::SIGKILL) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn kill(_: u32) {}
