//! A text as one vector, for search among texts: the mean of its hidden states.
//!
//! A decoder was not trained for it: vectors of texts that mean the same are near each other, but so are many others. Models that
//! were are of another kind, and not opened here.

use candle_core::DType;

use crate::{
    Error, Result,
    arch::{
        decoder::{Decoder, Input},
        sites::Site,
    },
};

/// The mean of the hidden states after the final norm of a text, [d], of length 1.
///
/// Errors: [`Error::Data`] when there is no token, or when the states are not finite.
pub fn embed(decoder: &Decoder, tokens: &[u32]) -> Result<Vec<f32>> {
    if tokens.is_empty() {
        return Err(Error::Data("there is no text to read".to_owned()));
    }
    let mean = |x: &candle_core::Tensor| Ok(x.to_dtype(DType::F32)?.mean(1)?.flatten_all()?);
    let states = decoder.map_hidden(Input::new(tokens, 1), &[Site::Final], mean)?;
    let mut mean = match states.first() {
        Some(mean) => mean.to_vec1::<f32>()?,
        None => Vec::new(),
    };
    let squares: f64 = mean.iter().map(|x| f64::from(*x).powi(2)).sum();
    let length = squares.sqrt();
    if !length.is_finite() || length == 0.0 {
        let problem = "the model’s hidden states are not finite numbers, or all 0; its weights or the dtype it is computed in are wrong";
        return Err(Error::Data(problem.to_owned()));
    }
    for x in &mut mean {
        *x = (f64::from(*x) / length) as f32;
    }
    Ok(mean)
}
