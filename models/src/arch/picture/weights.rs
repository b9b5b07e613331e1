//! The weights of a network, by its steps.

use super::{Begins, Layer, NetConfig, Step, Written, shapes, vit};
use crate::{Result, arch::Initial};

/// One weight that a network needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// Its name in files.
    pub name: String,
    /// Its shape there.
    pub shape: Vec<usize>,
    /// What it begins with.
    pub initial: Initial,
    /// Whether it learns.
    pub learns: bool,
    /// Whether scores come from it.
    pub is_head: bool,
}

/// The weights of a network, in the order of its steps.
///
/// Errors: [`crate::Error::Setting`] for pictures that are too small for it.
pub fn weights_of(config: &NetConfig) -> Result<Vec<Need>> {
    let steps = config.steps();
    let written = shapes(config, &steps)?;
    Ok(needs(&steps, &written))
}

/// The same of steps that write these.
pub(super) fn needs(steps: &[Step], written: &[Written]) -> Vec<Need> {
    let mut needs = Vec::new();
    for step in steps {
        needs.extend(needs_of(&step.layer, written[step.from]));
    }
    // Scores come from the last matrix.
    if let Some(head) = needs.iter_mut().rfind(|it| it.shape.len() == 2) {
        head.is_head = true;
    }
    needs
}

/// The weights of a step that reads this.
fn needs_of(layer: &Layer, read: Written) -> Vec<Need> {
    let from = read.channels();
    match layer {
        Layer::Convolution { .. } => of_convolution(layer, from),
        Layer::Norm {
            name,
            begins,
            learns,
            ..
        } => {
            let of = |what, number, learns| Need {
                learns,
                ..need(name, what, &[from], Initial::Constant(number))
            };
            vec![
                of("weight", *begins, *learns),
                of("bias", 0.0, true),
                of("running_mean", 0.0, false),
                of("running_var", 1.0, false),
            ]
        }
        Layer::Linear {
            name, out, bias, ..
        } => {
            let bound = 1.0 / (from as f64).sqrt();
            let weight = need(name, "weight", &[*out, from], Initial::Uniform(bound));
            with_bias(name, weight, *bias, bound)
        }
        Layer::Tokens => {
            let tokens = read.count() / from.max(1) + 1;
            let of = |name: &str, tokens| Need {
                name: name.to_owned(),
                shape: vec![1, tokens, from],
                initial: Initial::Normal(vit::DEVIATION),
                learns: true,
                is_head: false,
            };
            vec![of(vit::CLASS_TOKEN, 1), of(vit::POSITIONS, tokens)]
        }
        Layer::LayerNorm { name, .. } => {
            let of = |what, number| need(name, what, &[from], Initial::Constant(number));
            vec![of("weight", 1.0), of("bias", 0.0)]
        }
        Layer::Attention { name, .. } => {
            let of = |what: &str, out: usize| {
                let name = format!("{name}.{what}");
                let initial = Initial::Normal(vit::DEVIATION);
                let weight = need(&name, "weight", &[out, from], initial);
                [weight, need(&name, "bias", &[out], Initial::Constant(0.0))]
            };
            [of("qkv", 3 * from), of("proj", from)].concat()
        }
        Layer::MaxPool(_)
        | Layer::MeanPool
        | Layer::Flatten
        | Layer::Activation(_)
        | Layer::Add(_)
        | Layer::ClassToken => Vec::new(),
    }
}

/// Those of a convolution that reads so many channels.
fn of_convolution(layer: &Layer, from: usize) -> Vec<Need> {
    let Layer::Convolution {
        name,
        out,
        geometry,
        begins,
        bias,
    } = layer
    else {
        return Vec::new();
    };
    let side = geometry.kernel;
    let bound = 1.0 / ((from * side * side) as f64).sqrt();
    let initial = match begins {
        Begins::Uniform | Begins::ByPictures => Initial::Uniform(bound),
        Begins::Identity => Initial::Identity(bound),
        Begins::NormalByOutputs => Initial::Normal((2.0 / (out * side * side) as f64).sqrt()),
    };
    let weight = Need {
        learns: *begins != Begins::ByPictures,
        ..need(name, "weight", &[*out, from, side, side], initial)
    };
    with_bias(name, weight, *bias, bound)
}

/// A weight that learns.
fn need(name: &str, what: &str, shape: &[usize], initial: Initial) -> Need {
    Need {
        name: format!("{name}.{what}"),
        shape: shape.to_vec(),
        initial,
        learns: true,
        is_head: false,
    }
}

/// A weight, and the bias of its outputs if it has one.
fn with_bias(name: &str, weight: Need, bias: bool, bound: f64) -> Vec<Need> {
    let bias = bias.then(|| need(name, "bias", &weight.shape[..1], Initial::Uniform(bound)));
    [weight].into_iter().chain(bias).collect()
}
