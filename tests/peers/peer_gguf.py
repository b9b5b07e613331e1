"""Compares a GGUF file as Anneal reads it with llama.cpp, and with transformers where that reads its architecture.

    cargo build --release -p anneal-models --example gguf
    python tests/peers/peer_gguf.py MODEL.gguf TEXT.txt --ours target/release/examples/gguf [--transformers]

Tokens of 2,000 made-up strings have to be equal; so have those of the text. Of the text's first 2,048 tokens, in windows of 512, it
prints how often the most likely next token is the same, the mean and largest KL divergence, both losses, and the largest difference
of logits. llama.cpp rounds activations to 8 bits, so it is near and not equal; transformers computes in f32 on the same numbers.
"""

import argparse
import ctypes
import json
import random
import subprocess
import tempfile

import numpy as np

WINDOW = 512
PARTS = [
    "the", " cat", "Über", "naïve", "漢字", "仮名交じり", "한국어", "مرحبا", "שלום", "हिन्दी", "ไทย", "🙂", "👩‍👩‍👧‍👦", "🏳️‍🌈", "e\u0301", "\u200b",
    "1234567890", "3.14159", "0x1F", "don't", "I'LL", "we've", "'s", "\r\n", "\n\n\n", "\t", " " * 7, "    ", "!!!", "...", "—", "«»", "{}();",
    "def f(x):\n    return x", "http://a.b/c?d=e", "a_b-c", "ÀÉÎ", "ﬁ", "½", "²", "Ⅷ", "ß", "ǅ",
]


def strings(added):
    draw = random.Random(7)
    made = ["".join(draw.choice(PARTS) for _ in range(draw.randint(1, 12))) for _ in range(1600)]
    made += [" " * n + "x" for n in range(1, 41)] + ["\n" * n for n in range(1, 21)]
    made += ["".join(chr(draw.choice([draw.randrange(32, 0x250), draw.randrange(0x3040, 0x9FFF)])) for _ in range(20)) for _ in range(240)]
    made += [f"a{draw.choice(added)}b" if added else "ab" for _ in range(100)]
    return made


def compare(ours, theirs, tokens):
    """Agreement, KL divergences and losses of logits [t, v] at every place but the last of a window."""
    log = lambda x: x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))
    same, kl, losses, far = [], [], [[], []], 0.0
    for start in range(0, len(tokens), WINDOW):
        rows = slice(start, min(start + WINDOW, len(tokens)))
        a, b = log(ours[rows].astype(np.float64)), log(theirs[rows].astype(np.float64))
        same += list(a.argmax(-1) == b.argmax(-1))
        kl += list((np.exp(b) * (b - a)).sum(-1))
        targets = tokens[rows][1:]
        for loss, p in zip(losses, (a, b)):
            loss += list(-p[np.arange(len(targets)), targets])
        far = max(far, np.abs(ours[rows] - theirs[rows]).max() / np.abs(theirs[rows]).max())
    return {
        "same_most_likely": float(np.mean(same)), "mean_kl": float(np.mean(kl)), "largest_kl": float(np.max(kl)),
        "our_loss": float(np.mean(losses[0])), "their_loss": float(np.mean(losses[1])), "largest_difference_of_scale": float(far),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--ours", required=True)
    parser.add_argument("--transformers", action="store_true")
    parser.add_argument("--written", choices=["auto", "full", "f16", "q8"], help="read tokens one after the other, as when an answer is written, with keys and values kept so")
    asked = parser.parse_args()

    import llama_cpp

    text = open(asked.text, encoding="utf-8").read()[:12000]
    llama = llama_cpp.Llama(asked.model, n_ctx=WINDOW, n_batch=WINDOW, logits_all=True, verbose=False, n_threads=2)
    vocabulary = llama.n_vocab()
    kinds = llama_cpp.llama_model_get_vocab(llama.model)
    control = [i for i in range(vocabulary) if llama_cpp.llama_vocab_is_control(kinds, i)]
    added = [llama_cpp.llama_vocab_get_text(kinds, i).decode() for i in control][:40]
    texts = [text] + strings(added)
    with tempfile.TemporaryDirectory() as folder:
        json.dump(texts, open(f"{folder}/texts.json", "w"))
        done = subprocess.run([asked.ours, asked.model, f"{folder}/texts.json", f"{folder}/logits", *([f"--written={asked.written}"] if asked.written else [])], stdout=subprocess.PIPE, check=True)
        answer = json.loads(done.stdout)
        ours = np.fromfile(f"{folder}/logits", np.float32).reshape(-1, vocabulary)
    theirs = [llama.tokenize(it.encode(), add_bos=False, special=True) for it in texts]
    wrong = [(t, a, b) for t, a, b in zip(texts, answer["tokens"], theirs) if a != b]
    print(json.dumps({"texts": len(texts), "tokens_differ_in": len(wrong), "begins": answer["begins"], "seconds": answer["seconds"]}))
    for text_, a, b in wrong[:5]:
        print("differs:", repr(text_[:80]), a[:40], b[:40])
    tokens = np.array(answer["tokens"][0][: len(ours)])
    rows = []
    for start in range(0, len(tokens), WINDOW):
        part = [int(it) for it in tokens[start : start + WINDOW]]
        llama.reset()
        llama.eval(part)
        rows.append(np.array(llama.scores[: len(part)]))
    print("llama.cpp", json.dumps(compare(ours, np.concatenate(rows), tokens)))
    if asked.transformers:
        import os

        import torch
        from transformers import AutoModelForCausalLM

        folder, name = os.path.split(os.path.abspath(asked.model))
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
        with torch.no_grad():
            parts = [model(torch.tensor(tokens[i : i + WINDOW])[None]).logits[0].numpy() for i in range(0, len(tokens), WINDOW)]
        print("transformers", json.dumps(compare(ours, np.concatenate(parts), tokens)))


if __name__ == "__main__":
    main()
