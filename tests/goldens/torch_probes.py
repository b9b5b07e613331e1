"""Probes as other programs save them with PyTorch, and the scores that PyTorch gives for some states.

    python torch_probes.py                  writes torch_probes/
    python torch_probes.py --real FILE.pth  writes what PyTorch says of a file of somebody else: `FILE.pth.json`
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).parent / "torch_probes"
# As wide as the models that the tests make.
WIDTH = 16
HIDDEN = 8
HEADS = 2
STATES = 5


class Linear(nn.Module):
    def __init__(self, width: int, outputs: int = 1):
        super().__init__()
        self.linear = nn.Linear(width, outputs)

    def forward(self, x):
        return self.linear(x)


class MultiHead(nn.Module):
    """Two hidden layers, attention over the state itself, and a weighted sum."""

    def __init__(self, width: int, hidden: int, outputs: int = 1, heads: int = HEADS):
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(0.1)),
            *(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.1)),
        )
        self.attention = nn.MultiheadAttention(hidden, heads, dropout=0.1, batch_first=True)
        self.classifier = nn.Linear(hidden, outputs)

    def forward(self, x):
        x = self.encoder(x).unsqueeze(1)
        return self.classifier(self.attention(x, x, x)[0].squeeze(1))


def varied(module: nn.Module, seed: int) -> nn.Module:
    """Weights and biases that are all something: PyTorch begins with biases of attention that are 0."""
    generator = torch.Generator().manual_seed(seed)
    for weights in module.parameters():
        weights.data = torch.randn(weights.shape, generator=generator) * 0.5
    return module.eval()


def save(name: str, module: nn.Module, config: dict, metadata: dict | None = None):
    saved = dict(
        model_state_dict=module.state_dict(),
        model_class=f"Binary{type(module).__name__}Probe",
        model_config=config,
    )
    if metadata is not None:
        saved["metadata"] = metadata
    torch.save(saved, ROOT / name)


def states() -> torch.Tensor:
    return torch.randn(STATES, WIDTH, generator=torch.Generator().manual_seed(9)) * 3


def scores(module: nn.Module) -> list[float]:
    """In f32, from the weights as they are stored."""
    with torch.no_grad():
        return module.float()(states()).squeeze(1).tolist()


def make():
    ROOT.mkdir(exist_ok=True)
    found = {}
    metadata = dict(action="joy", epoch=3, val_auc=0.75, val_accuracy=np.float64(0.5), val_loss=0.25)
    linear = varied(Linear(WIDTH), 1)
    save("probe_joy.pth", linear.bfloat16(), dict(input_dim=WIDTH), metadata)
    found["probe_joy.pth"] = scores(linear)
    # Without metadata it is called as its file is.
    linear = varied(Linear(WIDTH), 2)
    save("probe_calm.pth", linear, dict(input_dim=WIDTH))
    found["probe_calm.pth"] = scores(linear)
    # The name of a list in it is 30 letters long, as many as the bytes of what PyTorch writes after the names.
    linear = varied(Linear(WIDTH), 13)
    save("probe_self_confidence.pth", linear, dict(input_dim=WIDTH))
    found["probe_self_confidence.pth"] = scores(linear)
    heads = dict(input_dim=WIDTH, hidden_dim=HIDDEN)
    for seed, name in [(3, "joy"), (4, "calm")]:
        multihead = varied(MultiHead(WIDTH, HIDDEN), seed)
        save(f"multihead_{name}.pth", multihead.bfloat16(), heads, dict(metadata, action=name))
        found[f"multihead_{name}.pth"] = scores(multihead)
    make_refused(heads)
    numbers = dict(states=states().tolist(), scores=found)
    (ROOT / "scores.json").write_text(json.dumps(numbers, indent=1) + "\n")


def make_refused(heads: dict):
    """Files that have to be refused by name: of several classes, of another form, of shapes that don't fit."""
    save("refused_classes.pth", varied(Linear(WIDTH, 3), 5), dict(input_dim=WIDTH, num_classes=3))
    save("refused_multihead_classes.pth", varied(MultiHead(WIDTH, HIDDEN, 3), 6), heads)
    torch.save(varied(Linear(WIDTH), 7).state_dict(), ROOT / "refused_bare.pth")
    calibrated = nn.Module()
    calibrated.base_probe, calibrated.temperature = varied(Linear(WIDTH), 8), nn.Parameter(torch.tensor(2.0))
    save("refused_calibrated.pth", calibrated, dict(input_dim=WIDTH))
    uneven = varied(MultiHead(WIDTH, HIDDEN), 9)
    uneven.encoder[0] = varied(nn.Linear(WIDTH, HIDDEN - 1), 10)
    save("refused_uneven.pth", uneven, heads)
    infinite = varied(Linear(WIDTH), 11)
    infinite.linear.weight.data[0, 3] = float("nan")
    save("refused_nan.pth", infinite, dict(input_dim=WIDTH))
    without = varied(Linear(WIDTH), 12)
    without.linear.bias = None
    save("refused_without_bias.pth", without, dict(input_dim=WIDTH))


def real(path: Path):
    saved = torch.load(path, map_location="cpu", weights_only=False)
    weights = saved["model_state_dict"]
    if "linear.weight" in weights:
        width = weights["linear.weight"].shape[1]
        module = Linear(width)
    else:
        hidden, width = weights["encoder.0.weight"].shape
        module = MultiHead(width, hidden, heads=8)
    module.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    inputs = torch.randn(STATES, width, generator=torch.Generator().manual_seed(9)) * 3
    with torch.no_grad():
        found = module.eval()(inputs).squeeze(1).tolist()
    said = dict(states=inputs.tolist(), scores={path.name: found})
    Path(f"{path}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--real", type=Path)
    asked = arguments.parse_args()
    real(asked.real) if asked.real else make()
