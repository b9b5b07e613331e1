"""Compares a whole run of Anneal with PyTorch: the order of its data, its packing, every loss and every evaluation.

python learning.py --program ANNEAL [--device cuda]          ANNEAL is the program that trains

A tiny model of each of three families learns short texts. Anneal (`answer.rs`) says which batches its plan gives; from there on
PyTorch learns the same, one document in a row, so that nothing of packing is taken over. Compared are

- the order: every text that is not held out is learned once in a pass, each pass has another order, and it is the order that the
  published generators give, which are written again here;
- the held-out texts: those that are never learned, and the part that was asked for;
- the loss of every step and of every evaluation: in f32, and on CUDA in bf16 and f16 too, which may be ROUNDINGS times as far from
  f32 as PyTorch's own autocast is.

The exit code is 0 if everything agrees, 1 if not.
"""

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from answers import Anneal

FAMILIES = {
    "llama": dict(num_key_value_heads=2, tie_word_embeddings=False),
    "gemma2": dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=24, num_key_value_heads=2),
    "qwen3": dict(head_dim=32, num_key_value_heads=4, tie_word_embeddings=True),
}
TEXTS = 400
# Few enough that what rounding moves stays small: after forty it has grown a thousandfold, in PyTorch too.
STEPS = 20
EVERY = 5
# Enough for two passes over the data.
BATCHES = 200
HELD_OUT = 0.1
LENGTH = 96
ROWS = 4
IGNORE = 2**32 - 1
# A loss in f32 may be this far from PyTorch's, as a share of it.
EXACT = 2e-4
# A loss in fewer bits may be this many times as far from f32 as PyTorch's largest distance, and always this far.
ROUNDINGS, FLOOR = 2.0, 5e-4
BITS = 2**64 - 1


def splitmix(state):
    """One step of splitmix64 (https://prng.di.unimi.it/splitmix64.c): the number and the next state."""
    state = (state + 0x9E3779B97F4A7C15) & BITS
    mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & BITS
    return mixed ^ (mixed >> 31), state


def stable_hash(seed, text):
    """FNV-1a, mixed at the end."""
    value = 0xCBF29CE484222325 ^ seed
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & BITS
    return splitmix(value)[0]


def generator(seed):
    """xoshiro256++ (https://prng.di.unimi.it/xoshiro256plusplus.c)."""
    state = []
    for _ in range(4):
        drawn, seed = splitmix(seed)
        state.append(drawn)
    turn = lambda x, k: ((x << k) | (x >> (64 - k))) & BITS
    while True:
        yield (turn((state[0] + state[3]) & BITS, 23) + state[0]) & BITS
        shifted = (state[1] << 17) & BITS
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= shifted
        state[3] = turn(state[3], 45)


def shuffled(count, seed, purpose):
    """The order that Fisher and Yates give with Lemire's bounded draws."""
    draw, order = generator(stable_hash(seed, purpose)), list(range(count))
    for last in range(count - 1, 0, -1):
        end = last + 1
        product = next(draw) * end
        while product & BITS < (2**64 - end) % end:
            product = next(draw) * end
        other = product >> 64
        order[last], order[other] = order[other], order[last]
    return order


def texts(draw):
    """Texts of different lengths about nothing."""
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 5))) for _ in range(60)]
    return ["{}: {}".format(at, " ".join(draw.choices(words, k=draw.randint(3, 16)))) for at in range(TEXTS)]


