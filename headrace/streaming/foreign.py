"""Plain WebDatasets: finding their shards, and indexing them on first use.

Owns the forms that a user may name one by: a folder, a `sizes.json`, a shell glob or a brace pattern; and where the
indexes made of them are kept. A glob or folder inside an output of ours is filtered by its newest snapshot, because old
and new shards share it. Tars may be compressed; such ones are indexed from their unpacked form in the cache.
"""

import fnmatch
import hashlib
import io
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from headrace.errors import ConfigError, FormatError, NotFoundError
from headrace.index import ShardIndex, index_name
from headrace.indexing import index_tar
from headrace.snapshots import read_snapshot, read_table, snapshot_numbers
from headrace.storage import Entry, LocalStorage, Storage, Transfer, open_storage
from headrace.streaming.download import ZIP_SUFFIXES, unpacker_of
from headrace.streaming.opened import UNKNOWN_SIZE
from headrace.streaming.parallel import map_on_threads
from headrace.streaming.shardset import Identity, ListedShards, ShardSet

TAR_SUFFIXES = (".tar", *ZIP_SUFFIXES)
_PATTERN = re.compile(r"[*?\[{]")
_RANGE = re.compile(r"^(-?\d+)\.\.(-?\d+)$")
_INDEXES_AT_ONCE = 8
_PIECE_BYTES = 1 << 20

VERSION = "version"
"""Note of an index that says of which version of the shard it is (`Storage.version`)."""


def is_pattern(remote: str) -> bool:
    """Whether a remote names files rather than a folder; a folder that is there may hold any character in its name."""
    if _is_local_folder(remote):
        return False
    return bool(_PATTERN.search(remote)) or remote.endswith((".json", *TAR_SUFFIXES))


def expand_braces(pattern: str) -> list[str]:
    """Every name that a brace pattern stands for, in its order; a shell's rules for `{a,b}` and `{000..010}`.

    >>> expand_braces("{train,test}-{08..10}.tar")[:4]
    ['train-08.tar', 'train-09.tar', 'train-10.tar', 'test-08.tar']
    """
    parts = re.split(r"\{([^{}]*)\}", pattern)
    choices = [[part] if place % 2 == 0 else _choices(part) for place, part in enumerate(parts)]
    return ["".join(names) for names in itertools.product(*choices)]


def _choices(text: str) -> list[str]:
    match = _RANGE.match(text)
    if match is None:
        return text.split(",") if "," in text else ["{" + text + "}"]
    first, last = match.groups()
    width = max(len(first), len(last)) if first.startswith("0") or last.startswith("0") else 0
    step = 1 if int(first) <= int(last) else -1
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + step, step)]


@dataclass(frozen=True, slots=True)
class IndexKeeper:
    """Reads or makes the indexes of foreign shards (`ShardSet.load_index`).

    An index beside its shard has the shard's digest; one that is made says in its notes, as `VERSION`, of which version
    of the shard it is.

    Attributes:
        folder: where indexes that were made are kept; None keeps none.
        versions: of shards that were asked for theirs before.
    """

    folder: Path | None
    versions: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, storage: Storage, shard: str) -> ShardIndex:
        """The index of a shard: the one beside it if it has one, else one kept or made."""
        beside = index_name(shard)
        if shard not in self.versions and shard.endswith(".tar") and storage.exists(beside):
            return ShardIndex.from_bytes(storage.read(beside), f"{storage.uri}/{beside}")
        version = self.versions.get(shard) or storage.version(shard)
        kept = self._kept(storage, shard, version)
        if kept is not None and (found := _read_kept(kept)) is not None:
            return found
        with _opened_tar(storage, shard) as file:
            size = file.seek(0, io.SEEK_END)
            made = index_tar(file, shard, num_bytes=size)
        index = replace(made, notes={VERSION: version})
        if kept is not None:
            LocalStorage(kept.parent).write(kept.name, index.to_bytes())
        return index

    def _kept(self, storage: Storage, shard: str, version: str) -> Path | None:
        """Where its index is kept; the name changes with the file."""
        if self.folder is None:
            return None
        digest = hashlib.sha256(f"{storage.uri}\0{shard}\0{version}".encode()).hexdigest()
        return self.folder / f"{digest[:32]}.idx"


def _opened_tar(storage: Storage, shard: str) -> BinaryIO:
    """The shard's tar, unpacked into a temporary file if it is compressed."""
    if not shard.endswith(ZIP_SUFFIXES):
        return storage.open(shard)
    unpacker, unpacked = unpacker_of(shard), tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    with storage.open(shard) as file:
        while piece := file.read(_PIECE_BYTES):
            unpacked.write(unpacker.decompress(piece))
    return cast("BinaryIO", unpacked)


def _read_kept(path: Path) -> ShardIndex | None:
    try:
        return ShardIndex.from_bytes(path.read_bytes(), str(path))
    except (FileNotFoundError, FormatError):
        return None


