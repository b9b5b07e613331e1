"""Has bitsandbytes put numbers into codes of 4 and 8 bits: `codes.json` holds its tables and sums of what it made.

    python tests/goldens/codes.py

It needs `pip install torch bitsandbytes numpy`. The numbers are those of `gguf_blocks.py`, made by whole numbers alone, and a few more, so that
the last block is short. Codes are those of the kernels that bitsandbytes has for every device: the one for processors finds codes of 8 bits by
way of 65,536 steps, and not always the nearest.
"""

import json
import pathlib
import zlib

import bitsandbytes.functional as bnb
import torch

from gguf_blocks import numbers

HERE = pathlib.Path(__file__).parent


def crc(tensor):
    return zlib.crc32(tensor.contiguous().numpy().tobytes())


def main():
    tables = {name: bnb.create_dynamic_map(signed=name == "signed") for name in ("signed", "unsigned")}
    made = {f"{name}_table": crc(table) for name, table in tables.items()}
    weight = torch.from_numpy(numbers())[:, :1000].contiguous()
    # 64 rows of 1,000 are whole blocks of 64; one row less is not.
    for name, weight in (("whole", weight), ("short", weight[:61, :999].contiguous())):
        codes, largest = torch.ops.bitsandbytes.quantize_4bit.default(weight, 64, "nf4", torch.uint8)
        back = torch.ops.bitsandbytes.dequantize_4bit.default(codes, largest, 64, "nf4", weight.shape, torch.float32)
        made[f"nf4_{name}"] = {"codes": crc(codes), "largest": crc(largest), "numbers": crc(back)}
        offset = largest.mean()
        nested, nested_largest = blockwise(largest - offset, tables["signed"])
        scales = tables["signed"][nested.long()] * nested_largest.repeat_interleave(256)[: len(nested)] + offset
        made[f"nf4_nested_{name}"] = {"codes": crc(nested), "largest": crc(nested_largest), "offset": float(offset), "sum_of_scales": float(scales.double().sum())}
    (HERE / "codes.json").write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(made, indent=1))


def blockwise(numbers, table):
    """`quantize_blockwise` of bitsandbytes' default backend, which registers it without a name."""
    blocks = numbers.split(256)
    largest = torch.stack([block.abs().max() for block in blocks])
    scaled = [torch.clamp(block * (1.0 / top.clamp(min=1e-38)), -1, 1) for block, top in zip(blocks, largest)]
    bounds = (table[:-1] + table[1:]) / 2
    return torch.bucketize(torch.cat(scaled), bounds, out_int32=True).to(torch.uint8), largest


if __name__ == "__main__":
    main()
