//! Studies of made-up states: what is planted is found, what is noise is called noise, and choices never see the test rows.

use std::fs;

use models::{
    random::Random,
    tasks::probe::{
        bootstrap::{Draws, interval},
        classes::mean,
        examples::Examples,
        fitting::{Solver, SolverName},
        folder::{self, Probes},
        ranking::Ranking,
        report::{Extremes, Report, Scored},
        split::{self, Part, SHARES},
        states::About,
        study::{Course, Settings, Source, Study, study},
    },
};
use serde_json::Value;

/// Examples without states, and states of some sites.
pub(crate) struct Made {
    pub(crate) examples: Examples,
    pub(crate) sites: Vec<Vec<f32>>,
    width: usize,
}

impl Made {
    /// Noise at every site, with texts of words that say nothing.
    pub(crate) fn noise(rows: usize, sites: usize, width: usize, share: f64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let text = |row: usize, random: &mut Random| {
            let words: Vec<String> = (0..6)
                .map(|_| format!("word{}", random.below(40)))
                .collect();
            format!("{} row{row}", words.join(" "))
        };
        let texts: Vec<String> = (0..rows).map(|row| text(row, &mut random)).collect();
        let positive: Vec<bool> = (0..rows).map(|_| random.uniform() < share).collect();
        let groups: Vec<u64> = (0..rows as u64).collect();
        let strata: Vec<u32> = positive.iter().map(|it| u32::from(*it)).collect();
        let mut numbers = || (0..rows * width).map(|_| random.normal() as f32).collect();
        Self {
            sites: (0..sites).map(|_| numbers()).collect(),
            width,
            examples: Examples {
                labels: vec!["yes".into()],
                positive: vec![positive],
                tokens: vec![6; rows],
                parts: split::split(&groups, &strata, SHARES, seed),
                texts,
                groups,
            },
        }
    }

    /// Moves the states of rows with the label, by so many deviations, at one site.
    pub(crate) fn plant(mut self, site: usize, by: f32) -> Self {
        for (row, positive) in self.examples.positive[0].iter().enumerate() {
            if *positive {
                self.sites[site][row * self.width] += by;
            }
        }
        self
    }

    pub(crate) fn study(&self, settings: &Settings) -> Study {
        self.with_source(|source| study(&self.examples, source, settings, &mut |_| true))
            .unwrap()
            .unwrap()
    }

    fn with_source<R>(&self, work: impl FnOnce(&mut Source<'_>) -> R) -> R {
        let width = self.width;
        let mut read = |site: usize, rows: &[usize]| {
            let numbers = rows
                .iter()
                .flat_map(|row| &self.sites[site][row * width..][..width]);
            Ok(numbers.copied().collect())
        };
        work(&mut Source {
            sites: (0..self.sites.len())
                .map(|it| format!("block.{it}"))
                .collect(),
            width,
            read: &mut read,
        })
    }
}

pub(crate) fn quick() -> Settings {
    Settings {
        draws: 200,
        shuffles: 2,
        penalties: vec![1e-3, 1e-2],
        ..Settings::default()
    }
}

fn auc(report: &Report) -> f64 {
    report.labels[0].probe.as_ref().unwrap().test.auc.value
}

#[test]
fn what_is_planted_at_a_site_is_found_there_and_the_words_say_nothing() {
    let report = Made::noise(1_200, 4, 16, 0.3, 1)
        .plant(2, 2.5)
        .study(&quick())
        .report;
    assert_eq!(report.site, "block.2");
    let label = &report.labels[0];
    let probe = label.probe.as_ref().unwrap();
    assert_eq!(probe.site, "block.2");
    assert!(probe.converged && auc(&report) > 0.92, "{probe:?}");
    assert!((label.words.as_ref().unwrap().auc.value - 0.5).abs() < 0.12);
    assert!(label.over_words.unwrap().is_clear() && label.corrected.unwrap() < 0.05);
    assert!(label.curve[2].is_as_good && !label.curve[0].is_as_good);
    assert!(!label.curve[2].words_do_as_well && label.curve[0].words_do_as_well);
    assert!(
        report.headline.starts_with("block.2: AUC 0.9"),
        "{}",
        report.headline
    );
    assert!(
        report.headline.contains("know more than the words"),
        "{}",
        report.headline
    );
    assert!(report.shuffled.iter().all(|it| (it - 0.5).abs() < 0.12));
    assert!(label.selectivity.unwrap() > 0.3, "{label:?}");
    assert_eq!(report.rows.iter().sum::<u64>(), 1_200);
}

#[test]
fn a_study_says_when_the_words_do_as_well() {
    let mut made = Made::noise(1_200, 2, 16, 0.3, 2).plant(1, 3.0);
    for (text, positive) in made
        .examples
        .texts
        .iter_mut()
        .zip(&made.examples.positive[0])
    {
        *text += if *positive { " surely" } else { " hardly" };
    }
    let report = made.study(&quick()).report;
    assert_eq!(report.labels[0].words.as_ref().unwrap().auc.value, 1.0);
    // Also where they do better.
    assert!(report.labels[0].curve.iter().all(|it| it.words_do_as_well));
    let is_said = report.headline.contains("words may do as well")
        || report.headline.contains("The words know more");
    assert!(is_said, "{}", report.headline);
}

#[test]
fn a_study_is_the_same_for_any_number_of_threads() {
    let made = Made::noise(400, 2, 8, 0.4, 3).plant(1, 1.0);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| made.study(&quick()))
    };
    let (one, four) = (with(1), with(4));
    assert_eq!(one.report, four.report);
    assert_eq!(one.probes, four.probes);
}

