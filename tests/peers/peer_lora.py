"""LoRA on a model folder in PyTorch, transformers and peft: tokens a second and peak memory.

    python peer_lora.py FOLDER [--attention sdpa|eager] [--dtype f32|bf16] [--steps 8] [--threads 2]

Rank 8, alpha 16, no dropout, all seven projections; AdamW; every position has a target. In bf16 the frozen
weights are in it, the adapter is in f32, and autocast chooses what each operation computes in. A step is
forward, loss, backward, clip, optimizer; its tokens are rows x length. Prints one line of JSON.
"""

import argparse
import os
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import peft
import torch
import transformers
from transformers import AutoModelForCausalLM

from shapes import ATTENTIONS, report

SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


DTYPES = dict(f32=torch.float32, bf16=torch.bfloat16)


def load(folder, attention, dtype, gradient_checkpointing):
    """The model with a fresh adapter in f32."""
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=attention)
    base.config.use_cache = False
    model = peft.get_peft_model(
        base,
        peft.LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, lora_dropout=0.0, target_modules=SEVEN),
    )
    if gradient_checkpointing:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable()
    return model.train()


def step(model, optimizer, trainable, tokens, narrow):
    """One step of learning; returns the loss."""
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        logits = model(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(trainable, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attention", choices=ATTENTIONS, default="sdpa")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--gradient-checkpointing", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    dtype = DTYPES[arguments.dtype]
    model = load(arguments.folder, arguments.attention, dtype, arguments.gradient_checkpointing)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-4)
    shape = (arguments.warm_up + arguments.steps, arguments.rows, arguments.length + 1)
    batches = torch.randint(3, 4096, shape)
    rates, cpu_rates, losses = [], [], []
    for index, tokens in enumerate(batches):
        start, cpu_start = time.perf_counter(), time.process_time()
        losses.append(step(model, optimizer, trainable, tokens, dtype == torch.bfloat16))
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        if index >= arguments.warm_up:
            rates.append(arguments.rows * arguments.length / seconds)
            cpu_rates.append(arguments.rows * arguments.length / cpu_seconds)
    report(
        rates,
        cpu_rates,
        work="lora",
        attention=arguments.attention,
        dtype=arguments.dtype,
        rows=arguments.rows,
        length=arguments.length,
        steps=arguments.steps,
        threads=arguments.threads,
        gradient_checkpointing=arguments.gradient_checkpointing,
        trainable=sum(p.numel() for p in trainable),
        first_loss=losses[0],
        last_loss=losses[-1],
        torch=torch.__version__,
        transformers=transformers.__version__,
        peft=peft.__version__,
    )


if __name__ == "__main__":
    main()
