//! What a study says of what was learned: figures of test rows with their intervals, beside the words, and the sentences.

use rayon::prelude::*;

use super::{
    bootstrap::{self, Difference, Draws, difference, holm, interval},
    classes::{answers, classes, mean},
    examples::Examples,
    ranking::Ranking,
    report::{
        Chosen, ClassReport, CrossValidation, Estimate, Extremes, Figures, LabelReport, Report,
        SiteMeans, SitePoint,
    },
    split::{self, Part},
    study::{EMBED, Learned, Probe, on_validation},
};
use crate::{Result, figures::counted};

/// Positive test rows below which a figure is hardly one.
const FEW: u64 = 20;

/// A test AUC with its value in every draw.
pub(super) struct Drawn {
    value: f64,
    draws: Vec<Option<f64>>,
}

impl Drawn {
    pub(super) fn of(ranking: &Ranking, truth: &[bool], draws: &Draws) -> Self {
        Self {
            value: ranking.auc(truth).unwrap_or(f64::NAN),
            draws: draws.aucs(ranking, truth),
        }
    }

    pub(super) fn estimate(&self) -> Estimate {
        Estimate {
            value: self.value,
            interval: interval(&self.draws),
        }
    }

    pub(super) fn over(&self, other: &Self) -> Option<Difference> {
        difference((self.value, &self.draws), (other.value, &other.draws))
    }

    /// Whether all of the paired interval of the difference is above 0.
    fn is_better(&self, other: &Self) -> bool {
        self.over(other).is_some_and(|it| it.interval.low > 0.0)
    }

    /// Whether the paired interval of the difference holds 0.
    fn is_as_good(&self, other: &Self) -> bool {
        self.over(other).is_none_or(|it| !it.is_clear())
    }

    pub(super) fn mean<'a>(of: impl Iterator<Item = &'a Self>) -> Self {
        let of: Vec<&Self> = of.collect();
        let values: Vec<f64> = of.iter().map(|it| it.value).collect();
        let draws: Vec<&[Option<f64>]> = of.iter().map(|it| &it.draws[..]).collect();
        Self {
            value: mean(&values).unwrap_or(f64::NAN),
            draws: bootstrap::means(&draws),
        }
    }
}

/// Sites among which one is chosen: not the one that is a baseline, where there are others.
pub(super) fn choosable(sites: &[String]) -> Vec<usize> {
    let is_more = |at: &usize| sites[*at] != EMBED || sites.len() == 1;
    (0..sites.len()).filter(is_more).collect()
}

/// The site with the highest mean AUC on validation rows; of equal ones the first.
pub(super) fn common_site(sites: &[String], probes: &[Vec<Probe>]) -> usize {
    let mean_of = |site: usize| {
        let aucs: Vec<f64> = probes[site].iter().map(|it| it.validation).collect();
        mean(&aucs).unwrap_or(0.0)
    };
    best(choosable(sites), mean_of)
}

/// The site with the highest figure; of equal ones the first.
pub(super) fn best(sites: Vec<usize>, auc: impl Fn(usize) -> f64) -> usize {
    let first = sites[0];
    sites
        .into_iter()
        .fold(first, |best, site| match auc(site) > auc(best) {
            true => site,
            false => best,
        })
}

