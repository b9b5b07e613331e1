//! The device check: every operation runs in an engine, so that a device that crashes the process costs one row.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use models::{
    check::{CheckCase, CheckRow, Fallback, Fault, GROUPS, cases},
    checkpoint::save::replace_file,
    data::{self, DataRequest},
    device::{Checked, DeviceKind, FoundDevice, RequestedDevice, dtype::DeviceClass},
    ops::kernels::NAMES,
    tasks::KINDS,
};

use super::Host;
use crate::{
    jobs::engine::{Control, Engine},
    store::{
        checks::{self, CheckReport, Step},
        in_use::{self, Work},
    },
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// No case takes as long; a device that does nothing for this long hangs. Tests make one hang, and can't wait for long.
const HANGS: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 90 });
/// What is written to see whether the disk keeps it.
const DISK_BYTES: usize = 1 << 20;

/// How far a check is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CheckNews<'a> {
    /// So many cases will be tried.
    Begun { cases: usize },
    /// One was.
    Tried(&'a CheckRow),
}

impl Host {
    /// What is known of a device since it was last checked.
    pub(crate) fn checked(&self, device: &FoundDevice) -> Checked {
        checks::find(&self.paths, device).map_or_else(Checked::default, |report| report.checked())
    }

    /// That a GPU was never checked, for who trains on it. The processor is what others are compared with.
    pub(crate) fn never_checked(&self, device: RequestedDevice) -> Option<String> {
        let found = self.choose_device(Some(device), true, &self.devices.found());
        let device = found.ok()?.device;
        let is_known = device.kind == DeviceKind::Cpu;
        (!is_known && checks::find(&self.paths, &device).is_none()).then(|| {
            format!(
                "{} was never checked; `anneal check` compares it with the processor in some seconds",
                device.name
            )
        })
    }

    /// Tries everything that a run needs of a device, keeps what was found, and returns it. Nothing is kept when `stop` ends it.
    /// It waits for nobody: what else is computed there makes no number wrong, and is said, since it makes times longer.
    pub(crate) fn check(
        &self,
        device: Option<RequestedDevice>,
        faults: &[Fault],
        on_news: &mut dyn FnMut(CheckNews<'_>),
        stop: &dyn Fn() -> bool,
    ) -> Result<CheckReport> {
        let start = Instant::now();
        let device = self
            .choose_device(device, true, &self.devices.found())?
            .device;
        let in_use = self.use_device(device.requested(), Work::Check);
        let class = DeviceClass::of(&device, false);
        let all: Vec<Vec<CheckCase>> = GROUPS
            .iter()
            .map(|group| cases(group.name, class))
            .collect::<Result<_, _>>()?;
        on_news(CheckNews::Begun {
            cases: all.iter().map(Vec::len).sum(),
        });
        let mut check = Check {
            host: self,
            device: &device,
            faults,
            on_news,
            stop,
            engine: None,
            rows: Vec::new(),
        };
        let mut steps = vec![step("The engine starts", check.engine().map(|_| ()))];
        if steps[0].problem.is_none() {
            for cases in &all {
                check.group(cases)?;
            }
            let checked = Checked::from_rows(&check.rows);
            for kind in KINDS.iter().filter(|_| !stop()) {
                steps.extend(check.kind(kind, &checked));
            }
        }
        let rows = check.rows;
        if stop() {
            return Err(AppError::failed("the check was stopped; nothing was kept"));
        }
        steps.push(step("Data is read", self.try_data()));
        steps.push(step("Checkpoints are written and read", self.try_disk()));
        let others = in_use.map_or_else(Vec::new, |in_use| in_use.others());
        let report = CheckReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system: checks::system(),
            time: crate::store::now(),
            seconds: start.elapsed().as_secs_f64(),
            warning: in_use::warning(&others, &device.name),
            device,
            steps,
            rows,
        };
        // What was found with a fault that somebody asked for is nothing to remember, save in tests of what follows from it.
        checks::keep(&self.paths, &report)?;
        Ok(report)
    }

    /// Whether rows of text come to be read, as a run reads them.
    fn try_data(&self) -> Result<()> {
        let path = self.paths.data.join(".check.jsonl");
        crate::store::write_file(&path, b"{\"prompt\": \"1+1?\", \"completion\": \"2\"}\n")?;
        let request = DataRequest {
            paths: vec![path.clone()],
            ..DataRequest::default()
        };
        let read = data::open(&request);
        fs::remove_file(&path).map_err(AppError::file("delete the file", &path))?;
        match read?.rows.len() {
            1 => Ok(()),
            rows => Err(AppError::failed(format!(
                "1 row was written and {rows} came back"
            ))),
        }
    }

    /// Whether the disk that runs lie on keeps what is written.
    fn try_disk(&self) -> Result<()> {
        let path = self.paths.runs.join(".check");
        crate::store::make_folder_of(&path)?;
        let bytes: Vec<u8> = (0..DISK_BYTES).map(|at| (at * 31) as u8).collect();
        replace_file(&path, &bytes)?;
        let read = fs::read(&path).map_err(AppError::file("read the file", &path))?;
        fs::remove_file(&path).map_err(AppError::file("delete the file", &path))?;
        match read == bytes {
            true => Ok(()),
            false => Err(AppError::failed("what was written is not what is read")),
        }
    }
}

