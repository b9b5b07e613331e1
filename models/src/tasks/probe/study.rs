//! A study: probes of every label at every site, what they know beyond the words, and which choices were made on which rows.
//!
//! Weights are learned on training rows; site, penalty, threshold and scale are chosen on validation rows; figures are of test rows,
//! each computed once. One site is in memory at a time. Beside every figure stand those of the words, of shuffled labels, and of
//! labels that say nothing but the first word.

use rayon::prelude::*;

use super::{
    bootstrap::{DRAWS, Draws},
    calibration::{self, Scale},
    classes::mean,
    examples::Examples,
    features::Features,
    fitting::{self, Choices, Fitted, Parts, Solver, Truth},
    ranking::Ranking,
    report::Report,
    scale::Standard,
    split::{PARTS, Part},
    verdict,
    words::Words,
};
use crate::{
    Error, Result,
    random::{Random, stable_hash},
};

/// The values of C that are tried.
pub const PENALTIES: [f64; 7] = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0];
/// The same for words, whose rows have length 1.
const WORD_PENALTIES: [f64; 4] = [0.1, 1.0, 10.0, 100.0];
/// Numbers of words that all labels of a batch have, at most: their solver remembers twenty times as many.
const WORD_NUMBERS: usize = 1 << 21;
/// The share of training rows that lie no farther from their mean than what is told of later states.
const USUAL: f64 = 0.999;
/// The site that is a baseline: what the tokens alone say.
pub const EMBED: &str = "embed";

/// How a study is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How weights are found.
    pub solver: Solver,
    /// The values of C that are tried, in rising order.
    pub penalties: Vec<f64>,
    /// Whether positive and negative rows count as much.
    pub balanced: bool,
    /// Draws of the intervals.
    pub draws: usize,
    /// Times that labels are shuffled.
    pub shuffles: usize,
    /// What everything random depends on.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            solver: Solver::Exact,
            penalties: PENALTIES.to_vec(),
            balanced: false,
            draws: DRAWS,
            shuffles: 5,
            seed: 0,
        }
    }
}

/// Reads some rows of a site, both by their places.
pub type ReadRows<'a> = dyn FnMut(usize, &[usize]) -> Result<Vec<f32>> + 'a;

/// Where states come from: the sites, and how to read some rows of one, in the order in which they are asked for.
pub struct Source<'a> {
    /// Names of the sites: `embed`, `block.0`.
    pub sites: Vec<String>,
    /// Numbers of a state.
    pub width: usize,
    /// Reads rows of a site: [rows, width].
    pub read: &'a mut ReadRows<'a>,
}

/// How far a study is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What it does: `block.14`.
    pub doing: String,
    /// Parts of the work that are done.
    pub done: usize,
    /// Parts of the work in all.
    pub all: usize,
}

/// A label’s probe at a site, as it is kept: for states that were not standardised.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Which site, by its place in the source.
    pub site: usize,
    /// Which label, by its place in the examples.
    pub label: usize,
    /// [d].
    pub weights: Vec<f32>,
    /// What is added to the weighted sum.
    pub bias: f32,
    /// C.
    pub c: f64,
    /// Whether the solver reached the optimum.
    pub converged: bool,
    /// The AUC on validation rows.
    pub validation: f64,
    /// Scores from here on are called positive: the highest F1 on validation rows.
    pub threshold: f32,
    /// Scores to probabilities, fitted on validation rows.
    pub scale: Option<Scale>,
    /// Scores of test rows.
    pub(super) test_scores: Vec<f32>,
}

/// What a study found, and its probes: every label that has figures at every site.
#[derive(Debug, Clone)]
pub struct Study {
    /// What is shown.
    pub report: Report,
    /// Site by site, and in each label by label.
    pub probes: Vec<Probe>,
    /// Means and deviations of the training rows at each site.
    pub standards: Vec<Standard>,
    /// How far from the mean 999 of 1,000 training rows lie at most, at each site.
    pub reach: Vec<f64>,
}

/// What was learned, before it is judged on test rows.
pub(super) struct Learned {
    /// Labels with rows of both kinds in every part.
    pub(super) defined: Vec<usize>,
    pub(super) truths: Vec<Truth>,
    /// [sites][defined labels].
    pub(super) probes: Vec<Vec<Probe>>,
    /// [defined labels], or none without texts.
    pub(super) words: Vec<Fitted>,
    pub(super) length: Vec<Fitted>,
    /// The site that is chosen for all labels together.
    pub(super) site: usize,
    /// [shuffles][defined labels].
    pub(super) shuffled: Vec<Vec<Option<f64>>>,
    /// [defined labels].
    pub(super) control: Vec<Option<f64>>,
    pub(super) draws: Draws,
}

