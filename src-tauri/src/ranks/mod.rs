//! Several processes that train one run together: who each is, how they meet, and how they notice that one is gone.
//!
//! - [`launch`]: which rank this is, by the variables of torchrun, mpirun or srun
//! - [`store`]: where ranks exchange messages until they are connected
//! - [`watch`]: whether the others are still alive
//! - [`meet`]: how they begin with a run
//! - `plain`: sums without a card, in test builds
//!
//! A run on one device uses none of this. Connections go to the places that a launcher names and carry no data of the user.
//! Deliberately absent: what the ranks compute, which is in the models’ crate.

pub(crate) mod launch;
pub(crate) mod meet;
#[cfg(debug_assertions)]
mod plain;
pub(crate) mod store;
pub(crate) mod watch;

use std::{fs::File, io::Read};

use self::launch::Launch;
use crate::wire::error::{AppError, Result};

/// The place of this process among those of a launcher, or nothing where it is alone.
pub(crate) fn of_environment() -> Result<Option<Launch>> {
    launch::read(&|name| std::env::var(name).ok())
}

/// An error where a launcher started several processes of what one is enough for: each would do all of it.
///
/// `get` looks a variable of the process up.
pub(crate) fn refuse_several(get: &dyn Fn(&str) -> Option<String>, command: &str) -> Result<()> {
    match launch::read(get)? {
        None => Ok(()),
        Some(_) => Err(
            AppError::invalid(format!("one process is enough for `anneal {command}`"))
                .with_hint("start it without a launcher"),
        ),
    }
}

/// Bytes that nobody can guess.
pub(crate) fn secret() -> Result<[u8; 16]> {
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
    fn what_one_process_is_enough_for_is_refused_under_a_launcher() {
        let of = |world: &str| {
            let get = |name: &str| match name {
                "RANK" | "LOCAL_RANK" => Some("0".to_owned()),
                "WORLD_SIZE" => Some(world.to_owned()),
                "MASTER_ADDR" => Some("127.0.0.1".to_owned()),
                "MASTER_PORT" => Some("29500".to_owned()),
                _ => None,
            };
            refuse_several(&get, "chat").map_err(|error| error.to_string())
        };
        assert_eq!(of("1"), Ok(()));
        assert_eq!(
            of("4"),
            Err("one process is enough for `anneal chat`".to_owned())
        );
    }

    /// A rank of a launch on this machine that waits a second.
    pub(super) fn launch(rank: usize, world: usize, port: u16) -> Launch {
        Launch {
            by: "torchrun",
            rank,
            world,
            local_rank: rank,
            says_local_rank: true,
            address: "127.0.0.1".to_owned(),
            port,
            is_local: true,
            has_store: false,
            prefix: "/anneal/run/0/secret/".to_owned(),
            lasting: "/anneal/run/all/secret/".to_owned(),
            is_again: false,
            timeout: Duration::from_secs(1),
        }
    }
}
