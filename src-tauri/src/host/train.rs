//! Trains a run to its end in an engine, and starts another one where an engine ends early.
//!
//! Whatever happens to an engine, what it saved is on disk. So running out of memory, a crash and a kill are handled alike:
//! find out what happened, change the plan if that helps, record it in the run, and start another engine, which continues from
//! the newest checkpoint. Deliberately absent: what is given up in which order, which is a table in the crate `models`.

use std::{cell::RefCell, thread, time::Duration};

use models::{
    checkpoint::{keep::Checkpoints, save::replace_file},
    device::{
        Checked, DeviceKind, RequestedDevice,
        dtype::{DeviceClass, Dtype, Role},
        pressure::oom_kills,
    },
    error::says_out_of_memory,
    tasks::AnyPlan,
    train::{
        RunPlan, TrainEvent,
        fit::narrower,
        memory_fallback::{Allowed, FallbackPlan, MemoryFallback, next_fallback},
    },
};

use super::{Host, crew::Crew};
use crate::{
    jobs::engine::{Control, Engine, ExitReason},
    power::watch::PowerWatch,
    ranks::{self, meet::refuse},
    store::{
        checks,
        in_use::Work,
        memory_fallbacks,
        record::{Record, RecordedEvent},
        runs::{Run, RunLock},
    },
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Code, Result},
    },
};

/// How long after an engine that did not start the next is tried.
const START_AGAIN: Duration = Duration::from_secs(5);
/// How often what the disk does not take is tried again.
const WRITE_AGAIN: Duration = Duration::from_millis(500);
/// With so many ends at the same checkpoint a run is over. A fault that comes back at once is none of chance.
const MAX_DEATHS: usize = 3;

/// What ended an engine before its run was over.
struct EngineFailure {
    error: AppError,
    /// The last line of the engine's log, if it is gone.
    last_line: Option<String>,
    /// In which words memory ran out, if that was it.
    ran_out: Option<String>,
    /// Whether the engine is gone, rather than having said that it can't continue.
    is_death: bool,
}

/// What is known of a run over the engines that trained it.
#[derive(Default)]
struct RecoveryState {
    /// The newest checkpoint when the last engine ended.
    saved: Option<usize>,
    /// How many engines have ended since that was saved.
    deaths: usize,
    /// Whether an engine was started just to begin with free memory since that was saved.
    unused_memory_given: bool,
}

impl Host {
    /// Trains a run in an engine, from its newest checkpoint if it has one, until it is done or `control` ends it.
    ///
    /// Every event is on disk before it is shown. `started` is told the engine's number among the system's processes. With
    /// `force` it also continues with data, a model or settings that are not what they were.
    pub(crate) fn train(
        &self,
        run: &Run,
        force: bool,
        started: &mut dyn FnMut(u32),
        show: &mut dyn FnMut(&RecordedEvent),
        control: &dyn Fn() -> Control,
    ) -> Result<()> {
        let mut recovery = RecoveryState::default();
        let power = RefCell::new(PowerWatch::new());
        let control = &|| match control() {
            Control::Continue => {
                match power.borrow_mut().why_pause(self.settings().pause_rules()) {
                    Some(why) => Control::Pause(Some(why)),
                    None => Control::Continue,
                }
            }
            control => control,
        };
        if self.tries_first(run) {
            self.try_first(run, show, control)?;
            if control() == Control::Stop {
                return write(run, None, TrainEvent::Stopped { step: 0 }, show, control);
            }
        }
        let (mut has_ended, mut failed_starts) = (false, 0);
        loop {
            let ended = match self.train_in_one_engine(run, force, started, show, control) {
                // What ended the last engine may keep the next one from starting for a while.
                Err(_) if has_ended && failed_starts < MAX_DEATHS && control() != Control::Stop => {
                    // A disk that went away may come back at any time.
                    failed_starts += usize::from(run.folder.is_dir());
                    thread::sleep(START_AGAIN);
                    continue;
                }
                ended => ended?,
            };
            let Some(end) = ended else {
                return Ok(());
            };
            (has_ended, failed_starts) = (true, 0);
            if control() == Control::Stop {
                return Err(end.error);
            }
            // Engines of other ranks, which a launcher started, can’t be started again from here.
            let is_launched = ranks::of_environment()?.is_some();
            let error = end.error.clone();
            match self.after(run, end, &mut recovery)? {
                Next::Continue { plan, event } => {
                    write(run, plan, event, show, control)?;
                    if is_launched {
                        return Err(error.with_hint("start it again, which resumes it"));
                    }
                }
                Next::Reported(error) => return Err(error),
                Next::Fail(error) => {
                    let failure = error.failure(saved_step(run).unwrap_or_default());
                    write(run, None, failure, show, control)?;
                    return Err(error);
                }
            }
        }
    }

