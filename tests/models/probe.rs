//! Probes compute what scikit-learn does: figures, and weights at its exact optimum. The numbers are made by `goldens/probes.py`.

use std::{fs, path::Path};

use models::tasks::probe::{
    calibration,
    classes::classes,
    features::Features,
    lbfgs::{self, Label, LinearClassifier, Options},
    newton,
    precondition::Gram,
    ranking::{Confusion, Ranking},
    scale::Standard,
};
use serde_json::Value;

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/probe");
    serde_json::from_slice(&fs::read(path.join(name)).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|it| it.as_f64().unwrap()).collect()
}

fn scores(value: &Value) -> Vec<f32> {
    numbers(value).iter().map(|it| *it as f32).collect()
}

fn truths(value: &Value) -> Vec<bool> {
    numbers(value).iter().map(|it| *it == 1.0).collect()
}

#[track_caller]
fn close(what: &str, found: f64, expected: &Value, within: f64) {
    let expected = expected.as_f64().unwrap();
    assert!(
        (found - expected).abs() <= within,
        "{what}: {found} and {expected}"
    );
}

#[test]
fn figures_are_those_of_the_reference_with_ties_and_equal_scores() {
    let golden = golden("metrics.json");
    for case in golden["binary"].as_array().unwrap() {
        let (scores, positive) = (scores(&case["scores"]), truths(&case["positive"]));
        let ranking = Ranking::new(&scores);
        let threshold = case["threshold"].as_f64().unwrap() as f32;
        let confusion = Confusion::at(&scores, &positive, threshold);
        let p: Vec<f64> = scores
            .iter()
            .map(|&it| calibration::probability(it))
            .collect();
        let (best, f1) = ranking.best_f1(&positive).unwrap();
        let at_best = Confusion::at(&scores, &positive, best).f1();
        assert!((at_best - f1).abs() < 1e-12);
        let recall_at = |rate| ranking.recall_at(&positive, rate).unwrap().recall;
        let bins = calibration::bins(&p, &positive);
        for (field, found) in [
            ("auc", ranking.auc(&positive).unwrap()),
            (
                "average_precision",
                ranking.average_precision(&positive).unwrap(),
            ),
            ("best_f1", f1),
            (
                "precision_at_recall_0.9",
                ranking.precision_at_recall(&positive, 0.9).unwrap(),
            ),
            ("recall_at_0.01", recall_at(0.01)),
            ("recall_at_0.05", recall_at(0.05)),
            ("precision", confusion.precision()),
            ("recall", confusion.recall()),
            ("f1", confusion.f1()),
            ("accuracy", confusion.accuracy()),
            ("balanced_accuracy", confusion.balanced_accuracy().unwrap()),
            ("matthews", confusion.matthews()),
            ("brier", calibration::brier(&p, &positive).unwrap()),
            ("ece", calibration::error(&bins).unwrap()),
        ] {
            close(
                &format!("{}: {field}", case["name"]),
                found,
                &case[field],
                1e-12,
            );
        }
        let counts = [
            confusion.true_negatives,
            confusion.false_positives,
            confusion.false_negatives,
            confusion.true_positives,
        ];
        let counts = counts.map(|it| it as f64);
        assert_eq!(numbers(&case["confusion"]), counts, "{}", case["name"]);
    }
}

#[test]
fn figures_of_several_classes_are_those_of_the_reference() {
    let golden = &golden("metrics.json")["classes"];
    let scores: Vec<Vec<f32>> = golden["scores"]
        .as_array()
        .unwrap()
        .iter()
        .map(scores)
        .collect();
    let truth: Vec<usize> = numbers(&golden["truth"])
        .iter()
        .map(|it| *it as usize)
        .collect();
    let found = classes(&scores, &truth).unwrap();
    close("accuracy", found.accuracy, &golden["accuracy"], 1e-12);
    close("macro F1", found.macro_f1, &golden["macro_f1"], 1e-12);
    close(
        "macro AUC",
        found.macro_auc.unwrap(),
        &golden["macro_auc"],
        1e-12,
    );
    assert_eq!(serde_json::json!(found.confusion), golden["confusion"]);
    assert_eq!(found.undefined, 0);
}

