// What others have published, as the made-up app tells it.

import type { PublishedView } from "../bindings";

const MLX_LORA = "https://github.com/ml-explore/mlx-lm/blob/main/mlx_lm/LORA.md";
const MLX_BENCHMARKS = "https://github.com/ml-explore/mlx-lm/blob/main/mlx_lm/BENCHMARKS.md";
const MLX_EXAMPLES = "https://github.com/ml-explore/mlx-examples/blob/main/lora/README.md";
const MLX_CUDA = "https://github.com/ml-explore/mlx-lm/pull/330";
const MLX_PROMPTS = "https://github.com/ml-explore/mlx-lm/pull/406";
const TORCHTUNE = "https://github.com/meta-pytorch/torchtune/blob/main/README.md";
const FROM_SCRATCH = "https://github.com/rasbt/LLMs-from-scratch/tree/main/ch05/10_llm-training-speed";
const LLAMA_CPP = "https://github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference";
const GPT_FAST = "https://github.com/meta-pytorch/gpt-fast/blob/main/README.md";
const CANDLE = "https://github.com/huggingface/candle/pull/1928";

const of = (tool: string, workload: string, title: string, work: string, hardware: string, tokensPerSecond: number, date: string, source: string): PublishedView => ({
  tool,
  workload,
  title,
  work,
  hardware,
  tokensPerSecond,
  date,
  source,
});

export const PUBLISHED: PublishedView[] = [
  of("MLX LM", "lora_step", "LoRA step", "Mistral 7B, 4 layers, batch of 1, WikiSQL", "Apple M1 Max, 32 GB", 250, "2023-12", MLX_LORA),
  of("MLX examples", "lora_step", "LoRA step", "Llama 7B, WikiSQL", "Apple M2 Ultra", 475, "2023-11", MLX_EXAMPLES),
  of("MLX LM", "lora_step", "LoRA step", "Llama 3.2 3B Instruct, WikiSQL", "NVIDIA A100", 8056, "2025-07", MLX_CUDA),
  of("torchtune", "lora_step", "LoRA step", "Llama 3.1 8B, 2 x 2048 tokens, compiled", "NVIDIA RTX 4090", 3083, "2024-09", TORCHTUNE),
  of("torchtune", "lora_step", "LoRA step", "Llama 3.2 3B, 2 x 4096 tokens, bf16, compiled", "NVIDIA A100", 8210, "2024-11", TORCHTUNE),
  of("torchtune", "full_step", "Full step", "Llama 3.1 8B, 2 x 2048 tokens, compiled", "NVIDIA RTX 4090", 1650, "2024-09", TORCHTUNE),
  of("torchtune", "full_step", "Full step", "Llama 3.2 3B, 2 x 4096 tokens, bf16, compiled", "NVIDIA A100", 8998, "2024-11", TORCHTUNE),
  of("LLMs from scratch (PyTorch)", "scratch_step", "From-scratch step", "GPT-2 124M, 32 x 1024 tokens, bf16, compiled", "NVIDIA A100", 142156, "2025-02", FROM_SCRATCH),
  of("LLMs from scratch (PyTorch)", "scratch_step", "From-scratch step", "GPT-2 124M, before it was made fast: other batch and dtype", "NVIDIA A100", 12525, "2025-02", FROM_SCRATCH),
  of("MLX LM", "prompt", "Reading a prompt", "Qwen3 4B, bf16, 2048 tokens", "Apple M4 Max, 64 GB", 1780.6, "2025-10", MLX_BENCHMARKS),
  of("MLX LM", "prompt", "Reading a prompt", "Qwen3 0.6B, 4 bits, 2048 tokens", "Apple M4 Max", 10278.8, "2025-08", MLX_PROMPTS),
  of("MLX LM", "generation", "Writing", "Qwen3 4B, bf16", "Apple M4 Max, 64 GB", 52.5, "2025-10", MLX_BENCHMARKS),
  of("llama.cpp", "generation", "Writing", "Llama 3 8B, f16", "Apple M3 Max, 40 GPU cores", 22.4, "2024-05", LLAMA_CPP),
  of("llama.cpp", "generation", "Writing", "Llama 3 8B, f16", "NVIDIA H100 PCIe", 67.8, "2024-05", LLAMA_CPP),
  of("gpt-fast", "generation", "Writing", "Llama 3.1 8B, bf16", "NVIDIA A100, 330 W", 93.9, "2024-09", GPT_FAST),
  of("candle", "generation", "Writing", "Llama 2 7B, 4 bits", "Apple M2 Pro, 16 GB", 28.8, "2024-03", CANDLE),
];
