//! The engine's side: `anneal worker` reads asks from standard input and writes replies to standard output.
//!
//! One thread owns the device and does the work, with a stack large enough for deep models; one reads, so that a stop is
//! noticed at once; one reports every second that the engine is alive. Panics become a reply. Anything else that is
//! written to standard error is the log of whoever started the engine.

use std::{
    io::{self, BufRead, Write},
    ops::ControlFlow,
    panic::{self, AssertUnwindSafe},
    path::Path,
    process,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use models::{
    data::starter::Exchange,
    device::{self, Checked, RequestedDevice},
    profile::Ceilings,
    tasks::{
        picture::classifier::Classifier,
        probe::{capture::Capture, folder::WRITTEN_BY, states_identity::identities},
        puzzle::solve::Solver,
        starter,
    },
    train::profile::Profile,
};

use super::{
    bench,
    chat::{self, Chat},
    check, choose, mistake, predict, probe, several,
    solve::{self, solve_and_count},
    train,
};
use crate::{
    lock::locked,
    ranks::of_environment,
    store::runs::Run,
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// A stack that the deepest model does not fill.
const STACK_BYTES: usize = 256 << 20;
/// How often the engine says that it lives.
pub(super) const BEAT: Duration = Duration::from_secs(1);

/// Whether what is running should wait or end, and whether nobody is there to ask for more.
#[derive(Debug, Default)]
struct ControlState {
    pause: AtomicBool,
    /// Why it should wait, if nobody asked for it.
    why_pause: Mutex<Option<String>>,
    stop: AtomicBool,
    leave: AtomicBool,
}

impl ControlState {
    fn stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || self.leave.load(Ordering::SeqCst)
    }

    /// For work that asks after each part of it.
    fn flow(&self) -> ControlFlow<()> {
        match self.stop() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// A model that is open to be asked.
enum Open {
    Chat(Box<Chat>),
    Solver(Box<Solver>),
    Classifier(Box<Classifier>),
}

/// Writes a reply, a whole line from any thread. An app that is gone is noticed where asks are read.
fn send(reply: &Reply) {
    let Ok(mut line) = serde_json::to_vec(reply) else {
        return;
    };
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
}

/// Works until standard input ends.
pub(crate) fn run() -> Result<()> {
    keep_memory();
    send(&Reply::Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        devices: device::detect::detect(),
    });
    let control = Arc::new(ControlState::default());
    let (sender, asks) = mpsc::channel();
    let of_engine = control.clone();
    let engine = with_the_main_heap(move || {
        let (sender, started) = mpsc::channel();
        let engine = thread::Builder::new()
            .name("engine".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _ = sender.send(());
                work(&asks, &of_engine)
            });
        let _ = started.recv();
        engine
    });
    thread::spawn(move || read(&sender, &control));
    thread::spawn(|| {
        loop {
            thread::sleep(BEAT);
            send(&Reply::Beat);
        }
    });
    let engine =
        engine.map_err(|error| AppError::failed(format!("could not start the engine: {error}")))?;
    engine
        .join()
        .map_err(|_| AppError::failed("the engine ended by a mistake of ours"))
}

/// Passes asks on in order, and hears a stop at once.
fn read(asks: &Sender<Ask>, control: &ControlState) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(Ask::Pause { why }) => {
                *locked(&control.why_pause) = why;
                control.pause.store(true, Ordering::SeqCst);
            }
            Ok(Ask::Continue) => control.pause.store(false, Ordering::SeqCst),
            Ok(Ask::Stop) => control.stop.store(true, Ordering::SeqCst),
            Ok(ask) => {
                control.pause.store(false, Ordering::SeqCst);
                control.stop.store(false, Ordering::SeqCst);
                if asks.send(ask).is_err() {
                    break;
                }
            }
            Err(error) => send(&Reply::Refused {
                error: AppError::failed(format!("the engine does not know what is asked: {error}")),
            }),
        }
    }
    control.leave.store(true, Ordering::SeqCst);
}

