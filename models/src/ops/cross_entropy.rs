//! The head of a language model and its loss, as one operation: no tensor of [n, v] ever exists.
//!
//! L = (1/N) Σ (logsumexp zᵢ - zᵢ[target]) with z = h Wᵀ, over the tokens that have a target. Rows are taken in chunks;
//! each chunk's logits give its loss and at once its gradient, dz = (softmax z - onehot) / N, dh = dz W, dW = dzᵀ h,
//! since the gradient of a single number only scales what is already known. Backward multiplies by that scale.
//! Where the tape knows it beforehand, dz is multiplied with it before it is rounded to a narrow dtype, in which it could
//! vanish. Saves dh, and dW when it is wanted.

use candle_core::{D, DType, Device, Tensor};

use crate::{
    Error, Result,
    ops::{
        as_rows,
        kernels::{self, Kernel},
        linear::{Term, project, project_back, weight_gradient},
        rows_like, widen,
    },
    tape::Value,
};

/// The target of a token that nothing is to be learned from.
pub const IGNORE: u32 = u32::MAX;

const KERNEL: Kernel = Kernel::HeadCrossEntropy;

/// Where rows are gathered on a device, their number is a multiple of this, so that the sizes of tensors hardly depend on
/// the data.
const ROWS_MULTIPLE: usize = 512;

/// Logits in one chunk: 32 MiB in f32 on the CPU, where caches are small, 128 MiB elsewhere.
fn chunk_elements(device: &Device) -> usize {
    if device.is_cpu() { 1 << 23 } else { 1 << 25 }
}

/// The loss of predicting `targets` [n] from hidden states h [.., d] with n rows through the head W [v, d].
///
/// A single f32 number: the sum over tokens with a target, divided by `tokens`. For a plain mean pass the number of
/// targets; with gradient accumulation, that of all micro-batches together. `soft_cap` squeezes logits into (-c, c).
pub fn head_cross_entropy(
    hidden: &Value,
    head: &Value,
    targets: &[u32],
    soft_cap: Option<f64>,
    tokens: f64,
) -> Result<Value> {
    let all_rows = as_rows(hidden.tensor())?;
    let vocabulary = head.tensor().dim(0)?;
    let learned = rows_with_target(targets, all_rows.dim(0)?, vocabulary)?;
    let on_metal = kernels::metal::serves(KERNEL, &[&all_rows]);
    if !on_metal && kernels::cpu::linear::serves(KERNEL, &[Term::new(&all_rows, head.tensor())]) {
        let kernel = kernels::cpu::cross_entropy::head_cross_entropy;
        return kernel(hidden, head, targets, &learned, soft_cap, tokens);
    }
    let multiple = match all_rows.device().is_cpu() {
        true => 1,
        false => ROWS_MULTIPLE,
    };
    let taken = Taken::new(learned, targets, multiple);
    in_chunks(hidden, head, taken, soft_cap, tokens)
}

/// The rows whose logits are computed.
struct Taken {
    /// Their numbers; all rows when absent.
    rows: Option<Vec<u32>>,
    /// The target of each, or [`IGNORE`].
    targets: Vec<u32>,
}

impl Taken {
    /// The rows that have a target, and more that add nothing, so that there are a multiple of `multiple`. All rows where
    /// that would be most of them anyway.
    fn new(mut learned: Vec<u32>, targets: &[u32], multiple: usize) -> Self {
        let count = learned.len().next_multiple_of(multiple);
        if multiple > 1 && 4 * count > 3 * targets.len() {
            return Self {
                rows: None,
                targets: targets.to_vec(),
            };
        }
        let mut targets: Vec<u32> = learned.iter().map(|&row| targets[row as usize]).collect();
        targets.resize(count, IGNORE);
        // A row with a target again: no number gets in that is not there already.
        let filling = learned.first().copied().unwrap_or_default();
        learned.resize(count, filling);
        Self {
            rows: Some(learned),
            targets,
        }
    }

