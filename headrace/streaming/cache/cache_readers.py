"""The files in a cache folder that say what each process is reading, and at which position.

A process that makes room computes from them when the other processes of its job need a shard: the order is a function,
so position and rank are enough. A file `.reader-ID` begins with the position, two little-endian int64 (epoch and row),
which its process overwrites as it goes on. JSON follows, which does not change. The process holds a lock on the file;
without a lock, the file is left over from a dead process.
"""

import contextlib
import fcntl
import json
import os
import re
import struct
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.format.typed_json import json_value
from headrace.streaming.concurrency.file_locks import is_held, lock, release

_POSITION = struct.Struct("<qq")
_NAME = re.compile(r"\.reader-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class ReadData:
    """Shards that a process reads: those of one split of a folder.

    Attributes:
        uri: of the folder.
        split: None for all.
    """

    uri: str
    split: str | None

    def overlaps(self, other: "ReadData") -> bool:
        """Whether some shards may be of both."""
        return self.uri == other.uri and (self.split == other.split or None in {self.split, other.split})


@dataclass(frozen=True, slots=True)
class ReaderFacts:
    """Order, rank and data of a process that reads.

    Attributes:
        order: digest of all that the order of its samples depends on, besides the epoch.
        rank: its rank.
        world_size: the number of ranks.
        data: the shards that it reads through this cache.
    """

    order: str
    rank: int
    world_size: int
    data: tuple[ReadData, ...]

    def to_bytes(self) -> bytes:
        """The file of a reader at the beginning of epoch 0."""
        return _POSITION.pack(0, 0) + json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class ReaderAt:
    """A process that reads, and the row of the epoch that it has reached."""

    facts: ReaderFacts
    epoch: int
    row: int


class RegisteredReader:
    """The file of this process; closed, it is gone."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def moved(self, epoch: int, row: int) -> None:
        """Write the position."""
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, _POSITION.pack(epoch, row), 0)

    def close(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        release(self._descriptor)


def register(folder: Path, facts: ReaderFacts) -> RegisteredReader:
    """Write the file of a reader; the caller holds the lock of the folder. Raises `OSError`."""
    path = folder / f".reader-{uuid.uuid4().hex}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    made = RegisteredReader(path, descriptor)
    try:
        os.pwrite(descriptor, facts.to_bytes(), 0)
    except OSError:
        made.close()
        raise
    return made


def is_of_reader(name: str) -> bool:
    """Whether a file name is one of a reader, dead or alive."""
    return _NAME.fullmatch(name) is not None


def readers(folder: Path) -> list[ReaderAt]:
    """The live readers of a cache folder; files that cannot be read are left out."""
    names = os.listdir(folder)  # noqa: PTH208 - names suffice
    paths = [folder / name for name in names if is_of_reader(name)]
    return [found for path in paths if is_held(path) and (found := _parsed(path)) is not None]


def _parsed(path: Path) -> ReaderAt | None:
    try:
        blob = path.read_bytes()
        epoch, row = _POSITION.unpack_from(blob)
        fields: dict[str, Any] = json_value(blob[_POSITION.size :])
        data = tuple(ReadData(str(one["uri"]), one["split"]) for one in fields["data"])
        facts = ReaderFacts(str(fields["order"]), int(fields["rank"]), int(fields["world_size"]), data)
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None
    return ReaderAt(facts, epoch, row) if min(epoch, row, facts.rank) >= 0 and facts.world_size > 0 else None
