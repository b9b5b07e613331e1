//! `anneal train` as one of several processes that a launcher started: rank 0 does what the command does, and the others train with
//! it.

use std::{env, sync::atomic::Ordering, time::SystemTime};

use serde_json::json;

use super::{Arguments, Ended, Host, Terminal, alone, count_interrupts};
use crate::{
    jobs::engine::Control,
    ranks::{launch::Launch, meet::run_before, store::Server},
    wire::error::{AppError, Result},
};

/// The file in which torchrun looks for the reason that a process failed.
const ERROR_FILE: &str = "TORCHELASTIC_ERROR_FILE";

pub(super) fn run(
    launch: &Launch,
    arguments: Arguments,
    host: &Host,
    terminal: &Terminal,
) -> Result<Ended> {
    let trained = match launch.rank {
        0 => first(launch, arguments, host, terminal),
        // Rank 0 shows the plan.
        _ if arguments.plan => Ok(Ended::Done),
        _ => other(launch, host),
    };
    trained.inspect_err(leave_word)
}

fn first(
    launch: &Launch,
    mut arguments: Arguments,
    host: &Host,
    terminal: &Terminal,
) -> Result<Ended> {
    let world = launch.world;
    if let Some(gpus) = arguments.gpus.filter(|gpus| *gpus != world) {
        let by = launch.by;
        return Err(AppError::invalid(format!(
            "--gpus is {gpus}, and {by} started {world} processes"
        ))
        .with_hint("leave --gpus out"));
    }
    arguments.gpus = Some(world);
    // The others look for it until they are connected.
    let _server = match launch.has_store {
        true => None,
        false => Some(Server::start(launch)?),
    };
    // What was left is believed as far as any argument is: it names a run to resume.
    if let Some(folder) = run_before(launch)?.filter(|_| arguments.resume.is_none()) {
        arguments.resume = Some(folder.to_string_lossy().into_owned());
    }
    alone(arguments, host, terminal)
}

fn other(launch: &Launch, host: &Host) -> Result<Ended> {
    let interrupts = count_interrupts()?;
    let stops = || interrupts.load(Ordering::SeqCst) > 0;
    host.train_as_rank(launch, &|| Control::stop_if(stops()))?;
    Ok(match stops() {
        true => Ended::Stopped,
        false => Ended::Done,
    })
}

/// Has torchrun say what went wrong instead of where it could be found.
fn leave_word(error: &AppError) {
    let Some(path) = env::var_os(ERROR_FILE) else {
        return;
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = now.map_or(0, |it| it.as_secs()).to_string();
    let word =
        json!({"message": {"message": error.sentence(), "extraInfo": {"timestamp": seconds}}});
    // It is said on standard error too.
    let _ = std::fs::write(path, word.to_string());
}
