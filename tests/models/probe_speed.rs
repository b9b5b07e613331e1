//! How long the probes of one layer take, at the size of a published study: 22,050 rows of 2,304 numbers, 45 labels.
//!
//! `cargo test --release -p anneal-models --test models probe_speed -- --ignored --nocapture`

use std::time::Instant;

use models::{
    random::Random,
    tasks::probe::{
        features::Features,
        lbfgs::{self, Label, LinearClassifier, Options},
        precondition::Gram,
        ranking::Ranking,
        scale::Standard,
    },
};
use rayon::prelude::*;

/// Rows as hidden states have them: a few directions hold most of what varies, and each class is moved a little.
fn states(rows: usize, width: usize, classes: usize) -> Vec<f32> {
    const SHARED: usize = 48;
    let mut random = Random::new(1);
    let mix: Vec<f32> = (0..SHARED * width)
        .map(|_| random.normal() as f32)
        .collect();
    let moved: Vec<f32> = (0..classes * width)
        .map(|_| random.normal() as f32 * 0.12)
        .collect();
    let mut numbers = vec![0.0; rows * width];
    numbers
        .par_chunks_mut(width)
        .enumerate()
        .for_each(|(row, numbers)| {
            let mut random = Random::new(row as u64);
            for (x, moved) in numbers.iter_mut().zip(&moved[row % classes * width..]) {
                *x = moved + random.normal() as f32 * 0.7;
            }
            for (at, mix) in mix.chunks(width).enumerate() {
                let by = random.normal() as f32 * 3.0 / (1.0 + at as f32).sqrt();
                numbers
                    .iter_mut()
                    .zip(mix)
                    .for_each(|(x, mix)| *x += by * mix);
            }
        });
    Standard::of(&numbers, width).apply(&mut numbers);
    numbers
}

fn measure(rows: usize, width: usize, classes: usize, c: f64) {
    let numbers = states(rows, width, classes);
    let train = rows * 7 / 10;
    let features = Features::Dense(&numbers[..rows * width], width);
    let of = |class: usize| (0..rows).map(|row| row % classes == class).collect();
    let positive: Vec<Vec<bool>> = (0..classes).map(of).collect();
    let label = |positive| Label {
        positive,
        c,
        weights: [1.0; 2],
    };
    let labels: Vec<Label<'_>> = positive.iter().map(|it| label(it)).collect();
    let say = |name: &str, seconds: f64, fits: &[LinearClassifier]| {
        let most = fits.iter().map(|it| it.iterations).max().unwrap();
        let sum: usize = fits.iter().map(|it| it.iterations).sum();
        let solved = fits.iter().filter(|it| it.converged).count();
        let objective: f64 = fits.iter().map(|it| it.objective).sum();
        println!(
            "{rows} x {width}, {classes} labels, C {c}, {name}: {seconds:.2} s, {:.0} iterations on average, {most} at most, \
             {solved} solved, objective {objective:.9}",
            sum as f64 / classes as f64
        );
    };
    let began = Instant::now();
    let plain = lbfgs::logistic(features, &labels, None, None, Options::default());
    say("plain", began.elapsed().as_secs_f64(), &plain);
    let began = Instant::now();
    let gram = Gram::of(features).unwrap();
    let share = 1.0 / classes as f64;
    let round = gram.factor(c, share * (1.0 - share)).unwrap();
    let factored = began.elapsed().as_secs_f64();
    let fits = lbfgs::logistic(features, &labels, None, Some(&round), Options::default());
    let name = format!("preconditioned ({factored:.2} s to factor)");
    say(&name, began.elapsed().as_secs_f64(), &fits);
    let scores = features.scores_of([(&fits[0].weights[..], fits[0].bias)]);
    let rest = &positive[0][train..];
    println!(
        "AUC {:.3}",
        Ranking::new(&scores[0][train..]).auc(rest).unwrap()
    );
}

#[test]
#[ignore = "a measurement, in an optimised build"]
fn probes_of_a_quarter_of_a_layer() {
    for c in [1e-3, 1e-2, 1.0] {
        measure(5_512, 1_152, 45, c);
    }
}

#[test]
#[ignore = "a measurement, in an optimised build"]
fn probes_of_a_layer() {
    for c in [1e-3, 1e-2] {
        measure(22_050, 2_304, 45, c);
    }
}
