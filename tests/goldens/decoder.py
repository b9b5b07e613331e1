"""What a tiny decoder computes: logits, gradients, ten AdamW losses, greedy tokens."""

import json
import math
import re
import shutil
import tempfile
import zlib
from pathlib import Path

import numpy
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from decoder_cases import ABSENT, BASE, Case

NO_TARGET = -100
ADAMW = dict(lr=3e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1)
STEPS = 10
PROMPT = [5, 17, 42, 8, 23, 11, 40, 3, 33, 29]
DECODED = 12


def made_by(**more):
    """The versions that made a golden."""
    return dict(transformers=transformers.__version__, torch=torch.__version__.split("+")[0], **more)


def major_version():
    return int(transformers.__version__.split(".")[0])


def normal(name, shape, scale):
    """Draws a tensor that depends only on its name and shape, so that both versions agree."""
    generator = numpy.random.default_rng([20240601, zlib.crc32(name.encode())])
    return torch.from_numpy(generator.standard_normal(shape).astype(numpy.float32) * scale)


def fill(model):
    """Gives every parameter a value that shows a mistake: no norm weight is 1, no bias is 0."""
    one_plus = "gemma" in model.config.model_type
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                center = 0.0 if one_plus else 1.0
                parameter.copy_(center + normal(name, parameter.shape, 0.2))
            elif name.endswith(".bias"):
                parameter.copy_(normal(name, parameter.shape, 0.3))
            elif "embed_tokens" in name or "lm_head" in name:
                parameter.copy_(normal(name, parameter.shape, 0.3))
            else:
                parameter.copy_(normal(name, parameter.shape, 1.0 / math.sqrt(parameter.shape[1])))


def build(case: Case):
    """Makes the model of a case with its weights, in f32."""
    settings = dict(BASE, **case.settings)
    model_type = settings.pop("model_type", case.model_type)
    config = AutoConfig.for_model(model_type, **settings)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    fill(model)
    return model.eval()


def save_model(model, folder: Path, case: Case):
    """Writes the checkpoint as transformers writes it, in the dtype of the case."""
    model = model.to(getattr(torch, case.store))
    size = sum(t.numel() * t.element_size() for t in model.state_dict().values())
    options = dict(max_shard_size=size * 2 // 3) if case.shards > 1 else {}
    model.save_pretrained(folder, **options)
    assert len(list(folder.glob("model*.safetensors"))) == case.shards
    if case.edited:
        path = folder / "config.json"
        config = json.loads(path.read_text()) | case.edited
        config = {name: value for name, value in config.items() if value != ABSENT}
        path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def load_model(folder: Path):
    """Reads a checkpoint back and computes in f32."""
    name = "dtype" if major_version() >= 5 else "torch_dtype"
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", **{name: torch.float32})
    return model.eval()


def rows(model, padded):
    """A batch of two rows: tokens, targets (-100 where none) and the attention mask."""
    length = 20
    generator = numpy.random.default_rng(7)
    tokens = torch.from_numpy(generator.integers(3, model.config.vocab_size, (2, length)))
    targets = torch.cat([tokens[:, 1:], torch.full((2, 1), NO_TARGET)], dim=1)
    targets[1, :4] = NO_TARGET
    mask = torch.ones_like(tokens)
    if padded:
        tokens[1, 13:] = 0
        mask[1, 13:] = 0
        targets[1, 12:] = NO_TARGET
    return tokens, targets, mask


def mean_loss(logits, targets):
    """Mean negative log likelihood over the positions that have a target."""
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(), targets.reshape(-1), ignore_index=NO_TARGET
    )


def gradients(parameters, loss):
    """The gradient of every named parameter."""
    names, tensors = zip(*parameters)
    return dict(zip(names, torch.autograd.grad(loss, tensors)))


def norm(tensors):
    return math.sqrt(sum(float(t.double().pow(2).sum()) for t in tensors))


def adamw_losses(model, parameters, tokens, targets, mask=None):
    """The loss before each of ten AdamW steps on one batch, and after the last."""
    optimizer = torch.optim.AdamW(
        [tensor for _, tensor in parameters],
        lr=ADAMW["lr"],
        betas=(ADAMW["beta1"], ADAMW["beta2"]),
        eps=ADAMW["eps"],
        weight_decay=ADAMW["weight_decay"],
    )
    losses = []
    for _ in range(STEPS):
        loss = mean_loss(model(tokens, attention_mask=mask).logits, targets)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        final = mean_loss(model(tokens, attention_mask=mask).logits, targets).item()
    return dict(ADAMW, losses=losses, final_loss=final)


