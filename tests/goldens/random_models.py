"""Compares Anneal with transformers on models that nobody chose: drawn configurations with drawn weights.

python random_models.py --random 200 --seed 7          draws, computes, compares; needs cargo
python random_models.py --random 200 --seed 7 --only 31  one of them, kept, with what it is

Each draw is legal but unusual: head counts, widths, rope kinds and their parameters, windows, kinds of layers, tied or not,
biases, how it is stored, which fields its config leaves out, and in which layout that is written. In every fifth, one field
holds what makes little sense: that may be refused, here or there, and if it is not, both have to compute the same. Compared are logits,
the loss, the norm of every gradient and the greedy tokens, and 30 steps of as many optimizers with drawn settings.
The exit code is 0 if everything agrees, 1 if not. It is not named `random.py`, since PyTorch imports a module of that name.
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import random_optimizers
from decoder import NO_TARGET, gradients, load_model, norm
from random_optimizers import log_uniform

ROOT = Path(__file__).resolve().parents[2]

# How far numbers may be apart: of logits and the loss as a share of the largest logit, of a gradient's norm as a share of
# itself, or of this share of the largest norm where it is smaller: what should vanish is rounding that is left over.
LOGITS = 1e-4
GRADIENTS = 1e-3
GRADIENT_FLOOR = 1e-3
# What a rounding of the weights moves further than that may be this many times as far apart.
ROUNDINGS = 4.0
DECODED = 12

FAMILIES = ("gemma2", "gemma3_text", "llama", "mistral", "phi3", "qwen2", "qwen3", "smollm3")
GEMMAS = FAMILIES[:2]
# Fields that a config may leave out without another shape of any weight.
OPTIONAL = (
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "hidden_act",
    "hidden_activation",
    "initializer_range",
    "layer_types",
    "max_window_layers",
    "no_rope_layers",
    "query_pre_attn_scalar",
    "rms_norm_eps",
    "rope_parameters",
    "sliding_window",
    "use_sliding_window",
)

# The share of configs that are spoiled, and what one of their fields holds then.
SPOILED = 0.2
ODD = (None, 0, -1, 1, 3, 1e12, 0.5, "x", True, False, [], {})
# Fields that change no number, and those whose odd values transformers meets in ways of its own.
HARMLESS = ("architectures", "bos_token_id", "dtype", "eos_token_id", "pad_token_id", "transformers_version", "use_cache")


def heads(draw, model_type):
    """Head counts and widths. A head is as wide as the model over the heads, or as it pleases."""
    heads = draw.choice((1, 2, 3, 4, 6))
    keys = draw.choice([n for n in range(1, heads + 1) if heads % n == 0])
    width = draw.choice((2, 4, 6, 8, 10, 14, 16))
    sizes = dict(num_attention_heads=heads, num_key_value_heads=keys, hidden_size=heads * width)
    if model_type in ("gemma2", "gemma3_text", "qwen3") or draw.random() < 0.4:
        sizes["head_dim"] = draw.choice((2, 4, 6, 8, 10, 12, 16, 18))
    return sizes


def head_dim(settings):
    return settings.get("head_dim", settings["hidden_size"] // settings["num_attention_heads"])


def rope(draw, model_type, settings):
    """The fields of a rope with all its parameters, some of them left to their defaults."""
    context = settings["max_position_embeddings"]
    original = draw.choice((8, 16, 24, context // 2))
    kinds = ("default", "longrope") if model_type == "phi3" else ("default", "linear", "llama3", "yarn", "longrope")
    kind = draw.choice(kinds)
    if model_type == "phi3" and kind == "longrope":
        # Its class counts factors by another width than its model where a head has its own.
        settings.pop("head_dim", None)
    fields = dict(rope_type=kind, rope_theta=log_uniform(draw, 1.5, 1e6))
    if model_type == "phi3" and draw.random() < 0.6:
        fields["partial_rotary_factor"] = draw.choice((0.25, 0.4, 0.5, 0.75, 0.9))
    width = int(head_dim(settings) * fields.get("partial_rotary_factor", 1.0))
    if width == 0 or width + width % 2 > head_dim(settings):
        fields.pop("partial_rotary_factor")
        width = head_dim(settings)
    if kind == "longrope" and width % 2:
        kind = fields["rope_type"] = "default"
    if kind in ("linear", "llama3", "yarn"):
        fields["factor"] = log_uniform(draw, 1.0, 16.0)
    if kind in ("llama3", "yarn", "longrope"):
        fields["original_max_position_embeddings"] = original
    if kind == "llama3":
        low = log_uniform(draw, 0.25, 4.0)
        fields |= dict(low_freq_factor=low, high_freq_factor=low * draw.choice((1.5, 2.0, 4.0)))
    if kind == "yarn":
        options = dict(
            beta_fast=log_uniform(draw, 2.0, 64.0),
            beta_slow=log_uniform(draw, 0.25, 1.5),
            attention_factor=draw.uniform(0.5, 1.5),
            truncate=False,
            mscale=draw.uniform(0.5, 2.0),
            mscale_all_dim=draw.uniform(0.5, 2.0),
        )
        kept = [name for name in options if draw.random() < 0.4]
        if model_type == "gemma3_text" and "truncate" in kept:
            kept.remove("truncate")
        fields |= {name: options[name] for name in kept}
    if kind == "longrope":
        short = [draw.uniform(1.0, 2.0) for _ in range(width // 2)]
        fields |= dict(short_factor=short, long_factor=[number * draw.uniform(1.0, 8.0) for number in short])
        # Phi 3 names exactly these fields.
        if model_type != "phi3":
            fields |= draw.choice((dict(factor=4.0), dict(factor=0.5), dict(attention_factor=1.2)))
    return fields


def windows(draw, model_type, layers):
    """Which layers slide, and how far they see."""
    window = draw.choice((1, 2, 3, 5, 9, 17))
    kinds = [draw.choice(("full_attention", "sliding_attention")) for _ in range(layers)]
    if model_type == "llama":
        return {}
    if model_type in ("mistral", "phi3"):
        return dict(sliding_window=draw.choice((window, None)))
    if model_type in GEMMAS:
        fields = dict(sliding_window=window)
        if model_type == "gemma3_text" and draw.random() < 0.5:
            fields["sliding_window_pattern"] = draw.choice((1, 2, 3))
        return fields if draw.random() < 0.5 else dict(sliding_window=window, layer_types=kinds)
    slides = draw.random() < 0.6
    fields = dict(use_sliding_window=slides, sliding_window=window)
    if slides and draw.random() < 0.5:
        fields["layer_types"] = kinds
    if model_type == "smollm3":
        if draw.random() < 0.5:
            fields["no_rope_layers"] = [draw.choice((0, 1)) for _ in range(layers)]
        else:
            fields["no_rope_layer_interval"] = draw.choice((1, 2, 3))
    else:
        fields["max_window_layers"] = draw.choice((0, 1, 2))
    return fields


def settings_of(draw, model_type):
    """The configuration of one model, in the names of transformers 5."""
    layers = draw.choice((1, 2, 3, 4))
    settings = dict(
        heads(draw, model_type),
        vocab_size=draw.randint(17, 70),
        intermediate_size=draw.randint(1, 40),
        num_hidden_layers=layers,
        max_position_embeddings=draw.choice((48, 64, 96)),
        rms_norm_eps=log_uniform(draw, 1e-8, 1e-2),
        tie_word_embeddings=draw.random() < 0.5,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    activation = draw.choice(("silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh"))
    settings["hidden_activation" if model_type in GEMMAS else "hidden_act"] = activation
    settings |= windows(draw, model_type, layers)
    fields = rope(draw, model_type, settings)
    if model_type == "gemma3_text":
        local = dict(rope_type="default", rope_theta=log_uniform(draw, 1.5, 1e4))
        fields = dict(full_attention=fields, sliding_attention=local)
    elif "original_max_position_embeddings" in fields and (model_type == "phi3" or draw.random() < 0.3):
        settings["original_max_position_embeddings"] = fields["original_max_position_embeddings"]
    settings["rope_parameters"] = fields
    if model_type in ("llama", "qwen3", "smollm3", "gemma2", "gemma3_text"):
        settings["attention_bias"] = draw.random() < 0.4
    if model_type in ("llama", "smollm3"):
        settings["mlp_bias"] = draw.random() < 0.4
    if model_type in GEMMAS:
        settings["query_pre_attn_scalar"] = draw.choice((1, 7, 64, 256))
        settings["final_logit_softcapping"] = draw.choice((None, 0.7, 5.0, 30.0))
    if model_type == "gemma2":
        settings["attn_logit_softcapping"] = draw.choice((None, 0.5, 4.0, 50.0))
    return settings


def older_layout(draw, config):
    """The same config as transformers 4 wrote it, or with both layouts."""
    parameters = config["rope_parameters"]
    own = parameters.get("full_attention", parameters)
    if "full_attention" in parameters:
        config["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
    scaling = {name: value for name, value in own.items() if name not in ("rope_theta", "partial_rotary_factor")}
    config["rope_theta"] = own["rope_theta"]
    if "partial_rotary_factor" in own:
        config["partial_rotary_factor"] = own["partial_rotary_factor"]
    if scaling["rope_type"] != "default":
        if "full_attention" not in parameters and draw.random() < 0.5:
            scaling["type"] = scaling.pop("rope_type")
            if config["model_type"] == "phi3":
                scaling["type"] = draw.choice(("longrope", "su", "yarn"))
        config["rope_scaling"] = scaling
    # What stands there too is passed over where the older field is, and only there.
    if "rope_scaling" in config and "full_attention" not in parameters and draw.random() < 0.3:
        config["rope_parameters"] = dict(rope_type="default", rope_theta=3.0)
    else:
        del config["rope_parameters"]


def edit(draw, folder):
    """Leaves fields of the config out, and writes it in the older layout."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if draw.random() < 0.5:
        older_layout(draw, config)
    for name in OPTIONAL:
        # Longrope reads the context of the first training beside its factors.
        if draw.random() < 0.08:
            config.pop(name, None)
    # What is left must not say of layers that they slide where no window is in use.
    has_window = config["model_type"] != "smollm3" or "sliding_window" in config
    if config["model_type"] in ("qwen2", "qwen3", "smollm3") and not (has_window and "use_sliding_window" in config):
        config.pop("layer_types", None)
    if config["tie_word_embeddings"] is False and draw.random() < 0.2:
        # The head that is stored is another than the embedding, and stays so.
        config["tie_word_embeddings"] = True
    path.write_text(json.dumps(config, indent=1))


