//! `anneal chat`: chat with a model.
//!
//! On a terminal, lines are edited and remembered. From a file or a pipe, each line is said in turn, and only the
//! answers are written, so that a conversation can be scripted.

mod scores;
mod steer;

use std::{
    io::{self, BufRead, IsTerminal},
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use console::style;
use models::{
    device::RequestedDevice,
    figures::{count, counted},
    generate::Ended as AnswerEnded,
};
use rustyline::{DefaultEditor, error::ReadlineError};
use serde_json::json;

use super::{
    Ended, hub,
    terminal::{Terminal, count_interrupts, printable},
};
use crate::{
    host::{
        Host,
        chat::{Conversation, Heard},
    },
    wire::error::{AppError, Result},
};

/// How often is looked for Ctrl-C while a line is waited for.
const LOOK: Duration = Duration::from_millis(30);

const HELP: &str = "\
/reset                forget what was said
/system WORDS         set the scene, and forget what was said
/set                  show how answers are written
/set temperature=0.2  change it
/steer RUN:joy=0.1    lead the model along the direction of a probe
/steer                not any more
/help                 show this
/exit                 leave (Ctrl-D does too)
Ctrl-C stops an answer.";

/// Chat with a model or the result of a run.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A run, the folder of a model, or the name of one, here or on the Hugging Face Hub.
    #[arg(value_name = "MODEL_OR_RUN")]
    model: String,
    /// The system prompt: who the model is and how it should answer.
    #[arg(long, value_name = "WORDS")]
    system: Option<String>,
    /// Change how answers are sampled, such as temperature=0.2. May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Score each token with the probes of these runs or folders, and summarize the scores of each answer.
    #[arg(long, value_name = "FOLDER", value_delimiter = ',')]
    probes: Vec<PathBuf>,
    /// Lead the model along the direction of a probe: by so many times the usual length of its states, below 0 away from the label;
    /// or `remove`. PROBES is a run or a folder. The answer of the model as it is follows each. May be repeated.
    #[arg(long, value_name = "PROBES[:LABEL]=STRENGTH", value_parser = steer::asked)]
    steer: Vec<steer::Asked>,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// Download the model from the Hugging Face Hub if it isn’t on this machine, without asking.
    #[arg(long, short)]
    yes: bool,
    /// Open a model even if it may not fit in memory, and use probes of another model.
    #[arg(long)]
    force: bool,
}

