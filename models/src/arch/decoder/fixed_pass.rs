//! The pass of learning as a [`FixedPass`]: what a step reads lies on the GPU before it begins, so that it can be recorded.

use candle_core::Tensor;

use super::{Decoder, Input, Shared, Site};
use crate::{
    Result,
    ops::{
        cross_entropy::{Targets, loss_of_targets},
        rope::Rotation,
    },
    tape::{FixedPass, Tape, Value},
};

/// A pass over tokens that lie on the device, with what is to be said after them.
struct PlacedPass {
    decoder: Decoder,
    /// [b, t].
    tokens: Tensor,
    shared: Shared,
    targets: Targets,
    gradient_checkpointing: bool,
}

impl Decoder {
    /// The pass over these tokens, and the loss of predicting `targets` [b · t] divided by `tokens`. Nothing is decided on its way where
    /// our own kernels are all used.
    pub fn fixed_pass(
        &self,
        input: Input,
        targets: &[u32],
        tokens: f64,
        gradient_checkpointing: bool,
    ) -> Result<Box<dyn FixedPass>> {
        let vocabulary = self.config.vocab_size;
        let targets = Targets::new(targets, vocabulary, tokens, &self.device)?;
        let (tokens, shared) = self.prepare(input, &[0])?;
        for spans in shared.spans.iter().flat_map(|(_, spans)| spans) {
            spans.on_device(&self.device)?;
        }
        Ok(Box::new(PlacedPass {
            decoder: self.clone(),
            tokens,
            shared,
            targets,
            gradient_checkpointing,
        }))
    }
}

impl FixedPass for PlacedPass {
    fn inputs(&self) -> Vec<Tensor> {
        let mut inputs = vec![self.tokens.clone()];
        for Rotation { cos, sin } in &self.shared.rotations {
            inputs.extend([cos.clone(), sin.clone()]);
        }
        let spans = self.shared.spans.iter();
        inputs.extend(
            spans
                .flat_map(|(_, spans)| spans)
                .filter_map(|spans| spans.placed()),
        );
        inputs.extend(self.targets.inputs());
        inputs
    }

    fn form(&self) -> String {
        format!("checkpointing: {}", self.gradient_checkpointing)
    }

    fn loss(&self, tape: &Tape) -> Result<Value> {
        let Self {
            decoder,
            tokens,
            shared,
            targets,
            gradient_checkpointing,
        } = self;
        let tape = Some(tape);
        let hidden = decoder.through(
            tape,
            (tokens, shared),
            &mut [],
            *gradient_checkpointing,
            Site::Final,
            &mut |_, _| (),
        )?;
        let cap = decoder.config.final_soft_cap;
        loss_of_targets(&hidden, &decoder.head_on(tape), targets, cap)
    }
}
