//! Probes applied to texts: those that a person gives, those of a file, or those of captured states.
//!
//! A text is shown to the model as it was when the probes were learned, in one pass for all sites that are needed and not beyond the
//! last of them. Its scores are those that its captured states would have. Where the folder of the probes says how far their training
//! rows reach, a text beyond that is marked.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{
    calibration,
    capture::{decoder_of, passes, shown, tokens_at_once},
    capture_prompt::{Prompted, Prompter},
    folder::Probes,
    labelled::{self, Labelled, LabelledRequest, LabelledText},
    pass_states::states_of,
    states::{Position, States},
};
use crate::{
    Error, Result,
    arch::sites::Site,
    checkpoint::save::name_of,
    data::{check_problems, row::Problem},
    tasks::language::model::LanguageModel,
};

/// How many rows that are left out are named.
const LEFT_OUT_NAMED: usize = 1000;
/// Texts whose scores are told at once, at most, where nothing is computed.
const ROWS_AT_ONCE: usize = 1024;

/// What probes are applied to, and which of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApplyRequest {
    /// Texts by themselves. Without any, those of `data`.
    pub texts: Vec<String>,
    /// Files with texts, and with labels where there are some.
    pub data: LabelledRequest,
    /// Continue without the rows that can't be used. Without it, one such row is an error.
    pub skip_bad_rows: bool,
    /// Each label at every site, and not only where it was chosen.
    pub all_sites: bool,
}

/// From where on a label is called active.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// From the score that validation rows chose.
    Chosen,
    /// From a probability: the calibrated one, where there is one.
    Probability(f64),
}

/// What will be applied to what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApplyPlan {
    /// Which probes, by their places in the folder.
    pub probes: Vec<usize>,
    /// How many texts there are.
    pub texts: usize,
    /// How each file was read.
    pub read_as: Vec<String>,
    /// Rows that can't be used, each with the reason.
    pub left_out: Vec<String>,
}

/// What probes say of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// What the data calls it, or `FILE:LINE`.
    pub id: String,
    /// What the probes were asked about, in full.
    pub text: String,
    /// Its labels, where the data has some.
    pub labels: Vec<String>,
    /// The scores, in the order of [`ApplyPlan::probes`].
    pub scores: Vec<f32>,
    /// Sites at which its state is farther from the mean than what the probes were learned from.
    pub far: Vec<Site>,
}

/// Probes that are ready to be applied.
pub struct Apply<'a> {
    model: &'a LanguageModel,
    probes: &'a Probes,
    plan: ApplyPlan,
    sites: Vec<Site>,
    rows: Vec<LabelledText>,
    prompted: Vec<Prompted>,
}

impl<'a> Apply<'a> {
    /// Reads the texts and tokenizes them. Whether the model is that of the probes is for the caller to check.
    ///
    /// Errors: those of the data; [`Error::Data`] for rows that can't be used, unless they may be skipped.
    pub fn plan(
        model: &'a LanguageModel,
        probes: &'a Probes,
        request: &ApplyRequest,
    ) -> Result<Self> {
        let labelled = match request.texts.as_slice() {
            [] => labelled::read(&request.data)?,
            texts => given(texts),
        };
        let about = &probes.about.states;
        let prompter = Prompter::new(model, &about.prompt, about.position)?;
        let (texts, prompted, problems) = shown(&labelled, &prompter);
        let rows: Vec<LabelledText> = texts.into_iter().cloned().collect();
        check_problems(
            rows.len() + problems.len(),
            &problems,
            request.skip_bad_rows,
        )?;
        let which = probes.which(request.all_sites);
        let named = problems.iter().take(LEFT_OUT_NAMED);
        Ok(Self {
            model,
            probes,
            sites: sites(probes, &which),
            plan: ApplyPlan {
                probes: which,
                texts: rows.len(),
                read_as: labelled.read_as,
                left_out: named
                    .map(|it| format!("{}: {it}", name_of(&it.path)))
                    .collect(),
            },
            rows,
            prompted,
        })
    }

    /// What will be applied to what.
    pub fn planned(&self) -> &ApplyPlan {
        &self.plan
    }