def build(model_type, settings, folder):
    """A model with drawn weights and a tokenizer of characters."""
    characters = sorted(set("abcdefgh: 0123456789"))
    vocabulary = {text: at for at, text in enumerate(["<s>", "</s>", "<pad>", *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(pattern="", behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>").save_pretrained(folder)
    sizes = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=256)
    ends = dict(bos_token_id=0, eos_token_id=1, pad_token_id=2)
    config = AutoConfig.for_model(model_type, vocab_size=len(vocabulary), **sizes, **settings, **ends)
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model.save_pretrained(folder)


def run(program, home, work, device, dtype):
    """What Anneal says of its run: the folder of the run, the loss of each step, and that of each evaluation."""
    request = dict(
        model=str(work / "model"),
        method="full",
        data=dict(files=[str(work / "data.jsonl")], held_out=HELD_OUT),
        batch=dict(rows=ROWS, accumulate=2, length=LENGTH),
        steps=STEPS,
        learning_rate=1e-3,
        schedule=dict(kind="constant", warmup_steps=0),
        optimizer=dict(kind="adamw", beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1),
        clip_norm=1.0,
        ema=0,
        seed=3,
        device=device,
        strict=True,
        dtype=dict(compute=dtype, storage="f32"),
        evaluate=dict(every=EVERY, batches=0),
        sample=dict(every=0),
    )
    (work / "run.yaml").write_text(json.dumps(request))
    command = [program, "train", work / "run.yaml", "--json", "--home", home]
    told = subprocess.run(command, capture_output=True, text=True)
    if told.returncode != 0:
        raise RuntimeError(f"anneal train ended with {told.returncode}: {told.stdout[-2000:]} {told.stderr[-2000:]}")
    events = [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]
    (folder,) = (home / "runs").iterdir()
    losses = {it["step"]: it["loss"] for it in events if it.get("kind") == "stepped"}
    evaluated = {it["step"]: it["loss"] for it in events if it.get("kind") == "evaluated"}
    return folder, losses, evaluated


def documents(batch):
    """The documents of a batch as tokens and targets, without what fills up."""
    width, found = batch["row_length"], []
    rows = range(0, len(batch["tokens"]), width)
    for start in rows:
        parts = collections.defaultdict(list)
        for at in range(start, start + width):
            parts[batch["documents"][at]].append(at)
        for places in parts.values():
            tokens = [batch["tokens"][at] for at in places]
            targets = [batch["targets"][at] for at in places]
            assert [batch["positions"][at] for at in places] == list(range(len(places)))
            if any(target != IGNORE for target in targets):
                found.append((tokens, targets))
    return found


def loss_of(model, found, device):
    """The sum of the losses of documents, each in a row of its own, and how many targets they have."""
    longest = max(len(tokens) for tokens, _ in found)
    # What fills a row up at its end is seen by none of its tokens.
    filled = lambda numbers, with_: [*numbers, *[with_] * (longest - len(numbers))]
    tokens = torch.tensor([filled(tokens, 2) for tokens, _ in found], device=device)
    targets = [[-100 if it == IGNORE else it for it in filled(targets, IGNORE)] for _, targets in found]
    targets = torch.tensor(targets, device=device)
    logits = model(tokens, use_cache=False).logits.float()
    total = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
    return total, int((targets != -100).sum())


def replay(work, batches, held_out, device, dtype):
    """The same run in PyTorch: the loss of each step, and that of each evaluation."""
    torch.backends.cuda.matmul.allow_tf32 = False
    model = AutoModelForCausalLM.from_pretrained(work / "model", attn_implementation="eager", dtype=torch.float32).to(device)
    # Anneal's choice, which PyTorch leaves to whoever asks: biases, norms and embeddings don't decay.
    does = lambda name, weight: weight.dim() > 1 and "embed" not in name
    decays = [weight for name, weight in model.named_parameters() if does(name, weight)]
    others = [weight for name, weight in model.named_parameters() if not does(name, weight)]
    groups = [dict(params=decays, weight_decay=0.1), dict(params=others, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    narrow = torch.autocast(device, dtype=dtype, enabled=dtype is not torch.float32)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)
    losses, evaluated = {}, {}

    def evaluate(step):
        with torch.no_grad(), narrow:
            total, count = loss_of(model.eval(), held_out, device)
        evaluated[step] = total.item() / count

    evaluate(0)
    for step in range(1, STEPS + 1):
        found = [pair for batch in batches[2 * step - 2 : 2 * step] for pair in documents(batch)]
        with narrow:
            total, count = loss_of(model.train(), found, device)
        losses[step] = total.item() / count
        optimizer.zero_grad()
        scaler.scale(total / count).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if step % EVERY == 0:
            evaluate(step)
    return losses, evaluated


def check_order(batches, encoded):
    """What is wrong with the order, and which texts are held out."""
    problems, seen, passes = [], collections.Counter(), []
    rows = []
    for batch in batches:
        width = batch["row_length"]
        for start in range(0, len(batch["tokens"]), width):
            part = {name: batch[name][start : start + width] for name in ("tokens", "targets", "positions", "documents")}
            rows.append(tuple(encoded[tuple(tokens)] for tokens, _ in documents(dict(part, row_length=width))))
    first = []
    while rows and not set(rows[len(first)]) & {at for row in first for at in row}:
        first.append(rows[len(first)])
    second = rows[len(first) : 2 * len(first)]
    for number, part in enumerate((first, second)):
        seen = collections.Counter(at for row in part for at in row)
        if max(seen.values()) > 1:
            problems.append(f"pass {number} has a text twice")
        passes.append(part)
    if sorted(first) != sorted(second):
        problems.append("the second pass has other rows than the first")
    if first == second:
        problems.append("both passes have one order")
    # Both are the same rows, put in order by two draws: what brings the one back has to bring back the other.
    orders = [shuffled(len(first), 3, f"data order, epoch {number}") for number in (0, 1)]
    at = {group: row for group, row in zip(orders[0], first)}
    if [at[group] for group in orders[1]] != second:
        problems.append("the order is not that of the published generators")
    learned = {text for row in first for text in row}
    return problems, [text for text in encoded.values() if text not in learned]


def check(model_type, arguments, scratch):
    """What differs for a model of this family, in words."""
    work = scratch / model_type
    work.mkdir()
    drawn = texts(random.Random(11))
    (work / "data.jsonl").write_text("".join(json.dumps(dict(text=text)) + "\n" for text in drawn))
    build(model_type, FAMILIES[model_type], work / "model")
    problems = []
    tokenizer = Tokenizer.from_file(str(work / "model" / "tokenizer.json"))
    answer = Anneal()
    exact = {}
    dtypes = dict(f32=torch.float32, bf16=torch.bfloat16, f16=torch.float16)
    for name in ["f32"] if arguments.device == "cpu" else list(dtypes):
        home = work / f"home-{name}"
        folder, losses, evaluated = run(arguments.program, home, work, arguments.device, name)
        batches = answer.ask(ask="batches", plan=str(folder / "run.yaml"), count=BATCHES)["batches"]
        ours = {}
        for at, text in enumerate(drawn):
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            ours[tuple(ids)] = ours[tuple([*ids, 1])] = ours[tuple([0, *ids, 1])] = ours[tuple([0, *ids])] = at
        wrong, held_out = check_order(batches, ours)
        problems += [f"{name}: {problem}" for problem in wrong]
        learned_as = next(tokens for tokens, _ in documents(batches[0]))
        begins, ends = learned_as[0] == 0, learned_as[-1] == 1
        kept = []
        for at in sorted(set(held_out)):
            ids = tokenizer.encode(drawn[at], add_special_tokens=False).ids
            tokens = [0] * begins + ids + [1] * ends
            kept.append((tokens, tokens[1:] + [IGNORE]))
        if not 0.05 < len(kept) / TEXTS < 0.15:
            problems.append(f"{name}: {len(kept)} of {TEXTS} texts are held out")
        theirs = replay(work, batches, kept, arguments.device, dtypes[name])
        if name == "f32":
            exact = dict(losses=theirs[0], evaluated=theirs[1])
        off = {}
        for what, found, wanted in (("losses", losses, theirs[0]), ("evaluated", evaluated, theirs[1])):
            if found.keys() != wanted.keys():
                problems.append(f"{name}: {what} at steps {sorted(found)}, not {sorted(wanted)}")
                continue
            share = lambda numbers: max(abs(numbers[step] - exact[what][step]) / exact[what][step] for step in wanted)
            most = EXACT if name == "f32" else max(FLOOR, ROUNDINGS * share(wanted))
            off[what] = (share(found), share(wanted))
            if not share(found) <= most:
                problems.append(f"{name}: {what} are up to {share(found):.2e} apart, more than {most:.2e}")
        apart = ", ".join(f"{what} {ours:.1e} (PyTorch {theirs:.1e})" for what, (ours, theirs) in off.items())
        print(f"{model_type}, {name}: {len(kept)} held out, {losses[1]:.4f} to {losses[STEPS]:.4f}; from PyTorch in f32: {apart}", flush=True)
    return [f"{model_type}, {problem}" for problem in problems]


def main():
    """Compares every family."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        problems = [problem for name in FAMILIES for problem in check(name, arguments, Path(scratch))]
    print("\n".join(problems) or "everything agrees")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
