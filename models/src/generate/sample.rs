//! Choosing the next token from scores.
//!
//! In this order, each on what the one before left: tokens that may not come next, biases of single tokens, penalties by presence and
//! by count, repetition penalty over the tokens of one answer (Keskar et al., 2019, <https://arxiv.org/abs/1909.05858>),
//! temperature, top-k, top-p (Holtzman et al., 2019, <https://arxiv.org/abs/1904.09751>), min-p (Nguyen et al., 2024,
//! <https://arxiv.org/abs/2407.01082>), the draw. It is the order of transformers.

use std::collections::BTreeMap;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::json::JsonText;
use crate::{
    Error, Result,
    ops::scores::{Change, LARGEST_WEIGHT, Ranked, Scores, likeliest},
    random::Random,
};

/// Below it, a temperature only ever leaves the likeliest token, and scores divided by it would overflow.
const COLDEST: f64 = 1e-6;

/// How the next token is chosen. Every filter is off by default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingSettings {
    /// Scores are divided by it: 0 always takes the likeliest token, 1 draws as the model says.
    pub temperature: f64,
    /// Draw from so many of the likeliest tokens. 0 is all.
    pub top_k: usize,
    /// Draw from the likeliest tokens that together have this probability. 1 is all.
    pub top_p: f64,
    /// Draw from tokens with at least this share of the likeliest token's probability. 0 is all.
    pub min_p: f64,
    /// Scores of tokens already written are divided by it. 1 is off.
    pub repetition_penalty: f64,
    /// Where the draw starts. The same seed gives the same text.
    pub seed: u64,
}

impl Default for SamplingSettings {
    fn default() -> Self {
        Self {
            temperature: 0.7,
            top_k: 0,
            top_p: 0.95,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 0,
        }
    }
}

impl SamplingSettings {
    /// Always the likeliest token.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_p: 1.0,
            ..Self::default()
        }
    }

    /// Whether every number can mean something. Errors name the field.
    pub fn check(&self) -> Result<()> {
        let (temperature, penalty) = (self.temperature, self.repetition_penalty);
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let checks = [
            (
                "temperature",
                temperature,
                temperature >= 0.0 && temperature.is_finite(),
                "0 or more",
            ),
            ("top_p", self.top_p, is_share(self.top_p), "from 0 to 1"),
            ("min_p", self.min_p, is_share(self.min_p), "from 0 to 1"),
            (
                "repetition_penalty",
                penalty,
                penalty > 0.0 && penalty.is_finite(),
                "more than 0",
            ),
        ];
        match checks.iter().find(|(.., is_right, _)| !is_right) {
            Some((field, value, _, what)) => {
                let problem = format!("is {value}; it must be {what}");
                Err(Error::setting(*field, problem))
            }
            None => Ok(()),
        }
    }
}

/// What is added to scores before anything is drawn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Biases {
    /// Taken from the score of each token that was written.
    pub presence_penalty: f64,
    /// The same, as many times as it was written.
    pub frequency_penalty: f64,
    /// Added to the scores of single tokens. Ones that the model does not know change nothing.
    pub tokens: Vec<(u32, f64)>,
}

impl Biases {
    /// How scores are changed after these tokens, by these biases and a repetition penalty.
    fn changes(&self, penalty: f64, written: &[u32]) -> Vec<Change> {
        let mut tokens = BTreeMap::<u32, (f64, u32)>::new();
        for (token, bias) in &self.tokens {
            tokens.entry(*token).or_default().0 += bias;
        }
        if penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0 {
            for token in written {
                tokens.entry(*token).or_default().1 += 1;
            }
        }
        // As far as a number of 32 bits that can be divided by goes.
        let penalty = (penalty as f32).clamp(1e-30, 1e30);
        let change = |(token, (bias, times)): (u32, (f64, u32))| {
            let (presence, penalty) = match times {
                0 => (0.0, 1.0),
                _ => (self.presence_penalty, penalty),
            };
            let added = bias - self.frequency_penalty * f64::from(times) - presence;
            Change {
                token,
                added: (added as f32).clamp(-1e30, 1e30),
                penalty,
            }
        };
        tokens.into_iter().map(change).collect()
    }
}

/// Draws tokens, one after another.
pub struct Sampler {
    settings: SamplingSettings,
    biases: Biases,
    random: Random,
}

