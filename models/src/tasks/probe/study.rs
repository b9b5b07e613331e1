//! A study: probes of every label at every site, what they know beyond the words, and which choices were made on which rows.
//!
//! Weights are learned on training rows; site, penalty, threshold and scale are chosen on validation rows; figures are of test rows,
//! each computed once. One site is in memory at a time. Beside every figure stand those of the words, of shuffled labels, and of
//! labels that say nothing but the first word.

use rayon::prelude::*;

use super::{
    baselines,
    bootstrap::{DRAWS, Draws},
    calibration::{self, Scale},
    classes::mean,
    cross_validation::{self, Folds, Tried},
    examples::Examples,
    features::Features,
    fitting::{self, Choices, Fitted, Parts, Solver, SolverName, Truth},
    ranking::Ranking,
    report::Report,
    scale::Standard,
    split::{PARTS, Part},
    states::States,
    verdict,
};
use crate::{Error, Result, arch::sites::Site};

/// The values of C that are tried.
pub const PENALTIES: [f64; 7] = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0];
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
    /// Folds of the cross-validation beside the three parts; 0 is none.
    pub folds: usize,
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
            folds: 0,
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

impl<'a> Source<'a> {
    /// Of captured states, those of some sites, read by [`States::read_rows`].
    pub fn of(states: &States, sites: &[Site], read: &'a mut ReadRows<'a>) -> Self {
        Self {
            sites: sites.iter().map(Site::to_string).collect(),
            width: states.about().width,
            read,
        }
    }
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
    /// How weights were found.
    pub solver: SolverName,
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
    let mut course = Course::new(examples, settings)?;
    let all = source.sites.len() + 3;
    for site in 0..source.sites.len() {
        let doing = source.sites[site].clone();
        if !tell(&Progress {
            doing,
            done: site,
            all,
        }) {
            return Ok(None);
        }
        course.learn(examples, source, settings)?;
    }
    course.judge(examples, source, settings, tell)
}

/// A study in the making: sites are learned one after another, and judged together. Between two of them it can be saved.
#[derive(Debug, Clone)]
pub struct Course {
    rows: [Vec<usize>; 3],
    /// Labels with rows of both kinds in every part.
    defined: Vec<usize>,
    truths: Vec<Truth>,
    /// All rows in folds, where they are cross-validated.
    folds: Option<Folds>,
    /// The sites that are learned, in the order of the source.
    pub(super) sites: Vec<LearnedSite>,
}

/// What was learned of a site.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedSite {
    /// A probe for each label that has figures.
    pub probes: Vec<Probe>,
    /// Means and deviations of the training rows.
    pub standard: Standard,
    /// How far from the mean 999 of 1,000 training rows lie at most.
    pub reach: f64,
    /// The mean loss of a validation row and label, in nats.
    pub validation_loss: f64,
    /// What the folds made of each penalty here. Empty where there are none.
    pub(super) tried: Tried,
}

impl LearnedSite {
    /// The mean AUC on validation rows.
    pub fn validation(&self) -> f64 {
        let aucs: Vec<f64> = self.probes.iter().map(|it| it.validation).collect();
        mean(&aucs).unwrap_or(f64::NAN)
    }
}

impl Course {
    /// Before the first site.
    ///
    /// Errors: [`Error::Data`] when no label has rows of both kinds in every part.
    pub fn new(examples: &Examples, settings: &Settings) -> Result<Self> {
        let rows = PARTS.map(|part| examples.of_part(part));
        let (defined, truths) = defined(examples, &rows)?;
        let folds = settings.has_folds().then_some(settings.folds);
        Ok(Self {
            rows,
            defined,
            truths,
            folds: folds.and_then(|count| Folds::of(examples, count, settings.seed)),
            sites: Vec::new(),
        })
    }

    /// The sites that are learned, in the order of the source.
    pub fn sites(&self) -> &[LearnedSite] {
        &self.sites
    }

    /// Places of the labels that have figures.
    pub(super) fn defined(&self) -> &[usize] {
        &self.defined
    }

