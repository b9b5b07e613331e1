//! Probes in files of PyTorch, as other programs save them: made into a folder of ours.
//!
//! | form | weights under `model_state_dict` | is |
//! |---|---|---|
//! | linear | `linear.weight` [1, d], `linear.bias` [1] | a weighted sum |
//! | multihead | `encoder.0` [h, d], `encoder.3` [h, h], `attention` [3h, h] and [h, h], `classifier` [1, h] | two hidden layers, and a weighted sum |
//!
//! The attention of a multihead probe is over a single key, which always gets all of it: it passes on W_o (W_v x + b_v) + b_o, whatever
//! the queries are. With the classifier after it, that is one weighted sum. Such a file says neither which model its states are of, nor
//! the layer, nor how a text was shown; who imports it has to.
//!
//! Deliberately absent: probes of several classes at once, which answer another question than one label’s probe, and standardisation,
//! which these files have none of: their weights are for states as they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use candle_core::DType;

use super::{
    capture_prompt::PromptRequest,
    folder::{AboutProbes, Kept, Probes, WRITTEN_BY},
    hidden::Hidden,
    states::{About, Position, PromptRule, SourceFile},
    states_identity::identities,
};
use crate::{
    Error, Result,
    arch::{config::DecoderConfig, sites::Site},
    checkpoint::{adapter::ADAPTER_CONFIG, folder::ModelFolder, pytorch::TorchFile, save::name_of},
    data::{template::ChatTemplate, tokenizer::Tokenizer},
    limits,
    tasks::language::model::base_of,
};

/// How the name of a probe’s file ends.
pub const ENDING: &str = "pth";
/// How it begins, before the label.
const BEGINNING: &str = "probe_";
/// The dictionary of the weights.
const WEIGHTS: &str = "model_state_dict";

/// Files of probes, with what they don’t say themselves.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportRequest {
    /// The files, one for each label.
    pub files: Vec<PathBuf>,
    /// The folder of the model whose states they read, or of an adapter on it.
    pub model: PathBuf,
    /// After which block those are, from 0.
    pub layer: usize,
    /// How texts were shown to it.
    pub prompt: PromptRequest,
    /// Which tokens’ states they were.
    pub position: Position,
    /// The labels in the order of the files. Without them, they are those that the files name.
    pub label_names: Vec<String>,
}

/// A probe as a file holds it.
#[derive(Debug)]
pub struct TorchProbe {
    /// The label, where the file names one.
    pub label: Option<String>,
    /// How many numbers of a state it reads.
    pub width: usize,
    hidden: Vec<Hidden>,
    weights: Vec<f32>,
    bias: f32,
}

/// Makes a folder of probes, whole or not at all.
///
/// Errors: those of [`read`]; [`Error::Data`] when the files don’t fit each other, or the model; [`Error::Setting`] when the model has
/// no such layer.
pub fn import(request: &ImportRequest, out: &Path) -> Result<AboutProbes> {
    let (mut probes, mut sources) = (Vec::new(), Vec::new());
    let mut numbers = 0;
    for path in &request.files {
        let probe = read(path)?;
        numbers += probe.numbers() as u64 * 4;
        if let Some(problem) = limits::PROBES.exceeded(numbers) {
            return Err(Error::format(
                path,
                format!("{} {problem}", limits::PROBES.what),
            ));
        }
        probes.push(probe);
        sources.push(SourceFile::of(path)?);
    }
    let labels = labels(request, &probes)?;
    same_form(&request.files, &probes)?;
    let states = states_of(request, probes.first().map_or(0, |it| it.width), &labels)?;
    let kept = labels.iter().map(|label| Kept {
        label: label.clone(),
        site: Site::Block(request.layer),
        is_chosen: true,
        c: None,
        validation: None,
        // A probability of one half. No validation rows are known that could choose another.
        threshold: 0.0,
        scale: None,
        converged: None,
    });
    let probes = Probes::imported(states, kept.collect(), sources, together(&probes));
    probes.save(out)?;
    Ok(probes.about)
}

