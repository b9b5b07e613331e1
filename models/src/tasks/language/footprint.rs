//! What a run that trains a language model will take, from the shape of the model.
//!
//! Letters: d width of the model, f width of the feed-forward part, h query heads, k key heads, e width of a head,
//! v tokens known, l layers, t tokens in a row, b rows. Bytes are those that are alive at once in the worst moment of a
//! step: where the forward pass is over and the backward pass begins, or where that ends and all gradients are there.
//! Measuring held-out data keeps nothing for a way back, so it never takes more than a step; writing a sample may, where
//! its keys and values are more than a step keeps.

use super::{
    plan::{LanguagePlan, ModelShape, Stored},
    request::Method,
};
use crate::{
    arch::{config::DecoderConfig, network::NetworkConfig, trm::CausalTrmConfig},
    checkpoint::quantize::Quantization,
    device::{RequestedDevice, dtype::Dtype},
    ops::{kernels::metal::attention::MAX_WEIGHTS, weight::PART_ELEMENTS},
    train::{
        estimate::{Estimate, MemoryGroup, MemoryPart, program_bytes},
        plan::TrainPlan,
    },
};

/// The head is computed in chunks of so many bytes of logits, on a processor, on a GPU, and on CUDA where it learns.
const LOGIT_BYTES_CPU: u128 = 32 << 20;
const LOGIT_BYTES_GPU: u128 = 128 << 20;
const LOGIT_BYTES_LEARNED: u128 = 256 << 20;
/// Tokens of a prompt that is the beginning of a held-out row, at most.
const PROMPT_TOKENS: usize = 128;
/// Copies of such a chunk that exist at once: the logits become their own gradient on a processor, a kernel writes it
/// beside them on CUDA, and where there is no kernel each step of the formula is a tensor.
const LOGIT_COPIES: [u128; 3] = [1, 2, 5];

/// What a step keeps for its backward pass when that begins, by the operation that keeps it.
struct KeptBytes {
    /// Queries, keys, values and the result, and the scores where they are kept.
    attention_bytes: u128,
    /// Gate, up and their product.
    feed_forward_bytes: u128,
    /// Inputs of the norms and of the linear layers after them, and what an adapter keeps between its two matrices.
    norms_bytes: u128,
    /// The head: its input, the chunk of logits, and the gradient of its weight while it is summed.
    head_bytes: u128,
    /// The widest gradient on its way back, and what it is computed from.
    passing_bytes: u128,
}

/// The estimate for a plan that trains a model of this shape.
pub(super) fn estimate(plan: &TrainPlan<LanguagePlan>, model: &ModelShape) -> Estimate {
    use MemoryGroup::*;
    let (run, task) = (&plan.run, &plan.task);
    let config = &model.network;
    let shape = Shape::of(config, run.batch.rows, run.batch.length);
    let adapter = adapter_parameters(task, config);
    let base = u128::from(config.parameters());
    let learned = base - shape.frozen;
    let (trainable, storage) = match task.method {
        Method::Lora => (adapter, run.dtype.storage),
        // Weights that learn are f32.
        Method::Full | Method::Scratch => (learned, Dtype::F32),
    };
    let averages = u128::from(run.ema > 0.0);
    let tables = shape.learned_tables(task.method);
    let largest = tables / shape.tables();
    let state_bytes = run.state_bytes(shown(trainable), shown(tables), shown(largest));
    let blocks = Blocks::of(task, model);
    let weights_bytes = (base - blocks.count.min(base)) * storage.bytes() as u128 + blocks.bytes;
    let optimizer_bytes = u128::from(state_bytes) + trainable * 4 * averages;
    let kept = shape.kept(plan);
    let gradients_bytes = kept.gradients_beside(trainable * 4, run.batch.accumulate);
    let writing_bytes = shape
        .writing(plan)
        .saturating_sub(kept.activations.bytes() + gradients_bytes);
    let rounding_bytes = match run.device {
        RequestedDevice::Metal => {
            let copies = optimizer_bytes.div_ceil(4 * trainable.max(1));
            shape.rounding(plan, copies)
        }
        _ => 0,
    };
    let widened_bytes = blocks.widened_bytes(plan);
    let used = weights_bytes
        + widened_bytes
        + adapter * 4
        + optimizer_bytes
        + gradients_bytes
        + kept.activations.bytes()
        + writing_bytes;
    let kept = &kept.activations;
    let parts = [
        (Weights, "weights", weights_bytes),
        (Training, "adapter", adapter * 4),
        (Training, "gradients", gradients_bytes),
        (Training, "optimizer", optimizer_bytes),
        (Activations, "attention", kept.attention_bytes),
        (Activations, "feed-forward", kept.feed_forward_bytes),
        (Activations, "norms", kept.norms_bytes),
        (Activations, "logits and head", kept.head_bytes),
        (Activations, "passing gradients", kept.passing_bytes),
        (Activations, "keys and values of a sample", writing_bytes),
        (Activations, "weights that are widened", widened_bytes),
        (Rest, "rounding to powers of two", rounding_bytes),
        (
            Rest,
            "program and spare",
            program_bytes(run.device, shown(used)).into(),
        ),
    ];
    Estimate {
        parameters: shown(base + adapter),
        trainable_parameters: shown(trainable),
        parts: parts
            .map(|(group, name, bytes)| MemoryPart::new(group, name, shown(bytes)))
            .to_vec(),
        operations: shape.operations(plan) * run.steps as f64,
    }
}

