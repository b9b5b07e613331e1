//! A folder of probes: their weights, what they were learned from, and what was found of them.
//!
//! | file | holds |
//! |---|---|
//! | `probes.safetensors` | `weight` [P, d] and `bias` [P] for states as they are, and for each site `mean.SITE` and `scale.SITE` [d] of its training rows |
//! | `probes.json` | what the states were of, a line for each probe in the order of `weight`, and the report |
//!
//! A probe belongs to the model, the prompt, the position and the site that its states came from. Deliberately absent: texts, which
//! are private, and the states themselves.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use candle_core::{Device, Tensor};
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};

use super::{
    calibration::Scale,
    examples::Examples,
    report::Report,
    scale::Standard,
    states::About,
    study::{Probe, Study},
};
use crate::{
    Error, Result,
    arch::sites::Site,
    checkpoint::{
        folder::read_json,
        save::{replace_folder, write_file, write_safetensors},
    },
    limits,
};

/// The file of the weights.
pub const WEIGHTS: &str = "probes.safetensors";
/// The file that says what the probes are.
pub const PROBES: &str = "probes.json";
/// The layout of the folder that is written. A later one is refused.
const VERSION: u32 = 1;

/// A folder of probes, open.
#[derive(Debug, Clone)]
pub struct Probes {
    /// What they are.
    pub about: AboutProbes,
    weights: Vec<f32>,
    biases: Vec<f32>,
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
    /// What was found of them.
    pub report: Report,
}

/// One of the probes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// What it looks for.
    pub label: String,
    /// Where it reads.
    pub site: Site,
    /// Whether it is the one of its label that was chosen on validation rows.
    pub is_chosen: bool,
    /// How much rows counted beside the penalty.
    pub c: f64,
    /// The AUC on validation rows.
    pub validation: f64,
    /// Scores from here on are called positive.
    pub threshold: f32,
    /// Scores to probabilities.
    pub scale: Option<Scale>,
    /// Whether the solver reached the optimum.
    pub converged: bool,
}

/// Writes the probes of a study of these states as a folder, whole or not at all.
///
/// Errors: [`Error::File`] when the disk refuses.
pub fn save(
    folder: &Path,
    study: &Study,
    (examples, states): (&Examples, &About),
    written_by: &str,
) -> Result<()> {
    let kept = |probe: &Probe| {
        let (label, site) = (&examples.labels[probe.label], states.sites[probe.site]);
        let mut labels = study.report.labels.iter().filter(|it| it.label == *label);
        let chosen = labels.next().and_then(|it| it.probe.as_ref());
        Kept {
            label: label.clone(),
            site,
            is_chosen: chosen.is_some_and(|it| it.site == site.to_string()),
            c: probe.c,
            validation: probe.validation,
            threshold: probe.threshold,
            scale: probe.scale,
            converged: probe.converged,
        }
    };
    let about = AboutProbes {
        version: VERSION,
        written_by: written_by.to_owned(),
        states: About {
            // Its reasons may repeat parts of texts.
            left_out: Vec::new(),
            ..states.clone()
        },
        probes: study.probes.iter().map(kept).collect(),
        report: study.report.clone(),
    };
    let json = serde_json::to_vec_pretty(&about)
        .map_err(|error| Error::format(folder, format!("could not write {PROBES}: {error}")))?;
    let tensors = tensors(study, states)?;
    replace_folder(folder, |folder| {
        write_file(&folder.join(PROBES), &json)?;
        write_safetensors(&folder.join(WEIGHTS), &tensors, HashMap::new())
    })
}

fn tensors(study: &Study, states: &About) -> Result<BTreeMap<String, Tensor>> {
    let (probes, d) = (study.probes.len(), states.width);
    let tensor =
        |numbers: Vec<f32>, shape: &[usize]| Tensor::from_vec(numbers, shape, &Device::Cpu);
    let weights: Vec<f32> = study
        .probes
        .iter()
        .flat_map(|it| it.weights.iter().copied())
        .collect();
    let biases = study.probes.iter().map(|it| it.bias).collect();
    let mut tensors = BTreeMap::from([
        ("weight".to_owned(), tensor(weights, &[probes, d])?),
        ("bias".to_owned(), tensor(biases, &[probes])?),
    ]);
    for (site, Standard { mean, deviation }) in states.sites.iter().zip(&study.standards) {
        for (name, numbers) in [("mean", mean), ("scale", deviation)] {
            let numbers = numbers.iter().map(|it| *it as f32).collect();
            tensors.insert(format!("{name}.{site}"), tensor(numbers, &[d])?);
        }
    }
    Ok(tensors)
}

impl Probes {
    /// Opens a folder.
    ///
    /// Errors: [`Error::Format`] when a file is not what it should be.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(PROBES);
        let json = read_json(&path, "read what the probes are")?;
        let about: AboutProbes = serde_json::from_value(json)
            .map_err(|error| Error::format(&path, format!("is no {PROBES}: {error}")))?;
        if about.version > VERSION {
            let problem = "was written by a later version of Anneal, and can’t be read by this one";
            return Err(Error::format(&path, problem));
        }
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
        Ok(Self {
            weights: read("weight", &[probes, d])?,
            biases: read("bias", &[probes])?,
            about,
        })
    }

    /// Refuses states of another model, adapter, prompt or position than those that the probes were learned from.
    ///
    /// Errors: [`Error::Data`] with what differs.
    pub fn check(&self, states: &About) -> Result<()> {
        let own = &self.about.states;
        let mut differs = Vec::new();
        if own.model != states.model {
            differs.push(format!(
                "the model ({} and {})",
                own.model.name, states.model.name
            ));
        }
        if own.adapter != states.adapter {
            differs.push("the adapter".to_owned());
        }
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
        if differs.is_empty() {
            return Ok(());
        }
        Err(Error::Data(format!(
            "the probes were learned from other states, and what they say of these means nothing; what differs: {}",
            differs.join(", ")
        )))
    }

    /// The score of a state at the site of a probe, by its place in the list: the weighted sum, in f64.
    pub fn score(&self, probe: usize, state: &[f32]) -> f32 {
        let d = self.about.states.width;
        let weights = self.weights[probe * d..(probe + 1) * d].iter();
        let terms = weights
            .zip(state)
            .map(|(w, x)| f64::from(*w) * f64::from(*x));
        (terms.sum::<f64>() + f64::from(self.biases[probe])) as f32
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
