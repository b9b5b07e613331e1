//! The head of a language model and its loss, as one operation: no tensor of [n, v] ever exists.
//!
//! L = (1/N) Σ (logsumexp zᵢ - zᵢ[target]) with z = h Wᵀ, over the tokens that have a target. Rows are taken in chunks;
//! each chunk's logits give its loss and at once its gradient, dz = (softmax z - onehot) / N, dh = dz W, dW = dzᵀ h,
//! since the gradient of a single number only scales what is already known. Backward multiplies by that scale.
//! Where the tape knows it beforehand, dz is multiplied with it before it is rounded to a narrow dtype, in which it could
//! vanish. Saves dh, and dW when it is wanted.

mod targets;

use candle_core::{D, DType, Device, Tensor};

use crate::{
    Error, Result,
    ops::{
        as_rows,
        elementwise::scaled_by,
        embedding::look_up,
        kernels::{self, Kernel},
        linear::{Term, add_weight_gradient, project, project_back},
        rows_like,
        sum::sum,
        widen,
    },
    profile,
    tape::Value,
};

use targets::Taken;
pub use targets::{IGNORE, Targets};

const KERNEL: Kernel = Kernel::HeadCrossEntropy;

/// Logits in one chunk: 32 MiB in f32 on the CPU, where caches are small, 128 MiB elsewhere, and 256 on CUDA where the head learns: each
/// chunk adds to the whole gradient.
fn chunk_elements(device: &Device, head_learns: bool) -> usize {
    match device {
        Device::Cpu => 1 << 23,
        Device::Cuda(_) if head_learns => 1 << 26,
        _ => 1 << 25,
    }
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
    let vocabulary = head.tensor().dim(0)?;
    let targets = Targets::new(targets, vocabulary, tokens, hidden.tensor().device())?;
    loss_of_targets(hidden, head, &targets, soft_cap)
}

/// The same, of targets that lie where they are read.
pub fn loss_of_targets(
    hidden: &Value,
    head: &Value,
    targets: &Targets,
    soft_cap: Option<f64>,
) -> Result<Value> {
    let _profiled = profile::operation("head with cross-entropy");
    let all_rows = as_rows(hidden.tensor())?;
    let rows = all_rows.dim(0)?;
    if rows != targets.all.len() {
        let problem = format!("{} targets for {rows} tokens", targets.all.len());
        return Err(Error::Data(problem));
    }
    let on_metal = kernels::metal::serves(KERNEL, &[&all_rows]);
    if !on_metal && kernels::cpu::linear::serves(KERNEL, &[Term::new(&all_rows, head.tensor())]) {
        let kernel = kernels::cpu::cross_entropy::head_cross_entropy;
        let Targets {
            all,
            learned,
            tokens,
            ..
        } = targets;
        profile::computed(|| {
            // Logits, and gradients of what is learned.
            let learn = [hidden, head].map(|it| usize::from(it.wants_gradient()));
            let products = 1 + learn.iter().sum::<usize>();
            let sizes = head.tensor().elem_count() * learned.len();
            [2.0 * (products * sizes) as f64, 0.0]
        });
        return kernel(hidden, head, all, learned, soft_cap, *tokens);
    }
    in_chunks(hidden, head, &targets.taken()?, soft_cap, targets.tokens)
}

/// The loss over these rows, a chunk after the other, composed or with the kernels of a device.
fn in_chunks(
    hidden: &Value,
    head: &Value,
    taken: &Taken,
    soft_cap: Option<f64>,
    tokens: f64,
) -> Result<Value> {
    let all_rows = as_rows(hidden.tensor())?;
    let device = all_rows.device().clone();
    let (scale, wanted) = wanted(hidden, head);
    let chunk_rows = (chunk_elements(&device, wanted.head) / head.tensor().dim(0)?).clamp(16, 4096);

    // Converted once: a device would do it for every chunk, forward and back.
    let narrow = device.is_cuda().then_some(all_rows.dtype());
    let numbers = head.tensor();
    let numbers = numbers.to_dtype(narrow.unwrap_or(numbers.dtype()))?;
    let mut loss: Option<Tensor> = None;
    let mut hidden_gradients = Vec::new();
    let mut head_gradient: Option<Tensor> = None;
    let mut start = 0;
    for part in &taken.chunks(chunk_rows, &device)? {
        let chunk = match &part.rows {
            Some(rows) => look_up(KERNEL, &all_rows, rows)?,
            None => all_rows.narrow(0, start, part.targets.len())?,
        };
        start += part.targets.len();
        let part = chunk_loss(&chunk, &numbers, part, soft_cap, tokens, wanted)?;
        loss = Some(match loss {
            Some(loss) => sum(KERNEL, &loss, &part.loss)?,
            None => part.loss,
        });
        if let (Some(dz), true) = (&part.logits_gradient, wanted.head) {
            head_gradient = Some(add_weight_gradient(KERNEL, head_gradient, dz, &chunk)?);
        }
        hidden_gradients.extend(part.hidden_gradient);
    }
    let Some(loss) = loss else {
        return no_loss(&all_rows);
    };
    let head_gradient = head_gradient
        .map(|it| it.to_dtype(accumulated(head.tensor().dtype())))
        .transpose()?;

    let like = hidden.tensor().clone();
    let shape = all_rows.shape().clone();
    let rows = taken.rows.clone();
    Ok(Value::record(
        loss,
        &[hidden, head],
        move |gradient: Tensor| {
            let rest = match scale {
                1.0 => gradient,
                _ => gradient.affine(1.0 / scale, 0.0)?,
            };
            let dh = match hidden_gradients.is_empty() {
                true => None,
                false => {
                    let taken = scaled_by(Tensor::cat(&hidden_gradients, 0)?, &rest)?;
                    let all = match &rows {
                        Some(rows) => put_back(&taken, rows, shape.dims2()?)?,
                        None => taken,
                    };
                    Some(rows_like(&all, &like)?)
                }
            };
            let dw = head_gradient.map(|it| scaled_by(it, &rest)).transpose()?;
            Ok(vec![dh, dw])
        },
    ))
}