/// Frozen weights of layers in quantized blocks.
#[derive(Default)]
struct Blocks {
    count: u128,
    bytes: u128,
    /// Numbers of the largest matrix.
    largest: u128,
}

impl Blocks {
    fn of(plan: &LanguagePlan, model: &ModelShape) -> Self {
        let Some(config) = model.network.decoder().filter(|_| plan.lora.is_some()) else {
            return Self::default();
        };
        let (count, bytes) = match (plan.quantize, model.stored) {
            (Some(quantize), _) => in_blocks(quantize, config),
            (None, Stored::Blocks { count, bytes }) => (count.into(), bytes.into()),
            (None, _) => return Self::default(),
        };
        let shapes = config
            .linears()
            .iter()
            .filter_map(|it| config.linear_shape(it));
        let sizes = shapes.map(|[outputs, inputs]| outputs as u128 * inputs as u128);
        Self {
            count,
            bytes,
            largest: sizes.max().unwrap_or_default(),
        }
    }

    /// What a product has of them at once as numbers: in f32, and on a GPU in what it computes in as well.
    fn widened_bytes(&self, plan: &TrainPlan<LanguagePlan>) -> u128 {
        let numbers = self.largest.min(PART_ELEMENTS as u128);
        let copies = match plan.run.tensor_dtype() {
            Dtype::F32 => 0,
            narrow => narrow.bytes() as u128,
        };
        numbers * (4 + copies)
    }
}

/// How many numbers of a decoder are put into blocks, and the bytes of those.
pub(super) fn in_blocks(quantize: Quantization, config: &DecoderConfig) -> (u128, u128) {
    let layers = config.layers.len() as u128;
    let shapes = config
        .linears()
        .iter()
        .filter_map(|it| config.linear_shape(it));
    let held = shapes.filter(|[_, inputs]| quantize.holds(*inputs));
    held.fold((0, 0), |(count, bytes), [outputs, inputs]| {
        let numbers = outputs as u128 * inputs as u128;
        (
            count + layers * numbers,
            bytes + layers * quantize.bytes(numbers),
        )
    })
}

impl KeptBytes {
    /// All of them.
    fn bytes(&self) -> u128 {
        self.attention_bytes
            + self.feed_forward_bytes
            + self.norms_bytes
            + self.head_bytes
            + self.passing_bytes
    }
}

