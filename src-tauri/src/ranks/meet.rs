//! How the ranks of a launch begin with a run: rank 0 says which run it is and what its plan is, all watch each other, and a group
//! connects their devices.
//!
//! Rank 0 alone resolves a plan, so that no default can differ. What could differ is compared: the version of the program and the
//! data. Deliberately absent: what is trained, and how the programs were started.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use models::{
    device::{Device, DeviceKind, FoundDevice, detect},
    tasks::AnyPlan,
    train::{
        group::{Group, Together},
        nccl,
        share::Share,
    },
};
use serde::{Deserialize, Serialize};

use super::{launch::Launch, store::Store, watch::Watch};
use crate::wire::error::{AppError, Result};

/// Under which name the store has the folder of the run.
const FOLDER: &str = "folder";

/// What rank 0 says of a run before anybody begins with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// The version of the program.
    pub(crate) version: String,
    /// The folder of the run, the same for all ranks.
    pub(crate) folder: PathBuf,
    pub(crate) plan: AnyPlan,
    /// The sum of the sums of all files that it learns from and starts from.
    pub(crate) data: String,
    /// The step of the checkpoint to resume from.
    pub(crate) newest: Option<usize>,
    /// To continue although data, model or settings are not what they were.
    pub(crate) force: bool,
}

/// The ranks of a launch that know each other, and train the same run.
pub(crate) struct Meeting {
    launch: Launch,
    store: Store,
    watch: Arc<Watch>,
    /// What they train.
    pub(crate) begun: Begun,
}

impl Meeting {
    /// Meets the other ranks. `say` is what rank 0 says, which is what all others hear.
    pub(crate) fn begin(launch: Launch, say: impl FnOnce() -> Result<Begun>) -> Result<Self> {
        let mut store = Store::connect(&launch)?;
        let begun = hear_of_run(&mut store, say)?;
        if launch.rank == 0 {
            store.leave(FOLDER, begun.folder.to_string_lossy().as_bytes())?;
        }
        let watch = Arc::new(Watch::begin(&launch, &mut store)?);
        let mut meeting = Self {
            launch,
            store,
            watch,
            begun,
        };
        let same = meeting.same_version();
        meeting.or_said(same)?;
        Ok(meeting)
    }

    fn same_version(&mut self) -> Result<()> {
        let (own, theirs) = (env!("CARGO_PKG_VERSION"), &self.begun.version);
        match own == theirs {
            true => Ok(()),
            false => Err(AppError::failed(format!(
                "rank {} has version {own}, and rank 0 has {theirs}",
                self.launch.rank
            ))
            .with_hint("install the same version on all machines")),
        }
    }

    /// Tells all others of a failure before they are connected.
    pub(crate) fn or_said<T>(&self, own: Result<T>) -> Result<T> {
        own.inspect_err(|error| {
            let (rank, message) = (self.launch.rank, &error.message);
            self.watch.fail(format!("rank {rank} failed: {message}"));
        })
    }

    /// Whether this program started the ranks.
    pub(crate) fn is_own(&self) -> bool {
        self.launch.is_own()
    }

    /// Whether another rank is gone, which did not say that it failed.
    pub(crate) fn is_one_gone(&self) -> bool {
        self.watch.is_one_gone()
    }

    /// Which card of this machine is this rank’s.
    pub(crate) fn card(&self, found: &[FoundDevice]) -> Result<usize> {
        card(&self.launch, found)
    }

    /// What whoever started the ranks may not have meant.
    pub(crate) fn warning(&self) -> Option<String> {
        match self.launch.says_local_rank {
            true => None,
            false => unused_cards(&detect::detect()),
        }
    }

    /// Connects the devices of all ranks, and sees that sums come out right. This one’s is called `name`.
    pub(crate) fn connect(&mut self, device: &Device, name: &str) -> Result<Together> {
        let group = self.group(device, name);
        let (group, devices) = self.or_said(group)?;
        let mut together = Together::new(group, devices);
        together.try_sum(device)?;
        Ok(together)
    }

    /// The group of all ranks, and what they compute on.
    fn group(&mut self, device: &Device, name: &str) -> Result<(Box<dyn Group>, Vec<String>)> {
        let host = sysinfo::System::host_name()
            .ok()
            .filter(|_| !self.launch.is_local);
        let name = match host {
            Some(host) => format!("{name} on {host}"),
            None => name.to_owned(),
        };
        let watch = self.watch.clone();
        let lost: nccl::Lost = Box::new(move || watch.lost());
        #[cfg(debug_assertions)]
        if device.is_cpu() && super::plain::is_allowed() {
            let group = super::plain::join(&self.launch, &mut self.store, lost)?;
            return Ok((group, vec![name; self.launch.world]));
        }
        if let Some(problem) = nccl::problem(&folders_of_nccl()) {
            return Err(AppError::failed(problem));
        }
        let share = Share {
            rank: self.launch.rank,
            world: self.launch.world,
        };
        let own = Connection {
            device: name,
            version: nccl::version()?,
            card: nccl::card(device)?,
            identifier: match share.rank {
                0 => nccl::identifier()?,
                _ => Vec::new(),
            },
        };
        let own = serde_json::to_vec(&own).map_err(unreadable)?;
        let all = self.store.exchange(("card", &own), share.world, &lost)?;
        let all = all.iter().map(|said| serde_json::from_slice(said));
        let all: Vec<Connection> = all.collect::<Result<_, _>>().map_err(unreadable)?;
        compare(&all)?;
        let identifier = all.first().map(|first| first.identifier.clone());
        let group = nccl::join(share, &identifier.unwrap_or_default(), device, lost)?;
        Ok((group, all.into_iter().map(|it| it.device).collect()))
    }
}