/// The standardised digits [1797, 64] as they are learned from and to the last digit, and the digit of each row.
fn digits(golden: &Value) -> (Vec<f32>, Vec<f64>, Vec<u32>) {
    let letters = golden["digits"].as_str().unwrap().bytes();
    let mut rows: Vec<f32> = letters.map(|it| f32::from(it - b'a')).collect();
    let standard = Standard::of(&rows, 64);
    let exact = exactly(&standard, &rows);
    standard.apply(&mut rows);
    let classes = golden["classes"].as_str().unwrap().bytes();
    (
        rows,
        exact,
        classes.map(|it| u32::from(it - b'0')).collect(),
    )
}

/// Standardised rows without rounding to f32.
fn exactly(standard: &Standard, rows: &[f32]) -> Vec<f64> {
    let width = standard.mean.len();
    let number = |(at, x): (usize, &f32)| {
        (f64::from(*x) - standard.mean[at % width]) / standard.deviation[at % width]
    };
    rows.iter().enumerate().map(number).collect()
}

fn score(fit: &LinearClassifier, row: &[f64]) -> f64 {
    let terms = row.iter().zip(&fit.weights).map(|(x, w)| x * w);
    terms.sum::<f64>() + fit.bias
}

/// log(1 + eˣ).
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn square(fit: &LinearClassifier) -> f64 {
    fit.weights.iter().map(|it| it * it).sum()
}

fn weights_of(positive: &[bool], case: &Value) -> [f64; 2] {
    match case["balanced"] == true {
        true => lbfgs::balanced(positive),
        false => [1.0; 2],
    }
}

