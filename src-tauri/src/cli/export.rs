//! `anneal export`: a network that learned pictures, for other programs.

use std::path::PathBuf;

use models::{
    figures::{bytes, counted},
    tasks::picture::export::{FORMATS, Format},
};

use super::{
    Ended,
    terminal::{Terminal, printable},
};
use crate::{host::Host, wire::error::Result};

/// Write a network that learned pictures for other programs.
///
/// What was written is read again and compared with the network. Where it computes something else, nothing is left of it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A run that learned pictures, or the folder of one of its checkpoints.
    #[arg(value_name = "RUN_OR_CHECKPOINT")]
    model: String,
    /// For whom: onnx, a file for ONNX Runtime; coreml, a file for apps on Apple’s systems; safetensors, a folder for PyTorch and timm.
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    to: Format,
    /// The file or folder, where nothing is yet. Without it, it is called after the run and lies here.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

fn format(words: &str) -> Result<Format, String> {
    let found = FORMATS.iter().find(|it| it.name == words);
    let names = || FORMATS.map(|it| it.name).join(", ");
    found
        .map(|it| it.format)
        .ok_or_else(|| format!("there are: {}", names()))
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let Arguments { model, to, out } = arguments;
    let exported = host.export_pictures(&model, to, out)?;
    if terminal.json {
        terminal.json(&exported)?;
        return Ok(Ended::Done);
    }
    let path = exported.path.to_string_lossy();
    terminal.line(format_args!(
        "{}: {}, for {}",
        printable(&path),
        bytes(exported.bytes),
        to.about().reader
    ));
    let compared = &exported.compared;
    terminal.line(format_args!(
        "compared by {}: scores are at most {:.1e} of the largest apart; {}",
        counted(compared.pictures as u64, "drawn picture"),
        compared.apart,
        compared.what
    ));
    for note in &exported.notes {
        terminal.note(note);
    }
    Ok(Ended::Done)
}
