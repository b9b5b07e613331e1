"""Writes muon.json: what torch.optim.Muon does beside AdamW, for the tests of models/src/optim/muon.rs.

Run with PyTorch 2.15: python make_muon.py > muon.json

PyTorch makes its products in bf16, whose rounding would hide what is compared: here it is told to make them in f32.
"""

import json

import torch

#: What torch.optim.Muon converts to.
torch.bfloat16 = torch.float32

SHAPES = {"layer.wide.weight": [3, 5], "layer.tall.weight": [6, 2], "layer.bias": [4], "table.weight": [4, 3], "lm_head.weight": [4, 3]}
RATES = [0.02, 0.01, 0.04, 0.02, 0.01, 0.03]
CASES = [dict(momentum=0.95, nesterov=True, steps=5), dict(momentum=0.6, nesterov=True, steps=3), dict(momentum=0.9, nesterov=False, steps=5)]

torch.manual_seed(0)
initial = {name: torch.randn(shape) for name, shape in SHAPES.items()}
gradients = [{name: torch.randn(shape) * 10 ** (step - 3) for name, shape in SHAPES.items()} for step in range(len(RATES))]


def written(tensors):
    return {name: {"shape": list(it.shape), "values": it.detach().flatten().tolist()} for name, it in tensors.items()}


def run(case):
    parameters = {name: torch.nn.Parameter(tensor.clone()) for name, tensor in initial.items()}
    matrices = [it for name, it in parameters.items() if name.startswith("layer") and it.ndim == 2]
    others = [it for name, it in parameters.items() if not (name.startswith("layer") and it.ndim == 2)]
    muon = torch.optim.Muon(matrices, weight_decay=0.1, momentum=case["momentum"], nesterov=case["nesterov"], ns_steps=case["steps"])
    adamw = torch.optim.AdamW(others, weight_decay=0.5)
    for gradient, rate in zip(gradients, RATES):
        for name, parameter in parameters.items():
            parameter.grad = gradient[name].clone()
        for optimizer, ratio in ((muon, 1), (adamw, 0.05)):
            optimizer.param_groups[0]["lr"] = rate * ratio
            optimizer.step()
    return case | {"after": written(parameters)}


golden = {
    "torch": torch.__version__.split("+")[0],
    "initial": written(initial),
    "gradients": [written(it) for it in gradients],
    "rates": RATES,
    "cases": [run(case) for case in CASES],
}
print(json.dumps(golden))
