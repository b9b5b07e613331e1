"""Writes torch.json: what torch.optim does, for the tests of models/src/optim.

Run with any PyTorch 2: python make_torch.py > torch.json
"""

import json
import math

import torch

STEPS = 6
SHAPES = {"layer.weight": [3, 4], "layer.bias": [5], "embed_tokens.weight": [6, 2]}

torch.manual_seed(0)
initial = {name: torch.randn(shape) for name, shape in SHAPES.items()}
gradients = [{name: torch.randn(shape) * 10 ** (step - 3) for name, shape in SHAPES.items()} for step in range(STEPS)]
rates = [0.1, 0.05, 0.2, 0.1, 0.01, 0.03]


def numbers(tensors):
    return {name: tensor.detach().flatten().tolist() for name, tensor in tensors.items()}


def fresh():
    return {name: torch.nn.Parameter(tensor.clone()) for name, tensor in initial.items()}


def run(make_optimizer, clip=None):
    parameters = fresh()
    optimizer = make_optimizer(parameters)
    norms = []
    average = torch.optim.swa_utils.get_ema_avg_fn(0.9)
    averages = {name: tensor.detach().clone() for name, tensor in parameters.items()}
    for gradient, rate in zip(gradients, rates):
        for name, parameter in parameters.items():
            parameter.grad = gradient[name].clone()
        if clip is not None:
            norms.append(torch.nn.utils.clip_grad_norm_(parameters.values(), clip).item())
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        averages = {name: average(averages[name], p.detach(), 0) for name, p in parameters.items()}
    return {"after": numbers(parameters), "averages": numbers(averages), "norms": norms}


def grouped(parameters):
    decayed = [parameters["layer.weight"]]
    others = [parameters["layer.bias"], parameters["embed_tokens.weight"]]
    return [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]


adamw = {"betas": (0.9, 0.95), "eps": 1e-8}
cases = {
    "adamw_all": run(lambda p: torch.optim.AdamW(p.values(), weight_decay=0.1, **adamw)),
    "adamw_matrices": run(lambda p: torch.optim.AdamW(grouped(p), **adamw)),
    "adamw_clipped": run(lambda p: torch.optim.AdamW(p.values(), weight_decay=0.1, **adamw), clip=1.0),
    "sgd_plain": run(lambda p: torch.optim.SGD(p.values(), lr=1)),
    "sgd_momentum": run(lambda p: torch.optim.SGD(p.values(), lr=1, momentum=0.9, weight_decay=0.01)),
    "sgd_nesterov": run(lambda p: torch.optim.SGD(p.values(), lr=1, momentum=0.9, weight_decay=0.01, nesterov=True)),
}


def rates_of(make_scheduler, steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    scheduler = make_scheduler(optimizer)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return seen


lr_scheduler = torch.optim.lr_scheduler
schedules = {
    "cosine": rates_of(lambda o: lr_scheduler.CosineAnnealingLR(o, 10, eta_min=0.2), 10),
    "linear": rates_of(lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, 10), 10),
    "constant": rates_of(lambda o: lr_scheduler.ConstantLR(o, 1.0, 10), 10),
}

golden = {
    "torch": torch.__version__.split("+")[0],
    "shapes": SHAPES,
    "initial": numbers(initial),
    "gradients": [numbers(gradient) for gradient in gradients],
    "rates": rates,
    "cases": cases,
    "schedules": schedules,
}
assert all(math.isfinite(x) for case in cases.values() for values in case["after"].values() for x in values)
print(json.dumps(golden))
