"""Writes goldens as GGUF files, by the writer of the package `gguf`, and has llama.cpp compute with them.

    python tests/goldens/gguf_files.py [--check]

Each `gguf/NAME.gguf` holds the model of the golden NAME with the names, orders of rows and keys that llama.cpp wants, in f32; with
`--check`, llama.cpp's logits for the golden's tokens are compared with those of transformers, which are the golden's. It needs
`pip install gguf llama-cpp-python safetensors`. What llama.cpp can't express is folded into weights where that is exact: the scale
of Gemma's scores, into q or its norm. llama.cpp leaves the window of Phi 3 out, so there it is far off; in Gemma's GELU it rounds.
"""

import argparse
import json
import math
import pathlib

import numpy as np
from gguf import GGUFWriter
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).parent
CASES = [
    "llama-plain-v5", "llama-tied-v5", "llama-bias-v5", "llama-head-dim-v5", "llama-rope-linear-v5", "llama-rope-yarn-v5",
    "mistral-full-v5", "qwen2-plain-v5", "qwen3-plain-v5", "gemma2-plain-v5", "gemma3-plain-v5", "phi3-plain-v5", "phi3-longrope-long-v5",
]
ARCHITECTURES = {"gemma3_text": "gemma3", "mistral": "llama"}
BLOCK = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
GEMMA = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def renamed(name, is_gemma):
    if name in WHOLE:
        return WHOLE[name]
    _, _, block, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{block}.{ {**BLOCK, **(GEMMA if is_gemma else {})}[part]}.{kind}"


def neighbours(weight, heads):
    """Rows whose numbers are turned together stand half a head apart in a checkpoint, and side by side in GGUF."""
    width = weight.shape[0] // heads
    return weight.reshape(heads, 2, width // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def tensors(config, weights):
    family = config["model_type"]
    is_gemma = family.startswith("gemma")
    for name, weight in weights.items():
        weight = weight.astype(np.float32)
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        for part, heads in [("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")]:
            if part in name and family in ("llama", "mistral", "smollm3"):
                weight = neighbours(weight, config[heads])
        if is_gemma and name.endswith("norm.weight"):
            weight = weight + 1
        if is_gemma:
            fold = math.sqrt(config["head_dim"] / config["query_pre_attn_scalar"])
            if name.endswith("q_norm.weight" if family == "gemma3_text" else "q_proj.weight"):
                weight = weight * np.float32(fold)
        yield renamed(name, is_gemma), np.ascontiguousarray(weight)


def keys(writer, config):
    family = config["model_type"]
    heads, width = config["num_attention_heads"], config["hidden_size"]
    head_dim = config.get("head_dim") or width // heads
    rope = config["rope_parameters"]
    local = rope.get("sliding_attention")
    rope = rope.get("full_attention", rope)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1)))
    writer.add_vocab_size(config["vocab_size"])
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_string(f"{writer.arch}.rope.scaling.type", rope["rope_type"])
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_float32(f"{writer.arch}.rope.scaling.yarn_beta_fast", rope["beta_fast"])
        writer.add_float32(f"{writer.arch}.rope.scaling.yarn_beta_slow", rope["beta_slow"])
    if family == "phi3":
        original = config.get("original_max_position_embeddings") or config["max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_sliding_window(config.get("sliding_window") or 0)
        if rope["rope_type"] == "longrope":
            for which in ("long", "short"):
                writer.add_tensor(f"rope_factors_{which}.weight", np.array(rope[f"{which}_factor"], np.float32))
            stretch = config["max_position_embeddings"] / original
            writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(stretch) / math.log(original)) if stretch > 1 else 1.0)
    if family == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if family.startswith("gemma"):
        writer.add_sliding_window(config["sliding_window"])
        slides = [kind == "sliding_attention" for kind in config["layer_types"]]
        writer.add_array(f"{writer.arch}.attention.sliding_window_pattern", slides)
    if local:
        writer.add_float32(f"{writer.arch}.rope.freq_base_swa", local["rope_theta"])


def write(case):
    config = json.loads((HERE / case / "config.json").read_text())
    file = HERE / "gguf" / f"{case}.gguf"
    file.parent.mkdir(exist_ok=True)
    writer = GGUFWriter(file, ARCHITECTURES.get(config["model_type"], config["model_type"]))
    writer.add_type("model")
    keys(writer, config)
    writer.add_string("tokenizer.ggml.model", "no_vocab")
    for name, weight in tensors(config, load_file(HERE / case / "model.safetensors")):
        writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def check(case, file):
    import llama_cpp

    golden = load_file(HERE / case / "golden.safetensors")
    model = llama_cpp.Llama(
        str(file), n_ctx=64, n_batch=64, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0, flash_attn=False, swa_full=True
    )
    far = 0
    for tokens, expected in zip(golden["tokens"], golden["logits"]):
        model.reset()
        model.eval([int(token) for token in tokens])
        far = max(far, np.abs(np.array(model.scores[: len(tokens)]) - expected).max())
    print(f"{case}: llama.cpp is {far:.1e} off, of logits up to {np.abs(golden['logits']).max():.1f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    for case in CASES:
        file = write(case)
        if asked.check:
            check(case, file)


if __name__ == "__main__":
    main()