    /// Nothing when the run is over or stopped. An error when no engine could be started.
    fn train_in_one_engine(
        &self,
        run: &Run,
        force: bool,
        started: &mut dyn FnMut(u32),
        show: &mut dyn FnMut(&RecordedEvent),
        control: &dyn Fn() -> Control,
    ) -> Result<Option<EngineFailure>> {
        let device = run.plan()?.run.device;
        let kind = self.kind_of(device);
        let _in_use = self.use_device(device, Work::Run);
        let kills = oom_kills();
        let mut crew = self.crew(run)?;
        let variables = crew.as_ref().map(|crew| crew.variables(0));
        let variables = variables.unwrap_or_default();
        let mut engine = Engine::start_with(kind, Some(&run.log_file()), &variables)?;
        started(engine.id());
        let ask = Ask::Train {
            folder: run.folder.clone(),
            force,
        };
        if let Some(crew) = &mut crew {
            crew.start_others(kind, &run.folder, &ask);
        }
        let mut hear = |reply| {
            if let Reply::Happened { event } = reply {
                show(&event);
            }
        };
        let Err(error) = engine.ask(&ask, &mut hear, control) else {
            if let Some(crew) = &mut crew {
                crew.went_well();
            }
            return Ok(None);
        };
        // The others are gone before the run goes on in any way.
        drop(crew);
        let exit_reason = engine.exit_reason();
        let log = exit_reason.map(|_| engine.last_line()).unwrap_or_default();
        let ran_out = match exit_reason {
            None => (error.code == Code::OutOfMemory).then(|| error.message.clone()),
            Some(ExitReason::Killed) if oom_kills() > kills => {
                Some("memory ran out: the system ended the engine".to_owned())
            }
            // A system without such a count ends processes all the same.
            Some(ExitReason::Killed) if kills.is_none() => {
                Some("the engine was killed, as happens when memory runs out".to_owned())
            }
            Some(_) => {
                let line = log.lines().rev().find(|line| says_out_of_memory(line));
                line.map(|line| format!("memory ran out: {line}"))
            }
        };
        Ok(Some(EngineFailure {
            last_line: log.lines().last().map(str::to_owned),
            is_death: exit_reason.is_some(),
            error,
            ran_out,
        }))
    }

    /// The other ranks of a run on several devices, unless a launcher starts them.
    fn crew(&self, run: &Run) -> Result<Option<Crew>> {
        let plan = run.plan()?.run;
        if plan.devices <= 1 || ranks::of_environment()?.is_some() {
            return Ok(None);
        }
        let found = self.devices.found();
        let choice = self.choose_device(Some(plan.device), plan.strict, &found)?;
        refuse(plan.devices, &choice.device, &found, true)?;
        Crew::new(plan.devices).map(Some)
    }

