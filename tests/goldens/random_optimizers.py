"""Optimizers that nobody chose: drawn settings, and what PyTorch, bitsandbytes or a paper makes of them.

`random_models.py` asks Anneal for the same. A drawn case goes downhill on ½ Σ curvature (x - target)².
"""

import math
import random

import bitsandbytes
import torch

# How far weights may be apart after the steps, as a share of the largest.
WEIGHTS = 1e-4
# A number between two codes of 8 bits becomes another one by a rounding, and its weight takes other steps from there on: one weight in so
# many may be this far apart. Of 300 such optimizers, four had one weight of 4,096 or more that was more than 1e-4 apart, at most 4.5e-4;
# starts that were changed by a rounding moved the same weight of three of them as far, in the reference alone.
CROSSING, CROSSED = 1000, 1e-3
# Of the others, what a rounding of the start moves further than `WEIGHTS` may be this many times as far apart: of 300 drawn cases of Muon,
# one was 9.5e-5 apart, where a rounding moves the reference 1.6e-4.
ROUNDINGS = 4.0
STEPS = 30

KINDS = ("adamw", "adamw_8bit", "adam_atan2", "sgd", "muon", "sign_sgd")
# From 4,096 numbers on, AdamW in 8 bits keeps codes of them, in blocks of 256: some of these end with a block that is not full.
MANY = (4095, 4096, 4103, 5000)


def log_uniform(draw, low, high):
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def optimizer(draw, kind=None):
    """One optimizer with unusual settings, and numbers that it starts from."""
    kind = kind or draw.choice(KINDS)
    shape = (draw.choice((1, 2, 7)), draw.choice((1, 3, 8))) if kind == "muon" else None
    count = shape[0] * shape[1] if shape else draw.choice(MANY if kind == "adamw_8bit" else (1, 5, 33))
    # Lists of as many numbers as fit no block, which begin again: of many numbers, no two are alike.
    numbers = lambda scale, most: [scale * draw.gauss(0, 1) for _ in range(min(count, most))]
    case = dict(
        start=numbers(2.0, 61),
        target=numbers(log_uniform(draw, 1e-3, 10), 67),
        curvature=[log_uniform(draw, 1e-4, 3.0) for _ in range(min(count, 71))],
        count=count,
        rates=[log_uniform(draw, 1e-4, 0.3) for _ in range(STEPS)],
        shape=shape,
    )
    return case | dict(rule=rule(draw, kind), lookahead=lookahead(draw))


def rule(draw, kind):
    """The settings of a kind."""
    rule = dict(kind=kind, weight_decay=draw.choice((0.0, 0.01, 0.5)))
    if kind in ("adamw", "adamw_8bit", "adam_atan2"):
        # Without a mean of squares the step is a sign where a gradient passes 0: PyTorch in f32 and in f64 are then 1e-2 apart.
        rule |= dict(beta1=draw.choice((0.0, 0.5, 0.9, 0.99)), beta2=draw.choice((0.5, 0.9, 0.95, 0.999, 0.99999)))
    if kind in ("adamw", "adamw_8bit"):
        rule |= dict(epsilon=log_uniform(draw, 1e-12, 1e-2))
    if kind in ("sgd", "muon"):
        momentum = draw.choice((0.0, 0.3, 0.9, 0.99))
        rule |= dict(momentum=momentum, nesterov=momentum > 0 and draw.random() < 0.5)
    if kind == "muon":
        others = dict(beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0)
        rule |= dict(newton_schulz_steps=draw.choice((1, 3, 5)), others=others, others_rate_ratio=1.0)
    return rule


def lookahead(draw):
    """After how many steps weights go back to a slower copy, if they do, and how much of it is kept for each."""
    every = draw.choice((1, 2, 3, 5, 7, STEPS + 1)) if draw.random() < 0.4 else 0
    return dict(every=every, decay=draw.choice((0.0, 0.5, 0.9, 0.95, 1.0, draw.random())))


