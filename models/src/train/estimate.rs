//! What a run will take, from shapes alone: before a model is loaded, and without computing anything.
//!
//! Letters: d width of the model, f width of the feed-forward part, h query heads, k key heads, e width of a head,
//! v tokens known, l layers, t tokens in a row, b rows. Bytes are those that are alive at once in the worst moment of a
//! step: where the forward pass is over and the backward pass begins, or where that ends and all gradients are there.
//! Measuring held-out data keeps nothing for a way back, so it never takes more than a step; writing a sample may, where
//! its keys and values are more than a step keeps.
//!
//! Deliberately absent: measuring. Who wants to be sure takes a few real steps, and [`super::forecast`] fits them.

use serde::{Deserialize, Serialize};

use super::{plan::TrainPlan, request::Method};
use crate::{
    arch::config::DecoderConfig,
    device::{RequestedDevice, dtype::Dtype},
};

/// What a process needs before there is a model: the program, its libraries, the tokenizer, a few megabytes of text. On a
/// GPU it lies elsewhere. A debug build is larger.
const PROCESS_BYTES: u64 = if cfg!(debug_assertions) {
    80_000_000
} else {
    30_000_000
};
/// What CUDA takes of a card beside tensors and the context that was there when its free memory was asked for: kernels, cuBLAS's
/// workspace, blocks of the pool that are half full. Measured on an H200: 0.55 GB.
const CUDA_BYTES: u64 = 450_000_000;
/// Allocations leave holes; so much is lost of what is in use.
const SLACK: f64 = 0.08;
/// The head is computed in chunks of so many bytes of logits, on a processor and on a GPU.
const LOGIT_BYTES_CPU: u64 = 32 << 20;
const LOGIT_BYTES_GPU: u64 = 128 << 20;
/// Tokens of a prompt that is the beginning of a held-out row, at most.
const PROMPT_TOKENS: usize = 128;
/// Copies of such a chunk that exist at once: the logits become their own gradient on a processor, a kernel writes it
/// beside them on CUDA, and where there is no kernel each step of the formula is a tensor.
const LOGIT_COPIES: [u64; 3] = [1, 2, 5];

/// What a run will take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// How many numbers there are.
    pub parameters: u64,
    /// How many of them learn.
    pub trainable_parameters: u64,
    /// Weights as they are stored, without the adapter.
    pub weights_bytes: u64,
    /// The adapter's weights.
    pub adapter_bytes: u64,
    /// What of the gradients is alive in the worst moment beside the activations.
    pub gradients_bytes: u64,
    /// The optimizer's moments, and the average of the weights.
    pub optimizer_bytes: u64,
    /// What the forward pass keeps for the backward pass, and the largest passing tensors.
    pub activations: Activations,
    /// Keys and values of a sample that is written, as far as they are more than what a step keeps.
    pub writing_bytes: u64,
    /// What is lost to an allocator that hands out powers of two. Metal only.
    pub rounding_bytes: u64,
    /// The program itself, and what lies unused between tensors.
    pub rest_bytes: u64,
    /// Multiplications and additions of the whole run, each counted as one.
    pub operations: f64,
}

/// What a step keeps for its backward pass when that begins, by the operation that keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activations {
    /// Queries, keys, values and the result, and the scores where they are kept.
    pub attention_bytes: u64,
    /// Gate, up and their product.
    pub feed_forward_bytes: u64,
    /// Inputs of the norms and of the linear layers after them, and what an adapter keeps between its two matrices.
    pub norms_bytes: u64,
    /// The head: its input, the chunk of logits, and the gradient of its weight while it is summed.
    pub head_bytes: u64,
    /// The widest gradient on its way back, and what it is computed from.
    pub passing_bytes: u64,
}