    /// What follows on the end of an engine.
    fn after(&self, run: &Run, end: EngineFailure, recovery: &mut RecoveryState) -> Result<Next> {
        let saved = saved_step(run);
        if recovery.saved != saved {
            *recovery = RecoveryState {
                saved,
                ..RecoveryState::default()
            };
        }
        let lost_rank = end.error.code == Code::LostRank;
        let is_gone = end.is_death || lost_rank;
        recovery.deaths += usize::from(is_gone && end.ran_out.is_none());
        let to_step = saved.unwrap_or_default();
        let Some(why) = end.ran_out else {
            let message = end.last_line.map(|message| format!(" ({message})"));
            let message = end.error.message.clone() + &message.unwrap_or_default();
            let resumes = match lost_rank {
                true => "all ranks start again",
                false => "another resumes",
            };
            return Ok(match is_gone {
                true if recovery.deaths < MAX_DEATHS => Next::Continue {
                    plan: None,
                    event: TrainEvent::Warned {
                        message: format!("{message}; {resumes} from step {to_step}"),
                    },
                },
                true => Next::Fail(AppError {
                    message,
                    ..end.error
                }),
                false => Next::Reported(end.error),
            });
        };
        self.with_less_memory(run, why, end.is_death, to_step, recovery)
    }

    /// What follows where memory ran out: the run gives something up, or has nothing left.
    fn with_less_memory(
        &self,
        run: &Run,
        why: String,
        is_death: bool,
        to_step: usize,
        recovery: &mut RecoveryState,
    ) -> Result<Next> {
        let whole = run.plan()?;
        let plan = &whole.run;
        let frozen = whole.task.has_frozen_weights();
        let allowed = Allowed {
            // An engine that could say so has tried that already, but not on Metal, where only another process is safe.
            unused_memory: (is_death || plan.device == RequestedDevice::Metal)
                && !recovery.unused_memory_given,
            narrower_storage: self.narrower(plan, Role::Storage).filter(|_| frozen),
            narrower_dtype: self.narrower(plan, Role::Compute),
            cpu: plan.memory_fallback.cpu,
        };
        recovery.unused_memory_given = true;
        let Some(FallbackPlan {
            plan: fallback,
            message: how,
            memory_fallback,
        }) = next_fallback(plan, &allowed)
        else {
            let message = format!("{why}; nothing is left that this run may give up");
            let error = AppError {
                code: Code::OutOfMemory,
                ..AppError::failed(message)
            };
            return Ok(Next::Fail(error.with_hint(give_up_more(&whole))));
        };
        let why_changed = "less memory is needed so: it ran out with more";
        let (subject, before) = (whole.task.subject(), whole.run);
        let fallback = AnyPlan {
            run: fallback,
            task: whole.task,
        };
        let changed = match fallback.run == before {
            true => None,
            false => Some(run.changed_plan(&fallback, why_changed)?),
        };
        if matches!(
            memory_fallback,
            MemoryFallback::Rows | MemoryFallback::Activations
        ) {
            // The next plan only starts better for it.
            let _ = memory_fallbacks::remember(
                &self.paths.memory_fallbacks,
                &subject,
                &before,
                &fallback.run,
            );
        }
        let reached = reached(run);
        Ok(Next::Continue {
            plan: changed,
            event: TrainEvent::MemoryFallback {
                step: reached.max(to_step) + 1,
                to_step,
                why,
                how,
            },
        })
    }

    /// A narrower format than the plan's for a role, if the plan lets it be used and the device check found it right.
    fn narrower(&self, plan: &RunPlan, role: Role) -> Option<Dtype> {
        let devices = self.devices.found();
        let device = devices
            .iter()
            .find(|it| it.requested() == plan.device)
            .filter(|_| plan.memory_fallback.narrower_dtype)?;
        // What others are compared with needs no check.
        let checked = match (checks::find(&self.paths, device), device.kind) {
            (Some(report), _) => report.checked(),
            (None, DeviceKind::Cpu) => Checked::default(),
            (None, _) => return None,
        };
        let class = DeviceClass::of(device, checked.bf16);
        narrower(class, role, plan.dtype.of(role), &checked)
    }
}

/// What is done after an engine ended.
enum Next {
    /// This is said, and another engine continues, with this text as its plan if that has to change.
    Continue {
        plan: Option<String>,
        event: TrainEvent,
    },
    /// It ends, as its engine has said in the run.
    Reported(AppError),
    /// It ends, which nobody has said in the run yet.
    Fail(AppError),
}