#[test]
fn a_label_with_too_few_rows_has_no_figures_and_says_so() {
    let mut made = Made::noise(300, 1, 8, 0.4, 4).plant(0, 2.0);
    let mut rare = vec![false; 300];
    let train = made.examples.of_part(Part::Train)[0];
    rare[train] = true;
    made.examples.labels.push("rare".into());
    made.examples.positive.push(rare);
    let report = made.study(&quick()).report;
    let label = &report.labels[1];
    assert!(label.probe.is_none() && label.curve.is_empty());
    assert!(
        label
            .undefined
            .as_ref()
            .unwrap()
            .contains("1 row with it to learn from, 0")
    );
    assert!(
        report
            .warnings
            .iter()
            .any(|it| it.contains("`rare` has no figures"))
    );
    assert!(auc(&report) > 0.8);
    // Without any label that can be judged there is no study.
    made.examples.labels.remove(0);
    made.examples.positive.remove(0);
    let mut read = |_: usize, _: &[usize]| Ok(Vec::new());
    let mut source = Source {
        sites: vec!["block.0".into()],
        width: 8,
        read: &mut read,
    };
    let refused = study(&made.examples, &mut source, &quick(), &mut |_| true).unwrap_err();
    assert!(
        refused.to_string().starts_with("no label has rows with it"),
        "{refused}"
    );
}

#[test]
fn states_that_are_no_numbers_are_refused_by_their_row() {
    let mut made = Made::noise(300, 1, 8, 0.4, 5);
    made.sites[0][8 * 17 + 3] = f32::INFINITY;
    let mut read = |_: usize, rows: &[usize]| {
        Ok(rows
            .iter()
            .flat_map(|row| made.sites[0][row * 8..][..8].to_vec())
            .collect())
    };
    let mut source = Source {
        sites: vec!["block.0".into()],
        width: 8,
        read: &mut read,
    };
    let refused = study(&made.examples, &mut source, &quick(), &mut |_| true).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("the state of row 18 at `block.0`"),
        "{refused}"
    );
}

