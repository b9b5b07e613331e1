//! Leading a model towards the label of a probe, or away from it, and what that costs.
//!
//! A strength of 0.1 moves each state at the site of the probe by a tenth of how long states there usually are. That length is
//! measured on an unrelated text, and not on the rows that the probe learned from: a mean over tokens includes the first one,
//! whose state is a hundred times as long in many models. The perplexity of the same text shows how much worse the model
//! predicts. Deliberately absent: any effect at strength 0, at which nothing extra is computed.

use std::collections::BTreeMap;

use candle_core::DType;
use serde::{Deserialize, Serialize};

use super::{
    capture::decoder_of,
    direction::{Direction, MadeOf},
};
use crate::{
    Error, Result,
    arch::{
        decoder::{Decoder, Input},
        sites::Site,
        steering::Steering,
    },
    tape::Value,
    tasks::language::model::LanguageModel,
};

/// The text over which states and predictions are measured, which was written for that.
const HELD_OUT: &str = include_str!("held_out.txt");

/// What is done along a direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// So many times the usual length of states is added; below 0, taken away.
    Add(f64),
    /// What states have along it is taken away.
    Remove,
}

/// A direction along which a model is led.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steered {
    /// The label of the probe.
    pub label: String,
    /// Where it reads, and states are changed.
    pub site: Site,
    /// What the direction is.
    pub made_of: MadeOf,
    /// What is done along it.
    pub how: How,
    /// How long states there usually are: half of those of a text are longer.
    pub usual_length: f64,
}

/// How well a model predicts a text that has nothing to do with anything.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Its perplexity as it is.
    pub plain: f64,
    /// Its perplexity while it is led; absent where it computes no numbers any more.
    pub steered: Option<f64>,
    /// How many tokens it had to predict.
    pub tokens: usize,
}

/// What was measured of a model as it is, which is the same however it is led: a slider that moves costs one pass and not three.
#[derive(Debug, Default)]
pub struct Measured {
    plain: Option<f64>,
    lengths: BTreeMap<Site, f64>,
}

/// What leads a model along these directions, and what a person should know of each.
///
/// Errors: [`Error::Data`] where the model has no such states, or a strength is no number.
pub fn steering(
    model: &LanguageModel,
    directions: &[(Direction, How)],
    measured: &mut Measured,
) -> Result<(Vec<Steering>, Vec<Steered>)> {
    let decoder = decoder_of(model)?;
    let (mut changes, mut told) = (Vec::new(), Vec::new());
    for (direction, how) in directions {
        check(decoder, direction, *how)?;
        let usual_length = match measured.lengths.get(&direction.site) {
            Some(known) => *known,
            None => usual_length(model, decoder, direction.site)?,
        };
        measured.lengths.insert(direction.site, usual_length);
        let (site, unit, device) = (direction.site, &direction.unit, decoder.device());
        match how {
            // What adds nothing isn’t done.
            How::Add(0.0) => {}
            How::Add(strength) => {
                let length = strength * usual_length;
                let vector: Vec<f32> = unit
                    .iter()
                    .map(|it| (f64::from(*it) * length) as f32)
                    .collect();
                changes.push(Steering::add(site, &vector, device)?);
            }
            How::Remove => changes.push(Steering::remove(site, unit, device)?),
        }
        told.push(Steered {
            label: direction.label.clone(),
            site,
            made_of: direction.made_of,
            how: *how,
            usual_length,
        });
    }
    Ok((changes, told))
}

fn check(decoder: &Decoder, direction: &Direction, how: How) -> Result<()> {
    let label = &direction.label;
    let wrong = |problem: String| Err(Error::Data(problem));
    let (width, own) = (direction.unit.len(), decoder.config().hidden_size);
    if width != own {
        return wrong(format!(
            "the direction of `{label}` has {width} numbers, and a state of the model has {own}"
        ));
    }
    let site = direction.site;
    if !decoder.sites().contains(&site) {
        return wrong(format!(
            "the probe of `{label}` reads `{site}`, and the model has no such site"
        ));
    }
    match how {
        How::Add(strength) if !strength.is_finite() => wrong(format!(
            "the strength of `{label}` is {strength}, which is no number"
        )),
        _ => Ok(()),
    }
}

/// What it costs to lead a model so: how it predicts a text as it is, and while it is led.
///
/// Errors: [`Error::Data`] where the model computes no numbers as it is.
pub fn cost(model: &LanguageModel, steering: &[Steering], measured: &mut Measured) -> Result<Cost> {
    let decoder = decoder_of(model)?;
    let tokens = held_out(model)?;
    let none = || Error::Data("the model’s predictions of a text are no numbers".to_owned());
    let plain = match measured.plain {
        Some(known) => known,
        None => perplexity(decoder, &tokens, &[])?.ok_or_else(none)?,
    };
    measured.plain = Some(plain);
    Ok(Cost {
        plain,
        steered: match steering {
            [] => Some(plain),
            steering => perplexity(decoder, &tokens, steering)?,
        },
        tokens: tokens.len() - 1,
    })
}

fn perplexity(decoder: &Decoder, tokens: &[u32], steering: &[Steering]) -> Result<Option<f64>> {
    let mut cache = decoder.new_cache();
    cache.steer(steering.into());
    let hidden = decoder.hidden(None, Input::new(tokens, 1), Some(&mut cache), false)?;
    let predicted = tokens.len() - 1;
    let before = hidden.tensor().narrow(1, 0, predicted)?.contiguous()?;
    let loss = decoder.loss(
        None,
        &Value::constant(before),
        &tokens[1..],
        predicted as f64,
    )?;
    let loss = loss.tensor().to_dtype(DType::F64)?.to_scalar::<f64>()?;
    Ok(Some(loss.exp()).filter(|it| it.is_finite()))
}

/// The median length of the states of a site over a text, without its first token.
fn usual_length(model: &LanguageModel, decoder: &Decoder, site: Site) -> Result<f64> {
    let tokens = held_out(model)?;
    let states = decoder.hidden_at(Input::new(&tokens, 1), &[site])?;
    let states = states[0].squeeze(0)?.narrow(0, 1, tokens.len() - 1)?;
    let states: Vec<Vec<f32>> = states.to_dtype(DType::F32)?.to_vec2()?;
    let squares = states
        .iter()
        .map(|state| state.iter().map(|it| f64::from(*it).powi(2)));
    let mut lengths: Vec<f64> = squares.map(|it| it.sum::<f64>().sqrt()).collect();
    lengths.sort_unstable_by(f64::total_cmp);
    let median = lengths.get(lengths.len() / 2).copied();
    median.filter(|it| it.is_finite()).ok_or_else(|| {
        Error::Data(format!(
            "states at `{site}` are no numbers, so nothing can be measured of them"
        ))
    })
}

/// The tokens of the text, as far as the model can read it; at least two.
fn held_out(model: &LanguageModel) -> Result<Vec<u32>> {
    let mut tokens = model.tokenizer.encode(HELD_OUT, true)?;
    tokens.truncate(model.network.context());
    match tokens.len() {
        0 | 1 => Err(Error::Data(
            "the model can’t read a text of two tokens, so nothing can be measured".to_owned(),
        )),
        _ => Ok(tokens),
    }
}
