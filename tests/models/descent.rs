//! Steps of an optimizer downhill on ½ Σ curvature (x - target)², as a script draws them.

use candle_core::{Device, Tensor};
use models::{
    Result,
    optim::{
        DecayScope, Optimizer, Rule,
        lookahead::{Lookahead, meet},
    },
    parameters::{Parameter, Parameters},
    tape::Gradients,
};
use serde::Deserialize;

/// What is asked of an optimizer.
#[derive(Deserialize)]
pub(crate) struct Descent {
    start: Vec<f32>,
    target: Vec<f32>,
    curvature: Vec<f32>,
    /// How many numbers there are: shorter lists begin again until there are so many.
    count: usize,
    /// The learning rate of each step.
    rates: Vec<f64>,
    /// Rows and columns, where the numbers are a matrix.
    shape: Option<[usize; 2]>,
    pub(crate) rule: Rule,
    /// The copy that the numbers go back to once in a while.
    pub(crate) lookahead: Lookahead,
}

impl Descent {
    /// The numbers after the last step.
    pub(crate) fn weights(&self) -> Result<Vec<f32>> {
        let mut parameters = Parameters::default();
        parameters.insert(Parameter::new("x", &self.tensor(&self.start)?, true)?);
        let mut optimizer = Optimizer::new(self.rule, DecayScope::All, &parameters)?;
        let mut slow = self.tensor(&self.start)?;
        for (done, rate) in (1..).zip(&self.rates) {
            let gradients = self.gradients(&parameters)?;
            optimizer.step(&parameters, &gradients, *rate, 1.0)?;
            if let Some(kept) = self.lookahead.kept(done, self.rates.len()) {
                for parameter in parameters.iter() {
                    slow = meet(&slow, &parameter.tensor(), kept)?;
                    parameter.assign(&slow)?;
                }
            }
        }
        let weights = parameters.iter().map(Parameter::tensor);
        let weights = weights.map(|it| it.flatten_all()?.to_vec1::<f32>());
        Ok(weights.collect::<candle_core::Result<Vec<_>>>()?.concat())
    }

    fn gradients(&self, parameters: &Parameters) -> Result<Gradients> {
        let (target, curvature) = (self.tensor(&self.target)?, self.tensor(&self.curvature)?);
        let mut gradients = Gradients::default();
        for parameter in parameters.iter() {
            let gradient = (&curvature * (parameter.tensor() - &target)?)?;
            gradients.add("x", gradient)?;
        }
        Ok(gradients)
    }

    fn tensor(&self, numbers: &[f32]) -> Result<Tensor> {
        let numbers: Vec<f32> = numbers.iter().copied().cycle().take(self.count).collect();
        let vector = Tensor::new(numbers, &Device::Cpu)?;
        Ok(match self.shape {
            Some([rows, columns]) => vector.reshape((rows, columns))?,
            None => vector,
        })
    }
}
