//! What others have published of the speed of tools: theirs, not measured by us.
//!
//! Each stands as its source has it, with the work and the hardware that the source names. None is the work that is
//! measured here, so they give an idea of an order of magnitude and no more.

use serde::Serialize;

/// A figure from the documentation of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// The tool.
    pub tool: &'static str,
    /// Which of our workloads it is nearest to.
    pub workload: &'static str,
    /// The work, as the source describes it.
    pub work: &'static str,
    /// The hardware, as the source names it.
    pub hardware: &'static str,
    /// Tokens a second.
    pub tokens_per_second: f64,
    /// When it was published: `2024-09`.
    pub date: &'static str,
    /// Where.
    pub source: &'static str,
}

const MLX_LORA: &str = "https://github.com/ml-explore/mlx-lm/blob/main/mlx_lm/LORA.md";
const MLX_BENCHMARKS: &str = "https://github.com/ml-explore/mlx-lm/blob/main/mlx_lm/BENCHMARKS.md";
const MLX_EXAMPLES: &str = "https://github.com/ml-explore/mlx-examples/blob/main/lora/README.md";
const MLX_CUDA: &str = "https://github.com/ml-explore/mlx-lm/pull/330";
const MLX_PROMPTS: &str = "https://github.com/ml-explore/mlx-lm/pull/406";
const TORCHTUNE: &str = "https://github.com/meta-pytorch/torchtune/blob/main/README.md";
const FROM_SCRATCH: &str =
    "https://github.com/rasbt/LLMs-from-scratch/tree/main/ch05/10_llm-training-speed";
const LLAMA_CPP: &str = "https://github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference";
const GPT_FAST: &str = "https://github.com/meta-pytorch/gpt-fast/blob/main/README.md";
const CANDLE: &str = "https://github.com/huggingface/candle/pull/1928";

/// All of them, by workload.
pub const PUBLISHED: &[Published] = &[
    of(
        "MLX LM",
        "lora_step",
        "Mistral 7B, 4 layers, batch of 1, WikiSQL",
        "Apple M1 Max, 32 GB",
        250.0,
        "2023-12",
        MLX_LORA,
    ),
    of(
        "MLX examples",
        "lora_step",
        "Llama 7B, WikiSQL",
        "Apple M2 Ultra",
        475.0,
        "2023-11",
        MLX_EXAMPLES,
    ),
    of(
        "MLX LM",
        "lora_step",
        "Llama 3.2 3B Instruct, WikiSQL",
        "NVIDIA A100",
        8056.0,
        "2025-07",
        MLX_CUDA,
    ),
    of(
        "torchtune",
        "lora_step",
        "Llama 3.1 8B, 2 x 2048 tokens, compiled",
        "NVIDIA RTX 4090",
        3083.0,
        "2024-09",
        TORCHTUNE,
    ),
    of(
        "torchtune",
        "lora_step",
        "Llama 3.2 3B, 2 x 4096 tokens, bf16, compiled",
        "NVIDIA A100",
        8210.0,
        "2024-11",
        TORCHTUNE,
    ),
    of(
        "torchtune",
        "full_step",
        "Llama 3.1 8B, 2 x 2048 tokens, compiled",
        "NVIDIA RTX 4090",
        1650.0,
        "2024-09",
        TORCHTUNE,
    ),
    of(
        "torchtune",
        "full_step",
        "Llama 3.2 3B, 2 x 4096 tokens, bf16, compiled",
        "NVIDIA A100",
        8998.0,
        "2024-11",
        TORCHTUNE,
    ),
    of(
        "LLMs from scratch (PyTorch)",
        "scratch_step",
        "GPT-2 124M, 32 x 1024 tokens, bf16, compiled",
        "NVIDIA A100",
        142_156.0,
        "2025-02",
        FROM_SCRATCH,
    ),
    of(
        "LLMs from scratch (PyTorch)",
        "scratch_step",
        "GPT-2 124M, before it was made fast: other batch and dtype",
        "NVIDIA A100",
        12_525.0,
        "2025-02",
        FROM_SCRATCH,
    ),
    of(
        "MLX LM",
        "prompt",
        "Qwen3 4B, bf16, 2048 tokens",
        "Apple M4 Max, 64 GB",
        1780.6,
        "2025-10",
        MLX_BENCHMARKS,
    ),
    of(
        "MLX LM",
        "prompt",
        "Qwen3 0.6B, 4 bits, 2048 tokens",
        "Apple M4 Max",
        10_278.8,
        "2025-08",
        MLX_PROMPTS,
    ),
    of(
        "MLX LM",
        "generation",
        "Qwen3 4B, bf16",
        "Apple M4 Max, 64 GB",
        52.5,
        "2025-10",
        MLX_BENCHMARKS,
    ),
    of(
        "llama.cpp",
        "generation",
        "Llama 3 8B, f16",
        "Apple M3 Max, 40 GPU cores",
        22.4,
        "2024-05",
        LLAMA_CPP,
    ),
    of(
        "llama.cpp",
        "generation",
        "Llama 3 8B, f16",
        "NVIDIA H100 PCIe",
        67.8,
        "2024-05",
        LLAMA_CPP,
    ),
    of(
        "gpt-fast",
        "generation",
        "Llama 3.1 8B, bf16",
        "NVIDIA A100, 330 W",
        93.9,
        "2024-09",
        GPT_FAST,
    ),
    of(
        "candle",
        "generation",
        "Llama 2 7B, 4 bits",
        "Apple M2 Pro, 16 GB",
        28.8,
        "2024-03",
        CANDLE,
    ),
];

const fn of(
    tool: &'static str,
    workload: &'static str,
    work: &'static str,
    hardware: &'static str,
    tokens_per_second: f64,
    date: &'static str,
    source: &'static str,
) -> Published {
    Published {
        tool,
        workload,
        work,
        hardware,
        tokens_per_second,
        date,
        source,
    }
}