/// That of rows none of which has a target.
fn no_loss(rows: &Tensor) -> Result<Value> {
    let zero = Tensor::zeros((), super::wide_dtype(rows), rows.device())?;
    Ok(Value::constant(zero))
}

/// The gradients of the rows that were taken [r, d], and zeros for all others. Those that fill up are zeros too.
fn put_back(taken: &Tensor, rows: &Tensor, all: (usize, usize)) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(KERNEL, &[taken]) {
        return kernels::cuda::elementwise::put_rows(taken, rows, all.0);
    }
    let zeros = Tensor::zeros(all, taken.dtype(), taken.device())?;
    Ok(zeros.index_add(rows, taken, 0)?)
}

/// Which gradients of a chunk are wanted.
#[derive(Clone, Copy)]
struct Wanted {
    hidden: bool,
    head: bool,
    /// The loss scale: what the gradient of a token's loss is multiplied with, beside its share in the mean.
    scale: f64,
}

/// The loss scale, and which gradients are wanted with it.
fn wanted(hidden: &Value, head: &Value) -> (f64, Wanted) {
    let scale = match hidden.wants_gradient() {
        true => hidden.loss_scale(),
        false => head.loss_scale(),
    };
    let wanted = Wanted {
        hidden: hidden.wants_gradient(),
        head: head.wants_gradient(),
        scale,
    };
    (scale, wanted)
}

struct ChunkLoss {
    loss: Tensor,
    hidden_gradient: Option<Tensor>,
    /// That of the logits [n, v], where one of them is wanted.
    logits_gradient: Option<Tensor>,
}

fn chunk_loss(
    hidden: &Tensor,
    head: &Tensor,
    targets: &Taken,
    soft_cap: Option<f64>,
    tokens: f64,
    wanted: Wanted,
) -> Result<ChunkLoss> {
    let scale = (wanted.hidden || wanted.head).then_some(wanted.scale);
    let (loss, dz) = logits_loss(hidden, head, targets, soft_cap, tokens, scale)?;
    let back = |dz: &Tensor| project_back(KERNEL, &[Term::new(dz, head)]);
    let through = dz.as_ref().filter(|_| wanted.hidden);
    Ok(ChunkLoss {
        loss,
        hidden_gradient: through.map(back).transpose()?,
        logits_gradient: dz,
    })
}

/// The summed loss of a chunk of rows h [n, d], divided by `tokens`, and if it is wanted the gradient of its logits
/// [n, v], divided by `tokens` too and multiplied with `scale`. A row without a target adds nothing to either.
fn logits_loss(
    hidden: &Tensor,
    head: &Tensor,
    targets: &Taken,
    soft_cap: Option<f64>,
    tokens: f64,
    scale: Option<f64>,
) -> Result<(Tensor, Option<Tensor>)> {
    if kernels::metal::serves(KERNEL, &[hidden]) {
        let kernel = kernels::metal::cross_entropy::logits_loss;
        let share = scale.unwrap_or(1.0) / tokens;
        let targets = Tensor::new(targets.targets.as_slice(), hidden.device())?;
        let (loss, dz) = kernel(hidden, head, &targets, soft_cap, tokens, share)?;
        return Ok((loss, Some(dz)));
    }
    #[cfg(feature = "cuda")]
    if let Some([targets, inverse]) = &targets.on_device
        && kernels::cuda::serves(KERNEL, &[hidden])
    {
        let kernel = kernels::cuda::losses::logits_loss;
        let scale = scale.unwrap_or(1.0);
        let (loss, dz) = kernel(hidden, head, targets, inverse, soft_cap, scale)?;
        return Ok((loss, Some(dz)));
    }
    let targets = targets.targets.as_slice();
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
    let Some(scale) = scale else {
        return Ok((loss, None));
    };
    let share = scale / tokens;

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
    use super::{
        targets::{ROWS_MULTIPLE, rows_with_target},
        *,
    };
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
            let learned = rows_with_target(&targets, 7).unwrap();
            let taken = Taken::new(learned, &targets, ROWS_MULTIPLE, 1.0, &Device::Cpu).unwrap();
            assert_eq!(taken.targets.len(), expected, "{with_target}");
            let learned = taken.targets.iter().filter(|it| **it != IGNORE);
            assert_eq!(learned.count(), with_target);
            let rows = taken.rows.map_or(2_000, |rows| rows.elem_count());
            assert_eq!(rows, expected, "{with_target}");
        }
    }

    #[test]
    fn rows_that_only_fill_up_add_nothing_to_loss_and_gradients() {
        // 4 of 12 rows have a target.
        let targets = [TARGETS, [IGNORE; 6]].concat();
        let run = |multiple: usize| {
            let learned = rows_with_target(&targets, 7).unwrap();
            let taken = Taken::new(learned, &targets, multiple, 4.0, &Device::Cpu).unwrap();
            let count = taken.targets.len();
            let tape = Tape::new(0);
            let [h, w] = [normal(1, &[3, 4, 4]), normal(2, &[7, 4])].map(|it| tape.input(it));
            let loss = in_chunks(&h, &w, &taken, Some(1.3), 4.0).unwrap();
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
        // Of so many tokens that the share of one is less than f16 can tell from scratch.
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
