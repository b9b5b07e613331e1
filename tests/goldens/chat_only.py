"""Tiny models of families that Anneal opens for chat only, with what transformers computes of them.

    python chat_only.py        # or: chat_only.py olmo2 glm4

Each is a checkpoint as `save_pretrained` writes it, and `expected.json`: tokens, the logits [t, v] at each of them, and the tokens that
are most likely one after the other. Needs transformers 5 and torch 2.15.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from decoder import fill, made_by
from decoder_cases import BASE

FOLDER = Path(__file__).parent / "chat_only"
# What is left out is as the family has it.
SIZES = {name: value for name, value in BASE.items() if name not in ("rms_norm_eps", "tie_word_embeddings")}
EXPERTS = dict(num_experts_per_tok=2, num_experts=4, moe_intermediate_size=12)
CASES = {
    "gemma": dict(head_dim=8, rope_theta=10000.0),
    "glm4": dict(head_dim=8),
    "helium": dict(head_dim=6),
    "mixtral": dict(num_local_experts=4, num_experts_per_tok=2),
    "olmo": dict(clip_qkv=None),
    "olmo2": dict(),
    "qwen2_moe": dict(EXPERTS, shared_expert_intermediate_size=20, norm_topk_prob=True),
    "qwen3_moe": dict(EXPERTS, head_dim=8, norm_topk_prob=True),
    "starcoder2": dict(use_bias=True),
}
TOKENS = [5, 17, 42, 8, 23, 11, 40, 3, 33, 29, 7, 19]
WRITTEN = 10


def make(name):
    config = AutoConfig.for_model(name, **SIZES | CASES[name])
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    fill(model)
    folder = FOLDER / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    (folder / "expected.json").write_text(json.dumps(expected_of(model)) + "\n")


def expected_of(model):
    with torch.no_grad():
        logits = model(torch.tensor([TOKENS])).logits[0]
        written = model.generate(torch.tensor([TOKENS]), max_new_tokens=WRITTEN, do_sample=False, eos_token_id=None, pad_token_id=0)
    return dict(
        made_by=made_by(),
        tokens=TOKENS,
        logits=[[round(value, 6) for value in row] for row in logits.tolist()],
        written=written[0, len(TOKENS) :].tolist(),
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        make(name)