/// Does a study. `tell` hears how far it is, and stops it with `false`; then there is nothing.
///
/// Errors: [`Error::Data`] when no label has rows of both kinds in every part, or when states are no numbers.
pub fn study(
    examples: &Examples,
    source: &mut Source<'_>,
    settings: &Settings,
    tell: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Option<Study>> {
    let rows = PARTS.map(|part| examples.of_part(part));
    let (defined, truths) = defined(examples, &rows)?;
    let all = source.sites.len() + 3;
    let mut step = |doing: &str, done| {
        let doing = doing.to_owned();
        tell(&Progress { doing, done, all })
    };
    if !step("words", 0) {
        return Ok(None);
    }
    let choices = settings.choices();
    let words = words(examples, &rows, &truths, &choices);
    let length = length(examples, &rows, &truths, &choices);
    let (mut probes, mut standards, mut reach) = (Vec::new(), Vec::new(), Vec::new());
    for site in 0..source.sites.len() {
        if !step(&source.sites[site], site + 1) {
            return Ok(None);
        }
        let states = read(source, site, &rows)?;
        let fitted = fitting::fit(states.parts(), &truths, &choices);
        let kept = fitted.into_par_iter().zip(&defined).zip(&truths);
        let kept = kept.map(|((it, &label), truth)| states.probe(it, (site, label), &truth[1]));
        probes.push(kept.collect::<Result<Vec<Probe>>>()?);
        reach.push(states.reach());
        standards.push(states.standard);
    }
    let site = verdict::common_site(&source.sites, &probes);
    if !step("shuffled labels", source.sites.len() + 1) {
        return Ok(None);
    }
    let states = read(source, site, &rows)?;
    let penalties: Vec<f64> = probes[site].iter().map(|it| it.c).collect();
    let shuffled = shuffled(states.parts(), &truths, &penalties, settings);
    let labels = (&defined[..], &penalties[..]);
    let control = control(examples, &rows, (states.parts(), labels), settings);
    drop(states);
    if !step("intervals", source.sites.len() + 2) {
        return Ok(None);
    }
    let draws = draws(examples, &rows[2], settings);
    let learned = Learned {
        defined,
        truths,
        words,
        length,
        site,
        shuffled,
        control,
        draws,
        probes,
    };
    let report = verdict::report(examples, &source.sites, &learned)?;
    Ok(Some(Study {
        report,
        probes: learned.probes.into_iter().flatten().collect(),
        standards,
        reach,
    }))
}

impl Settings {
    fn choices(&self) -> Choices {
        Choices {
            solver: self.solver,
            penalties: self.penalties.clone(),
            balanced: self.balanced,
            seed: self.seed,
        }
    }
}

/// Draws of the groups of test rows, spread by label.
fn draws(examples: &Examples, test: &[usize], settings: &Settings) -> Draws {
    let all = examples.strata();
    let groups: Vec<u64> = test.iter().map(|&row| examples.groups[row]).collect();
    let strata: Vec<u32> = test.iter().map(|&row| all[row]).collect();
    Draws::new(&groups, &strata, settings.draws, settings.seed)
}

/// Labels that have rows of both kinds in every part, and which rows those are.
fn defined(examples: &Examples, rows: &[Vec<usize>; 3]) -> Result<(Vec<usize>, Vec<Truth>)> {
    let truth = |label: usize| -> Truth {
        let has = |&row: &usize| examples.positive[label][row];
        rows.each_ref().map(|rows| rows.iter().map(has).collect())
    };
    let is_defined = |truth: &Truth| {
        let mut parts = truth.iter();
        parts.all(|it| it.contains(&true) && it.contains(&false))
    };
    let all = (0..examples.labels.len()).map(|label| (label, truth(label)));
    let (defined, truths): (Vec<_>, Vec<_>) = all.filter(|(_, it)| is_defined(it)).unzip();
    if defined.is_empty() {
        let [train, validation, test] = rows.each_ref().map(Vec::len);
        return Err(Error::Data(format!(
            "no label has rows with it and rows without it in all three parts ({train} to learn from, {validation} to choose \
             on, {test} to report on); label more texts, or put fewer into one group"
        )));
    }
    Ok((defined, truths))
}

/// The states of a site, standardised, part after part.
struct SiteStates {
    numbers: Vec<f32>,
    width: usize,
    ends: [usize; 3],
    standard: Standard,
}

/// Reads a site in the order of the parts, and standardises it by its training rows.
fn read(source: &mut Source<'_>, site: usize, rows: &[Vec<usize>; 3]) -> Result<SiteStates> {
    let order = rows.concat();
    let mut numbers = (source.read)(site, &order)?;
    let width = source.width;
    if let Some(at) = numbers.iter().position(|it| !it.is_finite()) {
        let (name, row) = (&source.sites[site], order[at / width] + 1);
        return Err(Error::Data(format!(
            "the state of row {row} at `{name}` has a number that is {}, so nothing can be learned from it; capture again \
             in f32",
            numbers[at]
        )));
    }
    let train = rows[0].len();
    let standard = Standard::of(&numbers[..train * width], width);
    standard.apply(&mut numbers);
    Ok(SiteStates {
        numbers,
        width,
        ends: [train, train + rows[1].len(), order.len()],
        standard,
    })
}

impl SiteStates {
    fn parts(&self) -> Parts<'_> {
        let [one, two, three] = self.ends.map(|it| it * self.width);
        let part = |from, to| Features::Dense(&self.numbers[from..to], self.width);
        Parts([part(0, one), part(one, two), part(two, three)])
    }

    /// How far from the mean all but one in a thousand training rows lie.
    fn reach(&self) -> f64 {
        let train = &self.numbers[..self.ends[0] * self.width];
        let length = |row: &[f32]| {
            row.iter()
                .map(|it| f64::from(*it).powi(2))
                .sum::<f64>()
                .sqrt()
        };
        let mut lengths: Vec<f64> = train.par_chunks(self.width.max(1)).map(length).collect();
        lengths.sort_unstable_by(f64::total_cmp);
        let at = (lengths.len() as f64 * USUAL).ceil() as usize;
        lengths
            .get(at.saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }

    fn probe(
        &self,
        it: Fitted,
        (site, label): (usize, usize),
        validation: &[bool],
    ) -> Result<Probe> {
        let (weights, bias) = self.standard.fold_back(&it.fit.weights, it.fit.bias);
        let (threshold, scale) = on_validation(&it.validation_scores, validation)?;
        Ok(Probe {
            site,
            label,
            weights: weights.iter().map(|it| *it as f32).collect(),
            bias: bias as f32,
            c: it.c,
            converged: it.fit.converged,
            validation: it.validation,
            threshold,
            scale,
            test_scores: it.test_scores,
        })
    }
}

/// The threshold with the highest F1 on validation rows, and the scale to probabilities.
pub(super) fn on_validation(scores: &[f32], positive: &[bool]) -> Result<(f32, Option<Scale>)> {
    let best = Ranking::new(scores).best_f1(positive);
    let threshold = best.map_or(0.0, |(threshold, _)| threshold);
    Ok((threshold, calibration::fit(scores, positive)?))
}

/// The texts of each part.
fn texts<'a>(examples: &'a Examples, rows: &[Vec<usize>; 3]) -> [Vec<&'a str>; 3] {
    let of = |rows: &Vec<usize>| rows.iter().map(|&row| &examples.texts[row][..]).collect();
    [0, 1, 2].map(|part: usize| of(&rows[part]))
}