    fn are_learned(&self) -> bool {
        self.targets.iter().any(|&target| target != IGNORE)
    }
}

/// The loss over these rows, a chunk after the other, composed or with the kernels of a device.
fn in_chunks(
    hidden: &Value,
    head: &Value,
    taken: Taken,
    soft_cap: Option<f64>,
    tokens: f64,
) -> Result<Value> {
    let all_rows = as_rows(hidden.tensor())?;
    let device = all_rows.device().clone();
    let mut loss = Tensor::zeros((), super::wide_dtype(&all_rows), &device)?;
    if !taken.are_learned() {
        return Ok(Value::constant(loss));
    }
    let (scale, wanted) = wanted(hidden, head, tokens);
    let chunk_rows = (chunk_elements(&device) / head.tensor().dim(0)?).clamp(16, 4096);
    let Taken { rows, targets } = taken;
    // A last chunk of few rows would read the whole head as the others do.
    let chunk_rows = targets.len().div_ceil(targets.len().div_ceil(chunk_rows));
    let rows = rows.map(|rows| Tensor::new(rows, &device)).transpose()?;

    let mut hidden_gradients = Vec::new();
    let mut head_gradient: Option<Tensor> = None;
    for (index, targets) in targets.chunks(chunk_rows).enumerate() {
        let start = index * chunk_rows;
        let chunk = match &rows {
            Some(rows) => all_rows.index_select(&rows.narrow(0, start, targets.len())?, 0)?,
            None => all_rows.narrow(0, start, targets.len())?,
        };
        let part = chunk_loss(&chunk, head.tensor(), targets, soft_cap, tokens, wanted)?;
        loss = (loss + part.loss)?;
        hidden_gradients.extend(part.hidden_gradient);
        head_gradient = match (head_gradient, part.head_gradient) {
            (Some(sum), Some(gradient)) => Some((sum + gradient)?),
            (sum, gradient) => gradient.or(sum),
        };
    }

    let like = hidden.tensor().clone();
    let shape = all_rows.shape().clone();
    Ok(Value::record(
        loss,
        &[hidden, head],
        move |gradient: Tensor| {
            let rest = gradient.affine(1.0 / scale, 0.0)?;
            let scaled =
                |x: Tensor| -> Result<Tensor> { Ok(x.broadcast_mul(&rest.to_dtype(x.dtype())?)?) };
            let dh = match hidden_gradients.is_empty() {
                true => None,
                false => {
                    let taken = scaled(Tensor::cat(&hidden_gradients, 0)?)?;
                    let all = match &rows {
                        Some(rows) => Tensor::zeros(shape, taken.dtype(), taken.device())?
                            .index_add(rows, &taken, 0)?,
                        None => taken,
                    };
                    Some(rows_like(&all, &like)?)
                }
            };
            Ok(vec![dh, head_gradient.map(scaled).transpose()?])
        },
    ))
}

/// The rows that have a target, which must be one of the vocabulary.
fn rows_with_target(targets: &[u32], rows: usize, vocabulary: usize) -> Result<Vec<u32>> {
    if rows != targets.len() {
        let problem = format!("{} targets for {rows} tokens", targets.len());
        return Err(Error::Data(problem));
    }
    let learned: Vec<u32> = (0..targets.len() as u32)
        .filter(|&row| targets[row as usize] != IGNORE)
        .collect();
    let target = |row: &u32| targets[*row as usize];
    match learned
        .iter()
        .map(target)
        .find(|it| *it as usize >= vocabulary)
    {
        None => Ok(learned),
        Some(target) => Err(Error::Data(format!(
            "target {target} in a vocabulary of {vocabulary}"
        ))),
    }
}

/// Which gradients of a chunk are wanted.
#[derive(Clone, Copy)]
struct Wanted {
    hidden: bool,
    head: bool,
    /// What the gradient of a token's loss is multiplied with: its share in the mean, times the loss scale.
    share: f64,
}

