"""Networks for pictures that Anneal wrote, read by the programs that they are for: timm, ONNX Runtime, coremltools.

    cargo build --package anneal-models --example picture_exports
    python peer_picture_exports.py FASHION HANDS WORK [--ours PROGRAM]

FASHION is the folder of Debian's package dataset-fashion-mnist, HANDS a folder with a folder of photos for each class. In WORK, four networks
are trained for a minute each in PyTorch, opened and exported by Anneal, and computed by the other programs on pictures that nobody trained
on; a fifth, airbench94, has drawn weights. For each program: how far scores or probabilities are from ours at most, as a share of the
largest, and for how many pictures both name the same class. Core ML computes on Apple's systems alone: here coremltools checks the file,
and its layers are computed in PyTorch by what their specification says.

Needs torch, timm 1.0.31, onnx, onnxruntime, coremltools 9, Pillow. Prints a line of JSON for each network.
"""

import argparse
import gzip
import json
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import timm
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.numpy import load_file
from timm.data import create_transform, resolve_data_config
from timm.models import save_for_hf
from torch import nn

warnings.filterwarnings("ignore")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "goldens"))
import picture_nets

ROOT = pathlib.Path(__file__).parents[2]
TESTED = 400


def fashion(folder):
    def read(name, offset):
        return np.frombuffer(gzip.open(folder / name).read(), np.uint8, offset=offset)

    sets = []
    for part, rows in (("train", 6000), ("t10k", TESTED)):
        pixels = read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)[:rows]
        sets.append(([Image.fromarray(it) for it in pixels], read(f"{part}-labels-idx1-ubyte.gz", 8)[:rows].astype(int)))
    return sets


def hands(folder):
    """Every fifth photo of a class is kept aside."""
    sets = [([], []), ([], [])]
    for label in sorted(it for it in folder.iterdir() if it.is_dir()):
        for at, file in enumerate(sorted(label.iterdir())):
            images, labels = sets[at % 5 == 4]
            images.append(Image.open(file).convert("RGB").resize((100, 100)))
            labels.append(int(label.name))
    return sets


