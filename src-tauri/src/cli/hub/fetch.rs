//! Fetching in the terminal, and offering to when a model is asked for that is not here.

use std::{path::Path, sync::atomic::Ordering, time::Instant};

use console::style;
use indicatif::ProgressBar;
use models::figures::{bytes, counted, duration};

use crate::{
    cli::{
        Ended,
        terminal::{Terminal, count_interrupts, printable},
    },
    host::Host,
    hub::{
        download::{self, Wanted},
        event::HubEvent,
        fetch::Retries,
        needed::warning,
    },
    store::hub_cache::names::{RepositoryId, RepositoryKind},
    wire::error::{AppError, Result},
};

/// Fetches what is missing. Ctrl-C leaves; the same command continues.
pub(super) fn fetch(wanted: &Wanted, host: &Host, terminal: &Terminal) -> Result<Ended> {
    for file in &wanted.files {
        if let Some(warning) = warning(&file.path) {
            terminal.warn(format_args!("{}: {warning}", file.path));
        }
    }
    match follow(wanted, host, terminal)? {
        download::Ended::Stopped => {
            terminal.note("stopped; what came is kept, and the same command continues with it");
            Ok(Ended::Stopped)
        }
        download::Ended::Whole(path) => {
            if !terminal.json {
                terminal.line(path.display());
            }
            Ok(Ended::Done)
        }
    }
}

/// Offers to fetch a model that is asked for by its name on the Hub and is not here. Returns whether to continue.
pub(in crate::cli) fn offer(
    name: &str,
    yes: bool,
    host: &Host,
    terminal: &Terminal,
) -> Result<Ended> {
    // A path that was mistyped is nothing to ask the Hub for.
    let maker = name.split_once('/').map(|(maker, _)| Path::new(maker));
    let is_name = maker.is_some_and(|maker| !maker.exists());
    let id: Option<RepositoryId> = is_name.then(|| name.parse().ok()).flatten();
    let is_here = || Path::new(name).exists() || host.is_whole_model(name);
    let Some(id) = id.filter(|_| host.hub.offline().is_none() && !is_here()) else {
        return Ok(Ended::Done);
    };
    let repository = host.hub.repository(RepositoryKind::Model, &id, "");
    let repository = repository.map_err(|error| {
        let why = &error.message;
        let message = format!("there is no model `{id}` on this machine, and {why}");
        AppError { message, ..error }
    })?;
    let uses = host.uses(&repository);
    if repository.gate.is_none() && !uses.can_chat {
        let notes = uses.notes.join(" ");
        return Err(AppError::invalid(format!(
            "`{id}` is not here, and fetching it would not help: {notes}"
        )));
    }
    let wanted = Wanted::of(&repository, &[])?;
    let missing = bytes(wanted.missing_bytes(host.hub.cache()?));
    let question = format!("{id} is not here. Fetch {missing}?");
    let instead = format!("give --yes, or fetch its {missing} with `anneal hub get {id}`");
    if !yes && !terminal.confirm(question, &instead)? {
        let problem = format!("there is no model `{id}` on this machine");
        return Err(AppError::invalid(problem));
    }
    // Its events are not those that the command was asked for.
    let quiet = Terminal {
        json: false,
        quiet: terminal.quiet || terminal.json,
    };
    Ok(match follow(&wanted, host, &quiet)? {
        download::Ended::Stopped => Ended::Stopped,
        download::Ended::Whole(_) => Ended::Done,
    })
}

fn follow(wanted: &Wanted, host: &Host, terminal: &Terminal) -> Result<download::Ended> {
    let interrupts = count_interrupts()?;
    let (bar, mut last_line) = (terminal.bar("", 60), Some(Instant::now()));
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let mut tell = |event| show(&event, &bar, &mut last_line, terminal);
    let hub = &host.hub;
    let ended = hub.download_telling(wanted, Retries::Few, &mut tell, &stop);
    bar.finish_and_clear();
    ended.map_err(|error| match &error.hint {
        Some(_) => error,
        None => error.with_hint("what came is kept; the same command continues with it"),
    })
}

/// Shows what happens to a download.
fn show(event: &HubEvent, bar: &ProgressBar, last_line: &mut Option<Instant>, terminal: &Terminal) {
    if terminal.json {
        let _ = terminal.json(event);
        return;
    }
    match event {
        HubEvent::Started {
            id,
            files,
            done_bytes,
            total_bytes,
            ..
        } => {
            let here = match done_bytes {
                0 => String::new(),
                here => format!(", of which {} are here", bytes(*here)),
            };
            let files = counted(*files as u64, "file");
            let (id, total) = (style(id).for_stderr().bold(), bytes(*total_bytes));
            terminal.note(format_args!("{id}: {total} in {files}{here}"));
            terminal.show(bar);
            bar.set_length(*total_bytes);
        }
        HubEvent::Progressed {
            done_bytes,
            total_bytes,
            bytes_per_second,
            seconds_left,
        } => {
            let mut message = format!("{} of {}", bytes(*done_bytes), bytes(*total_bytes));
            if let Some(rate) = bytes_per_second {
                message += &format!("  {}/s", bytes(*rate as u64));
            }
            if let Some(seconds) = seconds_left {
                message += &format!("  {} left", duration(*seconds));
            }
            bar.set_position(*done_bytes);
            terminal.note_without_bar(bar, last_line, || message.clone());
            bar.set_message(message);
        }
        HubEvent::Retrying { message } => {
            let message = printable(message);
            terminal.warn_above(bar, format_args!("{message}; trying again"));
        }
        HubEvent::Finished {
            fetched_bytes,
            seconds,
            ..
        } => terminal.note(match fetched_bytes {
            0 => "everything is here already".to_owned(),
            fetched => format!("{} in {}, checked", bytes(*fetched), duration(*seconds)),
        }),
        HubEvent::Stopped { .. } => {}
    }
}
