"""Which type each tensor has in our mixes and in those of llama.cpp's own tool, from the same F16 file.

    anneal export MODEL --to gguf-f16 --out F16.gguf      # and the mixes to compare
    python tests/peers/peer_mixes.py F16.gguf q8_0=OURS.gguf q4_k_m=OURS.gguf ...

Prints the tensors whose types differ, and how many bytes of those with equal types are equal.
"""

import ctypes
import sys
import tempfile

import llama_cpp
from gguf import GGUFReader

FILE_TYPES = {"q4_0": 2, "q8_0": 7, "q4_k_m": 15, "q5_k_m": 17, "q6_k": 18}


def main():
    whole, *ours = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for asked in ours:
            mix, path = asked.split("=", 1)
            how = llama_cpp.llama_model_quantize_default_params()
            how.ftype, how.nthread = FILE_TYPES[mix], 2
            made = f"{folder}/{mix}.gguf"
            assert llama_cpp.llama_model_quantize(whole.encode(), made.encode(), ctypes.byref(how)) == 0
            theirs = {it.name: it for it in GGUFReader(made).tensors}
            own = {it.name: it for it in GGUFReader(path).tensors}
            assert own.keys() == theirs.keys()
            other = [(name, own[name].tensor_type.name, it.tensor_type.name) for name, it in theirs.items() if own[name].tensor_type != it.tensor_type]
            same = [name for name in theirs if own[name].tensor_type == theirs[name].tensor_type]
            equal = sum((own[name].data == theirs[name].data).sum() for name in same)
            total = sum(theirs[name].data.size for name in same)
            print(mix, "tensors", len(own), "of another type", other[:5], "equal", f"{equal / total:.6f}")


if __name__ == "__main__":
    main()
