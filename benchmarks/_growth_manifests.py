"""Rows of `growth` about manifests and snapshots: what reading and committing synthetic manifests costs.

The rows of one size share a folder, in this order: manifests are written, committed, changed in one partition, and
committed again. Only the shards of the partition that changes exist as files, with their indexes.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.length_census import LengthCensus, count_lengths
from headrace.format.manifests.manifests import (
    Manifest,
    NumberedManifest,
    ShardEntry,
    bucket_of,
    commit_manifest,
    newest_manifest,
    newest_manifests,
    shard_name,
)
from headrace.format.manifests.planned_keys import digest_of, pack_keys
from headrace.format.manifests.stored_census import StoredCensus
from headrace.format.shards.journal import note_shard
from headrace.format.shards.shard_files import sizes_of_shards, with_unnamed
from headrace.format.snapshots import commits
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.format.snapshots.summaries import newest_summaries
from headrace.stores.storage import LocalStorage
from headrace.streaming.opened.stored_lengths import stored_census
from headrace.streaming.settings import SampleSettings
from headrace.streaming.shards.shard_set import ShardSet, snapshot_shards
from headrace.upkeep.gc import find_garbage

Figures = dict[str, float]
_SECONDS = 5.0
_CHANGED = "train-0007"
_MOST_FILES = 100_000


def write(folder: Path, size: dict[str, int]) -> Figures:
    """Writes the manifests of all partitions, with their files of planned keys."""
    storage = _audio(folder)
    with mock.patch.object(os, "fsync"):  # a disk's time is not measured
        for bucket in range(size["partitions"]):
            _write_partition(storage, f"train-{bucket:04d}", size, size["shards"] // size["partitions"])
    return {"manifest_bytes": _bytes(folder, "*/*.json"), "keys_bytes": _bytes(folder, "*/*.keys")}


def summaries_first(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """A sensor's tick before the first snapshot: every manifest is new."""
    return {"partitions_read": len(newest_summaries(_audio(folder)))}


