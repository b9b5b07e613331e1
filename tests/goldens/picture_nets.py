"""Networks for pictures in PyTorch, timm and transformers, with weights that a formula makes. Writes picture_nets/.

Needs torch 2.15, timm 1.0.31 and transformers 5.23:  python picture_nets.py

Number i of the tensor `name` is drawn by splitmix64 from the FNV-1a hash of its name; `drawn` below is the whole rule, and
`tests/models/picture_nets.rs` has it again. So no weights are committed, only names, shapes and what came of them.

golden.json
  files     networks as their libraries build and describe them: names and shapes of their tensors, their config files, and the
            scores of two pictures
  learned   ResNet-18 of both kinds: loss, scores and the norm of each gradient of a batch, and the losses of ten steps of SGD, in
            f64; `apart` is how far the same in f32 is from it, so that a bound can be judged
  running   running means and variances after 20 batches
  pieces    max-pool with ties and padding, cross-entropy with smoothing, GELU
kuangliu.pkl   the list of tensors that torch.save writes for {net, acc, epoch} of a network that was trained on a GPU
"""

import io
import json
import math
import pathlib
import tempfile
import zipfile

import numpy as np
import timm
import torch
import torch.nn.functional as F
from timm.models import save_for_hf
from torch import nn
from transformers import ConvNextImageProcessor, ResNetConfig, ResNetForImageClassification

FOLDER = pathlib.Path(__file__).parent / "picture_nets"
CLASSES = ["cat", "dog", "cow, brown", "Zürich", "a", "b", "c"]