impl Sampler {
    /// A sampler at the beginning of its draw.
    pub fn new(settings: &SamplingSettings) -> Result<Self> {
        settings.check()?;
        Ok(Self {
            random: Random::new(settings.seed),
            settings: settings.clone(),
            biases: Biases::default(),
        })
    }

    /// The same with scores changed before each draw.
    pub fn with_biases(self, biases: Biases) -> Self {
        Self { biases, ..self }
    }

    /// The next token, from scores [v] and the tokens `written` so far.
    pub fn next(&mut self, logits: &Tensor, written: &[u32]) -> Result<u32> {
        self.next_of(logits, written, None)
    }

    /// The same, of those that may come next in a text that becomes JSON.
    pub(super) fn next_of(
        &mut self,
        logits: &Tensor,
        written: &[u32],
        json: Option<&JsonText>,
    ) -> Result<u32> {
        let SamplingSettings {
            temperature,
            repetition_penalty,
            ..
        } = self.settings;
        let changes = self.biases.changes(repetition_penalty, written);
        let is_cold = temperature < COLDEST;
        if is_cold && changes.is_empty() && json.is_none() {
            return likeliest(logits)?.ok_or_else(not_finite);
        }
        let mut scores = match json {
            Some(_) => Scores::on_host(logits)?,
            None => Scores::new(logits)?,
        };
        if let Some(scores) = scores.here() {
            if !scores.iter().all(|score| score.is_finite()) {
                return Err(not_finite());
            }
            if let Some(json) = json {
                json.forbid(scores);
            }
        }
        scores.change(&changes)?;
        let missing = || match json {
            Some(_) => no_scores(),
            None => not_finite(),
        };
        if is_cold {
            return scores.likeliest()?.ok_or_else(missing);
        }
        let mut ranked = scores.ranked(temperature)?.ok_or_else(missing)?;
        let drawn = self.random.uniform();
        self.drawn(&mut ranked, drawn)?.ok_or_else(missing)
    }

    /// The token at this share of the weights that filters leave, the likeliest first.
    fn drawn(&self, ranked: &mut Ranked, share: f64) -> Result<Option<u32>> {
        let SamplingSettings {
            top_k,
            top_p,
            min_p,
            ..
        } = self.settings;
        // Whatever leaves tokens out, leaves the likeliest.
        let mut kept = ranked.all();
        if top_k > 0 {
            (kept, _) = ranked.until(|before, _| before.tokens >= top_k as u64)?;
        }
        if top_p < 1.0 || min_p > 0.0 {
            let enough = match top_p < 1.0 {
                true => top_p * kept.sum as f64,
                false => f64::INFINITY,
            };
            let least = min_p * LARGEST_WEIGHT as f64;
            let most = kept.tokens;
            (kept, _) = ranked.until(|before, weight| {
                let is_enough = before.sum as f64 >= enough || (weight as f64) < least;
                before.tokens >= most || before.tokens > 0 && is_enough
            })?;
        }
        let at = (share * kept.sum as f64) as u64;
        let (_, token) =
            ranked.until(|before, _| before.sum > at || before.tokens >= kept.tokens)?;
        Ok(token)
    }
}

fn not_finite() -> Error {
    let problem = "the model’s scores are not finite numbers; its weights, its config.json or the dtype it is computed in are \
                   wrong";
    Error::Data(problem.to_owned())
}

