//! The app's side: an engine process, started, asked and heard.
//!
//! The engine is this same program as `anneal worker`, or `anneal-cuda worker` where that stands beside it and a CUDA
//! device is wanted. It exits when it is dropped here, or when this process ends for any reason.

use std::{
    env,
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    mem::discriminant,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use models::device::{DeviceKind, FoundDevice};

use super::worker::BEAT;
use crate::{
    store::hub_cache::SECRETS,
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// How long an engine may take to say hello: a driver that is asked for the first time compiles.
const HELLO: Duration = Duration::from_secs(60);
/// An engine that is silent for so long hangs. It beats every second, so this much waiting is no slow machine.
const SILENCE: Duration = BEAT.saturating_mul(120);
/// How much of the end of its log is looked at for the reason it ended.
const LAST_WORDS_BYTES: u64 = 64_000;
/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(30);

/// What the app wants of what is running in an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Control {
    /// Continue.
    Continue,
    /// Save, and wait in memory; for this reason, if nobody asked for it.
    Pause(Option<String>),
    /// Save, and end it.
    Stop,
}

impl Control {
    /// To end it, or to continue.
    pub(crate) fn stop_if(stop: bool) -> Self {
        match stop {
            true => Self::Stop,
            false => Self::Continue,
        }
    }
}

/// How an engine ended that nobody asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// Ended from outside, by somebody or by the system.
    Killed,
    /// Gave up by itself, as a program does that can't continue.
    Aborted,
    /// Ended by another signal.
    Signal(i32),
    /// Left with this code.
    Code(i32),
    /// Said nothing any more, and was ended for that.
    Silent,
    /// Nobody knows.
    Unknown,
}

impl ExitReason {
    fn of(status: ExitStatus) -> Self {
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
            return match signal {
                9 => Self::Killed,
                6 => Self::Aborted,
                signal => Self::Signal(signal),
            };
        }
        match status.code() {
            // What Windows has for a program that gave up.
            Some(code) if code as u32 == 0xC000_0409 => Self::Aborted,
            Some(code) => Self::Code(code),
            None => Self::Unknown,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Killed => "was killed, by somebody or because memory ran out".to_owned(),
            Self::Aborted => "gave up".to_owned(),
            Self::Signal(signal) => format!("was ended by signal {signal}"),
            Self::Code(0) => "left before it was done".to_owned(),
            Self::Code(code) => format!("ended with code {code}"),
            Self::Silent => "was silent".to_owned(),
            Self::Unknown => "ended".to_owned(),
        }
    }
}

/// The flag of Windows for a process without a console of its own.
#[cfg(windows)]
const CREATE_NO_WINDOW: u32 = 0x0800_0000;

/// How many operations candle puts into a command buffer for Metal before it hands it over: its own 50 are about a layer of a small
/// model, and each handing over costs tens of microseconds. It reads this when it opens the device. Who starts the program may
/// have said another number.
const METAL_OPERATIONS: (&str, &str) = ("CANDLE_METAL_COMPUTE_PER_BUFFER", "200");

/// The command that starts an engine, without the secrets of the user: it opens what others made, and needs no network.
fn worker(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("worker");
    for secret in SECRETS {
        command.env_remove(secret);
    }
    let (name, operations) = METAL_OPERATIONS;
    if env::var_os(name).is_none() {
        command.env(name, operations);
    }
    command
}

/// An engine process.
pub(crate) struct Engine {
    child: Child,
    /// None once the engine is to leave.
    stdin: Option<ChildStdin>,
    replies: Receiver<Reply>,
    devices: Vec<FoundDevice>,
    log: Option<PathBuf>,
    /// How long the log was when it started.
    log_start: u64,
    /// How it ended, once it did without being asked to.
    exit_reason: Option<ExitReason>,
    /// How long what it does may take between two replies, beats aside. Who trains has no limit.
    limit: Option<Duration>,
    /// How long nothing was heard. A machine that slept was not silent, so a single wait counts as a second at most.
    silent: Duration,
}

