//! `anneal probe export` and `anneal probe import`: states and probes to and from other programs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::{
    device::RequestedDevice,
    figures::{bytes, counted},
    tasks::probe::{
        capture_prompt::{PATTERNS, PromptRequest},
        control_vector,
        folder::{AboutProbes, Probes},
        hdf5_folder, npz,
        states::{Position, States},
        steer::How,
        torch_probes::{self, ENDING},
    },
};
use serde_json::json;

use super::position;
use crate::{
    cli::{
        Ended,
        terminal::{Terminal, printable},
    },
    host::Host,
    wire::{
        chat::SteerBy,
        error::{AppError, Result},
    },
};

/// How long a control vector is where nobody asks otherwise, in multiples of the usual length of states.
const STRENGTH: f64 = 0.1;

/// Write captured states for other programs: HDF5, one file a layer, or one file of NumPy; or the direction of a probe as a GGUF
/// control vector.
#[derive(Debug, clap::Args)]
pub(super) struct ExportArguments {
    /// The folder of the states; of a control vector, a run of probes or a folder of them.
    #[arg(value_name = "STATES_OR_PROBES")]
    source: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Of a control vector: the label whose direction it is. Not needed where there is only one.
    #[arg(long, value_name = "NAME", requires = "gguf")]
    label: Option<String>,
    /// Of a control vector: how long it is, in multiples of the usual length of states there, as in `anneal chat --steer`. Without it, 0.1.
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "gguf",
        allow_hyphen_values = true
    )]
    strength: Option<f64>,
    /// Of a control vector: how long it is. The model is not opened then.
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "gguf",
        conflicts_with = "strength",
        allow_hyphen_values = true
    )]
    length: Option<f64>,
    /// Of a control vector: the model of the probes, a run, a folder, or a name. Without it, it is found by its weights.
    #[arg(long, value_name = "MODEL_OR_RUN", requires = "gguf")]
    model: Option<String>,
    /// auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE", requires = "gguf")]
    device: Option<RequestedDevice>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// A folder for HDF5 files, one for each layer, with the groups train, val and test.
    #[arg(long, value_name = "FOLDER")]
    h5: Option<PathBuf>,
    /// A file of NumPy with all sites.
    #[arg(long, value_name = "FILE")]
    npz: Option<PathBuf>,
    /// A file for llama.cpp: what it adds to the states of the model while it writes.
    #[arg(long, value_name = "FILE")]
    gguf: Option<PathBuf>,
}

/// Make a folder of probes of PyTorch’s files, `probe_{label}.pth`; or a folder of states of HDF5 files, `layer_{i}_activations.h5`.
#[derive(Debug, clap::Args)]
pub(super) struct ImportArguments {
    /// Probes in files of PyTorch, or a folder of them; or a folder with HDF5 files of states.
    #[arg(value_name = "FILES", required = true)]
    sources: Vec<PathBuf>,
    /// The folder for the probes, or for the states.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// What followed the texts, or words with {text} in them, or `cognitive-action`, or `none`. HDF5 files may say it themselves.
    #[arg(long, value_name = "WORDS")]
    suffix: Option<String>,
    /// The names of the labels, apart by commas: in the order of their numbers, or of the files of probes.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    label_names: Vec<String>,
    /// Of probes: the model whose states they read, which is a run, a folder, or a name.
    #[arg(long, value_name = "MODEL_OR_RUN")]
    model: Option<String>,
    /// Of probes: the layer whose output they read, counted from 0.
    #[arg(long, value_name = "NUMBER")]
    layer: Option<usize>,
    /// Of probes: which states they read of a text: last, mean, max, mean-and-max, tokens, answer, or marked. Without it, last.
    #[arg(long, value_name = "POSITION", value_parser = position)]
    position: Option<Position>,
    /// Of probes: the text was shown as a user’s turn of a chat, up to where the answer would begin.
    #[arg(long)]
    chat: bool,
}

pub(super) fn export(asked: &ExportArguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    if let Some(file) = &asked.target.gguf {
        return export_direction(asked, file, host, terminal);
    }
    let states = States::open(&asked.source)?;
    let written = match (&asked.target.h5, &asked.target.npz) {
        (Some(folder), _) => hdf5_folder::export(&states, folder)?,
        (None, Some(file)) => {
            npz::export(&states, file)?;
            vec![file.clone()]
        }
        (None, None) => Vec::new(),
    };
    match terminal.json {
        true => terminal.json(&json!({"files": written}))?,
        false => {
            let sizes = written.iter().filter_map(|file| file.metadata().ok());
            let size: u64 = sizes.map(|file| file.len()).sum();
            let files = counted(written.len() as u64, "file");
            terminal.line(format_args!("{files} with {}", bytes(size)));
        }
    }
    Ok(Ended::Done)
}

fn export_direction(
    asked: &ExportArguments,
    file: &Path,
    host: &Host,
    terminal: &Terminal,
) -> Result<Ended> {
    let name = asked.source.to_string_lossy();
    let folder = host.probes(&name)?;
    let probes = Probes::open(&folder)?;
    let place = probes.place_of(asked.label.as_deref())?;
    let (length, how_long) = match (asked.length, asked.strength.unwrap_or(STRENGTH)) {
        (Some(length), _) => (length, String::new()),
        (None, strength) => {
            let label = probes.about.probes[place].label.clone();
            let model = asked.model.clone().or_else(|| host.model_of_run(&name));
            let by = SteerBy {
                probes: folder,
                label: Some(label),
                how: How::Add(strength),
            };
            let usual = host.usual_length(by, model, asked.device)?;
            let words = format!(", {strength} times as long as states there usually are");
            (strength * usual, words)
        }
    };
    if !length.is_finite() {
        let problem = format!("a direction can’t be {length} long");
        return Err(AppError::invalid(problem));
    }
    let written = control_vector::export(&probes, place, length, file)?;
    if terminal.json {
        terminal.json(&json!({
            "file": file, "label": written.label, "site": written.site, "made_of": written.made_of, "length": length,
        }))?;
        return Ok(Ended::Done);
    }
    terminal.line(format_args!(
        "the direction of {} after {}, {length:.2} long{how_long}",
        printable(&written.label),
        written.site
    ));
    terminal.note(format_args!("it is {}", written.made_of.words()));
    Ok(Ended::Done)
}