fn work(asks: &Receiver<Ask>, control: &ControlState) {
    device::compute_on_this_thread();
    let mut open = None;
    for ask in asks {
        let trains = matches!(ask, Ask::Train { .. });
        let is_of_server = matches!(ask, Ask::Begin { .. } | Ask::Leave { .. });
        let done = panic::catch_unwind(AssertUnwindSafe(|| match is_of_server {
            true => open_chat(&mut open)?.obey_server(
                ask,
                asks,
                &mut |request, event| send(&Reply::OfRequest { request, event }),
                &|| control.stop(),
            ),
            false => obey(ask, &mut open, control),
        }));
        send(&match done {
            // Their events say so.
            Ok(Ok(())) if is_of_server => continue,
            Ok(Ok(())) => Reply::Done,
            Ok(Err(error)) => Reply::Refused { error },
            // What a panic says is in the log. Another engine continues with the run, or gives up memory if that was it.
            Err(_) if trains => process::abort(),
            Err(panic) => Reply::Refused {
                error: mistake(&*panic),
            },
        });
    }
}

fn obey(ask: Ask, open: &mut Option<Open>, control: &ControlState) -> Result<()> {
    match ask {
        Ask::Train { folder, force } => {
            // A run needs the memory that a model to talk to may hold.
            *open = None;
            let mut show = |event| send(&Reply::Happened { event });
            let control = train::RunControl {
                pause: &|| control.pause.load(Ordering::SeqCst),
                why_pause: &|| locked(&control.why_pause).clone(),
                stop: &|| control.stop(),
                force,
            };
            match of_environment()? {
                Some(launch) if launch.rank > 0 => several::follow(launch, control),
                _ => train::train(&Run::at(folder), &mut show, control),
            }
        }
        Ask::Try { plan, folder } => {
            *open = None;
            if let Some(forecast) = train::try_steps(*plan, &folder, &|| control.stop())? {
                send(&Reply::Tried { forecast });
            }
            Ok(())
        }
        Ask::Profile { plan, folder } => {
            *open = None;
            let profiled = train::profile_steps(*plan, &folder, &|| control.stop())?;
            tell_profile(profiled);
            Ok(())
        }
        Ask::OpenChat { .. }
        | Ask::Watch { .. }
        | Ask::Steer { .. }
        | Ask::Answer { .. }
        | Ask::Serve { .. }
        | Ask::ProfileAnswer => chat(ask, open, control),
        Ask::OpenSolver { .. }
        | Ask::ReadPuzzle { .. }
        | Ask::Solve { .. }
        | Ask::CountSolved { .. } => solve(ask, open, control),
        Ask::OpenClassifier { .. } | Ask::Predict { .. } => classify(ask, open),
        Ask::Capture { .. } | Ask::ApplyProbes { .. } => {
            *open = None;
            read_states(ask, control)
        }
        Ask::Check { .. }
        | Ask::CheckFallback { .. }
        | Ask::TryKind { .. }
        | Ask::Bench { .. }
        | Ask::ProfileCase { .. } => {
            *open = None;
            try_device(ask, control)
        }
        Ask::Examine {
            folder,
            device,
            questions,
        } => examine(&folder, device, &questions, control),
        // Heard where asks are read.
        Ask::Pause { .. } | Ask::Continue | Ask::Stop => Ok(()),
        // Taken by `work`.
        Ask::Begin { .. } | Ask::Leave { .. } => Ok(()),
    }
}

/// Asks a model questions whose answers are known.
fn examine(
    folder: &Path,
    device: RequestedDevice,
    questions: &[Exchange],
    control: &ControlState,
) -> Result<()> {
    let model = chat::open_model(folder, &choose(device, false)?, &Checked::default())?;
    let mut progress = |count| {
        send(&Reply::Examined { count });
        control.flow()
    };
    let examination = starter::examine(&model, questions, &mut progress)?;
    send(&Reply::Passed { examination });
    Ok(())
}

