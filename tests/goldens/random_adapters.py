"""Random adapters, both ways: those that peft saved, computed by Anneal, and those that Anneal saved, computed by peft.

    python random_adapters.py --n 100 --seed 1
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from peft import LoraConfig, PeftModel, get_peft_model

import decoder
from answers import Anneal, report
from decoder_cases import Case

TOLERANCE = 2e-5
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
FUSED = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]
FAMILIES = {
    "llama": dict(attention_bias=True, mlp_bias=True),
    "mistral": dict(sliding_window=6),
    "qwen2": {},
    "qwen3": dict(head_dim=8),
    "gemma2": dict(head_dim=8, query_pre_attn_scalar=14, sliding_window=6, pad_token_id=0),
    "gemma3_text": dict(head_dim=8, query_pre_attn_scalar=14, sliding_window=6, pad_token_id=0),
    "phi3": dict(num_attention_heads=2, num_key_value_heads=1),
    "smollm3": dict(no_rope_layer_interval=2),
}


def base_case(draw, model_type):
    """A tiny model of a family."""
    settings = dict(
        FAMILIES[model_type],
        num_hidden_layers=draw.randint(1, 12),
        intermediate_size=draw.choice([20, 28, 40]),
        tie_word_embeddings=draw.random() < 0.5,
        eos_token_id=2,
    )
    return Case("", model_type, "", settings)


def targets(draw, names, layers):
    """One of the ways in which peft lets layers be named, and the layers beside it."""
    some = draw.sample(names, draw.randint(1, len(names)))
    parent = {name: "mlp" if name in ("gate_proj", "up_proj", "down_proj", "gate_up_proj") else "self_attn" for name in names}
    layer = draw.randrange(layers)
    ways = [
        some,
        [f"{parent[name]}.{name}" for name in some],
        [f"model.layers.{layer}.{parent[name]}.{name}" for name in some],
        some + [f"layers.{layer}.{parent[names[0]]}.{names[0]}"],
        "all-linear",
        rf".*\.({'|'.join(some)})",
        rf"model\.layers\.[\d]+\..*{some[0]}",
        rf"(?:.*?(?:self_attn|mlp).*?(?:{'|'.join(some)}))",
        rf".*\.{layer}\.(self_attn|mlp)\.(?!{some[0]}).*_proj|.*\.{some[0]}",
    ]
    found = draw.choice(ways)
    if isinstance(found, str) or draw.random() < 0.6:
        return found, None
    chosen = draw.choice([draw.sample(range(layers), draw.randint(1, layers)), layer, []])
    return found, chosen


def adapter_config(draw, names, layers):
    """Random settings."""
    found, chosen = targets(draw, names, layers)
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=draw.randint(1, 9),
        lora_alpha=draw.choice([1, 4, 16, 0.5, 7.25, 32]),
        lora_dropout=draw.choice([0.0, 0.05, 0.3]),
        use_rslora=draw.random() < 0.4,
        init_lora_weights=draw.choice([True, False, "gaussian"]),
        target_modules=found,
        layers_to_transform=chosen,
        layers_pattern=draw.choice([None, "layers"]) if chosen else None,
        bias="none",
    )


def adapted(draw, model, config):
    """The model with the adapter on it, A and B both random."""
    model = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(draw.getrandbits(40))
    rank = config.r**0.5 if config.use_rslora else config.r
    # A strong adapter in every layer would show rounding and nothing else.
    scale = 0.2 / max(1.0, config.lora_alpha / rank)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                size = 0.2 if "lora_A" in name else scale
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * size)
    return model.eval()


def largest_difference(ours, theirs):
    """How far apart logits are, as a part of the largest."""
    ours = torch.tensor(ours)
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


@torch.no_grad()
def compare(anneal, draw, folder):
    """One adapter both ways. Nothing when all agrees, else what does not."""
    model_type = draw.choice(list(FAMILIES))
    case = base_case(draw, model_type)
    layers = case.settings["num_hidden_layers"]
    names = FUSED if model_type == "phi3" else PROJECTIONS
    base, theirs, ours = folder / "base", folder / "theirs", folder / "ours"
    decoder.save_model(decoder.build(case), base, case)
    tokens = torch.tensor([[draw.randrange(3, 44) for _ in range(14)] for _ in range(2)])
    while True:
        config = adapter_config(draw, names, layers)
        about = dict(model_type=model_type, layers=layers, config={k: str(v) for k, v in config.to_dict().items() if v})
        try:
            model = adapted(draw, decoder.load_model(base), config)
            break
        except ValueError as error:
            if "not found in the base model" not in str(error) and "No modules were targeted" not in str(error):
                raise
    model.save_pretrained(theirs)
    question = dict(ask="adapter", base=str(base), adapter=str(theirs), tokens=tokens.tolist())
    answer = anneal.ask(**question, save=None)
    if "error" in answer:
        return dict(about, error=answer["error"])
    read = largest_difference(answer["logits"], model(tokens).logits)
    ours.mkdir()
    answer = anneal.ask(**question, save=str(ours))
    again = PeftModel.from_pretrained(decoder.load_model(base), ours).eval()
    saved = largest_difference(answer["logits"], again(tokens).logits)
    if not (read <= TOLERANCE and saved <= TOLERANCE):
        return dict(about, read_by_us=read, read_by_peft=saved)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw, anneal, differences = random.Random(arguments.seed), Anneal(), []
    for _ in range(arguments.n):
        with tempfile.TemporaryDirectory() as folder:
            difference = compare(anneal, draw, Path(folder))
        differences += [difference] if difference else []
    return report(differences, arguments.n, "adapters")


if __name__ == "__main__":
    sys.exit(main())