def spoil(draw, folder):
    """Gives one field of the config, or of its ropes, a value that makes little sense. Returns what was changed."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    places = [config] + [config[name] for name in ("rope_parameters", "rope_scaling") if config.get(name)]
    places += [value for value in places[-1].values() if isinstance(value, dict)]
    place = draw.choice(places)
    known = sorted(name for name in place if name not in HARMLESS)
    if not known:
        return ""
    name, value = draw.choice(known), draw.choice(ODD)
    place[name] = value
    path.write_text(json.dumps(config, indent=1))
    return f", `{name}` is {json.dumps(value)}"


def build(draw, folder, model_type=None):
    """Draws a model and writes it into the folder. Returns its type and how it is stored."""
    model_type = model_type or draw.choice(FAMILIES)
    config = AutoConfig.for_model(model_type, **settings_of(draw, model_type))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator)
            if name.endswith("norm.weight"):
                parameter.copy_((0.0 if model_type in GEMMAS else 1.0) + 0.2 * values)
            elif name.endswith(".bias") or "embed_tokens" in name or "lm_head" in name:
                parameter.copy_(0.3 * values)
            else:
                parameter.copy_(values / math.sqrt(parameter.shape[1]))
    store = draw.choice(("float32", "bfloat16", "float16"))
    model = model.to(getattr(torch, store))
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    shards = dict(max_shard_size=size // 2) if draw.random() < 0.3 else {}
    model.save_pretrained(folder, **shards)
    edit(draw, folder)
    spoiled = spoil(draw, folder) if draw.random() < SPOILED else ""
    return f"{model_type}, {store}{', in shards' if shards else ''}{spoiled}"


@torch.no_grad()
def greedy(model, prompt):
    """Greedy tokens by a full pass for each, and how far the best logit was from the next, as a share of the largest."""
    tokens, margins = list(prompt), []
    for _ in range(DECODED):
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0, -1]
        best = logits.topk(2).values
        margins.append(((best[0] - best[1]) / logits.abs().max()).item())
        tokens.append(int(logits.argmax()))
    return dict(tokens=tokens[len(prompt) :], margins=margins)


def expect(draw, folder):
    """What transformers computes, or nothing where it refuses to; what is asked of Anneal is written into the folder."""
    try:
        model = load_model(folder)
        return computed(draw, folder, model)
    except Exception as error:  # noqa: BLE001: whatever it raises, it does not compute
        asked = dict(tokens=[[1]], targets=[[1]], prompt=[1], decoded=1)
        (folder / "asked.json").write_text(json.dumps(asked))
        return dict(refused=f"{type(error).__name__}: {error}".splitlines()[0])


def computed(draw, folder, model):
    """What a model computes of drawn tokens, which are written into the folder."""
    rows, length = draw.choice((1, 2, 3)), draw.choice((1, 2, 7, 20, 33))
    vocabulary = model.config.vocab_size
    # PyTorch keeps the embedding of the padding token, which is 0, from learning; here it learns where it is in a text.
    tokens = [[draw.randrange(1, vocabulary) for _ in range(length)] for _ in range(rows)]
    targets = [[draw.randrange(vocabulary) for _ in range(length)] for _ in range(rows)]
    if length > 2:
        targets[0][:2] = [NO_TARGET] * 2
    prompt = [draw.randrange(vocabulary) for _ in range(draw.choice((1, 5, 14)))]
    asked = dict(tokens=tokens, targets=targets, prompt=prompt, decoded=DECODED)
    (folder / "asked.json").write_text(json.dumps(asked))
    return dict(numbers_of(model, asked), greedy=greedy(model, prompt))


def numbers_of(model, asked):
    """The logits, the loss and the norm of every gradient."""
    logits = model(torch.tensor(asked["tokens"])).logits
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), torch.tensor(asked["targets"]).flatten(), ignore_index=NO_TARGET
    )
    grads = gradients(list(model.named_parameters()), loss)
    norms = {name: norm([gradient]) for name, gradient in grads.items()}
    return dict(logits=logits.detach().flatten().tolist(), loss=loss.item(), gradient_norms=norms)


def distances(expected, found):
    """How far two answers are apart, by what is compared, each as a share of what it may be."""
    scale = max(abs(number) for number in expected["logits"])
    off = max(abs(a - b) for a, b in zip(expected["logits"], found["logits"], strict=True)) / scale
    loss = abs(expected["loss"] - found["loss"]) / max(abs(expected["loss"]), 1.0)
    apart = dict(logits=off / LOGITS, loss=loss / LOGITS)
    norms = expected["gradient_norms"]
    assert norms.keys() == found["gradient_norms"].keys(), norms.keys() ^ found["gradient_norms"].keys()
    floor = GRADIENT_FLOOR * max(norms.values())
    for name, theirs in norms.items():
        apart[f"gradient of {name}"] = abs(theirs - found["gradient_norms"][name]) / max(theirs, floor) / GRADIENTS
    return apart


def rounding(folder):
    """How far a rounding of each weight, as f32 has it, moves the same numbers in f64."""
    asked = json.loads((folder / "asked.json").read_text())
    exact = numbers_of(load_model(folder).double(), asked)
    moved = {}
    for seed in range(4):
        model = load_model(folder).double()
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.mul_(1 + 2.0**-24 * noise)
        for name, off in distances(exact, numbers_of(model, asked)).items():
            moved[name] = max(off, moved.get(name, 0.0))
    return moved


def compare(expected, found, spoiled, folder):
    """What differs between two answers, in words, and how far the logits are apart. What makes little sense may be refused."""
    if "error" in found:
        return ([] if spoiled else [f"refused: {found['error']}"]), None
    if "refused" in expected:
        # What it finds wrong with a spoiled field that its model does not read is no number that could differ.
        return ([] if spoiled else [f"computed, and transformers does not: {expected['refused']}"]), None
    apart = distances(expected, found)
    # Some drawn models make much of a little: what a rounding of the weights moves as far is no difference.
    moved = rounding(folder) if any(not off <= 1.0 for off in apart.values()) else {}
    beyond = {name: off for name, off in apart.items() if not off <= max(1.0, ROUNDINGS * moved.get(name, 0.0))}
    problems = [f"{name} is {off:.1f} times as far apart as it may be" for name, off in beyond.items()]
    wanted = expected["greedy"]
    for ours, theirs, margin in zip(found["greedy"], wanted["tokens"], wanted["margins"], strict=True):
        if ours != theirs:
            # After two logits that rounding tells apart, the texts are others.
            if margin > LOGITS * max(1.0, ROUNDINGS * moved.get("logits", 0.0)):
                problems.append(f"greedy tokens {found['greedy']}, not {wanted['tokens']}")
            break
    return problems, apart["logits"] * LOGITS


def program():
    """The example that computes what is asked: it is built first."""
    words = ["cargo", "build", "--package", "anneal-models", "--example", "numbers", "--message-format", "json"]
    result = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    messages = map(json.loads, result.stdout.splitlines())
    built = [message["executable"] for message in messages if message.get("executable")]
    # The build may be followed by another one while models are drawn.
    kept = Path(tempfile.mkdtemp(prefix="anneal-numbers-")) / Path(built[-1]).name
    shutil.copy2(built[-1], kept)
    return kept


def answers(numbers, folder):
    """What Anneal computes of every folder in this one: by its name."""
    result = subprocess.run([numbers, folder], stdout=subprocess.PIPE, text=True, check=True)
    return {answer["name"]: answer for answer in map(json.loads, result.stdout.splitlines())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int, default=50, help="how many models, and as many optimizers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one draw, which is kept")
    given = parser.parse_args()
    torch.set_num_threads(1)
    numbers = program()
    folder = Path(tempfile.mkdtemp(prefix="anneal-random-"))
    expected, told = {}, {}
    for index in range(given.random) if given.only is None else [given.only]:
        draw = random.Random(f"{given.seed} {index}")
        name = f"model-{index}"
        told[name] = build(draw, folder / name)
        expected[name] = expect(draw, folder / name)
        name = f"optimizer-{index}"
        expected[name] = random_optimizers.optimizer(draw)
        (folder / name).mkdir()
        (folder / name / "asked.json").write_text(json.dumps(expected[name]))
    found = answers(numbers, folder)
    shutil.rmtree(numbers.parent)
    failed, refused, largest = 0, 0, dict(model=0.0, optimizer=0.0)
    for name, wanted in expected.items():
        kind = name.split("-")[0]
        if kind == "model":
            problems, off = compare(wanted, found[name], "`" in told[name], folder / name)
            refused += "error" in found[name]
        else:
            problems, off = random_optimizers.compare(wanted, found[name])
        largest[kind] = max(largest[kind], off or 0.0)
        failed += bool(problems)
        for problem in problems:
            print(f"{name} ({told.get(name, kind)}): {problem}", flush=True)
    print(
        f"{len(expected) // 2} models and as many optimizers with seed {given.seed}: {failed} differ, and "
        f"{refused} configs that make little sense are refused here; at most "
        f"{largest['model']:.1e} of the largest logit and {largest['optimizer']:.1e} of the largest weight apart"
    )
    if given.only is None:
        shutil.rmtree(folder)
    else:
        print(f"it lies in {folder}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