def manifests_whole(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """Every newest manifest, parsed and held, as `build.py` does for its report."""
    return {"partitions_read": len(newest_manifests(_audio(folder)))}


def commit_first(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """The first commit: everything is new. Shards are not looked for."""
    storage = _audio(folder)
    with _shards_assumed():
        commit_snapshot(storage, newest_summaries(storage), "catalog", {})
    return {"root_bytes": _bytes(folder, "../snapshots/*.json"), "sizes_bytes": storage.size("sizes.json")}


def commit_nothing(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """A commit of an unchanged state."""
    storage = _audio(folder)
    assert not commit_snapshot(storage, newest_summaries(storage), "catalog", {})[1]
    return {}


def change(folder: Path, size: dict[str, int]) -> Figures:
    """Writes one new shard of one partition, and files for the others of the partition."""
    storage = _audio(folder)
    _write_partition(storage, _CHANGED, size, size["shards"] // size["partitions"] + 1, with_files=True)
    return {}


def summaries(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """A sensor's tick after one partition has got a new shard."""
    newest_summaries(_audio(folder))
    return {}


def commit_one_shard(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """The commit of one new shard; its files are looked for."""
    storage = _audio(folder)
    written = []
    own = LocalStorage.write

    def write_counted(self: LocalStorage, path: str, data: object) -> None:
        own(self, path, data)  # type: ignore[arg-type] - passed on
        written.append((path, self.size(path)))

    with mock.patch.object(LocalStorage, "write", write_counted):
        assert commit_snapshot(storage, newest_summaries(storage), "catalog", {})[1]
    sizes = sum(num_bytes for path, num_bytes in written if path == "sizes.json")
    parts = sum(num_bytes for path, num_bytes in written if path.endswith(".shards"))
    roots = sum(num_bytes for path, num_bytes in written if path.endswith(".proposed"))
    return {"sizes_bytes": sizes, "part_bytes": parts, "root_bytes": roots}


def open_table(folder: Path, size: dict[str, int]) -> Figures:
    """The table of shards, as a training job opens it."""
    storage = _audio(folder)
    snapshot = read_snapshot(storage).snapshot
    table = read_table(storage, snapshot)
    assert len(table) == size["shards"] + 1
    return {"parts": len(snapshot.parts)}


def open_lengths(folder: Path, size: dict[str, int]) -> Figures:
    """Length counts of each shard, as the first start of `FrameBudget` on a host reads them."""
    storage = _audio(folder)
    shards, data = snapshot_shards(storage, read_snapshot(storage), "train")
    census = stored_census(ShardSet(storage, shards, data, read_index), SampleSettings())
    assert census is not None
    assert len(census.counts) == size["shards"] + 1
    return {"cells": len(census.longest)}


def gc_names(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """Search for garbage as a gc does: manifests and tables are read, and the folder is listed."""
    (found,) = find_garbage(LocalStorage(folder), keep=1, now_seconds=4e9)
    return {"garbage_files": len(found.entries)}


def make_files(folder: Path, size: dict[str, int]) -> Figures:
    """Makes the files of the next two rows: empty tars and indexes of up to 10⁵ shards, and a partition's journal."""
    storage, per_partition = _files(folder), size["shards"] // size["partitions"]
    storage.root.mkdir()
    num_partitions = min(size["partitions"], _MOST_FILES // per_partition)
    for bucket in range(num_partitions):
        partition = f"train-{bucket:04d}"
        for name in (_name(partition, number) for number in range(per_partition)):
            if partition == _CHANGED:
                note_shard(storage, name)
            storage.local_path(name).touch()
            storage.local_path(index_name(name)).touch()
    return {"files": 2 * num_partitions * per_partition}


def files_listed(folder: Path, size: dict[str, int]) -> Figures:  # noqa: ARG001
    """Files of one partition by a listing of its prefix, in a local folder with the tars and indexes of all."""
    storage = _files(folder)
    return {"files": len(list(storage.list("train_0007_")))}


def files_by_name(folder: Path, size: dict[str, int]) -> Figures:
    """Files of one partition by name, as the partition's run finds them: those of its manifest and of its journal."""
    storage = _files(folder)
    names = [_name(_CHANGED, number) for number in range(size["shards"] // size["partitions"])]
    sizes = sizes_of_shards(storage, "train_0007_", names)
    return {"files": len(with_unnamed(storage, "train_0007_", sizes))}


def _files(folder: Path) -> LocalStorage:
    return LocalStorage(folder / "files")


ROWS: dict[str, Callable[[Path, dict[str, int]], Figures]] = {
    "write": write,
    "summaries_first": summaries_first,
    "manifests_whole": manifests_whole,
    "commit_first": commit_first,
    "commit_nothing": commit_nothing,
    "change": change,
    "summaries": summaries,
    "commit_one_shard": commit_one_shard,
    "open_table": open_table,
    "open_lengths": open_lengths,
    "gc_names": gc_names,
    "make_files": make_files,
    "files_listed": files_listed,
    "files_by_name": files_by_name,
}


def _audio(folder: Path) -> LocalStorage:
    return LocalStorage(folder / "audio")


def _bytes(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in (folder / "audio/manifests").glob(pattern))


@contextlib.contextmanager
def _shards_assumed() -> Iterator[None]:
    """A block in which commits look for no shards, which are not there."""
    with (
        mock.patch.object(commits, "sizes_of_shards", return_value={}),
        mock.patch.object(Manifest, "is_whole", return_value=True),
    ):
        yield


def _write_partition(
    storage: LocalStorage, partition: str, size: dict[str, int], num_shards: int, *, with_files: bool = False
) -> NumberedManifest:
    samples = size["samples_per_shard"]
    shards = tuple(_entry(partition, number, samples) for number in range(num_shards))
    keys = pack_keys(
        [f"{partition}-{number:06d}-{row:04d}-3f2a9c8e71d0" for row in range(samples)] for number in range(num_shards)
    )
    if with_files:
        for shard in shards:
            for name, num_bytes in ((shard.name, shard.num_bytes), (index_name(shard.name), 1)):
                path = storage.local_path(name)
                path.touch()
                os.truncate(path, num_bytes)
    wanted = hashlib.sha256(f"{partition} {num_shards}".encode()).hexdigest()
    layout = {"samples_per_shard": samples}
    lengths = speech_lengths(num_shards, samples)
    manifest = Manifest(partition, wanted, wanted, layout, shards, (), digest_of(keys), lengths)
    return commit_manifest(storage, manifest, newest_manifest(storage, partition), keys)


def speech_lengths(num_shards: int, samples: int) -> StoredCensus:
    """Counts of utterances of 1 to 30 s at 16 kHz, of which shards have one of 100 sets."""
    random = np.random.default_rng(num_shards)
    frames = np.clip(random.lognormal(1.8, 0.7, (min(num_shards, 100), samples)), 1, 30) * 16_000
    counted = count_lengths([(np.full(len(frames), samples), frames.astype(np.int64).ravel())])
    counts = counted.counts[np.arange(num_shards) % len(frames)]
    return StoredCensus.of(LengthCensus(counted.first_cell, counts, counted.longest), 16_000)


def _entry(partition: str, number: int, samples: int) -> ShardEntry:
    digest, name = _digest(partition, number), _name(partition, number)
    seconds = _SECONDS * samples
    return ShardEntry(name, 10_000_000, samples, round(seconds * 44_100), seconds, digest, samples)


def _name(partition: str, number: int) -> str:
    return shard_name("", "train", bucket_of(partition), number, _digest(partition, number))


def _digest(partition: str, number: int) -> str:
    return hashlib.sha256(f"{partition} {number}".encode()).hexdigest()