    /// Applies them. `tell` hears of some texts after each pass, in their order, and can end it.
    ///
    /// Errors: those of the device; [`Error::Data`] where a state is no number.
    pub fn run(&self, tell: &mut dyn FnMut(Vec<Applied>) -> ControlFlow<()>) -> Result<()> {
        let decoder = decoder_of(self.model)?;
        let about = &self.probes.about.states;
        let suits = tokens_at_once(decoder.device());
        // As many as when they were captured, so that sums are rounded alike, and no more than suits the device.
        let most = match about.tokens_at_once {
            0 => suits,
            captured => captured.min(suits),
        };
        for pass in passes(decoder, &self.prompted, most) {
            let prompted = &self.prompted[pass.clone()];
            let states = states_of(decoder, prompted, about.position, &self.sites)?;
            let mut start = 0;
            let applied = self.rows[pass].iter().zip(prompted).map(|(row, prompted)| {
                let vectors = match about.position {
                    Position::Tokens => prompted.picked.len(),
                    _ => 1,
                };
                let range = start * about.width..(start + vectors) * about.width;
                start += vectors;
                let state = |site: usize| &states[site][range.clone()];
                let (scores, far) = said(self.probes, &self.plan.probes, &self.sites, &state);
                whole(Applied {
                    id: row.id.clone(),
                    text: row.text.clone(),
                    labels: row.labels.clone(),
                    scores,
                    far,
                })
            });
            let applied: Vec<Applied> = applied.collect::<Result<_>>()?;
            if tell(applied).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Applies probes to captured states. `tell` hears of some texts at once, in their order.
///
/// Errors: [`Error::Data`] when a site was not captured, or a state is no number.
pub fn of_states(
    probes: &Probes,
    states: &States,
    all_sites: bool,
    tell: &mut dyn FnMut(Vec<Applied>),
) -> Result<()> {
    let which = probes.which(all_sites);
    let sites = sites(probes, &which);
    let matrices: Vec<_> = sites
        .iter()
        .map(|site| states.matrix(*site))
        .collect::<Result<_>>()?;
    let vectors = states.vectors_of_rows();
    let rows: Vec<_> = states.rows().iter().zip(vectors).collect();
    for rows in rows.chunks(ROWS_AT_ONCE) {
        let applied = rows.iter().map(|(row, vectors)| {
            let read: Vec<Vec<f32>> = matrices.iter().map(|it| it.read(vectors.clone())).collect();
            let state = |site: usize| &read[site][..];
            let (scores, far) = said(probes, &which, &sites, &state);
            whole(Applied {
                id: row.id.clone(),
                text: row.text.clone(),
                labels: row.labels.clone(),
                scores,
                far,
            })
        });
        tell(applied.collect::<Result<_>>()?);
    }
    Ok(())
}

impl Probes {
    /// Places of all probes, or of those that were chosen, one a label.
    pub fn which(&self, all_sites: bool) -> Vec<usize> {
        match all_sites {
            true => (0..self.about.probes.len()).collect(),
            false => self.chosen(),
        }
    }

    /// What a score of a probe means, if it was calibrated.
    pub fn probability(&self, probe: usize, score: f32) -> Option<f64> {
        let scale = self.about.probes[probe].scale;
        scale.map(|it| it.probability(score))
    }

    /// What labels are compared by: scores of different probes mean different things, probabilities don’t. Where none was fitted, it
    /// is that of the bare score.
    pub fn strength(&self, probe: usize, score: f32) -> f64 {
        let plain = || calibration::probability(score);
        self.probability(probe, score).unwrap_or_else(plain)
    }

    /// Whether a score of a probe calls its label active.
    pub fn is_active(&self, probe: usize, score: f32, threshold: Threshold) -> bool {
        match threshold {
            Threshold::Chosen => score >= self.about.probes[probe].threshold,
            Threshold::Probability(least) => self.strength(probe, score) >= least,
        }
    }
}

/// The sites that these probes read, in the order in which a pass reaches them.
fn sites(probes: &Probes, which: &[usize]) -> Vec<Site> {
    let mut sites: Vec<Site> = which
        .iter()
        .map(|it| probes.about.probes[*it].site)
        .collect();
    sites.sort_unstable();
    sites.dedup();
    sites
}

/// Scores of a text, and the sites at which it is far from what the probes saw. `state` has the vectors of a site, one after another;
/// of several, scores are means.
fn said<'a>(
    probes: &Probes,
    which: &[usize],
    sites: &[Site],
    state: &dyn Fn(usize) -> &'a [f32],
) -> (Vec<f32>, Vec<Site>) {
    let width = probes.about.states.width.max(1);
    let score = |&probe: &usize| {
        let site = probes.about.probes[probe].site;
        let at = sites.iter().position(|it| *it == site).unwrap_or_default();
        let vectors = state(at).chunks(width);
        let count = vectors.len().max(1);
        match count {
            1 => probes.score(probe, state(at)),
            _ => {
                let sum: f64 = vectors.map(|it| f64::from(probes.score(probe, it))).sum();
                (sum / count as f64) as f32
            }
        }
    };
    let is_far = |at: &usize| {
        let mut vectors = state(*at).chunks(width);
        vectors.any(|it| probes.is_far(sites[*at], it) == Some(true))
    };
    let far = (0..sites.len()).filter(is_far).map(|at| sites[at]);
    (which.iter().map(score).collect(), far.collect())
}

/// A text whose scores are numbers.
fn whole(applied: Applied) -> Result<Applied> {
    match applied.scores.iter().find(|it| !it.is_finite()) {
        None => Ok(applied),
        Some(wrong) => Err(Error::Data(format!(
            "a state of `{}` gives the score {wrong}, which says nothing; the model computes numbers that are too large in its dtype",
            applied.id
        ))),
    }
}

/// Texts that a person gives.
fn given(texts: &[String]) -> Labelled {
    let mut labelled = Labelled {
        files: vec!["the texts".into()],
        ..Labelled::default()
    };
    for (text, line) in texts.iter().zip(1..) {
        if text.trim().is_empty() {
            labelled.problems.push(Problem {
                path: labelled.files[0].clone(),
                line,
                field: Some("text".to_owned()),
                reason: "is empty".to_owned(),
                details: None,
            });
            continue;
        }
        labelled.rows.push(LabelledText {
            id: format!("text {line}"),
            text: text.clone(),
            line,
            ..LabelledText::default()
        });
    }
    labelled
}