/// Where NCCL may be, the first place first: a folder that is named, those of CUDA’s libraries.
fn folders_of_nccl() -> Vec<PathBuf> {
    let folder = |variable| std::env::var_os(variable).map(PathBuf::from);
    let cuda = folder("CUDA_LIB_DIR");
    // Python’s packages have a folder for each library, beside each other.
    let beside = cuda.as_ref().map(|it| it.join("../../nccl/lib"));
    [folder("NCCL_LIB_DIR"), cuda, beside]
        .into_iter()
        .flatten()
        .collect()
}

/// What a rank says of itself before NCCL connects all.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Connection {
    /// What it computes on, and where.
    device: String,
    /// The version of NCCL.
    version: String,
    /// The number of its card in the world.
    card: String,
    /// What all join with, from rank 0.
    identifier: Vec<u8>,
}

fn unreadable(error: serde_json::Error) -> AppError {
    AppError::failed(format!(
        "what a rank says of its card can’t be read: {error}"
    ))
}

/// An error where ranks can’t be connected. All find the same one.
fn compare(all: &[Connection]) -> Result<()> {
    let mut cards = BTreeMap::new();
    for (rank, connection) in all.iter().enumerate() {
        let (own, first) = (&connection.version, &all[0].version);
        if own != first {
            return Err(AppError::failed(format!(
                "rank {rank} has NCCL {own}, and rank 0 has {first}"
            ))
            .with_hint("install the same version on all machines"));
        }
        if let Some(other) = cards.insert(&connection.card, rank) {
            return Err(
                AppError::failed(format!("ranks {other} and {rank} are on the same card"))
                    .with_hint("start as many processes on a machine as it has cards, each with a LOCAL_RANK of its own"),
            );
        }
    }
    Ok(())
}

fn cards(found: &[FoundDevice]) -> usize {
    let is_card = |it: &&FoundDevice| it.kind == DeviceKind::Cuda && it.is_usable();
    found.iter().filter(is_card).count()
}

/// What a machine is told whose one rank leaves cards unused.
fn unused_cards(found: &[FoundDevice]) -> Option<String> {
    let cards = cards(found);
    (cards > 1).then(|| {
        format!(
            "this machine has {cards} devices and its one rank uses one of them: start torchrun on it, which starts a rank for each"
        )
    })
}

fn card(launch: &Launch, found: &[FoundDevice]) -> Result<usize> {
    let (cards, local) = (cards(found), launch.local_rank);
    match cards {
        // A launcher that gives each rank a card of its own shows it that one alone.
        1 if !launch.is_own() => Ok(0),
        _ if local < cards => Ok(local),
        _ => Err(AppError::failed(format!(
            "{} devices were asked for, and this machine has {cards}",
            local + 1
        ))),
    }
}

/// Which run it is, as rank 0 says.
pub(crate) fn hear_of_run(store: &mut Store, say: impl FnOnce() -> Result<Begun>) -> Result<Begun> {
    let failed = |error: serde_json::Error| {
        AppError::failed(format!(
            "what rank 0 says of the run can’t be read: {error}"
        ))
    };
    let said = store.share("run", || serde_json::to_vec(&say()?).map_err(failed))?;
    serde_json::from_slice(&said).map_err(failed)
}

/// The folder of the run that the same ranks trained before they failed, where their launcher started them again.
pub(crate) fn run_before(launch: &Launch) -> Result<Option<PathBuf>> {
    if !(launch.is_again && launch.has_store) {
        return Ok(None);
    }
    let left = Store::connect(launch)?.left(FOLDER)?;
    let folder = left.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(folder.map(PathBuf::from))
}

/// What all ranks have done without an error, as each hears of all others.
pub(crate) fn agreed<T>(together: Option<&mut Together>, own: Result<T>) -> Result<T> {
    let Some(together) = together else {
        return own;
    };
    let told = together.tell(own.as_ref().err().map(|error| error.message.as_str()));
    // What happened here says more than that it did.
    let own = own?;
    told?;
    Ok(own)
}

