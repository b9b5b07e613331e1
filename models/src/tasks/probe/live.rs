//! Scores of tokens while a model reads and writes them, from the pass that it makes anyway.
//!
//! | probes that read | are asked |
//! |---|---|
//! | the last token, with nothing after the text; a mean over tokens; each token | directly: the state of the token itself |
//! | the last token of what follows the text: a suffix, the end of a turn | what follows is read after the token, from a fork of the cache that is thrown away |
//!
//! What follows costs one more pass over it for each token of an answer; tokens of the prompt are not scored that way. It is
//! tokenized on its own here, but together with the text where states are captured. Only scores come out: the model writes the
//! same with and without probes.

use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use super::{
    calibration::Scale,
    capture::decoder_of,
    capture_prompt::Prompter,
    folder::{Kept, Probes},
    states::Position,
};
use crate::{
    Error, Result,
    arch::{decoder::Decoder, kv_cache::KvCache, network::Network, sites::Site},
    generate::Watch,
    ops::linear::linear,
    tape::Value,
    tasks::language::model::LanguageModel,
};

/// How much of a moving average is the newest token.
pub const NEW: f32 = 0.3;

/// How a token is shown to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadFrom {
    /// Its own state.
    Direct,
    /// The state of the last token of what follows a text when the probe learns.
    Suffix,
}

/// A probe that is asked of each token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveProbe {
    /// Which of the folders it is from.
    pub folder: usize,
    /// What it looks for.
    pub label: String,
    /// Where it reads.
    pub site: Site,
    /// Scores from here on are called active.
    pub threshold: f32,
    /// Scores to probabilities, where that was fitted.
    pub scale: Option<Scale>,
    /// How it is asked.
    pub way: ReadFrom,
}

/// What probes say of a token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenScores {
    /// Its id in the vocabulary of the model.
    pub token: u32,
    /// Whether the model wrote it.
    pub is_answer: bool,
    /// The scores in the order of the probes; none where one is not asked, or says no number.
    pub scores: Vec<Option<f32>>,
}

/// How the scores of a probe went over the tokens of a text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// Their mean.
    pub mean: f32,
    /// Their moving average at the end: each token counts [`NEW`], and what was before it the rest.
    pub moving_average: f32,
    /// The highest score of any token.
    pub peak: f32,
    /// Which token has it, from 0.
    pub peak_at: usize,
}

/// Who hears the scores of some tokens, in their order.
pub type Tell = Box<dyn FnMut(Vec<TokenScores>)>;

/// Probes that are asked of each token.
pub struct Live {
    probes: Vec<LiveProbe>,
    direct: Vec<SiteProbes>,
    /// With the tokens that follow.
    after: Vec<(Vec<u32>, Vec<SiteProbes>)>,
    tell: Tell,
    /// What went wrong in the pass, which is said after it.
    problem: Option<Error>,
}

/// The probes of one site, in one product, or one for each of their layers.
struct SiteProbes {
    site: Site,
    /// [k, d, h] and [k, 1, h] in f32, then [k, h, h] and so on; none for linear probes.
    hidden: Vec<(Tensor, Tensor)>,
    /// [k, d] in f32; after hidden layers [k, h, 1].
    weights: Tensor,
    /// [k] in f32.
    biases: Tensor,
    /// Which of all probes they are.
    places: Vec<usize>,
    /// Scores [t, k] of the pass that is being made.
    scores: Option<Tensor>,
}

impl Course {
    /// Of the scores of tokens, in their order. `None` where no token has one.
    pub fn of(scores: &[Option<f32>]) -> Option<Self> {
        let known = scores.iter().enumerate();
        let known: Vec<(usize, f32)> = known.filter_map(|(at, it)| Some((at, (*it)?))).collect();
        let (first, rest) = known.split_first()?;
        let (peak_at, peak) = rest.iter().fold(*first, |peak, it| match it.1 > peak.1 {
            true => *it,
            false => peak,
        });
        let average = |before: f32, it: &(usize, f32)| before + NEW * (it.1 - before);
        Some(Self {
            mean: known.iter().map(|it| it.1).sum::<f32>() / known.len() as f32,
            moving_average: rest.iter().fold(first.1, average),
            peak,
            peak_at,
        })
    }
}

