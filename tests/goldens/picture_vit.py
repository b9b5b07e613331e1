"""ViTs in transformers and timm, cut to two layers, with weights that a formula makes. Writes picture_nets/vit.json.

Needs torch 2.15, timm 1.0.31 and transformers 5.24:  python picture_vit.py

Weights and pictures are drawn as picture_nets.py draws them, by the names that stand in the files of each library.

files   networks as their libraries save and describe them: names and shapes of their tensors, their config files, and in f64 the scores
        of two pictures, the loss of both, the norm of each gradient by timm's names, and of the first picture the Grad-CAM of its best
        class over the patches before the last layer, without the ReLU
"""

import json
import pathlib
import tempfile

import timm
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from timm.models import save_for_hf
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

from picture_nets import CLASSES, FOLDER, pictures, weight

TRUTH = torch.tensor([2, 5])


def fill(path):
    """Gives the tensors of a file the numbers of the formula, and lists them."""
    tensors = {name: weight(name, tuple(tensor.shape)) for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    return [[name, list(tensor.shape)] for name, tensor in sorted(tensors.items())]


def norms(model, name_of):
    """The norm of each gradient. Those of queries, keys and values are one."""
    squares = {}
    for name, parameter in model.named_parameters():
        name = name_of(name)
        squares[name] = squares.get(name, 0.0) + parameter.grad.square().sum().item()
    return {name: square**0.5 for name, square in squares.items()}


def told(model, side, name_of, states_of):
    """States are those before the last layer."""
    model = model.double().eval()
    scores, states = states_of(model, pictures("pictures", 2, side).double())
    states.retain_grad()
    loss = F.cross_entropy(scores, TRUTH)
    loss.backward(retain_graph=True)
    found = dict(scores=scores.tolist(), loss=loss.item(), gradient_norms=norms(model, name_of))
    states.grad = None
    best = int(scores[0].argmax())
    scores[0, best].backward()
    strengths = (states.grad[0, 1:].mean(0) * states[0, 1:]).sum(-1)
    return dict(found, map=dict(best=best, strengths=strengths.tolist()))


def name_in_timm(name):
    """timm's name of a parameter of transformers."""
    part = name.rsplit(".", 1)[-1]
    if name.startswith("vit.layers."):
        _, _, layer, *rest = name.split(".")
        inner = ".".join(rest[:-1])
        inner = {
            "attention.q_proj": "attn.qkv",
            "attention.k_proj": "attn.qkv",
            "attention.v_proj": "attn.qkv",
            "attention.o_proj": "attn.proj",
            "layernorm_before": "norm1",
            "layernorm_after": "norm2",
        }.get(inner, inner)
        return f"blocks.{layer}.{inner}.{part}"
    return {
        "vit.embeddings.cls_token": "cls_token",
        "vit.embeddings.position_embeddings": "pos_embed",
        f"vit.embeddings.patch_embeddings.projection.{part}": f"patch_embed.proj.{part}",
        f"vit.layernorm.{part}": f"norm.{part}",
        f"classifier.{part}": f"head.{part}",
    }[name]


def of_transformers(name, side, **sizes):
    labels = dict(enumerate(CLASSES))
    about = ViTConfig(image_size=side, id2label=labels, label2id={b: a for a, b in labels.items()}, **sizes)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        ViTForImageClassification(about).save_pretrained(folder)
        ViTImageProcessor(size=dict(height=side, width=side)).save_pretrained(folder)
        tensors = fill(folder / "model.safetensors")
        model = ViTForImageClassification.from_pretrained(folder)
        read = lambda it: json.loads((folder / it).read_text())
        described = dict(config=read("config.json"), preprocessor=read("preprocessor_config.json"))

    def states_of(model, batch):
        answer = model(batch, output_hidden_states=True)
        return answer.logits, answer.hidden_states[-2]

    found = told(model, side, name_in_timm, states_of)
    return dict(name=name, layout="transformers", side=side, channels=3, tensors=tensors, **described, **found)


def of_timm(name, **arguments):
    arguments = dict(arguments, num_classes=len(CLASSES))
    model = timm.create_model(name, **arguments)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        save_for_hf(model, folder, model_config=dict(label_names=CLASSES), model_args=arguments, safe_serialization=True)
        tensors = fill(folder / "model.safetensors")
        model.load_state_dict(load_file(folder / "model.safetensors"))
        config = json.loads((folder / "config.json").read_text())
    side = config["pretrained_cfg"]["input_size"][-1]

    def states_of(model, batch):
        kept = []
        hook = model.blocks[-1].register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0]))
        scores = model(batch)
        hook.remove()
        return scores, kept[0]

    found = told(model, side, lambda name: name, states_of)
    return dict(name=name, layout="timm", side=side, channels=3, tensors=tensors, config=config, **found)


def main():
    narrow = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=80)
    files = [
        of_transformers("narrow", 48, patch_size=8, **narrow),
        of_transformers("vit-base, two layers", 64, num_hidden_layers=2),
        of_timm("vit_tiny_patch16_224", depth=2),
    ]
    versions = dict(torch=torch.__version__, timm=timm.__version__, transformers=transformers.__version__)
    text = json.dumps(dict(versions=versions, files=files), ensure_ascii=False, separators=(",", ":"))
    (FOLDER / "vit.json").write_text(text + "\n")
    print(len(text), "letters")


if __name__ == "__main__":
    main()
