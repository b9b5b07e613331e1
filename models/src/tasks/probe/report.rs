//! What a study found, as the terminal, the window and a file show it. Figures are of the test part, which nothing was chosen on.

use serde::{Deserialize, Serialize};

use super::{
    bootstrap::{Difference, Interval},
    calibration::{self, Bin, Scale},
    classes::Classes,
    ranking::{Confusion, Point, Ranking, RecallAt},
    split::Duplicates,
};

/// The result of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "specta",
    derive(specta::Type),
    serde(rename = "ProbeReport")
)]
pub struct Report {
    /// The study in a sentence: the site, its mean AUC with its interval, the words beside it, and shuffled labels.
    pub headline: String,
    /// What a reader has to know before believing the figures.
    pub warnings: Vec<String>,
    /// Rows of train, validation and test.
    pub rows: [u64; 3],
    /// Groups of rows that were never divided.
    pub groups: u64,
    /// Texts that occur more than once.
    pub duplicates: Duplicates,
    /// The site that is best for all labels together, chosen on validation rows.
    pub site: String,
    /// All sites, with the means over labels.
    pub sites: Vec<SiteMeans>,
    /// The mean test AUC of the words, with its interval.
    pub words: Option<Estimate>,
    /// How much more the chosen site knows than the words, in mean AUC.
    pub over_words: Option<Difference>,
    /// The mean test AUC of labels that were shuffled before learning: of each shuffle.
    pub shuffled: Vec<f64>,
    /// The mean test AUC of labels that only depend on the first word of a text.
    pub control: Option<f64>,
    /// Of rows with one label each: the labels as classes, told by the chosen site and by the words.
    pub classes: Option<ClassReport>,
    /// Label by label.
    pub labels: Vec<LabelReport>,
    /// What cross-validation says of all rows, where there were too few for a part of them to say much.
    #[serde(default)]
    pub folds: Option<CrossValidation>,
}

/// Figures of all rows: each was judged once, by probes that neither learned nor chose anything by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct CrossValidation {
    /// How many folds there are.
    pub folds: u64,
    /// The mean over labels, at the site that is best for all of them together.
    pub all: CrossValidated,
    /// Each label of the report at the site that is best for it; nothing of one that some fold has only rows of one kind of.
    pub labels: Vec<Option<CrossValidated>>,
}

/// A figure of all folds: the mean of the AUC in each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct CrossValidated {
    /// Of the probe.
    pub auc: Estimate,
    /// Of the words, learned and chosen on the same rows.
    pub words: Option<Estimate>,
    /// How much more the probe knows than the words.
    pub over_words: Option<Difference>,
    /// The site that was chosen without each fold.
    pub sites: Vec<String>,
}

/// A figure and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Estimate {
    /// The point estimate, in the unit of the figure.
    pub value: f64,
    /// Where it lies.
    pub interval: Option<Interval>,
}

/// A site, over all labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct SiteMeans {
    /// Its name: `block.14`.
    pub site: String,
    /// The mean AUC on validation rows, by which the site is chosen.
    pub validation: f64,
    /// The mean AUC on test rows.
    pub test: Estimate,
    /// Whether the paired interval of its difference to the chosen site holds 0.
    pub is_as_good: bool,
}

/// Labels as classes of which each row has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct ClassReport {
    /// By the chosen site.
    pub probe: Classes,
    /// The accuracy, with its interval.
    pub accuracy: Estimate,
    /// By the words, where there are texts.
    pub words: Option<Classes>,
    /// How much more the probe gets right than the words.
    pub over_words: Option<Difference>,
    /// The share of the most frequent class of the training rows among the test rows.
    pub majority: f64,
}

/// What was found of a label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct LabelReport {
    /// Its name.
    pub label: String,
    /// Positive rows of train, validation and test.
    pub positives: [u64; 3],
    /// Why there are no figures, where there are none.
    pub undefined: Option<String>,
    /// The probe at the site that is best for this label on validation rows.
    pub probe: Option<Chosen>,
    /// The AUC at each site, in the order of the report’s sites.
    pub curve: Vec<SitePoint>,
    /// What the words know.
    pub words: Option<Figures>,
    /// How much more the probe knows than the words, in AUC.
    pub over_words: Option<Difference>,
    /// The chance of such a difference, corrected for the number of labels.
    pub corrected: Option<f64>,
    /// The AUC of the text’s length.
    pub length: Option<f64>,
    /// The AUC of each shuffle of the label.
    pub shuffled: Vec<f64>,
    /// The AUC of labels by first word at the report’s site.
    pub control: Option<f64>,
    /// The AUC at the report’s site less that.
    pub selectivity: Option<f64>,
    /// The test rows that say most about the probe.
    #[serde(default)]
    pub extremes: Extremes,
}

/// Test rows that say most about a probe, without their texts, which are private.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Extremes {
    /// Those with the highest scores.
    pub strongest: Vec<Scored>,
    /// Those with the lowest.
    pub weakest: Vec<Scored>,
    /// Those on the wrong side of the threshold, the furthest from it first.
    pub most_wrong: Vec<Scored>,
}

/// A row with its score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Scored {
    /// Its place among the rows of the states, from 0.
    pub row: usize,
    /// What the probe says of it: the higher, the likelier the label. No probability.
    pub score: f32,
    /// Whether it has the label.
    pub positive: bool,
}

