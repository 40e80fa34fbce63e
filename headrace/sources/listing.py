"""What a listing of a source contains about its files: path, size and modification time.

`Listing` is a chunk of a listing as Python columns. `SourceStamps` holds the listing of a whole source as numpy arrays,
32 bytes per file, so that a sensor compares a hundred thousand files within a few megabytes and without polars. To make
its rows equally wide, it stores a digest of each path.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PATH_DIGEST = np.dtype("S16")
"""Numpy strips trailing zero bytes of such values. All rows have the same width, so comparing them is still exact."""

ABSENT = -1
"""Size and modification time of an entry that cannot be opened."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Size and modification time of a file. A file whose stamp is unchanged is taken to be unchanged."""

    num_bytes: int
    mtime_ns: int


@dataclass(slots=True)
class Listing:
    """A chunk of the files of a source, as columns with one entry per file.

    Attributes:
        path: relative POSIX paths.
        num_bytes: sizes; None for an entry that cannot be opened.
        mtime_ns: modification times in nanoseconds since 1970; None for an entry that cannot be opened.
        code: why an entry is rejected (`Reject`); None for a file that can be opened.
        reason: the same as a sentence.
    """

    path: list[str] = field(default_factory=list)
    num_bytes: list[int | None] = field(default_factory=list)
    mtime_ns: list[int | None] = field(default_factory=list)
    code: list[str | None] = field(default_factory=list)
    reason: list[str | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.path)

    def add(self, path: str, size: int | None, mtime_ns: int | None, code: str | None, reason: str | None) -> None:
        """Append one entry."""
        self.path.append(path)
        self.num_bytes.append(size)
        self.mtime_ns.append(mtime_ns)
        self.code.append(code)
        self.reason.append(reason)


@dataclass(frozen=True, slots=True)
class SourceStamps:
    """Stamps of all files of a source, one row per file, sorted by all three columns.

    Attributes:
        paths: S16 (n,), the first 16 bytes of the SHA-256 of each path (UTF-8).
        num_bytes: int64 (n,), sizes; `ABSENT` for an entry that cannot be opened.
        mtime_ns: int64 (n,), modification times in nanoseconds since 1970; `ABSENT` for an entry that cannot be opened.
    """

    paths: np.ndarray[Any, np.dtype[np.bytes_]]
    num_bytes: np.ndarray[Any, np.dtype[np.int64]]
    mtime_ns: np.ndarray[Any, np.dtype[np.int64]]

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def digest(self) -> str:
        """Fingerprint (32 hex digits): equal if and only if all paths, sizes and modification times are equal."""
        digest = hashlib.sha256()
        for column in (self.paths, self.num_bytes, self.mtime_ns):
            digest.update(column.tobytes())
        return digest.hexdigest()[:32]

    def equals(self, other: "SourceStamps") -> bool:
        """Whether both hold the same files with the same stamps."""
        return (
            np.array_equal(self.paths, other.paths)
            and np.array_equal(self.num_bytes, other.num_bytes)
            and np.array_equal(self.mtime_ns, other.mtime_ns)
        )

    def where(self, rows: np.ndarray[Any, Any]) -> "SourceStamps":
        """Selected rows: by row numbers, or by a mask, bool (n,)."""
        return SourceStamps(self.paths[rows], self.num_bytes[rows], self.mtime_ns[rows])

    def distinct(self) -> "SourceStamps":
        """Each row once."""
        columns = (self.paths, self.num_bytes, self.mtime_ns)
        is_new = np.ones(len(self), np.bool_)
        is_new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        return self.where(is_new)

    def are_in(self, other: "SourceStamps") -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether `other`, which has each path only once, has a row's file with the same stamp: bool (n,)."""
        if not len(other):
            return np.zeros(len(self), np.bool_)
        there = other.where(np.searchsorted(other.paths, self.paths).clip(max=len(other) - 1))
        is_same = (there.num_bytes == self.num_bytes) & (there.mtime_ns == self.mtime_ns)
        return np.asarray(is_same & (there.paths == self.paths), np.bool_)


def stamps_of(paths: Iterable[str], num_bytes: Iterable[int | None], mtime_ns: Iterable[int | None]) -> SourceStamps:
    """Stamps of files given as columns, in any order."""
    digests = b"".join(hashlib.sha256(path.encode()).digest()[: PATH_DIGEST.itemsize] for path in paths)
    return _sorted(np.frombuffer(digests, PATH_DIGEST), _filled(num_bytes), _filled(mtime_ns))


def concatenated(parts: Sequence[SourceStamps]) -> SourceStamps:
    """Stamps of all parts together."""
    if not parts:
        return stamps_of((), (), ())
    return _sorted(
        np.concatenate([part.paths for part in parts]),
        np.concatenate([part.num_bytes for part in parts]),
        np.concatenate([part.mtime_ns for part in parts]),
    )


def _sorted(
    paths: np.ndarray[Any, np.dtype[np.bytes_]],
    num_bytes: np.ndarray[Any, np.dtype[np.int64]],
    mtime_ns: np.ndarray[Any, np.dtype[np.int64]],
) -> SourceStamps:
    order = np.lexsort((mtime_ns, num_bytes, paths))
    paths = paths[order]  # one column after the other, so that the unsorted ones are not all there at the end
    num_bytes = num_bytes[order]
    return SourceStamps(paths, num_bytes, mtime_ns[order])


def _filled(values: Iterable[int | None]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.fromiter((ABSENT if value is None else value for value in values), np.int64)
