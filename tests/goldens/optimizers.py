"""Optimizers, gradient clipping and learning-rate schedules of PyTorch and transformers on five numbers."""

from pathlib import Path

import torch
from transformers import (
    get_constant_schedule,
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_linear_schedule_with_warmup,
)

import decoder

START = [0.5, -1.25, 2.0, -0.03, 3.5]
CURVATURE = [1.0, 4.0, 0.25, 9.0, 0.5]
TARGET = [1.0, 0.5, -1.0, 0.2, 3.0]
STEPS = 10
SCHEDULE_STEPS = 20
PEAK = 0.01

OPTIMIZERS = {
    "adamw": (torch.optim.AdamW, dict(lr=0.1, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)),
    "adamw-strong-decay": (torch.optim.AdamW, dict(lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.5)),
    "adamw-no-decay": (torch.optim.AdamW, dict(lr=0.1, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)),
    "sgd": (torch.optim.SGD, dict(lr=0.05)),
    "sgd-momentum": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=0.01)),
    "sgd-nesterov": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)),
    "sgd-dampening": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, dampening=0.5)),
}

SCHEDULES = {
    "constant": lambda o: get_constant_schedule(o),
    "constant-warm-up-4": lambda o: get_constant_schedule_with_warmup(o, 4),
    "linear": lambda o: get_linear_schedule_with_warmup(o, 0, SCHEDULE_STEPS),
    "linear-warm-up-4": lambda o: get_linear_schedule_with_warmup(o, 4, SCHEDULE_STEPS),
    "cosine": lambda o: get_cosine_schedule_with_warmup(o, 0, SCHEDULE_STEPS),
    "cosine-warm-up-4": lambda o: get_cosine_schedule_with_warmup(o, 4, SCHEDULE_STEPS),
}


def gradient(x):
    """The gradient of 0.5 * sum(curvature * (x - target)^2)."""
    return torch.tensor(CURVATURE) * (x - torch.tensor(TARGET))


def trajectory(kind, settings):
    """The parameter after each step."""
    x = torch.nn.Parameter(torch.tensor(START))
    optimizer = kind([x], **settings)
    values = []
    for _ in range(STEPS):
        x.grad = gradient(x.detach())
        optimizer.step()
        values.append(x.detach().tolist())
    return dict(settings=settings, values=values)


def learning_rates(make_schedule):
    """The learning rate of each step: the first is what step 0 uses."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    schedule, rates = make_schedule(optimizer), []
    for _ in range(SCHEDULE_STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


def clipped(max_norm):
    """Two gradients clipped by their common norm, as clip_grad_norm_ does it."""
    parameters = [torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(2))]
    gradients = [[0.3, -4.0, 1.2], [0.0, 2.5]]
    for parameter, values in zip(parameters, gradients):
        parameter.grad = torch.tensor(values)
    total = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return dict(
        max_norm=max_norm,
        gradients=gradients,
        norm=total.item(),
        clipped=[p.grad.tolist() for p in parameters],
    )


def make(root: Path):
    """Writes optim/golden.json."""
    # Other scripts keep what they made, and themselves, in the same folder.
    folder = root / "optim"
    folder.mkdir(exist_ok=True)
    golden = dict(
        made_by=decoder.made_by(),
        note="the gradient of parameter x is curvature * (x - target), computed in f32; learning_rate[i] is what step i uses",
        start=START,
        curvature=CURVATURE,
        target=TARGET,
        optimizers={name: trajectory(*entry) for name, entry in OPTIMIZERS.items()},
        schedules=dict(
            peak=PEAK,
            total_steps=SCHEDULE_STEPS,
            learning_rate={name: learning_rates(make) for name, make in SCHEDULES.items()},
        ),
        clip_grad_norm=[clipped(1.0), clipped(100.0)],
    )
    decoder.write_json(folder / "golden.json", golden)
