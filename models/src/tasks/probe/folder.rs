//! A folder of probes: their weights, what they were learned from, and what was found of them.
//!
//! | file | holds |
//! |---|---|
//! | `probes.safetensors` | `weight` [P, d] and `bias` [P] for states as they are, and for each site `mean.SITE` and `scale.SITE` [d] of its training rows |
//! | `probes.json` | what the states were of, a line for each probe in the order of `weight`, and the report |
//!
//! A probe belongs to the model, the prompt, the position and the site that its states came from. Probes that another program learned
//! have no report and no rows that they were learned from; they may have hidden layers, `hidden.0.weight` [P, h, d] and
//! `hidden.0.bias` [P, h] and so on, and then `weight` is [P, h]. Deliberately absent: texts, which are private, and the states themselves.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use candle_core::{Device, Tensor};
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};

use super::{
    calibration::Scale,
    examples::Examples,
    fitting::SolverName,
    hidden::Hidden,
    report::Report,
    scale::Standard,
    states::{About, ModelIdentity, SourceFile},
    study::{Probe, Study},
};
use crate::{
    Error, Result,
    arch::sites::Site,
    checkpoint::save::{replace_folder, write_file, write_safetensors},
    limits,
};

/// The file of the weights.
pub const WEIGHTS: &str = "probes.safetensors";
/// The file that says what the probes are.
pub const PROBES: &str = "probes.json";
/// The layout of the folder that is written. A later one is refused.
const VERSION: u32 = 1;
/// What writes states and probes, as it stands in their folders.
pub const WRITTEN_BY: &str = concat!("anneal ", env!("CARGO_PKG_VERSION"));

/// A folder of probes, open or to be written.
#[derive(Debug, Clone)]
pub struct Probes {
    /// What they are.
    pub about: AboutProbes,
    /// The layers before the weighted sum, the first one first; none in linear probes.
    hidden: Vec<Hidden>,
    weights: Vec<f32>,
    biases: Vec<f32>,
    /// Means and deviations of the training rows at each site, where the folder has them.
    standards: BTreeMap<Site, Standard>,
}

/// What probes are: `probes.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AboutProbes {
    /// The layout of the folder.
    pub version: u32,
    /// What wrote it: `anneal 0.1.0`.
    pub written_by: String,
    /// What the states were of. Others are not the same.
    pub states: About,
    /// The probes, in the order of their weights.
    pub probes: Vec<Kept>,
    /// How they were learned; absent where another program did, and in older folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solver: Option<SolverName>,
    /// The files of another program that they come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imported: Vec<SourceFile>,
    /// How wide the hidden layers are, the first one first; none in linear probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<usize>,
    /// For each site, how far from the mean 999 of 1,000 training rows lie at most: the length of their standardised states.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reach: BTreeMap<Site, f64>,
    /// What was found of them, where Anneal learned them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
}

/// One of the probes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// What it looks for.
    pub label: String,
    /// Where it reads.
    pub site: Site,
    /// Whether it is the one of its label that is used: the one that was chosen on validation rows, or the only one.
    pub is_chosen: bool,
    /// How much rows counted beside the penalty, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c: Option<f64>,
    /// The AUC on validation rows, where there were some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<f64>,
    /// Scores from here on are called positive.
    pub threshold: f32,
    /// Scores to probabilities.
    pub scale: Option<Scale>,
    /// Whether the solver reached the optimum, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converged: Option<bool>,
}

/// Makes a folder of the probes of a study of these states, whole or not at all.
///
/// Errors: [`Error::File`] when the disk refuses.
pub fn save(folder: &Path, study: &Study, of: (&Examples, &About)) -> Result<()> {
    Probes::learned(study, of).save(folder)
}