class AdamAtan2(torch.optim.Optimizer):
    """Everett et al., 2024 (https://arxiv.org/abs/2407.05872), as Tiny Recursive Models are trained: the angle is scaled, not what it is of."""

    def __init__(self, parameters, betas, weight_decay):
        super().__init__(parameters, dict(lr=1.0, betas=betas, weight_decay=weight_decay, step=0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), rate = group["betas"], group["lr"]
            group["step"] += 1
            for x in group["params"]:
                kept = self.state[x]
                m, v = (kept.setdefault(name, torch.zeros_like(x)) for name in ("m", "v"))
                m.lerp_(x.grad, 1 - beta1)
                v.lerp_(x.grad.square(), 1 - beta2)
                spread = (v / (1 - beta2 ** group["step"])).sqrt()
                x.mul_(1 - rate * group["weight_decay"])
                x.sub_(rate / (1 - beta1 ** group["step"]) * torch.atan2(m, spread))


class SignSgd(torch.optim.Optimizer):
    """Bernstein et al., 2018 (https://arxiv.org/abs/1802.04434), with decoupled decay."""

    def __init__(self, parameters, weight_decay):
        super().__init__(parameters, dict(lr=1.0, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for x in group["params"]:
                x.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * x.grad.sign())


class Slower:
    """Zhang et al., 2019 (https://arxiv.org/abs/1907.08610): after every k steps φ ← φ + α (θ - φ), then θ ← φ.

    How much of the copy stays, 1 - α, grows as in Jordan, 2024 (https://arxiv.org/abs/2404.00498): decay^k (step / steps)³, and all of it
    after the last step.
    """

    def __init__(self, x, every, decay):
        self.x, self.copy, self.every, self.decay = x, x.detach().clone(), every, decay

    @torch.no_grad()
    def step(self, done):
        if self.every and (done % self.every == 0 or done == STEPS):
            stays = 1.0 if done == STEPS else self.decay**self.every * (done / STEPS) ** 3
            self.copy.lerp_(self.x, 1 - stays)
            self.x.copy_(self.copy)


def nearest_codes(numbers, table, largest, codes, block):
    """The codes of numbers in their blocks as the paper means them: the nearest, and above 0 for a second moment above 0.

    All else of AdamW in 8 bits is bitsandbytes. Its own search goes by 65,536 steps and does not always find the nearest, and a second
    moment whose code is 0 divides by ε alone, so that its weight leaps: with it, weights of 29 draws were up to 5e-1 of the largest from
    ours, as far as from its own in f32 (root mean square: 1e-1 in the middle, ours 7e-2, and ours were nearer in each).
    """
    padded = torch.nn.functional.pad(numbers, (0, -len(numbers) % block)).view(-1, block)
    top = padded.abs().amax(1)
    found = torch.bucketize(padded / torch.where(top > 0, top, 1)[:, None], (table[:-1] + table[1:]) / 2)
    if table[0] == 0:
        found = found.maximum((padded > 0).long())
    largest.copy_(top)
    codes.copy_(found.flatten()[: len(numbers)])


bitsandbytes.backends.cpu.ops._quant_blockwise_fp32_direct = nearest_codes


def published(rule, x):
    """The optimizer of PyTorch, or what a paper says of one that it has not."""
    decay = rule["weight_decay"]
    match rule["kind"]:
        case "adamw":
            return torch.optim.AdamW([x], betas=(rule["beta1"], rule["beta2"]), eps=rule["epsilon"], weight_decay=decay)
        case "adamw_8bit":
            return bitsandbytes.optim.AdamW8bit([x], betas=(rule["beta1"], rule["beta2"]), eps=rule["epsilon"], weight_decay=decay)
        case "adam_atan2":
            return AdamAtan2([x], (rule["beta1"], rule["beta2"]), decay)
        case "sgd":
            return torch.optim.SGD([x], lr=1.0, momentum=rule["momentum"], nesterov=rule["nesterov"], weight_decay=decay)
        case "muon":
            given = dict(momentum=rule["momentum"], nesterov=rule["nesterov"], ns_steps=rule["newton_schulz_steps"])
            return torch.optim.Muon([x], weight_decay=decay, **given)
        case "sign_sgd":
            return SignSgd([x], decay)


def optimized(case):
    """The numbers after the steps of the published optimizer."""
    count, shape = case["count"], case["shape"] or (-1,)
    shaped = lambda name: torch.tensor(case[name]).repeat(-(-count // len(case[name])))[:count].reshape(shape)
    x = torch.nn.Parameter(shaped("start"))
    rule, slower = published(case["rule"], x), Slower(x, **case["lookahead"])
    curvature, target = shaped("curvature"), shaped("target")
    # PyTorch makes the products of Muon in bf16, whose rounding would hide what is compared.
    narrow, torch.bfloat16 = torch.bfloat16, torch.float32
    try:
        for done, rate in enumerate(case["rates"], 1):
            for group in rule.param_groups:
                group["lr"] = rate
            x.grad = curvature * (x.detach() - target)
            rule.step()
            slower.step(done)
    finally:
        torch.bfloat16 = narrow
    return x.detach().flatten().tolist()


def rounding(case, expected):
    """How far a rounding of the numbers that it starts from moves those that an optimizer reaches."""
    moved = []
    for seed in range(4):
        draw = random.Random(seed)
        start = [number * (1 + 2.0**-24 * draw.gauss(0, 1)) for number in case["start"]]
        moved += [abs(a - b) for a, b in zip(optimized(case | dict(start=start)), expected, strict=True)]
    return max(moved)


def compare(case, found):
    """What differs between the numbers after the steps of an optimizer, and how far they are apart."""
    expected = optimized(case)
    if "error" in found:
        return [f"refused: {found['error']}"], None
    scale = max(1.0, *(abs(number) for number in expected))
    apart = [abs(a - b) / scale for a, b in zip(expected, found["weights"], strict=True)]
    # Not a number is near to none.
    beyond = [off for off in apart if not off <= WEIGHTS]
    if case["rule"]["kind"] == "adamw_8bit":
        may_differ, most = len(apart) // CROSSING, CROSSED
    else:
        may_differ, most = len(beyond), ROUNDINGS * rounding(case, expected) / scale if beyond else 0.0
    is_off = len(beyond) > may_differ or any(not off <= most for off in beyond)
    words = f"{case['rule']}, {case['lookahead']}: {len(beyond)} weights are up to {max(apart):.1e} of their scale apart"
    return ([words] if is_off else []), max(apart)