impl Live {
    /// For a model, whose probes they have to be, which is for the caller to check.
    ///
    /// Errors: [`Error::Data`] where probes read what no single token has, or where the model has no sites.
    pub fn new(model: &LanguageModel, folders: &[Probes], tell: Tell) -> Result<Self> {
        let decoder = decoder_of(model)?;
        let mut live = Self {
            probes: Vec::new(),
            direct: Vec::new(),
            after: Vec::new(),
            tell,
            problem: None,
        };
        for (folder, probes) in folders.iter().enumerate() {
            let after = follows(model, probes)?;
            let way = match after.is_empty() {
                true => ReadFrom::Direct,
                false => ReadFrom::Suffix,
            };
            let sites = SiteProbes::of(decoder, probes, live.probes.len())?;
            let kept = |it: &Kept| LiveProbe {
                folder,
                label: it.label.clone(),
                site: it.site,
                threshold: it.threshold,
                scale: it.scale,
                way,
            };
            let chosen = probes.chosen().into_iter();
            live.probes
                .extend(chosen.map(|it| kept(&probes.about.probes[it])));
            match way {
                ReadFrom::Direct => live.direct.extend(sites),
                ReadFrom::Suffix => live.after.push((after, sites)),
            }
        }
        Ok(live)
    }

    /// The probes, in the order of the scores.
    pub fn probes(&self) -> &[LiveProbe] {
        &self.probes
    }

    /// The scores of the probes that read what follows, after the last token that was read.
    fn after(
        &mut self,
        decoder: &Decoder,
        cache: &mut KvCache,
        into: &mut [Option<f32>],
    ) -> Result<()> {
        for (tokens, probes) in &self.after {
            let sites: Vec<Site> = probes.iter().map(|it| it.site).collect();
            let Some(states) = decoder.hidden_after(tokens, cache, &sites)? else {
                continue;
            };
            for (probes, x) in probes.iter().zip(states) {
                let last = x.narrow(1, tokens.len() - 1, 1)?;
                let scores = probes.of_states(&last)?.flatten_all()?;
                let scores: Vec<f32> = scores.to_device(&Device::Cpu)?.to_vec1()?;
                probes.place(&scores, into);
            }
        }
        Ok(())
    }
}

impl Watch for Live {
    fn state(&mut self, site: Site, x: &Tensor) {
        for probes in self.direct.iter_mut().filter(|it| it.site == site) {
            match probes.of_states(x) {
                Ok(scores) => probes.scores = Some(scores),
                Err(error) => self.problem = Some(error),
            }
        }
    }

    fn read(
        &mut self,
        tokens: &[u32],
        is_answer: bool,
        network: &Network,
        cache: &mut KvCache,
    ) -> Result<()> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let mut heard: Vec<TokenScores> = tokens
            .iter()
            .map(|&token| TokenScores {
                token,
                is_answer,
                scores: vec![None; self.probes.len()],
            })
            .collect();
        // All of them leave the device in one copy.
        let found: Vec<Tensor> = self
            .direct
            .iter_mut()
            .filter_map(|it| it.scores.take())
            .collect();
        if found.len() == self.direct.len() && !found.is_empty() {
            let all = Tensor::cat(&found, 1)?;
            // What was read again stands before.
            let before = all.dim(0)?.saturating_sub(tokens.len());
            let rows = all
                .narrow(0, before, tokens.len())?
                .to_device(&Device::Cpu)?;
            for (row, token) in rows.to_vec2::<f32>()?.iter().zip(&mut heard) {
                let mut row = &row[..];
                for probes in &self.direct {
                    let (own, rest) = row.split_at(probes.places.len());
                    probes.place(own, &mut token.scores);
                    row = rest;
                }
            }
        }
        if let (Some(decoder), Some(last), true) = (network.decoder(), heard.last_mut(), is_answer)
        {
            self.after(decoder, cache, &mut last.scores)?;
        }
        (self.tell)(heard);
        Ok(())
    }
}

