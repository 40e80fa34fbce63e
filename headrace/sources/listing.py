"""Facts about files in a listing of a source: path, size, modification time and change time.

`Listing` is a chunk of a listing as Python columns. `SourceStamps` holds the listing of a whole source as numpy arrays,
40 bytes per file, so that a sensor compares a hundred thousand files within a few megabytes and without polars. To make
its rows equally wide, it stores a digest of each path.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.stores.temporary_room import temporary_room

PATH_DIGEST = np.dtype("S16")
"""Numpy strips trailing zero bytes of such values. All rows have the same width, so comparing them is still exact."""

ABSENT = -1
"""Size and times of an entry that cannot be opened."""

NO_CTIME = 0
"""Change time of a file for which it is not known, and of an object of a store that has no ETags."""

_GATHERED_BYTES = 1 << 20
_LATEST_NS = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Size and times of a file. A file whose stamp is unchanged is taken to be unchanged.

    Attributes:
        num_bytes: size.
        mtime_ns: modification time, nanoseconds since 1970. Programs can set it, as `cp -p` does.
        ctime_ns: change time of the inode, which only the file system sets; for an object of a store, a number that
            depends on its ETag; `NO_CTIME` if neither is known.
    """

    num_bytes: int
    mtime_ns: int
    ctime_ns: int = NO_CTIME

    @classmethod
    def of(cls, status: os.stat_result) -> "FileStamp":
        """The stamp of a local file."""
        return cls(status.st_size, tabled_ns(status.st_mtime_ns), tabled_ns(status.st_ctime_ns))


def tabled_ns(mtime_ns: int) -> int:
    """A modification time as tables hold it, in 64 bits: times before 1677 and after 2262 become the nearest of these.

    File systems and clocks give such times, and they say nothing about the recording.
    """
    return max(-_LATEST_NS, min(mtime_ns, _LATEST_NS))


@dataclass(slots=True)
class Listing:
    """A chunk of the files of a source, as columns with one entry per file.

    Attributes:
        path: relative POSIX paths.
        num_bytes: sizes; None for an entry that cannot be opened.
        mtime_ns: modification times in nanoseconds since 1970; None for an entry that cannot be opened.
        ctime_ns: change times in nanoseconds since 1970; None for an entry that cannot be opened.
        code: why an entry is rejected (`Reject`); None for a file that can be opened.
        reason: the same as a sentence.
    """

    path: list[str] = field(default_factory=list)
    num_bytes: list[int | None] = field(default_factory=list)
    mtime_ns: list[int | None] = field(default_factory=list)
    ctime_ns: list[int | None] = field(default_factory=list)
    code: list[str | None] = field(default_factory=list)
    reason: list[str | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.path)

    def add(self, path: str, stamp: FileStamp | None, code: str | None = None, reason: str | None = None) -> None:
        """Append one entry; without a stamp if it cannot be opened."""
        self.path.append(path)
        self.num_bytes.append(None if stamp is None else stamp.num_bytes)
        self.mtime_ns.append(None if stamp is None else tabled_ns(stamp.mtime_ns))
        self.ctime_ns.append(None if stamp is None else tabled_ns(stamp.ctime_ns))
        self.code.append(code)
        self.reason.append(reason)