/// What a line asks for.
enum Line<'a> {
    Say(&'a str),
    Reset,
    System(&'a str),
    Set(&'a str),
    Steer(&'a str),
    Help,
    Exit,
    Unknown(&'a str),
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    if hub::offer(&arguments.model, arguments.yes, host, terminal)? == Ended::Stopped {
        return Ok(Ended::Stopped);
    }
    let mut chat = open(&arguments.model, arguments.device, arguments.force, host)?;
    for change in &arguments.set {
        chat.set(change)?;
    }
    if let Some(words) = &arguments.system {
        chat.set_system(words);
    }
    if !arguments.probes.is_empty() {
        let folders = arguments.probes.iter();
        let folders = folders.map(|it| host.probes(&it.to_string_lossy()));
        let folders = folders.collect::<Result<_>>()?;
        scores::watch(&mut chat, folders, arguments.force, terminal)?;
    }
    if !arguments.steer.is_empty() {
        steer::begin(&mut chat, &arguments.steer, arguments.force, host, terminal)?;
    }
    chat_until_left(chat, host, terminal)
}

/// Opens a model. Where it would not fit, says how it is opened all the same.
pub(super) fn open(
    name: &str,
    device: Option<RequestedDevice>,
    force: bool,
    host: &Host,
) -> Result<Conversation> {
    let opened = host.open_chat(name, device, force);
    opened.map_err(say_how_to_force)
}

/// An error with the argument that helps, where one does.
pub(super) fn say_how_to_force(error: AppError) -> AppError {
    let hint = error.hint.clone().filter(|_| error.force_helps);
    match hint {
        Some(hint) => error.with_hint(format!("{hint}, or add `--force`")),
        None => error,
    }
}

/// Answers until the user leaves.
pub(super) fn chat_until_left(
    mut chat: Conversation,
    host: &Host,
    terminal: &Terminal,
) -> Result<Ended> {
    for warning in chat.model().warnings() {
        terminal.warn(warning);
    }
    let interrupts = count_interrupts()?;
    match io::stdin().is_terminal() && !terminal.json {
        true => edit_lines(&mut chat, host, terminal, interrupts).map(|()| Ended::Done),
        false => take_lines(&mut chat, host, terminal, interrupts),
    }
}

/// Says each line of standard input, until it ends. Ctrl-C ends an answer, or while a line is waited for, the conversation.
fn take_lines(
    chat: &mut Conversation,
    host: &Host,
    terminal: &Terminal,
    interrupts: &AtomicUsize,
) -> Result<Ended> {
    // Reading a line can't be interrupted, so it is waited for here, and read elsewhere.
    let (sender, lines) = mpsc::sync_channel(0);
    thread::spawn(move || {
        let mut lines = io::stdin().lock().lines();
        while lines.next().is_some_and(|line| sender.send(line).is_ok()) {}
    });
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                let line = line.map_err(|error| {
                    AppError::failed(format!("could not read what to say: {error}"))
                })?;
                if obey(&line, chat, host, terminal, interrupts)?.is_break() {
                    return Ok(Ended::Done);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(Ended::Done),
            Err(RecvTimeoutError::Timeout) if interrupts.load(Ordering::SeqCst) > 0 => {
                return Ok(Ended::Stopped);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn edit_lines(
    chat: &mut Conversation,
    host: &Host,
    terminal: &Terminal,
    interrupts: &AtomicUsize,
) -> Result<()> {
    terminal.note(match chat.model().answers() {
        true => "say something, or /help",
        false => {
            "this model continues text: give it a beginning, or nothing to let it continue; /help"
        }
    });
    let failed = |error: ReadlineError| AppError::failed(format!("could not read a line: {error}"));
    let mut editor = DefaultEditor::new().map_err(failed)?;
    // Without a history yet there is nothing to load.
    let _ = editor.load_history(&host.paths.chat_history);
    loop {
        let line = match editor.readline("› ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                terminal.note("/exit or Ctrl-D leaves");
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        };
        // A line that can't be remembered is said all the same.
        let _ = editor.add_history_entry(&line);
        match obey(&line, chat, host, terminal, interrupts) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(error) => terminal.error(&error),
        }
    }
    if let Some(folder) = host.paths.chat_history.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    if let Err(error) = editor.save_history(&host.paths.chat_history) {
        terminal.warn(format_args!(
            "what you said could not be remembered: {error}"
        ));
    }
    Ok(())
}

/// Does what a line asks for. Breaks when the user leaves.
fn obey(
    line: &str,
    chat: &mut Conversation,
    host: &Host,
    terminal: &Terminal,
    interrupts: &AtomicUsize,
) -> Result<ControlFlow<()>> {
    match parse(line) {
        Line::Say("") if chat.model().answers() => {}
        Line::Say(words) => answer(words, chat, terminal, interrupts)?,
        Line::Reset => {
            chat.reset();
            terminal.note("forgotten");
        }
        Line::System(words) => chat.set_system(words),
        Line::Set("") => {
            let settings = json!(chat.settings());
            for (name, value) in settings.as_object().into_iter().flatten() {
                terminal.note(format_args!("{name}={value}"));
            }
        }
        Line::Set(change) => chat.set(change)?,
        Line::Steer("") => {
            chat.steer(Vec::new(), false)?;
            terminal.note("the model is as it is");
        }
        Line::Steer(words) => {
            let asked = steer::asked(words).map_err(AppError::invalid)?;
            steer::begin(chat, &[asked], false, host, terminal)?;
        }
        Line::Help => terminal.note(HELP),
        Line::Exit => return Ok(ControlFlow::Break(())),
        Line::Unknown(command) => {
            return Err(
                AppError::invalid(format!("there is no command `{command}`"))
                    .with_hint("/help lists them"),
            );
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn parse(line: &str) -> Line<'_> {
    let line = line.trim();
    if !line.starts_with('/') {
        return Line::Say(line);
    }
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match command {
        "/reset" => Line::Reset,
        "/system" => Line::System(rest.trim()),
        "/set" => Line::Set(rest.trim()),
        "/steer" => Line::Steer(rest.trim()),
        "/help" => Line::Help,
        "/exit" | "/quit" => Line::Exit,
        _ => Line::Unknown(command),
    }
}

fn answer(
    words: &str,
    chat: &mut Conversation,
    terminal: &Terminal,
    interrupts: &AtomicUsize,
) -> Result<()> {
    interrupts.store(0, Ordering::SeqCst);
    let mut tokens = Vec::new();
    let mut show = |heard: Heard| match heard {
        Heard::Piece(piece) if !terminal.json => terminal.part(printable(piece)),
        Heard::Piece(_) => {}
        Heard::Scored(more) => tokens.extend(more),
    };
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let said = chat.say(words, &mut show, &stop)?;
    if terminal.json {
        let plain = chat.unled(&mut |_| (), &stop)?;
        interrupts.store(0, Ordering::SeqCst);
        let mut told = json!({ "said": words, "answer": said });
        if plain.is_some() {
            told["led"] = json!(chat.led());
            told["plain"] = json!(plain);
        }
        if !chat.probes().is_empty() {
            told["probes"] = scores::json(chat.probes(), &tokens);
        }
        return terminal.json(&told);
    }
    terminal.line("");
    scores::show(chat, &tokens, terminal);
    if interrupts.load(Ordering::SeqCst) == 0 && !chat.led().directions.is_empty() {
        steer::heading(terminal);
        let mut show = |heard: Heard| {
            if let Heard::Piece(piece) = heard {
                terminal.part(printable(piece));
            }
        };
        chat.unled(&mut show, &stop)?;
        terminal.line("");
    }
    interrupts.store(0, Ordering::SeqCst);
    if said.forgotten_turns > 0 {
        terminal.warn(format_args!(
            "the conversation is longer than the model can read; its oldest {} turns are forgotten",
            said.forgotten_turns
        ));
    }
    if io::stdin().is_terminal() {
        let ended = match said.answer.ended {
            AnswerEnded::MaxTokens => ", cut at max_tokens",
            AnswerEnded::Context => ", cut where the model’s context is full",
            AnswerEnded::Asked => ", stopped",
            AnswerEnded::StopToken | AnswerEnded::StopText => "",
        };
        let tokens = counted(said.answer.tokens.len() as u64, "token");
        let rate = count(said.answer.tokens_per_second().round() as u64);
        terminal.note(
            style(format!("{tokens}, {rate} a second{ended}"))
                .for_stderr()
                .dim(),
        );
    }
    Ok(())
}