/// A probe that was chosen on validation rows, with its figures on test rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "specta",
    derive(specta::Type),
    serde(rename = "ChosenProbe")
)]
pub struct Chosen {
    /// Where it reads.
    pub site: String,
    /// How much rows count beside the penalty.
    pub c: f64,
    /// The AUC by which it was chosen.
    pub validation: f64,
    /// Scores from here on are called positive: the highest F1 on validation rows.
    pub threshold: f32,
    /// Scores to probabilities, fitted on validation rows.
    pub scale: Option<Scale>,
    /// Whether the solver reached the optimum.
    pub converged: bool,
    /// What it does on test rows.
    pub test: Figures,
}

/// A site of a label’s curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct SitePoint {
    /// The AUC on validation rows.
    pub validation: f64,
    /// The AUC on test rows.
    pub test: Estimate,
    /// Whether the paired interval of its difference to the label’s chosen site holds 0.
    pub is_as_good: bool,
    /// Whether the paired interval of its difference to the words holds 0 or less: the words may do as well, or do better.
    pub words_do_as_well: bool,
}

/// Figures of scores on test rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "specta",
    derive(specta::Type),
    serde(rename = "ProbeFigures")
)]
pub struct Figures {
    /// The area under the curve of true and false positives.
    pub auc: Estimate,
    /// The average precision; its floor is the share of positives.
    pub average_precision: f64,
    /// The share of positives.
    pub prevalence: f64,
    /// At the threshold from validation rows.
    pub at_threshold: AtThreshold,
    /// At a probability of one half, for comparison.
    pub at_half: AtThreshold,
    /// The share that is right when every row is called what most rows are.
    pub majority: f64,
    /// The precision where nine of ten positives are found.
    pub precision_at_recall: Option<f64>,
    /// Positives found at one and at five false alarms in a hundred negatives.
    pub recall_at: Vec<RecallAt>,
    /// Brier’s score of the probabilities.
    pub brier: f64,
    /// The expected calibration error.
    pub calibration_error: f64,
    /// Probabilities beside how often they come true.
    pub bins: Vec<Bin>,
    /// What thresholds do, from the highest to the lowest.
    #[serde(default)]
    pub points: Vec<Point>,
}

/// What is called positive from a threshold on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct AtThreshold {
    /// A row whose score is at least this is called positive.
    pub threshold: f32,
    /// Rows of all four kinds.
    pub confusion: Confusion,
    /// Of those called positive, how many are.
    pub precision: f64,
    /// Of the positives, how many are called so.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
    /// The share of rows that are called what they are.
    pub accuracy: f64,
    /// The mean share over both classes.
    pub balanced_accuracy: Option<f64>,
    /// Matthews’ correlation.
    pub matthews: f64,
}

impl AtThreshold {
    /// Of these scores.
    pub fn of(scores: &[f32], positive: &[bool], threshold: f32) -> Self {
        let confusion = Confusion::at(scores, positive, threshold);
        Self {
            threshold,
            confusion,
            precision: confusion.precision(),
            recall: confusion.recall(),
            f1: confusion.f1(),
            accuracy: confusion.accuracy(),
            balanced_accuracy: confusion.balanced_accuracy(),
            matthews: confusion.matthews(),
        }
    }
}

impl Figures {
    /// Of scores of test rows, with the choices that were made on validation rows. `None` without rows of both classes.
    pub fn of(
        scores: &[f32],
        positive: &[bool],
        (threshold, scale): (f32, Option<Scale>),
        interval: Option<Interval>,
    ) -> Option<Self> {
        let ranking = Ranking::new(scores);
        let value = ranking.auc(positive)?;
        let probability = |score: &f32| match scale {
            Some(scale) => scale.probability(*score),
            None => calibration::probability(*score),
        };
        let probabilities: Vec<f64> = scores.iter().map(probability).collect();
        let bins = calibration::bins(&probabilities, positive);
        let yes = positive.iter().filter(|it| **it).count() as f64;
        let prevalence = yes / positive.len() as f64;
        let recall_at = [0.01, 0.05].map(|rate| ranking.recall_at(positive, rate));
        Some(Self {
            auc: Estimate { value, interval },
            average_precision: ranking.average_precision(positive)?,
            prevalence,
            at_threshold: AtThreshold::of(scores, positive, threshold),
            at_half: AtThreshold::of(scores, positive, 0.0),
            majority: prevalence.max(1.0 - prevalence),
            precision_at_recall: ranking.precision_at_recall(positive, 0.9),
            recall_at: recall_at.into_iter().flatten().collect(),
            brier: calibration::brier(&probabilities, positive)?,
            calibration_error: calibration::error(&bins)?,
            bins,
            points: ranking.points(positive, &[threshold, 0.0]),
        })
    }
}

impl Extremes {
    /// How many of each kind are kept.
    pub const MAX: usize = 20;

    /// Of scores of these rows.
    pub fn of(rows: &[usize], scores: &[f32], positive: &[bool], threshold: f32) -> Self {
        let scored = rows.iter().zip(scores).zip(positive);
        let scored = scored.map(|((&row, &score), &positive)| Scored {
            row,
            score,
            positive,
        });
        let scored: Vec<Scored> = scored.collect();
        let is_wrong = |it: &&Scored| it.positive != (it.score >= threshold);
        let wrong = scored.iter().filter(is_wrong).copied().collect();
        Self {
            strongest: first(scored.clone(), |it| it.score),
            weakest: first(scored, |it| -it.score),
            most_wrong: first(wrong, |it| (it.score - threshold).abs()),
        }
    }
}

/// The rows of which something is largest; of equal ones the first.
fn first(mut rows: Vec<Scored>, of: impl Fn(&Scored) -> f32) -> Vec<Scored> {
    rows.sort_by(|a, b| of(b).total_cmp(&of(a)));
    rows.truncate(Extremes::MAX);
    rows
}
