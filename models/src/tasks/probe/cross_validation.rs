//! What probes come to on every row, where there are too few for a part to report on: cross-validation in two levels.
//!
//! Rows are divided into folds, and a group is in one of them. Each fold is judged once, by probes whose site and penalty were
//! chosen by cross-validation over the other folds, and whose weights were then learned from all of those. So no figure is of a row
//! that anything was chosen by (Stone, 1974; Varma and Simon, 2006), and the words are treated in the same way. Two folds share what
//! is learned without both of them: with 5 folds, 10 paths of penalties are learned at a site, and not 20.
//!
//! Deliberately absent: probes to keep. They are those of the study, of which these are the figures of the procedure.

use std::collections::BTreeMap;

use super::{
    baselines,
    bootstrap::Draws,
    classes::mean,
    examples::Examples,
    features::{Features, Sparse},
    fitting::{self, Choices, Parts, Truth},
    ranking::Ranking,
    report::{CrossValidated, CrossValidation},
    scale::Standard,
    split,
    study::{Settings, Source, draws},
    verdict::{Drawn, best, choosable},
    words::Words,
};
use crate::Result;

/// The fewest folds that leave two to choose with.
pub const FEWEST: usize = 3;
/// The most: each pair of them is learned without.
pub const MOST: usize = 10;

/// Which rows are judged together.
#[derive(Debug, Clone)]
pub struct Folds {
    /// How many there are.
    pub count: usize,
    /// The fold of each of n rows.
    of: Vec<usize>,
    /// The labels that have rows of both kinds in every fold, by their places.
    labels: Vec<usize>,
}

/// The AUC of each label at each penalty, on one fold and without another: of two folds that are the same, nothing. Its numbers stand
/// as [folds without][folds judged][labels][penalties].
pub type Tried = Vec<f64>;

/// Features of rows: those that are learned from, and twice others. They follow from the first alone.
type Make<'a> = dyn Fn([&[usize]; 3]) -> [Made; 3] + 'a;

/// Features that belong to whoever made them.
enum Made {
    Dense(Vec<f32>, usize),
    Sparse(Sparse),
}

impl Made {
    fn features(&self) -> Features<'_> {
        match self {
            Self::Dense(numbers, width) => Features::Dense(numbers, *width),
            Self::Sparse(sparse) => Features::Sparse(sparse),
        }
    }
}

impl Folds {
    /// Divides rows by their groups, labels as evenly as those permit. Nothing where no label has rows of both kinds in every fold.
    pub fn of(examples: &Examples, count: usize, seed: u64) -> Option<Self> {
        let shares = vec![1.0 / count as f64; count];
        let of = split::divide(&examples.groups, &examples.strata(), &shares, seed);
        Some(Self::new(examples, count, of)).filter(|it| !it.labels.is_empty())
    }

    /// Folds that are known: one for each row.
    pub fn new(examples: &Examples, count: usize, of: Vec<usize>) -> Self {
        let is_defined = |label: &usize| {
            (0..count).all(|fold| {
                let rows = of.iter().zip(&examples.positive[*label]);
                let mut kinds = rows.filter(|(it, _)| **it == fold).map(|(_, kind)| *kind);
                let first = kinds.next();
                first.is_some_and(|first| kinds.any(|kind| kind != first))
            })
        };
        Self {
            count,
            labels: (0..examples.labels.len()).filter(is_defined).collect(),
            of,
        }
    }

    fn rows(&self, is_meant: impl Fn(usize) -> bool) -> Vec<usize> {
        let rows = self.of.iter().enumerate();
        rows.filter(|(_, fold)| is_meant(**fold))
            .map(|(row, _)| row)
            .collect()
    }

    /// How many numbers a site’s [`Tried`] has.
    pub fn tried(&self, penalties: usize) -> usize {
        self.count * self.count * self.labels.len() * penalties
    }

    /// Tries all penalties at a site of states [n, d].
    pub(super) fn try_states(
        &self,
        (numbers, width): (&[f32], usize),
        examples: &Examples,
        choices: &Choices,
    ) -> Tried {
        self.try_all(examples, &states(numbers, width), choices)
    }

