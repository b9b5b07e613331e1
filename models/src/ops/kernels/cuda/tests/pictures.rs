//! Steps of networks for pictures, launched and recorded.

use std::cell::RefCell;

use candle_core::{DType, Tensor};

use super::{device, recorded::played};
use crate::{
    Result,
    arch::{
        initial::InitialWeights,
        picture::{Architecture, Mode, NetConfig, Network, Stem},
    },
    ops::classify::{Squash, classify},
    optim::{DecayScope, Optimizer, adamw::AdamW, clip::loss_and_norm},
    tape::{FixedPass, Left, Tape, Value},
    train::recorded::{Played, RecordedPasses},
};

/// Pictures that a network with norms sees.
struct Pictures<'a> {
    network: &'a Network,
    pictures: Tensor,
    classes: Tensor,
    left: RefCell<Left>,
}

impl FixedPass for Pictures<'_> {
    fn inputs(&self) -> Vec<Tensor> {
        vec![self.pictures.clone(), self.classes.clone()]
    }

    fn form(&self) -> String {
        "pictures".to_owned()
    }

    fn loss(&self, tape: &Tape) -> Result<Value> {
        let seen = self.network.see(Some(tape), &self.pictures, Mode::Batch)?;
        *self.left.borrow_mut() = seen.moments.into_iter().map(|(_, it)| it).collect();
        let weights = Tensor::full(0.1f32, self.classes.elem_count(), self.classes.device())?;
        let (scores, classes) = (&seen.scores, &self.classes);
        classify(scores, classes, &weights, Squash::Softmax, 0.1)
    }

    fn take_left(&self) -> Left {
        self.left.take()
    }
}

/// Losses, norms and the running numbers of some steps of a network for pictures.
fn learn_pictures(architecture: Architecture, dtype: DType, is_recorded: bool) -> Vec<f32> {
    let device = device();
    let config = NetConfig {
        architecture,
        stem: Stem::Small,
        sides: [32; 2],
        channels: 3,
        classes: 5,
        transformer: None,
    };
    let mut weights = InitialWeights::new(3, &device);
    let mut network = Network::new(config, &mut weights, dtype).unwrap();
    let parameters = network.parameters();
    let rule = AdamW::default().into();
    let mut optimizer = Optimizer::new(rule, DecayScope::All, parameters).unwrap();
    let (mut passes, mut told) = (RecordedPasses::default(), Vec::new());
    for step in 0..8u32 {
        let numbers =
            (0..10 * 32 * 32 * 3).map(|at| ((at * 7 + step * 13) % 251) as f32 / 125.0 - 1.0);
        let pictures = Tensor::from_iter(numbers, &device)
            .and_then(|it| it.reshape((10, 32, 32, 3)))
            .unwrap();
        let classes = Tensor::from_iter((0..10).map(|at| (at + step) % 5), &device).unwrap();
        let pass: Box<dyn FixedPass> = Box::new(Pictures {
            network: &network,
            pictures,
            classes,
            left: RefCell::default(),
        });
        let passes_of_step = [pass];
        let Played {
            loss,
            gradients,
            left,
        } = played(&mut passes, &passes_of_step, &[0], is_recorded);
        drop(passes_of_step);
        let (loss, norm) = loss_and_norm(&loss, &gradients).unwrap().read().unwrap();
        told.extend([loss as f32, norm as f32]);
        let parameters = network.parameters();
        optimizer.step(parameters, &gradients, 1e-2, 1.0).unwrap();
        let names: Vec<String> = network.norms().map(str::to_owned).collect();
        assert_eq!(names.len(), left[0].len());
        let moments: Vec<_> = names.into_iter().zip(left[0].clone()).collect();
        network.follow(&moments, 10, 0.1).unwrap();
    }
    let running = network.parameters().iter();
    let running = running.filter(|it| it.name().contains("running"));
    told.extend(running.flat_map(|it| it.tensor().to_vec1::<f32>().unwrap()));
    told
}

#[test]
#[ignore = "needs a CUDA device"]
fn a_recorded_step_of_pictures_has_the_bits_of_one_that_is_launched() {
    for (architecture, dtype) in [
        (Architecture::Resnet18, DType::BF16),
        (Architecture::Airbench94, DType::BF16),
        (Architecture::Small, DType::F32),
    ] {
        let [launched, recorded] =
            [false, true].map(|is_recorded| learn_pictures(architecture, dtype, is_recorded));
        assert_eq!(launched, recorded, "{architecture:?}, {dtype:?}");
    }
}
