"""Tiny Recursive Models in PyTorch: seconds a step and peak memory, at the shape of the published Sudoku runs.

    python peer_puzzles.py [--attention] [--rows 32] [--steps 5] [--threads 2] [--device cuda --dtype bf16 --compile]

The model is that of ../goldens/trm.py with PyTorch's own attention: H 3, n 6, 2 blocks, width 512, 97 places, stablemax, one step of
thinking for each step, Adam-atan2 composed in PyTorch. Random puzzles. Prints one line of JSON.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "goldens"))
import trm


class Model(trm.Model):
    def attend(self, x, name):
        c = self.config
        width = c.D // c.heads
        q, k, v = self.linear(x, name + ".qkv_proj.weight").view(len(x), c.L, 3, c.heads, width).unbind(2)
        if c.positions == "rope":
            q, k = self.turn(q), self.turn(k)
        mixed = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2)
        return self.linear(mixed.reshape(len(x), c.L, c.heads * width), name + ".o_proj.weight")


def weights(config, device):
    made = {}
    for name, shape in config.shapes().items():
        weight = torch.randn(shape) / shape[-1] ** 0.5
        made[name] = weight.to(device).requires_grad_(not name.endswith("_init"))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--attention", action="store_true")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    device, rows = arguments.device, arguments.rows
    positions = "rope" if arguments.attention else "none"
    shape = dict(S=81, D=512, heads=8, H=3, n=6, ndim=512, P=16, ids=1, halt=16)
    config = trm.Config(mlp_t=not arguments.attention, positions=positions, dtype=getattr(torch, arguments.dtype), **shape)
    torch.manual_seed(1)
    model = Model(config, weights(config, device))
    model.cos, model.sin = model.cos.to(device), model.sin.to(device)
    learner = trm.Learner(model)
    cells = torch.randint(1, config.V, (rows, config.S), device=device)
    labels = torch.randint(1, config.V, (rows, config.S), device=device)
    ids = torch.zeros(rows, dtype=torch.int64, device=device)
    think = torch.compile(model.step) if arguments.compile else model.step
    state = [torch.zeros(rows, config.L, config.D, dtype=config.dtype, device=device) for _ in range(2)]
    seconds = []
    for _ in range(arguments.steps + 2):
        begun = time.perf_counter()
        answer, thoughts, logits, q = think(*state, cells, ids)
        state = [answer, thoughts]
        right = (logits.argmax(-1) == labels).all(-1).to(q.dtype)
        loss = trm.stablemax_cross_entropy(logits, labels).sum() / config.S
        loss = loss + 0.5 * F.binary_cross_entropy_with_logits(q, right, reduction="sum")
        (loss / rows).backward()
        learner.step(1e-4, ids)
        loss.item()
        seconds.append(time.perf_counter() - begun)
    seconds = seconds[2:]
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    report = dict(seconds=statistics.median(seconds), spread=[min(seconds), max(seconds)], peak_bytes=peak, torch=torch.__version__)
    print(json.dumps(report | vars(arguments)))


if __name__ == "__main__":
    main()