/// Compares a fit with the reference: weights and bias within 1e-4, probabilities within 1e-5, the objective within 1e-9 of itself.
#[track_caller]
fn compare(what: &str, fit: &LinearClassifier, (rows, label): (&[f64], Label<'_>), case: &Value) {
    assert!(fit.converged, "{what}: {fit:?}");
    for (at, expected) in case["weights"].as_array().unwrap().iter().enumerate() {
        close(
            &format!("{what} weight {at}"),
            fit.weights[at],
            expected,
            1e-4,
        );
    }
    close(&format!("{what} bias"), fit.bias, &case["bias"], 1e-4);
    close(
        &format!("{what} length"),
        square(fit).sqrt(),
        &case["length"],
        1e-4,
    );
    let rows = rows.chunks(fit.weights.len());
    let expected = case["probabilities"].as_array().unwrap();
    for (row, expected) in rows.clone().zip(expected) {
        let p = 1.0 / (1.0 + (-score(fit, row)).exp());
        close(&format!("{what} probability"), p, expected, 1e-5);
    }
    let losses = rows.zip(label.positive).map(|(row, &positive)| {
        let sign = if positive { -1.0 } else { 1.0 };
        label.weights[usize::from(positive)] * softplus(sign * score(fit, row))
    });
    let objective = label.c * losses.sum::<f64>() + 0.5 * square(fit);
    let expected = case["objective"].as_f64().unwrap();
    let apart = (objective / expected - 1.0).abs();
    assert!(apart < 1e-9, "{what}: objectives are {apart} apart");
    let apart = (fit.objective / expected - 1.0).abs();
    assert!(apart < 1e-6, "{what}: it says {}", fit.objective);
}

#[test]
fn weights_of_digits_are_at_the_optimum_of_the_reference() {
    let golden = golden("solvers.json");
    let (rows, exact, digit) = digits(&golden);
    let features = Features::Dense(&rows, 64);
    let gram = Gram::of(features).unwrap();
    for label in golden["labels"].as_array().unwrap() {
        let positive: Vec<bool> = digit.iter().map(|it| label["digit"] == *it).collect();
        for case in label["fits"].as_array().unwrap() {
            let (c, weights) = (case["c"].as_f64().unwrap(), weights_of(&positive, case));
            let what = format!("{} at C {c}, balanced {}", label["digit"], case["balanced"]);
            let label = Label {
                positive: &positive,
                c,
                weights,
            };
            let round = gram.factor(c, 0.1).unwrap();
            for round in [None, Some(&round)] {
                let fits = lbfgs::logistic(features, &[label], None, round, Options::default());
                compare(&what, &fits[0], (&exact, label), case);
            }
            let fit = newton::minimize(&exact, 64, &positive, weights, c).unwrap();
            compare(&format!("Newton: {what}"), &fit, (&exact, label), case);
        }
    }
}

#[test]
fn weights_of_several_classes_are_at_the_optimum_of_the_reference() {
    let golden = golden("solvers.json");
    let (rows, exact, digit) = digits(&golden);
    for case in golden["several"].as_array().unwrap() {
        let c = case["c"].as_f64().unwrap();
        let features = Features::Dense(&rows, 64);
        let fits = lbfgs::multinomial(features, &digit, &[1.0; 10], c, None, Options::default());
        for (class, fit) in fits.iter().enumerate() {
            assert!(fit.converged);
            for (at, expected) in case["weights"][class]
                .as_array()
                .unwrap()
                .iter()
                .enumerate()
            {
                close(&format!("C {c} weight"), fit.weights[at], expected, 1e-4);
            }
            close(
                &format!("C {c} bias"),
                fit.bias,
                &case["biases"][class],
                1e-4,
            );
        }
        let mut objective = fits.iter().map(square).sum::<f64>() / 2.0;
        for (row, values) in exact.chunks(64).enumerate() {
            let scores: Vec<f64> = fits.iter().map(|it| score(it, values)).collect();
            let total = scores.iter().map(|it| it.exp()).sum::<f64>().ln();
            objective += c * (total - scores[digit[row] as usize]);
            for (score, expected) in scores
                .iter()
                .zip(case["probabilities"][row].as_array().into_iter().flatten())
            {
                close(
                    &format!("C {c} probability"),
                    (score - total).exp(),
                    expected,
                    1e-5,
                );
            }
        }
        let apart = (objective / case["objective"].as_f64().unwrap() - 1.0).abs();
        assert!(apart < 1e-9, "objectives are {apart} apart");
        // The penalty leaves no common part in the weights of all classes.
        for at in 0..64 {
            let sum: f64 = fits.iter().map(|it| it.weights[at]).sum();
            assert!(sum.abs() < 1e-5, "{sum}");
        }
    }
}

#[test]
fn weights_of_states_are_at_the_optimum_of_the_reference() {
    let golden = &golden("solvers.json")["states"];
    let (mut rows, positive) = (scores(&golden["numbers"]), truths(&golden["positive"]));
    let width = golden["width"].as_u64().unwrap() as usize;
    let standard = Standard::of(&rows, width);
    for at in 0..width {
        let (mean, deviation) = (&golden["mean"][at], &golden["deviation"][at]);
        close("mean", standard.mean[at], mean, 1e-12);
        close("deviation", standard.deviation[at], deviation, 1e-11);
    }
    let exact = exactly(&standard, &rows);
    standard.apply(&mut rows);
    for case in golden["fits"].as_array().unwrap() {
        let (c, weights) = (case["c"].as_f64().unwrap(), weights_of(&positive, case));
        let label = Label {
            positive: &positive,
            c,
            weights,
        };
        let features = Features::Dense(&rows, width);
        let fits = lbfgs::logistic(features, &[label], None, None, Options::default());
        compare(&format!("states at C {c}"), &fits[0], (&exact, label), case);
    }
}

#[test]
fn weights_are_the_same_for_any_number_of_threads_and_of_labels() {
    let golden = golden("solvers.json");
    let (rows, _, digit) = digits(&golden);
    let positive: Vec<Vec<bool>> = (0..10)
        .map(|class| digit.iter().map(|it| *it == class).collect())
        .collect();
    let labels: Vec<Label<'_>> = positive
        .iter()
        .map(|positive| Label {
            positive,
            c: 0.01,
            weights: [1.0; 2],
        })
        .collect();
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let features = Features::Dense(&rows, 64);
        pool.unwrap()
            .install(|| lbfgs::logistic(features, &labels, None, None, Options::default()))
    };
    let one = with(1);
    assert_eq!(one, with(3));
    assert_eq!(one, with(8));
}
