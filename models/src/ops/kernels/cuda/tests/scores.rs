//! Scores of the tokens that can come next: what is found and drawn on a GPU is what would be on the host.

use candle_core::{Device, Tensor};

use super::device;
use crate::{
    generate::sample::{Biases, Sampler, SamplingSettings},
    ops::scores::{Scores, likeliest},
    random::Random,
};

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_finds_the_likeliest_token_as_the_cpu_does() {
    let found = |scores: &[f32]| {
        let on = |device: &Device| likeliest(&Tensor::new(scores, device).unwrap()).unwrap();
        let (here, there) = (on(&Device::Cpu), on(&device()));
        assert_eq!(here, there, "{} scores", scores.len());
        there
    };
    for count in [1, 31, 1000, 49_152, 151_936] {
        let mut scores: Vec<f32> = (0..count)
            .map(|at| ((at * 37 + 11) % 1009) as f32)
            .collect();
        found(&scores);
        // All of them below 0, and the highest twice.
        scores.iter_mut().for_each(|score| *score -= 2000.0);
        let last = count - 1;
        (scores[last / 2], scores[last]) = (-1.0, -1.0);
        assert_eq!(found(&scores), Some((last / 2) as u32));
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            scores[last] = wrong;
            assert_eq!(found(&scores), None);
        }
    }
}

fn scores_of(count: usize, spread: f64) -> Vec<f32> {
    let mut random = Random::new(count as u64);
    // Some are equally likely.
    (0..count)
        .map(|_| (64.0 * spread * random.normal()).round() as f32 / 64.0)
        .collect()
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_draws_the_tokens_that_the_cpu_draws() {
    let plain = || SamplingSettings {
        temperature: 1.0,
        top_p: 1.0,
        ..SamplingSettings::default()
    };
    let of = |change: fn(&mut SamplingSettings)| {
        let mut settings = plain();
        change(&mut settings);
        settings
    };
    let sets = [
        plain(),
        SamplingSettings::greedy(),
        SamplingSettings::default(),
        of(|it| it.temperature = 20.0),
        of(|it| (it.top_k, it.top_p) = (40, 0.9)),
        of(|it| (it.min_p, it.repetition_penalty) = (0.02, 1.3)),
        of(|it| (it.temperature, it.repetition_penalty) = (0.0, 1.7)),
        of(|it| (it.temperature, it.top_k) = (3.0, 1)),
        of(|it| (it.temperature, it.top_k) = (3.0, usize::MAX)),
        of(|it| (it.temperature, it.top_p) = (3.0, 0.0)),
        of(|it| (it.temperature, it.min_p) = (3.0, 1.0)),
    ];
    let biases = Biases {
        presence_penalty: 0.3,
        frequency_penalty: 0.1,
        tokens: vec![(5, 3.0), (6, -100.0), (u32::MAX, 1.0)],
    };
    for (count, spread) in [(7, 1.0), (300, 0.1), (49_152, 1.0), (151_936, 6.0)] {
        let scores = scores_of(count, spread);
        for settings in &sets {
            for biases in [Biases::default(), biases.clone()] {
                let tokens = |device: &Device| {
                    let logits = Tensor::new(scores.as_slice(), device).unwrap();
                    let sampler = Sampler::new(settings).unwrap();
                    let (mut sampler, mut written) = (sampler.with_biases(biases.clone()), vec![]);
                    for _ in 0..24 {
                        written.push(sampler.next(&logits, &written).unwrap());
                    }
                    written
                };
                let what = format!("{count} scores, {settings:?}, {biases:?}");
                assert_eq!(tokens(&device()), tokens(&Device::Cpu), "{what}");
            }
        }
    }
}

#[test]
#[ignore = "needs a CUDA device"]
fn cuda_weighs_scores_as_the_cpu_does() {
    for (count, spread) in [(1, 1.0), (1_000, 0.1), (49_152, 4.0), (262_144, 100.0)] {
        let logits = scores_of(count, spread);
        let here = Scores::Here(logits.clone());
        let there = Scores::new(&Tensor::new(logits, &device()).unwrap()).unwrap();
        assert!(matches!(there, Scores::OnGpu(_)));
        for temperature in [0.01, 1.0, 50.0] {
            let buckets = |scores: &Scores| scores.ranked(temperature).unwrap().unwrap().buckets;
            for (at, (here, there)) in buckets(&here).iter().zip(buckets(&there)).enumerate() {
                let what = format!("{count} at {temperature}, bucket {at}");
                assert_eq!(here.tokens, there.tokens, "{what}");
                // Exponentials of the two differ in their last digit.
                let apart = here.sum.abs_diff(there.sum);
                assert!(apart <= here.tokens, "{what}: {apart}");
            }
        }
    }
    let wrong = Tensor::new(&[0.5f32, f32::NAN, 0.1], &device()).unwrap();
    assert!(Scores::new(&wrong).unwrap().ranked(1.0).unwrap().is_none());
}
