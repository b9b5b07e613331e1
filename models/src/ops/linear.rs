//! Linear layers: y = x Wᵀ + c.
//!
//! Backward: dx = g W, dW = gᵀ x, dc = the sum of g over rows. Saves x only when dW is wanted; for a frozen weight the
//! layer saves nothing but the weight itself, which is there anyway.

use std::slice;

use candle_core::{D, Tensor};

use crate::{
    Error, Result,
    ops::{
        as_rows,
        kernels::{self, Kernel},
        rows_like,
        sum::sum,
        weight::{Converted, Learned, Matrix, Weight},
        wide_dtype,
    },
    profile,
    tape::Value,
};

/// y = x Wᵀ + c, with x [.., i], weight W [o, i], bias c [o] -> [.., o].
///
/// The weight may be kept in another dtype than x, or in quantized blocks; it is converted for the product, and its
/// gradient comes back in its own dtype. A weight without a slot is frozen and costs nothing in backward but the product
/// for dx.
pub fn linear(x: &Value, weight: impl Into<Weight>, bias: Option<&Value>) -> Result<Value> {
    with_biases(x, weight, bias.map_or(&[], slice::from_ref))
}

/// Layers of one input by one product, from weights that are stacked: x [.., i], W [Σ o, i] -> [.., Σ o]. `biases` are those of all layers,
/// or there are none.
pub fn stacked_linear(x: &Value, weights: &Converted, biases: &[Value]) -> Result<Value> {
    with_biases(x, weights, biases)
}

/// A layer whose bias is in parts, below each other, or that has none.
fn with_biases(x: &Value, weight: impl Into<Weight>, biases: &[Value]) -> Result<Value> {
    let _profiled = profile::operation("linear");
    let weight = weight.into();
    let rows = as_rows(x.tensor())?;
    let matrix = weight.matrix();
    let bias = one_below_the_other(biases)?;
    let y = matrix.project(Kernel::Linear, &rows, &[], bias.as_ref())?;
    let y = rows_like(&y, x.tensor())?;

    let like = x.tensor().clone();
    let wants_x = x.wants_gradient();
    let learned = Learned::of(weight.values());
    let saved_x = learned.any().then_some(rows);
    let learned_biases = Learned::of(biases);
    let backward = move |gradient: Tensor| {
        let gradient = as_rows(&gradient)?;
        let dx = match wants_x {
            true => Some(rows_like(
                &matrix.project_back(Kernel::Linear, &gradient, &[])?,
                &like,
            )?),
            false => None,
        };
        let dw = match saved_x {
            Some(x) => learned.gradients(|| weight_gradient(Kernel::Linear, &gradient, &x, 1.0))?,
            None => learned.none(),
        };
        let dc = learned_biases.gradients(|| sum_rows(&gradient))?;
        Ok([vec![dx], dw, dc].concat())
    };
    let mut inputs = vec![x];
    inputs.extend(weight.values());
    inputs.extend(biases);
    Ok(Value::record(y, &inputs, backward))
}

/// Biases [o] as one [Σ o], if there are any.
pub(crate) fn one_below_the_other<'a>(
    biases: impl IntoIterator<Item = &'a Value>,
) -> Result<Option<Tensor>> {
    let biases: Vec<&Tensor> = biases.into_iter().map(Value::tensor).collect();
    let joined = (!biases.is_empty()).then(|| Tensor::cat(&biases, 0));
    Ok(joined.transpose()?)
}

/// Several layers of one input, each by its weight and bias. See [`linear`].
pub fn linears(x: &Value, layers: &[(Weight, Option<Value>)]) -> Result<Vec<Value>> {
    if let Some(ys) = rounded(x, layers)? {
        return Ok(ys);
    }
    let ys = layers.iter();
    ys.map(|(weight, bias)| linear(x, weight.clone(), bias.as_ref()))
        .collect()
}

/// The same where x has few rows that may be rounded, and all weights are in blocks.
fn rounded(x: &Value, layers: &[(Weight, Option<Value>)]) -> Result<Option<Vec<Value>>> {
    let rows = x.tensor().elem_count() / x.tensor().dim(D::Minus1)?.max(1);
    if rows > kernels::rounded_rows() || x.wants_gradient() {
        return Ok(None);
    }
    let mut blocks = Vec::new();
    for (weight, bias) in layers {
        let Weight::Quantized(weight) = weight else {
            return Ok(None);
        };
        let Some(weight) = weight.ggml() else {
            return Ok(None);
        };
        blocks.push((weight, bias.as_ref().map(Value::tensor)));
    }
    let _profiled = profile::operation("linear");
    let x_rows = as_rows(x.tensor())?;
    let Some(ys) = kernels::cpu::linear::project_together(Kernel::Linear, &x_rows, &blocks)? else {
        return Ok(None);
    };
    let ys = ys.into_iter().map(|y| {
        profile::multiplied(rows, x_rows.dim(1)?, y.dim(1)?);
        Ok(Value::constant(rows_like(&y, x.tensor())?))
    });
    ys.collect::<Result<_>>().map(Some)
}