/// Judges what was learned.
pub(super) fn report(examples: &Examples, sites: &[String], learned: &Learned) -> Result<Report> {
    let drawn = |scores: &[f32], at: usize| {
        let ranking = Ranking::new(scores);
        Drawn::of(&ranking, &learned.truths[at][2], &learned.draws)
    };
    let labels = learned.defined.len();
    let cells: Vec<Drawn> = (0..sites.len() * labels)
        .into_par_iter()
        .map(|cell| {
            let (site, at) = (cell / labels, cell % labels);
            drawn(&learned.probes[site][at].test_scores, at)
        })
        .collect();
    let words: Vec<Drawn> = learned
        .words
        .par_iter()
        .enumerate()
        .map(|(at, it)| drawn(&it.test_scores, at))
        .collect();
    let curve = |at: usize| -> Vec<&Drawn> {
        (0..sites.len())
            .map(|site| &cells[site * labels + at])
            .collect()
    };
    let mut reports: Vec<LabelReport> = (0..examples.labels.len())
        .map(
            |label| match learned.defined.iter().position(|it| *it == label) {
                Some(at) => judged(examples, sites, learned, at, (&curve(at), words.get(at))),
                None => Ok(undefined(examples, label)),
            },
        )
        .collect::<Result<_>>()?;
    correct(&mut reports);
    let mean_at = |site: usize| Drawn::mean(cells[site * labels..(site + 1) * labels].iter());
    let means: Vec<Drawn> = (0..sites.len()).map(mean_at).collect();
    let mean_of_words = (!words.is_empty()).then(|| Drawn::mean(words.iter()));
    let mean_of = |it: &Vec<Option<f64>>| Learned::mean_of(it);
    let texts: Vec<&str> = examples.texts.iter().map(String::as_str).collect();
    let mut groups = examples.groups.clone();
    groups.sort_unstable();
    groups.dedup();
    let mut report = Report {
        headline: String::new(),
        warnings: Vec::new(),
        rows: examples.sizes(),
        groups: groups.len() as u64,
        duplicates: split::duplicates(&texts, &examples.parts),
        site: sites[learned.site].clone(),
        sites: site_means(sites, learned, &means),
        words: mean_of_words.as_ref().map(Drawn::estimate),
        over_words: mean_of_words.and_then(|it| means[learned.site].over(&it)),
        shuffled: learned.shuffled.iter().filter_map(mean_of).collect(),
        control: mean_of(&learned.control),
        classes: class_report(examples, learned),
        labels: reports,
        folds: None,
    };
    report.headline = headline(&report);
    report.warnings = warnings(&report, learned);
    Ok(report)
}

fn site_means(sites: &[String], learned: &Learned, means: &[Drawn]) -> Vec<SiteMeans> {
    let site = |at: usize| {
        let validation: Vec<f64> = learned.probes[at].iter().map(|it| it.validation).collect();
        SiteMeans {
            site: sites[at].clone(),
            validation: mean(&validation).unwrap_or(f64::NAN),
            test: means[at].estimate(),
            is_as_good: means[at].is_as_good(&means[learned.site]),
        }
    };
    (0..sites.len()).map(site).collect()
}

/// What is known of a label that has figures; `at` is its place among those.
fn judged(
    examples: &Examples,
    sites: &[String],
    learned: &Learned,
    at: usize,
    (curve, words): (&[&Drawn], Option<&Drawn>),
) -> Result<LabelReport> {
    let label = learned.defined[at];
    let [_, validation, test] = &learned.truths[at];
    let site = best(choosable(sites), |site| learned.probes[site][at].validation);
    let probe = &learned.probes[site][at];
    let test_figures = |scores: &[f32], chosen, drawn: &Drawn| {
        Figures::of(scores, test, chosen, interval(&drawn.draws))
    };
    let chosen = (probe.threshold, probe.scale);
    let of_probe = test_figures(&probe.test_scores, chosen, curve[site]);
    let of_words = match (learned.words.get(at), words) {
        (Some(it), Some(drawn)) => {
            let chosen = on_validation(&it.validation_scores, validation)?;
            test_figures(&it.test_scores, chosen, drawn)
        }
        _ => None,
    };
    let point = |at_site: usize| SitePoint {
        validation: learned.probes[at_site][at].validation,
        test: curve[at_site].estimate(),
        is_as_good: curve[at_site].is_as_good(curve[site]),
        words_do_as_well: words.is_some_and(|words| !curve[at_site].is_better(words)),
    };
    let control = learned.control[at];
    Ok(LabelReport {
        label: examples.labels[label].clone(),
        positives: positives(examples, label),
        undefined: None,
        probe: of_probe.map(|test| Chosen {
            site: sites[site].clone(),
            c: probe.c,
            validation: probe.validation,
            threshold: probe.threshold,
            scale: probe.scale,
            converged: probe.converged,
            test,
        }),
        curve: (0..sites.len()).map(point).collect(),
        words: of_words,
        over_words: words.and_then(|words| curve[site].over(words)),
        corrected: None,
        length: learned
            .length
            .get(at)
            .and_then(|it| Ranking::new(&it.test_scores).auc(test)),
        shuffled: learned.shuffled.iter().filter_map(|it| it[at]).collect(),
        control,
        selectivity: control.map(|it| curve[learned.site].value - it),
        extremes: Extremes::of(
            &examples.of_part(Part::Test),
            &probe.test_scores,
            test,
            probe.threshold,
        ),
    })
}