impl Engine {
    /// Starts an engine that can use a kind of device. What it writes beside its replies goes to the end of `log`, or is
    /// shown.
    pub(crate) fn start(kind: DeviceKind, log: Option<&Path>) -> Result<Self> {
        Self::start_with(kind, log, &[])
    }

    /// The same, with variables in its environment.
    pub(crate) fn start_with(
        kind: DeviceKind,
        log: Option<&Path>,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        let own = own_program()?;
        let cuda = (kind == DeviceKind::Cuda)
            .then(|| cuda_program(&own))
            .flatten();
        Self::start_program(&cuda.unwrap_or(own), log, variables)
    }

    fn start_program(
        program: &Path,
        log: Option<&Path>,
        variables: &[(&str, String)],
    ) -> Result<Self> {
        let mut log_start = 0;
        let stderr = match log {
            Some(log) => {
                let file = OpenOptions::new().create(true).append(true).open(log);
                let file = file.map_err(AppError::file("open the log", log))?;
                log_start = file.metadata().map_or(0, |file| file.len());
                Stdio::from(file)
            }
            None => Stdio::inherit(),
        };
        let mut command = worker(program);
        command
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        // Ctrl-C in a terminal is for the app, which then asks the engine to stop.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        // A window has no console, and its engine needs none of its own.
        #[cfg(windows)]
        std::os::windows::process::CommandExt::creation_flags(&mut command, CREATE_NO_WINDOW);
        let mut child = command
            .spawn()
            .map_err(AppError::file("start the engine", program))?;
        let (sender, replies) = mpsc::channel();
        let stdout = child.stdout.take();
        thread::spawn(move || {
            let lines = stdout
                .into_iter()
                .flat_map(|stdout| BufReader::new(stdout).lines());
            for line in lines {
                let Ok(line) = line else { break };
                // A line that is no reply was printed by a driver; it says nothing to us.
                let Ok(reply) = serde_json::from_str(&line) else {
                    continue;
                };
                if sender.send(reply).is_err() {
                    break;
                }
            }
        });
        let engine = Self {
            stdin: child.stdin.take(),
            child,
            replies,
            devices: Vec::new(),
            log: log.map(Path::to_owned),
            log_start,
            exit_reason: None,
            limit: None,
            silent: Duration::ZERO,
        };
        engine.greeted(program)
    }

