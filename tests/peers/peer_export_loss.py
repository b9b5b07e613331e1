"""The held-out loss of an exported file in llama.cpp, to stand beside the one that Anneal said when it wrote it.

    cargo build -p anneal-models --example held_out
    target/debug/examples/held_out CHECKPOINT DATA.jsonl > rows.json
    python tests/peers/peer_export_loss.py rows.json MODEL.gguf [--adapter ADAPTER.gguf]

llama.cpp rounds what goes into products with quantized weights to 8 bits, and Anneal does not.
"""

import argparse
import json

import llama_cpp
import numpy as np


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rows")
    parser.add_argument("model")
    parser.add_argument("--adapter")
    asked = parser.parse_args()
    llama = llama_cpp.Llama(asked.model, n_ctx=512, n_batch=512, logits_all=True, verbose=False, n_threads=2, lora_path=asked.adapter)
    loss, count = 0.0, 0
    for tokens, learned in json.load(open(asked.rows)):
        llama.reset()
        llama.eval(tokens)
        scores = np.array(llama.scores[: len(tokens)], np.float64)
        log = scores - scores.max(-1, keepdims=True)
        log -= np.log(np.exp(log).sum(-1, keepdims=True))
        for at, token in enumerate(tokens[1:]):
            if learned[at + 1]:
                loss, count = loss - log[at, token], count + 1
    print(json.dumps({"tokens": count, "loss": loss / count}))


if __name__ == "__main__":
    main()
