//! The patches of a picture as the tokens of a transformer.

use candle_core::Tensor;

use crate::{Result, ops::widen, profile, tape::Value};

/// A token before all patches, and a vector for each place added: patches [b, h, w, d], class [1, 1, d], positions [1, 1 + h w, d]
/// -> [b, 1 + h w, d].
///
/// Backward, with the gradient g: to the patches g without its first token, to the positions the sum of g over b, and to the class the
/// first of that. Saves nothing.
pub fn with_class_token(patches: &Value, class: &Value, positions: &Value) -> Result<Value> {
    let _profiled = profile::operation("class token");
    let shape = patches.tensor().shape().clone();
    let (b, h, w, d) = shape.dims4()?;
    let dtype = patches.tensor().dtype();
    let of_patches = |it: &Value| it.tensor().to_dtype(dtype);
    let tokens = patches.tensor().reshape((b, h * w, d))?;
    let class_tokens = of_patches(class)?.broadcast_as((b, 1, d))?.contiguous()?;
    let y = Tensor::cat(&[&class_tokens, &tokens], 1)?.broadcast_add(&of_patches(positions)?)?;
    let dtypes = [class, positions].map(|it| it.tensor().dtype());
    let inputs = [patches, class, positions];
    Ok(Value::record(y, &inputs, move |gradient: Tensor| {
        let dx = gradient.narrow(1, 1, h * w)?.contiguous()?;
        let dx = dx.reshape(&shape)?;
        let sum = widen(&gradient)?.sum_keepdim(0)?;
        let dc = sum.narrow(1, 0, 1)?.contiguous()?.to_dtype(dtypes[0])?;
        let dp = sum.to_dtype(dtypes[1])?;
        Ok(vec![Some(dx), Some(dc), Some(dp)])
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_gradients, normal};

    #[test]
    fn gradients_match_finite_differences() {
        let inputs = [
            normal(1, &[2, 2, 3, 4]),
            normal(2, &[1, 1, 4]),
            normal(3, &[1, 7, 4]),
        ];
        check_gradients(&inputs, |_, v| with_class_token(&v[0], &v[1], &v[2]));
    }

    #[test]
    fn the_class_comes_first_and_patches_follow_row_by_row() {
        let inputs = [
            normal(1, &[1, 2, 2, 1]),
            normal(2, &[1, 1, 1]),
            normal(3, &[1, 5, 1]),
        ];
        let flat = |it: &Tensor| it.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let [patches, class, places] = [0, 1, 2].map(|at| flat(&inputs[at]));
        let values = inputs.map(Value::constant);
        let y = with_class_token(&values[0], &values[1], &values[2]).unwrap();
        let tokens = class.iter().chain(&patches).zip(&places);
        let expected: Vec<f64> = tokens.map(|(token, place)| token + place).collect();
        assert_eq!(flat(y.tensor()), expected);
    }
}
