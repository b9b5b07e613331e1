//! Training a run together with other processes, inside an engine: what rank 0 says of it, and the ranks above 0.
//!
//! Those are silent: they take no lock, write no event and save nothing. What they have to say goes to rank 0, or into their log.

use models::{
    checkpoint::keep::{Checkpoint, Checkpoints},
    device::{RequestedDevice, detect},
    tasks::AnyPlan,
    train::{Observer, TrainEvent, group::Together},
};

use super::{
    choose,
    train::{RunControl, train_on},
};
use crate::{
    ranks::{
        launch::Launch,
        meet::{Begun, Meeting, agreed},
        of_environment,
    },
    store::{runs::Run, sources},
    wire::error::{AppError, Code, Result},
};

/// Meets the other ranks of a run, as rank 0, where this process has some. `newest` is the step of the checkpoint to resume from.
pub(super) fn meet(
    run: &Run,
    plan: &AnyPlan,
    newest: Option<usize>,
    force: bool,
) -> Result<Option<Meeting>> {
    let devices = plan.run.devices;
    let Some(launch) = of_environment()? else {
        return match devices {
            0 | 1 => Ok(None),
            _ => Err(AppError::failed(format!(
                "`devices` is {devices}, and this engine was started alone"
            ))),
        };
    };
    if launch.world != devices {
        let (by, world) = (launch.by, launch.world);
        return Err(AppError::failed(format!(
            "`devices` is {devices}, and {by} started {world} processes for this run"
        ))
        .with_field("devices"));
    }
    let say = || {
        Ok(Begun {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            folder: run.folder.clone(),
            plan: plan.clone(),
            data: sources::sum(run, plan)?,
            newest,
            force,
        })
    };
    Meeting::begin(launch, say).map(Some)
}

/// Trains as a rank above 0, until all ranks are done or stop.
pub(super) fn follow(launch: Launch, control: RunControl) -> Result<()> {
    let rank = launch.rank;
    let unsaid = || Err(AppError::failed("only rank 0 says which run it is"));
    let mut meeting = Meeting::begin(launch, unsaid)?;
    let begun = meeting.begun.clone();
    let run = Run::at(begun.folder.clone());
    let ready = check(rank, &run, &begun).and_then(|()| {
        let device = match begun.plan.run.device {
            RequestedDevice::Cuda(_) => RequestedDevice::Cuda(meeting.card(&detect::detect())?),
            other => other,
        };
        // The plan was made for this very device.
        choose(device, true)
    });
    let choice = meeting.or_said(ready)?;
    let newest = begun.newest.map(|step| Checkpoint {
        step,
        path: Checkpoints::new(&run.checkpoints(), 1).path(step),
    });
    let mut observer = Silent { control };
    let trained = train_on(
        begun.plan,
        newest,
        (&choice, Some(&mut meeting)),
        &run.folder,
        begun.force,
        &mut observer,
    );
    meeting.or_said(trained)
}

/// An error where this machine has not what rank 0 has.
fn check(rank: usize, run: &Run, begun: &Begun) -> Result<()> {
    if !run.folder.is_dir() {
        let message = format!(
            "rank {rank} has not the folder of the run: `{}`",
            run.folder.display()
        );
        let hint = "several machines need ANNEAL_HOME on a disk that they share, at the same place";
        return Err(AppError::failed(message).with_hint(hint));
    }
    match sources::sum(run, &begun.plan)? == begun.data {
        true => Ok(()),
        false => Err(
            AppError::failed(format!("rank {rank} has other data than rank 0"))
                .with_hint("the files have to be the same on all machines"),
        ),
    }
}

/// Does what only one rank should do at a time, rank 0 first: what it leaves on disk, the others find. What fails on one fails on
/// all.
pub(super) fn in_turn<T>(
    together: Option<&mut Together>,
    make: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(together) = together else {
        return make();
    };
    if together.share().is_first() {
        let made = agreed(Some(together), make())?;
        together.tell(None)?;
        return Ok(made);
    }
    together.tell(None)?;
    agreed(Some(together), make())
}

/// The end of a run because of another rank of a meeting.
pub(super) fn ended(
    sentence: String,
    meeting: Option<&Meeting>,
    checkpoints: &Checkpoints,
) -> AppError {
    let hint = "what a rank wrote last is in its log in the run’s folder";
    // Whoever started all of them decides whether it ends.
    if let Some(meeting) = meeting.filter(|it| it.is_own()) {
        let error = AppError::failed(sentence).with_hint(hint);
        // A rank that failed and said so would fail again.
        let code = match meeting.is_one_gone() {
            true => Code::LostRank,
            false => error.code,
        };
        return AppError { code, ..error };
    }
    let newest = checkpoints.newest().ok().flatten();
    let message = match newest {
        Some(newest) => format!(
            "{sentence}; the run ends, and goes on from step {}",
            newest.step
        ),
        None => format!("{sentence}; the run ends, and nothing was saved yet"),
    };
    AppError::failed(message).with_hint(hint)
}

/// Hears what is wished of this rank, which all ranks then do, and tells nobody what happens.
struct Silent<'a> {
    control: RunControl<'a>,
}

impl Observer for Silent<'_> {
    fn event(&mut self, _: TrainEvent) {}

    fn should_stop(&self) -> bool {
        (self.control.stop)()
    }

    fn should_pause(&self) -> bool {
        (self.control.pause)()
    }
}
