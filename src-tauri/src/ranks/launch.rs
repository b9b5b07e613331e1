//! Who started this process, and which of how many it is: read from the variables that existing launchers set.
//!
//! The first launcher whose variables are complete counts. torchrun comes first, since it often runs below srun or mpirun,
//! whose variables then count its agents. Deliberately absent: any launcher of our own for several hosts.

use std::time::Duration;

use crate::wire::error::{AppError, Result};

/// How long the others are waited for under a launcher: another node may still fetch the image that this one has.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The same where this program started all of them.
const OWN_TIMEOUT: Duration = Duration::from_secs(60);
/// The most ranks. Each may open four connections to rank 0.
const MAX_RANKS: usize = 4096;
/// The port where a launcher names none, as torchrun has it.
const PORT: usize = 29500;
/// Ports above those that systems hand out, one for each of so many jobs of Slurm.
const SLURM_PORTS: (usize, usize) = (61440, 4096);

/// The variable by which ranks that should know each other prove it: a part of every key in the store.
pub(crate) const SECRET: &str = "ANNEAL_SECRET";
/// What stands for a run of torchrun where this program started the ranks.
pub(crate) const OWN_RUN: &str = "anneal";
const OWN: &str = "anneal";
const RUN_ID: &str = "TORCHELASTIC_RUN_ID";

/// What the log of a rank is called, in the folder of its run.
pub(crate) fn log_name(rank: usize) -> String {
    format!("rank-{rank}.log")
}

/// One rank's place among all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The program that started the ranks: `torchrun`.
    pub(crate) by: &'static str,
    /// The number of this process, from 0.
    pub(crate) rank: usize,
    /// How many there are: at least 2.
    pub(crate) world: usize,
    /// The number of this process among those of its host.
    pub(crate) local_rank: usize,
    /// Whether the launcher says so. One that does not starts one process on each host.
    pub(crate) says_local_rank: bool,
    /// Where rank 0, or the store of the launcher, is reached.
    pub(crate) address: String,
    pub(crate) port: u16,
    /// Whether all ranks are on this host, as far as is known.
    pub(crate) is_local: bool,
    /// Whether the launcher serves a store there itself.
    pub(crate) has_store: bool,
    /// What all keys in the store begin with. It tells one start of the same ranks from the next, which may find the keys of
    /// the last in the same store.
    pub(crate) prefix: String,
    /// What keys begin with that last over a restart, in a store that does.
    pub(crate) lasting: String,
    /// Whether the launcher started the same ranks before, and they failed.
    pub(crate) is_again: bool,
    /// How long others are waited for.
    pub(crate) timeout: Duration,
}

impl Launch {
    /// Whether this program started the ranks.
    pub(crate) fn is_own(&self) -> bool {
        self.by == OWN
    }

    /// `127.0.0.1:29500`.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.address, self.port)
    }
}

/// The place that variables name, or nothing where they name none or only one rank.
///
/// Errors: variables that contradict each other or leave open what has to be known.
pub(crate) fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Launch>> {
    let variables = Variables { get };
    let Some(place) = variables.place()? else {
        return Ok(None);
    };
    let LaunchedProcess {
        by,
        rank,
        world,
        local,
        local_world,
    } = place;
    let world = world.ok_or_else(|| {
        AppError::invalid(format!(
            "{by} says this is rank {rank}, and not of how many"
        ))
    })?;
    if rank >= world || world > MAX_RANKS {
        return Err(AppError::invalid(format!(
            "{by} says this is rank {rank} of {world}, and ranks count from 0 to {} at most",
            MAX_RANKS - 1
        )));
    }
    if world == 1 {
        return Ok(None);
    }
    let hosts = variables.number("SLURM_STEP_NUM_NODES")?;
    let on_one_host = local_world == Some(world) || (by == SRUN && hosts == Some(1));
    let step = variables.text("SLURM_STEP_NODELIST");
    let first = step.filter(|_| by == SRUN).map(|list| first_host(&list));
    let own = on_one_host.then(|| "127.0.0.1".to_owned());
    let address = variables.text("MASTER_ADDR").or(own).or(first);
    let address = address.ok_or_else(|| {
        AppError::invalid(format!(
            "{by} does not say where rank 0 is: MASTER_ADDR is not set"
        ))
        .with_hint("set it to the host of rank 0")
    })?;
    let is_own = variables.text(RUN_ID).as_deref() == Some(OWN_RUN);
    Ok(Some(Launch {
        by: if is_own { OWN } else { by },
        rank,
        world,
        local_rank: local.unwrap_or(0),
        says_local_rank: local.is_some(),
        port: variables.port(by)?,
        is_local: on_one_host || ["127.0.0.1", "localhost", "::1"].contains(&address.as_str()),
        address,
        has_store: variables.text("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True"),
        prefix: variables.prefix(&variables.restart()),
        lasting: variables.prefix("all"),
        is_again: variables.restart() != "0",
        timeout: if is_own { OWN_TIMEOUT } else { TIMEOUT },
    }))
}

