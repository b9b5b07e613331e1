"""Files of hidden states as h5py writes them, in the layout that probes are trained from with PyTorch; and a check of ours.

    python hdf5.py                  writes hdf5/contiguous, hdf5/chunked, hdf5/gzip and the files that have to be refused
    python hdf5.py --check FOLDER   opens what the tests left with ANNEAL_WRITE_EXPORTS=FOLDER, and compares every number
"""

import argparse
import json
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).parent / "hdf5"
LAYERS = (2, 5)
ROWS = dict(train=7, val=3, test=2)
WIDTH = 6
# Rows of texts that failed while they were captured: set aside in the file, and never written.
FAILED = dict(train=2)


def activations(layer: int, part: str) -> np.ndarray:
    """Numbers that f32 holds exactly, others for each layer, part, row and column."""
    start = list(ROWS).index(part) * 100
    rows, columns = np.mgrid[0 : ROWS[part], 0:WIDTH]
    return ((layer * 1000 + start + rows * 10 + columns) / 8 - 50).astype(np.float32)


def labels(part: str) -> np.ndarray:
    return np.arange(ROWS[part], dtype=np.int64) % 3


def write(folder: Path, dtype="float32", **storage):
    """A file for each layer, as `capture_activations` writes one in batches or whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for layer in LAYERS:
        with h5py.File(folder / f"layer_{layer}_activations.h5", "w") as file:
            file.attrs["model_name"] = "example/model"
            file.attrs["layers"] = list(LAYERS)
            for part, rows in ROWS.items():
                group = file.create_group(part)
                numbers, names = activations(layer, part), labels(part)
                failed = FAILED.get(part, 0) if storage else 0
                if failed:
                    numbers = np.concatenate([numbers, np.zeros((failed, WIDTH), np.float32)])
                    names = np.concatenate([names, np.zeros(failed, np.int64)])
                chunked = dict(storage)
                if chunked:
                    chunked["chunks"] = (min(4, len(names)), WIDTH)
                group.create_dataset("activations", data=numbers, dtype=dtype, **chunked)
                if chunked:
                    chunked["chunks"] = (min(4, len(names)),)
                group.create_dataset("labels", data=names, dtype="int64", **chunked)


def write_hostile(folder: Path):
    """Files that have to be refused: numbers in another file, links, sizes that no file holds, other numbers."""
    folder.mkdir(parents=True, exist_ok=True)

    def file(name: str):
        return h5py.File(folder / name, "w")

    with file("external.h5") as it:
        group = it.create_group("train")
        group.create_dataset("activations", (2, 3), "float32", external=[("/etc/hostname", 0, 24)])
        group.create_dataset("labels", data=np.zeros(2, np.int64))
    with file("link.h5") as it:
        it["train"] = h5py.ExternalLink("other.h5", "/train")
    with file("huge.h5") as it:
        group = it.create_group("train")
        group.create_dataset("activations", (1 << 40, 1 << 10), "float32", chunks=(1, 1 << 10))
        group.create_dataset("labels", (1 << 40,), "int64", chunks=(1 << 10,))
    with file("whole.h5") as it:
        group = it.create_group("train")
        group.create_dataset("activations", data=np.zeros((2, 3), np.int32))
        group.create_dataset("labels", data=np.zeros(2, np.int64))
    with file("uneven.h5") as it:
        group = it.create_group("train")
        group.create_dataset("activations", data=np.zeros((2, 3), np.float32))
        group.create_dataset("labels", data=np.zeros(3, np.int64))
    with file("virtual.h5") as it:
        group = it.create_group("train")
        layout = h5py.VirtualLayout((2, 3), "float32")
        layout[:] = h5py.VirtualSource("other.h5", "x", (2, 3))
        group.create_virtual_dataset("activations", layout)
        group.create_dataset("labels", data=np.zeros(2, np.int64))


def check(folder: Path):
    """What Anneal exported has to hold what the same states have as NPZ, row by row."""
    arrays = np.load(folder / "states.npz")
    rows, names = 0, list(arrays["label_names"])
    for layer in LAYERS:
        with h5py.File(folder / f"layer_{layer}_activations.h5") as file:
            assert file.attrs["model_name"] == "example/model"
            assert list(file.attrs["layers"]) == list(LAYERS)
            assert json.loads(file.attrs["label_names"]) == names
            for part in ROWS:
                at = np.flatnonzero(arrays["parts"] == part)
                found = file[part]["activations"]
                assert found.dtype == np.float32 and file[part]["labels"].dtype == np.int64
                assert np.array_equal(found[:], activations(layer, part)), (layer, part)
                assert np.array_equal(found[:], arrays[f"block.{layer}"][at])
                assert np.array_equal(file[part]["labels"][:], labels(part))
                assert np.array_equal(arrays["labels"][at].argmax(1), labels(part))
                rows += len(at)
    print(f"{rows} rows of {len(LAYERS)} layers are the same in h5py {h5py.__version__} and numpy {np.__version__}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", type=Path)
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.check)
    else:
        write(ROOT / "contiguous")
        write(ROOT / "doubles", dtype="float64")
        write(ROOT / "chunked", maxshape=None)
        write(ROOT / "gzip", compression="gzip")
        write_hostile(ROOT / "hostile")