    /// The engine once it has said hello.
    fn greeted(mut self, program: &Path) -> Result<Self> {
        match self.replies.recv_timeout(HELLO) {
            Ok(Reply::Hello { version, devices }) => {
                if version != env!("CARGO_PKG_VERSION") {
                    let ours = env!("CARGO_PKG_VERSION");
                    let program = program.display();
                    return Err(AppError::failed(format!(
                        "the engine has version {version}, and the app {ours}: `{program}`"
                    )));
                }
                self.devices = devices;
                Ok(self)
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {
                // It does not answer, so it can't be asked to leave.
                let _ = self.child.kill();
                let seconds = HELLO.as_secs();
                Err(AppError::failed(format!(
                    "the engine did not say hello within {seconds} s"
                )))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    /// Ends the engine when what it does takes longer than this between two replies: a device may hang while the process
    /// lives.
    pub(crate) fn limit(&mut self, limit: Duration) {
        self.limit = Some(limit);
    }

    /// What the engine can compute on.
    pub(crate) fn devices(&self) -> &[FoundDevice] {
        &self.devices
    }

    /// The engine's number among the processes of the system.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks, and passes every reply to `hear`, until it is done. What `control` says besides is passed on when it changes.
    pub(crate) fn ask(
        &mut self,
        ask: &Ask,
        hear: &mut dyn FnMut(Reply),
        control: &dyn Fn() -> Control,
    ) -> Result<()> {
        // Beats of an engine that nobody asked anything say nothing of what it does now.
        while let Ok(Reply::Beat) = self.replies.try_recv() {}
        self.send(ask)?;
        let mut sent = Control::Continue;
        let mut idle_beats = 0;
        loop {
            let now = control();
            // The reason of a pause may get other figures while it lasts.
            if discriminant(&now) != discriminant(&sent) && sent != Control::Stop {
                sent = now.clone();
                self.send(&match now {
                    Control::Continue => Ask::Continue,
                    Control::Pause(why) => Ask::Pause { why },
                    Control::Stop => Ask::Stop,
                })?;
            }
            match self.hear(LOOK)? {
                Some(Reply::Done) => return Ok(()),
                Some(Reply::Refused { error }) => return Err(error),
                Some(Reply::Beat) => {
                    idle_beats += 1;
                    if let Some(limit) = self.limit.filter(|limit| BEAT * idle_beats > *limit) {
                        return Err(self.end("did nothing", limit));
                    }
                }
                Some(reply) => {
                    idle_beats = 0;
                    hear(reply);
                }
                None => {}
            }
        }
    }

    /// The next reply, if one comes within this time. Errors when the engine has ended, or hangs.
    pub(crate) fn hear(&mut self, wait: Duration) -> Result<Option<Reply>> {
        let began = Instant::now();
        match self.replies.recv_timeout(wait) {
            Ok(reply) => {
                self.silent = Duration::ZERO;
                Ok(Some(reply))
            }
            Err(RecvTimeoutError::Timeout) if self.silent > SILENCE => {
                Err(self.end("was silent", SILENCE))
            }
            Err(RecvTimeoutError::Timeout) => {
                self.silent += began.elapsed().min(BEAT);
                Ok(None)
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    /// Asks for one thing, which `hear` finds among the replies, until it is done or `stop` ends it. What came counts, however the
    /// engine ended after it.
    pub(crate) fn ask_for<T>(
        &mut self,
        ask: &Ask,
        hear: &mut dyn FnMut(Reply) -> Option<T>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<T>> {
        let mut found = None;
        let mut find = |reply| found = hear(reply).or(found.take());
        let asked = self.ask(ask, &mut find, &|| Control::stop_if(stop()));
        match found {
            None => asked.map(|()| None),
            found => Ok(found),
        }
    }

    /// Asks, and waits for nothing. Errors when the engine has ended.
    pub(crate) fn send(&mut self, ask: &Ask) -> Result<()> {
        let line =
            serde_json::to_string(ask).map_err(|error| AppError::failed(error.to_string()))?;
        let written = self
            .stdin
            .as_mut()
            .map(|stdin| writeln!(stdin, "{line}").and_then(|()| stdin.flush()));
        match written {
            Some(Ok(())) => Ok(()),
            // Whatever the pipe says, the reason is that nobody reads it.
            Some(Err(_)) | None => Err(self.ended()),
        }
    }

    /// Ends an engine that does not answer, so it can't be asked to leave.
    fn end(&mut self, why: &str, time: Duration) -> AppError {
        let _ = self.child.kill();
        self.exit_reason = Some(ExitReason::Silent);
        let seconds = time.as_secs();
        AppError::failed(format!("the engine {why} for {seconds} s and was ended"))
    }

    /// How it ended, if it did so without being asked to.
    pub(crate) fn exit_reason(&self) -> Option<ExitReason> {
        self.exit_reason
    }

    /// The end of what it wrote into its log. Nothing without a log.
    pub(crate) fn last_line(&self) -> String {
        let read = || {
            let mut file = File::open(self.log.as_ref()?).ok()?;
            let length = file.metadata().ok()?.len();
            let from = self.log_start.max(length.saturating_sub(LAST_WORDS_BYTES));
            file.seek(SeekFrom::Start(from)).ok()?;
            let mut end = Vec::new();
            file.read_to_end(&mut end).ok()?;
            Some(String::from_utf8_lossy(&end).into_owned())
        };
        read().unwrap_or_default()
    }

    /// How the engine ended, when nobody asked it to.
    fn ended(&mut self) -> AppError {
        self.stdin = None;
        let how = match self.child.wait() {
            Ok(status) => self.exit_reason.insert(ExitReason::of(status)).describe(),
            Err(error) => format!("could not be waited for: {error}"),
        };
        let error = AppError::failed(format!("the engine {how}"));
        match &self.log {
            Some(log) => error.with_hint(format!("what it wrote last is in `{}`", log.display())),
            None => error,
        }
    }
}

impl Drop for Engine {
    /// The end of its input tells the engine to leave. It saves first, and is waited for.
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// What is said of an engine for CUDA that stands beside this program and does not start.
const CUDA_PROBLEM: &str = "the engine for CUDA that stands beside Anneal can’t be used";

/// All devices of this machine, as the engines see them. An engine that can't start is a sentence.
pub(crate) fn devices() -> (Vec<FoundDevice>, Vec<String>) {
    let mut problems = Vec::new();
    let mut seen_by = |program: Result<PathBuf>, what: &str| {
        let engine = program.and_then(|program| Engine::start_program(&program, None, &[]));
        let seen = engine.map(|engine| engine.devices().to_vec());
        let mut report = |error: AppError| problems.push(format!("{what}: {}", error.message));
        seen.map_err(&mut report).ok()
    };
    let own = own_program();
    let beside = own.as_deref().ok().and_then(cuda_program);
    let mut found = seen_by(own, "the engine didn’t answer").unwrap_or_default();
    if let Some(mut cards) = beside.and_then(|program| seen_by(Ok(program), CUDA_PROBLEM)) {
        // It sees the cards that the other only knows by name.
        cards.retain(|it| it.kind == DeviceKind::Cuda);
        found.retain(|it| it.kind != DeviceKind::Cuda);
        found.splice(0..0, cards);
    }
    (found, problems)
}

/// The engine programs there are, in words.
#[cfg(feature = "gui")]
pub(crate) fn programs() -> Vec<String> {
    let Ok(own) = own_program() else {
        return Vec::new();
    };
    let backend = match () {
        () if cfg!(feature = "cuda") => "CPU and CUDA",
        () if cfg!(feature = "metal") => "CPU and Metal",
        () => "CPU",
    };
    let version = env!("CARGO_PKG_VERSION");
    let own_words = format!("Anneal {version}, {backend}: {}", own.display());
    let beside = cuda_program(&own).map(|path| format!("CUDA: {}", path.display()));
    std::iter::once(own_words).chain(beside).collect()
}

/// The program, which the test harness is not; it stands beside it.
#[cfg(test)]
fn own_program() -> Result<PathBuf> {
    let harness = env::current_exe().map_err(|error| AppError::failed(error.to_string()))?;
    let folder = harness.ancestors().nth(2).unwrap_or(&harness);
    Ok(folder.join(format!("anneal{}", env::consts::EXE_SUFFIX)))
}

/// This program, which is the engine for most devices.
#[cfg(not(test))]
fn own_program() -> Result<PathBuf> {
    env::current_exe()
        .map_err(|error| AppError::failed(format!("could not find this program: {error}")))
}

/// The engine for CUDA that stands beside this program, if this one can't use CUDA itself.
fn cuda_program(own: &Path) -> Option<PathBuf> {
    // What an AppImage holds can't be added to, so there it stands beside the image.
    let image = env::var_os("APPIMAGE").map(PathBuf::from);
    let name = format!("anneal-cuda{}", env::consts::EXE_SUFFIX);
    let beside = [Some(own.to_owned()), image].into_iter().flatten();
    let mut beside = beside.map(|program| program.with_file_name(&name));
    let found = beside.find(|program| program.is_file());
    found.filter(|_| !cfg!(feature = "cuda"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn an_engine_gets_no_secret() {
        let command = worker(Path::new("anneal"));
        for secret in SECRETS {
            let removed = (OsStr::new(secret), None);
            assert!(command.get_envs().any(|it| it == removed), "{secret}");
        }
    }

    #[test]
    fn an_engine_hands_many_operations_to_metal_at_once() {
        let (name, operations) = METAL_OPERATIONS;
        let said = (OsStr::new(name), Some(OsStr::new(operations)));
        let command = worker(Path::new("anneal"));
        let own = env::var_os(name).is_some();
        assert!(own || command.get_envs().any(|it| it == said));
    }
}