/// The loss scale, and which gradients are wanted with it.
fn wanted(hidden: &Value, head: &Value, tokens: f64) -> (f64, Wanted) {
    let scale = match hidden.wants_gradient() {
        true => hidden.loss_scale(),
        false => head.loss_scale(),
    };
    let wanted = Wanted {
        hidden: hidden.wants_gradient(),
        head: head.wants_gradient(),
        share: scale / tokens,
    };
    (scale, wanted)
}

struct ChunkLoss {
    loss: Tensor,
    hidden_gradient: Option<Tensor>,
    head_gradient: Option<Tensor>,
}

fn chunk_loss(
    hidden: &Tensor,
    head: &Tensor,
    targets: &[u32],
    soft_cap: Option<f64>,
    tokens: f64,
    wanted: Wanted,
) -> Result<ChunkLoss> {
    let share = (wanted.hidden || wanted.head).then_some(wanted.share);
    let (loss, dz) = logits_loss(hidden, head, targets, soft_cap, tokens, share)?;
    let Some(dz) = dz else {
        return Ok(ChunkLoss {
            loss,
            hidden_gradient: None,
            head_gradient: None,
        });
    };
    Ok(ChunkLoss {
        loss,
        hidden_gradient: wanted
            .hidden
            .then(|| project_back(KERNEL, &[Term::new(&dz, head)]))
            .transpose()?,
        head_gradient: match wanted.head {
            true => Some(
                weight_gradient(KERNEL, &dz, hidden, 1.0)?.to_dtype(accumulated(head.dtype()))?,
            ),
            false => None,
        },
    })
}

