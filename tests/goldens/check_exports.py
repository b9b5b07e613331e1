"""Loads a folder that Anneal wrote in transformers (or peft) and compares logits.

    python check_exports.py FOLDER                    a model or adapter folder
    python check_exports.py FOLDER --tokens 5,17,42   prints logits, compares nothing
    python check_exports.py --all FOLDER              every folder in FOLDER, one line each

Without --tokens it reads FOLDER/logits.json, which holds what Anneal computed:

    tokens       rows of token numbers
    logits       per row and position, one number per word of the vocabulary; or
    last_logits  per row, the logits of its last position only
    text, text_tokens      optional: what the saved tokenizer must encode, and to what
    messages, chat_text    optional: a conversation and its rendering by the saved template

Prints one JSON object. The exit code is 0 if everything agrees, 1 if not, 2 if FOLDER does not load.
"""

import argparse
import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
import transformers
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer


def load_model(folder):
    """A model folder, in f32. A missing or extra tensor is a failure, not a warning."""
    dtype = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager", **{dtype: torch.float32}
    )
    problems = {kind: sorted(map(str, names)) for kind, names in info.items() if names}
    if problems:
        raise ValueError(f"the tensors of {folder} do not fit the model: {problems}")
    return model.eval()


def load_adapter(folder, base):
    """An adapter folder on a model folder, with exactly the tensors that peft would save."""
    from peft import PeftModel, get_peft_model_state_dict

    model = PeftModel.from_pretrained(load_model(base), folder).eval()
    expected = set(get_peft_model_state_dict(model))
    with safe_open(Path(folder) / "adapter_model.safetensors", "pt") as file:
        found = set(file.keys())
    if expected != found:
        raise ValueError(
            f"adapter_model.safetensors of {folder}: missing {sorted(expected - found)}, extra {sorted(found - expected)}"
        )
    return model


def load(folder):
    """A model folder, or an adapter folder on the base model that it names."""
    adapter = Path(folder) / "adapter_config.json"
    if adapter.exists():
        return load_adapter(folder, json.loads(adapter.read_text())["base_model_name_or_path"])
    return load_model(folder)


@torch.no_grad()
def logits_of(model, rows):
    """The logits of each row, computed alone so that rows may differ in length."""
    return [model(torch.tensor([row])).logits[0] for row in rows]


def compare_logits(model, expected):
    """The largest difference over all rows."""
    computed = logits_of(model, expected["tokens"])
    if "last_logits" in expected:
        computed, wanted = [c[-1] for c in computed], expected["last_logits"]
    else:
        wanted = expected["logits"]
    differences = []
    for ours, theirs in zip(wanted, computed, strict=True):
        ours = torch.tensor(ours, dtype=torch.float32)
        if ours.shape != theirs.shape:
            raise ValueError(f"logits.json has shape {list(ours.shape)}, the model {list(theirs.shape)}")
        differences.append((ours - theirs).abs().max().item())
    return max(differences)


def compare_text(folder, expected):
    """Checks of the saved tokenizer and chat template, by name."""
    checks = {}
    if "text" in expected or "messages" in expected:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        if "text" in expected:
            encoded = tokenizer.encode(expected["text"], add_special_tokens=False)
            checks["text_tokens"] = encoded == expected["text_tokens"]
        if "messages" in expected:
            text = tokenizer.apply_chat_template(expected["messages"], tokenize=False)
            checks["chat_text"] = text == expected["chat_text"]
    return checks


def check(folder, tolerance, tokens=None):
    """Prints the report of one folder and returns its exit code."""
    report = dict(folder=str(folder), transformers=transformers.__version__)
    try:
        model = load(folder)
    except Exception as error:  # Whatever stops transformers is the answer.
        print(json.dumps(report | dict(loads=False, error=f"{type(error).__name__}: {error}")))
        return 2
    report["loads"] = True
    if tokens:
        row = [int(token) for token in tokens.split(",")]
        print(json.dumps(report | dict(tokens=[row], logits=[logits_of(model, [row])[0].tolist()])))
        return 0
    expected = json.loads((folder / "logits.json").read_text())
    report["largest_logit_difference"] = compare_logits(model, expected)
    report["tolerance"] = tolerance
    report |= compare_text(folder, expected)
    report["match"] = report["largest_logit_difference"] <= tolerance and all(
        report.get(check, True) for check in ("text_tokens", "chat_text")
    )
    print(json.dumps(report))
    return 0 if report["match"] else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="every folder in FOLDER")
    parser.add_argument("--tokens", help="one row of token numbers, with commas; prints its logits")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    arguments = parser.parse_args()
    if not arguments.all:
        return check(arguments.folder, arguments.tolerance, arguments.tokens)
    folders = sorted(it for it in arguments.folder.iterdir() if (it / "logits.json").exists())
    codes = [check(folder, arguments.tolerance) for folder in folders]
    print(json.dumps(dict(folders=len(folders), match=codes.count(0))))
    return max(codes, default=2)


if __name__ == "__main__":
    sys.exit(main())