    /// How many times a label is told of a validation row.
    pub fn validation_targets(&self) -> usize {
        self.rows[1].len() * self.defined.len()
    }

    /// How many numbers the folds make of a site.
    pub(super) fn tried(&self, settings: &Settings) -> usize {
        let penalties = settings.choices().tried().len();
        self.folds.as_ref().map_or(0, |it| it.tried(penalties))
    }

    /// Rows of the part to report on.
    pub(super) fn test_rows(&self) -> usize {
        self.rows[2].len()
    }

    /// Learns the next site.
    ///
    /// Errors: [`Error::Data`] when states are no numbers.
    pub fn learn(
        &mut self,
        examples: &Examples,
        source: &mut Source<'_>,
        settings: &Settings,
    ) -> Result<()> {
        let site = self.sites.len();
        let (choices, width) = (settings.choices(), source.width);
        let (tried, states) = match &self.folds {
            Some(folds) => {
                let all: Vec<usize> = (0..examples.rows()).collect();
                let numbers = read_finite(source, site, &all)?;
                let tried = folds.try_states((&numbers, width), examples, &choices);
                let order = self.rows.concat();
                let in_parts = order
                    .iter()
                    .flat_map(|row| &numbers[row * width..][..width]);
                let in_parts = in_parts.copied().collect();
                (tried, SiteStates::new(in_parts, width, &self.rows))
            }
            None => (Tried::new(), read(source, site, &self.rows)?),
        };
        let fitted = fitting::fit(states.parts(), &self.truths, &choices);
        let losses = fitted.iter().zip(&self.truths);
        let losses: Vec<f64> = losses
            .map(|(it, truth)| log_loss(&it.validation_scores, &truth[1]))
            .collect();
        let kept = fitted.into_par_iter().zip(&self.defined).zip(&self.truths);
        let kept = kept.map(|((it, &label), truth)| states.probe(it, (site, label), &truth[1]));
        self.sites.push(LearnedSite {
            probes: kept.collect::<Result<_>>()?,
            reach: states.reach(),
            standard: states.standard,
            validation_loss: mean(&losses).unwrap_or(f64::NAN),
            tried,
        });
        Ok(())
    }

    /// Judges what was learned of all sites, beside what the words say. `tell` hears what is done, and stops it with `false`; then
    /// there is nothing, and it can be judged again.
    ///
    /// Errors: those of the source.
    pub fn judge(
        &self,
        examples: &Examples,
        source: &mut Source<'_>,
        settings: &Settings,
        tell: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Option<Study>> {
        let (rows, truths, defined) = (&self.rows, &self.truths, &self.defined);
        let learned_sites = source.sites.len();
        let mut step = |doing: &str, more: usize| {
            let (done, all) = (learned_sites + more, learned_sites + 3);
            let doing = doing.to_owned();
            tell(&Progress { doing, done, all })
        };
        if !step("words", 0) {
            return Ok(None);
        }
        let choices = settings.choices();
        let words = baselines::words(examples, rows, truths, &choices);
        let length = baselines::length(examples, rows, truths, &choices);
        if !step("shuffled labels", 1) {
            return Ok(None);
        }
        let probes: Vec<Vec<Probe>> = self.sites.iter().map(|it| it.probes.clone()).collect();
        let site = verdict::common_site(&source.sites, &probes);
        let states = read(source, site, rows)?;
        let penalties: Vec<f64> = probes[site].iter().map(|it| it.c).collect();
        let shuffled = baselines::shuffled(states.parts(), truths, &penalties, settings);
        let labels = (&defined[..], &penalties[..]);
        let control = baselines::control(examples, rows, (states.parts(), labels), settings);
        drop(states);
        if !step("intervals", 2) {
            return Ok(None);
        }
        let draws = draws(examples, &rows[2], settings);
        let learned = Learned {
            defined: defined.clone(),
            truths: truths.clone(),
            words,
            length,
            site,
            shuffled,
            control,
            draws,
            probes,
        };
        let mut report = verdict::report(examples, &source.sites, &learned)?;
        if let Some(folds) = &self.folds {
            let tried: Vec<&Tried> = self.sites.iter().map(|it| &it.tried).collect();
            let mut goes_on = || step("folds", 3);
            let found =
                cross_validation::judge(folds, &tried, (examples, source), settings, &mut goes_on)?;
            let Some(found) = found else {
                return Ok(None);
            };
            verdict::add_folds(&mut report, found);
        }
        Ok(Some(Study {
            report,
            solver: settings.solver.name(),
            probes: learned.probes.into_iter().flatten().collect(),
            standards: self.sites.iter().map(|it| it.standard.clone()).collect(),
            reach: self.sites.iter().map(|it| it.reach).collect(),
        }))
    }
}

/// The mean loss of logits, in nats.
fn log_loss(scores: &[f32], positive: &[bool]) -> f64 {
    let loss = |(score, is_positive): (&f32, &bool)| {
        let margin = f64::from(if *is_positive { *score } else { -*score });
        (-margin).max(0.0) + (-margin.abs()).exp().ln_1p()
    };
    scores.iter().zip(positive).map(loss).sum::<f64>() / scores.len().max(1) as f64
}

impl Settings {
    /// Whether rows are cross-validated. Weights that stop by validation rows can’t be learned without any.
    pub(super) fn has_folds(&self) -> bool {
        self.folds >= cross_validation::FEWEST && !matches!(self.solver, Solver::Adamw(_))
    }

