//! The command line: one file per noun, each a thin shell over the host. All printing happens here.

mod bench;
mod chat;
mod check;
mod data;
mod device;
mod exhibit;
mod export;
mod grids;
mod hub;
mod pictures;
mod predict;
mod probe;
mod profile;
mod puzzles;
mod runs;
mod serve;
mod solve;
mod starter;
mod terminal;
mod train;

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};

use crate::{
    cli::terminal::Terminal,
    host::Host,
    jobs::worker,
    ranks::refuse_several,
    wire::error::{AppError, Code, Result},
};

/// The exit code of a run that was stopped by Ctrl-C after it was saved, as shells have it for an interrupt.
const STOPPED: u8 = 130;

/// Train models on your own machine and chat with them.
#[derive(Debug, Parser)]
#[command(
    name = "anneal",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong command or run file, 3 the Hub can’t be reached, 4 memory ran out after saving, 130 stopped by Ctrl-C after saving."
)]
struct Arguments {
    #[command(flatten)]
    global: GlobalArguments,
    #[command(subcommand)]
    command: Option<Command>,
}

/// What every command takes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Everywhere")]
struct GlobalArguments {
    /// Keep runs, models and settings in this folder instead of the system’s.
    #[arg(
        long,
        global = true,
        env = "ANNEAL_HOME",
        value_name = "FOLDER",
        hide_env_values = true,
        value_parser = |words: &str| Ok::<_, Infallible>(PathBuf::from(words))
    )]
    home: Option<PathBuf>,
    /// Write JSON for machines: one value, or one event per line.
    #[arg(long, global = true)]
    json: bool,
    /// Print only the result: no progress, no notes.
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Print no colours, as with NO_COLOR.
    #[arg(long, global = true)]
    no_color: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Starter(starter::Arguments),
    Train(train::Arguments),
    Chat(chat::Arguments),
    Serve(serve::Arguments),
    Solve(solve::Arguments),
    Predict(predict::Arguments),
    Probe(probe::Arguments),
    Export(export::Arguments),
    Runs(runs::Arguments),
    Data(data::Arguments),
    Hub(hub::Arguments),
    Device(device::Arguments),
    Check(check::Arguments),
    Bench(bench::Arguments),
    Profile(profile::Arguments),
    /// Be an engine: do what the app asks on standard input.
    #[command(hide = true)]
    Worker,
}

impl Command {
    /// Its name, if a launcher that starts several of it can’t be meant.
    fn of_one_process(&self) -> Option<&'static str> {
        match self {
            Self::Chat(_) => Some("chat"),
            Self::Serve(_) => Some("serve"),
            Self::Solve(_) => Some("solve"),
            Self::Predict(_) => Some("predict"),
            Self::Check(_) => Some("check"),
            Self::Bench(_) => Some("bench"),
            _ => None,
        }
    }
}

/// How a command that did not fail ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Done,
    Stopped,
}

/// Reads the arguments, does what they say, and returns the exit code.
pub(crate) fn main() -> ExitCode {
    let Arguments { global, command } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Clap prints help and its own errors, on the right stream and with the right code.
        Err(error) => {
            match error.use_stderr() && asks_for_json() {
                true => Terminal::new(true, false, true).error(&refusal(&error)),
                false => drop(error.print()),
            }
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let terminal = Terminal::new(global.json, global.quiet, global.no_color);
    let Some(command) = command else {
        #[cfg(feature = "gui")]
        if has_display() && !global.json {
            return match crate::app::run(home_of(&global)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    terminal.error(&error);
                    ExitCode::FAILURE
                }
            };
        }
        terminal.part(Arguments::command().render_help());
        return ExitCode::SUCCESS;
    };
    match run(&global, command, &terminal) {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Ok(Ended::Stopped) => ExitCode::from(STOPPED),
        Err(error) => {
            terminal.error(&error);
            ExitCode::from(match error.code {
                Code::Failed | Code::LostRank => 1,
                Code::InvalidRequest | Code::NeedsForce => 2,
                Code::Offline => 3,
                Code::OutOfMemory => 4,
            })
        }
    }
}

/// Whether JSON is asked for, by arguments that can’t be read as a whole.
fn asks_for_json() -> bool {
    let mut words = std::env::args_os().take_while(|word| word != "--");
    words.any(|word| word == "--json")
}

/// What clap says of arguments that it refuses, in the form of all other errors.
fn refusal(error: &clap::Error) -> AppError {
    // Which of them it is depends on whether a variable of the environment counts as an argument.
    if matches!(
        error.kind(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return AppError::invalid("it is not said what to do")
            .with_hint("--help lists the commands");
    }
    let text = error.render().to_string();
    // The problem is the first paragraph, and what follows are tips and how the command is used.
    let problem = text.split("\n\n").next().unwrap_or_default();
    let problem: Vec<&str> = problem.lines().map(str::trim).collect();
    let problem = problem.join(" ");
    let refused = AppError::invalid(problem.strip_prefix("error: ").unwrap_or(&problem));
    let tips = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("tip: "));
    let tips: Vec<&str> = tips.collect();
    match tips.is_empty() {
        true => refused.with_hint("--help explains the arguments"),
        false => refused.with_hint(tips.join(", or ")),
    }
}

/// The folder that was asked for. An empty variable is one that is not set.
fn home_of(global: &GlobalArguments) -> Option<&Path> {
    let home = global.home.as_deref();
    home.filter(|home| !home.as_os_str().is_empty())
}

/// Whether a window can be seen. macOS and Windows always have a screen.
#[cfg(feature = "gui")]
fn has_display() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !cfg!(target_os = "linux") || set("DISPLAY") || set("WAYLAND_DISPLAY")
}

fn run(global: &GlobalArguments, command: Command, terminal: &Terminal) -> Result<Ended> {
    if let Command::Worker = command {
        worker::run()?;
        return Ok(Ended::Done);
    }
    if let Some(name) = command.of_one_process() {
        refuse_several(&|name| std::env::var(name).ok(), name)?;
    }
    let home = home_of(global);
    let opened = Host::open(home).or_else(|error| match &command {
        Command::Device(arguments) => arguments.open_all_the_same(home, error),
        _ => Err(error),
    });
    let (host, warnings) = opened?;
    for warning in &warnings {
        terminal.warn(warning);
    }
    match command {
        Command::Starter(arguments) => starter::run(arguments, &host, terminal),
        Command::Train(arguments) => train::run(arguments, &host, terminal),
        Command::Chat(arguments) => chat::run(arguments, &host, terminal),
        Command::Serve(arguments) => serve::run(arguments, host.into(), terminal),
        Command::Solve(arguments) => solve::run(arguments, &host, terminal),
        Command::Predict(arguments) => predict::run(arguments, &host, terminal),
        Command::Probe(arguments) => probe::run(arguments, &host, terminal),
        Command::Export(arguments) => export::run(arguments, &host, terminal),
        Command::Runs(arguments) => runs::run(arguments, &host, terminal),
        Command::Data(arguments) => data::run(arguments, &host, terminal),
        Command::Hub(arguments) => hub::run(arguments, &host, terminal),
        Command::Check(arguments) => check::run(arguments, &host, terminal),
        Command::Bench(arguments) => bench::run(arguments, &host, terminal),
        Command::Profile(arguments) => profile::run(arguments, &host, terminal),
        Command::Device(arguments) => device::run(arguments, &host, terminal),
        Command::Worker => Ok(Ended::Done),
    }
}
