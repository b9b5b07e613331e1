//! A linear layer with a low-rank adapter: y = x Wᵀ + c + s · drop(x) Aᵀ Bᵀ.
//!
//! Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021 (<https://arxiv.org/abs/2106.09685>); names
//! and scale as in peft.
//!
//! With z = drop(x) Aᵀ and g the gradient of y: dB = s gᵀ z, dz = s g B, dA = dzᵀ drop(x), and
//! dx = g W + dropᵀ(dz A). Saves x and z [n, r]; the dropout mask is drawn again.

use candle_core::Tensor;

use crate::{
    Result,
    ops::{
        as_rows,
        dropout::{self, Dropout, left_of},
        kernels::{self, Kernel},
        linear::{Term, project, project_back, weight_gradient},
        rows_like,
        sum::sum,
        weight::Weight,
    },
    profile,
    tape::Value,
};

/// The adapter of one linear layer.
pub struct Adapter {
    /// A [r, i]: from the input down to the rank.
    pub a: Value,
    /// B [o, r]: from the rank up to the output. Zero at the start, so that training begins at the base model.
    pub b: Value,
    /// s: alpha / r, or alpha / √r for rank-stabilized adapters.
    pub scale: f64,
    /// Applied to the adapter's input only.
    pub dropout: Option<Dropout>,
}

/// A linear layer with its adapter.
pub struct AdaptedLinear {
    /// W [o, i], frozen.
    pub weight: Weight,
    /// c [o], frozen.
    pub bias: Option<Value>,
    /// What is learned beside it.
    pub adapter: Adapter,
}

impl AdaptedLinear {
    /// r: the rank of its adapter.
    pub(crate) fn rank(&self) -> Result<usize> {
        Ok(self.adapter.a.tensor().dim(0)?)
    }
}

/// Whether layers of one input can be computed together: with one dropout, and all with a way back or none. That of the first layer
/// ends that of all.
pub(crate) fn go_together(x: &Value, layers: &[AdaptedLinear]) -> bool {
    let mut dropouts = layers.iter().map(|it| it.adapter.dropout.as_ref());
    let first = dropouts.next().flatten();
    let learns = |it: &AdaptedLinear| [&it.adapter.a, &it.adapter.b].map(Value::wants_gradient);
    let all_learn = layers.iter().all(|it| learns(it) == [true; 2]);
    let none_learns = !x.wants_gradient() && layers.iter().all(|it| learns(it) == [false; 2]);
    (all_learn || none_learns) && dropouts.all(|it| dropout::are_alike(first, it))
}

/// The outputs of layers that read the same x [.., i]: see [`linear_with_adapter`]. All of them have to be used, or the gradient of x
/// is not whole.
pub fn linears_with_adapters(x: &Value, layers: &[AdaptedLinear]) -> Result<Vec<Value>> {
    let _profiled = profile::operation("linear with adapter");
    if kernels::metal::lora::serves(x.tensor()) {
        return kernels::metal::lora::linears_with_adapters(x, layers);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::lora::serves(x, layers) {
        return kernels::cuda::lora::linears_with_adapters(x, layers);
    }
    let each = layers.iter().map(|layer| {
        let AdaptedLinear {
            weight,
            bias,
            adapter,
        } = layer;
        linear_with_adapter(x, weight.clone(), bias.as_ref(), adapter)
    });
    each.collect()
}

/// The same beside each other [.., Σ o], by one product, where their weights lie below each other in memory, [Σ o, i]. Nothing where
/// the layers would be computed one by one.
pub fn joined_linears_with_adapters(
    x: &Value,
    layers: &[AdaptedLinear],
    below: &Tensor,
) -> Result<Option<Value>> {
    let _profiled = profile::operation("linear with adapter");
    let biases = layers.iter().filter(|it| it.bias.is_some()).count();
    if below.dtype() != x.tensor().dtype() || ![0, layers.len()].contains(&biases) {
        return Ok(None);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::lora::serves(x, layers) {
        return kernels::cuda::lora::joined_linears_with_adapters(x, layers, below).map(Some);
    }
    Ok(None)
}

/// y = x Wᵀ + c + s · drop(x) Aᵀ Bᵀ, with x [.., i], weight W [o, i] and bias c [o], both frozen -> [.., o].
pub fn linear_with_adapter(
    x: &Value,
    weight: impl Into<Weight>,
    bias: Option<&Value>,
    adapter: &Adapter,
) -> Result<Value> {
    let _profiled = profile::operation("linear with adapter");
    let weight = weight.into().matrix();
    let rows = as_rows(x.tensor())?;
    let dropout = adapter.dropout.clone();
    let dropped = left_of(&rows, dropout.as_ref())?;
    let z = project(
        Kernel::Lora,
        &[Term::new(&dropped, adapter.a.tensor())],
        None,
    )?;
    let up = [Term::times(adapter.scale, &z, adapter.b.tensor())];
    let y = weight.project(Kernel::Lora, &rows, &up, bias.map(Value::tensor))?;
    let y = rows_like(&y, x.tensor())?;

    let (like, scale) = (x.tensor().clone(), adapter.scale);
    let (a, b) = (adapter.a.tensor().clone(), adapter.b.tensor().clone());
    let wants_x = x.wants_gradient();
    let backward = move |gradient: Tensor| {
        let gradient = as_rows(&gradient)?;
        let dropped = left_of(&rows, dropout.as_ref())?;
        let db = weight_gradient(Kernel::Lora, &gradient, &z, scale)?.to_dtype(b.dtype())?;
        let dz = project_back(Kernel::Lora, &[Term::times(scale, &gradient, &b)])?;
        let da = weight_gradient(Kernel::Lora, &dz, &dropped, 1.0)?.to_dtype(a.dtype())?;
        let dx = match wants_x {
            true => {
                let through_adapter = Term::new(&dz, &a);
                let dx = match &dropout {
                    Some(dropout) => {
                        let through_adapter =
                            dropout.apply(&project_back(Kernel::Lora, &[through_adapter])?)?;
                        sum(
                            Kernel::Lora,
                            &weight.project_back(Kernel::Lora, &gradient, &[])?,
                            &through_adapter,
                        )?
                    }
                    None => weight.project_back(Kernel::Lora, &gradient, &[through_adapter])?,
                };
                Some(rows_like(&dx, &like)?)
            }
            false => None,
        };
        Ok(vec![dx, Some(da), Some(db)])
    };
    Ok(Value::record(y, &[x, &adapter.a, &adapter.b], backward))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_gradients, normal};

    #[test]
    fn input_and_adapter_get_their_gradients_with_the_mask_of_the_forward_pass() {
        let weight = Value::constant(normal(4, &[5, 4]));
        let bias = Value::constant(normal(5, &[5]));
        let inputs = [
            normal(1, &[2, 3, 4]),
            normal(2, &[2, 4]),
            normal(3, &[5, 2]),
        ];
        for dropout in [0.0, 0.5] {
            check_gradients(&inputs, |tape, v| {
                let adapter = Adapter {
                    a: v[1].clone(),
                    b: v[2].clone(),
                    scale: 0.7,
                    dropout: Dropout::new(Some(tape), dropout, "place"),
                };
                linear_with_adapter(&v[0], &weight, Some(&bias), &adapter)
            });
        }
    }
}
