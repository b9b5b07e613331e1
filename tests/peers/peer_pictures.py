"""ResNet-18 for small pictures in PyTorch: the same step as `models/benches/picture.rs`, as one line of JSON.

    python tests/peers/peer_pictures.py [--device cuda] [--dtype bf16] [--rows 128] [--steps 10] [--compile] [--threads 2]

Forward, cross-entropy, backward and SGD with Nesterov's momentum on one batch of made-up pictures that stays on the device. The
network is He et al.'s (2016) with a stem of three and no pool. Memory is laid out by channels last. In f32 on a GPU products are
not rounded to TF32, as ours are not, unless --tf32 is given. `--compile` compiles the step, with CUDA graphs where there is a GPU.
"""

import argparse
import json
import resource
import statistics
import time

import torch
from torch import nn

WIDTHS = [(64, 1), (128, 2), (256, 2), (512, 2)]


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet18(classes):
    layers, before = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for width, stride in WIDTHS:
        layers += [Block(before, width, stride), Block(width, width, 1)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16"])
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.tf32
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    dtype = {"f32": None, "bf16": torch.bfloat16, "f16": torch.float16}[options.dtype]
    model = resnet18(10).to(options.device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    pictures = torch.rand(options.rows, 3, 32, 32, device=options.device).to(memory_format=torch.channels_last)
    labels = torch.randint(10, (options.rows,), device=options.device)
    forward = torch.compile(model, mode="reduce-overhead" if options.device == "cuda" else None) if options.compile else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, dtype=dtype, enabled=dtype is not None):
            loss = nn.functional.cross_entropy(forward(pictures), labels)
        loss.backward()
        optimizer.step()
        return loss

    rates = []
    for number in range(options.warm_up + options.steps):
        started = time.perf_counter()
        loss = step()
        if options.device == "cuda":
            torch.cuda.synchronize()
        if number >= options.warm_up:
            rates.append(options.rows / (time.perf_counter() - started))
    peak = torch.cuda.max_memory_allocated() if options.device == "cuda" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({
        "torch": torch.__version__, "rows": options.rows, "dtype": options.dtype, "compiled": options.compile,
        "pictures_per_second": statistics.median(rates), "slowest": min(rates), "fastest": max(rates),
        "peak_bytes": peak, "loss": loss.item(),
    }))


if __name__ == "__main__":
    main()
