"""Greedy decode with a cache in transformers: tokens a second and peak memory.

    python peer_generate.py FOLDER [--tokens 64] [--attention sdpa|eager] [--loop own|generate]

A prompt of 32 tokens, then N tokens. The time counts from the first token on: N - 1 tokens after the
prompt has been read; the prompt's own time is printed beside it. `--loop generate` uses `model.generate`,
`--loop own` the smallest loop that decodes greedily, which spares transformers its bookkeeping.
"""

import argparse
import os
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
import transformers
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.generation.streamers import BaseStreamer

from shapes import ATTENTIONS, report


class Clock(BaseStreamer):
    """Notes when each token arrives, by the wall clock and in processor time."""

    def __init__(self):
        self.times = []

    def put(self, value):
        self.times.append((time.perf_counter(), time.process_time()))

    def end(self):
        pass


def own_loop(model, prompt, count):
    """The times of each token, by the smallest loop."""
    cache, tokens, times = DynamicCache(config=model.config), prompt, []
    for _ in range(count):
        logits = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        tokens = logits[:, -1].argmax(-1, keepdim=True)
        tokens.item()
        times.append((time.perf_counter(), time.process_time()))
    return times


def generate_loop(model, prompt, count):
    """The times of each token, by model.generate."""
    clock = Clock()
    model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, do_sample=False, streamer=clock
    )
    # The first call delivers the prompt.
    return clock.times[1:]


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attention", choices=ATTENTIONS, default="sdpa")
    parser.add_argument("--loop", choices=["own", "generate"], default="generate")
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(
        arguments.folder, dtype=torch.float32, attn_implementation=arguments.attention
    ).eval()
    model.generation_config.eos_token_id = None
    prompt = torch.randint(3, 4096, (1, arguments.prompt))
    run = own_loop if arguments.loop == "own" else generate_loop
    run(model, prompt, 8)
    rates, cpu_rates, prompt_seconds = [], [], []
    for _ in range(arguments.repeats):
        start = time.perf_counter()
        times = run(model, prompt, arguments.tokens)
        assert len(times) == arguments.tokens
        (first, cpu_first), (last, cpu_last) = times[0], times[-1]
        prompt_seconds.append(first - start)
        rates.append((arguments.tokens - 1) / (last - first))
        cpu_rates.append((arguments.tokens - 1) / (cpu_last - cpu_first))
    report(
        rates,
        cpu_rates,
        work="generate",
        attention=arguments.attention,
        loop=arguments.loop,
        prompt=arguments.prompt,
        tokens=arguments.tokens,
        prompt_seconds=sorted(prompt_seconds)[len(prompt_seconds) // 2],
        threads=arguments.threads,
        torch=torch.__version__,
        transformers=transformers.__version__,
    )


if __name__ == "__main__":
    main()