/// One product of a sum.
#[derive(Clone, Copy)]
pub(crate) struct Term<'a> {
    /// Rows [n, i], or for a product back gradients [n, o].
    pub(crate) x: &'a Tensor,
    /// [o, i], in any dtype.
    pub(crate) weight: &'a Tensor,
    /// What the product is multiplied with.
    pub(crate) factor: f64,
}

impl<'a> Term<'a> {
    pub(crate) fn new(x: &'a Tensor, weight: &'a Tensor) -> Self {
        Self::times(1.0, x, weight)
    }

    pub(crate) fn times(factor: f64, x: &'a Tensor, weight: &'a Tensor) -> Self {
        Self { x, weight, factor }
    }
}

/// Σ factor · x Wᵀ + c over the terms: x [n, i], W [o, i], c [o] -> [n, o]. `kernel` is that of the operation it is a
/// part of, here and in the products below.
pub(crate) fn project(kernel: Kernel, terms: &[Term], bias: Option<&Tensor>) -> Result<Tensor> {
    note(terms)?;
    if kernels::cpu::linear::serves(kernel, terms) {
        return kernels::cpu::linear::project(terms, bias);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::linear::serves(kernel, terms) {
        return kernels::cuda::linear::project(terms, bias);
    }
    let y = sum_terms(terms, |x, weight| Ok(x.matmul(&weight.t()?)?))?;
    Ok(match bias {
        Some(bias) => y.broadcast_add(&bias.to_dtype(y.dtype())?)?,
        None => y,
    })
}

/// Σ factor · g W over the terms: g [n, o], W [o, i] -> [n, i].
pub(crate) fn project_back(kernel: Kernel, terms: &[Term]) -> Result<Tensor> {
    note(terms)?;
    if kernels::cpu::linear::serves(kernel, terms) {
        return kernels::cpu::linear::project_back(terms);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::linear::serves(kernel, terms) {
        return kernels::cuda::linear::project_back(terms);
    }
    sum_terms(terms, |gradient, weight| Ok(gradient.matmul(weight)?))
}

impl Matrix {
    /// x Wᵀ + c, and the products of `more` added: x [n, i], c [o] -> [n, o]. See [`project`].
    pub(crate) fn project(
        &self,
        kernel: Kernel,
        x: &Tensor,
        more: &[Term],
        bias: Option<&Tensor>,
    ) -> Result<Tensor> {
        let weight = match self {
            Self::Dense(weight) => {
                let weight = weight.get()?;
                let terms = [&[Term::new(x, &weight)][..], more].concat();
                return project(kernel, &terms, bias);
            }
            Self::Quantized(weight) => weight,
        };
        if let Some(blocks) = weight.ggml()
            && let Some(y) = kernels::cpu::linear::project_blocks(kernel, x, blocks, more, bias)?
        {
            let (rows, inputs) = x.dims2()?;
            profile::multiplied(rows, inputs, y.dim(1)?);
            note(more)?;
            return Ok(y);
        }
        let _narrowed = kernels::narrow_rounded();
        let mut columns = Vec::new();
        for part in weight.parts(x.dtype())? {
            let (rows, numbers) = part?;
            let of_part = |it: &Tensor| it.narrow(0, rows.start, rows.len());
            let others = more.iter().map(|term| of_part(term.weight));
            let others: Vec<Tensor> = others.collect::<std::result::Result<_, _>>()?;
            let others = more.iter().zip(&others);
            let mut terms = vec![Term::new(x, &numbers)];
            terms.extend(others.map(|(term, weight)| Term { weight, ..*term }));
            let bias = bias.map(of_part).transpose()?;
            columns.push(project(kernel, &terms, bias.as_ref())?);
        }
        match columns.as_slice() {
            [only] => Ok(only.clone()),
            several => Ok(Tensor::cat(several, 1)?),
        }
    }

    /// g W, and the products of `more` added: g [n, o] -> [n, i]. See [`project_back`].
    pub(crate) fn project_back(
        &self,
        kernel: Kernel,
        gradient: &Tensor,
        more: &[Term],
    ) -> Result<Tensor> {
        let weight = match self {
            Self::Dense(weight) => {
                let weight = weight.get()?;
                let terms = [&[Term::new(gradient, &weight)][..], more].concat();
                return project_back(kernel, &terms);
            }
            Self::Quantized(weight) => weight,
        };
        let mut total: Option<Tensor> = None;
        for part in weight.parts(gradient.dtype())? {
            let (rows, numbers) = part?;
            let of_part = gradient.narrow(1, rows.start, rows.len())?.contiguous()?;
            let term = Term::new(&of_part, &numbers);
            total = Some(match total {
                None => project_back(kernel, &[&[term][..], more].concat())?,
                Some(total) => sum(kernel, &total, &project_back(kernel, &[term])?)?,
            });
        }
        total.ok_or_else(|| Error::Data("a product with a matrix without rows".to_owned()))
    }
}

/// gᵀ x in f32 or wider, added to `sum` where there is one: gradient [n, o], x [n, i] -> [o, i].
pub(crate) fn add_weight_gradient(
    kernel: Kernel,
    sum: Option<Tensor>,
    gradient: &Tensor,
    x: &Tensor,
) -> Result<Tensor> {
    let product = || -> Result<Tensor> {
        Ok(weight_gradient(kernel, gradient, x, 1.0)?.to_dtype(wide_dtype(gradient))?)
    };
    let Some(sum) = sum else {
        return product();
    };
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(kernel, &[gradient, x]) {
        kernels::cuda::linear::add_weight_gradient(&sum, gradient, x)?;
        return Ok(sum);
    }
    Ok((sum + product()?)?)
}

/// factor · gᵀ x: gradient [n, o], x [n, i] -> [o, i].
pub(crate) fn weight_gradient(
    kernel: Kernel,
    gradient: &Tensor,
    x: &Tensor,
    factor: f64,
) -> Result<Tensor> {
    kernels::metal::note("product");
    let (rows, outputs) = gradient.dims2()?;
    profile::multiplied(outputs, rows, x.dim(1)?);
    if kernels::cpu::serves(kernel, &[gradient, x]) {
        return kernels::cpu::linear::weight_gradient(gradient, x, factor);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(kernel, &[gradient, x]) {
        return kernels::cuda::linear::weight_gradient(gradient, x, factor);
    }
    if factor == 1.0 {
        return Ok(gradient.t()?.matmul(x)?);
    }
    // The factor goes with the smaller operand.
    let (gradient, x) = match gradient.elem_count() < x.elem_count() {
        true => (gradient.affine(factor, 0.0)?, x.clone()),
        false => (gradient.clone(), x.affine(factor, 0.0)?),
    };
    Ok(gradient.t()?.matmul(&x)?)
}

fn note(terms: &[Term]) -> Result<()> {
    for term in terms {
        let (outputs, inputs) = term.weight.dims2()?;
        profile::multiplied(term.x.dim(0)?, inputs, outputs);
        kernels::metal::note("product");
        if term.weight.dtype() != term.x.dtype() {
            kernels::metal::note("conversion");
        }
    }
    Ok(())
}

fn sum_terms(
    terms: &[Term],
    product: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let mut sum: Option<Tensor> = None;
    for term in terms {
        let mut part = product(term.x, &term.weight.to_dtype(term.x.dtype())?)?;
        if term.factor != 1.0 {
            part = part.affine(term.factor, 0.0)?;
        }
        sum = Some(match sum {
            Some(sum) => (sum + part)?,
            None => part,
        });
    }
    sum.ok_or_else(|| candle_core::Error::Msg("a sum of no products".into()).into())
}

/// The sum over rows, in f32 or wider: [n, d] -> [d].
pub(crate) fn sum_rows(x: &Tensor) -> Result<Tensor> {
    Ok(x.to_dtype(wide_dtype(x))?.sum(0)?)
}

#[cfg(test)]
mod tests {
    use candle_core::{
        DType,
        quantized::{GgmlDType, QTensor},
    };

    use super::*;
    use crate::{
        ops::{
            testing::{check_gradients, normal},
            weight::Quantized,
        },
        tape::{Gradients, Tape},
    };

    #[test]
    fn every_input_gets_its_gradient() {
        let inputs = [normal(1, &[2, 3, 4]), normal(2, &[5, 4]), normal(3, &[5])];
        check_gradients(&inputs, |_, v| linear(&v[0], &v[1], Some(&v[2])));
        check_gradients(&inputs[..2], |_, v| linear(&v[0], &v[1], None));
    }

    #[test]
    fn a_narrow_weight_gives_what_its_widened_numbers_give() {
        for dtype in [DType::BF16, DType::F16] {
            for rows in [1, 4, 70] {
                let x = normal(1, &[rows, 130]).to_dtype(DType::F32).unwrap();
                let narrow = normal(2, &[330, 130]).to_dtype(dtype).unwrap();
                let wide = narrow.to_dtype(DType::F32).unwrap();
                let run = |weight: &Tensor| {
                    let tape = Tape::new(1);
                    let x = tape.input(x.clone());
                    let y = linear(&x, &Value::constant(weight.clone()), None).unwrap();
                    let seed = y.tensor().affine(0.5, 0.0).unwrap();
                    let gradients = tape.backward_to(&y, seed, &[&x], &mut Gradients::default());
                    [y.tensor().clone(), gradients.unwrap().remove(0).unwrap()]
                        .map(|x| x.to_vec2::<f32>().unwrap())
                };
                assert_eq!(run(&narrow), run(&wide));
            }
        }
    }

    #[test]
    fn few_rows_are_rounded_only_where_that_is_allowed_and_stay_near() {
        let f32s = |seed, shape: &[usize]| normal(seed, shape).to_dtype(DType::F32).unwrap();
        let layer = |outputs: usize, dtype: GgmlDType, has_bias: bool| {
            let blocks = QTensor::quantize(&f32s(2, &[outputs, 512]), dtype).unwrap();
            let bias = has_bias.then(|| Value::constant(f32s(3, &[outputs])));
            (Weight::from(Quantized::new(blocks).unwrap()), bias)
        };
        let layers = [
            layer(300, GgmlDType::Q4_0, true),
            layer(7, GgmlDType::Q6K, false),
            layer(129, GgmlDType::Q8_0, false),
        ];
        let numbers = |ys: Vec<Value>| {
            let ys = ys.into_iter();
            ys.map(|y| y.tensor().flatten_all().unwrap().to_vec1::<f32>().unwrap())
                .collect::<Vec<_>>()
        };
        let one_by_one = |x: &Value| {
            let ys = layers.iter();
            let ys = ys.map(|(weight, bias)| linear(x, weight.clone(), bias.as_ref()).unwrap());
            numbers(ys.collect())
        };
        let row = Value::constant(f32s(1, &[1, 1, 512]));
        let exact = one_by_one(&row);
        assert_eq!(numbers(linears(&row, &layers).unwrap()), exact);

        let rounding = kernels::round(1);
        let rounded = numbers(linears(&row, &layers).unwrap());
        assert_eq!(rounded, one_by_one(&row));
        for (rounded, exact) in rounded.iter().zip(&exact) {
            let far = rounded.iter().zip(exact).map(|(a, b)| (a - b).powi(2));
            let size = exact.iter().map(|it| it * it);
            let error = (far.sum::<f32>() / size.sum::<f32>()).sqrt();
            assert!(error < 0.01, "{error}");
        }
        #[cfg(target_arch = "x86_64")]
        {
            let is_here = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            assert_eq!(rounded != exact, is_here);
        }
        // Many rows are rounded to bf16, where the processor has a unit for it.
        let many = Value::constant(f32s(4, &[70, 512]));
        let narrow = one_by_one(&many);
        drop(rounding);
        for (narrow, exact) in narrow.iter().zip(one_by_one(&many)) {
            let far = narrow.iter().zip(&exact).map(|(a, b)| (a - b).powi(2));
            let size = exact.iter().map(|it| it * it);
            let error = (far.sum::<f32>() / size.sum::<f32>()).sqrt();
            assert!(error < 0.005, "{error}");
        }
        // Each of a few rows is rounded as it is alone.
        let few = f32s(5, &[3, 512]);
        let exact = one_by_one(&Value::constant(few.clone()));
        {
            // Where one row may be rounded, several are not.
            let _rounding = kernels::round(1);
            assert_eq!(one_by_one(&Value::constant(few.clone())), exact);
        }
        let _rounding = kernels::round(3);
        let alone = |at| numbers(linears(&Value::constant(few.get(at).unwrap()), &layers).unwrap());
        let beside = numbers(linears(&Value::constant(few.clone()), &layers).unwrap());
        for (layer, beside) in beside.iter().enumerate() {
            let alone: Vec<f32> = (0..3).flat_map(|at| alone(at).swap_remove(layer)).collect();
            assert_eq!(*beside, alone);
        }
    }

    #[test]
    fn a_frozen_weight_gets_none_and_saves_nothing() {
        let weight = Value::constant(normal(2, &[5, 4]));
        check_gradients(&[normal(1, &[2, 3, 4])], |_, v| {
            linear(&v[0], &weight, None)
        });
        let x = Value::constant(normal(1, &[2, 3, 4]));
        assert!(!linear(&x, &weight, None).unwrap().wants_gradient());
    }
}
