//! What is known without hidden states, and what is learned where there is nothing to learn: the figures beside those of every probe.

use rayon::prelude::*;

use super::{
    examples::Examples,
    features::Features,
    fitting::{self, Choices, Fitted, Parts, Solver, Truth},
    ranking::Ranking,
    scale::Standard,
    study::Settings,
    words::Words,
};
use crate::random::{Random, stable_hash};

/// The values of C that are tried for words, whose rows have length 1.
const WORD_PENALTIES: [f64; 4] = [0.1, 1.0, 10.0, 100.0];

/// The texts of each part.
fn texts<'a>(examples: &'a Examples, rows: &[Vec<usize>; 3]) -> [Vec<&'a str>; 3] {
    let of = |rows: &Vec<usize>| rows.iter().map(|&row| &examples.texts[row][..]).collect();
    [0, 1, 2].map(|part: usize| of(&rows[part]))
}

/// What the words of the texts know, with choices of their own. Nothing without texts, which is said and not guessed.
pub(super) fn words(
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
    let choices = of_words(choices);
    let at_once = fitting::labels_at_once(parts.0[0]);
    let fit = |truths: &[Truth]| {
        let mut fitted = fitting::fit(parts, truths, &choices);
        // Only their scores are wanted, and weights of all words of all labels are many.
        fitted.iter_mut().for_each(|it| it.fit.weights = Vec::new());
        fitted
    };
    truths.chunks(at_once).flat_map(fit).collect()
}

/// How weights of words are found.
pub(super) fn of_words(choices: &Choices) -> Choices {
    Choices {
        solver: Solver::Exact,
        penalties: WORD_PENALTIES.to_vec(),
        ..choices.clone()
    }
}

/// What the length of the texts knows, in letters and in tokens. Nothing without texts.
pub(super) fn length(
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
pub(super) fn shuffled(
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
pub(super) fn control(
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
    let choices = Choices {
        solver: Solver::Exact,
        ..settings.choices()
    };
    let scores = fitting::fit_with(parts, truths, &penalties, &choices);
    let each = scores.par_iter().zip(truths);
    each.map(|(scores, truth)| Ranking::new(scores).auc(&truth[2]))
        .collect()
}