/// The adapters of all layers: two matrices beside each chosen weight.
fn adapter_parameters(plan: &LanguagePlan, config: &NetworkConfig) -> u128 {
    let (Some(lora), Some(config)) = (&plan.lora, config.decoder()) else {
        return 0;
    };
    let shapes = lora.targets.iter().filter_map(|it| config.linear_shape(it));
    let width: usize = shapes.map(|[outputs, inputs]| inputs + outputs).sum();
    lora.rank as u128 * width as u128 * lora.layers.len() as u128
}

/// What inference takes of a model of this shape: its weights, keys and values of so many tokens, the process, and holes.
pub fn inference_bytes(
    config: &NetworkConfig,
    storage: Dtype,
    compute: Dtype,
    tokens: usize,
    device: RequestedDevice,
) -> u64 {
    let shape = Shape::of(config, 1, tokens);
    let weights = u128::from(config.parameters()) * storage.bytes() as u128;
    let cache = 2 * shape.cached_layers * shape.tokens * shape.keys * compute.bytes() as u128;
    let used = shown(weights + cache);
    used + program_bytes(device, used)
}

/// What is told of a sum: no more than an exbibyte, of which a dozen still are a sum. Sizes that a config and a request may have
/// make more than that together, and none of it fits anywhere.
fn shown(sum: u128) -> u64 {
    const LARGEST: u64 = 1 << 60;
    u64::try_from(sum).unwrap_or(LARGEST).min(LARGEST)
}

/// What a step keeps for its backward pass, when that begins and when it is at the first layer.
struct Kept {
    activations: KeptBytes,
    /// What is left of it when the backward pass is at the first layer.
    last_bytes: u128,
}

impl Kept {
    /// What so many bytes of gradients add in the worst moment. They come as activations go. Of several batches for one
    /// update, the second finds those of the first.
    fn gradients_beside(&self, gradients_bytes: u128, accumulate: usize) -> u128 {
        match accumulate {
            1 => (gradients_bytes + self.last_bytes).saturating_sub(self.activations.bytes()),
            _ => gradients_bytes,
        }
    }
}

/// The kind of operation that keeps a tensor.
#[derive(Clone, Copy, PartialEq)]
enum Keeps {
    Norms,
    Attention,
    FeedForward,
}

/// The letters of the module's documentation.
struct Shape {
    d: u128,
    f: u128,
    /// h · e: all queries of a token.
    queries: u128,
    /// k · e: all keys of a token.
    keys: u128,
    heads: u128,
    /// Whether scores are capped softly.
    caps_scores: bool,
    v: u128,
    /// l: layers with weights of their own.
    layers: u128,
    /// Those that keep something for the way back, and those that keep keys and values of a token: a recursive model uses its
    /// layers several times, and learns from some of them.
    kept_layers: u128,
    cached_layers: u128,
    /// How many layers are computed again at once where nothing of them is kept.
    again: u128,
    /// Values that never learn.
    frozen: u128,
    /// Weights that exist once more while a step computes with them, in parts.
    parts: u128,
    tied: bool,
    /// The matrices of a layer.
    layer_linears: u128,
    /// Whether it is a decoder, and no recursive model.
    is_decoder: bool,
    /// Whether its feed-forward part is matrices alone, which CUDA computes as one operation where they are converted.
    plain_feed_forward: bool,
    /// What a token keeps of a layer for norms that not every model has.
    more_norms: u128,
    /// b · t.
    tokens: u128,
    length: u128,
}

impl Shape {
    fn of(config: &NetworkConfig, rows: usize, length: usize) -> Self {
        match config {
            NetworkConfig::Decoder(config) => Self::of_decoder(config, rows, length),
            NetworkConfig::Recursive(config) => Self::of_recursive(config, rows, length),
        }
    }