/// The summed loss of a chunk of rows h [n, d], divided by `tokens`, and if it is wanted the gradient of its logits
/// [n, v], of which each row is multiplied with `share`. A row without a target adds nothing to either.
fn logits_loss(
    hidden: &Tensor,
    head: &Tensor,
    targets: &[u32],
    soft_cap: Option<f64>,
    tokens: f64,
    share: Option<f64>,
) -> Result<(Tensor, Option<Tensor>)> {
    if kernels::metal::serves(KERNEL, &[hidden]) {
        let kernel = kernels::metal::cross_entropy::logits_loss;
        let share = share.unwrap_or(1.0 / tokens);
        let targets = Tensor::new(targets, hidden.device())?;
        let (loss, dz) = kernel(hidden, head, &targets, soft_cap, tokens, share)?;
        return Ok((loss, Some(dz)));
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(KERNEL, &[hidden]) {
        let kernel = kernels::cuda::cross_entropy::logits_loss;
        let share = share.unwrap_or(1.0 / tokens);
        let (loss, dz) = kernel(hidden, head, targets, soft_cap, tokens, share)?;
        return Ok((loss, Some(dz)));
    }
    let counted = counted(targets, hidden.device())?;
    let targets: Vec<u32> = targets
        .iter()
        .map(|&it| if it == IGNORE { 0 } else { it })
        .collect();
    let targets = Tensor::from_slice(&targets, (targets.len(), 1), hidden.device())?;
    let mut logits = widen(&project(KERNEL, &[Term::new(hidden, head)], None)?)?;
    let mut slope = None;
    if let Some(cap) = soft_cap {
        let squeezed = (logits / cap)?.tanh()?;
        slope = Some(squeezed.sqr()?.affine(-1.0, 1.0)?);
        logits = (squeezed * cap)?;
    }
    let largest = logits.max_keepdim(D::Minus1)?;
    let exponentials = logits.broadcast_sub(&largest)?.exp()?;
    let sums = exponentials.sum_keepdim(D::Minus1)?;
    let mut losses = ((sums.log()? + largest)? - logits.gather(&targets, D::Minus1)?)?;
    if let Some(counted) = &counted {
        losses = (losses * counted.to_dtype(logits.dtype())?)?;
    }
    let loss = (losses.sum_all()? / tokens)?;
    let Some(share) = share else {
        return Ok((loss, None));
    };

    let probabilities = exponentials.broadcast_div(&sums)?;
    let minus_one =
        Tensor::full(-1f32, targets.dims(), hidden.device())?.to_dtype(logits.dtype())?;
    // Only the forward pass of candle's `scatter_add` is used; that one is right.
    #[allow(clippy::disallowed_methods)]
    let mut dz = (probabilities.scatter_add(&targets, &minus_one, D::Minus1)? * share)?;
    if let Some(slope) = slope {
        dz = (dz * slope)?;
    }
    if let Some(counted) = &counted {
        dz = dz.broadcast_mul(&counted.to_dtype(logits.dtype())?)?;
    }
    Ok((loss, Some(dz.to_dtype(hidden.dtype())?)))
}

/// What each row is multiplied with [n, 1], 0 without a target; nothing where all have one.
fn counted(targets: &[u32], device: &Device) -> Result<Option<Tensor>> {
    if !targets.contains(&IGNORE) {
        return Ok(None);
    }
    let counted = targets
        .iter()
        .map(|&it| if it == IGNORE { 0.0 } else { 1.0 });
    let counted: Vec<f32> = counted.collect();
    Ok(Some(Tensor::from_vec(counted, (targets.len(), 1), device)?))
}

/// Gradients of weights add up in f32 or wider.
fn accumulated(dtype: DType) -> DType {
    if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ops::testing::{check_close, check_gradients, normal},
        tape::{Gradients, Tape},
    };

    const TARGETS: [u32; 6] = [3, IGNORE, 0, 6, IGNORE, 3];

    #[test]
    fn gradients_match_finite_differences() {
        let inputs = [normal(1, &[2, 3, 4]), normal(2, &[7, 4])];
        for soft_cap in [None, Some(1.3)] {
            check_gradients(&inputs, |_, v| {
                head_cross_entropy(&v[0], &v[1], &TARGETS, soft_cap, 4.0)
            });
        }
    }

    #[test]
    fn on_a_device_the_number_of_rows_hardly_depends_on_the_targets() {
        // Of 2,000 rows, so many have a target and so many are taken.
        let cases = [
            (1, 512),
            (512, 512),
            (513, 1_024),
            (1_024, 1_024),
            (1_100, 2_000),
        ];
        for (with_target, expected) in cases.into_iter().chain([(2_000, 2_000)]) {
            let target = |row| if row < with_target { 1 } else { IGNORE };
            let targets: Vec<u32> = (0..2_000).rev().map(target).collect();
            let learned = rows_with_target(&targets, 2_000, 7).unwrap();
            let taken = Taken::new(learned, &targets, ROWS_MULTIPLE);
            assert_eq!(taken.targets.len(), expected, "{with_target}");
            let learned = taken.targets.iter().filter(|it| **it != IGNORE);
            assert_eq!(learned.count(), with_target);
            let rows = taken.rows.map_or(2_000, |rows| rows.len());
            assert_eq!(rows, expected, "{with_target}");
        }
    }

    #[test]
    fn rows_that_only_fill_up_add_nothing_to_loss_and_gradients() {
        // 4 of 12 rows have a target.
        let targets = [TARGETS, [IGNORE; 6]].concat();
        let run = |multiple: usize| {
            let learned = rows_with_target(&targets, 12, 7).unwrap();
            let taken = Taken::new(learned, &targets, multiple);
            let count = taken.targets.len();
            let tape = Tape::new(0);
            let [h, w] = [normal(1, &[3, 4, 4]), normal(2, &[7, 4])].map(|it| tape.input(it));
            let loss = in_chunks(&h, &w, taken, Some(1.3), 4.0).unwrap();
            let seed = loss.tensor().ones_like().unwrap();
            let gradients = tape.backward_to(&loss, seed, &[&h, &w], &mut Gradients::default());
            let gradients = gradients.unwrap().into_iter().map(Option::unwrap);
            let mut results = vec![loss.tensor().clone()];
            results.extend(gradients);
            (count, results)
        };
        let (_, expected) = run(1);
        for (multiple, taken) in [(1, 4), (5, 5), (3, 6), (10, 12)] {
            let (count, results) = run(multiple);
            assert_eq!(count, taken);
            for (got, expected) in results.iter().zip(&expected) {
                check_close("loss or gradient", got, expected, 1e-12);
            }
        }
    }

    #[test]
    fn a_gradient_that_vanishes_in_f16_is_there_with_a_loss_scale() {
        // Of so many tokens that the share of one is less than f16 can tell from nothing.
        const TOKENS: f64 = 1e8;
        let gradients = |dtype: DType, scale: f64| {
            let tape = Tape::new(0).with_loss_scale(scale);
            let inputs = [normal(1, &[2, 3, 4]), normal(2, &[7, 4])];
            let inputs = inputs.map(|it| tape.input(it.to_dtype(dtype).unwrap()));
            let loss = head_cross_entropy(&inputs[0], &inputs[1], &TARGETS, None, TOKENS).unwrap();
            let seed = loss.tensor().ones_like().unwrap() * scale;
            let wanted = [&inputs[0], &inputs[1]];
            let gradients =
                tape.backward_to(&loss, seed.unwrap(), &wanted, &mut Gradients::default());
            let gradients = gradients.unwrap().into_iter().map(Option::unwrap);
            let wide = gradients.map(|it| it.to_dtype(DType::F64).unwrap() / scale);
            wide.map(Result::unwrap).collect::<Vec<_>>()
        };
        let right = gradients(DType::F64, 1.0);
        for (gradient, vanished) in gradients(DType::F16, 1.0).iter().zip(&right) {
            check_close("nothing", gradient, &vanished.zeros_like().unwrap(), 0.0);
        }
        for (gradient, right) in gradients(DType::F16, 65_536.0).iter().zip(&right) {
            let one = |it: &Tensor| (it * TOKENS).unwrap();
            check_close("the gradient", &one(gradient), &one(right), 1e-2);
        }
    }

    #[test]
    fn a_target_outside_of_the_vocabulary_is_an_error() {
        let [h, w] = [normal(1, &[1, 4]), normal(2, &[7, 4])].map(Value::constant);
        assert!(head_cross_entropy(&h, &w, &[7], None, 1.0).is_err());
    }

    #[test]
    fn chunks_change_nothing_but_the_order_of_sums() {
        let (h, w) = (
            Value::constant(normal(1, &[6, 4])),
            Value::constant(normal(2, &[7, 4])),
        );
        let whole = head_cross_entropy(&h, &w, &TARGETS, None, 4.0).unwrap();
        let parts: Vec<Tensor> = TARGETS
            .iter()
            .enumerate()
            .map(|(row, target)| {
                let row = Value::constant(h.tensor().narrow(0, row, 1).unwrap());
                head_cross_entropy(&row, &w, &[*target], None, 4.0)
                    .unwrap()
                    .tensor()
                    .clone()
            })
            .collect();
        let sum = Tensor::stack(&parts, 0).unwrap().sum_all().unwrap();
        check_close("loss", whole.tensor(), &sum, 1e-12);
    }

    #[test]
    fn a_batch_without_targets_has_no_loss_and_no_gradient() {
        let (h, w) = (
            Value::constant(normal(1, &[2, 4])),
            Value::constant(normal(2, &[7, 4])),
        );
        let loss = head_cross_entropy(&h, &w, &[IGNORE, IGNORE], None, 1.0).unwrap();
        assert_eq!(loss.tensor().to_scalar::<f64>().unwrap(), 0.0);
    }
}
