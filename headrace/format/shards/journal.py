"""Journals of the shards that were written to a local folder, one for each partition.

A build that was killed leaves shards that no manifest names, and the next build uses them. In an object store, a
listing by the partition's prefix finds them. A local folder has no such listing: reading it costs as much as all of its
files. So a writer notes a shard's name in a hidden file before it writes the shard. The journals only say what to look
for: a name without a file does no harm, and a file without a name is made again. They are not part of the format.
"""

from collections.abc import Collection
from pathlib import Path

from headrace.format.manifests.manifests import is_shard_name
from headrace.stores.client_errors import translated_errors
from headrace.stores.storage import Storage

_FOLDER = ".journal"
_MOST_MISSING = 100


def note_shard(storage: Storage, name: str) -> None:
    """Note, in a local folder, that a shard is about to be written."""
    folder = _folder(storage)
    if folder is not None:
        with translated_errors(name, storage.uri):
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / _partition_of(name)).open("ab", buffering=0) as file:  # one write: lines are not mixed
                file.write(f"{name}\n".encode())


def noted_shards(storage: Storage, file_prefix: str) -> list[str] | None:
    """Names of the shards of a partition that were noted, in order; None if no journals can be read.

    Args:
        storage: the shard folder.
        file_prefix: start of the file names of the partition's shards, such as `train_0003_`.
    """
    folder = _folder(storage)
    try:
        if folder is None or not folder.is_dir():
            return None
        lines = (folder / file_prefix.removesuffix("_")).read_bytes().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError:  # the disk fails: the folder is listed instead
        return None
    names = dict.fromkeys(line for line in lines if line.startswith(file_prefix) and is_shard_name(line))
    return list(names)


def all_noted(storage: Storage) -> list[str]:
    """Names of all shards that were noted, of every partition; none in a store that is not a local folder."""
    folder = _folder(storage)
    try:
        journals = [] if folder is None else sorted(path.name for path in folder.iterdir())
    except OSError:
        return []
    return [name for journal in journals for name in noted_shards(storage, f"{journal}_") or ()]


def forget_missing(storage: Storage, file_prefix: str, names: Collection[str]) -> None:
    """Drop all names but these from a partition's journal, if most of it is about shards that do not exist any more.

    A name that another build notes at this moment may be dropped, too: its shard is then made again if need be.
    """
    noted, folder = noted_shards(storage, file_prefix), _folder(storage)
    if folder is None or noted is None or len(noted) <= _MOST_MISSING + 2 * len(names):
        return
    journal = f"{_FOLDER}/{file_prefix.removesuffix('_')}"
    storage.write(journal, "".join(f"{name}\n" for name in noted if name in names).encode())


def _folder(storage: Storage) -> Path | None:
    path = storage.local_path("sizes.json")
    return None if path is None else path.parent / _FOLDER


def _partition_of(name: str) -> str:
    """The journal of a shard: `train_0003` of `train_0003_000012-1a2b3c4d5e6f.tar`."""
    return name.rpartition("_")[0]
