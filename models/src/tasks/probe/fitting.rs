//! Fits labels to features and chooses the penalty of each on validation rows.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{
    adamw::{self, Recipe},
    features::Features,
    lbfgs::{self, Label, LinearClassifier, Options, balanced},
    mean_difference,
    precondition::Gram,
    ranking::{Ranking, standard_error},
};

/// Weights of all labels that are learned together, at most.
const NUMBERS_AT_ONCE: usize = 1 << 21;

/// How weights are found.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Solver {
    /// Logistic regression at its exact optimum.
    #[default]
    Exact,
    /// The difference of two means.
    MeanDifference,
    /// Small batches with early stopping, to repeat what others did.
    Adamw(Recipe),
}

impl Solver {
    /// Its name in a run file.
    pub fn name(self) -> SolverName {
        match self {
            Self::Exact => SolverName::Exact,
            Self::MeanDifference => SolverName::MeanDifference,
            Self::Adamw(_) => SolverName::Adamw,
        }
    }
}

/// How weights are found, by its name in a run file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SolverName {
    /// Logistic regression at its exact optimum.
    #[default]
    Exact,
    /// The difference of two means.
    MeanDifference,
    /// Small batches with early stopping, to repeat what others did.
    Adamw,
}

impl SolverName {
    /// The solver with its usual settings.
    pub fn solver(self) -> Solver {
        match self {
            Self::Exact => Solver::Exact,
            Self::MeanDifference => Solver::MeanDifference,
            Self::Adamw => Solver::Adamw(Recipe::default()),
        }
    }
}

/// What a fit decides by.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    /// How weights are found.
    pub solver: Solver,
    /// The values of C that are tried, in rising order; only the exact solver has a penalty.
    pub penalties: Vec<f64>,
    /// Whether both classes count as much.
    pub balanced: bool,
    /// What draws depend on.
    pub seed: u64,
}

/// The same features of the rows of train, validation and test.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a>(pub [Features<'a>; 3]);

/// Which rows of train, validation and test have a label. Each part has rows with and without.
pub type Truth = [Vec<bool>; 3];

/// A label’s classifier with its penalty, and the scores of rows that it did not learn from.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// C.
    pub c: f64,
    /// The classifier of the features.
    pub fit: LinearClassifier,
    /// The AUC on validation rows.
    pub validation: f64,
    /// Scores of validation rows.
    pub validation_scores: Vec<f32>,
    /// Scores of test rows.
    pub test_scores: Vec<f32>,
}

/// A fit with its scores of validation rows.
struct Candidate {
    c: f64,
    fit: LinearClassifier,
    auc: f64,
    scores: Vec<f32>,
}

impl Choices {
    /// The values of C that each label is fitted for; 0 where the solver has no penalty.
    pub fn tried(&self) -> &[f64] {
        match self.solver {
            Solver::Exact => &self.penalties,
            Solver::MeanDifference | Solver::Adamw(_) => &[0.0],
        }
    }
}

/// Fits each label for each penalty: [labels][penalties].
fn candidates(parts: Parts<'_>, truths: &[Truth], choices: &Choices) -> Vec<Vec<Candidate>> {
    let candidates = match choices.solver {
        Solver::Exact => path(parts, truths, choices),
        Solver::MeanDifference => vec![judged(parts, truths, 0.0, means(parts, truths))],
        Solver::Adamw(recipe) => {
            let part =
                |part: usize| -> Vec<&[bool]> { truths.iter().map(|it| &it[part][..]).collect() };
            let (recipe, [train, validation, _]) = ((recipe, choices.seed), parts.0);
            let fits = adamw::fit(train, &part(0), validation, &part(1), recipe, &mut |_| true);
            vec![judged(parts, truths, 0.0, fits)]
        }
    };
    let mut by_label: Vec<Vec<Candidate>> = truths.iter().map(|_| Vec::new()).collect();
    for candidates in candidates {
        for (label, candidate) in by_label.iter_mut().zip(candidates) {
            label.push(candidate);
        }
    }
    by_label
}

/// The AUC of each label for each penalty on the validation rows, and on the test rows: [labels][penalties].
pub fn aucs(parts: Parts<'_>, truths: &[Truth], choices: &Choices) -> Vec<Vec<[f64; 2]>> {
    let of = |(candidates, truth): (Vec<Candidate>, &Truth)| -> Vec<[f64; 2]> {
        let fits = candidates.iter();
        let fits = fits.map(|it| (&it.fit.weights[..], it.fit.bias));
        let scores = parts.0[2].scores_of(fits);
        let each = candidates.iter().zip(&scores);
        each.map(|(it, scores)| {
            let test = Ranking::new(scores).auc(&truth[2]).unwrap_or_default();
            [it.auc, test]
        })
        .collect()
    };
    let some = |truths: &[Truth]| -> Vec<_> {
        let labels = candidates(parts, truths, choices).into_par_iter();
        labels.zip(truths).map(of).collect()
    };
    let at_once = labels_at_once(parts.0[0]);
    truths.chunks(at_once).flat_map(some).collect()
}

/// How many labels are learned together: their solver remembers twenty times as many numbers as their weights are.
pub fn labels_at_once(features: Features<'_>) -> usize {
    (NUMBERS_AT_ONCE / features.width().max(1)).max(1)
}

