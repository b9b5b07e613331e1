//! Keeping one bad batch from throwing the weights far away: clipping by global norm
//! (Pascanu et al., <https://arxiv.org/abs/1211.5063>).
//!
//! Gradients are not rewritten: the optimizer multiplies by [`clip_scale`] while it reads them.

use candle_core::{DType, Tensor};
use rayon::prelude::*;

use super::numbers::{CHUNK, numbers};
use crate::{
    Result,
    ops::kernels::{self, Kernel},
    tape::Gradients,
};

/// The loss and the norm of the gradients of a step, which a device may still be computing.
pub struct LossAndNorm {
    /// The loss, and Σ g² over the gradients whose sum the device has, if any: f32 [1] or [2].
    numbers: Tensor,
    /// Σ g² over the others.
    sum: f64,
}

/// The loss, a single number, and the norm of the gradients: all that is read of a step before the weights change.
pub fn loss_and_norm(loss: &Tensor, gradients: &Gradients) -> Result<LossAndNorm> {
    let loss = loss.to_dtype(DType::F32)?;
    let (sum, rest) = squares(gradients)?;
    let numbers: Vec<_> = [Some(loss), rest].into_iter().flatten().collect();
    let numbers = Tensor::stack(&numbers, 0)?;
    Ok(LossAndNorm { numbers, sum })
}

impl LossAndNorm {
    /// Both, once they are there. The device is asked once, so that it need not wait in between.
    pub fn read(&self) -> Result<(f64, f64)> {
        let numbers = self.numbers.to_vec1::<f32>()?;
        let loss = numbers.first().copied().map_or(f64::NAN, f64::from);
        let rest = numbers.get(1).copied().map_or(0.0, f64::from);
        Ok((loss, (self.sum + rest).sqrt()))
    }
}

/// The norm of all gradients taken as one vector: √ Σ g².
///
/// A device is asked once, for one number. It is not finite exactly when a gradient isn't, or the sum overflows f32.
pub fn gradient_norm(gradients: &Gradients) -> Result<f64> {
    let (sum, rest) = squares(gradients)?;
    let rest = rest.map_or(Ok(0.0), |rest| rest.to_scalar::<f32>())?;
    Ok((sum + f64::from(rest)).sqrt())
}

/// Σ g² over the gradients that were summed up here, and over the others, of which a device still holds the sum.
fn squares(gradients: &Gradients) -> Result<(f64, Option<Tensor>)> {
    let mut sum = 0.0;
    let mut others = Vec::new();
    for (_, gradient) in gradients.iter() {
        let gradient = gradient.to_dtype(DType::F32)?.contiguous()?;
        let on_metal = kernels::metal::serves(Kernel::GradientNorm, &[&gradient]);
        if !on_metal && gradient.device().is_cpu() && kernels::enabled(Kernel::GradientNorm) {
            sum += numbers(&gradient, squared_sum)?;
        } else {
            others.push(gradient);
        }
    }
    let rest = match others.is_empty() {
        true => None,
        false => Some(squared_sum_of_tensors(&others)?),
    };
    Ok((sum, rest))
}

/// Σ x² over all numbers of these tensors, which are f32 and contiguous.
fn squared_sum_of_tensors(tensors: &[Tensor]) -> Result<Tensor> {
    let all: Vec<&Tensor> = tensors.iter().collect();
    if kernels::metal::serves(Kernel::GradientNorm, &all) {
        return kernels::metal::squares::squared_sum(tensors);
    }
    #[cfg(feature = "cuda")]
    if kernels::enabled(Kernel::GradientNorm) && tensors.iter().all(|it| it.device().is_cuda()) {
        return kernels::cuda::many::squared_sum(tensors);
    }
    let sums = tensors.iter().map(|it| it.sqr()?.sum_all());
    let sums = sums.collect::<Result<Vec<_>, _>>()?;
    Ok(Tensor::stack(&sums, 0)?.sum_all()?)
}

