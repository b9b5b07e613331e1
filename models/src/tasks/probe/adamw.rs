//! Linear probes by small batches, as others train them: AdamW, dropout on the input, the epoch with the best validation AUC.
//!
//! All labels learn from the same batches at once, each as it would by itself, since their losses share no weight; only the draws
//! of rows and of dropout are the same for all. It doesn't reach the optimum of [`lbfgs`](super::lbfgs), and is here to repeat what
//! was done with such a recipe. Source: Loshchilov and Hutter (2019), as PyTorch computes it, decay on the bias too.

use rayon::prelude::*;

use super::{features::Features, lbfgs::LinearClassifier, ranking::Ranking};
use crate::{
    ops::kernels::cpu::product::{Matrix, Output, Size, multiply_on_threads},
    random::Random,
};

const BETAS: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

/// How it learns. The default is the recipe of the published probes of 45 cognitive actions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recipe {
    /// The first rate.
    pub rate: f64,
    /// The rate after the last epoch; it falls as a cosine, epoch by epoch.
    pub last_rate: f64,
    /// What weights lose, as a share of the rate.
    pub decay: f64,
    /// The share of the input that is left out.
    pub dropout: f64,
    /// Rows of a batch.
    pub batch: usize,
    /// Epochs, at most.
    pub epochs: usize,
    /// Epochs without a better validation AUC after which a label has learned enough.
    pub patience: usize,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            rate: 5e-4,
            last_rate: 1e-5,
            decay: 1e-3,
            dropout: 0.1,
            batch: 16,
            epochs: 50,
            patience: 10,
        }
    }
}

/// Weights of all labels with what AdamW remembers of them: [k, d + 1], the bias last.
struct Weights {
    now: Vec<f32>,
    mean: Vec<f32>,
    square: Vec<f32>,
    steps: i32,
}

/// Which epoch of a label was best.
struct Best {
    auc: f64,
    epoch: usize,
    weights: Vec<f32>,
    is_done: bool,
}

