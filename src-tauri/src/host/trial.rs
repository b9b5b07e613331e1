//! A few steps of a run, before it starts: what it will take, measured, and where that goes.
//!
//! Deliberately absent: how steps are tried and what follows from them, which is the models' crate.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{
    fs,
    path::PathBuf,
    process,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use models::{
    device::RequestedDevice,
    figures,
    profile::Ceilings,
    tasks::AnyPlan,
    train::{
        TrainEvent,
        fit::{fewer_rows, room, with_rows},
        forecast::Forecast,
        memory_fallback::message_for_rows,
        profile::Profile,
    },
};

use super::{
    Host,
    train::{saved_step, write},
};
use crate::{
    jobs::engine::{Control, Engine},
    store::{
        in_use::{self, Work},
        record::RecordedEvent,
        runs::Run,
    },
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// The operations of a run that takes some minutes on a slow device of its kind. One with fewer is a measurement of its own.
const SHORT_ON_CPU: f64 = 2e13;
const SHORT_ON_METAL: f64 = 5e14;
const SHORT_ON_CUDA: f64 = 5e15;
/// A trial that takes longer has met a device that hangs.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// What came of a trial.
pub(crate) struct Tried<T> {
    pub(crate) found: T,
    /// What was free of the device's memory before it.
    pub(crate) free_bytes: Option<u64>,
    /// Who else used the device meanwhile, in a sentence.
    pub(crate) warning: Option<String>,
}

/// Where a few steps of a plan spent their time and memory.
pub(crate) struct Profiled {
    pub(crate) profile: Profile,
    /// What the device could do at best, where it could be measured.
    pub(crate) ceilings: Option<Ceilings>,
}

impl Profiled {
    /// What an engine says of it.
    pub(super) fn heard(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Profiled { profile, ceilings } => Some(Self {
                profile: *profile,
                ceilings,
            }),
            _ => None,
        }
    }
}