/// What a person can still do about memory.
fn give_up_more(plan: &AnyPlan) -> String {
    let mut fixes: Vec<String> = plan.task.smaller().into_iter().collect();
    let plan = &plan.run;
    if !plan.memory_fallback.cpu && plan.device != RequestedDevice::Cpu {
        fixes.push("let it use the processor (`memory_fallback.cpu: true`)".to_owned());
    }
    fixes.push("choose a smaller model".to_owned());
    fixes.join(", or ")
}

/// The step of the newest checkpoint.
pub(super) fn saved_step(run: &Run) -> Option<usize> {
    let newest = Checkpoints::new(&run.checkpoints(), 1).newest();
    newest.ok().flatten().map(|it| it.step)
}

/// Writes a plan and what happened into a run that no engine has, again and again until the disk takes it or somebody asks to
/// stop.
pub(super) fn write(
    run: &Run,
    plan: Option<String>,
    event: TrainEvent,
    show: &mut dyn FnMut(&RecordedEvent),
    control: &dyn Fn() -> Control,
) -> Result<()> {
    let mut lock = None;
    let attempt = |lock: &mut Option<RunLock>| {
        if lock.is_none() {
            *lock = Some(run.lock()?);
        }
        if let Some(plan) = &plan {
            replace_file(&run.plan_file(), plan.as_bytes())?;
        }
        Record::open(&run.events_file())?.append(event.clone())
    };
    let mut waits = false;
    loop {
        let error = match attempt(&mut lock) {
            Ok(recorded) => {
                show(&recorded);
                return Ok(());
            }
            Err(error) => error,
        };
        // A run that another process trains is no matter of waiting.
        let is_anothers = lock.is_none() && run.is_locked().unwrap_or(false);
        if control() == Control::Stop || is_anothers {
            return Err(error);
        }
        if !waits {
            show(&RecordedEvent::unwritten(reached(run), &error));
            waits = true;
        }
        thread::sleep(WRITE_AGAIN);
    }
}

/// The last step that was done.
fn reached(run: &Run) -> usize {
    run.state().map_or(0, |state| state.step)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs};

    use super::*;

    #[test]
    fn what_is_said_between_two_engines_waits_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::at(folder.path().to_owned());
        // A folder takes no events.
        fs::create_dir(run.events_file()).unwrap();
        let event = TrainEvent::Continued { step: 7 };
        let refused = write(&run, None, event.clone(), &mut |_| {}, &|| Control::Stop);
        assert!(refused.is_err());
        let numbers = Cell::new(Vec::new());
        let mut show = |recorded: &RecordedEvent| {
            if recorded.number == 0 {
                fs::remove_dir(run.events_file()).unwrap();
            }
            numbers.set([numbers.take(), vec![recorded.number]].concat());
        };
        let plan = Some("name: other".to_owned());
        write(&run, plan, event, &mut show, &|| Control::Continue).unwrap();
        assert_eq!(numbers.take(), [0, 1]);
        assert_eq!(fs::read(run.plan_file()).unwrap(), b"name: other");
    }

    #[test]
    fn a_run_whose_folder_is_away_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (home, elsewhere) = (folder.path().join("run"), folder.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        let run = Run::at(home.clone());
        let mut numbers = Vec::new();
        let mut show = |recorded: &RecordedEvent| {
            numbers.push(recorded.number);
            if recorded.number == 0 {
                fs::rename(&elsewhere, &home).unwrap();
            }
        };
        let event = TrainEvent::Continued { step: 7 };
        write(&run, None, event, &mut show, &|| Control::Continue).unwrap();
        assert_eq!(numbers, [0, 1]);
    }

    #[test]
    fn a_run_that_another_process_trains_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::at(folder.path().to_owned());
        let _lock = run.lock().unwrap();
        let event = TrainEvent::Continued { step: 7 };
        let refused = write(&run, None, event, &mut |_| {}, &|| Control::Continue);
        assert!(refused.unwrap_err().message.contains("another process"));
    }
}