/// Copies a folder of probes, without what else lies in it, whole or not at all.
///
/// Errors: [`Error::File`] when a file is missing or the disk refuses.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    replace_folder(to, |folder| {
        for name in [PROBES, WEIGHTS] {
            let file = from.join(name);
            fs::copy(&file, folder.join(name)).map_err(Error::file("copy the probes", &file))?;
        }
        Ok(())
    })
}

impl AboutProbes {
    /// Reads what the probes of a folder are, without their weights.
    ///
    /// Errors: [`Error::Format`] when the file is not what it should be.
    pub fn read(folder: &Path) -> Result<Self> {
        /// What every version has.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let path = folder.join(PROBES);
        let bytes = limits::PROBES_JSON.read(&path, "read what the probes are")?;
        let no_probes = |error| Error::format(&path, format!("is no {PROBES}: {error}"));
        let Versioned { version } = serde_json::from_slice(&bytes).map_err(no_probes)?;
        if version > VERSION {
            let problem = "was written by a later version of Anneal, and can’t be read by this one";
            return Err(Error::format(&path, problem));
        }
        serde_json::from_slice(&bytes).map_err(no_probes)
    }
}

impl Probes {
    /// Those of a study of these states.
    pub fn learned(study: &Study, (examples, states): (&Examples, &About)) -> Self {
        let kept = |probe: &Probe| {
            let (label, site) = (&examples.labels[probe.label], states.sites[probe.site]);
            let mut labels = study.report.labels.iter().filter(|it| it.label == *label);
            let chosen = labels.next().and_then(|it| it.probe.as_ref());
            Kept {
                label: label.clone(),
                site,
                is_chosen: chosen.is_some_and(|it| it.site == site.to_string()),
                c: Some(probe.c),
                validation: Some(probe.validation),
                threshold: probe.threshold,
                scale: probe.scale,
                converged: Some(probe.converged),
            }
        };
        let sites = states.sites.iter().copied();
        let weights = study.probes.iter().flat_map(|it| &it.weights);
        Self {
            about: AboutProbes {
                version: VERSION,
                written_by: WRITTEN_BY.to_owned(),
                states: About {
                    // Its reasons may repeat parts of texts.
                    left_out: Vec::new(),
                    ..states.clone()
                },
                probes: study.probes.iter().map(kept).collect(),
                solver: Some(study.solver),
                imported: Vec::new(),
                hidden: Vec::new(),
                reach: sites.clone().zip(study.reach.iter().copied()).collect(),
                report: Some(study.report.clone()),
            },
            hidden: Vec::new(),
            weights: weights.copied().collect(),
            biases: study.probes.iter().map(|it| it.bias).collect(),
            standards: sites.zip(study.standards.iter().cloned()).collect(),
        }
    }

    /// Those of the files of another program, one probe each, all of one form and at the site of these states.
    pub(super) fn imported(
        states: About,
        probes: Vec<Kept>,
        files: Vec<SourceFile>,
        (hidden, weights, biases): (Vec<Hidden>, Vec<f32>, Vec<f32>),
    ) -> Self {
        Self {
            about: AboutProbes {
                version: VERSION,
                written_by: WRITTEN_BY.to_owned(),
                states,
                probes,
                solver: None,
                imported: files,
                hidden: hidden.iter().map(|it| it.outputs).collect(),
                reach: BTreeMap::new(),
                report: None,
            },
            hidden,
            weights,
            biases,
            standards: BTreeMap::new(),
        }
    }

    /// Makes a folder of them, whole or not at all.
    ///
    /// Errors: [`Error::File`] when the disk refuses.
    pub fn save(&self, folder: &Path) -> Result<()> {
        replace_folder(folder, |folder| self.write(folder))
    }