/// Fits each label for each penalty, and keeps the one that validation rows are ranked best by.
pub fn fit(parts: Parts<'_>, truths: &[Truth], choices: &Choices) -> Vec<Fitted> {
    let labels = candidates(parts, truths, choices).into_iter().zip(truths);
    let chosen: Vec<Candidate> = labels
        .filter_map(|(it, truth)| choose(it, &truth[1]))
        .collect();
    let test = parts.0[2].scores_of(chosen.iter().map(|it| (&it.fit.weights[..], it.fit.bias)));
    let fitted = |(it, test_scores): (Candidate, Vec<f32>)| Fitted {
        c: it.c,
        fit: it.fit,
        validation: it.auc,
        validation_scores: it.scores,
        test_scores,
    };
    chosen.into_iter().zip(test).map(fitted).collect()
}

/// Fits each label with a penalty of its own, and gives its scores of test rows. No solver chooses anything by validation rows here,
/// so the one that stops by them is the exact one.
pub fn fit_with(
    parts: Parts<'_>,
    truths: &[Truth],
    penalties: &[f64],
    choices: &Choices,
) -> Vec<Vec<f32>> {
    let some = |(truths, penalties): (&[Truth], &[f64])| {
        let fits = match choices.solver {
            Solver::MeanDifference => means(parts, truths),
            Solver::Exact | Solver::Adamw(_) => {
                let labels = truths.iter().zip(penalties);
                let labels = labels.map(|(it, c)| label_of(&it[0], *c, choices.balanced));
                let labels: Vec<Label<'_>> = labels.collect();
                lbfgs::logistic(parts.0[0], &labels, None, None, Options::default())
            }
        };
        parts.0[2].scores_of(fits.iter().map(|it| (&it.weights[..], it.bias)))
    };
    let at_once = labels_at_once(parts.0[0]);
    let chunks = truths.chunks(at_once).zip(penalties.chunks(at_once));
    chunks.flat_map(some).collect()
}

fn label_of(positive: &[bool], c: f64, balance: bool) -> Label<'_> {
    Label {
        positive,
        c,
        weights: if balance {
            balanced(positive)
        } else {
            [1.0; 2]
        },
    }
}

/// Fits for each penalty, each starting from the one before.
fn path(parts: Parts<'_>, truths: &[Truth], choices: &Choices) -> Vec<Vec<Candidate>> {
    let train = parts.0[0];
    let gram = is_worth_preconditioning(train, truths.len())
        .then(|| Gram::of(train))
        .flatten();
    let spread = spread(truths);
    let mut before: Option<Vec<LinearClassifier>> = None;
    let mut all = Vec::new();
    for &c in &choices.penalties {
        let label = |truth| label_of(truth, c, choices.balanced);
        let labels: Vec<Label<'_>> = truths.iter().map(|it| label(&it[0])).collect();
        let round = gram.as_ref().and_then(|it| it.factor(c, spread));
        let options = Options::default();
        let fits = lbfgs::logistic(train, &labels, before.as_deref(), round.as_ref(), options);
        all.push(judged(parts, truths, c, fits.clone()));
        before = Some(fits);
    }
    all
}

/// Whether the factor of XᵀX costs less than the iterations that it saves: it takes as long as d / 4k of them.
fn is_worth_preconditioning(features: Features<'_>, labels: usize) -> bool {
    let (n, d) = (features.rows(), features.width());
    matches!(features, Features::Dense(..)) && n >= d && labels * 80 >= d
}

/// How uncertain labels are, on average, before anything is learned: p (1 - p).
fn spread(truths: &[Truth]) -> f64 {
    let of = |truth: &Truth| {
        let yes = truth[0].iter().filter(|it| **it).count() as f64;
        let share = yes / truth[0].len().max(1) as f64;
        share * (1.0 - share)
    };
    let spreads: Vec<f64> = truths.iter().map(of).collect();
    super::classes::mean(&spreads).unwrap_or(0.25).max(1e-4)
}

fn means(parts: Parts<'_>, truths: &[Truth]) -> Vec<LinearClassifier> {
    let Features::Dense(rows, width) = parts.0[0] else {
        return Vec::new();
    };
    let fit = |truth: &Truth| mean_difference::fit(rows, width, &truth[0]);
    truths.par_iter().filter_map(fit).collect()
}

/// Fits with their scores of validation rows.
fn judged(
    parts: Parts<'_>,
    truths: &[Truth],
    c: f64,
    fits: Vec<LinearClassifier>,
) -> Vec<Candidate> {
    let scores = parts.0[1].scores_of(fits.iter().map(|it| (&it.weights[..], it.bias)));
    let each = fits.into_par_iter().zip(scores).zip(truths);
    each.map(|((fit, scores), truth)| Candidate {
        c,
        fit,
        auc: Ranking::new(&scores).auc(&truth[1]).unwrap_or(0.0),
        scores,
    })
    .collect()
}

fn choose(candidates: Vec<Candidate>, positive: &[bool]) -> Option<Candidate> {
    let yes = positive.iter().filter(|it| **it).count();
    let aucs: Vec<f64> = candidates.iter().map(|it| it.auc).collect();
    let first = simplest(&aucs, yes, positive.len() - yes)?;
    candidates.into_iter().nth(first)
}

/// The first AUC within one standard error of the best, where C rises: of models that can’t be told apart, the simplest.
pub(super) fn simplest(aucs: &[f64], positives: usize, negatives: usize) -> Option<usize> {
    let best = aucs.iter().copied().fold(0.0, f64::max);
    let enough = best - standard_error(best, positives, negatives);
    aucs.iter().position(|it| *it >= enough)
}