pub(super) fn import(asked: ImportArguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    match files_of_probes(&asked.sources)? {
        files if files.is_empty() => import_states(asked, terminal),
        files => import_probes(asked, files, host, terminal),
    }
}

/// The files of probes that were named, and those in the folders that were.
fn files_of_probes(sources: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let is_probe = |path: &Path| {
        path.extension()
            .is_some_and(|it| it.eq_ignore_ascii_case(ENDING))
    };
    let mut files = Vec::new();
    for source in sources {
        if !source.is_dir() {
            files.push(source.clone());
            continue;
        }
        let entries = fs::read_dir(source).map_err(AppError::file("read the folder", source))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut found: Vec<PathBuf> = paths.filter(|path| is_probe(path)).collect();
        found.sort();
        if found.is_empty() && sources.len() > 1 {
            let message = format!(
                "the folder has no file of a probe, `.{ENDING}`: `{}`",
                source.display()
            );
            return Err(AppError::invalid(message));
        }
        files.extend(found);
    }
    Ok(files)
}

fn import_probes(
    asked: ImportArguments,
    files: Vec<PathBuf>,
    host: &Host,
    terminal: &Terminal,
) -> Result<Ended> {
    let missing = |what: &str, hint: &str| {
        AppError::invalid(format!("files of probes don’t say {what}")).with_hint(hint)
    };
    let model = asked.model.as_deref();
    let model =
        model.ok_or_else(|| missing("which model’s states they read", "name it with `--model`"))?;
    let layer = asked.layer;
    let layer = layer.ok_or_else(|| {
        missing(
            "which layer they read",
            "name it with `--layer`, counted from 0",
        )
    })?;
    if asked.suffix.is_none() && !asked.chat {
        let hint = "name it with `--suffix`: the words, or `cognitive-action`, or `none`; a probe is part of it";
        return Err(missing("what followed the texts when they learned", hint));
    }
    let request = torch_probes::ImportRequest {
        files,
        model: host.model_folder(model)?,
        layer,
        prompt: PromptRequest {
            suffix: asked.suffix,
            chat: asked.chat,
        },
        position: asked.position.unwrap_or_default(),
        label_names: asked.label_names,
    };
    let about = torch_probes::import(&request, &asked.out)?;
    if terminal.json {
        let labels: Vec<&String> = about.probes.iter().map(|it| &it.label).collect();
        terminal.json(&json!({"folder": asked.out, "labels": labels, "hidden": about.hidden, "model": about.states.model.name}))?;
        return Ok(Ended::Done);
    }
    terminal.line(sentence(&about));
    terminal.note(format_args!("the probes are in {}", asked.out.display()));
    Ok(Ended::Done)
}

/// What came from where, and what nobody knows of it.
pub(super) fn sentence(about: &AboutProbes) -> String {
    let form = match about.hidden.is_empty() {
        true => "linear ",
        false => "multihead ",
    };
    let probes = counted(about.probes.len() as u64, &format!("{form}probe"));
    let sites: Vec<String> = about.states.sites.iter().map(ToString::to_string).collect();
    format!(
        "{probes} of `{}` at {}, which another program learned: how often they are right is not known, and a label is active from a \
         probability of one half on",
        about.states.model.name,
        sites.join(", ")
    )
}

fn import_states(asked: ImportArguments, terminal: &Terminal) -> Result<Ended> {
    let [folder] = asked.sources.as_slice() else {
        let message = "states are imported from one folder of HDF5 files";
        return Err(AppError::invalid(message));
    };
    if asked.model.is_some() || asked.layer.is_some() || asked.position.is_some() || asked.chat {
        let message = format!(
            "`--model`, `--layer`, `--position` and `--chat` are for files of probes, and the folder has none: `{}`",
            folder.display()
        );
        return Err(
            AppError::invalid(message).with_hint("HDF5 files of states say these themselves")
        );
    }
    let named = |suffix: &String| {
        let named = PATTERNS.iter().find(|(name, _)| name == suffix);
        match (named, suffix.contains("{text}")) {
            (Some((_, pattern)), _) => (*pattern).to_owned(),
            (None, true) => suffix.clone(),
            (None, false) => format!("{{text}}{suffix}"),
        }
    };
    let request = hdf5_folder::ImportRequest {
        pattern: asked.suffix.as_ref().map(named),
        label_names: asked.label_names,
        written_by: concat!("anneal ", env!("CARGO_PKG_VERSION")).to_owned(),
        folder: folder.clone(),
    };
    let states = hdf5_folder::import(&request, &asked.out)?;
    let about = states.about();
    if terminal.json {
        terminal
            .json(&json!({"rows": about.rows, "sites": about.sites, "left_out": about.left_out}))?;
        return Ok(Ended::Done);
    }
    terminal.line(hdf5_folder::sentence(&states, &request.folder));
    for left_out in &about.left_out {
        terminal.warn(left_out);
    }
    if about.prompt.pattern.is_empty() {
        terminal.warn("the files don’t say how texts were shown to the model; name it with --suffix, since a probe is part of it");
    }
    Ok(Ended::Done)
}
