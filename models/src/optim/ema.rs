//! The exponential moving average of the weights: often a better model than the last step's.
//!
//! With decay d, after each step: average ← d · average + (1 - d) · weight. It starts as a copy of the weights.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::{
    OwnRules,
    flat::{Flat, Form, refuse_extra, write},
    numbers::change_together,
};
use crate::{
    Error, Result,
    parameters::{Parameter, Parameters},
};

/// The average of every weight that is trained.
pub struct Ema {
    decay: f64,
    flat: Flat,
    average: Tensor,
}

impl Ema {
    /// An average that starts at the weights as they are.
    ///
    /// Errors: [`Error::Setting`] when `decay` is not at least 0 and below 1.
    pub fn new(decay: f64, parameters: &Parameters) -> Result<Self> {
        Self::without(&OwnRules::new(), decay, parameters)
    }

    /// The same, without the weights that learn by a rule of their own.
    pub fn without(own_rules: &OwnRules, decay: f64, parameters: &Parameters) -> Result<Self> {
        if !(0.0..1.0).contains(&decay) {
            let problem = format!("is {decay}; it must be at least 0 and below 1");
            return Err(Error::setting("ema", problem));
        }
        let averaged = || {
            let trainable = parameters.trainable();
            trainable.filter(|it| !own_rules.contains_key(it.name()))
        };
        let flat = Flat::new(averaged())?;
        let weights: Vec<Tensor> = averaged().map(Parameter::tensor).collect();
        let average = flat.gather(weights.iter())?;
        Ok(Self {
            decay,
            flat,
            average,
        })
    }

    /// Takes the weights after a step into the average.
    pub fn update(&mut self, parameters: &Parameters) -> Result<()> {
        let weights = self.weights(parameters)?;
        if !self.average.device().is_cpu() {
            let new = self
                .flat
                .gather(weights.iter())?
                .affine(1.0 - self.decay, 0.0)?;
            self.average = (self.average.affine(self.decay, 0.0)? + new)?;
            return Ok(());
        }
        let (decay, rest) = (self.decay as f32, (1.0 - self.decay) as f32);
        for (weight, slice) in weights.iter().zip(&self.flat.slices) {
            let average = slice.of(&self.average, Form::Number)?;
            change_together([&average], weight, |[average], weight| {
                for (average, &weight) in average.iter_mut().zip(weight) {
                    *average = *average * decay + weight * rest;
                }
            })?;
        }
        Ok(())
    }

    /// Exchanges average and weights, bit for bit: once before evaluation, once after it.
    pub fn swap(&mut self, parameters: &Parameters) -> Result<()> {
        let weights = self.weights(parameters)?;
        let trained = self.flat.gather(weights.iter())?;
        for (weight, slice) in weights.iter().zip(&self.flat.slices) {
            write(weight, &slice.of(&self.average, Form::Number)?)?;
        }
        self.average = trained;
        Ok(())
    }

    /// The averages by the parameters' names. They share memory with this object: save or copy them before the next
    /// update.
    pub fn state(&self) -> Result<BTreeMap<String, Tensor>> {
        let named = self.flat.by_name(&self.average, Form::Number);
        named
            .map(|named| named.map(|(name, tensor)| (name.to_owned(), tensor)))
            .collect()
    }

    /// Continues from saved averages.
    ///
    /// Errors: [`Error::Data`] naming a tensor that is missing, left over or of another shape. The average is then no
    /// longer usable.
    pub fn load_state(&mut self, mut state: BTreeMap<String, Tensor>) -> Result<()> {
        self.flat
            .load(&self.average, Form::Number, "", &mut state)?;
        refuse_extra(&state)
    }

    fn weights(&self, parameters: &Parameters) -> Result<Vec<Tensor>> {
        let find = |name: &str| {
            let parameter = parameters.get(name);
            parameter.ok_or_else(|| {
                Error::Data(format!(
                    "`{name}` is averaged, but the model has no such weight"
                ))
            })
        };
        let slices = self.flat.slices.iter();
        slices
            .map(|slice| Ok(find(&slice.name)?.tensor()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::testing::{initial_parameters, numbers_of, train_golden};

    #[test]
    fn the_average_is_the_references() {
        for case in ["adamw_all", "sgd_momentum"] {
            let mut ema = None;
            let (_, expected) = train_golden(case, |parameters, before_first| {
                if before_first {
                    ema = Some(Ema::new(0.9, parameters).unwrap());
                } else {
                    ema.as_mut().unwrap().update(parameters).unwrap();
                }
            });
            for (name, average) in ema.unwrap().state().unwrap() {
                let expected = &expected["averages"][name.as_str()];
                crate::optim::testing::assert_close(&average, expected, &name);
            }
        }
    }

    #[test]
    fn swapping_twice_changes_no_bit() {
        let parameters = initial_parameters();
        let before = numbers_of(&parameters);
        let mut ema = Ema::new(0.9, &parameters).unwrap();
        for parameter in parameters.iter() {
            parameter
                .assign(&(parameter.tensor() * 3.0).unwrap())
                .unwrap();
        }
        let trained = numbers_of(&parameters);
        ema.swap(&parameters).unwrap();
        assert_eq!(numbers_of(&parameters), before);
        ema.swap(&parameters).unwrap();
        assert_eq!(numbers_of(&parameters), trained);
        assert_ne!(before, trained);
    }

    #[test]
    fn a_saved_average_continues_with_the_same_bits() {
        let parameters = initial_parameters();
        let mut ema = Ema::new(0.5, &parameters).unwrap();
        let shift = || {
            for parameter in parameters.iter() {
                parameter
                    .assign(&(parameter.tensor() + 0.3).unwrap())
                    .unwrap();
            }
        };
        shift();
        ema.update(&parameters).unwrap();
        let mut restored = Ema::new(0.5, &parameters).unwrap();
        restored.load_state(ema.state().unwrap()).unwrap();
        shift();
        let averages = [&mut ema, &mut restored].map(|ema| {
            ema.update(&parameters).unwrap();
            let state = ema.state().unwrap().into_values();
            let numbers = state.map(|tensor| tensor.flatten_all().unwrap().to_vec1::<f32>());
            numbers.map(|numbers| numbers.unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(averages[0], averages[1]);
    }

    #[test]
    fn a_decay_out_of_range_is_refused() {
        let parameters = initial_parameters();
        assert!(Ema::new(1.0, &parameters).is_err());
    }
}