/// An error where so many devices can’t train a run together: it is not on a card of NVIDIA, this is no Linux, the library is
/// missing, or there are too few, where this program would start them itself.
pub(crate) fn refuse(
    devices: usize,
    device: &FoundDevice,
    found: &[FoundDevice],
    starts_them: bool,
) -> Result<()> {
    if devices <= 1 {
        return Ok(());
    }
    #[cfg(debug_assertions)]
    if device.kind == DeviceKind::Cpu && super::plain::is_allowed() {
        return Ok(());
    }
    let refused = |message: String, hint: Option<&str>| {
        let error = AppError::invalid(message).with_field("devices");
        Err(match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        })
    };
    if cfg!(windows) {
        let message = "several devices need CUDA and NCCL on Linux".to_owned();
        return refused(message, Some("choose one device"));
    }
    if device.kind != DeviceKind::Cuda {
        let message = format!(
            "several devices need CUDA and NCCL; this run is on {}",
            match device.kind {
                DeviceKind::Cpu => "the CPU".to_owned(),
                kind => kind.to_string(),
            }
        );
        return refused(
            message,
            Some("choose one device, or a Linux machine with NVIDIA cards"),
        );
    }
    if device.ordinal != 0 {
        let message = format!(
            "`device` is {}, and {devices} devices begin with the first",
            device.setting()
        );
        return refused(message, Some("set `device` to cuda"));
    }
    let cards = cards(found);
    if starts_them && cards < devices {
        return refused(
            format!("{devices} devices were asked for, and this machine has {cards}"),
            None,
        );
    }
    // Another program beside this one computes, where this one has no CUDA.
    match nccl::problem(&folders_of_nccl()).filter(|_| cfg!(feature = "cuda")) {
        None => Ok(()),
        Some(problem) => match problem.split_once("; ") {
            Some((message, hint)) => refused(message.to_owned(), Some(hint)),
            None => refused(problem, None),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(windows))]
    fn devices_that_can_t_be_had_are_refused_with_the_numbers() {
        let card = |ordinal| FoundDevice::named(DeviceKind::Cuda, ordinal, "H200");
        let metal = FoundDevice::named(DeviceKind::Metal, 0, "M3");
        let found = [card(0), card(1)];
        let of = |devices, device: &FoundDevice| {
            let refused = refuse(devices, device, &found, true).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("devices"));
            (refused.message, refused.hint)
        };
        let on_metal = "several devices need CUDA and NCCL; this run is on Metal".to_owned();
        let elsewhere = "choose one device, or a Linux machine with NVIDIA cards".to_owned();
        assert_eq!(of(2, &metal), (on_metal, Some(elsewhere)));
        let few = "4 devices were asked for, and this machine has 2".to_owned();
        assert_eq!(of(4, &card(0)), (few, None));
        let second = "`device` is cuda:1, and 2 devices begin with the first".to_owned();
        assert_eq!(of(2, &card(1)).0, second);
        assert!(refuse(1, &metal, &found, true).is_ok());
    }

    #[test]
    fn ranks_that_nccl_can_t_connect_are_named() {
        let of = |version: &str, card: &str| Connection {
            device: "H200".to_owned(),
            version: version.to_owned(),
            card: card.to_owned(),
            identifier: Vec::new(),
        };
        let said = |all: &[Connection]| compare(all).map_err(|error| error.message);
        let first = of("2.28.9", "a");
        assert_eq!(said(&[first.clone(), of("2.28.9", "b")]), Ok(()));
        let older = Err("rank 1 has NCCL 2.27.7, and rank 0 has 2.28.9".to_owned());
        assert_eq!(said(&[first.clone(), of("2.27.7", "b")]), older);
        let same = Err("ranks 0 and 2 are on the same card".to_owned());
        let all = [first.clone(), of("2.28.9", "b"), first];
        assert_eq!(said(&all), same);
    }

    #[test]
    fn a_machine_whose_one_rank_leaves_cards_unused_is_told() {
        let found: Vec<_> = (0..8)
            .map(|it| FoundDevice::named(DeviceKind::Cuda, it, "H200"))
            .collect();
        let said = unused_cards(&found);
        assert!(said.is_some_and(|it| it.starts_with("this machine has 8 devices")));
        assert_eq!(unused_cards(&found[..1]), None);
    }

    #[test]
    fn a_rank_has_the_card_of_its_number_or_the_only_one_that_it_sees() {
        let of = |local_rank, count, is_own| {
            let by = if is_own { "anneal" } else { "srun" };
            let launch = Launch {
                by,
                local_rank,
                ..crate::ranks::tests::launch(local_rank, 8, 1)
            };
            let cards: Vec<_> = (0..count)
                .map(|it| FoundDevice::named(DeviceKind::Cuda, it, "H200"))
                .collect();
            card(&launch, &cards).map_err(|error| error.message)
        };
        assert_eq!(of(1, 2, true), Ok(1));
        assert_eq!(of(3, 1, false), Ok(0));
        let few = Err("4 devices were asked for, and this machine has 2".to_owned());
        assert_eq!(of(3, 2, false), few);
        assert!(of(1, 1, true).is_err());
    }
}