    /// Writes them into a folder that is there.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let json = serde_json::to_vec(&self.about)
            .map_err(|error| Error::format(folder, format!("could not write {PROBES}: {error}")))?;
        write_file(&folder.join(PROBES), &json)?;
        write_safetensors(&folder.join(WEIGHTS), &self.tensors()?, HashMap::new())
    }

    fn tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let (probes, width) = (self.about.probes.len(), self.last_width());
        let tensor = |numbers: &[f32], shape: &[usize]| {
            Tensor::from_vec(numbers.to_vec(), shape, &Device::Cpu)
        };
        let mut tensors = BTreeMap::from([
            (
                "weight".to_owned(),
                tensor(&self.weights, &[probes, width])?,
            ),
            ("bias".to_owned(), tensor(&self.biases, &[probes])?),
        ]);
        for (layer, it) in self.hidden.iter().enumerate() {
            let (weights, biases) = (hidden_name(layer, "weight"), hidden_name(layer, "bias"));
            let shape = [probes, it.outputs, it.inputs];
            tensors.insert(weights, tensor(&it.weights, &shape)?);
            tensors.insert(biases, tensor(&it.biases, &shape[..2])?);
        }
        for (site, Standard { mean, deviation }) in &self.standards {
            for (name, numbers) in [("mean", mean), ("scale", deviation)] {
                let numbers: Vec<f32> = numbers.iter().map(|it| *it as f32).collect();
                tensors.insert(
                    format!("{name}.{site}"),
                    tensor(&numbers, &[numbers.len()])?,
                );
            }
        }
        Ok(tensors)
    }

    /// Opens a folder.
    ///
    /// Errors: [`Error::Format`] when a file is not what it should be.
    pub fn open(folder: &Path) -> Result<Self> {
        let about = AboutProbes::read(folder)?;
        let (probes, d) = (about.probes.len(), about.states.width);
        let path = folder.join(WEIGHTS);
        let bytes = limits::PROBES.read(&path, "read the probes")?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|error| Error::format(&path, format!("is no safetensors file: {error}")))?;
        let read = |name: &str, shape: &[usize]| -> Result<Vec<f32>> {
            let tensor = tensors.tensor(name).ok();
            let tensor =
                tensor.filter(|it| it.shape() == shape && it.dtype() == safetensors::Dtype::F32);
            let tensor = tensor.ok_or_else(|| {
                Error::format(
                    &path,
                    format!("has no tensor `{name}` of {shape:?} in f32, as {PROBES} says"),
                )
            })?;
            let numbers = tensor.data().as_chunks().0.iter();
            Ok(numbers.map(|it| f32::from_le_bytes(*it)).collect())
        };
        let mut standards = BTreeMap::new();
        for &site in about.reach.keys() {
            let numbers = |name: &str| -> Result<Vec<f64>> {
                let numbers = read(&format!("{name}.{site}"), &[d])?;
                Ok(numbers.into_iter().map(f64::from).collect())
            };
            let (mean, deviation) = (numbers("mean")?, numbers("scale")?);
            standards.insert(site, Standard { mean, deviation });
        }
        let (mut hidden, mut width) = (Vec::new(), d);
        for (layer, &outputs) in about.hidden.iter().enumerate() {
            hidden.push(Hidden {
                inputs: width,
                outputs,
                weights: read(&hidden_name(layer, "weight"), &[probes, outputs, width])?,
                biases: read(&hidden_name(layer, "bias"), &[probes, outputs])?,
            });
            width = outputs;
        }
        Ok(Self {
            weights: read("weight", &[probes, width])?,
            biases: read("bias", &[probes])?,
            hidden,
            standards,
            about,
        })
    }

    /// Refuses states of another model, adapter, prompt or position than those that the probes were learned from.
    ///
    /// Errors: [`Error::Data`] with what differs.
    pub fn check(&self, states: &About) -> Result<()> {
        let own = &self.about.states;
        let mut differs = self.differs(&states.model, states.adapter.as_ref());
        if own.prompt != states.prompt {
            differs.push(format!(
                "the prompt ({:?} and {:?})",
                own.prompt.pattern, states.prompt.pattern
            ));
        }
        if own.position != states.position {
            differs.push(format!(
                "the position ({:?} and {:?})",
                own.position, states.position
            ));
        }
        if own.width != states.width {
            differs.push(format!("the width ({} and {})", own.width, states.width));
        }
        refused(&differs)
    }

    /// Refuses a model or an adapter whose weights are not those that the probes were learned from.
    ///
    /// Errors: [`Error::Data`] with what differs.
    pub fn check_model(
        &self,
        model: &ModelIdentity,
        adapter: Option<&ModelIdentity>,
    ) -> Result<()> {
        refused(&self.differs(model, adapter))
    }

    fn differs(&self, model: &ModelIdentity, adapter: Option<&ModelIdentity>) -> Vec<String> {
        let own = &self.about.states;
        let mut differs = Vec::new();
        if !own.model.is_same(model) {
            differs.push(format!("the model ({} and {})", own.model.name, model.name));
        }
        let same_adapter = match (&own.adapter, adapter) {
            (Some(own), Some(other)) => own.is_same(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        if !same_adapter {
            let name =
                |it: Option<&ModelIdentity>| it.map_or("none".to_owned(), |it| it.name.clone());
            let (own, other) = (name(own.adapter.as_ref()), name(adapter));
            differs.push(format!("the adapter ({own} and {other})"));
        }
        differs
    }

    /// How many numbers the weighted sum is of: those of a state, or those of the last hidden layer.
    fn last_width(&self) -> usize {
        self.hidden
            .last()
            .map_or(self.about.states.width, |it| it.outputs)
    }

    /// The layers before the weighted sum, the first one first; none in linear probes.
    pub fn hidden(&self) -> &[Hidden] {
        &self.hidden
    }

    /// Weights and bias of a probe’s sum, by its place in the list: [d], or as many as its last hidden layer has.
    pub fn weights(&self, probe: usize) -> (&[f32], f32) {
        let d = self.last_width();
        (
            &self.weights[probe * d..(probe + 1) * d],
            self.biases[probe],
        )
    }

    /// Means and deviations of the training rows at a site, where the folder has them.
    pub(super) fn standard(&self, site: Site) -> Option<&Standard> {
        self.standards.get(&site)
    }

    /// Whether a state is farther from the mean of its site than 999 of 1,000 training rows. `None` where the folder doesn’t say how
    /// far those reach.
    pub fn is_far(&self, site: Site, state: &[f32]) -> Option<bool> {
        Some(self.standards.get(&site)?.distance(state) > *self.about.reach.get(&site)?)
    }

    /// The score of a state at the site of a probe, by its place in the list: the weighted sum, in f64.
    pub fn score(&self, probe: usize, state: &[f32]) -> f32 {
        let (weights, bias) = self.weights(probe);
        let state = state.iter().map(|it| f64::from(*it));
        let sum = match self.hidden.as_slice() {
            [] => weighted(weights, state),
            layers => {
                let first = state.collect::<Vec<f64>>();
                let last = layers.iter().fold(first, |x, it| it.of(probe, &x));
                weighted(weights, last.into_iter())
            }
        };
        (sum + f64::from(bias)) as f32
    }

    /// Places of the probes that were chosen, one a label.
    pub fn chosen(&self) -> Vec<usize> {
        let probes = self.about.probes.iter().enumerate();
        probes
            .filter(|(_, it)| it.is_chosen)
            .map(|(at, _)| at)
            .collect()
    }
}

fn hidden_name(layer: usize, what: &str) -> String {
    format!("hidden.{layer}.{what}")
}

/// The sum of numbers times their weights.
pub(super) fn weighted(weights: &[f32], x: impl Iterator<Item = f64>) -> f64 {
    weights.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()
}

fn refused(differs: &[String]) -> Result<()> {
    if differs.is_empty() {
        return Ok(());
    }
    Err(Error::Data(format!(
        "the probes were learned from other states, and what they say of these means nothing; what differs: {}",
        differs.join(", ")
    )))
}