impl Estimate {
    /// The estimate for a plan that trains a model of this shape.
    pub fn new(plan: &TrainPlan, config: &DecoderConfig) -> Self {
        let shape = Shape::new(plan, config);
        let adapter = shape.adapters(plan);
        let base = shape.parameters();
        let (trainable, storage) = match plan.method {
            Method::Lora => (adapter, plan.dtype.storage),
            // Weights that learn are f32.
            Method::Full | Method::Scratch => (base, Dtype::F32),
        };
        let moments = plan.optimizer.moments();
        let averages = u64::from(plan.ema > 0.0);
        let weights_bytes = base * storage.bytes() as u64;
        let optimizer_bytes = trainable * 4 * (moments + averages);
        let kept = shape.kept(plan);
        let activations_bytes = kept.activations.bytes();
        let gradients_bytes = kept.gradients_beside(trainable * 4, plan);
        let writing_bytes = shape
            .writing(plan)
            .saturating_sub(activations_bytes + gradients_bytes);
        let rounding_bytes = match plan.device {
            RequestedDevice::Metal => shape.rounding(plan, moments + averages),
            _ => 0,
        };
        let process_bytes = match plan.device {
            RequestedDevice::Cuda(_) => CUDA_BYTES,
            _ => PROCESS_BYTES,
        };
        let used = weights_bytes
            + adapter * 4
            + optimizer_bytes
            + gradients_bytes
            + activations_bytes
            + writing_bytes;
        Self {
            parameters: base + adapter,
            trainable_parameters: trainable,
            weights_bytes,
            adapter_bytes: adapter * 4,
            gradients_bytes,
            optimizer_bytes,
            activations: kept.activations,
            writing_bytes,
            rounding_bytes,
            rest_bytes: process_bytes + (used as f64 * SLACK) as u64,
            operations: shape.operations(plan) * plan.steps as f64,
        }
    }