/// What is known of the states that probes of these labels read.
fn states_of(request: &ImportRequest, width: usize, labels: &[String]) -> Result<About> {
    let (model, adapter) = identities(&request.model)?;
    let base = match request.model.join(ADAPTER_CONFIG).exists() {
        true => PathBuf::from(base_of(&request.model)?),
        false => request.model.clone(),
    };
    let config = DecoderConfig::from_json(&ModelFolder::open(&base)?.config)?;
    let blocks = config.layers.len();
    if request.layer >= blocks {
        let problem = format!(
            "is {}, and the model `{}` has the layers 0 to {}",
            request.layer,
            model.name,
            blocks.saturating_sub(1)
        );
        return Err(Error::setting("layer", problem));
    }
    let own = config.hidden_size * request.position.widths();
    if width != own {
        return Err(Error::Data(format!(
            "the probes read states of {width} numbers, and those of the model `{}` have {own}: `{}`",
            model.name,
            request
                .files
                .first()
                .map_or_else(String::new, |it| name_of(it)),
        )));
    }
    Ok(About {
        written_by: WRITTEN_BY.to_owned(),
        adapter,
        prompt: prompt(request)?,
        position: request.position,
        sites: vec![Site::Block(request.layer)],
        width,
        blocks,
        labels: labels.to_vec(),
        ..About::unknown(model)
    })
}

fn prompt(request: &ImportRequest) -> Result<PromptRule> {
    let tokenizer = Tokenizer::load(&request.model)?;
    request.prompt.rule(&ChatTemplate::of(&tokenizer)?)
}

/// The label of each file: as it was named, as the file says, or as the file is called. None twice.
fn labels(request: &ImportRequest, probes: &[TorchProbe]) -> Result<Vec<String>> {
    let (files, names) = (&request.files, &request.label_names);
    if !names.is_empty() && names.len() != files.len() {
        let problem = format!(
            "there are {} names of labels and {} files",
            names.len(),
            files.len()
        );
        return Err(Error::Data(problem));
    }
    let label = |(at, (file, probe)): (usize, (&PathBuf, &TorchProbe))| {
        let called = || {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            name.strip_prefix(BEGINNING).unwrap_or(&name).to_owned()
        };
        let named = names.get(at).or(probe.label.as_ref()).cloned();
        named.unwrap_or_else(called)
    };
    let labels: Vec<String> = files.iter().zip(probes).enumerate().map(label).collect();
    let mut known: BTreeMap<&str, &Path> = BTreeMap::new();
    for (label, file) in labels.iter().zip(files) {
        if let Some(other) = known.insert(label, file) {
            return Err(Error::Data(format!(
                "two files are probes of the label `{label}`, and a folder has one for each at a layer: `{}` and `{}`",
                other.display(),
                file.display()
            )));
        }
    }
    Ok(labels)
}

/// Probes of one folder are computed together, so they have the same layers.
fn same_form(files: &[PathBuf], probes: &[TorchProbe]) -> Result<()> {
    let Some((first, probe)) = files.iter().zip(probes).next() else {
        return Err(Error::Data("there are no files of probes".to_owned()));
    };
    let mut others = files.iter().zip(probes);
    match others.find(|(_, it)| it.form() != probe.form()) {
        None => Ok(()),
        Some((other, it)) => Err(Error::Data(format!(
            "the files of one folder have the same form: `{}` is {}, and `{}` is {}; import them into two folders",
            name_of(first),
            probe.form(),
            name_of(other),
            it.form()
        ))),
    }
}

