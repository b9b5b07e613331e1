//! Rows of a table, and the sum of the gradients of each: a group of threads for each row of the table.

use candle_core::{DType, Tensor};

use super::{launch::Launch, output};
use crate::{Error, Result, ops::as_rows, tape::Value};

/// Rows of `table` [v, d], which learns, for tokens [n] -> a tensor of this shape. See
/// [`embedding`](crate::ops::embedding::embedding).
pub(crate) fn embedding(table: &Value, tokens: &Tensor, shape: &[usize]) -> Result<Value> {
    let (vocabulary, width) = table.tensor().dims2()?;
    // Read before there is any work that would have to be waited for.
    let (order, starts) = by_token(&tokens.to_vec1::<u32>()?, vocabulary)?;
    let device = table.tensor().device();
    let (order, starts) = (Tensor::new(order, device)?, Tensor::new(starts, device)?);
    let y = table
        .tensor()
        .contiguous()?
        .index_select(tokens, 0)?
        .reshape(shape)?;
    let like = table.tensor().clone();
    Ok(Value::record(y, &[table], move |gradient: Tensor| {
        let gradient = as_rows(&gradient)?.to_dtype(DType::F32)?;
        let sums = output(like.shape(), DType::F32, &like)?;
        Launch::of("add_rows", DType::F32, &[width])?
            .tensors(&[&gradient, &order, &starts, &sums])?
            .whole(&[vocabulary, width])?
            .for_rows(vocabulary)?;
        Ok(vec![Some(sums.to_dtype(like.dtype())?)])
    }))
}

/// The places of all tokens, by token and in order; and where those of each token begin among them, with one more for the end.
fn by_token(tokens: &[u32], vocabulary: usize) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut starts = vec![0; vocabulary + 1];
    for &token in tokens {
        let next = starts
            .get_mut(token as usize + 1)
            .ok_or_else(|| Error::Data(format!("token {token} in a vocabulary of {vocabulary}")))?;
        *next += 1;
    }
    for at in 0..vocabulary {
        starts[at + 1] += starts[at];
    }
    let mut next = starts.clone();
    let mut order = vec![0; tokens.len()];
    for (place, &token) in (0..).zip(tokens) {
        let next = &mut next[token as usize];
        order[*next as usize] = place;
        *next += 1;
    }
    Ok((order, starts))
}
