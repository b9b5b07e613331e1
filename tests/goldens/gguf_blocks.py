"""Has ggml put numbers into blocks: `gguf_blocks.json` holds a sum of what it made of them, and how far they are from the numbers.

    python tests/goldens/gguf_blocks.py

It needs `pip install numpy gguf llama-cpp-python`; ggml is the library in the latter. The numbers are made by whole numbers alone, so that
they are the same everywhere: rows of 1,024, each with another range, and among them rows of zeros, of one number and of only positive
numbers. Blocks of Q8_0, Q4_0, Q5_0 and Q5_1 are to be equal bit for bit. What Q4_K, Q5_K and Q6_K are is found by a search in f32, so
there the error counts: the root of the mean square, relative to that of the numbers.
"""

import ctypes
import json
import pathlib
import zlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).parent
ROWS, WIDTH = 64, 1024
TYPES = {"Q8_0": 8, "Q4_0": 2, "Q5_0": 6, "Q5_1": 7, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14}


def numbers():
    at = np.arange(ROWS * WIDTH, dtype=np.uint64)
    parts = [((at * np.uint64(factor) + np.uint64(77)) % np.uint64(1 << 32) >> np.uint64(12)).astype(np.float64) / (1 << 20) - 0.5
             for factor in (2654435761, 2246822519, 3266489917)]
    # The sum of three is nearly normal, and exact in f32.
    rows = sum(parts).reshape(ROWS, WIDTH) * 2.0 ** (np.arange(ROWS) % 9 - 6)[:, None]
    rows[5], rows[6], rows[7] = 0.0, 0.375, np.abs(rows[7])
    rows[8, ::3] = 0.0
    return rows.astype(np.float32)


def main():
    import llama_cpp

    library = ctypes.CDLL(str(next(pathlib.Path(llama_cpp.__file__).parent.glob("lib/libggml-base.so*"))))
    chunk = library.ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    x = np.ascontiguousarray(numbers())
    made = {}
    for name, number in TYPES.items():
        kind = gguf.GGMLQuantizationType(number)
        block, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = np.zeros(x.size // block * size, np.uint8)
        written = chunk(number, x.ctypes.data, blocks.ctypes.data, 0, ROWS, WIDTH, None)
        assert written == blocks.size, (name, written)
        back = gguf.dequantize(blocks.reshape(ROWS, -1), kind).astype(np.float64)
        error = np.sqrt(np.mean((back - x) ** 2) / np.mean(x.astype(np.float64) ** 2))
        made[name] = {"crc32": zlib.crc32(blocks.tobytes()), "error": float(error)}
    (HERE / "gguf_blocks.json").write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