def trained(model, images, labels, transform, epochs, rate=0.05):
    torch.manual_seed(1)
    batch = torch.stack([transform(it) for it in images])
    labels = torch.tensor(labels)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    steps = epochs * (len(batch) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(batch))
        for first in range(0, len(batch) - 63, 64):
            rows = order[first : first + 64]
            loss = F.cross_entropy(model(batch[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def shown(side, mean, std):
    def transform(image):
        pixels = np.asarray(image.resize((side, side), Image.Resampling.BILINEAR), np.float32) / 255
        pixels = pixels.reshape(side, side, -1).transpose(2, 0, 1)
        mean_, std_ = (np.array(it, np.float32)[:, None, None] for it in (mean, std))
        return torch.from_numpy((pixels - mean_) / std_)

    return transform


def apart(found, expected):
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def same(found, expected):
    return int((found.argmax(1) == expected.argmax(1)).sum())


def of_onnx(file, ours, classes):
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    labels = json.loads({it.key: it.value for it in model.metadata_props}["labels"])
    assert labels == classes, labels
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert given.name == "pictures" and given.shape[0] == "N"
    pixels = ours["seen"].transpose(0, 3, 1, 2).astype(np.float32) / 255
    found = np.concatenate([session.run(["probabilities"], {"pictures": it})[0] for it in np.array_split(pixels, 8)])
    return dict(apart=apart(found, ours["probabilities"]), same=same(found, ours["probabilities"]))


def of_coreml(file, ours, classes):
    import coremltools

    spec = coremltools.utils.load_spec(str(file))
    coremltools.models.MLModel(spec, skip_model_load=True)
    assert spec.WhichOneof("Type") == "neuralNetworkClassifier" and spec.specificationVersion == 4
    network = spec.neuralNetworkClassifier
    assert list(network.stringClassLabels.vector) == classes
    scaler = network.preprocessing[0].scaler
    image = spec.description.input[0].type.imageType
    is_grey = image.colorSpace == image.ColorSpace.Value("GRAYSCALE")
    bias = [scaler.grayBias] if is_grey else [scaler.redBias, scaler.greenBias, scaler.blueBias]
    pixels = torch.from_numpy(ours["seen"].transpose(0, 3, 1, 2).astype(np.float32))
    assert tuple(pixels.shape[2:]) == (image.height, image.width)
    found = []
    for part in torch.tensor_split(pixels, 8):
        values = {spec.description.input[0].name: part * scaler.channelScale + torch.tensor(bias)[None, :, None, None]}
        for layer in network.layers:
            values[layer.output[0]] = of_layer(layer, [values[it] for it in layer.input])
        found.append(values[network.labelProbabilityLayerName])
    found = torch.cat(found).numpy()
    return dict(apart=apart(found, ours["probabilities"]), same=same(found, ours["probabilities"]))


def padded(amounts):
    (top, left) = amounts.paddingAmounts.borderAmounts
    assert (top.startEdgeSize, left.startEdgeSize) == (top.endEdgeSize, left.endEdgeSize)
    return top.startEdgeSize, left.startEdgeSize


def of_layer(layer, inputs):
    """What a layer computes, by the comments of NeuralNetwork.proto."""
    kind = layer.WhichOneof("layer")
    it, x = getattr(layer, kind), inputs[0]
    numbers = lambda weights, *shape: torch.tensor(weights.floatValue).reshape(*shape)
    if kind == "convolution":
        assert it.nGroups == 1 and not it.isDeconvolution and list(it.dilationFactor) == [1, 1]
        weight = numbers(it.weights, it.outputChannels, it.kernelChannels, *it.kernelSize)
        return F.conv2d(x, weight, numbers(it.bias, -1), tuple(it.stride), padded(it.valid))
    if kind == "pooling" and it.globalPooling:
        assert it.type == it.PoolingType.Value("AVERAGE")
        return x.mean((2, 3), keepdim=True)
    if kind == "pooling":
        assert it.type == it.PoolingType.Value("MAX")
        return F.max_pool2d(x, tuple(it.kernelSize), tuple(it.stride), padded(it.valid))
    if kind == "activation":
        assert it.WhichOneof("NonlinearityType") == "ReLU"
        return x.relu()
    if kind == "gelu":
        assert it.mode == it.GeluMode.Value("EXACT")
        return F.gelu(x)
    if kind == "add":
        return inputs[0] + inputs[1]
    if kind == "flatten":
        assert it.mode == it.FlattenOrder.Value("CHANNEL_FIRST")
        return x.flatten(1)
    if kind == "innerProduct":
        return F.linear(x.flatten(1), numbers(it.weights, it.outputChannels, it.inputChannels), numbers(it.bias, -1))
    assert kind == "softmax", kind
    return x.softmax(1)


@torch.no_grad()
def of_timm(folder, ours, images):
    """Opened by its config, and once more as a checkpoint; pictures are prepared by timm itself."""
    model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    config = json.loads((folder / "config.json").read_text())
    by_path = timm.create_model(config["architecture"], checkpoint_path=str(folder / "model.safetensors"), **config["model_args"]).eval()
    transform = create_transform(**resolve_data_config(model=model), is_training=False)
    prepared = torch.stack([transform(it) for it in images])
    found, again = model(prepared).numpy(), by_path(prepared).numpy()
    assert (found == again).all()
    labels = model.pretrained_cfg.get("label_names") or config["label_names"]
    return dict(apart=apart(found, ours["scores"]), same=same(found, ours["scores"]), labels=len(labels))


@torch.no_grad()
def of_torch(folder, model, ours, mean, std):
    """The weights by their names, all of them, in the class that they come from."""
    state = {name: torch.from_numpy(it) for name, it in load_file(folder / "model.safetensors").items()}
    model.load_state_dict(state, strict=True)
    pixels = ours["seen"].transpose(0, 3, 1, 2).astype(np.float32) / 255
    mean, std = (np.array(it, np.float32)[None, :, None, None] for it in (mean, std))
    found = model.eval()(torch.from_numpy((pixels - mean) / std)).numpy()
    return dict(apart=apart(found, ours["scores"]), same=same(found, ours["scores"]))


def compare(name, program, source, images, labels, work, read):
    pictures, out = work / f"{name}-pictures", work / name
    pictures.mkdir(exist_ok=True)
    for at, image in enumerate(images):
        image.save(pictures / f"{at:05}.png")
    subprocess.run([program, str(source), str(pictures), str(out)], check=True)
    ours = load_file(out / "ours.safetensors")
    about = json.loads((out / "checkpoint" / "classifier.json").read_text())
    report = dict(
        network=name,
        pictures=len(images),
        ours_right=round(float((ours["scores"].argmax(1) == np.array(labels)).mean()), 4),
        compared_here={it["format"]: it["compared"]["apart"] for it in json.loads((out / "exported.json").read_text())},
        safetensors=read(out / "network", ours),
        onnx=of_onnx(out / "network.onnx", ours, about["classes"]),
        coreml=of_coreml(out / "network.mlmodel", ours, about["classes"]),
    )
    print(json.dumps(report), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("fashion", type=pathlib.Path)
    parser.add_argument("hands", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--ours", default=str(ROOT / "target" / "debug" / "examples" / "picture_exports"))
    arguments = parser.parse_args()
    work = arguments.work
    work.mkdir(parents=True)
    (train, truth), (test, test_truth) = fashion(arguments.fashion)
    half = ([0.5], [0.5])
    model = trained(picture_nets.SmallNet(28, 1, 10), train, truth, shown(28, *half), 2)
    torch.save(model.state_dict(), work / "small.pth")
    read = lambda folder, ours: of_torch(folder, picture_nets.SmallNet(28, 1, 10), ours, *half)
    compare("small-grey", arguments.ours, work / "small.pth", test, test_truth, work, read)

    (train, truth), (test, test_truth) = hands(arguments.hands)
    cifar = ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010])
    model = trained(picture_nets.SmallResnet18(10), train, truth, shown(32, *cifar), 3)
    net = {f"module.{name}": it for name, it in model.state_dict().items()}
    torch.save(dict(net=net, acc=90.0, epoch=3), work / "ckpt.pth")
    read = lambda folder, ours: of_torch(folder, picture_nets.SmallResnet18(10), ours, *cifar)
    compare("resnet18-small", arguments.ours, work / "ckpt.pth", test, test_truth, work, read)
    airbench = lambda folder, ours: dict(tensors=len(load_file(folder / "model.safetensors")))
    compare("airbench94", arguments.ours, "airbench94", test[:64], test_truth[:64], work, airbench)

    imagenet = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    for architecture, epochs in (("resnet18", 4), ("resnet50", 3)):
        model = timm.create_model(architecture, num_classes=10)
        trained(model, train, truth, shown(64, *imagenet), epochs)
        source = work / f"{architecture}-timm"
        model.pretrained_cfg.update(input_size=(3, 64, 64), crop_pct=0.95, interpolation="bicubic")
        save_for_hf(model, source, model_config=dict(label_names=[f"sign, {it}" for it in range(10)]), safe_serialization=True)
        images = test if architecture == "resnet18" else test[:150]
        read = lambda folder, ours, images=images: of_timm(folder, ours, images)
        compare(f"{architecture}-photo", arguments.ours, source, images, test_truth[: len(images)], work, read)


if __name__ == "__main__":
    main()
