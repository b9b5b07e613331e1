//! `anneal export`: what was trained, for other programs.

use std::{path::PathBuf, sync::atomic::Ordering};

use models::{Error, figures::bytes, tasks::language::export::Stage};
use serde_json::json;

use super::{
    Ended,
    terminal::{Terminal, count_interrupts, printable},
};
use crate::{
    host::{
        Host,
        export::{How, Place, Written, ollama},
    },
    wire::error::Result,
};

/// Export what was trained, for other programs.
///
/// Without a format it says which there are for it, with their sizes. What was written is opened again and compared with what was
/// trained. Where it computes something else, or you stop it with Ctrl-C, nothing is left of it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A run, a model, or the folder of a checkpoint.
    #[arg(value_name = "RUN_OR_MODEL")]
    model: String,
    /// The format: gguf-q8_0, merged, onnx, and others.
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// The file or folder, where nothing is yet. Without it, it is called after the run or model and lies here.
    #[arg(long, value_name = "PATH", requires = "to")]
    out: Option<PathBuf>,
    /// Write it among the models of LM Studio, which finds it there.
    #[arg(long, requires = "to", conflicts_with = "out")]
    lm_studio: bool,
    /// Also add it to Ollama, which keeps a copy. It has to be a GGUF file of a whole model.
    #[arg(long, requires = "to")]
    ollama: bool,
    /// Export even if another program would compute something else from it than the trained model does.
    #[arg(long, requires = "to")]
    force: bool,
    /// Export a language model without comparing it, where there isn’t enough memory for that.
    #[arg(long, requires = "to")]
    no_compare: bool,
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let Arguments {
        model,
        to,
        out,
        lm_studio,
        ollama: adds,
        force,
        no_compare,
    } = arguments;
    let how = How {
        force,
        compares: !no_compare,
    };
    let place = match out {
        _ if lm_studio => Place::LmStudio,
        Some(path) => Place::At(path),
        None => Place::Here,
    };
    let Some(format) = to else {
        return list(&model, host, terminal);
    };
    if adds {
        ollama::check(&format)?;
    }
    let bar = terminal.bar("{msg}", 20);
    let mut last = None;
    let interrupts = count_interrupts()?;
    let is_stopped = || interrupts.load(Ordering::SeqCst) > 0;
    let mut stage = |stage: Stage| {
        match stage {
            Stage::Writing { done, total } => {
                terminal.show(&bar);
                bar.set_length(total);
                bar.set_position(done);
                let text = || format!("{} of {}", bytes(done), bytes(total));
                bar.set_message(text());
                terminal.note_without_bar(&bar, &mut last, text);
            }
            Stage::Comparing => bar.set_message("opening it again and comparing"),
            Stage::Read => {}
        }
        match is_stopped() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    };
    let written = host.export(&model, &format, place, how, &mut stage);
    bar.finish_and_clear();
    if written.is_err() && is_stopped() {
        terminal.note("stopped; nothing was written");
        return Ok(Ended::Stopped);
    }
    let written = written?;
    let ollama = adds.then(|| ollama::add(&written.path)).transpose()?;
    tell(&written, ollama, terminal)?;
    Ok(Ended::Done)
}

fn tell(written: &Written, ollama: Option<String>, terminal: &Terminal) -> Result<()> {
    if terminal.json {
        return terminal.json(&written.details);
    }
    let path = written.path.to_string_lossy();
    terminal.line(format_args!(
        "{}: {}, for {}",
        printable(&path),
        bytes(written.bytes),
        written.readers
    ));
    terminal.line(&written.compared);
    for note in &written.notes {
        terminal.note(note);
    }
    match ollama {
        Some(name) => terminal.line(format_args!("in Ollama: ollama run {name}")),
        None if written.is_for_ollama() => {
            terminal.note("with `--ollama` it is added to Ollama, too")
        }
        None => {}
    }
    Ok(())
}

/// The formats that there are.
fn list(model: &str, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let offers = host.exports(model)?;
    if terminal.json {
        let offers = offers.iter().map(|it| {
            json!({
                "format": it.name, "bytes": it.bytes, "readers": it.readers, "losses": it.losses, "refused": it.refused,
                "uncomparable": it.uncomparable, "for_lm_studio": it.is_for_lm_studio(),
            })
        });
        terminal.json(&offers.collect::<Vec<_>>())?;
        return Ok(Ended::Done);
    }
    let rows = offers.iter().map(|it| {
        let size = it.bytes.map_or_else(String::new, bytes);
        let said = it.refused.clone().unwrap_or_else(|| it.losses.join(" "));
        [it.name.to_owned(), size, it.readers.to_owned(), said].to_vec()
    });
    terminal.table(&rows.collect::<Vec<_>>());
    Ok(Ended::Done)
}