fn no_scores() -> Error {
    Error::Data("the model knows no token that could come next".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use candle_core::{DType, Device};

    use super::*;

    /// Tokens that a thousand draws give, from probabilities 0.5, 0.3, 0.15, 0.05.
    fn drawn(settings: SamplingSettings) -> Vec<u32> {
        let logits: Vec<f32> = [0.5f32, 0.3, 0.15, 0.05].iter().map(|p| p.ln()).collect();
        let logits = Tensor::new(logits, &Device::Cpu).unwrap();
        let mut sampler = Sampler::new(&settings).unwrap();
        let drawn: BTreeSet<u32> = (0..1000)
            .map(|_| sampler.next(&logits, &[]).unwrap())
            .collect();
        drawn.into_iter().collect()
    }

    /// Draws as the model says, but for what `change` changes.
    fn settings(change: impl Fn(&mut SamplingSettings)) -> SamplingSettings {
        let mut settings = SamplingSettings {
            temperature: 1.0,
            top_p: 1.0,
            ..SamplingSettings::default()
        };
        change(&mut settings);
        settings
    }

    #[test]
    fn scores_that_are_not_finite_end_the_answer() {
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for settings in [SamplingSettings::greedy(), SamplingSettings::default()] {
                let logits = Tensor::new(&[0.5f32, wrong, 0.1], &Device::Cpu).unwrap();
                let mut sampler = Sampler::new(&settings).unwrap();
                let error = sampler.next(&logits, &[]).unwrap_err().to_string();
                assert!(error.contains("not finite"), "{wrong}: {error}");
            }
        }
    }

    #[test]
    fn each_filter_leaves_the_tokens_it_should() {
        assert_eq!(drawn(settings(|_| ())), [0, 1, 2, 3]);
        assert_eq!(drawn(SamplingSettings::greedy()), [0]);
        assert_eq!(drawn(settings(|it| it.top_k = 2)), [0, 1]);
        assert_eq!(drawn(settings(|it| it.top_p = 0.7)), [0, 1]);
        assert_eq!(drawn(settings(|it| it.min_p = 0.25)), [0, 1, 2]);
        // Of the two that top-k leaves, the first has 0.625.
        let both = |top_p| settings(|it| (it.top_k, it.top_p) = (2, top_p));
        assert_eq!(drawn(both(0.7)), [0, 1]);
        assert_eq!(drawn(both(0.6)), [0]);
    }

    /// The token at a share of what filters leave, where all are put in order first.
    fn drawn_of_sorted(settings: &SamplingSettings, logits: &[f32], share: f64) -> u32 {
        let mut tokens: Vec<(u32, f64)> =
            (0..).zip(logits.iter().map(|it| f64::from(*it))).collect();
        tokens.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap());
        if settings.top_k > 0 {
            tokens.truncate(settings.top_k);
        }
        let largest = tokens[0].1;
        let weigh = |it: &(u32, f64)| (it.0, ((it.1 - largest) / settings.temperature).exp());
        let mut tokens: Vec<(u32, f64)> = tokens.iter().map(weigh).collect();
        let enough = settings.top_p * tokens.iter().map(|it| it.1).sum::<f64>();
        let mut before = 0.0;
        tokens.retain(|(_, weight)| {
            let is_kept = settings.top_p >= 1.0 || before == 0.0 || before < enough;
            before += weight;
            is_kept && *weight >= settings.min_p
        });
        let mut left = share * tokens.iter().map(|it| it.1).sum::<f64>();
        let found = tokens.iter().find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        found.or(tokens.last()).unwrap().0
    }

    #[test]
    fn of_many_tokens_that_are_drawn_which_would_be_if_all_were_in_order() {
        let mut random = Random::new(3);
        // Some are equally likely.
        let logits: Vec<f32> = (0..3_000)
            .map(|_| (8.0 * random.normal()).round() as f32 / 8.0)
            .collect();
        let scores = Scores::Here(logits.clone());
        let sets = [
            settings(|_| ()),
            settings(|it| it.temperature = 30.0),
            settings(|it| it.top_p = 0.9),
            settings(|it| (it.top_p, it.temperature) = (0.99, 5.0)),
            settings(|it| it.min_p = 0.05),
            settings(|it| (it.top_k, it.top_p) = (700, 0.95)),
            settings(|it| it.top_k = 5_000),
        ];
        for settings in sets {
            let sampler = Sampler::new(&settings).unwrap();
            let mut ranked = scores.ranked(settings.temperature).unwrap().unwrap();
            let mut seen = BTreeSet::new();
            for at in 0..400 {
                let share = f64::from(at) / 400.0;
                let drawn = sampler.drawn(&mut ranked, share).unwrap().unwrap();
                assert_eq!(
                    drawn,
                    drawn_of_sorted(&settings, &logits, share),
                    "{settings:?} {share}"
                );
                seen.insert(drawn);
            }
            assert!(seen.len() > 20, "{settings:?}: {}", seen.len());
        }
    }

    #[test]
    fn settings_at_their_ends_leave_the_likeliest_token() {
        assert_eq!(drawn(settings(|it| it.top_p = 0.0)), [0]);
        assert_eq!(drawn(settings(|it| it.temperature = 1e-40)), [0]);
        assert_eq!(drawn(settings(|it| it.min_p = 1.0)), [0]);
        assert_eq!(drawn(settings(|it| it.top_k = 1)), [0]);
    }

    #[test]
    fn draws_come_as_often_as_their_probability_says() {
        let logits = Tensor::new(&[0.7f32.ln(), 0.3f32.ln()], &Device::Cpu).unwrap();
        let mut sampler = Sampler::new(&settings(|_| ())).unwrap();
        let draws = (0..10_000).map(|_| sampler.next(&logits, &[]).unwrap());
        let ones = draws.filter(|token| *token == 1).count();
        assert!((2_850..3_150).contains(&ones), "{ones}");
    }

    #[test]
    fn scores_that_are_no_numbers_are_an_error() {
        let logits = Tensor::new(&[1.0f32, f32::NAN], &Device::Cpu).unwrap();
        let mut sampler = Sampler::new(&SamplingSettings::default()).unwrap();
        assert!(sampler.next(&logits, &[]).is_err());
    }

    #[test]
    fn a_penalty_turns_away_from_what_was_written() {
        let logits = Tensor::new(&[2.0f32, 1.9], &Device::Cpu).unwrap();
        let settings = SamplingSettings {
            repetition_penalty: 1.3,
            ..SamplingSettings::greedy()
        };
        let mut sampler = Sampler::new(&settings).unwrap();
        assert_eq!(sampler.next(&logits, &[]).unwrap(), 0);
        assert_eq!(sampler.next(&logits, &[0]).unwrap(), 1);
    }

    #[test]
    fn of_tokens_that_may_not_come_next_none_is_chosen() {
        let scores = Scores::Here(vec![f32::NEG_INFINITY; 3]);
        assert_eq!(scores.likeliest().unwrap(), None);
        assert!(scores.ranked(1.0).unwrap().is_none());
        let scores = Scores::Here(vec![f32::NEG_INFINITY, -3.0, f32::NEG_INFINITY]);
        assert_eq!(scores.likeliest().unwrap(), Some(1));
        assert_eq!(scores.ranked(1e30).unwrap().unwrap().all().tokens, 1);
    }

    #[test]
    fn settings_that_no_score_can_follow_still_leave_a_token() {
        let logits = Tensor::new(&[2.0f32, 0.0, -1.5], &Device::Cpu).unwrap();
        for repetition_penalty in [1e-300, 1e300] {
            for temperature in [0.0, 1.0, 1e300] {
                let settings = settings(|it| {
                    (it.repetition_penalty, it.temperature) = (repetition_penalty, temperature);
                });
                let mut sampler = Sampler::new(&settings).unwrap();
                let next = sampler.next(&logits, &[0, 1, 2]);
                assert!(next.is_ok(), "{settings:?}: {next:?}");
            }
        }
    }

    #[test]
    fn biases_add_to_single_tokens_and_take_from_those_that_were_written() {
        let logits = Tensor::new(&[2.0f32, 1.5, 1.0], &Device::Cpu).unwrap();
        let next = |biases: Biases, written: &[u32]| {
            let sampler = Sampler::new(&SamplingSettings::greedy()).unwrap();
            sampler.with_biases(biases).next(&logits, written).unwrap()
        };
        let presence = |presence_penalty| Biases {
            presence_penalty,
            ..Biases::default()
        };
        let frequency = |frequency_penalty| Biases {
            frequency_penalty,
            ..Biases::default()
        };
        assert_eq!(next(presence(0.6), &[]), 0);
        assert_eq!(next(presence(0.6), &[0, 0]), 1);
        // Once is not enough, three times are.
        assert_eq!(next(frequency(0.2), &[0]), 0);
        assert_eq!(next(frequency(0.2), &[0, 0, 0]), 1);
        let tokens = vec![(2, 5.0), (9, 100.0)];
        let biases = Biases {
            tokens,
            ..Biases::default()
        };
        assert_eq!(next(biases, &[]), 2);
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let logits = Tensor::zeros(64, DType::F32, &Device::Cpu).unwrap();
        let draw = |seed| {
            let mut sampler = Sampler::new(&settings(|it| it.seed = seed)).unwrap();
            let draws = (0..20).map(|_| sampler.next(&logits, &[]).unwrap());
            draws.collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn a_setting_out_of_range_is_named() {
        let sampler = Sampler::new(&settings(|it| it.top_p = 1.5));
        let error = sampler.err().unwrap().to_string();
        assert_eq!(error, "`top_p` is 1.5; it must be from 0 to 1");
    }
}
