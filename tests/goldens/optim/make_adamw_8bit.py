"""Ten steps of AdamW whose moments are kept in 8 bits, written out in PyTorch and by bitsandbytes: `adamw_8bit.json`.

    python tests/goldens/optim/make_adamw_8bit.py

It needs `pip install torch bitsandbytes==0.50.2`. Weights and gradients are made by whole numbers alone, so that the test can make them
too; the gradients of a block are of very different sizes. Kept are a checksum of what the formula gives, every 41st weight of it, and the
same weights in f32 and by bitsandbytes, which looks for codes in another way and lets a second moment become 0.
"""

import json
import pathlib
import zlib

import bitsandbytes as bnb
import torch
from bitsandbytes.functional import create_dynamic_map

HERE = pathlib.Path(__file__).parent
COUNT, STEPS, BLOCK, EVERY = 5000, 10, 256, 41
RATE, BETA1, BETA2, EPSILON, DECAY = 1e-2, 0.9, 0.999, 1e-8, 0.1


def spread(factor, offset):
    """Numbers from -0.5 to 0.5."""
    at = torch.arange(COUNT, dtype=torch.int64)
    return ((at * factor + offset) % 10007).double() / 10007 - 0.5


def weights():
    return spread(7919, 0).float()


def gradient(step):
    small = 0.5 ** (torch.arange(COUNT) % 11).double()
    return (spread(104729, 15485863 * step) * small).float()


def in_blocks(numbers):
    return torch.nn.functional.pad(numbers, (0, -len(numbers) % BLOCK)).view(-1, BLOCK)


def encode(numbers, table):
    """The nearest codes, of two as near the lower, and the largest of each block."""
    blocks = in_blocks(numbers)
    largest = blocks.abs().amax(1)
    relative = blocks / torch.where(largest > 0, largest, 1)[:, None]
    return torch.bucketize(relative, (table[:-1] + table[1:]) / 2), largest


def decode(codes, largest, table):
    return (table[codes] * largest[:, None]).flatten()[:COUNT]


def written_out():
    signed, unsigned = create_dynamic_map(signed=True), create_dynamic_map(signed=False)
    weight = weights()
    m, v = encode(torch.zeros(COUNT), signed), encode(torch.zeros(COUNT), unsigned)
    for step in range(1, STEPS + 1):
        g = gradient(step)
        first = decode(*m, signed) * BETA1 + g * (1 - BETA1)
        second = decode(*v, unsigned) * BETA2 + g * g * (1 - BETA2)
        # Roots of f32 are not always rounded to the nearest.
        root = second.double().sqrt().float()
        denominator = root * (1 / (1 - BETA2**step) ** 0.5) + EPSILON
        weight = weight * (1 - RATE * DECAY) - first / denominator * (RATE / (1 - BETA1**step))
        m, (codes, largest) = encode(first, signed), encode(second, unsigned)
        v = torch.maximum(codes, (in_blocks(second) > 0).long()), largest
    return weight, m, v


def by(kind):
    weight = torch.nn.Parameter(weights())
    optimizer = kind([weight], lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, weight_decay=DECAY)
    for step in range(1, STEPS + 1):
        weight.grad = gradient(step)
        optimizer.step()
    return weight.detach()


def checksum(tensor):
    return zlib.crc32(tensor.contiguous().numpy().tobytes())


def main():
    weight, m, v = written_out()
    codes = {name: checksum(codes.to(torch.uint8).flatten()[:COUNT]) for name, (codes, _) in (("first_moment", m), ("second_moment", v))}
    scales = {f"{name}.largest": checksum(largest) for name, (_, largest) in (("first_moment", m), ("second_moment", v))}
    made = {
        "torch": torch.__version__,
        "bitsandbytes": bnb.__version__,
        "count": COUNT,
        "steps": STEPS,
        "settings": {"learning_rate": RATE, "beta1": BETA1, "beta2": BETA2, "epsilon": EPSILON, "weight_decay": DECAY},
        "checksums": {"weight": checksum(weight), **codes, **scales},
        "every": EVERY,
        "weights": weight[::EVERY].tolist(),
        "in_f32": by(torch.optim.AdamW)[::EVERY].tolist(),
        "by_bitsandbytes": by(bnb.optim.AdamW8bit)[::EVERY].tolist(),
    }
    (HERE / "adamw_8bit.json").write_text(json.dumps(made) + "\n")
    for name in ("weights", "by_bitsandbytes"):
        apart = (torch.tensor(made[name]) - torch.tensor(made["in_f32"])).square().mean().sqrt()
        print(f"{name}: {apart:.1e} from f32 in the root mean square")


if __name__ == "__main__":
    main()