def drawn(name, count):
    """`count` numbers from 0 to 1."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(40)).astype(np.float64) / 2**24


def weight(name, shape):
    count = math.prod(shape)
    unit = drawn(name, count)
    if len(shape) == 4:
        values = (2 * unit - 1) * math.sqrt(6 / (count // shape[0]))
    elif len(shape) == 2:
        values = (2 * unit - 1) / math.sqrt(shape[1])
    elif name.endswith(("running_var", ".weight")):
        values = 0.5 + unit
    else:
        values = (2 * unit - 1) * 0.2
    if name.endswith("bn2.weight"):
        # Small steps of a block, as they are early in training: otherwise rounding alone moves the tenth loss by a thousandth.
        values *= 0.25
    return torch.from_numpy(values.astype(np.float32)).reshape(shape)


def filled(model, prefix=""):
    """The same model with the weights of the formula, and its names and shapes."""
    state, listed = model.state_dict(), []
    for name, tensor in state.items():
        if tensor.dtype == torch.int64:
            tensor.fill_(7)
        else:
            tensor.copy_(weight(prefix + name, tuple(tensor.shape)))
        listed.append([prefix + name, list(tensor.shape)])
    return model, listed


def pictures(name, count, side, channels=3):
    """[n, c, h, w], made as [n, h, w, c]."""
    values = 4 * drawn(name, count * side * side * channels) - 2
    values = torch.from_numpy(values.astype(np.float32)).reshape(count, side, side, channels)
    return values.permute(0, 3, 1, 2).contiguous()


class Block(nn.Module):
    """Two convolutions beside a shortcut, by the names of https://github.com/kuangliu/pytorch-cifar."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class SmallResnet18(nn.Module):
    """ResNet-18 for pictures of some dozen pixels."""

    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for stage in range(4):
            width, stride = 64 << stage, 1 if stage == 0 else 2
            setattr(self, f"layer{stage + 1}", nn.Sequential(Block(inputs, width, stride), Block(width, width, 1)))
            inputs = width
        self.linear = nn.Linear(512, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.linear(x.mean((2, 3)))


class SmallNet(nn.Module):
    """Three convolutions, two layers."""

    def __init__(self, side, channels, classes):
        super().__init__()
        inputs = channels
        for number, outputs in enumerate([32, 64, 128], 1):
            setattr(self, f"conv{number}", nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False))
            setattr(self, f"bn{number}", nn.BatchNorm2d(outputs))
            inputs = outputs
        self.fc1 = nn.Linear(128 * (side // 8) ** 2, 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x):
        for number in (1, 2, 3):
            convolution, norm = getattr(self, f"conv{number}"), getattr(self, f"bn{number}")
            x = F.max_pool2d(F.relu(norm(convolution(x))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def file(name, layout, model, side, channels=3, prefix="", **described):
    model, listed = filled(model, prefix)
    with torch.no_grad():
        scores = model.double().eval()(pictures("pictures", 2, side, channels).double())
    scores = getattr(scores, "logits", scores)
    return dict(name=name, layout=layout, side=side, channels=channels, tensors=listed, scores=scores.tolist(), **described)


def of_timm(name):
    """What timm writes for its hub: config.json."""
    model = timm.create_model(name, num_classes=len(CLASSES))
    with tempfile.TemporaryDirectory() as folder:
        save_for_hf(model, folder, model_config=dict(label_names=CLASSES), safe_serialization=True)
        config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    return file(name, "timm", model, 64, config=config)


def of_transformers(name, depths, sizes, layer):
    labels = dict(enumerate(CLASSES))
    about = ResNetConfig(depths=depths, hidden_sizes=sizes, layer_type=layer, id2label=labels, label2id={b: a for a, b in labels.items()})
    model = ResNetForImageClassification(about)
    processor = ConvNextImageProcessor(size={"shortest_edge": 224}, crop_pct=0.875, resample=3)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        read = lambda it: json.loads((pathlib.Path(folder) / it).read_text())
        described = dict(config=read("config.json"), preprocessor=read("preprocessor_config.json"))
    return file(name, "transformers", model, 64, **described)


def saved_list(model, prefix):
    """`data.pkl` of what the training script saves."""
    state = {prefix + name: tensor for name, tensor in model.state_dict().items()}
    buffer = io.BytesIO()
    torch.save({"net": type(model.state_dict())(state), "acc": 95.31, "epoch": 199}, buffer)
    with zipfile.ZipFile(buffer) as archive:
        name = next(it for it in archive.namelist() if it.endswith("data.pkl"))
        return archive.read(name)


def learned(name, make, side, rows=32, classes=10, rate=0.005):
    """A batch, and ten steps on it."""
    truth = torch.arange(rows) * 7 % classes

    def told(dtype):
        model = filled(make(classes))[0].to(dtype).train()
        batch = pictures("batch", rows, side).to(dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
        losses, first = [], {}
        for _ in range(10):
            scores = model(batch)
            loss = F.cross_entropy(scores, truth)
            optimizer.zero_grad()
            loss.backward()
            if not losses:
                norms = {name: it.grad.norm().item() for name, it in model.named_parameters()}
                first = dict(scores=scores.tolist(), gradient_norms=norms)
            losses.append(loss.item())
            optimizer.step()
        return dict(first, losses=losses)

    exact, single = told(torch.float64), told(torch.float32)
    scores, other = np.array(exact["scores"]), np.array(single["scores"])
    norms, others = exact["gradient_norms"], single["gradient_norms"]
    apart = dict(
        scores=float(abs(scores - other).max() / abs(scores).max()),
        gradient_norms=max(abs(others[it] / norms[it] - 1) for it in norms),
        losses=max(abs(b / a - 1) for a, b in zip(exact["losses"], single["losses"])),
    )
    return dict(name=name, side=side, rows=rows, classes=classes, rate=rate, apart=apart, **exact)


def running(side=16, rows=4):
    model = filled(SmallNet(side, 1, 5))[0].double().train()
    with torch.no_grad():
        for step in range(20):
            model(pictures(f"step {step}", rows, side, 1).double())
    after = {name: it.tolist() for name, it in model.named_buffers() if "running" in name}
    return dict(side=side, rows=rows, after=after)


def pieces():
    """Of bytes 0 to 3 there are many equal ones in a window of nine."""
    found = {}
    pools = []
    for side, kernel, stride, padding in [(8, 3, 2, 1), (9, 3, 2, 1), (7, 2, 2, 0), (10, 3, 3, 0), (6, 5, 1, 2)]:
        x = torch.from_numpy(np.floor(4 * drawn("ties", 2 * side * side * 3)) - 2).reshape(2, side, side, 3).permute(0, 3, 1, 2)
        x = x.contiguous().requires_grad_()
        y, at = F.max_pool2d(x, kernel, stride, padding, return_indices=True)
        gradient = torch.from_numpy(drawn("gradient", y.numel())).reshape(y.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)
        y.backward(gradient)
        flat = lambda it: it.permute(0, 2, 3, 1).reshape(-1).tolist()
        pools.append(dict(side=side, kernel=kernel, stride=stride, padding=padding, y=flat(y), gradient=flat(x.grad)))
    found["pools"] = pools
    scores = torch.from_numpy(8 * drawn("scores", 6 * 5) - 4).reshape(6, 5).requires_grad_()
    truth = torch.tensor([0, 4, 2, 2, 1, 3])
    smoothed = []
    for smoothing in (0.0, 0.1, 0.2):
        scores.grad = None
        loss = F.cross_entropy(scores, truth, label_smoothing=smoothing)
        loss.backward()
        smoothed.append(dict(smoothing=smoothing, loss=loss.item(), gradient=scores.grad.reshape(-1).tolist()))
    found["smoothed"] = dict(truth=truth.tolist(), cases=smoothed)
    x = torch.from_numpy(12 * drawn("gelu", 64) - 6).requires_grad_()
    y = F.gelu(x)
    y.backward(torch.ones_like(y))
    found["gelu"] = dict(y=y.tolist(), gradient=x.grad.tolist())
    return found


def main():
    FOLDER.mkdir(exist_ok=True)
    small = SmallResnet18(10)
    (FOLDER / "kuangliu.pkl").write_bytes(saved_list(small, "module."))
    basic, wide = [64, 128, 256, 512], [256, 512, 1024, 2048]
    files = [
        *(of_timm(name) for name in ("resnet18.a1_in1k", "resnet34", "resnet50.tv_in1k")),
        of_transformers("resnet-18", [2, 2, 2, 2], basic, "basic"),
        of_transformers("resnet-50", [3, 4, 6, 3], wide, "bottleneck"),
        file("kuangliu", "kuangliu", small, 32, prefix="module."),
        file("small", "small", SmallNet(32, 3, 10), 32),
        file("small-grey", "small", SmallNet(28, 1, 10), 28, channels=1),
    ]
    golden = dict(
        versions=dict(torch=torch.__version__, timm=timm.__version__),
        files=files,
        learned=[
            learned("small", SmallResnet18, 16),
            learned("photo", lambda classes: timm.create_model("resnet18", num_classes=classes), 64),
        ],
        running=running(),
        pieces=pieces(),
    )
    text = json.dumps(golden, ensure_ascii=False, separators=(",", ":"))
    (FOLDER / "golden.json").write_text(text + "\n")
    print(len(text), "letters;", [(it["name"], it["apart"]) for it in golden["learned"]])


if __name__ == "__main__":
    main()
