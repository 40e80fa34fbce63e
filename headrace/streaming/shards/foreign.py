"""Plain WebDatasets as shards to read: indexed on first use.

Owns the indexes made of other people's shards, and where they are kept. Tars may be compressed; such ones are indexed
from their unpacked form in the cache. Which shards there are is `finding`'s.
"""

import contextlib
import hashlib
import io
import json
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from headrace.errors import ConfigError, FormatError, SampleCountError
from headrace.index import ShardIndex, index_name
from headrace.indexing import index_tar
from headrace.storage import LocalStorage, Storage, Transfer
from headrace.streaming.parallel import map_on_threads
from headrace.streaming.shards.finding import TAR_SUFFIXES, find_shards, hint
from headrace.streaming.shards.opened import UNKNOWN_SIZE
from headrace.streaming.shards.shardset import Identity, ListedShards, ShardSet
from headrace.streaming.shards.unpacking import ZIP_SUFFIXES, unpacker_of

_INDEXES_AT_ONCE = 8
_PIECE_BYTES = 1 << 20
_DIGITS_IN_NAME = 12  # of the digest, where a name holds it (`manifests.shard_name`)

VERSION = "version"
"""Note of an index that says of which version of the shard it is (`Storage.version`)."""


@dataclass(frozen=True, slots=True)
class IndexKeeper:
    """Reads or makes the indexes of foreign shards (`ShardSet.load_index`).

    An index beside its shard has the shard's digest, and counts unless the shard was written after it; one that is made
    says in its notes, as `VERSION`, of which version of the shard it is.

    Attributes:
        folder: where indexes that were made are kept; None keeps none.
        versions: of shards that were asked for theirs before.
        counts: samples of each shard, by its name, where they were told: what the order of samples stands on.
        counted_by: what told them, for messages.
        complaints: why an index could not be kept, once that was said; shared with those made from this one.
    """

    folder: Path | None
    versions: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    counted_by: str = ""
    complaints: list[str] = field(default_factory=list, compare=False)

    def __call__(self, storage: Storage, shard: str) -> ShardIndex:
        """The index of a shard: the one beside it if it has one, else one kept or made.

        Raises:
            SampleCountError: it has more or fewer samples than was told.
            FormatError: the shard is not a WebDataset.
            IntegrityError: it is compressed and damaged.
        """
        index = self._found_or_made(storage, shard)
        told = self.counts.get(shard, len(index))
        if told != len(index):
            raise SampleCountError(
                f"{storage.uri}/{shard}: holds {len(index)} samples, {self.counted_by} says {told}: fetch or build it "
                "again, or run `headrace index` if it was changed on purpose"
            )
        return index

    def _found_or_made(self, storage: Storage, shard: str) -> ShardIndex:
        beside = index_name(shard)
        if shard not in self.versions and shard.endswith(".tar") and storage.exists(beside):
            index = ShardIndex.from_bytes(storage.read(beside), f"{storage.uri}/{beside}")
            if not _is_outdated(storage, shard, index):
                return index
        version = self.versions.get(shard) or storage.version(shard)
        kept = self._kept(storage, shard, version)
        if kept is not None and (found := _read_kept(kept)) is not None:
            return found
        with _opened_tar(storage, shard) as file:
            size = file.seek(0, io.SEEK_END)
            made = index_tar(file, shard, num_bytes=size)
        index = replace(made, notes={VERSION: version})
        if kept is not None:
            self._keep(kept, index)
        return index

    def _keep(self, path: Path, index: ShardIndex) -> None:
        """Keep an index for the next start; a folder that cannot be written costs one warning, nothing else."""
        try:
            LocalStorage(path.parent).write(path.name, index.to_bytes())
        except OSError as error:
            reason = str(error.__cause__ or error)
            if not self.complaints:
                self.complaints.append(reason)
                warnings.warn(
                    f"{path.parent}: no index can be kept there ({reason}). Until then every start, and every process "
                    "that reads, makes those of its shards again, which takes reading the shards: point local= to a "
                    "folder that can be written, or write indexes beside the shards with `headrace index`",
                    stacklevel=2,
                )

    def _kept(self, storage: Storage, shard: str, version: str) -> Path | None:
        """Where its index is kept; the name changes with the file."""
        if self.folder is None:
            return None
        digest = hashlib.sha256(f"{storage.uri}\0{shard}\0{version}".encode()).hexdigest()
        return self.folder / f"{digest[:32]}.idx"