/// What is known of a label without rows of both kinds in every part.
fn undefined(examples: &Examples, label: usize) -> LabelReport {
    let positives = positives(examples, label);
    let [train, validation, test] = positives;
    let reason = format!(
        "too few to say anything: {} with it to learn from, {validation} to choose on, {test} to report on, and the rest without",
        counted(train, "row")
    );
    LabelReport {
        label: examples.labels[label].clone(),
        positives,
        undefined: Some(reason),
        probe: None,
        curve: Vec::new(),
        words: None,
        over_words: None,
        corrected: None,
        length: None,
        shuffled: Vec::new(),
        control: None,
        selectivity: None,
        extremes: Extremes::default(),
    }
}

fn positives(examples: &Examples, label: usize) -> [u64; 3] {
    let of = |part: Part| {
        let rows = examples.parts.iter().zip(&examples.positive[label]);
        rows.filter(|(it, positive)| **it == part && **positive)
            .count() as u64
    };
    split::PARTS.map(of)
}

/// Corrects the chances of all labels for how many there are.
fn correct(labels: &mut [LabelReport]) {
    let chance = |it: &LabelReport| it.over_words.map(|it| it.p);
    let corrected = holm(&labels.iter().filter_map(chance).collect::<Vec<f64>>());
    let with = labels.iter_mut().filter(|it| it.over_words.is_some());
    for (label, corrected) in with.zip(corrected) {
        label.corrected = Some(corrected);
    }
}

/// Labels as classes, where every row has one and every label has figures.
fn class_report(examples: &Examples, learned: &Learned) -> Option<ClassReport> {
    let all = examples.classes()?;
    if learned.defined.len() < examples.labels.len() {
        return None;
    }
    let of =
        |part: Part| -> Vec<usize> { examples.of_part(part).iter().map(|&row| all[row]).collect() };
    let (train, truth) = (of(Part::Train), of(Part::Test));
    let probes = learned.probes[learned.site].iter();
    let probe: Vec<Vec<f32>> = probes.map(|it| it.test_scores.clone()).collect();
    let words: Vec<Vec<f32>> = learned
        .words
        .iter()
        .map(|it| it.test_scores.clone())
        .collect();
    let drawn = |scores: &[Vec<f32>]| {
        let right = answers(scores).into_iter().zip(&truth);
        let right: Vec<bool> = right.map(|(answer, class)| answer == *class).collect();
        let share = right.iter().filter(|it| **it).count() as f64 / right.len() as f64;
        Drawn {
            value: share,
            draws: learned.draws.shares(&right),
        }
    };
    let by_probe = drawn(&probe);
    let by_words = (!words.is_empty()).then(|| drawn(&words));
    let frequency = |class: &usize| train.iter().filter(|it| *it == class).count();
    let majority = (0..examples.labels.len()).max_by_key(frequency)?;
    let of_majority = truth.iter().filter(|it| **it == majority).count();
    Some(ClassReport {
        probe: classes(&probe, &truth)?,
        accuracy: by_probe.estimate(),
        words: classes(&words, &truth),
        over_words: by_words.and_then(|it| by_probe.over(&it)),
        majority: of_majority as f64 / truth.len() as f64,
    })
}