/// Does what is asked of a model that writes.
fn chat(ask: Ask, open: &mut Option<Open>, control: &ControlState) -> Result<()> {
    match ask {
        Ask::OpenChat {
            folder,
            device,
            checked,
        } => {
            *open = None;
            let chat = Chat::open(&folder, &choose(device, false)?, &checked)?;
            send(&Reply::Opened {
                answers: chat.answers(),
                context: chat.context(),
                warnings: chat.warnings().to_vec(),
            });
            *open = Some(Open::Chat(chat.into()));
        }
        Ask::Watch { probes, force } => {
            let tell = |scored| send(&Reply::Scored { scored });
            let (probes, warnings) = open_chat(open)?.watch(&probes, force, tell)?;
            send(&Reply::Watching { probes, warnings });
        }
        Ask::Steer { by, force } => {
            let led = open_chat(open)?.steer(&by, force)?;
            send(&Reply::Leading { led });
        }
        Ask::Answer {
            prompt,
            settings,
            plain,
        } => {
            let chat = open_chat(open)?;
            let mut show = |piece: &str| {
                if !piece.is_empty() {
                    send(&Reply::Wrote {
                        piece: piece.to_owned(),
                    });
                }
                control.flow()
            };
            let said = chat.answer(prompt, &settings, plain, &mut show)?;
            send(&Reply::Answered { said });
        }
        Ask::Serve { slots, cache } => open_chat(open)?.serve(slots, cache),
        Ask::ProfileAnswer => {
            let profiled = open_chat(open)?.profile(&|| control.stop())?;
            if let Some((profile, ceilings)) = profiled {
                send(&Reply::ProfiledAnswer {
                    profile: profile.into(),
                    ceilings,
                });
            }
        }
        _ => {}
    }
    Ok(())
}

/// The model that is open for chat.
fn open_chat(open: &mut Option<Open>) -> Result<&mut Chat> {
    match open {
        Some(Open::Chat(chat)) => Ok(chat),
        _ => Err(AppError::failed("no model is open for chat")),
    }
}