@dataclass(frozen=True, slots=True)
class SourceStamps:
    """Stamps of all files of a source, one row per file, sorted by all columns.

    Attributes:
        paths: S16 (n,), the first 16 bytes of the SHA-256 of each path (UTF-8).
        num_bytes: int64 (n,), sizes; `ABSENT` for an entry that cannot be opened.
        mtime_ns: int64 (n,), modification times in nanoseconds since 1970; `ABSENT` for an entry that cannot be opened.
        ctime_ns: int64 (n,), change times likewise; for objects of a store as in `FileStamp`.
    """

    paths: np.ndarray[Any, np.dtype[np.bytes_]]
    num_bytes: np.ndarray[Any, np.dtype[np.int64]]
    mtime_ns: np.ndarray[Any, np.dtype[np.int64]]
    ctime_ns: np.ndarray[Any, np.dtype[np.int64]]

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def columns(self) -> tuple[np.ndarray[Any, Any], ...]:
        """All columns, in order."""
        return self.paths, self.num_bytes, self.mtime_ns, self.ctime_ns

    @property
    def digest(self) -> str:
        """Fingerprint (32 hex digits): equal if and only if all paths, sizes and times are equal."""
        digest = hashlib.sha256()
        for column in self.columns:
            digest.update(column.tobytes())
        return digest.hexdigest()[:32]

    def equals(self, other: "SourceStamps") -> bool:
        """Whether both hold the same files with the same stamps."""
        return all(map(np.array_equal, self.columns, other.columns))

    def where(self, rows: np.ndarray[Any, Any]) -> "SourceStamps":
        """Selected rows: by row numbers, or by a mask, bool (n,)."""
        return SourceStamps(*(column[rows] for column in self.columns))

    def distinct(self) -> "SourceStamps":
        """Each row once."""
        is_new = np.ones(len(self), np.bool_)
        is_new[1:] = np.any([column[1:] != column[:-1] for column in self.columns], axis=0)
        return self.where(is_new)

    def are_in(self, other: "SourceStamps") -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether `other`, which has each path only once, has a row's file with the same stamp: bool (n,)."""
        if not len(other):
            return np.zeros(len(self), np.bool_)
        there = other.where(np.searchsorted(other.paths, self.paths).clip(max=len(other) - 1))
        is_same = [here == other for here, other in zip(self.columns, there.columns, strict=True)]
        return np.asarray(np.all(is_same, axis=0), np.bool_)


def stamps_of(
    paths: Iterable[str],
    num_bytes: Iterable[int | None],
    mtime_ns: Iterable[int | None],
    ctime_ns: Iterable[int | None] | None = None,
) -> SourceStamps:
    """Stamps of files given as columns, in any order; `ctime_ns` is None for objects of a store."""
    digests = b"".join(hashlib.sha256(path.encode()).digest()[: PATH_DIGEST.itemsize] for path in paths)
    sizes = _filled(num_bytes)
    changed = np.full(len(sizes), NO_CTIME, np.int64) if ctime_ns is None else _filled(ctime_ns)
    columns = [np.frombuffer(digests, PATH_DIGEST), sizes, _filled(mtime_ns), changed]
    return sorted_stamps(columns.__getitem__)


def concatenated(parts: Sequence[SourceStamps]) -> SourceStamps:
    """Stamps of all parts together."""
    parts = parts or [stamps_of((), (), ())]
    return sorted_stamps(lambda at: np.concatenate([part.columns[at] for part in parts]))


def sorted_stamps(column: Callable[[int], np.ndarray[Any, Any]]) -> SourceStamps:
    """Stamps of columns in any order. `column` returns one by its number; one at a time is held beside the result."""
    paths = column(0)
    order = np.argsort(paths, kind="stable")
    paths = paths[order]
    if (paths[1:] == paths[:-1]).any():  # fields of several rows name one file
        order = np.lexsort([column(at) for at in (3, 2, 1, 0)])
        paths = column(0)[order]
    return SourceStamps(paths, *(column(at)[order] for at in (1, 2, 3)))


def _filled(values: Iterable[int | None]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.fromiter((ABSENT if value is None else value for value in values), np.int64)


class GatheredStamps:
    """Gathers stamps part by part in temporary files, 40 bytes a file; `close` deletes them.

    Each column is in memory while it is small.
    """

    def __init__(self) -> None:
        """No stamps yet."""
        self._dtypes = [column.dtype for column in stamps_of((), (), ()).columns]
        self._files = [tempfile.SpooledTemporaryFile(_GATHERED_BYTES) for _ in self._dtypes]  # noqa: SIM115 - `close` closes them
        self._num_rows = 0

    def __len__(self) -> int:
        return self._num_rows

    def add(self, stamps: SourceStamps) -> None:
        """Add the stamps of a part. Raises `StorageError` if the temporary folder is full."""
        self._num_rows += len(stamps)
        with temporary_room("a listing"):
            for file, column in zip(self._files, stamps.columns, strict=True):
                file.write(column.tobytes())

    def all(self) -> SourceStamps:
        """All stamps so far, sorted."""
        return sorted_stamps(self._column)

    def close(self) -> None:
        """Forget all stamps."""
        for file in self._files:
            with suppress(OSError):
                file.close()

    def _column(self, at: int) -> np.ndarray[Any, Any]:
        with temporary_room("a listing"):
            self._files[at].seek(0)
            return np.frombuffer(self._files[at].read(), self._dtypes[at])
