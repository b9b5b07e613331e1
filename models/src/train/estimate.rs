//! What a run will take, from shapes alone: before a model is loaded, and without computing anything.
//!
//! Letters: d width of the model, f width of the feed-forward part, h query heads, k key heads, e width of a head,
//! v tokens known, l layers, t tokens in a row, b rows. Bytes are those that are alive at once in the worst moment of a
//! step: where the forward pass is over and the backward pass begins, or where that ends and all gradients are there.
//!
//! Deliberately absent: measuring. Who wants to be sure takes a few real steps.

use serde::{Deserialize, Serialize};

use super::{plan::TrainPlan, request::Method};
use crate::{
    arch::config::DecoderConfig,
    device::{RequestedDevice, dtype::Dtype},
};

/// What a process needs before there is a model: the program, its libraries, the tokenizer. On a GPU it lies elsewhere.
const PROCESS_BYTES: u64 = 60_000_000;
/// What a CUDA driver takes of a card for itself.
const CUDA_BYTES: u64 = 450_000_000;
/// Allocations leave holes; so much is lost of what is in use.
const SLACK: f64 = 0.08;
/// The head is computed in chunks of so many bytes of logits, on a processor and on a GPU.
const LOGIT_BYTES_CPU: u64 = 32 << 20;
const LOGIT_BYTES_GPU: u64 = 128 << 20;
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
    /// Weights, learning or not.
    pub weights_bytes: u64,
    /// The optimizer's moments, and what of the gradients is alive in the worst moment beside the activations.
    pub optimizer_bytes: u64,
    /// What the forward pass keeps for the backward pass, and the largest passing tensors.
    pub activations_bytes: u64,
    /// The program itself, and what lies unused between tensors.
    pub rest_bytes: u64,
    /// Multiplications and additions of the whole run, each counted as one.
    pub operations: f64,
}

impl Estimate {
    /// The estimate for a plan that trains a model of this shape.
    pub fn new(plan: &TrainPlan, config: &DecoderConfig) -> Self {
        let shape = Shape::new(plan, config);
        let lora = plan.lora.as_ref();
        let adapter = lora.map_or(0, |lora| {
            let per_layer: u64 = lora
                .targets
                .iter()
                .map(|target| shape.adapter(target, lora.rank))
                .sum();
            per_layer * lora.layers.len() as u64
        });
        let base = shape.parameters();
        let trainable = if plan.method == Method::Lora {
            adapter
        } else {
            base
        };
        let storage = match plan.method {
            Method::Lora => plan.dtype.storage,
            // Weights that learn are f32.
            Method::Full | Method::Scratch => Dtype::F32,
        };
        let weights_bytes = base * storage.bytes() as u64 + adapter * 4;
        let moments = match plan.optimizer.kind {
            super::request::OptimizerKind::Adamw => 2,
            super::request::OptimizerKind::Sgd => u64::from(plan.optimizer.momentum > 0.0),
        };
        let averages = u64::from(plan.ema > 0.0);
        let activations = shape.activations(plan);
        let activations_bytes = activations.bytes;
        let gradients_bytes = activations.with_gradients(trainable * 4, plan) - activations_bytes;
        let optimizer_bytes = trainable * 4 * (moments + averages) + gradients_bytes;
        let process_bytes = match plan.device {
            RequestedDevice::Cuda(_) => CUDA_BYTES,
            _ => PROCESS_BYTES,
        };
        let used = weights_bytes + optimizer_bytes + activations_bytes;
        Self {
            parameters: base + adapter,
            trainable_parameters: trainable,
            weights_bytes,
            optimizer_bytes,
            activations_bytes,
            rest_bytes: process_bytes + (used as f64 * SLACK) as u64,
            operations: shape.operations(plan) * plan.steps as f64,
        }
    }
}

impl Estimate {
    /// All bytes in the worst moment of a step.
    pub fn bytes(&self) -> u64 {
        self.weights_bytes + self.optimizer_bytes + self.activations_bytes + self.rest_bytes
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

/// What a step keeps for its backward pass.
struct Activations {
    /// All of it, when the backward pass begins.
    bytes: u64,
    /// What is left of it when that is at the first layer.
    last_bytes: u64,
}

impl Activations {
    /// The worst moment with so many bytes of gradients. These come as activations go. Of several batches for one update,
    /// the second finds those of the first.
    fn with_gradients(&self, gradients_bytes: u64, plan: &TrainPlan) -> u64 {
        match plan.batch.accumulate {
            1 => self.bytes.max(gradients_bytes + self.last_bytes),
            _ => self.bytes + gradients_bytes,
        }
    }
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

    /// What is kept of one layer: the input of each operation that needs it in the backward pass.
    fn layer_activations(&self) -> u64 {
        // Two norms keep their inputs, and the linear layers theirs; then queries, keys and values, the result of
        // attention, and gate, up and their product.
        let numbers = 4 * self.d + 2 * self.queries + 2 * self.keys + 3 * self.f + self.more_norms;
        // Of each query, the sum of its scores.
        self.tokens * (numbers + self.heads)
    }

    /// Scores of attention for all heads at once: h · t for each token.
    fn scores(&self) -> u64 {
        self.tokens * self.heads * self.length
    }

    fn activations(&self, plan: &TrainPlan) -> Activations {
        let bytes = plan.dtype.compute.bytes() as u64;
        let mut layer = self.layer_activations() * bytes;
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
                layer += self.scores() * bytes;
                (LOGIT_BYTES_GPU, copies_composed, self.scores() * 8)
            }
        };
        let kept = match plan.checkpointing {
            true => self.layers * self.tokens * self.d * bytes + layer,
            false => self.layers * layer,
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
        // The widest gradient on its way back, and what it is computed from.
        let passing = 3 * self.tokens * self.f.max(self.d) * bytes;
        Activations {
            bytes: kept + head + logits + head_gradient + passing.max(passing_scores),
            last_bytes: layer + passing,
        }
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
