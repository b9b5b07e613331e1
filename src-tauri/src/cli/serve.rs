//! `anneal serve`: a model for other programs on this machine, until Ctrl-C.

use std::{sync::Arc, sync::atomic::Ordering, thread, time::Duration};

use models::{
    device::RequestedDevice,
    figures::{count, counted},
    ops::kept::CacheType,
};
use serde_json::{Value, json};

use super::{
    Ended, chat, hub,
    terminal::{Terminal, count_interrupts, printable},
};
use crate::{
    host::Host,
    serve::{Served, Server, journal::RequestEntry},
    wire::error::Result,
};

/// How often is looked for Ctrl-C, and for requests to be told of.
const LOOK: Duration = Duration::from_millis(50);

/// Serve a model to other programs on this machine, through OpenAI’s API.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A run, the folder of a model, or the name of one, here or on the Hugging Face Hub.
    #[arg(value_name = "MODEL_OR_RUN")]
    model: String,
    /// Listen on this port; 0 means any free one. Without it, 1414 or the next free one.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Accept only clients with this key. Without it, any key is accepted. Other users of this machine may see
    /// arguments, but not environment variables.
    #[arg(
        long,
        value_name = "KEY",
        env = "ANNEAL_SERVE_KEY",
        hide_env_values = true
    )]
    key: Option<String>,
    /// How keys and values of what was read are kept on a processor: auto, full, f16 or q8.
    #[arg(long, value_name = "TYPE", value_parser = cache)]
    cache: Option<CacheType>,
    /// Answer so many requests at once, from 1 to 4. Others wait.
    #[arg(long, value_name = "COUNT", default_value_t = Served::SLOTS, value_parser = slots)]
    slots: usize,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// Download the model from the Hugging Face Hub if it isn’t on this machine, without asking.
    #[arg(long, short)]
    yes: bool,
    /// Open the model even if it may not fit in memory.
    #[arg(long)]
    force: bool,
}

fn cache(name: &str) -> std::result::Result<CacheType, String> {
    serde_json::from_value(json!(name)).map_err(|error| error.to_string())
}

fn slots(count: &str) -> std::result::Result<usize, String> {
    Served::checked_slots(count.parse().map_err(|_| "not a whole number")?)
}

pub(super) fn run(arguments: Arguments, host: Arc<Host>, terminal: &Terminal) -> Result<Ended> {
    let Arguments {
        model,
        port,
        key,
        cache,
        slots,
        device,
        yes,
        force,
    } = arguments;
    if hub::offer(&model, yes, &host, terminal)? == Ended::Stopped {
        return Ok(Ended::Stopped);
    }
    let served = Served {
        name: model,
        device,
        force,
        port,
        key,
        cache: cache.unwrap_or_default(),
        slots,
    };
    let server = Server::start(served, &host).map_err(chat::say_how_to_force)?;
    for warning in server.warnings() {
        terminal.warn(warning);
    }
    match terminal.json {
        true => terminal.json(&json!({"address": server.address(), "model": server.model()}))?,
        false => {
            terminal.line(server.address());
            terminal.note(format_args!(
                "serves {}; Ctrl-C ends it",
                printable(server.model())
            ));
        }
    }
    let interrupts = count_interrupts()?;
    let mut told = 0;
    while interrupts.load(Ordering::SeqCst) == 0 {
        for entry in server.entries(told) {
            told = entry.number;
            match terminal.json {
                true => terminal.json(&json(&entry))?,
                false => terminal.note(line(&entry)),
            }
        }
        thread::sleep(LOOK);
    }
    Ok(Ended::Done)
}

/// The same for machines.
fn json(entry: &RequestEntry) -> Value {
    json!({
        "time": entry.time, "client": entry.client, "request": entry.request, "status": entry.status,
        "prompt_tokens": entry.prompt_tokens, "completion_tokens": entry.completion_tokens, "note": entry.note,
        "millis": entry.millis,
    })
}

/// A request in a line: times and sizes only.
fn line(entry: &RequestEntry) -> String {
    let mut words = vec![printable(&entry.request)];
    if entry.status > 0 {
        words.push(entry.status.to_string());
    }
    if let (Some(read), Some(written)) = (entry.prompt_tokens, entry.completion_tokens) {
        words.push(format!(
            "{} + {}",
            count(u64::from(read)),
            counted(u64::from(written), "token")
        ));
    }
    words.extend(entry.note.as_deref().map(printable));
    words.push(format!("{:.0} ms", entry.millis));
    words.join(", ")
}