/// What the words of the texts know, with choices of their own. Nothing without texts, which is said and not guessed.
fn words(
    examples: &Examples,
    rows: &[Vec<usize>; 3],
    truths: &[Truth],
    choices: &Choices,
) -> Vec<Fitted> {
    if !examples.have_texts() {
        return Vec::new();
    }
    let texts = texts(examples, rows);
    let words = Words::of(&texts[0]);
    let rows = texts.each_ref().map(|it| words.rows(it));
    let parts = Parts(rows.each_ref().map(Features::Sparse));
    let choices = Choices {
        solver: Solver::Exact,
        penalties: WORD_PENALTIES.to_vec(),
        ..choices.clone()
    };
    let at_once = (WORD_NUMBERS / rows[0].width.max(1)).max(1);
    let fit = |truths: &[Truth]| {
        let mut fitted = fitting::fit(parts, truths, &choices);
        // Only their scores are wanted, and weights of all words of all labels are many.
        fitted.iter_mut().for_each(|it| it.fit.weights = Vec::new());
        fitted
    };
    truths.chunks(at_once).flat_map(fit).collect()
}

/// What the length of the texts knows, in letters and in tokens. Nothing without texts.
fn length(
    examples: &Examples,
    rows: &[Vec<usize>; 3],
    truths: &[Truth],
    choices: &Choices,
) -> Vec<Fitted> {
    if !examples.have_texts() {
        return Vec::new();
    }
    let of = |row: usize| {
        let letters = examples.texts[row].chars().count();
        [letters, examples.tokens[row]].map(|it| (it as f32).ln_1p())
    };
    let mut numbers = rows
        .each_ref()
        .map(|it| it.iter().flat_map(|&row| of(row)).collect::<Vec<f32>>());
    let standard = Standard::of(&numbers[0], 2);
    numbers.iter_mut().for_each(|it| standard.apply(it));
    let parts = Parts(numbers.each_ref().map(|it| Features::Dense(it, 2)));
    let choices = Choices {
        solver: Solver::Exact,
        penalties: vec![1.0],
        ..choices.clone()
    };
    fitting::fit(parts, truths, &choices)
}

