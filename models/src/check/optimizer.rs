//! What changes weights: three steps of each rule, their average, and the norm of gradients.

use candle_core::Tensor;

use super::trial::{Named, Operation, Run, Setup, StepTrial, normal};
use crate::{
    Result,
    optim::{
        DecayScope, Optimizer, Rule, adam_atan2::AdamAtan2, adamw::AdamW, clip::gradient_norm,
        ema::Ema, muon::Muon, sgd::Sgd,
    },
    parameters::{Parameter, Parameters},
    tape::Gradients,
};

/// Names and shapes of the weights of a trial: a single one, odd ones, and enough to be worth a measurement.
type Weights = &'static [(&'static str, &'static [usize])];

const ONE: Weights = &[("bias", &[5])];
const ODD: Weights = &[
    ("norm", &[1025]),
    ("first.weight", &[33, 7]),
    ("second.bias", &[3]),
];
const LARGE: Weights = &[
    ("up.weight", &[768, 512]),
    ("down.weight", &[512, 768]),
    ("norm", &[512]),
];
/// The same for a rule that multiplies matrices many times.
const MULTIPLIED: Weights = &[
    ("up.weight", &[384, 256]),
    ("down.weight", &[256, 384]),
    ("norm", &[256]),
];

const STEPS: usize = 3;

pub(super) fn adamw_steps() -> Result<Operation> {
    let rule = AdamW {
        weight_decay: 0.1,
        ..AdamW::default()
    };
    let mut operation = operation(1, move |place, weights| {
        steps_of(STEPS, rule.into(), place, weights)
    })?;
    // A single step: a number that lies between two codes may become either, and what follows differs by more than roundings.
    let in_8_bits = trials(1, LARGE, move |place, weights| {
        steps_of(1, Rule::AdamW8Bit(rule), place, weights)
    })?;
    operation.trials.splice(0..0, in_8_bits.trials);
    Ok(operation)
}

pub(super) fn adam_atan2_steps() -> Result<Operation> {
    let rule = AdamAtan2 {
        beta1: 0.9,
        beta2: 0.95,
        weight_decay: 0.1,
    };
    operation(1, move |place, weights| {
        steps_of(STEPS, rule.into(), place, weights)
    })
}

pub(super) fn muon_steps() -> Result<Operation> {
    let rule = Muon {
        momentum: 0.95,
        nesterov: true,
        newton_schulz_steps: 5,
        weight_decay: 0.1,
        others: AdamW::default(),
        others_rate_ratio: 0.1,
    };
    // The norm of the largest matrix, whose products are shorter sums.
    trials(384 * 256, MULTIPLIED, move |place, weights| {
        steps_of(STEPS, rule.into(), place, weights)
    })
}

pub(super) fn sgd_steps() -> Result<Operation> {
    let rule = Sgd {
        momentum: 0.9,
        nesterov: false,
        weight_decay: 0.01,
    };
    operation(1, move |place, weights| {
        steps_of(STEPS, rule.into(), place, weights)
    })
}

pub(super) fn average() -> Result<Operation> {
    operation(1, |place, weights| {
        let parameters = parameters(place, weights)?;
        let gradients = gradients(place, weights, "first")?;
        Ok(Box::new(move || {
            let mut average = Ema::new(0.9, &parameters)?;
            for parameter in parameters.iter() {
                if let Some(change) = gradients.get(parameter.name()) {
                    parameter.assign(change)?;
                }
            }
            average.update(&parameters)?;
            average.swap(&parameters)?;
            Ok(named(&parameters))
        }))
    })
}

pub(super) fn norm_of_gradients() -> Result<Operation> {
    operation(2 * 768 * 512, |place, weights| {
        let gradients = gradients(place, weights, "first")?;
        Ok(Box::new(move || {
            let norm = gradient_norm(&gradients)? as f32;
            let norm = Tensor::new(&[norm], &candle_core::Device::Cpu)?;
            Ok(vec![Named::new("the norm", &norm)])
        }))
    })
}

fn operation(
    longest_sum: usize,
    prepare: impl Fn(&Setup, Weights) -> Result<Run> + Clone + 'static,
) -> Result<Operation> {
    trials(longest_sum, LARGE, prepare)
}

fn trials(
    longest_sum: usize,
    large: Weights,
    prepare: impl Fn(&Setup, Weights) -> Result<Run> + Clone + 'static,
) -> Result<Operation> {
    let trials = [ONE, ODD, large].map(|weights| {
        let shapes: Vec<String> = weights
            .iter()
            .map(|(name, shape)| format!("{name} {shape:?}"))
            .collect();
        let prepare = prepare.clone();
        StepTrial::of(shapes.join(", "), move |place| prepare(place, weights))
    });
    Operation::of(longest_sum, trials.into())
}

fn steps_of(steps: usize, rule: Rule, place: &Setup, weights: Weights) -> Result<Run> {
    let parameters = parameters(place, weights)?;
    let gradients = (0..steps).map(|step| gradients(place, weights, &format!("step {step}")));
    let gradients: Vec<Gradients> = gradients.collect::<Result<_>>()?;
    Ok(Box::new(move || {
        let mut optimizer = Optimizer::new(rule, DecayScope::Matrices, &parameters)?;
        for gradients in &gradients {
            optimizer.step(&parameters, gradients, 0.1, 0.5)?;
        }
        Ok(named(&parameters))
    }))
}

fn parameters(place: &Setup, weights: Weights) -> Result<Parameters> {
    let mut parameters = Parameters::default();
    for (name, shape) in weights {
        let tensor = normal(name, shape)?.to_device(&place.device)?;
        parameters.insert(Parameter::new(name, &tensor, true)?);
    }
    Ok(parameters)
}

fn gradients(place: &Setup, weights: Weights, purpose: &str) -> Result<Gradients> {
    let mut gradients = Gradients::default();
    for (name, shape) in weights {
        let tensor = normal(&format!("{purpose} {name}"), shape)?;
        gradients.add(name, tensor.to_device(&place.device)?)?;
    }
    Ok(gradients)
}

fn named(parameters: &Parameters) -> Vec<Named> {
    let named = |it: &Parameter| Named::new(it.name(), &it.tensor());
    parameters.iter().map(named).collect()
}