/// A figure with its interval: `0.951 (0.932–0.968)`.
fn estimate(it: &Estimate) -> String {
    match it.interval {
        Some(interval) => format!("{:.3} ({:.3}–{:.3})", it.value, interval.low, interval.high),
        None => format!("{:.3}", it.value),
    }
}

/// The study in a sentence.
fn headline(report: &Report) -> String {
    let Some(site) = report.sites.iter().find(|it| it.site == report.site) else {
        return String::new();
    };
    let mut sentence = format!("{}: AUC {}", site.site, estimate(&site.test));
    if let Some(words) = report.words {
        sentence += &format!("; words alone {:.3}", words.value);
    }
    if let Some(shuffled) = mean(&report.shuffled) {
        sentence += &format!("; shuffled labels {shuffled:.2}");
    }
    sentence += &report.over_words.map_or(String::new(), |it| compared(&it));
    sentence + "."
}

/// Adds what cross-validation found.
pub(super) fn add_folds(report: &mut Report, found: CrossValidation) {
    let all = &found.all;
    let mut sentence = format!(
        " Cross-validated in {} folds, so that every row is judged: AUC {}",
        found.folds,
        estimate(&all.auc)
    );
    if let Some(words) = &all.words {
        sentence += &format!("; words alone {:.3}", words.value);
    }
    sentence += &all.over_words.map_or(String::new(), |it| compared(&it));
    report.headline += &(sentence + ".");
    report.folds = Some(found);
}

/// Whether the states know more than the words, after a full stop.
fn compared(over: &Difference) -> String {
    let (low, high) = (over.interval.low, over.interval.high);
    match (low > 0.0, high < 0.0) {
        (true, _) => format!(". The states know more than the words, by {low:.3} to {high:.3}"),
        (_, true) => format!(
            ". The words know more than the states, by {:.3} to {:.3}",
            -high, -low
        ),
        _ => format!(
            ". The words may do as well: the difference lies between {low:.3} and {high:.3}, and 0 is within"
        ),
    }
}

/// What a reader has to know.
fn warnings(report: &Report, learned: &Learned) -> Vec<String> {
    let mut warnings = Vec::new();
    if report.words.is_none() {
        let problem =
            "the states come without their texts, so nobody can say whether the words do as well";
        warnings.push(problem.to_owned());
    }
    let undefined = report.labels.iter().filter(|it| it.undefined.is_some());
    warnings.extend(undefined.map(|it| {
        let reason = it.undefined.as_deref().unwrap_or_default();
        format!("`{}` has no figures: {reason}", it.label)
    }));
    let few = report
        .labels
        .iter()
        .filter(|it| it.undefined.is_none() && it.positives[2] < FEW);
    let few: Vec<&str> = few.map(|it| &it.label[..]).collect();
    if !few.is_empty() {
        warnings.push(format!(
            "fewer than {FEW} positive test rows, so the intervals are wide: {}",
            few.join(", ")
        ));
    }
    let left = learned
        .probes
        .iter()
        .flatten()
        .filter(|it| !it.converged)
        .count();
    if left > 0 {
        warnings.push(format!(
            "{} did not reach the optimum",
            counted(left as u64, "probe")
        ));
    }
    let duplicates = &report.duplicates;
    if duplicates.exact_across > 0 {
        warnings.push(format!(
            "{} of equal text are in different parts, so the test part is not new",
            counted(duplicates.exact_across, "row")
        ));
    }
    if duplicates.near_across > 0 {
        warnings.push(format!(
            "{} of nearly equal texts are in different parts; give them one group",
            counted(duplicates.near_across, "pair")
        ));
    }
    let shuffled = mean(&report.shuffled).filter(|it| (it - 0.5).abs() > 0.05);
    if let Some(shuffled) = shuffled {
        warnings.push(format!(
            "shuffled labels are told apart with an AUC of {shuffled:.2}, which should be 0.5: there are too few rows, or something leaks"
        ));
    }
    if report.rows[2] < 300 {
        warnings.push(format!(
            "the test part has {}, so one false alarm in a hundred is not measurable",
            counted(report.rows[2], "row")
        ));
    }
    warnings
}
