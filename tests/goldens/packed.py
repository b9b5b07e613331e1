"""Writes one tiny Llama with its weights packed by bitsandbytes (NF4, with and without nested scales) and by mlx, and what it computes.

    python tests/goldens/packed.py

It needs `pip install torch transformers bitsandbytes mlx mlx-cpu safetensors`. The logits are those of Transformers in f32 on the weights as
those programs unpack them. `packed/NAME` is a folder as their users have it; `packed/NAME/golden.json` holds tokens and logits.
"""

import json
import pathlib
import shutil

import bitsandbytes.functional as bnb
import mlx.core as mx
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent / "packed"
TOKENS = [[5, 17, 42, 3, 60, 21, 8, 33]]


def is_packed(name, with_tables):
    is_table = "embed_tokens" in name or "lm_head" in name
    return name.endswith("proj.weight") or (with_tables and is_table)


def nf4(nested):
    def pack(name, weight):
        codes, state = bnb.quantize_4bit(weight, blocksize=64, compress_statistics=nested, quant_type="nf4")
        packed = {name: codes}
        for ending, tensor in state.as_dict(packed=True).items():
            packed[f"{name}.{ending}"] = tensor
        return packed, bnb.dequantize_4bit(codes, state)

    return pack


def mlx(bits):
    def pack(name, weight):
        whole = mx.array(weight.numpy())
        words, scales, biases = mx.quantize(whole, group_size=64, bits=bits)
        layer = name.removesuffix(".weight")
        number = lambda it: torch.from_numpy(np.array(it))
        packed = {name: number(words), f"{layer}.scales": number(scales), f"{layer}.biases": number(biases)}
        return packed, number(mx.dequantize(words, scales, biases, group_size=64, bits=bits))

    return pack


BNB = {
    "quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_compute_dtype": "float32", "bnb_4bit_quant_storage": "uint8", "llm_int8_skip_modules": ["lm_head"],
}
MLX = {"group_size": 64, "mode": "affine"}
CASES = {
    "nf4": (nf4(False), False, {"quantization_config": {**BNB, "bnb_4bit_use_double_quant": False}}),
    "nf4-nested": (nf4(True), False, {"quantization_config": {**BNB, "bnb_4bit_use_double_quant": True}}),
    "mlx-4": (mlx(4), True, {key: {**MLX, "bits": 4} for key in ("quantization", "quantization_config")}),
    "mlx-8": (mlx(8), True, {"quantization": {**MLX, "bits": 8}}),
}


def main():
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64, initializer_range=0.2,
    )
    model = LlamaForCausalLM(config).eval()
    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    for name, (pack, with_tables, said) in CASES.items():
        stored, unpacked = {}, {}
        for weight, tensor in weights.items():
            packed, unpacked[weight] = pack(weight, tensor) if is_packed(weight, with_tables) else ({weight: tensor}, tensor)
            stored.update(packed)
        model.load_state_dict(unpacked)
        with torch.no_grad():
            logits = model(torch.tensor(TOKENS)).logits
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        save_file({key: it.contiguous() for key, it in stored.items()}, folder / "model.safetensors", {"format": "pt"})
        about = {**json.loads(config.to_json_string()), **said, "architectures": ["LlamaForCausalLM"]}
        (folder / "config.json").write_text(json.dumps(about, indent=1) + "\n")
        golden = {"tokens": TOKENS, "logits": [round(it, 6) for it in logits.flatten().tolist()]}
        (folder / "golden.json").write_text(json.dumps(golden) + "\n")
        print(name, logits.abs().max().item())


if __name__ == "__main__":
    main()
