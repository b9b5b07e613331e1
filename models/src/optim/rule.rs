//! The rules there are: which settings each has, and what it keeps of a weight.
//!
//! Deliberately absent: what a step of each is, which has a file of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    adam_atan2::AdamAtan2, adamw::AdamW, adamw_8bit, flat::Form, muon::Muon, sgd::Sgd,
    sign_sgd::SignSgd,
};
use crate::{Error, Result};

/// A rule that turns gradients into updates, with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Rule {
    /// Adam with decoupled weight decay.
    #[serde(rename = "adamw")]
    AdamW(AdamW),
    /// The same with what it keeps of large matrices in 8 bits.
    #[serde(rename = "adamw_8bit")]
    AdamW8Bit(AdamW),
    /// Adam by an angle instead of a division.
    AdamAtan2(AdamAtan2),
    /// Momentum with singular values near 1 for the matrices of layers, and AdamW for the rest.
    Muon(Muon),
    /// Stochastic gradient descent with momentum.
    Sgd(Sgd),
    /// The sign of the gradient, for the rows of a table that a batch sees.
    SignSgd(SignSgd),
}

/// How a weight learns that doesn't learn by the rule of the run. It is not averaged either.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnRule {
    /// What the weight learns by in place of the run's rule, with its settings.
    pub rule: Rule,
    /// Its learning rate, as a multiple of that of the run.
    pub rate_ratio: f64,
}

/// The weights that have a rule of their own, by name.
pub type OwnRules = BTreeMap<String, OwnRule>;

impl Rule {
    pub(super) fn weight_decay(&self) -> f64 {
        match self {
            Self::AdamW(adamw) | Self::AdamW8Bit(adamw) => adamw.weight_decay,
            Self::AdamAtan2(adam) => adam.weight_decay,
            Self::Muon(muon) => muon.weight_decay,
            Self::Sgd(sgd) => sgd.weight_decay,
            Self::SignSgd(sign) => sign.weight_decay,
        }
    }

    pub(super) fn state(&self) -> &'static [Kept] {
        match self {
            Self::AdamW(_) => AdamW::STATE,
            Self::AdamW8Bit(_) => adamw_8bit::STATE,
            Self::AdamAtan2(_) => AdamAtan2::STATE,
            Self::Muon(_) => Muon::STATE,
            Self::Sgd(sgd) => sgd.state(),
            Self::SignSgd(_) => &[],
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let decay = self.weight_decay();
        if !(decay >= 0.0 && decay.is_finite()) {
            let problem = format!("is {decay}; it must be a number of at least 0");
            return Err(Error::setting("optimizer.weight_decay", problem));
        }
        match self {
            Self::AdamW(adamw) | Self::AdamW8Bit(adamw) => adamw.check(),
            Self::AdamAtan2(adam) => adam.check(),
            Self::Muon(muon) => muon.check(),
            Self::Sgd(sgd) => sgd.check(),
            Self::SignSgd(_) => Ok(()),
        }
    }
}

/// Something that a rule keeps of each weight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    /// The name under which it is saved, behind the weight's.
    pub(super) name: &'static str,
    pub(super) form: Form,
}

impl Kept {
    /// A number for each weight.
    pub(super) const fn number(name: &'static str) -> Self {
        let form = Form::Number;
        Self { name, form }
    }
}

macro_rules! rules_from {
    ($($settings:ident),*) => {$(
        impl From<$settings> for Rule {
            fn from(settings: $settings) -> Self {
                Self::$settings(settings)
            }
        }
    )*};
}

rules_from!(AdamW, AdamAtan2, Muon, SignSgd, Sgd);
