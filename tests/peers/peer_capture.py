"""Hidden states of labelled texts at all sites, mean over the text, by transformers: sorted by length, padded, in batches.

python peer_capture.py MODEL FILE [--rows 5452] [--batch 32] [--threads 2]

FILE has lines of `LABEL text`. Prints one line of JSON. To compare: `anneal probe capture --model MODEL --data FILE --position mean --out FOLDER`.
"""
import argparse
import json
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("file")
parser.add_argument("--rows", type=int, default=5452)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--threads", type=int, default=2)
asked = parser.parse_args()

torch.set_num_threads(asked.threads)
tokenizer = AutoTokenizer.from_pretrained(asked.model)
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
tokenizer.padding_side = "right"
model = AutoModelForCausalLM.from_pretrained(asked.model, dtype=torch.float32).model.eval()
lines = open(asked.file, encoding="latin-1").read().splitlines()[: asked.rows]
texts = [line.split(" ", 1)[1] for line in lines if " " in line]

start = time.time()
order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
states = torch.empty(model.config.num_hidden_layers + 1, len(texts), model.config.hidden_size)
with torch.inference_mode():
    for at in range(0, len(order), asked.batch):
        rows = order[at : at + asked.batch]
        batch = tokenizer([texts[row] for row in rows], return_tensors="pt", padding=True)
        hidden = model(**batch, output_hidden_states=True, use_cache=False).hidden_states
        mask = batch["attention_mask"].unsqueeze(-1)
        for site, x in enumerate(hidden):
            states[site, rows] = (x * mask).sum(1) / mask.sum(1)
seconds = time.time() - start
print(json.dumps({"texts": len(texts), "seconds": seconds, "texts_per_second": len(texts) / seconds}))
