"""Writes `sizes.json`, and compares that of a snapshot, in bounded memory.

That of a snapshot is written part by part of the table of shards. The lines of a part are known by their digest, which
the snapshot has. So the lines of a part that has not changed are copied from the file of the snapshot before, and no
table is read for them.
"""

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import BinaryIO, Protocol

from headrace.errors import NotFoundError
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import Snapshot, TablePart, read_part
from headrace.stores.storage import Content, Storage
from headrace.stores.temporary_room import temporary_room

SIZES = "sizes.json"
_OPEN, _BETWEEN, _CLOSE, _EMPTY = b"{\n", b",\n", b"\n}\n", b"{}\n"
_IN_MEMORY_BYTES = 8 << 20
_PIECE_LINES = 10_000


class Writable(Protocol):
    """A place that files are written to, such as a store."""

    def write(self, path: str, data: Content, /) -> None:
        """Write a file."""


def sizes_lines(table: ShardTable) -> bytes:
    """The lines of some shards in `sizes.json`: name and number of samples."""
    counts = table.num_samples.tolist()
    return (
        _BETWEEN.decode()
        .join([f' "{name}": {count}' for name, count in zip(table.names(), counts, strict=True)])
        .encode()
    )


def has_true_sizes(storage: Storage, snapshot: Snapshot) -> bool:
    """Whether `sizes.json` exists and is that of a snapshot, byte for byte. No table is read."""
    try:
        with storage.open(SIZES) as file:
            if not snapshot.parts:
                return file.read(len(_EMPTY) + 1) == _EMPTY
            is_true = file.read(len(_OPEN)) == _OPEN
            for part in snapshot.parts:
                after = _CLOSE if part is snapshot.parts[-1] else _BETWEEN
                is_true = is_true and _is_of(part, file.read(part.sizes_bytes)) and file.read(len(after)) == after
            return is_true and not file.read(1)
    except NotFoundError:
        return False


def mend_sizes(storage: Storage, snapshot: Snapshot, former: Snapshot | None = None) -> bool:
    """Write `sizes.json` of a snapshot, unless it is there. Returns whether it was written.

    Args:
        storage: the shard folder.
        snapshot: the snapshot.
        former: the snapshot that the present file is likely to be of; None if that is not known.

    Raises:
        FormatError, NotFoundError: a part of the table is needed, and damaged or missing.
    """
    if (former is None or former.parts == snapshot.parts) and has_true_sizes(storage, snapshot):
        return False
    _write(storage, _pieces(storage, snapshot, former or snapshot))
    return True


def write_sizes(storage: Writable, counts: Iterable[tuple[str, int]]) -> None:
    """Write `sizes.json` of a folder of tars: name and number of samples of each, in the given order."""
    _write(storage, _pieces_of(counts))


def _pieces_of(counts: Iterable[tuple[str, int]]) -> Iterator[bytes]:
    """The content of the file, some thousand lines at a time: the bytes of `manifests.json_bytes`."""
    quoted = json.JSONEncoder(ensure_ascii=False).encode
    lines = (f" {quoted(name)}: {count}" for name, count in counts)
    before = _OPEN
    while piece := list(islice(lines, _PIECE_LINES)):
        yield before + _BETWEEN.decode().join(piece).encode()
        before = _BETWEEN
    yield _EMPTY if before is _OPEN else _CLOSE


def _write(storage: Writable, pieces: Iterator[bytes]) -> None:
    """Write the file, through a temporary one if it is large."""
    first, num_bytes = [], 0
    for piece in pieces:
        first.append(piece)
        num_bytes += len(piece)
        if num_bytes > _IN_MEMORY_BYTES:
            break
    else:
        storage.write(SIZES, first)
        return
    with temporary_room(SIZES), tempfile.TemporaryFile() as file:
        file.writelines(chain(first, pieces))
        file.seek(0)
        storage.write(SIZES, file)


def _pieces(storage: Storage, snapshot: Snapshot, former: Snapshot) -> Iterator[bytes]:
    """The content of the file, about a part at a time."""
    if not snapshot.parts:
        yield _EMPTY
        return
    with contextlib.ExitStack() as stack:
        file: BinaryIO | None = None
        with contextlib.suppress(NotFoundError):
            file = stack.enter_context(storage.open(SIZES))
        places = _places(former)
        for number, part in enumerate(snapshot.parts):
            yield _BETWEEN if number else _OPEN
            lines = _copied(file, part, places.get(part.sizes_sha256))
            yield sizes_lines(read_part(storage, part)) if lines is None else lines
    yield _CLOSE


def _places(snapshot: Snapshot) -> dict[str, int]:
    """Digest of the lines of a part → where they begin in the snapshot's file."""
    places, start = dict[str, int](), len(_OPEN)
    for part in snapshot.parts:
        places[part.sizes_sha256] = start
        start += part.sizes_bytes + len(_BETWEEN)
    return places


def _copied(file: BinaryIO | None, part: TablePart, start: int | None) -> bytes | None:
    """The lines of a part from the present file; None if they are not there."""
    if file is None or start is None:
        return None
    file.seek(start)
    lines = file.read(part.sizes_bytes)
    return lines if _is_of(part, lines) else None


def _is_of(part: TablePart, lines: bytes) -> bool:
    return hashlib.sha256(lines).hexdigest() == part.sizes_sha256
