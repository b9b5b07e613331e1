//! A head for a network that stays as it is: which of its features speak for which class, by logistic regression.
//!
//! Features are what the head reads, of each picture as it is and mirrored where a mirrored picture means the same, averaged. They are
//! standardised, and how much they count beside the penalty of weights is chosen by five parts of the pictures to learn from, each
//! measured by what was learned from the others. Pictures that belong together or show the same are never on both sides.
//!
//! Letters: n pictures, d features, v classes.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};

use super::{
    augment::Flip,
    classifier::{Looks, View},
    source::PictureSet,
};
use crate::{
    Error, Result,
    arch::picture::{Layer, Network},
    random::stable_hash,
    tasks::probe::{
        features::{Features as Rows, stretched},
        lbfgs::{self, LinearClassifier, Options},
        scale::Standard,
    },
    train::task::Metric,
};

/// Parts of the pictures, each of which is measured once.
const PARTS: usize = 5;
/// How much pictures count beside the penalty, of which one is chosen.
const CHOICES: [f64; 6] = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0];
/// When a choice is learned well enough to be compared.
const COMPARED: Options = Options {
    gradient: 1e-4,
    gain: 1e-8,
    iterations: 200,
};
/// Shares of the pictures, in the hundred, at which it is measured what fewer would say.
const FEWER: [(u64, &str); 2] = [(25, "accuracy_quarter"), (50, "accuracy_half")];

/// Pictures as their features.
#[derive(Debug, Clone, Default)]
pub(super) struct Features {
    /// [n, d].
    rows: Vec<f32>,
    width: usize,
    /// The class of each.
    labels: Vec<u32>,
    /// What belongs together, and what shows the same, has one number.
    groups: Vec<u64>,
}

/// What was learned: a head for features as they are.
pub(super) struct Head {
    fits: Vec<LinearClassifier>,
}

/// What came of the five parts.
pub(super) struct Chosen {
    c: f64,
    /// How many were right of all that were measured.
    right: usize,
}

impl Features {
    /// How many pictures there are.
    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Reads the features of some more pictures of a set.
    pub(super) fn read(
        &mut self,
        network: &Network,
        view: &View,
        flip: Flip,
        set: &PictureSet,
        pictures: &[usize],
        device: &Device,
    ) -> Result<()> {
        let missing = || Error::Data("the network has no head that reads features".to_owned());
        let (step, width) = network.feature_step().ok_or_else(missing)?;
        let pixels: Vec<&[u8]> = pictures.iter().map(|at| set.pixels(*at)).collect();
        let looks = match flip {
            Flip::None => Looks::One,
            Flip::Random | Flip::Alternating => Looks::Mirrored,
        };
        let written = view.averaged(looks, &pixels, set.shape, device, &|numbers| {
            network.written(step, numbers)
        })?;
        self.rows.extend(written.flatten_all()?.to_vec1::<f32>()?);
        self.width = width;
        self.labels
            .extend(pictures.iter().map(|at| set.labels[*at]));
        let group = |at: &usize| match &set.groups {
            Some(groups) => groups[*at],
            None => set.identities[*at],
        };
        self.groups.extend(pictures.iter().map(group));
        Ok(())
    }

    /// The features of other pictures, made of these and some noise: to see how long something takes.
    pub(super) fn stretched(&self, pictures: &[usize], set: &PictureSet, seed: u64) -> Self {
        let label = |at: &usize| set.labels[*at];
        Self {
            rows: stretched(&self.rows, self.width, pictures.len(), seed),
            width: self.width,
            labels: pictures.iter().map(label).collect(),
            groups: (0..pictures.len() as u64).collect(),
        }
    }

    /// The pictures of which this is so.
    fn only(&self, is_wanted: impl Fn(usize) -> bool) -> Self {
        let wanted: Vec<usize> = (0..self.len()).filter(|at| is_wanted(*at)).collect();
        let row = |at: &usize| &self.rows[at * self.width..(at + 1) * self.width];
        Self {
            rows: wanted.iter().flat_map(row).copied().collect(),
            width: self.width,
            labels: wanted.iter().map(|at| self.labels[*at]).collect(),
            groups: wanted.iter().map(|at| self.groups[*at]).collect(),
        }
    }

    /// The part of each picture. Groups of a class are dealt in an order that the seed decides, so that parts are as even as groups
    /// permit.
    fn parts(&self, seed: u64) -> Vec<usize> {
        let mut first: BTreeMap<u64, u32> = BTreeMap::new();
        for (group, label) in self.groups.iter().zip(&self.labels) {
            first.entry(*group).or_insert(*label);
        }
        let mut order: Vec<(u32, u64, u64)> = first
            .iter()
            .map(|(group, label)| (*label, stable_hash(seed, &group.to_le_bytes()), *group))
            .collect();
        order.sort_unstable();
        let dealt = order.iter().enumerate();
        let part: BTreeMap<u64, usize> = dealt.map(|(at, it)| (it.2, at % PARTS)).collect();
        self.groups.iter().map(|it| part[it]).collect()
    }