const SRUN: &str = "srun";

/// The variables of a process.
struct Variables<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
}

/// What a launcher says of a process.
struct LaunchedProcess {
    by: &'static str,
    rank: usize,
    world: Option<usize>,
    local: Option<usize>,
    local_world: Option<usize>,
}

impl Variables<'_> {
    fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).filter(|it| !it.is_empty())
    }

    fn number(&self, name: &str) -> Result<Option<usize>> {
        let wrong =
            |text: &str| AppError::invalid(format!("{name} is `{text}`, which is no count"));
        let read = |text: String| text.parse().map_err(|_| wrong(&text));
        self.text(name).map(read).transpose()
    }

    fn place(&self) -> Result<Option<LaunchedProcess>> {
        if let Some(rank) = self.number("RANK")? {
            return Ok(Some(LaunchedProcess {
                by: "torchrun",
                rank,
                world: self.number("WORLD_SIZE")?,
                local: self.number("LOCAL_RANK")?,
                local_world: self.number("LOCAL_WORLD_SIZE")?,
            }));
        }
        if let Some(rank) = self.number("OMPI_COMM_WORLD_RANK")? {
            return Ok(Some(LaunchedProcess {
                by: "mpirun",
                rank,
                world: self.number("OMPI_COMM_WORLD_SIZE")?,
                local: self.number("OMPI_COMM_WORLD_LOCAL_RANK")?,
                local_world: self.number("OMPI_COMM_WORLD_LOCAL_SIZE")?,
            }));
        }
        // A batch script has a rank and a count too, and is one process: the others would be waited for without end.
        let is_step = self.text("SLURM_STEP_NODELIST").is_some();
        let Some(rank) = self.number("SLURM_PROCID")?.filter(|_| is_step) else {
            return Ok(None);
        };
        let of_step = self.number("SLURM_STEP_NUM_TASKS")?;
        Ok(Some(LaunchedProcess {
            by: SRUN,
            rank,
            world: of_step.or(self.number("SLURM_NTASKS")?),
            local: self.number("SLURM_LOCALID")?,
            local_world: None,
        }))
    }

    fn port(&self, by: &str) -> Result<u16> {
        let (first, count) = SLURM_PORTS;
        let job = self.number("SLURM_JOB_ID")?.filter(|_| by == SRUN);
        let of_job = job.map(|job| first + job % count);
        let port = self.number("MASTER_PORT")?.or(of_job).unwrap_or(PORT);
        let port = u16::try_from(port).ok().filter(|port| *port > 0);
        port.ok_or_else(|| AppError::invalid("MASTER_PORT is no port: those are from 1 to 65535"))
    }

    fn first(&self, names: [&str; 2], otherwise: &str) -> String {
        let mut named = names.iter().filter_map(|name| self.text(name));
        named.next().unwrap_or_else(|| otherwise.to_owned())
    }

    fn restart(&self) -> String {
        self.first(["TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"], "0")
    }

    fn prefix(&self, restart: &str) -> String {
        let run = self.first([RUN_ID, "SLURM_JOB_ID"], "run");
        let secret = self.text(SECRET).unwrap_or_default();
        format!("/anneal/{run}/{restart}/{secret}/")
    }
}

