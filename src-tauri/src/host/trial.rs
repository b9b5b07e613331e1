//! A few steps of a run, before it starts: what it will take, measured.
//!
//! Deliberately absent: how steps are tried and what follows from them, which is the models' crate.

use std::{fs, process};

use models::{
    device::RequestedDevice,
    train::{
        TrainEvent, TrainPlan,
        estimate::Estimate,
        fit::amount,
        forecast::Forecast,
        relief::{Allowed, Relieved, relieve},
    },
};

use super::{Host, train::write};
use crate::{
    jobs::engine::{Engine, Wish},
    store::{record::RecordedEvent, runs::Run},
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// The operations of a run that is over within a few minutes: it is a measurement of its own. On a processor, and on others.
const SHORT_ON_CPU: f64 = 2e13;
const SHORT_ELSEWHERE: f64 = 1e15;

impl Host {
    /// Takes a few steps of a plan in an engine of their own. Returns what the run will take, or nothing when it was
    /// stopped.
    pub(crate) fn try_steps(
        &self,
        plan: &TrainPlan,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Forecast>> {
        let mut tried = None;
        let mut hear = |reply| {
            if let Reply::Tried { forecast } = reply {
                tried = Some(forecast);
            }
        };
        let name = format!(".trial-{}", process::id());
        let ask = Ask::Try {
            plan: Box::new(plan.clone()),
            folder: self.paths.runs.join(&name),
        };
        let mut engine = Engine::start(self.kind_of(plan.device), None)?;
        let asked = engine.ask(&ask, &mut hear, &|| Wish::stop_if(stop()));
        // An engine that was ended in the middle of a save leaves what it had written.
        for left in [name.clone(), format!(".{name}.writing")] {
            let _ = fs::remove_dir_all(self.paths.runs.join(left));
        }
        asked?;
        match tried {
            None if !stop() => Err(AppError::failed(
                "the engine ended the trial without a word",
            )),
            tried => Ok(tried),
        }
    }

    /// Whether a run is tried before it starts: one that has not begun, and takes long enough to be worth it.
    pub(crate) fn tries_first(&self, run: &Run) -> bool {
        let is_new = run.state().is_ok_and(|state| state.started.is_none());
        let plan = run.plan().ok().filter(|_| is_new);
        plan.is_some_and(|plan| !is_short(&plan))
    }

    /// Tries a run before it starts, and says in it what it will take. Where that is more than there is, it gives up rows at
    /// once or activations before it has to. A trial that fails is no reason not to start.
    pub(super) fn try_first(
        &self,
        run: &Run,
        free_bytes: Option<u64>,
        show: &mut dyn FnMut(&RecordedEvent),
        wish: &dyn Fn() -> Wish,
    ) -> Result<()> {
        let mut plan = run.plan()?;
        let tried = self.try_steps(&plan, &|| wish() == Wish::Stop);
        let Ok(Some(forecast)) = tried else {
            return Ok(());
        };
        let event = TrainEvent::Tried {
            steps: forecast.steps_tried,
            seconds: forecast.seconds,
            peak_bytes: forecast.peak_bytes,
            free_bytes,
        };
        write(run, None, event, show, wish)?;
        let Some((peak, free)) = forecast.peak_bytes.zip(free_bytes) else {
            return Ok(());
        };
        let fixed = forecast.fixed_bytes.unwrap_or_default().min(peak);
        let all_rows = plan.batch.rows;
        let mut needed = peak;
        while needed > free {
            let Some(relieved) = relieve(&plan, &Allowed::default()) else {
                break;
            };
            let Relieved { words: how, .. } = relieved;
            let changed = run.changed_plan(&relieved.plan, "what was tried first needed more")?;
            let event = TrainEvent::Relieved {
                step: 1,
                to_step: 0,
                why: format!(
                    "as tried, the run needs {}, and {} are free",
                    amount(needed),
                    amount(free)
                ),
                how,
            };
            write(run, Some(changed), event, show, wish)?;
            // What is computed twice needs less by an amount that was not tried.
            if relieved.plan.batch.rows == plan.batch.rows {
                break;
            }
            plan = relieved.plan;
            needed = fixed + (peak - fixed) / all_rows as u64 * plan.batch.rows as u64;
        }
        Ok(())
    }
}

/// Whether a run takes less time than a person waits for a figure. One whose shape is not known counts as short.
fn is_short(plan: &TrainPlan) -> bool {
    let Ok(config) = Host::shape(plan) else {
        return true;
    };
    let most = match plan.device {
        RequestedDevice::Cpu => SHORT_ON_CPU,
        _ => SHORT_ELSEWHERE,
    };
    Estimate::new(plan, &config).operations < most
}

#[cfg(test)]
mod tests {
    use std::fs;

    use models::train::TrainRequest;

    use super::*;
    use crate::store::run_file;

    /// What is said of a run of 8 rows that is tried where so much memory is free, and the plan it then has.
    fn tried(free_bytes: Option<u64>) -> (Vec<TrainEvent>, TrainPlan) {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("text.txt");
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
        let request = run_file::set(TrainRequest::default(), &asked).unwrap();
        let (host, _) = Host::open(Some(&folder.path().join("home"))).unwrap();
        let run = host.create_run(&host.plan(request).unwrap()).unwrap();
        assert!(!host.tries_first(&run), "a run of a second");
        let mut show = |_: &RecordedEvent| {};
        host.try_first(&run, free_bytes, &mut show, &|| Wish::GoOn)
            .unwrap();
        let events = run.events().unwrap();
        let left = fs::read_dir(&host.paths.runs).unwrap().count();
        assert_eq!(left, 1, "nothing of the trial is kept");
        (
            events.into_iter().map(|it| it.event).collect(),
            run.plan().unwrap(),
        )
    }

    #[test]
    fn a_run_that_is_tried_first_says_what_it_will_take() {
        let (events, plan) = tried(Some(1 << 40));
        let [TrainEvent::Tried { steps, seconds, .. }] = events[..] else {
            panic!("{events:?}");
        };
        assert!(steps >= 2 && seconds > 0.0, "{events:?}");
        assert_eq!(plan.batch.rows, 8);
    }

    #[test]
    fn rows_that_would_not_fit_are_given_up_before_they_are_tried() {
        let (events, plan) = tried(Some(1));
        let relieved = events.iter().filter_map(|event| match event {
            TrainEvent::Relieved { how, .. } => Some(how.split(' ').next().unwrap()),
            _ => None,
        });
        assert!(relieved.eq(["4", "2", "1", "activations"]), "{events:?}");
        assert_eq!((plan.batch.rows, plan.batch.accumulate), (1, 8));
        assert!(plan.checkpointing);
    }
}