    pub(super) fn choices(&self) -> Choices {
        Choices {
            solver: self.solver,
            penalties: self.penalties.clone(),
            balanced: self.balanced,
            seed: self.seed,
        }
    }
}

/// Draws of the groups of rows that are judged, spread by label.
pub(super) fn draws(examples: &Examples, rows: &[usize], settings: &Settings) -> Draws {
    let all = examples.strata();
    let groups: Vec<u64> = rows.iter().map(|&row| examples.groups[row]).collect();
    let strata: Vec<u32> = rows.iter().map(|&row| all[row]).collect();
    Draws::new(&groups, &strata, settings.draws, settings.seed)
}

/// Labels that have rows of both kinds in every part, and which rows those are.
fn defined(examples: &Examples, rows: &[Vec<usize>; 3]) -> Result<(Vec<usize>, Vec<Truth>)> {
    let is_defined = |truth: &Truth| {
        let mut parts = truth.iter();
        parts.all(|it| it.contains(&true) && it.contains(&false))
    };
    let all = (0..examples.labels.len()).map(|label| (label, examples.truth(label, rows)));
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

/// Reads rows of a site, all of them numbers.
fn read_finite(source: &mut Source<'_>, site: usize, order: &[usize]) -> Result<Vec<f32>> {
    let numbers = (source.read)(site, order)?;
    let width = source.width;
    if let Some(at) = numbers.iter().position(|it| !it.is_finite()) {
        let (name, row) = (&source.sites[site], order[at / width] + 1);
        return Err(Error::Data(format!(
            "the state of row {row} at `{name}` has a number that is {}, so nothing can be learned from it; capture again \
             in f32",
            numbers[at]
        )));
    }
    Ok(numbers)
}

/// Reads a site in the order of the parts.
fn read(source: &mut Source<'_>, site: usize, rows: &[Vec<usize>; 3]) -> Result<SiteStates> {
    let numbers = read_finite(source, site, &rows.concat())?;
    Ok(SiteStates::new(numbers, source.width, rows))
}

impl SiteStates {
    /// States in the order of the parts, which are standardised by the training rows.
    fn new(mut numbers: Vec<f32>, width: usize, rows: &[Vec<usize>; 3]) -> Self {
        let [train, validation, test] = rows.each_ref().map(Vec::len);
        let standard = Standard::of(&numbers[..train * width], width);
        standard.apply(&mut numbers);
        Self {
            numbers,
            width,
            ends: [train, train + validation, train + validation + test],
            standard,
        }
    }

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