/// What to multiply gradients of this norm with, so that it is at most `max_norm`; 0 turns clipping off.
///
/// As `torch.nn.utils.clip_grad_norm_`: max / (norm + 10⁻⁶), but never above 1.
pub fn clip_scale(norm: f64, max_norm: f64) -> f64 {
    if max_norm == 0.0 {
        return 1.0;
    }
    (max_norm / (norm + 1e-6)).min(1.0)
}

/// Σ x² in f64. Chunks have a fixed size and are added in order, so the sum is the same for any number of threads.
fn squared_sum(numbers: &[f32]) -> f64 {
    let sums: Vec<f64> = numbers
        .par_chunks(CHUNK)
        .map(squared_sum_of_chunk)
        .collect();
    sums.iter().sum()
}

/// Eight sums side by side, which the compiler turns into vector instructions.
fn squared_sum_of_chunk(numbers: &[f32]) -> f64 {
    let (eights, rest) = numbers.as_chunks::<8>();
    let mut sums = [0.0f64; 8];
    for eight in eights {
        for (sum, &x) in sums.iter_mut().zip(eight) {
            *sum += f64::from(x) * f64::from(x);
        }
    }
    let rest: f64 = rest.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn read(loss: &Tensor, gradients: &Gradients) -> (f64, f64) {
        loss_and_norm(loss, gradients).unwrap().read().unwrap()
    }

    fn gradients(tensors: &[&[f32]]) -> Gradients {
        let mut gradients = Gradients::default();
        for (index, numbers) in tensors.iter().enumerate() {
            let tensor = Tensor::new(*numbers, &Device::Cpu).unwrap();
            gradients.add(&index.to_string(), tensor).unwrap();
        }
        gradients
    }

    #[test]
    fn the_norm_is_that_of_all_gradients_together() {
        let norm = |tensors: &[&[f32]]| gradient_norm(&gradients(tensors)).unwrap();
        assert_eq!(norm(&[&[3.0], &[0.0, 4.0]]), 5.0);
        assert_eq!(norm(&[]), 0.0);
        let long = vec![2.0; CHUNK * 3 + 5];
        let expected = 2.0 * (long.len() as f64).sqrt();
        assert!((norm(&[&long]) - expected).abs() < 1e-9 * expected);
    }

    #[test]
    fn loss_and_norm_are_read_together_as_they_are_apart() {
        let loss = Tensor::new(2.5f32, &Device::Cpu).unwrap();
        let gradients = gradients(&[&[3.0], &[0.0, 4.0]]);
        // Here, and as a device does it.
        assert_eq!(read(&loss, &gradients), (2.5, 5.0));
        let composed = kernels::without(|| read(&loss, &gradients));
        assert_eq!(composed, (2.5, 5.0));
        assert_eq!(read(&loss, &Gradients::default()), (2.5, 0.0));
    }

    #[test]
    fn loss_and_norm_are_not_finite_each_for_its_own_reason() {
        let number = |number: f32| Tensor::new(number, &Device::Cpu).unwrap();
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for read in [read, |loss: &Tensor, gradients: &Gradients| {
                kernels::without(|| read(loss, gradients))
            }] {
                let (loss, norm) = read(&number(bad), &gradients(&[&[1.0]]));
                assert!(!loss.is_finite() && norm == 1.0);
                let (loss, norm) = read(&number(1.0), &gradients(&[&[1.0, bad]]));
                assert!(loss == 1.0 && !norm.is_finite());
            }
        }
    }

    #[test]
    fn only_a_norm_above_the_limit_is_scaled() {
        assert_eq!(clip_scale(0.5, 1.0), 1.0);
        assert!((clip_scale(4.0, 1.0) - 0.25).abs() < 1e-6);
        assert_eq!(clip_scale(4.0, 0.0), 1.0);
    }
}
