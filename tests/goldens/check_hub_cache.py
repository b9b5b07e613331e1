"""Reads a cache that Anneal made with Python's own library, without a network.

    HF_HUB_CACHE=FOLDER python check_hub_cache.py MAKER/NAME

Every file that the revision `main` has must be found through its link, and nothing about the cache may be odd. The other way
round, `anneal hub list` shows what `snapshot_download` fetched. Exit code 0 if all agrees.
"""

import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download

name = sys.argv[1]
folder = Path(snapshot_download(name, local_files_only=True))
files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
assert files, f"{folder} is empty"
for file in files:
    found = Path(hf_hub_download(name, file, local_files_only=True))
    assert found.resolve().parent.name == "blobs", f"{found} leads to {found.resolve()}"

cache = scan_cache_dir()
repositories = [repo for repo in cache.repos if repo.repo_id == name]
assert not cache.warnings, cache.warnings
assert len(repositories) == 1 and repositories[0].refs.keys() == {"main"}, cache.repos
print(f"{name}: {len(files)} files, {cache.size_on_disk} bytes")