    fn of_recursive(config: &CausalTrmConfig, rows: usize, length: usize) -> Self {
        let (rows, length) = (rows as u128, length as u128);
        let trm = config.trm();
        let heads = (trm.num_heads * trm.head_width()) as u128;
        let layers = trm.l_layers as u128;
        Self {
            more_norms: 0,
            is_decoder: false,
            plain_feed_forward: false,
            layer_linears: config.block_parameters().into(),
            d: trm.hidden_size as u128,
            f: trm.inner(trm.hidden_size) as u128,
            queries: heads,
            keys: heads,
            heads: trm.num_heads as u128,
            caps_scores: false,
            v: trm.vocab_size as u128,
            layers,
            kept_layers: layers * config.learned_uses() as u128,
            cached_layers: config.cached_layers() as u128,
            again: layers,
            frozen: config.frozen_parameters().into(),
            parts: layers * u128::from(config.block_parameters()),
            tied: false,
            tokens: rows * length,
            length,
        }
    }

    fn of_decoder(config: &DecoderConfig, rows: usize, length: usize) -> Self {
        let (rows, length) = (rows as u128, length as u128);
        let layers = config.layers.len() as u128;
        let (d, f) = (config.hidden_size, config.intermediate_size);
        let (queries, keys) = (config.query_width(), config.key_width());
        Self {
            more_norms: [(config.qk_norm, queries + keys), (config.post_norms, 2 * d)]
                .iter()
                .filter(|(has, _)| *has)
                .map(|&(_, numbers)| numbers as u128)
                .sum(),
            is_decoder: true,
            plain_feed_forward: !config.mlp_bias,
            layer_linears: config.layer_linear_parameters().into(),
            d: d as u128,
            f: f as u128,
            queries: queries as u128,
            keys: keys as u128,
            heads: config.num_attention_heads as u128,
            caps_scores: config.scoring.soft_cap.is_some(),
            v: config.vocab_size as u128,
            layers,
            kept_layers: layers,
            cached_layers: layers,
            again: 1,
            frozen: 0,
            parts: 0,
            tied: config.tie_word_embeddings,
            tokens: rows * length,
            length,
        }
    }

    /// Numbers that one token keeps of one layer, tensor by tensor: the input of each operation that needs it in the
    /// backward pass. Of each query, attention keeps the sum of its scores too.
    fn layer_tensors(&self) -> [(Keeps, u128); 13] {
        use Keeps::*;
        let (d, f) = (self.d, self.f);
        [
            (Norms, d),
            (Norms, d),
            (Norms, d),
            (Norms, d),
            (Norms, self.more_norms),
            (Attention, self.queries),
            (Attention, self.keys),
            (Attention, self.keys),
            (Attention, self.queries),
            (Attention, self.heads),
            (FeedForward, f),
            (FeedForward, f),
            (FeedForward, f),
        ]
    }

    /// Numbers that all tokens keep of one layer for one kind of operation.
    fn layer(&self, keeps: Keeps) -> u128 {
        let tensors = self.layer_tensors();
        let kind = tensors.iter().filter(|(kind, _)| *kind == keeps);
        self.tokens * kind.map(|(_, numbers)| numbers).sum::<u128>()
    }

    /// Scores of attention for all heads at once: h · t for each token.
    fn scores(&self) -> u128 {
        self.tokens * self.heads * self.length
    }

    /// How many of them CUDA has at once: none where kernels for tiles of 16 bits serve these heads. That a card has such tiles is known
    /// of bf16 only.
    fn scores_on_cuda(&self, plan: &TrainPlan<LanguagePlan>) -> u128 {
        let composed = plan.run.avoid_kernels.iter().any(|it| it == "attention");
        let width = self.queries / self.heads.max(1);
        let are_served = width.is_multiple_of(8) && width <= 128 && !self.caps_scores;
        match plan.run.dtype.compute {
            Dtype::Bf16 if are_served && !composed => 0,
            _ => self.scores(),
        }
    }

    /// How many of them Metal has at once, and whether it keeps them: its own kernels take slices of what is too much.
    fn scores_on_metal(&self, plan: &TrainPlan<LanguagePlan>) -> (u128, bool) {
        let most = MAX_WEIGHTS as u128;
        let composed = plan.run.avoid_kernels.iter().any(|it| it == "attention");
        match composed || self.scores() <= most {
            true => (self.scores(), true),
            false => (most, false),
        }
    }