/// A check that is running.
struct Check<'a> {
    host: &'a Host,
    device: &'a FoundDevice,
    faults: &'a [Fault],
    on_news: &'a mut dyn FnMut(CheckNews<'_>),
    stop: &'a dyn Fn() -> bool,
    /// The engine that tries. None before the first, and after one ended.
    engine: Option<Engine>,
    rows: Vec<CheckRow>,
}

impl Check<'_> {
    /// Tries the cases of a group. One that ends its process, or hangs, is a row, and the next continues in another.
    fn group(&mut self, cases: &[CheckCase]) -> Result<()> {
        let mut at = 0;
        while at < cases.len() && !(self.stop)() {
            let ask = Ask::Check {
                group: cases[at].group.to_owned(),
                from: at,
                device: self.device.requested(),
                faults: self.faults.to_vec(),
            };
            let before = self.rows.len();
            let asked = self.ask(&ask);
            at += self.rows.len() - before;
            if let (Err(error), Some(case)) = (asked, cases.get(at)) {
                let fallback = self.fallback(case, at);
                self.add(CheckRow::crashed(case, error.message, Some(fallback))?);
                at += 1;
            }
        }
        Ok(())
    }

    /// Takes steps of the smallest run of a kind, if it has one.
    fn kind(&mut self, kind: &str, checked: &Checked) -> Option<Step> {
        let folder = self.host.paths.runs.join(format!(".check-{kind}"));
        let tried = self.try_kind(kind, checked, &folder);
        let _ = fs::remove_dir_all(&folder);
        let millis = tried.as_ref().ok().copied().flatten();
        match (&tried, millis) {
            (Ok(_), None) => None,
            (_, millis) => {
                let done = millis.map_or(String::new(), |it| format!(" in {it:.0} ms"));
                let name = format!("Training of {kind}: loader, forward pass, training step{done}");
                Some(step(&name, tried.map(|_| ())))
            }
        }
    }

    fn try_kind(&mut self, kind: &str, checked: &Checked, folder: &Path) -> Result<Option<f64>> {
        // What an earlier check left when it was ended.
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(AppError::file("make the folder", folder))?;
        let ask = Ask::TryKind {
            task: kind.to_owned(),
            device: self.device.requested(),
            checked: checked.clone(),
            folder: folder.to_owned(),
            faults: self.faults.to_vec(),
        };
        let mut hear = |reply| match reply {
            Reply::TriedKind { millis } => Some(millis),
            _ => None,
        };
        let (stop, mut engine) = (self.stop, self.take_engine()?);
        let tried = engine.ask_for(&ask, &mut hear, stop)?;
        self.engine = Some(engine);
        Ok(tried.flatten())
    }

    fn ask(&mut self, ask: &Ask) -> Result<()> {
        let (stop, mut engine) = (self.stop, self.take_engine()?);
        let asked = engine.ask(
            ask,
            &mut |reply| {
                if let Reply::Checked { row } = reply {
                    self.add(row);
                }
            },
            &|| Control::stop_if(stop()),
        );
        // One that refused is well; one that ended is not asked again.
        if asked.is_ok() {
            self.engine = Some(engine);
        }
        asked
    }

    /// What works instead of a case that ended its process.
    fn fallback(&mut self, case: &CheckCase, at: usize) -> Fallback {
        if !NAMES.contains(&case.operation) {
            // There is no kernel to do without.
            return Fallback::Cpu;
        }
        let ask = Ask::CheckFallback {
            group: case.group.to_owned(),
            at,
            device: self.device.requested(),
            faults: self.faults.to_vec(),
        };
        let tried = self.take_engine().and_then(|mut engine| {
            let mut hear = |reply| match reply {
                Reply::FellBack { fallback } => Some(fallback),
                _ => None,
            };
            let found = engine.ask_for(&ask, &mut hear, &|| false)?;
            Ok((engine, found))
        });
        let (engine, found) = tried.ok().unzip();
        self.engine = engine;
        found.flatten().unwrap_or(Fallback::Cpu)
    }

    fn add(&mut self, row: CheckRow) {
        (self.on_news)(CheckNews::Tried(&row));
        self.rows.push(row);
    }

    fn engine(&mut self) -> Result<&Engine> {
        let engine = self.take_engine()?;
        Ok(self.engine.insert(engine))
    }

    fn take_engine(&mut self) -> Result<Engine> {
        if let Some(engine) = self.engine.take() {
            return Ok(engine);
        }
        let log = &self.host.paths.check_log;
        crate::store::make_folder_of(log)?;
        let mut engine = Engine::start(self.device.kind, Some(log))?;
        engine.limit(HANGS);
        Ok(engine)
    }
}

fn step(name: &str, tried: Result<()>) -> Step {
    Step {
        name: name.to_owned(),
        problem: tried.err().map(|error| error.message),
    }
}