    /// All bytes in the worst moment of the run.
    pub fn bytes(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Each part with its name, in the order in which a person reads them.
    pub fn parts(&self) -> [(&'static str, u64); 12] {
        let kept = &self.activations;
        [
            ("weights", self.weights_bytes),
            ("adapter", self.adapter_bytes),
            ("gradients", self.gradients_bytes),
            ("optimizer", self.optimizer_bytes),
            ("attention", kept.attention_bytes),
            ("feed-forward", kept.feed_forward_bytes),
            ("norms", kept.norms_bytes),
            ("logits and head", kept.head_bytes),
            ("passing gradients", kept.passing_bytes),
            ("keys and values of a sample", self.writing_bytes),
            ("rounding to powers of two", self.rounding_bytes),
            ("program and spare", self.rest_bytes),
        ]
    }
}

impl Activations {
    /// All of them.
    pub fn bytes(&self) -> u64 {
        self.attention_bytes
            + self.feed_forward_bytes
            + self.norms_bytes
            + self.head_bytes
            + self.passing_bytes
    }
}

/// What talking takes of a model of this shape: its weights, keys and values of so many tokens, the process, and holes.
pub fn talking_bytes(
    config: &DecoderConfig,
    storage: Dtype,
    compute: Dtype,
    tokens: usize,
    on_cuda: bool,
) -> u64 {
    let shape = Shape::of(config, 1, tokens);
    let weights = shape.parameters() * storage.bytes() as u64;
    let cache = 2 * shape.layers * shape.tokens * shape.keys * compute.bytes() as u64;
    let used = weights + cache;
    used + (used as f64 * SLACK) as u64 + if on_cuda { CUDA_BYTES } else { PROCESS_BYTES }
}

/// What a step keeps for its backward pass, when that begins and when it is at the first layer.
struct Kept {
    activations: Activations,
    /// What is left of it when the backward pass is at the first layer.
    last_bytes: u64,
}

impl Kept {
    /// What so many bytes of gradients add in the worst moment. They come as activations go. Of several batches for one
    /// update, the second finds those of the first.
    fn gradients_beside(&self, gradients_bytes: u64, plan: &TrainPlan) -> u64 {
        match plan.batch.accumulate {
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
    d: u64,
    f: u64,
    /// h · e: all queries of a token.
    queries: u64,
    /// k · e: all keys of a token.
    keys: u64,
    heads: u64,
    v: u64,
    layers: u64,
    tied: bool,
    /// Numbers of a layer besides its matrices: norms and biases.
    layer_vectors: u64,
    /// What a token keeps of a layer for norms that not every model has.
    more_norms: u64,
    /// b · t.
    tokens: u64,
    length: u64,
}

impl Shape {
    fn new(plan: &TrainPlan, config: &DecoderConfig) -> Self {
        Self::of(config, plan.batch.rows, plan.batch.length)
    }

    fn of(config: &DecoderConfig, rows: usize, length: usize) -> Self {
        let (rows, length) = (rows as u64, length as u64);
        let (d, f) = (config.hidden_size, config.intermediate_size);
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        let vectors = [
            (true, 2 * d),
            (config.post_norms, 2 * d),
            (config.qk_norm, 2 * config.head_dim),
            (config.qkv_bias, queries + 2 * keys),
            (config.output_bias, d),
            (config.mlp_bias, 2 * f + d),
        ];
        let vectors = vectors.iter().filter(|(has, _)| *has);
        Self {
            more_norms: [(config.qk_norm, queries + keys), (config.post_norms, 2 * d)]
                .iter()
                .filter(|(has, _)| *has)
                .map(|&(_, numbers)| numbers as u64)
                .sum(),
            layer_vectors: vectors.map(|&(_, numbers)| numbers as u64).sum(),
            d: d as u64,
            f: f as u64,
            queries: queries as u64,
            keys: keys as u64,
            heads: config.num_attention_heads as u64,
            v: config.vocab_size as u64,
            layers: config.layers.len() as u64,
            tied: config.tie_word_embeddings,
            tokens: rows * length,
            length,
        }
    }

    /// The matrices of a layer.
    fn layer_parameters(&self) -> u64 {
        self.d * (2 * self.queries + 2 * self.keys + 3 * self.f)
    }

    fn parameters(&self) -> u64 {
        let tables = if self.tied { 1 } else { 2 };
        let layer = self.layer_parameters() + self.layer_vectors;
        self.layers * layer + tables * self.v * self.d + self.d
    }

    /// The two matrices beside one weight.
    fn adapter(&self, target: &str, rank: usize) -> u64 {
        let (input, output) = match target {
            "q_proj" => (self.d, self.queries),
            "k_proj" | "v_proj" => (self.d, self.keys),
            "qkv_proj" => (self.d, self.queries + 2 * self.keys),
            "o_proj" => (self.queries, self.d),
            "gate_proj" | "up_proj" => (self.d, self.f),
            "gate_up_proj" => (self.d, 2 * self.f),
            _ => (self.f, self.d),
        };
        rank as u64 * (input + output)
    }

    /// The adapters of all layers.
    fn adapters(&self, plan: &TrainPlan) -> u64 {
        plan.lora.as_ref().map_or(0, |lora| {
            let targets = lora.targets.iter();
            let per_layer: u64 = targets.map(|target| self.adapter(target, lora.rank)).sum();
            per_layer * lora.layers.len() as u64
        })
    }

    /// Numbers that one token keeps of one layer, tensor by tensor: the input of each operation that needs it in the
    /// backward pass. Of each query, attention keeps the sum of its scores too.
    fn layer_tensors(&self) -> [(Keeps, u64); 13] {
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
    fn layer(&self, keeps: Keeps) -> u64 {
        let tensors = self.layer_tensors();
        let kind = tensors.iter().filter(|(kind, _)| *kind == keeps);
        self.tokens * kind.map(|(_, numbers)| numbers).sum::<u64>()
    }

    /// Scores of attention for all heads at once: h · t for each token.
    fn scores(&self) -> u64 {
        self.tokens * self.heads * self.length
    }

    fn kept(&self, plan: &TrainPlan) -> Kept {
        let bytes = plan.dtype.compute.bytes() as u64;
        let rank = plan
            .lora
            .as_ref()
            .map_or(0, |lora| lora.rank * lora.targets.len());
        let mut attention = self.layer(Keeps::Attention) * bytes;
        let feed_forward = self.layer(Keeps::FeedForward) * bytes;
        let norms = (self.layer(Keeps::Norms) + self.tokens * rank as u64) * bytes;
        // On a processor, attention goes along each row and keeps no scores. On CUDA they exist for one layer at a time, as
        // numbers and as f32, forward and backward; the composed operations on Metal keep those of each layer.
        let [copies_cpu, copies_cuda, copies_composed] = LOGIT_COPIES;
        let (chunk, copies, passing_scores) = match plan.device {
            RequestedDevice::Cpu => (LOGIT_BYTES_CPU, copies_cpu, 0),
            RequestedDevice::Cuda(_) => {
                let scores = self.scores() * (8 + 2 * bytes);
                (LOGIT_BYTES_GPU, copies_cuda, scores)
            }
            RequestedDevice::Metal | RequestedDevice::Auto => {
                attention += self.scores() * bytes;
                (LOGIT_BYTES_GPU, copies_composed, self.scores() * 8)
            }
        };
        // Of checkpointed layers, each keeps its input, and the one that is gone back through all of it.
        let (layers, inputs) = match plan.checkpointing {
            true => (1, self.layers * self.tokens * self.d * bytes),
            false => (self.layers, 0),
        };
        // The head keeps its input, that of the norm before it, and its gradient, and a chunk of logits.
        let head = 3 * self.tokens * self.d * bytes;
        let logits = copies * (self.v * self.tokens * 4).min(chunk);
        // A head that learns sums its gradient chunk by chunk: the sum, the new part, and on a GPU the sum of both.
        let head_gradient = match (plan.method, plan.device) {
            (Method::Lora, _) => 0,
            (_, RequestedDevice::Cpu) => self.v * self.d * 4,
            _ => 2 * self.v * self.d * 4,
        };
        let passing = 3 * self.tokens * self.f.max(self.d) * bytes;
        Kept {
            activations: Activations {
                attention_bytes: layers * attention,
                feed_forward_bytes: layers * feed_forward,
                norms_bytes: layers * norms + inputs,
                head_bytes: head + logits + head_gradient,
                passing_bytes: passing.max(passing_scores),
            },
            last_bytes: attention + feed_forward + norms + passing,
        }
    }

    /// What writing a sample takes beside the weights: keys and values of the prompt and of what is written, and the
    /// passing tensors of a prompt.
    fn writing(&self, plan: &TrainPlan) -> u64 {
        if plan.sample.every == 0 {
            return 0;
        }
        let bytes = plan.dtype.compute.bytes() as u64;
        let prompts = plan.sample.prompts.iter();
        // A token has a byte of text at least. Without prompts, they are short beginnings of held-out rows.
        let prompt = prompts.map(String::len).max().unwrap_or(PROMPT_TOKENS) as u64;
        let tokens = prompt + plan.sample.tokens as u64;
        let cache = 2 * self.layers * tokens * self.keys * bytes;
        cache + 8 * prompt * self.f.max(self.d) * bytes + 2 * self.v * 4
    }

    /// What an allocator of powers of two takes more than it is asked for, with so many copies of what learns in the
    /// optimizer. Weights are made from what is read, which is taken as it is.
    fn rounding(&self, plan: &TrainPlan, copies: u64) -> u64 {
        let lost = |numbers: u64, bytes: u64| {
            let size = numbers * bytes;
            size.next_power_of_two().saturating_sub(size)
        };
        let bytes = plan.dtype.compute.bytes() as u64;
        let tensors = self.layer_tensors();
        let kept: u64 = tensors
            .iter()
            .filter(|(_, numbers)| *numbers > 0)
            .map(|(_, numbers)| lost(self.tokens * numbers, bytes))
            .sum();
        let scores = lost(self.scores(), bytes);
        let layers = if plan.checkpointing { 1 } else { self.layers };
        let passing = 3 * lost(self.tokens * self.f.max(self.d), bytes);
        let matrices = match plan.method {
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
                let layer: u64 = layer.into_iter().map(|numbers| lost(numbers, 4)).sum();
                let tables = if self.tied { 1 } else { 2 };
                self.layers * layer + tables * lost(self.v * d, 4)
            }
        };
        layers * (kept + scores) + passing + matrices * (copies + 1)
    }

    /// Operations of one step: two for each weight and token forward, twice that backward, of which frozen weights
    /// need one half; and attention, whose scores reach back half a row on average.
    fn operations(&self, plan: &TrainPlan) -> f64 {
        let passes = match plan.method {
            Method::Lora => 2.0,
            Method::Full | Method::Scratch => 3.0,
        } + if plan.checkpointing { 1.0 } else { 0.0 };
        let weights = (self.layers * self.layer_parameters() + self.v * self.d) as f64;
        let attention = (self.layers * self.queries * self.length) as f64;
        let tokens = (self.tokens * plan.batch.accumulate as u64) as f64;
        passes * 2.0 * tokens * (weights + attention)
    }
}
