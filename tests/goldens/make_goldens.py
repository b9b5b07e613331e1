"""Writes the numbers that Anneal is tested against, computed by PyTorch, transformers and peft.

python make_goldens.py                 every case of the installed transformers version
python make_goldens.py llama qwen2     only the cases whose name contains one of these words
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch

import adapters
import chat_templates
import config_defaults
import decoder
import hidden_states
import optimizers
import random_kept
import trm
from decoder_cases import CASES

ROOT = Path(__file__).parent


def jobs():
    """Every golden this transformers version makes: its name and the function that writes it."""
    version = decoder.major_version()
    for case in CASES:
        if version in case.versions:
            yield f"{case.name}-v{version}", lambda case=case: decoder.make(case, ROOT)
    if version == 5:
        for name in hidden_states.CASES:
            yield f"{name} hidden states", lambda name=name: hidden_states.make(name, ROOT)
        for case in adapters.ADAPTERS:
            yield f"{case.name}-v{version}", lambda case=case: adapters.make(case, ROOT)
        yield "config_defaults", lambda: config_defaults.make(ROOT)
        yield "optim", lambda: optimizers.make(ROOT)
        yield "chat_templates", lambda: chat_templates.make(ROOT)
        yield "trm", trm.main
        yield "random", random_kept.make


def main():
    if os.environ.get("PYTHONHASHSEED") != "0":
        # peft writes a set as a list: without a fixed hash seed its order changes.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    words = sys.argv[1:]
    for name, write in jobs():
        if not words or any(word in name for word in words):
            write()
            print(name, flush=True)


if __name__ == "__main__":
    main()