/// The layers, weights and biases of all probes, one after another.
fn together(probes: &[TorchProbe]) -> (Vec<Hidden>, Vec<f32>, Vec<f32>) {
    let layers = probes.first().map_or(0, |it| it.hidden.len());
    let layer = |at: usize| {
        let own = probes.iter().map(|it| &it.hidden[at]);
        Hidden {
            inputs: probes[0].hidden[at].inputs,
            outputs: probes[0].hidden[at].outputs,
            weights: own.clone().flat_map(|it| &it.weights).copied().collect(),
            biases: own.flat_map(|it| &it.biases).copied().collect(),
        }
    };
    (
        (0..layers).map(layer).collect(),
        probes.iter().flat_map(|it| &it.weights).copied().collect(),
        probes.iter().map(|it| it.bias).collect(),
    )
}

/// Reads the probe of a file.
///
/// Errors: [`Error::Format`] with the tensor, its shape and what was expected.
pub fn read(path: &Path) -> Result<TorchProbe> {
    let file = TorchFile::open_part(path, &[WEIGHTS])?;
    let label = file.text(&["metadata", "action"]).map(str::to_owned);
    let mut tensors = Tensors {
        path,
        class: file.text(&["model_class"]).map(str::to_owned),
        shapes: file.shapes(),
        file,
    };
    match tensors.shapes.contains_key("linear.weight") {
        true => tensors.linear(label),
        false => tensors.multihead(label),
    }
}

impl TorchProbe {
    /// In words: `linear and reads 2560 numbers`.
    fn form(&self) -> String {
        let hidden: Vec<String> = self
            .hidden
            .iter()
            .map(|it| it.outputs.to_string())
            .collect();
        let form = match hidden.is_empty() {
            true => "linear".to_owned(),
            false => format!("multihead with layers of {}", hidden.join(" and ")),
        };
        format!("{form} and reads {} numbers", self.width)
    }

    fn numbers(&self) -> usize {
        let hidden = self
            .hidden
            .iter()
            .map(|it| it.weights.len() + it.biases.len());
        hidden.sum::<usize>() + self.weights.len() + 1
    }
}

/// The tensors of a file, each taken with the shape that it has to have.
struct Tensors<'a> {
    path: &'a Path,
    file: TorchFile,
    class: Option<String>,
    shapes: BTreeMap<String, Vec<usize>>,
}

const LINEAR: [&str; 2] = ["linear.weight", "linear.bias"];
const MULTIHEAD: [&str; 10] = [
    "encoder.0.weight",
    "encoder.0.bias",
    "encoder.3.weight",
    "encoder.3.bias",
    "attention.in_proj_weight",
    "attention.in_proj_bias",
    "attention.out_proj.weight",
    "attention.out_proj.bias",
    "classifier.weight",
    "classifier.bias",
];

