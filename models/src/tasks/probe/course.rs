//! A study that was interrupted: what was learned of its sites so far, as a checkpoint keeps it.
//!
//! `learned.safetensors` has for each site, by its number in the source, from 0:
//!
//! | tensor | holds |
//! |---|---|
//! | `N.weights` [k, d], `N.bias` [k] | probes for states as they are, a label a row |
//! | `N.scores` [k, t] | scores of the t test rows |
//! | `N.chosen` [k, 6] | C, validation AUC, threshold, whether the solver converged, and the scale and shift to probabilities |
//! | `N.standard` [2, d] | means and deviations of the training rows |
//! | `N.tried` [m] | what the folds made of each penalty, where rows are cross-validated |
//! | `N.told` [2] | the mean loss on validation rows, and how far training rows reach |
//!
//! Where a label has no scale, NaN stands for it. Everything is read back to the last bit, so that a study that goes on is the same
//! as one that was never interrupted.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use candle_core::{Device, Tensor};

use super::{
    calibration::Scale,
    scale::Standard,
    study::{Course, LearnedSite, Probe, Settings},
};
use crate::{
    Error, Result,
    checkpoint::{save::write_safetensors, tensors::read_tensors},
};

/// The name of the file that [`Course::save`] writes.
pub const LEARNED: &str = "learned.safetensors";
/// Numbers of `N.chosen` for a label.
const CHOSEN: usize = 6;

impl Course {
    /// Writes what was learned so far into a folder.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let mut tensors = BTreeMap::new();
        for (at, site) in self.sites.iter().enumerate() {
            tensors.extend(written(at, site, self.test_rows())?);
        }
        write_safetensors(&folder.join(LEARNED), &tensors, HashMap::new())
    }

    /// Reads what [`Course::save`] wrote of the same examples.
    ///
    /// Errors: [`Error::Format`] when the file is of other labels or rows.
    pub fn load(&mut self, folder: &Path, settings: &Settings) -> Result<()> {
        let path = folder.join(LEARNED);
        let tensors = read_tensors(&path)?;
        self.sites.clear();
        let tried = self.tried(settings);
        while tensors.contains_key(&format!("{}.weights", self.sites.len())) {
            let at = self.sites.len();
            let site = read(&tensors, at, self.defined(), (self.test_rows(), tried));
            let wrong = |problem| Error::format(&path, format!("of site {at}: {problem}"));
            self.sites.push(site.map_err(wrong)?);
        }
        Ok(())
    }
}

fn written(at: usize, site: &LearnedSite, rows: usize) -> Result<BTreeMap<String, Tensor>> {
    let (probes, d) = (&site.probes, site.standard.mean.len());
    let k = probes.len();
    let scale = |it: &Probe| it.scale.map_or([f64::NAN; 2], |it| [it.scale, it.shift]);
    let chosen = |it: &Probe| {
        let [scale, shift] = scale(it);
        let converged = f64::from(u8::from(it.converged));
        [
            it.c,
            it.validation,
            it.threshold.into(),
            converged,
            scale,
            shift,
        ]
    };
    let standard = [&site.standard.mean[..], &site.standard.deviation].concat();
    let tensors = [
        (
            "weights",
            tensor(
                probes
                    .iter()
                    .flat_map(|it| it.weights.clone())
                    .collect::<Vec<f32>>(),
                (k, d),
            )?,
        ),
        (
            "bias",
            tensor(probes.iter().map(|it| it.bias).collect::<Vec<f32>>(), k)?,
        ),
        (
            "scores",
            tensor(
                probes
                    .iter()
                    .flat_map(|it| it.test_scores.clone())
                    .collect::<Vec<f32>>(),
                (k, rows),
            )?,
        ),
        (
            "chosen",
            tensor(
                probes.iter().flat_map(chosen).collect::<Vec<f64>>(),
                (k, CHOSEN),
            )?,
        ),
        ("standard", tensor(standard, (2, d))?),
        ("told", tensor(vec![site.validation_loss, site.reach], 2)?),
    ];
    let tried = match site.tried.len() {
        0 => None,
        numbers => Some(("tried", tensor(site.tried.clone(), numbers)?)),
    };
    Ok(tensors
        .into_iter()
        .chain(tried)
        .map(|(name, it)| (format!("{at}.{name}"), it))
        .collect())
}

fn tensor<T: candle_core::WithDType>(
    numbers: Vec<T>,
    shape: impl Into<candle_core::Shape>,
) -> Result<Tensor> {
    Ok(Tensor::from_vec(numbers, shape.into(), &Device::Cpu)?)
}

type Tensors = BTreeMap<String, Tensor>;

fn read(
    tensors: &Tensors,
    at: usize,
    defined: &[usize],
    (rows, numbers_tried): (usize, usize),
) -> std::result::Result<LearnedSite, String> {
    let k = defined.len();
    let find = |name: &str| {
        let name = format!("{at}.{name}");
        tensors
            .get(&name)
            .ok_or_else(|| format!("`{name}` is missing"))
    };
    let d = find("weights")?.dims().get(1).copied().unwrap_or_default();
    let weights: Vec<Vec<f32>> = matrix(find("weights")?, k, d)?;
    let scores: Vec<Vec<f32>> = matrix(find("scores")?, k, rows)?;
    let chosen: Vec<Vec<f64>> = matrix(find("chosen")?, k, CHOSEN)?;
    let standard: Vec<Vec<f64>> = matrix(find("standard")?, 2, d)?;
    let bias = find("bias")?
        .to_vec1::<f32>()
        .map_err(|error| error.to_string())?;
    let told = find("told")?
        .to_vec1::<f64>()
        .map_err(|error| error.to_string())?;
    let tried = match numbers_tried {
        0 => Vec::new(),
        _ => find("tried")?
            .to_vec1::<f64>()
            .map_err(|error| error.to_string())?,
    };
    let (Ok([mean, deviation]), [validation_loss, reach], true) = (
        <[Vec<f64>; 2]>::try_from(standard),
        &told[..],
        bias.len() == k && tried.len() == numbers_tried,
    ) else {
        return Err("has another shape than the labels".to_owned());
    };
    let each = weights
        .into_iter()
        .zip(bias)
        .zip(scores)
        .zip(chosen)
        .zip(defined);
    let probes = each.map(|((((weights, bias), test_scores), chosen), &label)| Probe {
        site: at,
        label,
        weights,
        bias,
        c: chosen[0],
        converged: chosen[3] != 0.0,
        validation: chosen[1],
        threshold: chosen[2] as f32,
        scale: Some(Scale {
            scale: chosen[4],
            shift: chosen[5],
        })
        .filter(|it| !it.scale.is_nan()),
        test_scores,
    });
    Ok(LearnedSite {
        probes: probes.collect(),
        standard: Standard { mean, deviation },
        reach: *reach,
        validation_loss: *validation_loss,
        tried,
    })
}

fn matrix<T: candle_core::WithDType>(
    tensor: &Tensor,
    rows: usize,
    width: usize,
) -> std::result::Result<Vec<Vec<T>>, String> {
    let dims = tensor.dims();
    if dims != [rows, width] {
        return Err(format!(
            "has a tensor of {dims:?} where [{rows}, {width}] belongs"
        ));
    }
    tensor.to_vec2().map_err(|error| error.to_string())
}
