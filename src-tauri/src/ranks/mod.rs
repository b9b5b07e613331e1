//! Several processes that train one run together: who each is, how they meet, and how they notice that one is gone.
//!
//! - [`launch`]: which rank this is, by the variables of torchrun, mpirun or srun
//! - [`store`]: where ranks exchange messages until they are connected
//! - [`watch`]: whether the others are still alive
//!
//! A run on one device uses none of this, and the trainer supports no other kind of run yet: it refuses to be one of several
//! processes. Connections go to the places that a launcher names and carry no data of the user. Deliberately absent: what the
//! ranks compute, which is in the models’ crate.

pub(crate) mod launch;
pub(crate) mod store;
pub(crate) mod watch;

use std::{fs::File, io::Read};

use crate::wire::error::{AppError, Result};

/// An error where a launcher started several processes for one run: each would train all of it, in the same folders.
///
/// `get` looks a variable of the process up.
pub(crate) fn refuse_several(get: &dyn Fn(&str) -> Option<String>) -> Result<()> {
    match launch::read(get)? {
        None => Ok(()),
        Some(launch) => Err(AppError::invalid(format!(
            "{} started {} processes for this run, and a run trains on one device",
            launch.by, launch.world
        ))
        .with_hint("start it once, as `anneal train` or with `--nproc-per-node 1`")),
    }
}

/// Bytes that nobody can guess.
fn secret() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // Several devices are for Linux alone, which has this.
    let path = "/dev/urandom";
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(AppError::file("read random bytes", path))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{launch::Launch, refuse_several};

    #[test]
    fn one_of_several_processes_of_a_launcher_trains_nothing() {
        let of = |world: &str| {
            let get = |name: &str| match name {
                "RANK" | "LOCAL_RANK" => Some("0".to_owned()),
                "WORLD_SIZE" => Some(world.to_owned()),
                "MASTER_ADDR" => Some("127.0.0.1".to_owned()),
                "MASTER_PORT" => Some("29500".to_owned()),
                _ => None,
            };
            refuse_several(&get).map_err(|error| error.to_string())
        };
        assert_eq!(of("1"), Ok(()));
        let message = of("4").unwrap_err();
        assert!(
            message.starts_with(
                "torchrun started 4 processes for this run, and a run trains on one device"
            ),
            "{message}"
        );
    }

    /// A rank of a launch on this machine that waits a second.
    pub(super) fn launch(rank: usize, world: usize, port: u16) -> Launch {
        Launch {
            by: "torchrun",
            rank,
            world,
            local_rank: rank,
            address: "127.0.0.1".to_owned(),
            port,
            is_local: true,
            has_store: false,
            prefix: "/anneal/run/0/secret/".to_owned(),
            patience: Duration::from_secs(1),
        }
    }
}