    fn try_all(&self, examples: &Examples, make: &Make<'_>, choices: &Choices) -> Tried {
        let penalties = choices.tried().len();
        let mut tried = vec![f64::NAN; self.tried(penalties)];
        for one in 0..self.count {
            for other in 0..one {
                let rows = [
                    self.rows(|it| it != one && it != other),
                    self.rows(|it| it == one),
                    self.rows(|it| it == other),
                ];
                let truths = self.truths(examples, &rows);
                let made = make(rows.each_ref().map(|it| &it[..]));
                let parts = Parts(made.each_ref().map(Made::features));
                for (label, aucs) in fitting::aucs(parts, &truths, choices).iter().enumerate() {
                    for (penalty, [of_one, of_other]) in aucs.iter().enumerate() {
                        let at = |without, judged| {
                            self.at((without, judged), (label, penalty), penalties)
                        };
                        tried[at(other, one)] = *of_one;
                        tried[at(one, other)] = *of_other;
                    }
                }
            }
        }
        tried
    }

    /// Where the AUC of a label at a penalty stands.
    fn at(
        &self,
        (without, judged): (usize, usize),
        (label, penalty): (usize, usize),
        penalties: usize,
    ) -> usize {
        ((without * self.count + judged) * self.labels.len() + label) * penalties + penalty
    }

    fn truths(&self, examples: &Examples, rows: &[Vec<usize>; 3]) -> Vec<Truth> {
        let labels = self.labels.iter();
        labels.map(|&it| examples.truth(it, rows)).collect()
    }

    /// The penalty of a label that the other folds choose without this one, with its mean AUC on them: of those that can’t be told
    /// from the best, the one that holds weights down most.
    fn chosen(
        &self,
        tried: &Tried,
        without: usize,
        label: usize,
        examples: &Examples,
        penalties: usize,
    ) -> (usize, f64) {
        let mean_of = |penalty: usize| {
            let judged = (0..self.count).filter(|judged| *judged != without);
            let aucs = judged.map(|it| tried[self.at((without, it), (label, penalty), penalties)]);
            mean(&aucs.collect::<Vec<f64>>()).unwrap_or_default()
        };
        let means: Vec<f64> = (0..penalties).map(mean_of).collect();
        let truth = &examples.positive[self.labels[label]];
        let rows = self.rows(|it| it != without);
        let yes = rows.iter().filter(|row| truth[**row]).count();
        let first = fitting::simplest(&means, yes, rows.len() - yes).unwrap_or(0);
        (first, means[first])
    }

    /// Scores of a fold’s rows by labels with their penalties, learned from all other folds.
    fn scores(
        &self,
        fold: usize,
        examples: &Examples,
        make: &Make<'_>,
        picked: &[(usize, usize)],
        choices: &Choices,
    ) -> Vec<Vec<f32>> {
        let rows = [
            self.rows(|it| it != fold),
            Vec::new(),
            self.rows(|it| it == fold),
        ];
        let all = self.truths(examples, &rows);
        let truths: Vec<Truth> = picked.iter().map(|(it, _)| all[*it].clone()).collect();
        let values = choices.tried();
        let penalties: Vec<f64> = picked.iter().map(|(_, it)| values[*it]).collect();
        let made = make(rows.each_ref().map(|it| &it[..]));
        let parts = Parts(made.each_ref().map(Made::features));
        fitting::fit_with(parts, &truths, &penalties, choices)
    }