/// The first host of a list as Slurm writes it: `gpu[07-09,12],login`.
fn first_host(list: &str) -> String {
    let bracket = list.split_once('[').filter(|(stem, _)| !stem.contains(','));
    let Some((stem, rest)) = bracket else {
        return list.split(',').next().unwrap_or(list).to_owned();
    };
    let (inside, after) = rest.split_once(']').unwrap_or((rest, ""));
    let number = inside.split([',', '-']).next().unwrap_or(inside);
    let end = after.split(',').next().unwrap_or_default();
    format!("{stem}{number}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Result<Option<Launch>> {
        read(&|name| {
            let found = set.iter().rev().find(|it| it.0 == name);
            found.map(|it| it.1.to_owned())
        })
    }

    fn place(set: &[&[(&str, &str)]]) -> (&'static str, usize, usize, usize, String) {
        let launch = of(&set.concat()).unwrap().unwrap();
        let place = launch.place();
        (
            launch.by,
            launch.rank,
            launch.world,
            launch.local_rank,
            place,
        )
    }

    const TORCH: [(&str, &str); 5] = [
        ("RANK", "1"),
        ("WORLD_SIZE", "8"),
        ("LOCAL_RANK", "1"),
        ("MASTER_ADDR", "a"),
        ("MASTER_PORT", "41000"),
    ];
    const MPI: [(&str, &str); 4] = [
        ("OMPI_COMM_WORLD_RANK", "2"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
    ];
    const BATCH: [(&str, &str); 4] = [
        ("SLURM_PROCID", "3"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_JOB_ID", "70001"),
    ];
    const STEP: [(&str, &str); 1] = [("SLURM_STEP_NODELIST", "gpu[07-08],x9")];

    #[test]
    fn every_launcher_says_which_rank_this_is() {
        let torch = ("torchrun", 1, 8, 1, "a:41000".to_owned());
        assert_eq!(place(&[&TORCH]), torch);
        let mpi = ("mpirun", 2, 4, 2, "127.0.0.1:29500".to_owned());
        assert_eq!(place(&[&MPI]), mpi);
        let step = ("srun", 3, 4, 1, "gpu07:61809".to_owned());
        assert_eq!(place(&[&BATCH, &STEP]), step);
        // Of a step with fewer tasks than its job.
        let fewer = [("SLURM_STEP_NUM_TASKS", "5")];
        assert_eq!(place(&[&BATCH, &STEP, &fewer]).2, 5);
        // A pod of which nobody says how many processes it has.
        assert_eq!(place(&[&TORCH[..2], &TORCH[3..]]).3, 0);
    }

    #[test]
    fn torchrun_below_another_launcher_counts() {
        assert_eq!(place(&[&BATCH, &STEP, &MPI, &TORCH]).0, "torchrun");
        // The port of the job is for its own ranks.
        let port = &[&BATCH[..], &STEP, &TORCH[..4]];
        assert_eq!(place(port).4, "a:29500");
    }

    #[test]
    fn one_process_is_no_group() {
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap(), None);
        // A batch script of Slurm is no step, though it has a number.
        assert_eq!(of(&BATCH).unwrap(), None);
    }

    #[test]
    fn what_is_incomplete_or_contradicts_itself_is_refused_with_the_numbers() {
        let cases: [(&[(&str, &str)], &str); 6] = [
            (&BATCH[..1], "srun says this is rank 3, and not of how many"),
            (
                &[("RANK", "8"), ("WORLD_SIZE", "8")],
                "torchrun says this is rank 8 of 8, and ranks count from 0 to 4095 at most",
            ),
            (
                &[("RANK", "0"), ("WORLD_SIZE", "5000")],
                "torchrun says this is rank 0 of 5000, and ranks count from 0 to 4095 at most",
            ),
            (&[("RANK", "-1")], "RANK is `-1`, which is no count"),
            (
                &[("RANK", "0"), ("WORLD_SIZE", "2")],
                "torchrun does not say where rank 0 is: MASTER_ADDR is not set",
            ),
            (
                &[TORCH[0], TORCH[1], TORCH[3], ("MASTER_PORT", "70000")],
                "MASTER_PORT is no port: those are from 1 to 65535",
            ),
        ];
        for (set, message) in cases {
            let set = [set, &STEP].concat();
            assert_eq!(of(&set).unwrap_err().message, message);
        }
    }

    #[test]
    fn each_restart_and_each_secret_has_keys_of_its_own() {
        let prefix = |more: &[(&str, &str)]| {
            let set = [&TORCH[..], more].concat();
            of(&set).unwrap().unwrap().prefix
        };
        assert_eq!(prefix(&[]), "/anneal/run/0//");
        let all = [
            ("TORCHELASTIC_RUN_ID", "x"),
            ("TORCHELASTIC_RESTART_COUNT", "2"),
            (SECRET, "s"),
        ];
        assert_eq!(prefix(&all), "/anneal/x/2/s/");
    }

    #[test]
    fn ranks_on_one_host_are_known_to_be() {
        let is_local = |set: &[&[(&str, &str)]]| of(&set.concat()).unwrap().unwrap().is_local;
        assert!(is_local(&[&MPI]));
        assert!(!is_local(&[&TORCH]));
        assert!(is_local(&[&TORCH, &[("LOCAL_WORLD_SIZE", "8")]]));
        assert!(is_local(&[&TORCH, &[("MASTER_ADDR", "localhost")]]));
        assert!(is_local(&[&BATCH, &STEP, &[("SLURM_STEP_NUM_NODES", "1")]]));
    }

    #[test]
    fn a_list_of_hosts_begins_with_one() {
        for (list, first) in [
            ("a", "a"),
            ("a,b[1-2]", "a"),
            ("gpu[07-09,12],x", "gpu07"),
            ("r[3]-ib,z", "r3-ib"),
            ("r[3,5-6]-ib", "r3-ib"),
            ("r[", "r"),
            ("", ""),
        ] {
            assert_eq!(first_host(list), first);
        }
    }
}