def open_foreign(remote: str, split: str | None, index_folder: Path | None, transfer: Transfer | None) -> ShardSet:
    """The shards of a plain WebDataset, in the order of their names (of a brace pattern: in its order).

    Raises:
        ConfigError: there are none, or `split` fits none of them.
        FormatError: a shard is not a WebDataset.
    """
    found = find_shards(remote, split, transfer)
    storage, names = found.storage, list(found.names)
    counts = None if found.counts is None else list(found.counts)
    if not names:
        raise ConfigError(f"{remote}: no snapshot and no shards ({', '.join(TAR_SUFFIXES)}) there; {_hint(storage)}")
    keeper = IndexKeeper(index_folder)
    sizes = [UNKNOWN_SIZE] * len(names)
    if counts is None:
        indexes = _index_all(storage, names, keeper)
        counts, sizes = [len(index) for index in indexes], [index.num_bytes for index in indexes]
        versions = {name: index.notes.get(VERSION) for name, index in zip(names, indexes, strict=True)}
        keeper = IndexKeeper(index_folder, {name: version for name, version in versions.items() if version})
    shards = ListedShards(tuple(names), np.array(counts, np.int32), np.array(sizes, np.int64))
    text = json.dumps([names, counts, sizes])
    identity = Identity(remote, split, None, hashlib.sha256(text.encode()).hexdigest())
    return ShardSet(storage, shards, identity, keeper)


def _index_all(storage: Storage, names: Sequence[str], keeper: IndexKeeper) -> list[ShardIndex]:
    found: list[ShardIndex] = []
    for start in range(0, len(names), _INDEXES_AT_ONCE):
        found += map_on_threads(lambda name: keeper(storage, name), names[start : start + _INDEXES_AT_ONCE], "index")
    return found


@dataclass(frozen=True, slots=True)
class FoundShards:
    """The shards that a folder, `sizes.json` or pattern names.

    Attributes:
        storage: where they are.
        names: their paths in it, in order; none when nothing matches.
        counts: samples of each where a `sizes.json` was named, else None.
    """

    storage: Storage
    names: tuple[str, ...]
    counts: tuple[int, ...] | None = None


def find_shards(remote: str, split: str | None, transfer: Transfer | None = None) -> FoundShards:
    """The shards of a plain WebDataset, unopened; those that the newest snapshot of an output no longer names left out.

    Raises:
        ConfigError: `split` fits none of them.
        NotFoundError: one that is named in full, or the `sizes.json`, is not there.
    """
    if not is_pattern(remote):
        storage, names = _in_folder(open_storage(remote, transfer), split)
        return FoundShards(storage, tuple(names))
    folder, _, last = _split_pattern(remote)
    storage = open_storage(folder, transfer)
    if remote.endswith(".json"):
        sizes = json.loads(storage.read(last))
        chosen = _of_split(list(sizes), split)
        return FoundShards(storage, tuple(chosen), tuple(int(sizes[name]) for name in chosen))
    names = [name for pattern in expand_braces(last) for name in _matching(storage, pattern)]
    return FoundShards(storage, tuple(_of_split(_current(storage, list(dict.fromkeys(names))), split)))


def _split_pattern(remote: str) -> tuple[str, str, str]:
    """The folder before the first special character, or a longer one that is there, and the rest."""
    match = _PATTERN.search(remote)
    slashes = [slash.start() for slash in re.finditer("/", remote) if match and slash.start() > match.start()]
    for at in reversed(slashes):
        if _is_local_folder(remote[:at]):
            return remote[:at], "/", remote[at + 1 :]
    plain = remote[: match.start()] if match else remote
    folder, slash, _ = plain.rpartition("/")
    return folder or ("/" if slash else "."), slash, remote[len(folder) + len(slash) :]


def _is_local_folder(name: str) -> bool:
    return "://" not in name and Path(name).is_dir()


def _matching(storage: Storage, pattern: str) -> Iterator[str]:
    """Names that match a shell glob, sorted; `*` stops at `/`. A plain name must be there."""
    if not _PATTERN.search(pattern):
        if not storage.exists(pattern):
            raise NotFoundError(f"{storage.uri}/{pattern}: the shard is not there")
        yield pattern
        return
    prefix = pattern[: _PATTERN.search(pattern).start()]  # type: ignore[union-attr]
    for name in _tars(storage.list(prefix)):
        if name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern):
            yield name


def _in_folder(storage: Storage, split: str | None) -> tuple[Storage, list[str]]:
    """The shards directly in a folder, or in its subfolder `split` as MosaicML's layout has it."""
    names = [name for name in _tars(storage.list()) if "/" not in name]
    if split is not None and not names:
        below = storage.at(split)
        return below, [name for name in _tars(below.list()) if "/" not in name]
    return storage, _of_split(names, split)


def _tars(entries: Iterable[Entry]) -> Iterator[str]:
    return (entry.path for entry in entries if entry.path.endswith(TAR_SUFFIXES))


def _of_split(names: Sequence[str], split: str | None) -> list[str]:
    """Names whose file begins with the split."""
    if split is None:
        return list(names)
    found = [name for name in names if re.match(rf"(latent_)?{re.escape(split)}([._-]|\d|$)", name.rpartition("/")[2])]
    if names and not found:
        raise ConfigError(f"split={split!r}: none of {len(names)} shards begins with it (the first is {names[0]})")
    return found


def _current(storage: Storage, names: list[str]) -> list[str]:
    """Without the shards that the newest snapshot of their folder, an output of ours, no longer names."""
    kept: dict[str, frozenset[str] | None] = {}
    for folder in {name.rpartition("/")[0] for name in names}:
        below = storage.at(folder) if folder else storage
        kept[folder] = frozenset(_newest_names(below)) if snapshot_numbers(below) else None
    parts = [(name, *name.rpartition("/")[::2]) for name in names]
    return [name for name, folder, file in parts if (current := kept[folder]) is None or file in current]


def _newest_names(storage: Storage) -> list[str]:
    return read_table(storage, read_snapshot(storage).snapshot).names()


def _hint(storage: Storage) -> str:
    if isinstance(storage, LocalStorage) and (storage.root / "audio").is_dir():
        return f"name its folder of shards: {os.fspath(storage.root / 'audio')}"
    return "build the data set, or check the path"
