"""Tiny GGUF files of families that Anneal opens for chat only, with what transformers computes of them.

    python chat_only_gguf.py [--check]

`chat_only/gguf/NAME/f32.gguf` and `q8_0.gguf` hold the same numbers: those that matrices stand for once they were put into Q8_0. In the
second, Phi 2 has q, k and v apart, with v in f16. Of these
`expected.json` has what transformers computes, as `chat_only.py` writes it. With `--check`, llama.cpp reads the files too. Needs
transformers 5, torch 2.15 and gguf; llama-cpp-python to check.
"""

import json
import sys

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize, quantize
from transformers import AutoConfig, AutoModelForCausalLM

from chat_only import FOLDER, TOKENS, expected_of
from decoder import fill

SIZES = dict(
    vocab_size=48, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, rope_theta=10000.0, partial_rotary_factor=0.5, tie_word_embeddings=False, pad_token_id=0,
)
CASES = {
    "glm4": dict(head_dim=16, rms_norm_eps=1e-5, attention_bias=True),
    "phi2": dict(model_type="phi", num_key_value_heads=4, layer_norm_eps=1e-5, hidden_act="gelu_new", qk_layernorm=False),
}
WHOLE = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "model.final_layernorm": "output_norm", "lm_head": "output",
}
BLOCK = {
    "glm4": {
        "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "post_self_attn_layernorm": "post_attention_norm", "post_attention_layernorm": "ffn_norm",
        "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "post_mlp_layernorm": "post_ffw_norm",
    },
    "phi2": {
        "input_layernorm": "attn_norm", "self_attn.dense": "attn_output", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
    },
}
APART = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v"}
Q8_0 = GGMLQuantizationType.Q8_0


def keys(writer, config):
    heads, width = config.num_attention_heads, config.hidden_size
    head_dim = getattr(config, "head_dim", None) or width // heads
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(head_dim // 2)
    if writer.arch == "glm4":
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(SIZES["rope_theta"])
    else:
        writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_string("tokenizer.ggml.model", "no_vocab")
    writer.add_vocab_size(config.vocab_size)


def tensors(architecture, model, apart):
    """The tensors by their names in GGUF. Old files of Phi 2 have q, k and v in one there."""
    state = model.state_dict()
    for name, tensor in state.items():
        part, kind = name.rsplit(".", 1)
        if part in WHOLE:
            yield f"{WHOLE[part]}.{kind}", tensor.numpy()
            continue
        _, _, block, part = part.split(".", 3)
        if apart and part in APART:
            yield f"blk.{block}.{APART[part]}.{kind}", tensor.numpy()
        elif architecture == "phi2" and part == "self_attn.q_proj":
            joined = [state[name.replace("q_proj", which)] for which in ("q_proj", "k_proj", "v_proj")]
            yield f"blk.{block}.attn_qkv.{kind}", torch.cat(joined).numpy()
        elif part in BLOCK[architecture]:
            yield f"blk.{block}.{BLOCK[architecture][part]}.{kind}", tensor.numpy()


def write(file, architecture, model, in_blocks):
    writer = GGUFWriter(file, architecture)
    writer.add_type("model")
    keys(writer, model.config)
    for name, tensor in tensors(architecture, model, apart=in_blocks):
        if in_blocks and architecture == "phi2" and name.endswith("attn_v.weight"):
            writer.add_tensor(name, tensor.astype(np.float16))
        elif in_blocks and tensor.ndim == 2:
            writer.add_tensor(name, quantize(tensor, Q8_0), raw_dtype=Q8_0)
        else:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check(file, expected):
    import llama_cpp

    model = llama_cpp.Llama(str(file), n_ctx=64, n_batch=64, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0)
    model.eval(TOKENS)
    logits = np.array(expected["logits"])
    far = np.abs(np.array(model.scores[: len(TOKENS)]) - logits).max() / np.abs(logits).max()
    print(f"{file.parent.name}/{file.name}: llama.cpp is {far:.1e} off, of the largest")


def make(architecture):
    settings = SIZES | CASES[architecture]
    config = AutoConfig.for_model(settings.pop("model_type", architecture), **settings)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    fill(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.copy_(torch.from_numpy(dequantize(quantize(parameter.numpy(), Q8_0), Q8_0)))
    folder = FOLDER / "gguf" / architecture
    folder.mkdir(parents=True, exist_ok=True)
    expected = expected_of(model)
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    for name, in_blocks in [("f32.gguf", False), ("q8_0.gguf", True)]:
        write(folder / name, architecture, model, in_blocks)
        if "--check" in sys.argv:
            check(folder / name, expected)


if __name__ == "__main__":
    for architecture in CASES:
        make(architecture)
