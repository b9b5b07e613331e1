//! Steps of thinking about puzzles, launched and recorded.

use std::sync::Arc;

use candle_core::{DType, Tensor};

use super::{device, recorded::played};
use crate::{
    arch::{
        initial::InitialWeights,
        trm::{Positions, Squash, State, Trm, TrmConfig},
    },
    optim::{DecayScope, Optimizer, adamw::AdamW, clip::loss_and_norm},
    tape::FixedPass,
    tasks::puzzle::halting::{Carry, NO_LABEL, Row, Weighing},
    train::recorded::{Played, RecordedPasses},
};

const ROWS: usize = 6;
const CELLS: usize = 16;

/// Puzzles that differ, some of whose cells have no label.
fn puzzle(number: usize) -> Arc<Row> {
    let cell = |at: usize| ((at * 5 + number * 3) % 5 + 1) as u32;
    let label = |at: usize| match (at + number) % 7 {
        0 => NO_LABEL,
        _ => cell(at + 1),
    };
    Arc::new(Row {
        cells: (0..CELLS).map(cell).collect(),
        labels: (0..CELLS).map(label).collect(),
        puzzle: 0,
    })
}

fn config(mlp_t: bool) -> TrmConfig {
    TrmConfig {
        vocab_size: 6,
        seq_len: CELLS,
        num_puzzle_identifiers: 1,
        hidden_size: 64,
        num_heads: 2,
        expansion: 4.0,
        l_layers: 2,
        h_cycles: 2,
        l_cycles: 2,
        puzzle_emb_ndim: 64,
        puzzle_emb_len: 4,
        pos_encodings: match mlp_t {
            true => Positions::Learned,
            false => Positions::Rope,
        },
        mlp_t,
        halt_max_steps: 3,
        halt_exploration_prob: 0.0,
        rms_norm_eps: 1e-5,
        rope_theta: 1e4,
        loss: Squash::Stablemax,
    }
}

/// Losses, norms, what is carried and the weights of some steps.
fn learn(mlp_t: bool, dtype: DType, is_recorded: bool) -> Vec<f32> {
    let device = device();
    let mut weights = InitialWeights::new(3, &device);
    let model = Trm::new(config(mlp_t), &mut weights, dtype, &device).unwrap();
    let parameters = model.parameters();
    let rule = AdamW::default().into();
    let mut optimizer = Optimizer::new(rule, DecayScope::All, parameters).unwrap();
    let spans = model.spans(ROWS);
    spans.on_device(&device).unwrap();
    let empty = vec![puzzle(0); ROWS];
    let mut carry = Carry::new(&model, &empty).unwrap();
    let weighing = Weighing {
        slot: 1.0 / ROWS as f64,
        smoothing: 0.1,
        halting: 0.5,
    };
    let (mut passes, mut told) = (RecordedPasses::default(), Vec::new());
    for step in 0..9 {
        carry.refill(|slot| puzzle(step * ROWS + slot));
        let thinking = carry.thinking(model.clone(), spans.clone(), weighing, true);
        let thinking: [Box<dyn FixedPass>; 1] = [Box::new(thinking.unwrap())];
        let Played {
            loss,
            gradients,
            left,
        } = played(&mut passes, &thinking, &[0], is_recorded);
        drop(thinking);
        let [answer, thoughts, wants] = <[Tensor; 3]>::try_from(left[0].clone()).unwrap();
        carry.thought(State {
            answer: answer.force_contiguous().unwrap(),
            thoughts: thoughts.force_contiguous().unwrap(),
        });
        // Slots end at different steps, and some begin anew in each.
        let wants: Vec<f32> = wants.to_vec1().unwrap();
        let ends = (0..ROWS).map(|slot| f32::from(u8::from((slot + step) % 2 == 0)));
        carry.halt(3, &ends.collect::<Vec<_>>(), &vec![0; ROWS]);
        let (loss, norm) = loss_and_norm(&loss, &gradients).unwrap().read().unwrap();
        told.extend([loss as f32, norm as f32]);
        told.extend(wants);
        optimizer.step(parameters, &gradients, 1e-2, 1.0).unwrap();
    }
    for kept in [&carry.state.answer, &carry.state.thoughts] {
        let numbers = kept.to_dtype(DType::F32).and_then(|it| it.flatten_all());
        told.extend(numbers.and_then(|it| it.to_vec1::<f32>()).unwrap());
    }
    let weights = parameters.trainable().map(|it| it.tensor().flatten_all());
    let weights = Tensor::cat(&weights.map(Result::unwrap).collect::<Vec<_>>(), 0).unwrap();
    told.extend(weights.to_vec1::<f32>().unwrap());
    told
}

#[test]
#[ignore = "needs a CUDA device"]
fn a_recorded_step_of_thinking_has_the_bits_of_one_that_is_launched() {
    for (mlp_t, dtype) in [
        (true, DType::BF16),
        (false, DType::BF16),
        (true, DType::F32),
        (false, DType::F32),
    ] {
        let [launched, recorded] = [false, true].map(|it| learn(mlp_t, dtype, it));
        assert!(launched.iter().all(|it| it.is_finite()));
        assert!(launched == recorded, "{mlp_t}, {dtype:?}");
    }
}