    /// Whether CUDA converts the matrices of a layer at once: those of a decoder in f32.
    fn stacks_weights(&self, plan: &TrainPlan<LanguagePlan>) -> bool {
        let composed = plan.run.avoid_kernels.iter().any(|it| it == "linear");
        let are_wide = plan.task.method != Method::Lora || plan.run.dtype.storage == Dtype::F32;
        let is_narrow = plan.run.dtype.compute != Dtype::F32;
        let on_cuda = matches!(plan.run.device, RequestedDevice::Cuda(_));
        on_cuda && self.is_decoder && are_wide && is_narrow && !composed
    }

    fn kept(&self, plan: &TrainPlan<LanguagePlan>) -> Kept {
        let bytes = plan.run.tensor_dtype().bytes() as u128;
        let stacks = self.stacks_weights(plan);
        let gate_again = stacks && self.plain_feed_forward && plan.task.method != Method::Lora;
        let lora = plan.task.lora.as_ref();
        let rank = lora.map_or(0, |lora| lora.rank * lora.targets.len());
        let mut attention = self.layer(Keeps::Attention) * bytes;
        let mut feed_forward = self.layer(Keeps::FeedForward) * bytes;
        if gate_again {
            // Gate and up are kept, and their product is computed again.
            feed_forward -= self.tokens * self.f * bytes;
        }
        let norms = (self.layer(Keeps::Norms) + self.tokens * rank as u128) * bytes;
        // On a processor, attention goes along each row and keeps no scores, as it does on CUDA in bf16. Otherwise they exist there for
        // one layer at a time, as numbers and as f32, forward and backward; Metal keeps those of each layer, unless they are too many.
        let [copies_cpu, copies_cuda, copies_composed] = LOGIT_COPIES;
        let (chunk, copies, passing_scores) = match plan.run.device {
            RequestedDevice::Cpu => (LOGIT_BYTES_CPU, copies_cpu, 0),
            RequestedDevice::Cuda(_) => {
                let scores = self.scores_on_cuda(plan) * (8 + 2 * bytes);
                let chunk = match plan.task.method {
                    Method::Lora => LOGIT_BYTES_GPU,
                    Method::Full | Method::Scratch => LOGIT_BYTES_LEARNED,
                };
                (chunk, copies_cuda, scores)
            }
            _ => {
                let (scores, are_kept) = self.scores_on_metal(plan);
                attention += if are_kept { scores * bytes } else { 0 };
                (LOGIT_BYTES_GPU, copies_composed, scores * 8)
            }
        };
        // Of checkpointed layers, each keeps its input, and the one that is gone back through all of it.
        let (layers, inputs) = match plan.run.gradient_checkpointing {
            true => {
                let inputs = self.kept_layers / self.again.max(1);
                (self.again, inputs * self.tokens * self.d * bytes)
            }
            false => (self.kept_layers, 0),
        };
        // The head keeps its input, that of the norm before it, and its gradient, and a chunk of logits.
        let head = 3 * self.tokens * self.d * bytes;
        let logits = copies * (self.v * self.tokens * 4).min(chunk);
        // A head that learns sums its gradient chunk by chunk: the sum, the new part, and on a GPU the sum of both.
        let head_gradient = match (plan.task.method, plan.run.device) {
            (Method::Lora, _) => 0,
            (_, RequestedDevice::Cpu) => self.v * self.d * 4,
            _ => 2 * self.v * self.d * 4,
        };
        // Parts of weights are there, and the gradients of the parts.
        let converted = if stacks { self.layer_linears } else { 0 };
        let parts = (2 * self.parts + converted) * bytes;
        let passing_tensors = if gate_again { 4 } else { 3 };
        let passing = passing_tensors * self.tokens * self.f.max(self.d) * bytes;
        let passing_bytes = passing.max(passing_scores) + parts;
        Kept {
            activations: KeptBytes {
                attention_bytes: layers * attention,
                feed_forward_bytes: layers * feed_forward,
                norms_bytes: layers * norms + inputs,
                head_bytes: head + logits + head_gradient,
                passing_bytes,
            },
            last_bytes: attention + feed_forward + norms + passing + parts,
        }
    }