impl SiteProbes {
    /// The chosen probes of a folder by their sites; `first` is the place of the first of them among all.
    fn of(decoder: &Decoder, probes: &Probes, first: usize) -> Result<Vec<Self>> {
        let (width, own) = (probes.about.states.width, decoder.config().hidden_size);
        if width != own {
            let problem =
                format!("the probes read {width} numbers, and a state of the model has {own}");
            return Err(Error::Data(problem));
        }
        let all = decoder.sites();
        let chosen = probes.chosen();
        let mut sites: Vec<Site> = chosen
            .iter()
            .map(|it| probes.about.probes[*it].site)
            .collect();
        sites.sort_unstable();
        sites.dedup();
        if let Some(site) = sites.iter().find(|site| !all.contains(site)) {
            let problem = format!("a probe reads `{site}`, and the model has no such site");
            return Err(Error::Data(problem));
        }
        let of_site = |site: Site| {
            let own = chosen.iter().enumerate();
            let own: Vec<(usize, usize)> = own
                .filter(|(_, it)| probes.about.probes[**it].site == site)
                .map(|(at, it)| (first + at, *it))
                .collect();
            let (mut weights, mut biases) = (Vec::new(), Vec::new());
            for (_, probe) in &own {
                let (weight, bias) = probes.weights(*probe);
                weights.extend_from_slice(weight);
                biases.push(bias);
            }
            let (device, count) = (decoder.device(), own.len());
            let hidden = probes.hidden().iter();
            let hidden = hidden.map(|it| it.of_probes(own.iter().map(|it| it.1), device));
            let weights = match probes.hidden().last() {
                None => Tensor::from_vec(weights, (count, width), device)?,
                Some(last) => Tensor::from_vec(weights, (count, last.outputs, 1), device)?,
            };
            Ok(Self {
                site,
                hidden: hidden.collect::<Result<_>>()?,
                weights: weights.contiguous()?,
                biases: Tensor::from_vec(biases, count, device)?,
                places: own.into_iter().map(|(place, _)| place).collect(),
                scores: None,
            })
        };
        sites.into_iter().map(of_site).collect()
    }

    /// States [1, t, d] -> scores [t, k].
    fn of_states(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.squeeze(0)?.to_dtype(DType::F32)?;
        if self.hidden.is_empty() {
            let [x, weights, biases] =
                [&x, &self.weights, &self.biases].map(|it| Value::constant(it.clone()));
            return Ok(linear(&x, &weights, Some(&biases))?.tensor().clone());
        }
        let (t, d) = x.dims2()?;
        let mut x = x.unsqueeze(0)?.expand((self.places.len(), t, d))?;
        for (weights, biases) in &self.hidden {
            x = x
                .contiguous()?
                .matmul(weights)?
                .broadcast_add(biases)?
                .relu()?;
        }
        let scores = x.matmul(&self.weights)?.squeeze(2)?.t()?;
        Ok(scores.broadcast_add(&self.biases)?)
    }

    /// Puts scores [k] where they belong among those of all probes.
    fn place(&self, scores: &[f32], into: &mut [Option<f32>]) {
        for (place, score) in self.places.iter().zip(scores) {
            into[*place] = Some(*score).filter(|it| it.is_finite());
        }
    }
}

/// The tokens that follow a text where these probes learned; none where they are asked directly.
fn follows(model: &LanguageModel, probes: &Probes) -> Result<Vec<u32>> {
    let about = &probes.about.states;
    match about.position {
        Position::Last => {
            let prompter = Prompter::new(model, &about.prompt, about.position)?;
            model.tokenizer.encode(&prompter.after()?, false)
        }
        Position::Mean | Position::Tokens | Position::Answer | Position::Marked => Ok(Vec::new()),
        Position::Max | Position::MeanAndMax => {
            let problem = "these probes read the largest values over all tokens of a text, which no single token has; learn some \
                           at the position `last`, `mean` or `tokens` to see them in a chat";
            Err(Error::Data(problem.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_is_that_of_the_tokens_with_a_score() {
        assert_eq!(Course::of(&[None, None]), None);
        let course = Course::of(&[Some(1.0), None, Some(3.0), Some(2.0)]).unwrap();
        assert_eq!((course.mean, course.peak, course.peak_at), (2.0, 3.0, 2));
        // 1, then 1 + 0.3 · 2, then 1.6 + 0.3 · 0.4.
        assert!((course.moving_average - 1.72).abs() < 1e-6);
    }
}