/// Does what is asked of the hidden states of a model.
fn read_states(ask: Ask, control: &ControlState) -> Result<()> {
    let mut tell = |reply| send(&reply);
    let flow = || control.flow();
    match ask {
        Ask::Capture {
            folder,
            device,
            checked,
            request,
            states,
        } => {
            let device = choose(device, false)?;
            let model = chat::open_model(&folder, &device, &checked)?;
            let dtypes = chat::load_dtypes(&device, &checked)?;
            let capture = Capture::plan(&model, dtypes, &folder, &request, WRITTEN_BY)?;
            probe::capture(
                (&model, &capture),
                &device.warnings,
                states.as_deref(),
                &mut tell,
                &flow,
            )
        }
        Ask::ApplyProbes {
            folder,
            device,
            checked,
            probes,
            request,
            force,
        } => {
            let device = choose(device, false)?;
            let dtypes = chat::load_dtypes(&device, &checked)?;
            // Refused before anything long begins.
            let (probes, more) = probe::open(&[probes], &identities(&folder)?, dtypes, force)?;
            let model = chat::open_model(&folder, &device, &checked)?;
            let warnings = [device.warnings, more].concat();
            for probes in &probes {
                let warnings = warnings.clone();
                probe::apply(&model, probes, &request, warnings, &mut tell, &flow)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Does what is asked of a model that solves puzzles.
fn solve(ask: Ask, open: &mut Option<Open>, control: &ControlState) -> Result<()> {
    if let Ask::OpenSolver {
        folder,
        device,
        checked,
    } = ask
    {
        *open = None;
        let device = choose(device, false)?;
        let solver = solve::open(&folder, &device, &checked)?;
        send(&Reply::SolverOpened {
            board: solver.board().clone(),
            steps: solver.steps(),
            weights: solver.weights(),
            warnings: device.warnings,
        });
        *open = Some(Open::Solver(solver.into()));
        return Ok(());
    }
    match open {
        Some(Open::Solver(solver)) => {
            solve_and_count(ask, solver, &mut |reply| send(&reply), &|| control.flow())
        }
        _ => Err(AppError::failed("no puzzle model is open")),
    }
}

/// Does what is asked of a model that says what pictures show.
fn classify(ask: Ask, open: &mut Option<Open>) -> Result<()> {
    match (ask, &open) {
        (
            Ask::OpenClassifier {
                folder,
                device,
                checked,
            },
            _,
        ) => {
            *open = None;
            let device = choose(device, false)?;
            let classifier = predict::open(&folder, &device, &checked)?;
            send(&Reply::ClassifierOpened {
                about: classifier.about().clone().into(),
                weights: classifier.network().parameters().trainable_count(),
                warnings: device.warnings,
            });
            *open = Some(Open::Classifier(classifier.into()));
            Ok(())
        }
        (Ask::Predict { picture, side }, Some(Open::Classifier(classifier))) => {
            let answer = predict::predict(classifier, &picture, side)?;
            send(&Reply::Predicted { answer });
            Ok(())
        }
        _ => Err(AppError::failed("no classifier is open")),
    }
}

/// Does what the device check and the benchmark ask.
fn try_device(ask: Ask, control: &ControlState) -> Result<()> {
    match ask {
        Ask::Check {
            group,
            from,
            device,
            faults,
        } => {
            let mut report = |row| {
                send(&Reply::Checked { row });
                control.flow()
            };
            check::check(&group, from, device, &faults, &mut report)
        }
        Ask::CheckFallback {
            group,
            at,
            device,
            faults,
        } => {
            let fallback = check::fallback(&group, at, device, &faults)?;
            send(&Reply::FellBack { fallback });
            Ok(())
        }
        Ask::TryKind {
            task,
            device,
            checked,
            folder,
            faults,
        } => {
            let millis = check::try_kind(&task, device, &checked, &folder, &faults)?;
            send(&Reply::TriedKind { millis });
            Ok(())
        }
        Ask::Bench {
            case,
            device,
            avoid_kernels,
            seconds,
        } => {
            let stop = || control.stop();
            let row = bench::measure(case, device, avoid_kernels, seconds, &stop)?;
            send(&Reply::Measured { row: Box::new(row) });
            Ok(())
        }
        Ask::ProfileCase {
            case,
            device,
            avoid_kernels,
        } => {
            let stop = || control.stop();
            tell_profile(bench::profile(&case, device, avoid_kernels, &stop)?);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Says where steps spent their time and memory, unless they were stopped.
fn tell_profile(profiled: Option<(Profile, Option<Ceilings>)>) {
    if let Some((profile, ceilings)) = profiled {
        let profile = Box::new(profile);
        send(&Reply::Profiled { profile, ceilings });
    }
}

/// Has the allocator keep what it was given for the next tensor. Without this, glibc maps and unmaps every larger one
/// anew, and a step of training spends much of its time in page faults.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep_memory() {
    const BYTES: libc::c_int = 1 << 30;
    // SAFETY: the calls only set a number in the allocator, before this process has tensors.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, BYTES);
        libc::mallopt(libc::M_ARENA_TEST, libc::c_int::MAX);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep_memory() {}

/// Has the thread that `start` starts take its memory from the main heap, and each of those that compute beside it from a heap of its
/// own. In one heap, threads that turn texts into tokens wait for each other at every word. But a heap of a thread's own has no
/// room for 64 MB at once: a tensor of that size, which the engine's thread makes, would be mapped anew each time.
///
/// glibc gives each new thread a heap that nobody has any more, then a new one until there may be no more, then the main one. So
/// other threads take as many as will be needed and leave them when the engine has its own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn with_the_main_heap<T>(start: impl FnOnce() -> T) -> T {
    let until_started = Mutex::new(());
    let (sender, taken) = mpsc::channel();
    thread::scope(|scope| {
        let waiting = locked(&until_started);
        let take = |sender: Sender<Box<u8>>| {
            let until_started = &until_started;
            move || {
                // The first thing that is made decides on the heap.
                let _ = sender.send(Box::new(0u8));
                drop(locked(until_started));
            }
        };
        // As many as compute, without the engine's, and the two that read and beat.
        let threads = thread::available_parallelism().map_or(1, |threads| threads.get() + 1);
        // Each reserves 64 MB of addresses, which such a limit counts.
        let count = if has_limited_addresses() { 0 } else { threads };
        // Where the system allows no more threads, there are fewer heaps.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, take(sender.clone()));
        let spawned = (0..count).map(spawn).filter(Result::is_ok).count();
        let _ = taken.iter().take(spawned).count();
        // SAFETY: the call only sets a number in the allocator.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
        let started = start();
        drop(waiting);
        started
    })
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn has_limited_addresses() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the call fills the structure that it is given.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    limit.rlim_cur != libc::RLIM_INFINITY
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn with_the_main_heap<T>(start: impl FnOnce() -> T) -> T {
    start()
}