    /// What writing a sample takes beside the weights: keys and values of the prompt and of what is written, and the
    /// passing tensors of a prompt.
    fn writing(&self, plan: &TrainPlan<LanguagePlan>) -> u128 {
        if plan.run.sample.every == 0 {
            return 0;
        }
        let bytes = plan.run.tensor_dtype().bytes() as u128;
        let prompts = plan.task.sample.prompts.iter();
        // A token has a byte of text at least. Without prompts, they are short beginnings of held-out rows.
        let prompt = prompts.map(String::len).max().unwrap_or(PROMPT_TOKENS) as u128;
        let tokens = prompt + plan.task.sample.tokens as u128;
        let cache = 2 * self.cached_layers * tokens * self.keys * bytes;
        cache + 8 * prompt * self.f.max(self.d) * bytes + 2 * self.v * 4
    }

    /// Values of the tables that learn.
    fn learned_tables(&self, method: Method) -> u128 {
        match method {
            Method::Lora => 0,
            Method::Full | Method::Scratch => self.tables() * self.v * self.d,
        }
    }

    /// How many tables of v by d there are.
    fn tables(&self) -> u128 {
        match self.tied {
            true => 1,
            false => 2,
        }
    }

    /// What an allocator of powers of two takes more than it is asked for, with so many copies of what learns in the
    /// optimizer. Weights are made from what is read, which is taken as it is.
    fn rounding(&self, plan: &TrainPlan<LanguagePlan>, copies: u128) -> u128 {
        let lost = |numbers: u128, bytes: u128| {
            let size = numbers * bytes;
            size.next_power_of_two().saturating_sub(size)
        };
        let bytes = plan.run.tensor_dtype().bytes() as u128;
        let tensors = self.layer_tensors();
        let kept: u128 = tensors
            .iter()
            .filter(|(_, numbers)| *numbers > 0)
            .map(|(_, numbers)| lost(self.tokens * numbers, bytes))
            .sum();
        let scores = match self.scores_on_metal(plan) {
            (scores, true) => lost(scores, bytes),
            (_, false) => 0,
        };
        let layers = match plan.run.gradient_checkpointing {
            true => self.again,
            false => self.kept_layers,
        };
        let passing = 3 * lost(self.tokens * self.f.max(self.d), bytes);
        let matrices = match plan.task.method {
            // Matrices of an adapter are small.
            Method::Lora => 0,
            Method::Full | Method::Scratch => {
                let (d, q, k) = (self.d, self.queries, self.keys);
                let layer = [
                    q * d,
                    k * d,
                    k * d,
                    q * d,
                    d * self.f,
                    d * self.f,
                    d * self.f,
                ];
                let layer: u128 = layer.into_iter().map(|numbers| lost(numbers, 4)).sum();
                self.layers * layer + self.tables() * lost(self.v * d, 4)
            }
        };
        layers * (kept + scores) + passing + matrices * (copies + 1)
    }

    /// Operations of one step: two for each weight and token forward, twice that backward, of which frozen weights
    /// need one half; and attention, whose scores reach back half a row on average.
    fn operations(&self, plan: &TrainPlan<LanguagePlan>) -> f64 {
        let passes = match plan.task.method {
            Method::Lora => 2.0,
            Method::Full | Method::Scratch => 3.0,
        } + if plan.run.gradient_checkpointing {
            1.0
        } else {
            0.0
        };
        // Layers that are not learned from are only gone forward through.
        let forward = (self.cached_layers - self.kept_layers) as f64;
        let layers = passes * self.kept_layers as f64 + forward;
        let layer = (self.layer_linears + self.queries * self.length) as f64;
        let tokens = (self.tokens * plan.run.batch.accumulate as u128) as f64;
        2.0 * tokens * (layers * layer + passes * (self.v * self.d) as f64)
    }
}