impl Tensors<'_> {
    fn linear(&mut self, label: Option<String>) -> Result<TorchProbe> {
        self.only(&LINEAR)?;
        let width = self.columns(LINEAR[0])?;
        Ok(TorchProbe {
            label,
            width,
            hidden: Vec::new(),
            weights: self.take(LINEAR[0], &[1, width])?,
            bias: self.take(LINEAR[1], &[1])?[0],
        })
    }

    fn multihead(&mut self, label: Option<String>) -> Result<TorchProbe> {
        self.only(&MULTIHEAD)?;
        let [first, second] = [MULTIHEAD[0], MULTIHEAD[2]];
        let (width, h) = (self.columns(first)?, self.columns(second)?);
        let hidden = vec![
            Hidden {
                inputs: width,
                outputs: h,
                weights: self.take(first, &[h, width])?,
                biases: self.take(MULTIHEAD[1], &[h])?,
            },
            Hidden {
                inputs: h,
                outputs: h,
                weights: self.take(second, &[h, h])?,
                biases: self.take(MULTIHEAD[3], &[h])?,
            },
        ];
        // Queries, keys, then values: a single key needs only these.
        let values = self.take(MULTIHEAD[4], &[3 * h, h])?.split_off(2 * h * h);
        let value_biases = self.take(MULTIHEAD[5], &[3 * h])?.split_off(2 * h);
        let out = self.take(MULTIHEAD[6], &[h, h])?;
        let out_biases = self.take(MULTIHEAD[7], &[h])?;
        let classifier = self.take(MULTIHEAD[8], &[1, h])?;
        let last = self.take(MULTIHEAD[9], &[1])?[0];
        let classifier: Vec<f64> = classifier.into_iter().map(f64::from).collect();
        let over_values = row_times(&classifier, &out);
        let weights = row_times(&over_values, &values);
        let bias = dot(&over_values, &value_biases) + dot(&classifier, &out_biases);
        Ok(TorchProbe {
            label,
            width,
            hidden,
            weights: weights.iter().map(|it| *it as f32).collect(),
            bias: (bias + f64::from(last)) as f32,
        })
    }

    /// Refuses a file that has other tensors than these.
    fn only(&self, expected: &[&str]) -> Result<()> {
        let found: BTreeSet<&str> = self.shapes.keys().map(String::as_str).collect();
        let class = self.class.as_ref();
        let class = class.map_or(String::new(), |it| format!(", a `{it}`,"));
        let missing = expected.iter().find(|name| !found.contains(*name));
        let more = found.iter().find(|name| !expected.contains(name));
        let forms = "a linear probe has `linear.weight` and `linear.bias`, and a multihead one `encoder`, `attention` and `classifier`";
        let problem = match (more, missing) {
            (None, None) => return Ok(()),
            (Some(more), _) => format!(
                "the probe{class} has `{more}`, which is no part of one that can be read: {forms}"
            ),
            (None, Some(missing)) => format!("the probe{class} has no `{missing}`: {forms}"),
        };
        Err(Error::format(self.path, problem))
    }

    /// How many columns a matrix has, within what states can have.
    fn columns(&self, name: &str) -> Result<usize> {
        let shape = self.shapes.get(name).map_or(&[][..], Vec::as_slice);
        let &[_, columns] = shape else {
            return Err(self.wrong(name, "a matrix"));
        };
        match limits::STATES_WIDTH.exceeded(columns as u64) {
            Some(problem) => Err(Error::format(
                self.path,
                format!("the width of `{name}` {problem}"),
            )),
            None if columns == 0 => Err(self.wrong(name, "at least one column")),
            None => Ok(columns),
        }
    }

    /// The numbers of a tensor of this shape, in f32.
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        if self.shapes.get(name).map(Vec::as_slice) != Some(shape) {
            let why = match shape {
                [1, _] => "; a folder has probes of one label each, and none of several classes",
                _ => "",
            };
            return Err(self.wrong(name, &format!("{shape:?}{why}")));
        }
        let tensor = self.file.tensor(name)?.to_dtype(DType::F32)?;
        let numbers: Vec<f32> = tensor.flatten_all()?.to_vec1()?;
        match numbers.iter().find(|it| !it.is_finite()) {
            None => Ok(numbers),
            Some(wrong) => Err(Error::format(
                self.path,
                format!("`{name}` has a number that is {wrong}"),
            )),
        }
    }

    fn wrong(&self, name: &str, expected: &str) -> Error {
        let shape = self.shapes.get(name).map_or(&[][..], Vec::as_slice);
        let problem = format!("`{name}` has the shape {shape:?}, and expected is {expected}");
        Error::format(self.path, problem)
    }
}

/// A row [h] times a matrix [h, k].
fn row_times(row: &[f64], matrix: &[f32]) -> Vec<f64> {
    let columns = matrix.len() / row.len().max(1);
    let mut product = vec![0.0; columns];
    for (factor, line) in row.iter().zip(matrix.chunks(columns.max(1))) {
        for (sum, it) in product.iter_mut().zip(line) {
            *sum += factor * f64::from(*it);
        }
    }
    product
}

fn dot(row: &[f64], column: &[f32]) -> f64 {
    let terms = row.iter().zip(column);
    terms.map(|(a, b)| a * f64::from(*b)).sum()
}
