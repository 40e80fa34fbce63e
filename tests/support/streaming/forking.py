"""A process that forks workers over a store after it has used the store itself; `test_forks` runs it.

Arguments: what it did before, or how it is hampered; the remote; a folder for the cache, beside which the file `begun`
says when all was imported. Prints the keys that came, or how many processes read, or which errors there were.
"""

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from headrace import StreamingDataLoader, StreamingDataset, collate, webdataset_loader
from headrace.stores.storage import Storage, open_storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
    """Number of processes, each forked from the one before, that read equal entries; they exit in order."""
    storage = open_storage(remote)
    entries = list(storage.list("snapshots/"))
    pid = os.fork() if depth else None
    if pid == 0:
        same = list(storage.list("snapshots/")) == entries
        sys.exit(generations(remote, depth - 1) + 1 if same else 0)
    return 0 if pid is None else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def errors(remote: str, num_threads: int) -> list[str]:
    """Error of each thread of a forked process when all begin at once and no copy can be made."""
    storage = open_storage(remote)
    list(storage.list("snapshots/"))
    del os.memfd_create
    here, there = os.pipe()
    if os.fork() == 0:
        together = threading.Barrier(num_threads)

        def error() -> str:
            together.wait()
            return type(storage_error(storage)).__name__

        with ThreadPoolExecutor(num_threads) as pool:
            found = [future.result() for future in [pool.submit(error) for _ in range(num_threads)]]
        os.write(there, json.dumps(found).encode())
        os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        return list(json.loads(pipe.read()))


def inherited(remote: str, cache: str) -> dict[str, list[object]]:
    """For each iterator that a forked process inherits: its error there, and how many items the first process gets."""

    def dataset() -> StreamingDataset:
        return StreamingDataset(remote=remote, local=cache, split="train", batch_size=8)

    kinds: dict[str, Iterable[Any]] = {
        "threads": StreamingDataLoader(dataset()),
        "workers": StreamingDataLoader(dataset(), num_workers=2),
        "samples": dataset(),
        "webdataset": webdataset_loader(remote, split="train", num_workers=0),
        "webdataset's workers": webdataset_loader(remote, split="train", num_workers=2),
    }
    return {kind: _inherited(iter(loader)) for kind, loader in kinds.items()}


def _inherited(items: "Iterator[Any]") -> list[object]:
    next(items)
    here, there = os.pipe()
    if os.fork() == 0:
        try:
            next(items)
        except Exception as error:  # noqa: BLE001 - whatever it is
            os.write(there, type(error).__name__.encode())
        del items  # which must not end the workers of the other process
        # The interpreter's own end would terminate the workers, since multiprocessing does not look whose they are.
        os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        name = pipe.read().decode()
    return [name, 1 + sum(1 for _ in items)]


def storage_error(storage: Storage) -> Exception | None:
    """Error that reading raises."""
    try:
        storage.read("sizes.json")
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    return None


def found(mode: str, remote: str, cache: str) -> object:
    """Result of a mode, to be printed."""
    if mode == "generations":
        return generations(remote, 3)
    if mode == "inherited":
        return inherited(remote, cache)
    return errors(remote, 16) if mode == "crowd" else keys(mode, remote, cache)


if __name__ == "__main__":
    Path(sys.argv[3]).with_name("begun").touch()
    sys.stdout.write(json.dumps(found(*sys.argv[1:])))