    /// Learns a head with this much weight on the pictures.
    pub(super) fn learn(&self, classes: usize, c: f64, options: Options) -> Head {
        let standard = Standard::of(&self.rows, self.width);
        let mut rows = self.rows.clone();
        standard.apply(&mut rows);
        let features = Rows::Dense(&rows, self.width);
        let weights = vec![1.0; classes];
        let fits = lbfgs::multinomial(features, &self.labels, &weights, c, None, options);
        let fold = |fit: LinearClassifier| {
            let (weights, bias) = standard.fold_back(&fit.weights, fit.bias);
            LinearClassifier {
                weights,
                bias,
                ..fit
            }
        };
        Head {
            fits: fits.into_iter().map(fold).collect(),
        }
    }

    /// How many pictures a head is right about.
    fn right(&self, head: &Head) -> usize {
        let rows = self.rows.chunks_exact(self.width.max(1)).zip(&self.labels);
        rows.filter(|(row, label)| head.answer(row) == **label)
            .count()
    }

    /// Which weight of the pictures is right about most of what it did not learn from. Of equally good ones, the one with the strongest
    /// penalty.
    pub(super) fn choose(&self, classes: usize, seed: u64) -> Chosen {
        let parts = self.parts(seed);
        let split = |part: usize| {
            [
                self.only(|at| parts[at] != part),
                self.only(|at| parts[at] == part),
            ]
        };
        let splits: Vec<[Self; 2]> = (0..PARTS).map(split).collect();
        let mut best = Chosen {
            c: CHOICES[0],
            right: 0,
        };
        for (at, c) in CHOICES.into_iter().enumerate() {
            let right = splits.iter().filter(|it| it[0].len() > 0);
            let right =
                right.map(|[learned, asked]| asked.right(&learned.learn(classes, c, COMPARED)));
            let right = right.sum();
            if at == 0 || right > best.right {
                best = Chosen { c, right };
            }
        }
        best
    }

    /// What the five parts said, and what fewer pictures would say about `held_out`.
    pub(super) fn metrics(
        &self,
        chosen: &Chosen,
        held_out: &Self,
        classes: usize,
        seed: u64,
    ) -> Vec<Metric> {
        let metric = |name: &str, label: &str, right: usize, of: usize| Metric {
            name: name.to_owned(),
            label: label.to_owned(),
            value: right as f64 / of.max(1) as f64,
            higher_is_better: true,
            of: Some(of),
        };
        let label = "accuracy over five parts";
        let mut metrics = vec![metric("accuracy_folds", label, chosen.right, self.len())];
        if held_out.len() == 0 {
            return metrics;
        }
        for (percent, name) in FEWER {
            let is_drawn =
                |at: usize| stable_hash(seed, &self.groups[at].to_le_bytes()) % 100 < percent;
            let fewer = self.only(is_drawn);
            let mut known = fewer.labels.clone();
            known.sort_unstable();
            known.dedup();
            // What has no picture of a class says nothing of how many pictures of it are needed.
            if known.len() < classes {
                continue;
            }
            let right = held_out.right(&fewer.learn(classes, chosen.c, COMPARED));
            let label = format!("accuracy with {percent} % of the pictures");
            metrics.push(metric(name, &label, right, held_out.len()));
        }
        metrics
    }
}

impl Chosen {
    /// How much pictures count beside the penalty.
    pub(super) fn c(&self) -> f64 {
        self.c
    }
}

impl Head {
    fn answer(&self, row: &[f32]) -> u32 {
        let score = |fit: &LinearClassifier| {
            let products = fit.weights.iter().zip(row).map(|(w, x)| w * f64::from(*x));
            products.sum::<f64>() + fit.bias
        };
        let scores = self.fits.iter().map(score).enumerate();
        let best = scores.fold((0, f64::NEG_INFINITY), |best, it| {
            if it.1 > best.1 { it } else { best }
        });
        best.0 as u32
    }

    /// Puts it into a network.
    ///
    /// Errors: [`Error::Data`] for a network whose head adds nothing.
    pub(super) fn put_into(&self, network: &mut Network) -> Result<()> {
        let Some(Layer::Linear {
            name,
            bias: true,
            scale,
            ..
        }) = network.steps().last().map(|it| it.layer.clone())
        else {
            let problem = "the network has no head with a bias, which a head that is found by logistic regression needs";
            return Err(Error::Data(problem.to_owned()));
        };
        let width = self.fits.first().map_or(0, |it| it.weights.len());
        let weights = self.fits.iter().flat_map(|it| &it.weights);
        let weights: Vec<f32> = weights.map(|it| (it / scale) as f32).collect();
        let biases: Vec<f32> = self
            .fits
            .iter()
            .map(|it| (it.bias / scale) as f32)
            .collect();
        let weights = Tensor::from_vec(weights, (self.fits.len(), width), &Device::Cpu)?;
        network.set(&format!("{name}.weight"), &weights)?;
        let count = biases.len();
        network.set(
            &format!("{name}.bias"),
            &Tensor::from_vec(biases, count, &Device::Cpu)?,
        )
    }
}
