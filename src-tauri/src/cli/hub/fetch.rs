//! Fetching in the terminal, and offering to when a model is asked for that is not here.

use std::{
    path::Path,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use console::style;
use indicatif::ProgressBar;
use models::figures::duration;

use crate::{
    cli::{
        Ended,
        terminal::{Terminal, bytes, count_interrupts, printable},
    },
    host::Host,
    hub::{
        download::{self, Wanted},
        event::HubEvent,
        fetch::Patience,
        needed::warning,
    },
    store::hub_cache::names::{RepositoryId, RepositoryKind},
    wire::error::{AppError, Result},
};

/// Without a terminal there is no progress bar, but a line this often.
const LINE_EVERY: Duration = Duration::from_secs(15);

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
        let message = format!(
            "there is no model `{id}` on this machine, and {}",
            error.message
        );
        AppError { message, ..error }
    })?;
    let uses = host.uses(&repository);
    if repository.gate.is_none() && !uses.can_talk {
        let notes = uses.notes.join(" ");
        return Err(AppError::invalid(format!(
            "`{id}` is not here, and fetching it would not help: {notes}"
        )));
    }
    let wanted = Wanted::of(&repository, &[])?;
    let missing = wanted.missing_bytes(host.hub.cache()?);
    let question = format!("{id} is not here. Fetch {}?", bytes(missing));
    if !yes
        && !terminal.confirm(
            question,
            &format!(
                "give --yes, or fetch its {} with `anneal hub get {id}`",
                bytes(missing)
            ),
        )?
    {
        return Err(AppError::invalid(format!(
            "there is no model `{id}` on this machine"
        )));
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
    let mut view = View::new(terminal);
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let ended = host.hub.download_telling(
        wanted,
        Patience::Short,
        &mut |event| view.show(&event),
        &stop,
    );
    view.bar.finish_and_clear();
    ended.map_err(|error| match &error.hint {
        Some(_) => error,
        None => error.with_hint("what came is kept; the same command continues with it"),
    })
}

/// A download as it is seen in a terminal.
struct View<'a> {
    terminal: &'a Terminal,
    bar: ProgressBar,
    last_line: Instant,
}

impl<'a> View<'a> {
    fn new(terminal: &'a Terminal) -> Self {
        let bar = terminal.bar("", 60);
        Self {
            terminal,
            bar,
            last_line: Instant::now(),
        }
    }

    fn show(&mut self, event: &HubEvent) {
        if self.terminal.json {
            let _ = self.terminal.json(event);
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
                self.terminal.note(format_args!(
                    "{}: {} in {files} files{here}",
                    style(id).for_stderr().bold(),
                    bytes(*total_bytes)
                ));
                self.terminal.show(&self.bar);
                self.bar.set_length(*total_bytes);
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
                self.bar.set_position(*done_bytes);
                self.bar.set_message(message.clone());
                if self.bar.is_hidden() && self.last_line.elapsed() > LINE_EVERY {
                    self.terminal.note(message);
                    self.last_line = Instant::now();
                }
            }
            HubEvent::Retrying { message } => {
                let word = style("warning:").for_stderr().yellow().bold();
                let line = format!("{word} {}; trying again", printable(message));
                self.terminal.note_above(&self.bar, line);
            }
            HubEvent::Finished {
                fetched_bytes,
                seconds,
                ..
            } => self.terminal.note(match fetched_bytes {
                0 => "everything is here already".to_owned(),
                fetched => format!("{} in {}, checked", bytes(*fetched), duration(*seconds)),
            }),
            HubEvent::Stopped { .. } => {}
        }
    }
}