    /// Chooses the sites without a fold, and scores its rows there.
    fn judge_states(
        &self,
        fold: usize,
        tried: &[&Tried],
        (examples, source): (&Examples, &mut Source<'_>),
        choices: &Choices,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Judged>> {
        let penalties = choices.tried().len();
        let chosen =
            |site: usize, label| self.chosen(tried[site], fold, label, examples, penalties);
        let labels = 0..self.labels.len();
        let mean_at = |site: usize| {
            let aucs = labels.clone().map(|label| chosen(site, label).1);
            mean(&aucs.collect::<Vec<f64>>()).unwrap_or_default()
        };
        let sites = choosable(&source.sites);
        let own = |label| best(sites.clone(), |site| chosen(site, label).1);
        let mut of = Judged {
            site: best(sites.clone(), mean_at),
            own_sites: labels.clone().map(own).collect(),
            common: vec![Vec::new(); labels.len()],
            own: vec![Vec::new(); labels.len()],
            words: Vec::new(),
        };
        // Each site that is needed is read once.
        let mut needed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (label, site) in of.own_sites.iter().enumerate() {
            needed.entry(*site).or_default().push(label);
        }
        needed.insert(of.site, labels.collect());
        let all: Vec<usize> = (0..examples.rows()).collect();
        for (site, labels) in needed {
            if !goes_on() {
                return Ok(None);
            }
            let picked = labels.iter().map(|&label| (label, chosen(site, label).0));
            let picked: Vec<(usize, usize)> = picked.collect();
            let numbers = (source.read)(site, &all)?;
            let make = states(&numbers, source.width);
            let scores = self.scores(fold, examples, &make, &picked, choices);
            for (label, scores) in labels.into_iter().zip(scores) {
                if of.own_sites[label] == site {
                    of.own[label].clone_from(&scores);
                }
                if of.site == site {
                    of.common[label] = scores;
                }
            }
        }
        Ok(Some(of))
    }
}

/// Features of states, standardised by those that are learned from.
fn states(numbers: &[f32], width: usize) -> impl Fn([&[usize]; 3]) -> [Made; 3] {
    move |rows| {
        let of = |rows: &[usize]| -> Vec<f32> {
            let each = rows.iter();
            each.flat_map(|row| &numbers[row * width..][..width])
                .copied()
                .collect()
        };
        let mut made = rows.map(of);
        let standard = Standard::of(&made[0], width);
        made.iter_mut().for_each(|it| standard.apply(it));
        made.map(|it| Made::Dense(it, width))
    }
}

/// Features of texts, of the words of those that are learned from.
fn words(examples: &Examples) -> impl Fn([&[usize]; 3]) -> [Made; 3] {
    move |rows| {
        let texts = rows.map(|rows| -> Vec<&str> {
            rows.iter().map(|&row| &examples.texts[row][..]).collect()
        });
        let words = Words::of(&texts[0]);
        texts.map(|it| Made::Sparse(words.rows(&it)))
    }
}

/// What was found of a fold.
#[derive(Default)]
struct Judged {
    /// The site that the other folds choose for all labels together.
    site: usize,
    /// The site that they choose for each label.
    own_sites: Vec<usize>,
    /// Scores of its rows at the common site, and at that of each label.
    common: Vec<Vec<f32>>,
    own: Vec<Vec<f32>>,
    /// Those of the words.
    words: Vec<Vec<f32>>,
}

/// Judges every fold by what was tried at each site, and reads the sites that were chosen again. Nothing where `goes_on` says no.
///
/// Errors: those of the source.
pub(super) fn judge(
    folds: &Folds,
    tried: &[&Tried],
    (examples, source): (&Examples, &mut Source<'_>),
    settings: &Settings,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Option<CrossValidation>> {
    let choices = settings.choices();
    let mut judged = Vec::new();
    for fold in 0..folds.count {
        let known = (examples, &mut *source);
        match folds.judge_states(fold, tried, known, &choices, goes_on)? {
            Some(of) => judged.push(of),
            None => return Ok(None),
        }
    }
    if examples.have_texts() {
        let choices = baselines::of_words(&choices);
        let make = words(examples);
        let tried = folds.try_all(examples, &make, &choices);
        for (fold, of) in judged.iter_mut().enumerate() {
            if !goes_on() {
                return Ok(None);
            }
            let penalties = choices.tried().len();
            let chosen = |label| folds.chosen(&tried, fold, label, examples, penalties);
            let labels = 0..folds.labels.len();
            let picked: Vec<(usize, usize)> = labels.map(|it| (it, chosen(it).0)).collect();
            of.words = folds.scores(fold, examples, &make, &picked, &choices);
        }
    }
    let found = report(folds, &judged, examples, (&source.sites, settings));
    Ok(Some(found))
}

/// Figures of what was scored: the mean over folds of the AUC in each, with the draws of each.
fn report(
    folds: &Folds,
    judged: &[Judged],
    examples: &Examples,
    (sites, settings): (&[String], &Settings),
) -> CrossValidation {
    let rows: Vec<Vec<usize>> = (0..folds.count)
        .map(|fold| folds.rows(|it| it == fold))
        .collect();
    let draws = rows.iter().map(|rows| draws(examples, rows, settings));
    let draws: Vec<Draws> = draws.collect();
    // A label over all folds.
    let drawn = |label: usize, scores: &dyn Fn(&Judged) -> Vec<f32>| {
        let each = judged.iter().zip(&rows).zip(&draws);
        let each: Vec<Drawn> = each
            .map(|((it, rows), draws)| {
                let truth = &examples.positive[folds.labels[label]];
                let truth: Vec<bool> = rows.iter().map(|&row| truth[row]).collect();
                Drawn::of(&Ranking::new(&scores(it)), &truth, draws)
            })
            .collect();
        Drawn::mean(each.iter())
    };
    let labels = 0..folds.labels.len();
    let all = |scores: &dyn Fn(&Judged, usize) -> Vec<f32>| -> Vec<Drawn> {
        labels
            .clone()
            .map(|label| drawn(label, &|it| scores(it, label)))
            .collect()
    };
    let (common, own) = (
        all(&|it, at| it.common[at].clone()),
        all(&|it, at| it.own[at].clone()),
    );
    let words = examples
        .have_texts()
        .then(|| all(&|it, at| it.words[at].clone()));
    let figures =
        |probe: &Drawn, words: Option<&Drawn>, site: &dyn Fn(&Judged) -> usize| CrossValidated {
            auc: probe.estimate(),
            words: words.map(Drawn::estimate),
            over_words: words.and_then(|it| probe.over(it)),
            sites: judged.iter().map(|it| sites[site(it)].clone()).collect(),
        };
    let mean_of_words = words.as_ref().map(|it| Drawn::mean(it.iter()));
    let mut of_labels: Vec<Option<CrossValidated>> = vec![None; examples.labels.len()];
    for (at, &label) in folds.labels.iter().enumerate() {
        let words = words.as_ref().map(|it| &it[at]);
        of_labels[label] = Some(figures(&own[at], words, &|it| it.own_sites[at]));
    }
    CrossValidation {
        folds: folds.count as u64,
        all: figures(&Drawn::mean(common.iter()), mean_of_words.as_ref(), &|it| {
            it.site
        }),
        labels: of_labels,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const COUNT: usize = 5;
    const ROWS: usize = 250;

    /// Digits without texts, of classes as a text of digits.
    fn examples(classes: &str) -> Examples {
        let positive = |digit: u8| {
            let classes = classes.bytes().take(ROWS);
            classes.map(|it| it == b'0' + digit).collect()
        };
        Examples {
            labels: ["1", "5", "8"].map(str::to_owned).to_vec(),
            positive: [1, 5, 8].map(positive).to_vec(),
            texts: vec![String::new(); ROWS],
            groups: (0..ROWS as u64).collect(),
            ..Examples::default()
        }
    }

    #[test]
    fn folds_choose_and_judge_as_the_reference_does() {
        // The numbers were made by `tests/goldens/probes.py`.
        let read = |text| -> Value { serde_json::from_str(text).unwrap() };
        let golden = read(include_str!("../../../../tests/goldens/probe/folds.json"));
        let solvers = read(include_str!("../../../../tests/goldens/probe/solvers.json"));
        let pixels = solvers["digits"].as_str().unwrap();
        let examples = examples(solvers["classes"].as_str().unwrap());
        let settings = Settings {
            penalties: vec![1e-3, 1e-2, 1.0],
            draws: 50,
            ..Settings::default()
        };
        let mut read = |site: usize, rows: &[usize]| -> Result<Vec<f32>> {
            let line = (2 * site + 1) * 8;
            let of = |row: &usize| pixels.as_bytes()[row * 64 + line..][..8].iter();
            Ok(rows
                .iter()
                .flat_map(of)
                .map(|it| f32::from(it - b'a'))
                .collect())
        };
        let folds = Folds::new(&examples, COUNT, (0..ROWS).map(|row| row % COUNT).collect());
        let all: Vec<usize> = (0..ROWS).collect();
        let tried: Vec<Tried> = (0..3)
            .map(|site| {
                let numbers = read(site, &all).unwrap();
                folds.try_states((&numbers, 8), &examples, &settings.choices())
            })
            .collect();
        let sites = ["block.0", "block.1", "block.2"]
            .map(str::to_owned)
            .to_vec();
        let mut source = Source {
            sites: sites.clone(),
            width: 8,
            read: &mut read,
        };
        let tried: Vec<&Tried> = tried.iter().collect();
        let known = (&examples, &mut source);
        let found = judge(&folds, &tried, known, &settings, &mut || true)
            .unwrap()
            .unwrap();
        let name = |it: &Value| sites[it.as_u64().unwrap() as usize].clone();
        let chosen = golden["chosen"].as_array().unwrap();
        let common: Vec<String> = chosen.iter().map(|it| name(&it["common"])).collect();
        assert_eq!(found.all.sites, common);
        let mean_of = |name: &str| {
            let aucs = golden[name].as_array().unwrap().iter();
            mean(&aucs.map(|it| it.as_f64().unwrap()).collect::<Vec<_>>()).unwrap()
        };
        assert!((found.all.auc.value - mean_of("common")).abs() < 1e-9);
        for (label, of_label) in found.labels.iter().enumerate() {
            let of_label = of_label.as_ref().unwrap();
            let own: Vec<String> = chosen.iter().map(|it| name(&it["own"][label])).collect();
            assert_eq!(of_label.sites, own, "{label}");
            let expected = golden["own"][label].as_f64().unwrap();
            assert!(
                (of_label.auc.value - expected).abs() < 1e-9,
                "{label}: {of_label:?}"
            );
            let interval = of_label.auc.interval.unwrap();
            assert!(interval.low < expected && expected < interval.high);
            assert_eq!(of_label.words, None, "there are no texts");
        }
    }
}
