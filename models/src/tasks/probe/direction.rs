//! The direction of a probe: along it a state is moved so that the probe says more of its label, or less.
//!
//! A probe of the difference of two means has that difference; any other linear one has its weights, which tell rows apart best and move
//! a model less well. Its length is 1. Deliberately absent: directions of probes with hidden layers, which have another one at every state.

use serde::{Deserialize, Serialize};

use super::{fitting::SolverName, folder::Probes, scale::Standard, states::Position};
use crate::{Error, Result, arch::sites::Site};

/// Where a probe points.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// The label of the probe.
    pub label: String,
    /// Where it reads.
    pub site: Site,
    /// [d], of length 1.
    pub unit: Vec<f32>,
    /// What the direction is.
    pub made_of: MadeOf,
}

/// What a direction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MadeOf {
    /// The mean of rows with the label less that of rows without it.
    MeanDifference,
    /// The weights that tell both apart.
    Weights,
    /// Weights, of which is not known how they were learned.
    UnknownWeights,
}

impl MadeOf {
    /// In words, for a person.
    pub fn words(self) -> &'static str {
        match self {
            Self::MeanDifference => {
                "the difference of the means of texts with the label and without it"
            }
            Self::Weights => {
                "the weights of the probe, which tell texts apart; a probe of the solver mean-difference often steers better"
            }
            Self::UnknownWeights => {
                "the weights of the probe, of which is not known how they were learned"
            }
        }
    }
}

impl Probes {
    /// The place of the probe of a label that is used, or of the only one.
    ///
    /// Errors: [`Error::Data`] with the labels that there are.
    pub fn place_of(&self, label: Option<&str>) -> Result<usize> {
        let chosen = self.chosen();
        let name = |place: &usize| self.about.probes[*place].label.as_str();
        let names = || {
            let names: Vec<String> = chosen.iter().map(|it| format!("`{}`", name(it))).collect();
            names.join(", ")
        };
        match (label, chosen.as_slice()) {
            (_, []) => Err(Error::Data("no probe of the folder was chosen".to_owned())),
            (None, [only]) => Ok(*only),
            (None, _) => Err(Error::Data(format!(
                "the folder has probes of several labels, of which one has to be named: {}",
                names()
            ))),
            (Some(label), _) => {
                let found = chosen.iter().find(|place| name(place) == label);
                found.copied().ok_or_else(|| {
                    let problem = format!("there is no probe of `{label}`; there are {}", names());
                    Error::Data(problem)
                })
            }
        }
    }

    /// The direction of a probe, by its place in the list.
    ///
    /// Errors: [`Error::Data`] where it has none: it is not linear, or reads no states of single tokens, or its weights are 0.
    pub fn direction(&self, probe: usize) -> Result<Direction> {
        let kept = &self.about.probes[probe];
        let (label, site) = (kept.label.clone(), kept.site);
        let none =
            |why: &str| Error::Data(format!("the probe of `{label}` has no direction: {why}"));
        if !self.hidden().is_empty() {
            return Err(none(
                "it has hidden layers, and reads another one at every state",
            ));
        }
        match self.about.states.position {
            Position::Max | Position::MeanAndMax => {
                return Err(none(
                    "it reads the largest values over all tokens of a text, which no state has",
                ));
            }
            _ => {}
        }
        let weights = self.weights(probe).0.iter().map(|it| f64::from(*it));
        let standard = self.standard(site);
        let (raw, made_of): (Vec<f64>, MadeOf) = match (self.about.solver, standard) {
            // Means were told apart in standardised rows, and folded back: divided by the deviation twice.
            (Some(SolverName::MeanDifference), Some(Standard { deviation, .. })) => (
                weights.zip(deviation).map(|(w, s)| w * s * s).collect(),
                MadeOf::MeanDifference,
            ),
            (Some(_), _) => (weights.collect(), MadeOf::Weights),
            (None, _) => (weights.collect(), MadeOf::UnknownWeights),
        };
        let length = raw.iter().map(|it| it * it).sum::<f64>().sqrt();
        if !(length.is_finite() && length > 0.0) {
            return Err(none("its weights are 0, or no numbers"));
        }
        Ok(Direction {
            unit: raw.iter().map(|it| (it / length) as f32).collect(),
            label,
            site,
            made_of,
        })
    }
}
