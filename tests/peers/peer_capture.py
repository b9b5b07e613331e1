"""Hidden states of all sites with transformers, as a peer of `anneal probe capture`: texts a second, and the same numbers.

    anneal probe capture --model MODEL --data train.txt --out STATES --json
    python peer_capture.py MODEL STATES [--rows 256] [--batch 32] [--device cpu] [--dtype float32] [--attention eager] [--compile]

Reads the texts, the pattern and the position `last` from STATES, runs them through transformers, sorted by length and padded on the
right, the head left out, and compares each site. Tokens are made before the clock starts. The norm of a difference is shown as a
share of the norm of a state.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model")
parser.add_argument("states", type=Path)
parser.add_argument("--rows", type=int, default=256)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--device", default="cpu")
parser.add_argument("--dtype", default="float32")
parser.add_argument("--attention", default="eager")
parser.add_argument("--compile", action="store_true")
arguments = parser.parse_args()

about = json.loads((arguments.states / "states.json").read_text())
assert about["position"] == "last" and about["prompt"]["template"] is None
# Texts may have other characters that Python takes for ends of lines.
lines = (arguments.states / "rows.jsonl").read_text().rstrip("\n").split("\n")
rows = [json.loads(line) for line in lines][: arguments.rows]
texts = [about["prompt"]["pattern"].replace("{text}", row["text"]) for row in rows]

tokenizer = AutoTokenizer.from_pretrained(arguments.model)
tokenizer.padding_side = "right"
dtype = getattr(torch, arguments.dtype)
model = AutoModel.from_pretrained(arguments.model, dtype=dtype, attn_implementation=arguments.attention).to(arguments.device).eval()
last_block = {}
model.layers[-1].register_forward_hook(
    lambda _module, _arguments, output: last_block.update(state=output[0] if isinstance(output, tuple) else output)
)
blocks = len(model.layers)
if arguments.compile:
    for layer in model.layers:
        layer.compile(dynamic=True)


@torch.no_grad()
def states_of(inputs):
    """The states [sites, n, d] of tokenized texts, and how many tokens they have."""
    inputs = inputs.to(arguments.device)
    hidden = model(**inputs, output_hidden_states=True, use_cache=False).hidden_states
    ends = inputs["attention_mask"].sum(1) - 1
    sites = [*hidden[:blocks], last_block["state"], hidden[blocks]]
    at = torch.arange(len(ends), device=ends.device)
    return torch.stack([site[at, ends] for site in sites]).float().cpu(), int(inputs["attention_mask"].sum())


order = sorted(range(len(texts)), key=lambda at: rows[at]["tokens"])
batches = [order[first : first + arguments.batch] for first in range(0, len(order), arguments.batch)]
tokenized = [tokenizer([texts[at] for at in batch], return_tensors="pt", padding=True) for batch in batches]
for inputs in tokenized[:: max(len(tokenized) // 8, 1)]:
    states_of(inputs)
states = np.zeros((blocks + 2, len(texts), model.config.hidden_size), np.float32)
start, tokens = time.time(), 0
for batch, inputs in zip(batches, tokenized):
    found, read = states_of(inputs)
    states[:, batch] = found.numpy()
    tokens += read
seconds = time.time() - start
assert tokens == sum(row["tokens"] for row in rows), "the texts have other tokens"

names = ["embed", *(f"block.{block}" for block in range(blocks)), "final"]
largest = 0.0
for site in about["sites"]:
    file = f"block.{int(site[6:]):03}" if site.startswith("block.") else site
    kind = about["dtype"]
    ours = np.fromfile(arguments.states / f"{file}.{kind}", np.float32 if kind == "f32" else np.uint16)
    if kind == "bf16":
        ours = (ours.astype(np.uint32) << 16).view(np.float32)
    ours = ours.reshape(-1, about["width"])[: len(texts)]
    theirs = states[names.index(site)]
    apart = np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1)
    largest = max(largest, float(apart.max()))
print(
    json.dumps(
        dict(
            texts=len(texts),
            texts_per_second=round(len(texts) / seconds, 2),
            tokens_per_second=round(tokens / seconds, 1),
            largest_difference=largest,
            threads=torch.get_num_threads(),
            torch=torch.__version__,
        )
    )
)