/// The test AUC of each label when rows of each part exchange their labels before anything is learned.
fn shuffled(
    parts: Parts<'_>,
    truths: &[Truth],
    penalties: &[f64],
    settings: &Settings,
) -> Vec<Vec<Option<f64>>> {
    let shuffle = |number: usize| {
        let mut random = Random::for_purpose(settings.seed, &format!("probe shuffle {number}"));
        let orders = [0, 1, 2].map(|part: usize| {
            let mut order: Vec<usize> = (0..parts.0[part].rows()).collect();
            random.shuffle(&mut order);
            order
        });
        let shuffled = |truth: &Truth| -> Truth {
            [0, 1, 2].map(|part: usize| orders[part].iter().map(|&row| truth[part][row]).collect())
        };
        let truths: Vec<Truth> = truths.iter().map(shuffled).collect();
        test_aucs(parts, &truths, penalties, settings)
    };
    (0..settings.shuffles).map(shuffle).collect()
}

/// The test AUC of labels that each distinct first word was given by chance: of each label, those of some row.
fn control(
    examples: &Examples,
    rows: &[Vec<usize>; 3],
    (parts, (defined, penalties)): (Parts<'_>, (&[usize], &[f64])),
    settings: &Settings,
) -> Vec<Option<f64>> {
    if !examples.have_texts() {
        return vec![None; defined.len()];
    }
    let donor = |row: usize| {
        let first = examples.texts[row]
            .split_whitespace()
            .next()
            .unwrap_or_default();
        let hash = stable_hash(settings.seed, first.to_lowercase().as_bytes());
        Random::new(hash).below(examples.rows())
    };
    let donors = rows
        .each_ref()
        .map(|it| it.iter().map(|&row| donor(row)).collect::<Vec<_>>());
    let truth = |&label: &usize| -> Truth {
        let of = |donors: &Vec<usize>| {
            donors
                .iter()
                .map(|&row| examples.positive[label][row])
                .collect()
        };
        [0, 1, 2].map(|part: usize| of(&donors[part]))
    };
    let truths: Vec<Truth> = defined.iter().map(truth).collect();
    test_aucs(parts, &truths, penalties, settings)
}

fn test_aucs(
    parts: Parts<'_>,
    truths: &[Truth],
    penalties: &[f64],
    settings: &Settings,
) -> Vec<Option<f64>> {
    // Solvers without a penalty are checked by the one that has one.
    let penalties: Vec<f64> = penalties
        .iter()
        .map(|c| if *c > 0.0 { *c } else { 1e-3 })
        .collect();
    let scores = fitting::fit_with(parts, truths, &penalties, settings.balanced);
    let each = scores.par_iter().zip(truths);
    each.map(|(scores, truth)| Ranking::new(scores).auc(&truth[2]))
        .collect()
}

impl Learned {
    /// The mean over labels of figures that are defined.
    pub(super) fn mean_of(figures: &[Option<f64>]) -> Option<f64> {
        mean(&figures.iter().flatten().copied().collect::<Vec<f64>>())
    }
}

impl Examples {
    /// Rows of train, validation and test.
    pub fn sizes(&self) -> [u64; 3] {
        let of = |part: Part| self.parts.iter().filter(|it| **it == part).count() as u64;
        PARTS.map(of)
    }
}