/// Learns each label from dense rows [n, d], and keeps the epoch that ranks the validation rows best. A label that still got better
/// in the last epoch is marked as not converged. `tell` hears each epoch, and ends all with `false`.
pub fn fit(
    train: Features<'_>,
    labels: &[&[bool]],
    validation: Features<'_>,
    validation_labels: &[&[bool]],
    (recipe, seed): (Recipe, u64),
    tell: &mut dyn FnMut(usize) -> bool,
) -> Vec<LinearClassifier> {
    let Features::Dense(rows, d) = train else {
        return Vec::new();
    };
    let (n, k) = (train.rows(), labels.len());
    let mut random = Random::for_purpose(seed, "probe adamw");
    let bound = 1.0 / (d.max(1) as f64).sqrt();
    let mut weights = Weights {
        now: (0..k * (d + 1))
            .map(|_| ((2.0 * random.uniform() - 1.0) * bound) as f32)
            .collect(),
        mean: vec![0.0; k * (d + 1)],
        square: vec![0.0; k * (d + 1)],
        steps: 0,
    };
    let mut best: Vec<Best> = (0..k).map(|_| Best::none()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    let mut batch = Batch::new(recipe.batch.clamp(1, n.max(1)), d, k);
    for epoch in 0..recipe.epochs {
        random.shuffle(&mut order);
        let turn = std::f64::consts::PI * epoch as f64 / recipe.epochs as f64;
        let rate = recipe.last_rate + (recipe.rate - recipe.last_rate) * (1.0 + turn.cos()) / 2.0;
        for chosen in order.chunks(batch.most) {
            batch.take(rows, chosen, recipe.dropout, &mut random);
            batch.gradient(&weights.now, labels, chosen);
            let done: Vec<bool> = best.iter().map(|it| it.is_done).collect();
            weights.step(&batch.gradient, &done, rate, recipe.decay);
        }
        look(
            &mut best,
            &weights.now,
            validation,
            validation_labels,
            (epoch, recipe.patience),
        );
        if !tell(epoch + 1) || best.iter().all(|it| it.is_done) {
            break;
        }
    }
    let fit = |it: Best| LinearClassifier {
        weights: it.weights[..d].iter().map(|x| f64::from(*x)).collect(),
        bias: f64::from(it.weights[d]),
        objective: f64::NAN,
        gradient: f64::NAN,
        iterations: it.epoch + 1,
        converged: it.epoch + 1 < recipe.epochs,
    };
    best.into_iter().map(fit).collect()
}

impl Best {
    fn none() -> Self {
        Self {
            auc: f64::NEG_INFINITY,
            epoch: 0,
            weights: Vec::new(),
            is_done: false,
        }
    }
}

/// Keeps the weights of labels that rank the validation rows better than before.
fn look(
    best: &mut [Best],
    weights: &[f32],
    validation: Features<'_>,
    labels: &[&[bool]],
    (epoch, patience): (usize, usize),
) {
    let d = validation.width();
    let wide: Vec<f64> = weights.iter().map(|it| f64::from(*it)).collect();
    let scores = validation.scores_of(wide.chunks(d + 1).map(|it| (&it[..d], it[d])));
    let each = best.par_iter_mut().zip(weights.par_chunks(d + 1));
    each.zip(scores.par_iter().zip(labels))
        .for_each(|((best, weights), (scores, labels))| {
            let auc = Ranking::new(scores).auc(labels).unwrap_or(0.0);
            if best.is_done {
                return;
            }
            if auc > best.auc {
                best.auc = auc;
                best.epoch = epoch;
                best.weights = weights.to_vec();
            }
            best.is_done = epoch - best.epoch >= patience;
        });
}

/// Rows of a batch with their gradient: b rows of d numbers, k labels.
struct Batch {
    most: usize,
    width: usize,
    rows: Vec<f32>,
    scores: Vec<f32>,
    gradient: Vec<f32>,
}

impl Batch {
    fn new(most: usize, width: usize, labels: usize) -> Self {
        Self {
            most,
            width,
            rows: vec![0.0; most * width],
            scores: vec![0.0; labels * most],
            gradient: vec![0.0; labels * (width + 1)],
        }
    }

    fn take(&mut self, rows: &[f32], chosen: &[usize], dropout: f64, random: &mut Random) {
        let d = self.width;
        let kept = (1.0 / (1.0 - dropout)) as f32;
        for (into, &row) in self.rows.chunks_mut(d).zip(chosen) {
            for (into, x) in into.iter_mut().zip(&rows[row * d..][..d]) {
                let is_out = dropout > 0.0 && random.uniform() < dropout;
                *into = if is_out { 0.0 } else { x * kept };
            }
        }
    }

    /// The gradient of the mean loss over the chosen rows, label by label.
    fn gradient(&mut self, weights: &[f32], labels: &[&[bool]], chosen: &[usize]) {
        let (b, d, k) = (chosen.len(), self.width, labels.len());
        let size = Size {
            rows: k,
            columns: b,
            depth: d,
        };
        let w = Matrix::rows(weights, d + 1);
        let x = Matrix::rows(&self.rows, d);
        let scores = &mut self.scores[..k * b];
        multiply_on_threads(scores, b, w, x.transposed(), size, 1.0, Output::Replace);
        for (label, scores) in scores.chunks_mut(b).enumerate() {
            let bias = weights[label * (d + 1) + d];
            let mut sum = 0.0;
            for (score, &row) in scores.iter_mut().zip(chosen) {
                let p = 1.0 / (1.0 + (-f64::from(*score + bias)).exp());
                let left = (p - f64::from(u8::from(labels[label][row]))) / b as f64;
                *score = left as f32;
                sum += left;
            }
            self.gradient[label * (d + 1) + d] = sum as f32;
        }
        let size = Size {
            rows: k,
            columns: d,
            depth: b,
        };
        let r = Matrix::rows(scores, b);
        multiply_on_threads(&mut self.gradient, d + 1, r, x, size, 1.0, Output::Replace);
    }
}

impl Weights {
    /// A step of AdamW for all labels that still learn.
    fn step(&mut self, gradient: &[f32], done: &[bool], rate: f64, decay: f64) {
        self.steps += 1;
        let width = gradient.len() / done.len().max(1);
        let [first, second] = BETAS.map(|it| it as f32);
        let corrections = BETAS.map(|it| 1.0 - it.powi(self.steps));
        let (size, root) = ((rate / corrections[0]) as f32, corrections[1].sqrt() as f32);
        let kept = (1.0 - rate * decay) as f32;
        let each = self
            .now
            .par_chunks_mut(width)
            .zip(gradient.par_chunks(width));
        let state = self
            .mean
            .par_chunks_mut(width)
            .zip(self.square.par_chunks_mut(width));
        each.zip(state)
            .zip(done)
            .filter(|(_, done)| !**done)
            .for_each(|(((now, gradient), (mean, square)), _)| {
                for (((x, g), m), v) in now.iter_mut().zip(gradient).zip(mean).zip(square) {
                    *m = first * *m + (1.0 - first) * g;
                    *v = second * *v + (1.0 - second) * g * g;
                    *x = *x * kept - size * *m / (v.sqrt() / root + EPSILON as f32);
                }
            });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_learn_at_once_and_the_best_epoch_is_kept() {
        let (n, d) = (600, 12);
        let mut random = Random::new(9);
        let rows: Vec<f32> = (0..n * d).map(|_| random.normal() as f32).collect();
        let of = |at: usize| -> Vec<bool> {
            let rows = rows.chunks(d);
            rows.map(|row| row[at] + 0.5 * row[at + 1] > 0.8).collect()
        };
        let (one, other) = (of(0), of(5));
        let recipe = Recipe {
            rate: 5e-3,
            epochs: 30,
            ..Recipe::default()
        };
        let (train, validation) = rows.split_at(400 * d);
        let fits = fit(
            Features::Dense(train, d),
            &[&one[..400], &other[..400]],
            Features::Dense(validation, d),
            &[&one[400..], &other[400..]],
            (recipe, 1),
            &mut |_| true,
        );
        let scores = Features::Dense(validation, d)
            .scores_of(fits.iter().map(|it| (&it.weights[..], it.bias)));
        for (scores, labels) in scores.iter().zip([&one[400..], &other[400..]]) {
            let auc = Ranking::new(scores).auc(labels).unwrap();
            assert!(auc > 0.97, "{auc}");
        }
        let stopped = fit(
            Features::Dense(train, d),
            &[&one[..400]],
            Features::Dense(validation, d),
            &[&one[400..]],
            (recipe, 1),
            &mut |_| false,
        );
        assert_eq!(stopped[0].iterations, 1);
    }
}
