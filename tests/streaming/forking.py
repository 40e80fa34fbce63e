"""A process that forks workers over a store after it has used the store itself; `test_forks` runs it.

Arguments: what it did before, or how it is hampered; the remote; a folder for the cache. Prints the keys that came, or
how many processes read.
"""

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from headrace import StreamingDataLoader, StreamingDataset, collate
from headrace.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterable


def keys(mode: str, remote: str, cache: str) -> list[list[str]]:
    """Keys of each batch of the next epoch."""
    dataset = StreamingDataset(remote=remote, local=cache, split="train", batch_size=8)
    if mode == "read":
        list(StreamingDataLoader(dataset))
        dataset.load_state_dict(StreamingDataset(remote=remote, local=cache, split="train", batch_size=8).state_dict())
    if mode == "hampered":
        del os.memfd_create
    loader: Iterable[dict[str, Any]]
    if mode == "ours":
        loader = StreamingDataLoader(dataset, num_workers=2, multiprocessing_context="fork")
    else:
        loader = DataLoader(dataset, batch_size=8, num_workers=2, collate_fn=collate, multiprocessing_context="fork")
    return [batch["keys"] for batch in loader]


def generations(remote: str, depth: int) -> int:
    """How many processes, each forked from the one before, read the same; they exit in order."""
    storage = open_storage(remote)
    entries = list(storage.list("snapshots/"))
    pid = os.fork() if depth else None
    if pid == 0:
        same = list(storage.list("snapshots/")) == entries
        sys.exit(generations(remote, depth - 1) + 1 if same else 0)
    return 0 if pid is None else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    mode, remote, cache = sys.argv[1:]
    found = generations(remote, 3) if mode == "generations" else keys(mode, remote, cache)
    sys.stdout.write(json.dumps(found))