def _is_outdated(storage: Storage, shard: str, index: ShardIndex) -> bool:
    """Whether a local shard was written after its index: tars are padded, so another content may have the same size.

    One that is named by its content, as ours are, is what its index says, in whichever order a copy wrote the two.
    """
    if index.sha256 and shard.endswith(f"-{index.sha256[:_DIGITS_IN_NAME]}.tar"):
        return False
    tar, beside = storage.local_path(shard), storage.local_path(index_name(shard))
    return tar is not None and beside is not None and tar.stat().st_mtime_ns > beside.stat().st_mtime_ns


@contextlib.contextmanager
def _opened_tar(storage: Storage, shard: str) -> Iterator[BinaryIO]:
    """The shard's tar, unpacked into a temporary file if it is compressed. Raises `IntegrityError` if it cannot be."""
    with storage.open(shard) as file:
        if not shard.endswith(ZIP_SUFFIXES):
            yield file
            return
        with tempfile.TemporaryFile() as unpacked:
            unpacker = unpacker_of(f"{storage.uri}/{shard}")
            while piece := file.read(_PIECE_BYTES):
                unpacked.writelines(unpacker.unpacked(piece))
            unpacker.finish()
            yield cast("BinaryIO", unpacked)


def _read_kept(path: Path) -> ShardIndex | None:
    try:
        return ShardIndex.from_bytes(path.read_bytes(), str(path))
    except (OSError, FormatError):
        return None


def open_foreign(
    remote: str, split: str | None, index_folder: Path | None, transfer: Transfer | None, snapshot: int | None = None
) -> ShardSet:
    """The shards of a plain WebDataset, in the order of their names (of a brace pattern: in its order).

    Inside an output of ours, those of its newest snapshot, or of the one whose number is `snapshot`.

    Raises:
        ConfigError: there are none, `split` fits none of them, or a `snapshot` is asked of what has none.
        NotFoundError: the snapshot is gone.
        FormatError: a shard is not a WebDataset, or there is no sample in any.
        IntegrityError: a compressed shard is damaged.
    """
    found = find_shards(remote, split, transfer, snapshot)
    storage, names = found.storage, list(found.names)
    counts = None if found.counts is None else list(found.counts)
    if not names:
        raise ConfigError(f"{remote}: no snapshot and no shards ({', '.join(TAR_SUFFIXES)}) there; {hint(storage)}")
    keeper = IndexKeeper(index_folder)
    sizes, versions, counted_by = [UNKNOWN_SIZE] * len(names), dict[str, str](), remote
    if counts is None:
        indexes = _index_all(storage, names, keeper)
        counts, sizes = [len(index) for index in indexes], [index.num_bytes for index in indexes]
        noted = {name: index.notes.get(VERSION) for name, index in zip(names, indexes, strict=True)}
        versions = {name: version for name, version in noted.items() if version}
        counted_by = "what was there when the data set was opened"
    if not any(counts):
        raise FormatError(
            f"{remote}: no sample in any of its {len(names)} shards (the first is {storage.uri}/{names[0]}): a sample "
            "is neighbouring files KEY.flac, KEY.json, …; check how they were written"
        )
    told = dict(zip(names, counts, strict=True))
    keeper = replace(keeper, versions=versions, counts=told, counted_by=counted_by)
    shards = ListedShards(tuple(names), np.array(counts, np.int32), np.array(sizes, np.int64))
    text = json.dumps([names, counts, sizes])
    identity = Identity(remote, split, found.snapshot, hashlib.sha256(text.encode()).hexdigest())
    return ShardSet(storage, shards, identity, keeper)


def _index_all(storage: Storage, names: Sequence[str], keeper: IndexKeeper) -> list[ShardIndex]:
    found: list[ShardIndex] = []
    for start in range(0, len(names), _INDEXES_AT_ONCE):
        found += map_on_threads(lambda name: keeper(storage, name), names[start : start + _INDEXES_AT_ONCE], "index")
    return found
