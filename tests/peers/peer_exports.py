"""Has other programs open what Anneal exports of language models, and compares what they compute.

    ANNEAL_WRITE_EXPORTS=FOLDER cargo nextest run -p anneal-models -E 'test(every_format_of_every_family)'
    python tests/peers/peer_exports.py FOLDER

For each family there are a base model with random weights, an adapter on it, and every format of both together. The reference is the base
model with the adapter in Transformers and peft, in f32. It needs `pip install torch transformers peft gguf llama-cpp-python mlx mlx-cpu
mlx-lm`. Differences are the largest of any logit, as a share of the largest logit; `kl` is the mean divergence of the next token in
nats, `same` how often the most likely one is the same. Tokens of 2,000 made-up strings have to be equal in llama.cpp and Transformers.
"""

import argparse
import json
import os
import pathlib
import random

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import llama_cpp
import numpy as np
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from peer_gguf import strings

ROWS, LENGTH = 4, 24


def rows():
    draw = random.Random(3)
    return [[draw.randrange(3, 300) for _ in range(LENGTH)] for _ in range(ROWS)]


def load(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    wrong = {kind: names for kind, names in info.items() if names}
    assert not wrong, wrong
    return model.eval()


def in_torch(model):
    with torch.no_grad():
        return np.concatenate([model(torch.tensor([row])).logits[0].numpy() for row in rows()])


def with_peft(base, adapter):
    from peft import PeftModel

    return PeftModel.from_pretrained(load(base), adapter).eval()


def in_llama(path, lora=None):
    llama = llama_cpp.Llama(
        str(path), n_ctx=64, n_batch=64, logits_all=True, verbose=False, n_threads=1, flash_attn=False,
        type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, lora_path=lora and str(lora),
    )
    found = []
    for row in rows():
        llama.reset()
        llama.eval(row)
        found.append(np.array(llama.scores[: len(row)]))
    return np.concatenate(found), llama


def in_mlx(folder, adapter=None):
    import mlx.core as mx
    from mlx_lm import load as load_mlx

    mx.set_default_device(mx.cpu)
    model, _ = load_mlx(str(folder), adapter_path=adapter and str(adapter))
    return np.concatenate([np.array(model(mx.array([row])).astype(mx.float32))[0] for row in rows()])


def compared(found, expected):
    log = lambda x: x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))
    a, b = log(found.astype(np.float64)), log(expected.astype(np.float64))
    return {
        "apart": float(np.abs(found - expected).max() / np.abs(expected).max()),
        "kl": float((np.exp(b) * (b - a)).sum(-1).mean()),
        "same": float((a.argmax(-1) == b.argmax(-1)).mean()),
    }


def tokens_equal(llama, folder):
    """How many of the strings become other tokens in llama.cpp than in Transformers."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)  # some classes of a family make a tokenizer of their own
    texts = strings(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    differ = [t for t in texts if llama.tokenize(t.encode(), add_bos=False, special=True) != tokenizer.encode(t, add_special_tokens=False)]
    return len(texts), len(differ), differ[:3]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    for family in sorted((asked.folder / "language").iterdir()):
        if asked.only not in family.name:
            continue
        base, mlx_base = family / family.name, family / "mlx.folder"
        expected = in_torch(with_peft(base, family / "adapter.folder"))

        def say(name, compute):
            try:
                print(family.name, name, json.dumps(compared(compute(), expected)), flush=True)
            except Exception as error:
                print(family.name, name, "FAILED", type(error).__name__, str(error)[:300], flush=True)

        say("merged", lambda: in_torch(load(family / "merged.folder")))
        for mix in ["f32", "f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0"]:
            say(f"gguf-{mix}", lambda: in_llama(family / f"gguf-{mix}.gguf")[0])
        say("gguf-adapter", lambda: in_llama(family / "base.gguf", family / "gguf-adapter.gguf")[0])
        say("mlx", lambda: in_mlx(mlx_base))
        say("mlx-4bit", lambda: in_mlx(family / "mlx-4bit.folder"))
        say("mlx-adapter", lambda: in_mlx(family / "base-mlx.folder", family / "mlx-adapter.folder"))
        print(family.name, "tokens", *tokens_equal(in_llama(family / "gguf-f32.gguf")[1], family / "merged.folder"), flush=True)


if __name__ == "__main__":
    main()
