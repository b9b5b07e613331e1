"""Writes `puzzle-arrays`: a small folder of puzzles as the reference's builders write it, with NumPy itself.

    python tests/goldens/puzzle_arrays.py

Every array has another type, so that all of them are read: whole numbers of 1 to 8 bytes, and both byte orders.
"""

import json
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "puzzle-arrays"
SOLUTION = np.array([[1, 2, 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, 1]])


def write(part, examples, puzzles, groups, ids, types):
    folder = FOLDER / part
    folder.mkdir(parents=True, exist_ok=True)
    labels = np.stack([(SOLUTION + k) % 4 + 2 for k in range(examples)]).reshape(examples, 16)
    inputs = labels.copy()
    for k in range(examples):
        inputs[k, k::3] = 1
    labels[:, 5] = 0
    arrays = dict(inputs=inputs, labels=labels, puzzle_identifiers=ids, puzzle_indices=puzzles, group_indices=groups)
    for (name, array), kind in zip(arrays.items(), types):
        np.save(folder / f"all__{name}.npy", np.asarray(array).astype(kind))
    about = dict(pad_id=0, ignore_label_id=0, blank_identifier_id=0, vocab_size=6, seq_len=16, num_puzzle_identifiers=3,
                 total_groups=len(groups) - 1, mean_puzzle_examples=1.5, total_puzzles=len(ids), sets=["all"])
    (folder / "dataset.json").write_text(json.dumps(about))


write("train", 6, [0, 1, 3, 6], [0, 2, 3], [1, 2, 0], ["<i8", "|i1", "<u8", ">i4", "<u2"])
write("test", 2, [0, 1, 2], [0, 1, 2], [1, 2], ["|u1", ">i2", "<i4", "<i4", "<i4"])
(FOLDER / "identifiers.json").write_text(json.dumps(["<blank>", "a", "b"]))