impl Host {
    /// Takes a few steps of a plan in an engine of their own. Returns what the run will take, or nothing when it was
    /// stopped.
    pub(crate) fn try_steps(
        &self,
        plan: &AnyPlan,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Tried<Forecast>>> {
        let ask = |plan, folder| Ask::Try { plan, folder };
        let hear = |reply| match reply {
            Reply::Tried { forecast } => Some(forecast),
            _ => None,
        };
        self.in_trial(plan, ask, hear, stop)
    }

    /// Takes a few steps of a plan in an engine of their own. Returns where they spent their time and memory, or nothing when it
    /// was stopped.
    pub(crate) fn profile(
        &self,
        plan: &AnyPlan,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Tried<Profiled>>> {
        let ask = |plan, folder| Ask::Profile { plan, folder };
        self.in_trial(plan, ask, Profiled::heard, stop)
    }

    /// Asks an engine of its own for something about a plan of which nothing is kept. Returns its answer, or nothing
    /// when it was stopped.
    fn in_trial<R>(
        &self,
        plan: &AnyPlan,
        ask: impl FnOnce(Box<AnyPlan>, PathBuf) -> Ask,
        mut hear: impl FnMut(Reply) -> Option<R>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Tried<R>>> {
        /// Two may proceed at once, each with a folder for what it saves.
        static TRIALS: AtomicUsize = AtomicUsize::new(0);

        let number = TRIALS.fetch_add(1, Ordering::Relaxed);
        let name = format!(".trial-{}-{number}", process::id());
        let ask = ask(Box::new(plan.clone()), self.paths.runs.join(&name));
        let mut engine = Engine::start(self.kind_of(plan.run.device), None)?;
        engine.limit(LIMIT);
        let devices = engine.devices().iter();
        let free_bytes = devices
            .filter(|device| device.requested() == plan.run.device)
            .find_map(|device| device.free_bytes);
        let in_use = self.use_device(plan.run.device, Work::Trial);
        let tried = engine.ask_for(&ask, &mut hear, stop);
        // An engine that was ended in the middle of a save leaves what it had written.
        for left in [name.clone(), format!(".{name}.writing")] {
            let _ = fs::remove_dir_all(self.paths.runs.join(left));
        }
        let others = in_use.map_or_else(Vec::new, |in_use| in_use.others());
        match tried? {
            None if !stop() => Err(AppError::failed(
                "the engine ended the trial without a word",
            )),
            tried => Ok(tried.map(|found| Tried {
                found,
                free_bytes,
                warning: in_use::warning(&others, &plan.run.device.to_string()),
            })),
        }
    }

    /// Whether a run is tried before it starts: one that has not begun, and takes long enough to be worth it.
    pub(crate) fn tries_first(&self, run: &Run) -> bool {
        // The events of a run that is running are many, so they are asked last.
        run.plan().is_ok_and(|plan| !is_short(&plan))
            && saved_step(run).is_none()
            && run.state().is_ok_and(|state| state.started.is_none())
    }

    /// Tries a run before it starts, and says in it what it will take. A trial that fails is no reason not to start; one that is
    /// stopped, also by a pause, says nothing.
    pub(super) fn try_first(
        &self,
        run: &Run,
        show: &mut dyn FnMut(&RecordedEvent),
        control: &dyn Fn() -> Control,
    ) -> Result<()> {
        let plan = run.plan()?;
        let tried = self.try_steps(&plan, &|| control() != Control::Continue);
        let Ok(Some(Tried {
            found: forecast,
            free_bytes,
            warning,
        })) = tried
        else {
            return Ok(());
        };
        let event = TrainEvent::Tried {
            steps: forecast.steps_tried,
            seconds: forecast.seconds,
            peak_bytes: forecast.peak_bytes,
            free_bytes,
        };
        write(run, None, event, show, control)?;
        if let Some(message) = warning {
            write(run, None, TrainEvent::Warned { message }, show, control)?;
        }
        // Whoever changed the plan meanwhile, or had it start though it was said not to fit, knows better.
        let was_forced = free_bytes.is_some_and(|free| {
            plan.estimate()
                .map_or(true, |estimate| estimate.bytes() > room(free))
        });
        if was_forced || run.plan()? != plan {
            return Ok(());
        }
        let Some((fitting, event)) = free_bytes.and_then(|free| give_up(&plan, &forecast, free))
        else {
            return Ok(());
        };
        let changed = run.changed_plan(&fitting, "what was tried first needed more")?;
        write(run, Some(changed), event, show, control)
    }
}

/// The plan with as few rows at once as fit into what is free, where a trial says that more don't, and what is said of it. None
/// where all fit, and where not even one does: then it is found out what helps.
fn give_up(plan: &AnyPlan, forecast: &Forecast, free: u64) -> Option<(AnyPlan, TrainEvent)> {
    let (peak, fixed) = (forecast.peak_bytes?, forecast.fixed_bytes?);
    let rows = plan.run.batch.rows as u64;
    let needed = |rows_now: u64| fixed + peak.saturating_sub(fixed) / rows * rows_now;
    if peak <= free {
        return None;
    }
    let mut fewer = fewer_rows(&plan.run).filter(|&fewer| fewer < plan.run.batch.rows);
    let fitting = fewer.find(|&fewer| needed(fewer as u64) <= free)?;
    let fitting = with_rows(plan, fitting);
    let event = TrainEvent::MemoryFallback {
        step: 1,
        to_step: 0,
        why: format!(
            "as tried, the run needs {}, and {} are free",
            figures::bytes(peak),
            figures::bytes(free)
        ),
        how: message_for_rows(&plan.run, &fitting.run),
    };
    Some((fitting, event))
}

/// Whether a run takes less time than a person waits for a figure. One whose shape is not known counts as short.
fn is_short(plan: &AnyPlan) -> bool {
    let short = match plan.run.device {
        RequestedDevice::Metal => SHORT_ON_METAL,
        RequestedDevice::Cuda(_) => SHORT_ON_CUDA,
        _ => SHORT_ON_CPU,
    };
    plan.estimate()
        .map_or(true, |estimate| estimate.operations < short)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use models::tasks::AnyRequest;

    use super::*;
    use crate::store::{run_file, runs};

    #[test]
    fn a_run_that_is_tried_first_says_what_it_will_take() {
        let folder = tempfile::tempdir().unwrap();
        let (host, run) = a_run(folder.path());
        assert!(!host.tries_first(&run), "a run of a second");
        host.try_first(&run, &mut |_| {}, &|| Control::Continue)
            .unwrap();
        let events = run.events().unwrap();
        let [RecordedEvent { event, .. }] = &events[..] else {
            panic!("{events:?}");
        };
        let TrainEvent::Tried {
            steps,
            seconds,
            peak_bytes,
            free_bytes,
        } = event
        else {
            panic!("{event:?}");
        };
        assert!(*steps >= 2 && *seconds > 0.0, "{event:?}");
        // Not every system counts the peak.
        assert!(peak_bytes.is_none_or(|peak| peak > 10_000_000));
        assert!(*free_bytes > Some(0));
        let left = fs::read_dir(&host.paths.runs).unwrap().count();
        assert_eq!(left, 1, "nothing of the trial is kept");
    }

    #[test]
    fn a_trial_that_is_stopped_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (host, run) = a_run(folder.path());
        host.try_first(&run, &mut |_| {}, &|| Control::Stop)
            .unwrap();
        assert_eq!(run.events().unwrap(), []);
    }

    #[test]
    fn rows_that_would_not_fit_are_given_up_before_they_are_tried() {
        let folder = tempfile::tempdir().unwrap();
        let (_, run) = a_run(folder.path());
        let plan = run.plan().unwrap();
        // 100 bytes whatever a batch has, and 100 for each row.
        let forecast = Forecast {
            steps_tried: 6,
            whole: true,
            peak_bytes: Some(900),
            fixed_bytes: Some(100),
            bytes_per_unit: Some(1.0),
            fixed_millis: 1.0,
            millis_per_unit: 1.0,
            step_millis: 1.0,
            seconds: 1.0,
            evaluation_seconds: 1.0,
            opening_seconds: 1.0,
        };
        for (free, rows) in [
            (900, None),
            (899, Some(4)),
            (499, Some(2)),
            (200, Some(1)),
            (199, None),
        ] {
            let given_up = give_up(&plan, &forecast, free);
            let found = given_up.as_ref().map(|(plan, _)| plan.run.batch.rows);
            assert_eq!(found, rows, "{free}");
            if let Some((fewer, TrainEvent::MemoryFallback { how, .. })) = given_up {
                assert_eq!(fewer.run.batch.rows * fewer.run.batch.accumulate, 8);
                assert!(how.contains("instead of 8 rows at once"), "{how}");
            }
        }
    }

    /// A short run of 8 rows.
    fn a_run(folder: &std::path::Path) -> (Host, Run) {
        let data = folder.join("text.txt");
        let text = "Steel is heated and cooled slowly, until it is soft.\n".repeat(400);
        fs::write(&data, text).unwrap();
        let asked = [
            &format!("data.files=[{}]", data.display()),
            "steps=20",
            "scratch.vocab_size=270",
            "scratch.config={hidden_size: 8, intermediate_size: 16, num_hidden_layers: 1, num_attention_heads: 1, \
             num_key_value_heads: 1, head_dim: 8}",
            "batch={rows: 8, length: 64, accumulate: 1}",
            "device=cpu",
        ];
        let asked: Vec<String> = asked.into_iter().map(str::to_owned).collect();
        let request = run_file::set(AnyRequest::default(), &asked).unwrap();
        let (host, _) = Host::open(Some(&folder.join("home"))).unwrap();
        let run = runs::create(&host.paths, &host.plan(request).unwrap()).unwrap();
        (host, run)
    }
}