#[test]
fn probes_that_are_saved_score_as_they_were_reported() {
    let made = Made::noise(600, 2, 16, 0.3, 6).plant(1, 1.5);
    let found = made.study(&quick());
    let states = About {
        sites: vec!["block.0".parse().unwrap(), "block.1".parse().unwrap()],
        width: 16,
        ..about()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probes");
    folder::save(&path, &found, (&made.examples, &states)).unwrap();
    let probes = Probes::open(&path).unwrap();
    assert_eq!(probes.about.report.as_ref(), Some(&found.report));
    assert_eq!(probes.about.solver, Some(SolverName::Exact));
    probes.check(&states).unwrap();
    let other = About {
        prompt: models::tasks::probe::states::PromptRule {
            pattern: "{text} and so".into(),
            ..Default::default()
        },
        ..states
    };
    let refused = probes.check(&other).unwrap_err().to_string();
    assert!(refused.contains("the prompt"), "{refused}");
    let [chosen] = probes.chosen()[..] else {
        panic!("one label, one chosen probe")
    };
    let test = made.examples.of_part(Part::Test);
    let scores: Vec<f32> = test
        .iter()
        .map(|row| probes.score(chosen, &made.sites[1][row * 16..][..16]))
        .collect();
    let truth: Vec<bool> = test
        .iter()
        .map(|&row| made.examples.positive[0][row])
        .collect();
    let again = Ranking::new(&scores).auc(&truth).unwrap();
    assert!((again - auc(&found.report)).abs() < 1e-3);
    let all = fs::read_to_string(path.join(folder::PROBES)).unwrap();
    assert!(!all.contains("word1"), "texts are private");
}

#[test]
fn the_rows_that_say_most_are_named_without_their_texts() {
    let made = Made::noise(900, 1, 16, 0.3, 9).plant(0, 1.5);
    let report = made.study(&quick()).report;
    let label = &report.labels[0];
    let threshold = label.probe.as_ref().unwrap().threshold;
    let Extremes {
        strongest,
        weakest,
        most_wrong,
    } = &label.extremes;
    assert_eq!((strongest.len(), weakest.len()), (20, 20));
    assert!(strongest.windows(2).all(|it| it[0].score >= it[1].score));
    assert!(weakest.windows(2).all(|it| it[0].score <= it[1].score));
    assert!(strongest[19].score > weakest[19].score);
    let away = |it: &Scored| (it.score - threshold).abs();
    assert!(most_wrong.windows(2).all(|it| away(&it[0]) >= away(&it[1])));
    assert!(!most_wrong.is_empty());
    for it in most_wrong {
        assert_ne!(it.positive, it.score >= threshold, "{it:?}");
    }
    for it in strongest.iter().chain(weakest).chain(most_wrong) {
        assert_eq!(made.examples.parts[it.row], Part::Test);
        assert_eq!(it.positive, made.examples.positive[0][it.row]);
    }
}

#[test]
fn probes_that_were_saved_before_there_were_curves_are_opened() {
    let made = Made::noise(300, 1, 16, 0.4, 10).plant(0, 2.0);
    let found = made.study(&quick());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probes");
    let states = About {
        sites: vec!["block.0".parse().unwrap()],
        ..about()
    };
    folder::save(&path, &found, (&made.examples, &states)).unwrap();
    let file = path.join(folder::PROBES);
    let mut json: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let label = &mut json["report"]["labels"][0];
    let remove = |of: &mut Value, name| of.as_object_mut().unwrap().remove(name).unwrap();
    remove(label, "extremes");
    remove(&mut label["probe"]["test"], "points");
    remove(&mut label["words"], "points");
    fs::write(&file, serde_json::to_vec_pretty(&json).unwrap()).unwrap();
    let opened = Probes::open(&path).unwrap().about.report.unwrap();
    assert_eq!(opened.headline, found.report.headline);
    assert_eq!(opened.labels[0].extremes, Extremes::default());
    assert!(
        opened.labels[0]
            .probe
            .as_ref()
            .unwrap()
            .test
            .points
            .is_empty()
    );
    json["version"] = 99.into();
    fs::write(&file, serde_json::to_vec(&json).unwrap()).unwrap();
    let refused = Probes::open(&path).unwrap_err().to_string();
    assert!(refused.contains("later version"), "{refused}");
}

#[test]
fn the_report_of_45_labels_stays_small() {
    let (labels, sites, rows) = (45, 26, 2_700);
    let mut made = Made::noise(rows, sites, 6, 0.5, 11);
    let names = (0..labels).map(|it| format!("a label of some length {it:02}"));
    made.examples.labels = names.collect();
    let has = |label| (0..rows).map(|row| row % labels == label).collect();
    made.examples.positive = (0..labels).map(has).collect();
    let settings = Settings {
        draws: 20,
        shuffles: 1,
        penalties: vec![1e-2],
        ..Settings::default()
    };
    let found = made.study(&settings);
    let states = About {
        sites: (0..sites)
            .map(|it| format!("block.{it}").parse().unwrap())
            .collect(),
        width: 6,
        ..about()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probes");
    folder::save(&path, &found, (&made.examples, &states)).unwrap();
    let bytes = fs::metadata(path.join(folder::PROBES)).unwrap().len();
    assert!(bytes < 1_500_000, "{bytes}");
}

/// States of some model.
pub(crate) fn about() -> About {
    serde_json::from_value(serde_json::json!({
        "version": 1, "written_by": "a test",
        "model": {"name": "m", "revision": null, "family": "llama", "weights": []},
        "adapter": null, "compute_dtype": "f32", "prompt": {"pattern": "{text}", "template": null},
        "position": "last", "numbering": "", "sites": [], "dtype": "f32", "width": 16, "blocks": 2,
        "rows": 600, "vectors": 600, "rows_sha256": "", "sources": [], "labels": ["yes"],
        "tokens_at_once": 1, "left_out": []
    }))
    .unwrap()
}

/// Mean test AUC of studies of nothing but noise: at the site that validation rows choose, and at the one that test rows would.
fn noise_studies(studies: u64, sites: usize) -> (f64, f64) {
    let settings = Settings {
        draws: 20,
        shuffles: 0,
        penalties: vec![1e-2],
        ..Settings::default()
    };
    let each = (0..studies).map(|seed| {
        let report = Made::noise(1_000, sites, 6, 0.5, 100 + seed)
            .study(&settings)
            .report;
        let curve = report.labels[0].curve.iter().map(|it| it.test.value);
        (auc(&report), curve.fold(0.0, f64::max))
    });
    let (honest, best): (Vec<f64>, Vec<f64>) = each.unzip();
    (mean(&honest).unwrap(), mean(&best).unwrap())
}

#[test]
fn a_site_chosen_on_validation_rows_finds_nothing_in_noise() {
    let (honest, best) = noise_studies(30, 10);
    assert!((honest - 0.5).abs() < 0.02, "{honest}");
    // What choosing on test rows would have said: the check above can fail.
    assert!(best > 0.54, "{best}");
}

#[test]
#[ignore = "two hundred studies of 26 sites take a minute"]
fn two_hundred_studies_of_noise_find_nothing() {
    let (honest, best) = noise_studies(200, 26);
    println!("chosen on validation {honest:.4}, on test {best:.4}");
    assert!((honest - 0.5).abs() < 0.005, "{honest}");
    assert!(best > 0.54, "{best}");
}

#[test]
fn shuffled_labels_are_told_apart_by_chance() {
    let settings = Settings {
        draws: 20,
        shuffles: 20,
        penalties: vec![1e-2],
        ..Settings::default()
    };
    let report = Made::noise(6_000, 1, 8, 0.5, 7)
        .plant(0, 2.0)
        .study(&settings)
        .report;
    let shuffled = mean(&report.shuffled).unwrap();
    assert!((shuffled - 0.5).abs() < 0.01, "{shuffled}");
    assert!(auc(&report) > 0.9);
}

/// The share of simulated studies whose interval holds the true AUC. Groups of three rows share half of their score.
fn coverage(studies: u64, draws: usize) -> f64 {
    // Positive scores lie one and a half deviations higher: Φ(1.5 / √2).
    const TRUE_AUC: f64 = 0.855_577_9;
    let held = (0..studies).filter(|&seed| {
        let mut random = Random::new(1_000 + seed);
        let (mut scores, mut positive, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for group in 0..160u64 {
            let is_positive = group % 4 == 0;
            let shared = random.normal();
            for _ in 0..3 {
                let own = (shared + random.normal()) / 2f64.sqrt();
                scores.push((own + if is_positive { 1.5 } else { 0.0 }) as f32);
                positive.push(is_positive);
                groups.push(group);
            }
        }
        let strata: Vec<u32> = positive.iter().map(|it| u32::from(*it)).collect();
        let draws = Draws::new(&groups, &strata, draws, seed);
        let interval = interval(&draws.aucs(&Ranking::new(&scores), &positive)).unwrap();
        interval.low <= TRUE_AUC && TRUE_AUC <= interval.high
    });
    held.count() as f64 / studies as f64
}

#[test]
fn intervals_hold_the_truth_about_as_often_as_they_say() {
    let share = coverage(200, 400);
    assert!((0.90..=0.985).contains(&share), "{share}");
}

#[test]
#[ignore = "a thousand studies of two thousand draws take a minute"]
fn intervals_hold_the_truth_in_93_to_97_of_a_hundred_studies() {
    let share = coverage(1_000, 2_000);
    println!("{share:.3} of the intervals hold the truth");
    assert!((0.93..=0.97).contains(&share), "{share}");
}

#[test]
fn every_solver_finds_what_is_planted() {
    let made = Made::noise(900, 1, 16, 0.3, 8).plant(0, 2.0);
    for solver in [
        Solver::Exact,
        Solver::MeanDifference,
        Solver::Adamw(Default::default()),
    ] {
        let settings = Settings { solver, ..quick() };
        let report = made.study(&settings).report;
        assert!(auc(&report) > 0.85, "{solver:?}: {}", auc(&report));
    }
}

#[test]
fn few_texts_are_judged_in_folds_and_noise_stays_noise() {
    let settings = Settings {
        folds: 5,
        ..quick()
    };
    let of = |made: &Made| made.study(&settings).report.folds.unwrap();
    let planted = of(&Made::noise(150, 3, 8, 0.3, 5).plant(1, 2.5));
    assert!(
        planted.all.sites.iter().all(|it| it == "block.1"),
        "{planted:?}"
    );
    let label = planted.labels[0].as_ref().unwrap();
    assert!(
        label.auc.value > 0.9 && label.over_words.unwrap().is_clear(),
        "{label:?}"
    );
    let words = label.words.unwrap().value;
    assert!((words - 0.5).abs() < 0.15, "{words}");
    // Of pure noise, the best of many sites is no better than chance once nothing that judges it chose it.
    let noise: Vec<f64> = (0..20)
        .map(|seed| of(&Made::noise(100, 12, 6, 0.4, 100 + seed)).all.auc.value)
        .collect();
    let mean = mean(&noise).unwrap();
    assert!((mean - 0.5).abs() < 0.03, "{mean}: {noise:?}");
}

#[test]
fn a_study_in_folds_that_goes_on_is_the_same() {
    let made = Made::noise(150, 3, 8, 0.3, 5).plant(1, 1.0);
    let settings = Settings {
        folds: 3,
        ..quick()
    };
    let whole = made.study(&settings).report;
    let folder = tempfile::tempdir().unwrap();
    let again = made.with_source(|source| {
        let mut course = Course::new(&made.examples, &settings).unwrap();
        for _ in 0..2 {
            course.learn(&made.examples, source, &settings).unwrap();
        }
        course.save(folder.path()).unwrap();
        let mut course = Course::new(&made.examples, &settings).unwrap();
        course.load(folder.path(), &settings).unwrap();
        course.learn(&made.examples, source, &settings).unwrap();
        let judged = course.judge(&made.examples, source, &settings, &mut |_| true);
        judged.unwrap().unwrap().report
    });
    assert_eq!(whole, again);
    assert!(
        whole.headline.contains("Cross-validated in 3 folds"),
        "{}",
        whole.headline
    );
    // What was saved without folds is not taken for what has them.
    let problem = {
        let mut course = Course::new(
            &made.examples,
            &Settings {
                folds: 5,
                ..settings.clone()
            },
        )
        .unwrap();
        let settings = Settings {
            folds: 5,
            ..settings
        };
        course
            .load(folder.path(), &settings)
            .unwrap_err()
            .to_string()
    };
    assert!(problem.contains("has another shape"), "{problem}");
}

#[test]
fn a_label_that_not_every_fold_has_leaves_the_rest_of_the_study_as_it_is() {
    let mut made = Made::noise(120, 2, 6, 0.5, 5);
    // One in each part, and one more: five folds would need five.
    let mut left = [1, 1, 2];
    let parts = made.examples.parts.clone();
    for (positive, part) in made.examples.positive[0].iter_mut().zip(parts) {
        let left = &mut left[part as usize];
        *positive = *left > 0;
        *left -= usize::from(*positive);
    }
    let settings = Settings {
        folds: 5,
        ..quick()
    };
    let report = made.study(&settings).report;
    assert!(report.labels[0].probe.is_some(), "{:?}", report.labels[0]);
    assert_eq!(report.folds, None);
    assert!(!report.headline.contains("Cross-validated"));
}
