//! `anneal starter`: from scratch to a model that answers, in minutes, with no network and no file.

use std::{
    io::{self, IsTerminal},
    sync::atomic::Ordering,
};

use console::style;
use models::{device::RequestedDevice, figures::count, tasks::starter::Examination};
use serde_json::json;

use super::{
    Ended, chat,
    terminal::{Terminal, count_interrupts},
    train,
};
use crate::{host::Host, store::runs, wire::error::Result};

/// How many of the examination’s answers are shown.
const SAMPLES: usize = 3;

/// Train a small model from scratch in minutes, without a download or data of your own.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The random seed: another one makes other data and another model.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// Don’t chat with the model when it is done.
    #[arg(long)]
    no_chat: bool,
    /// Start even if memory is short.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let (data, request) = host.write_starter(arguments.seed, arguments.device)?;
    terminal.note(format_args!(
        "{} small conversations were made up, and {} questions kept aside",
        count(data.train.len() as u64),
        count(data.held_out.len() as u64)
    ));
    let resolved = host.plan(request)?;
    if !arguments.force {
        train::refuse_what_does_not_fit(&resolved)?;
    }
    let run = runs::create(&host.paths, &resolved)?;
    if train::follow(&run, false, host, terminal)? == Ended::Stopped {
        return Ok(Ended::Stopped);
    }
    let bar = terminal.bar("{pos}/{len}", 20);
    terminal.show(&bar);
    bar.set_length(data.held_out.len() as u64);
    let interrupts = count_interrupts()?;
    let mut asked = |count: usize| bar.set_position(count as u64);
    let stop = || interrupts.load(Ordering::SeqCst) > 0;
    let examination = host.examine_starter(&run, &data, arguments.device, &mut asked, &stop)?;
    bar.finish_and_clear();
    show(&examination, terminal)?;
    if !arguments.no_chat && !terminal.json && io::stdin().is_terminal() {
        terminal.line("");
        let chat = chat::open(&run.id, arguments.device, arguments.force, host)?;
        return chat::chat_until_left(chat, host, terminal);
    }
    Ok(Ended::Done)
}

fn show(examination: &Examination, terminal: &Terminal) -> Result<()> {
    let score = examination.score();
    if terminal.json {
        return terminal.json(&json!({
            "kind": "examined",
            "right": score.right,
            "asked": score.asked,
            "categories": examination.scores(),
            "samples": examination.samples(SAMPLES),
        }));
    }
    terminal.line(format_args!(
        "{} of {} questions it has never read are answered right to the letter: {:.1} %",
        count(score.right as u64),
        count(score.asked as u64),
        score.share() * 100.0
    ));
    let categories = examination.scores();
    let categories = categories
        .iter()
        .map(|(category, score)| format!("{} {}/{}", category.name(), score.right, score.asked));
    let categories: Vec<String> = categories.collect();
    terminal.line(style(categories.join(", ")).dim());
    for answered in examination.samples(SAMPLES) {
        let mark = if answered.is_right() {
            style("✓").green()
        } else {
            style("✗").red()
        };
        terminal.line("");
        terminal.line(format_args!(
            "  {}",
            style(&answered.exchange.question).dim()
        ));
        terminal.line(format_args!("{mark} {}", answered.said));
    }
    Ok(())
}
