"""Writes a few of the models and optimizers that nobody chose into `random/`, with what is computed of them.

    python random_kept.py

The tests read them as they read the other goldens, without Python. Of each family it takes the first draw that is small, has more
than one layer and a rope or a window of its own, and whose numbers are no matter of rounding. Anneal has no say in that.
"""

import argparse
import json
import random
import shutil
from pathlib import Path

import torch

import decoder
import random_optimizers
from random_models import FAMILIES, build, rounding

ROOT = Path(__file__).parent / "random"
SEED = 20261126

# The most bytes of a checkpoint.
CHECKPOINT = 24_000
# How far a rounding of the weights may move what is compared, as a share of what the tests allow.
MOVED = 0.25
# What the tests allow: of a logit, and of a loss as a share of itself.
LOGIT, LOSS = 1e-4, 1e-3
# Of the weights of AdamW in 8 bits, which are many, one in so many is kept.
EVERY = 41
OPTIMIZERS = 18


def checkpoint_bytes(folder):
    return sum(path.stat().st_size for path in folder.glob("model*.safetensors*"))


def is_telling(folder):
    """Whether a model has layers after others, and turns or sees in a way that is not the usual one."""
    config = json.loads((folder / "config.json").read_text())
    ropes = json.dumps([config.get(name) for name in ("rope_parameters", "rope_scaling")])
    turns = any(f'"{kind}"' in ropes for kind in ("linear", "llama3", "yarn", "longrope"))
    return config["num_hidden_layers"] > 1 and (turns or config.get("sliding_window") is not None)


def rounding_of_batch(folder):
    """How far a rounding of the weights moves the numbers of the golden's batch."""
    tokens, targets, _ = decoder.rows(decoder.load_model(folder), padded=False)
    path = folder / "asked.json"
    path.write_text(json.dumps(dict(tokens=tokens.tolist(), targets=targets.tolist())))
    moved = rounding(folder)
    path.unlink()
    return moved


def is_steady(folder):
    """Whether rounding alone moves the numbers of a golden much less than the tests allow."""
    golden = json.loads((folder / "golden.json").read_text())
    norms = golden["gradient_norms"].values()
    # A gradient that should vanish has no digits that could agree.
    if min(norms) < 1e-3 * max(norms):
        return False
    moved = rounding_of_batch(folder)
    largest = decoder.load_model(folder)(torch.tensor([golden["greedy"]["prompt"]])).logits.abs().max().item()
    adamw = golden["adamw"]
    losses = zip(adamw["losses"], adamw["losses_with_double_matmul"], strict=True)
    shares = [*moved.values(), moved["logits"] * largest]
    shares += [abs(one - other) / other / LOSS for one, other in losses]
    return max(shares) <= MOVED and golden["greedy"]["smallest_margin"] > 10 * LOGIT


def model(seed, family):
    """Writes the first model of a family that is small, telling and steady."""
    folder, number = ROOT / family, 0
    while True:
        draw = random.Random(f"{seed} {family} {number}")
        told = build(draw, decoder.clean_folder(folder), family)
        is_spoiled = "`" in told
        if not is_spoiled and is_telling(folder) and checkpoint_bytes(folder) <= CHECKPOINT:
            decoder.measure(folder, f"draw {number} of seed {seed}: {told}")
            if is_steady(folder):
                return f"{told}, draw {number}, {checkpoint_bytes(folder)} bytes"
        number += 1


def optimizers(seed):
    """Writes optimizers of all kinds, and some of the weights that they reach."""
    kinds = random_optimizers.KINDS
    cases = []
    for number in range(OPTIMIZERS):
        draw = random.Random(f"{seed} {number}")
        case = random_optimizers.optimizer(draw, kinds[number % len(kinds)])
        every = EVERY if case["count"] > 100 else 1
        cases.append(case | dict(every=every, weights=random_optimizers.optimized(case)[::every]))
    decoder.write_json(ROOT / "optimizers.json", dict(made_by=decoder.made_by(), seed=seed, cases=cases))


def make(seed=SEED):
    """Writes all of them anew."""
    shutil.rmtree(ROOT, ignore_errors=True)
    for family in FAMILIES:
        print(model(seed, family), flush=True)
    optimizers(seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=SEED)
    torch.set_num_threads(1)
    make(parser.parse_args().seed)


if __name__ == "__main__":
    main()
