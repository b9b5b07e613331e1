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
        elementwise::scaled_by,
        kernels::{self, Kernel},
        linear::{Term, add_weight_gradient, project, project_back},
        rows_like, widen,
    },
    profile,
    tape::Value,
};

/// The target of a token that nothing is to be learned from.
pub const IGNORE: u32 = u32::MAX;

const KERNEL: Kernel = Kernel::HeadCrossEntropy;

/// Where rows are gathered on a device, their number is a multiple of this, so that the sizes of tensors hardly depend on
/// the data.
const ROWS_MULTIPLE: usize = 512;

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

/// What is to be said next, for each token of a pass, and by what its losses are divided.
#[derive(Debug, Clone)]
pub struct Targets {
    /// One for each token, or [`IGNORE`].
    all: Vec<u32>,
    /// The tokens that have one.
    learned: Vec<u32>,
    tokens: f64,
    device: Device,
    /// Present on CUDA, where a pass may read them again and again with other numbers.
    placed: Option<Taken>,
}

impl Targets {
    /// Targets [n] for tokens on this device, whose losses are divided by `tokens`.
    ///
    /// Errors: [`Error::Data`] naming a target that is none of the vocabulary.
    pub fn new(targets: &[u32], vocabulary: usize, tokens: f64, device: &Device) -> Result<Self> {
        let mut targets = Self {
            all: targets.to_vec(),
            learned: rows_with_target(targets, vocabulary)?,
            tokens,
            device: device.clone(),
            placed: None,
        };
        if device.is_cuda() {
            targets.placed = Some(targets.taken()?);
        }
        Ok(targets)
    }

    /// What a pass reads of them, where they were placed. Their shapes say all that a pass depends on beside their numbers.
    pub fn inputs(&self) -> Vec<Tensor> {
        self.placed.iter().flat_map(Taken::inputs).collect()
    }

    fn taken(&self) -> Result<Taken> {
        if let Some(taken) = &self.placed {
            return Ok(taken.clone());
        }
        let multiple = match self.device.is_cpu() {
            true => 1,
            false => ROWS_MULTIPLE,
        };
        let (learned, all) = (self.learned.clone(), &self.all);
        Taken::new(learned, all, multiple, self.tokens, &self.device)
    }
}

/// The rows whose logits are computed.
#[derive(Debug, Clone)]
struct Taken {
    /// Their numbers [r]; all rows when absent.
    rows: Option<Tensor>,
    /// The target of each, or [`IGNORE`].
    targets: Vec<u32>,
    /// The same [r], and one over what their losses are divided by [1]: on a device with kernels for them.
    on_device: Option<[Tensor; 2]>,
}

impl Taken {
    /// The rows that have a target, and more that add nothing, so that there are a multiple of `multiple`. All rows where
    /// that would be most of them anyway.
    fn new(
        mut learned: Vec<u32>,
        targets: &[u32],
        multiple: usize,
        tokens: f64,
        device: &Device,
    ) -> Result<Self> {
        if learned.is_empty() {
            return Ok(Self {
                rows: None,
                targets: Vec::new(),
                on_device: None,
            });
        }
        let count = learned.len().next_multiple_of(multiple);
        let takes_all = multiple > 1 && 4 * count > 3 * targets.len();
        let mut taken: Vec<u32> = match takes_all {
            true => targets.to_vec(),
            false => learned.iter().map(|&row| targets[row as usize]).collect(),
        };
        let mut rows = None;
        if !takes_all {
            taken.resize(count, IGNORE);
            // A row with a target again: no number gets in that is not there already.
            let filling = learned.first().copied().unwrap_or_default();
            learned.resize(count, filling);
            rows = Some(Tensor::new(learned, device)?);
        }
        let on_device = match device.is_cuda() {
            true => Some([
                Tensor::new(taken.as_slice(), device)?,
                Tensor::new(&[(1.0 / tokens) as f32], device)?,
            ]),
            false => None,
        };
        Ok(Self {
            rows,
            targets: taken,
            on_device,
        })
    }

    fn inputs(&self) -> Vec<Tensor> {
        let on_device = self.on_device.iter().flatten();
        self.rows.iter().chain(on_device).cloned().collect()
    }

    fn are_learned(&self) -> bool {
        self.targets.iter().any(|&target| target != IGNORE)
    }

    /// In parts of so many rows at most. On a device a last part of few rows would read the whole head as the others do, so they are
    /// as large as each other there.
    fn chunks(&self, most: usize, device: &Device) -> Result<Vec<Self>> {
        let count = self.targets.len().div_ceil(most.max(1)).max(1);
        let size = match device.is_cpu() {
            true => most,
            false => self.targets.len().div_ceil(count).max(1),
        };
        let starts = (0..self.targets.len()).step_by(size);
        let part = |start: usize| {
            let length = size.min(self.targets.len() - start);
            let of = |it: &Tensor| it.narrow(0, start, length);
            let on_device = self.on_device.as_ref();
            let on_device = on_device
                .map(|[targets, inverse]| -> Result<_> { Ok([of(targets)?, inverse.clone()]) });
            Ok(Self {
                rows: self.rows.as_ref().map(of).transpose()?,
                targets: self.targets[start..start + length].to_vec(),
                on_device: on_device.transpose()?,
            })
        };
        starts.map(part).collect()
    }
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
    let mut loss = Tensor::zeros((), super::wide_dtype(&all_rows), &device)?;
    if !taken.are_learned() {
        return Ok(Value::constant(loss));
    }
    let (scale, wanted) = wanted(hidden, head);
    let chunk_rows = (chunk_elements(&device, wanted.head) / head.tensor().dim(0)?).clamp(16, 4096);

    // Converted once: a device would do it for every chunk, forward and back.
    let narrow = device.is_cuda().then_some(all_rows.dtype());
    let numbers = head.tensor();
    let numbers = numbers.to_dtype(narrow.unwrap_or(numbers.dtype()))?;
    let mut hidden_gradients = Vec::new();
    let mut head_gradient: Option<Tensor> = None;
    let mut start = 0;
    for part in &taken.chunks(chunk_rows, &device)? {
        let chunk = match &part.rows {
            Some(rows) => all_rows.index_select(rows, 0)?,
            None => all_rows.narrow(0, start, part.targets.len())?,
        };
        start += part.targets.len();
        let part = chunk_loss(&chunk, &numbers, part, soft_cap, tokens, wanted)?;
        loss = (loss + part.loss)?;
        if let (Some(dz), true) = (&part.logits_gradient, wanted.head) {
            head_gradient = Some(add_weight_gradient(KERNEL, head_gradient, dz, &chunk)?);
        }
        hidden_gradients.extend(part.hidden_gradient);
    }
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
            let rest = gradient.affine(1.0 / scale, 0.0)?;
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

/// The gradients of the rows that were taken [r, d], and zeros for all others. Those that fill up are zeros too.
fn put_back(taken: &Tensor, rows: &Tensor, all: (usize, usize)) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(KERNEL, &[taken]) {
        return kernels::cuda::elementwise::put_rows(taken, rows, all.0);
    }
    let zeros = Tensor::zeros(all, taken.dtype(), taken.device())?;
    Ok(zeros.index_add(rows, taken, 0)?)
}

/// The rows that have a target, which must be one of the vocabulary.
fn rows_with_target(targets: &[u32], vocabulary: usize) -> Result<Vec<u32>> {
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
        let kernel = kernels::cuda::cross_entropy::logits_loss;
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