def prompt_of(model):
    """The prompt, in the tokens of a model that may have fewer."""
    return [token % model.config.vocab_size for token in PROMPT]


@torch.no_grad()
def greedy(model):
    """Greedy tokens by a full forward per token; the cached decode must agree."""
    prompt = prompt_of(model)
    tokens, margins = list(prompt), []
    for _ in range(DECODED):
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0, -1]
        best = logits.topk(2).values
        margins.append((best[0] - best[1]).item())
        tokens.append(int(logits.argmax()))
    return dict(prompt=prompt, tokens=tokens[len(prompt) :], smallest_margin=min(margins))


@torch.no_grad()
def cached_greedy(model):
    """The same with transformers' own generation loop and cache."""
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    prompt = torch.tensor([prompt_of(model)])
    out = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=DECODED, do_sample=False
    )
    return out[0, len(PROMPT) :].tolist()


def packed(model, tensors):
    """Two documents in one row, computed separately: what a packed row must give."""
    lengths = [9, 11]
    tokens, targets, _ = rows(model, padded=False)
    documents = [(tokens[i : i + 1, :n], targets[i : i + 1, :n].clone()) for i, n in enumerate(lengths)]
    for _, target in documents:
        target[:, -1] = NO_TARGET
    logits = torch.cat([model(t).logits for t, _ in documents], dim=1)
    targets = torch.cat([t for _, t in documents], dim=1)
    loss = mean_loss(logits, targets)
    grads = gradients(list(model.named_parameters()), loss)
    tensors["packed.tokens"] = torch.cat([t for t, _ in documents], dim=1)
    tensors["packed.targets"] = targets
    tensors["packed.position_ids"] = torch.cat([torch.arange(n) for n in lengths])[None]
    tensors["packed.documents"] = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)])[None]
    tensors["packed.logits"] = logits.detach()
    return dict(lengths=lengths, loss=loss.item(), gradient_norm=norm(grads.values()))


def write(folder: Path, golden: dict, tensors: dict):
    """Writes golden.json and golden.safetensors."""
    save_file({k: v.contiguous() for k, v in sorted(tensors.items())}, folder / "golden.safetensors")
    write_json(folder / "golden.json", golden)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def write_json(path: Path, content):
    """Writes JSON with lists of numbers on one line."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    text = re.sub(r"\[[-+0-9.e,\s]*\]", lambda m: " ".join(m.group().split()), text)
    path.write_text(text + "\n")


def clean_folder(folder: Path):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def make(case: Case, root: Path):
    """Writes the folder of one case and returns its name."""
    folder = clean_folder(root / f"{case.name}-v{major_version()}")
    save_model(build(case), folder, case)
    measure(folder, case.note, case.padded)
    return folder.name


def measure(folder: Path, note: str, padded=False):
    """Writes what the checkpoint in a folder computes, beside it."""
    model = load_model(folder)
    tokens, targets, mask = rows(model, padded)
    mask_argument = mask if padded else None
    logits = model(tokens, attention_mask=mask_argument).logits
    loss = mean_loss(logits, targets)
    grads = gradients(list(model.named_parameters()), loss)
    tensors = dict(tokens=tokens, targets=targets, logits=logits.detach() * mask[..., None])
    tensors |= {f"gradient.{name}": g for name, g in grads.items() if g.dim() == 1}
    if padded:
        tensors["attention_mask"] = mask
    golden = dict(
        case=folder.name,
        note=note,
        made_by=made_by(),
        loss=loss.item(),
        target_count=int((targets != NO_TARGET).sum()),
        gradient_norm=norm(grads.values()),
        gradient_norms={name: norm([g]) for name, g in grads.items()},
        greedy=greedy(model),
        packed=packed(model, tensors),
        adamw=None,
    )
    cached = cached_greedy(model)
    if cached != golden["greedy"]["tokens"]:
        print(f"  {folder.name}: the cached decode of transformers differs: {cached}")
    parameters = list(model.named_parameters())
    golden["adamw"] = adamw_losses(model, parameters, tokens, targets, mask_argument)
    golden["adamw"]["losses_with_double_matmul"] = double_losses(folder, tokens, targets, mask_argument)
    write(folder, golden, tensors)


def double_losses(folder, tokens, targets, mask):
    """The same ten losses with f64 weights and products: how far rounding alone moves them."""
    model = load_model(folder).double()
    return adamw_losses(model, list(model.named_parameters()), tokens, targets, mask)["losses"]
