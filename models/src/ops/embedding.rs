//! Looking up a row of a table for every token.

use candle_core::Tensor;

use crate::{
    Error, Result,
    ops::kernels::{self, Kernel},
    profile,
    tape::Value,
};

/// Rows of `table` [v, d] for `tokens` (u32, any shape [..]) -> [.., d].
///
/// Backward: the rows' gradients are added up in the table's, in f32 or wider. Saves the tokens.
pub fn embedding(table: &Value, tokens: &Tensor) -> Result<Value> {
    let _profiled = profile::operation("embedding");
    let (_, width) = table.tensor().dims2()?;
    let flat = tokens.flatten_all()?;
    let mut dims = tokens.dims().to_vec();
    dims.push(width);
    let learns = table.wants_gradient();
    if learns && kernels::metal::serves(Kernel::Embedding, &[table.tensor()]) {
        return kernels::metal::embedding::embedding(table, &flat, &dims);
    }
    if kernels::cpu::serves(Kernel::Embedding, &[table.tensor()]) {
        let tokens = flat.to_vec1::<u32>()?;
        let vocabulary = table.tensor().dim(0)?;
        if let Some(token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(Error::Data(format!(
                "token {token} in a vocabulary of {vocabulary}"
            )));
        }
        let y = kernels::cpu::elementwise::look_up(table.tensor(), &tokens)?.reshape(dims)?;
        return Ok(Value::record(y, &[table], move |gradient: Tensor| {
            let sums = kernels::cpu::elementwise::add_rows(&gradient, &tokens, vocabulary)?;
            Ok(vec![Some(sums)])
        }));
    }
    let y = look_up(Kernel::Embedding, table.tensor(), &flat)?.reshape(dims)?;
    let zeros_like = table.tensor().clone();
    Ok(Value::record(y, &[table], move |gradient: Tensor| {
        let rows = gradient
            .contiguous()?
            .reshape(((), width))?
            .to_dtype(zeros_like.dtype())?;
        #[cfg(feature = "cuda")]
        if rows.dtype() == candle_core::DType::F32
            && kernels::cuda::serves(Kernel::Embedding, &[&rows])
        {
            let vocabulary = zeros_like.dim(0)?;
            let sums = kernels::cuda::elementwise::add_rows(&rows, &flat, vocabulary)?;
            return Ok(vec![Some(sums)]);
        }
        Ok(vec![Some(
            zeros_like.zeros_like()?.index_add(&flat, &rows, 0)?,
        )])
    }))
}

/// The rows of a table [v, d] at `places` [r], for the operation of this kernel: [r, d]. Nothing is recorded.
pub(crate) fn look_up(kernel: Kernel, table: &Tensor, places: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(kernel, &[table]) {
        return kernels::cuda::elementwise::take_rows(table, places);
    }
    let _ = kernel;
    Ok(table.contiguous()?.index_select(places, 0)?)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::ops::testing::{check_gradients, normal};

    #[test]
    fn a_token_outside_of_the_vocabulary_is_an_error() {
        let table = normal(1, &[7, 2])
            .to_dtype(candle_core::DType::F32)
            .unwrap();
        let tokens = Tensor::new(&[3u32, 7], &Device::Cpu).unwrap();
        assert!(embedding(&Value::constant(table), &tokens).is_err());
    }

    #[test]
    fn a_token_seen_twice_adds_both_gradients() {
        let tokens = Tensor::new(&[[3u32, 1, 3], [0, 3, 4]], &Device::Cpu).unwrap();
        check_gradients(&[normal(1, &[6, 2])], |_, v| embedding(&v[0], &tokens));
    }
}
