"""What tells changed files from unchanged ones without reading them: path, size and time of change of each.

Owns the stamps of a whole source as fixed-size rows. Numpy alone holds them, 32 bytes a file, so that a sensor compares
a hundred thousand files within a few megabytes; so a path is known by its digest.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PATH_DIGEST = np.dtype("S16")
"""Numpy takes zero bytes at the end for padding; all rows are as wide, so equal rows are still those of equal bytes."""

ABSENT = -1
"""Size and time of an entry that cannot be opened."""


@dataclass(frozen=True, slots=True)
class Stamps:
    """Files of a source, one row each, sorted by all three columns.

    Attributes:
        paths: S16 (n,), the first 16 bytes of the SHA-256 of each path (UTF-8).
        num_bytes: int64 (n,), size; `ABSENT` for an entry that cannot be opened.
        mtime_ns: int64 (n,), time of change in nanoseconds since 1970; `ABSENT` likewise.
    """

    paths: np.ndarray[Any, np.dtype[np.bytes_]]
    num_bytes: np.ndarray[Any, np.dtype[np.int64]]
    mtime_ns: np.ndarray[Any, np.dtype[np.int64]]

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def digest(self) -> str:
        """Fingerprint (32 hex digits): equal where every file has the same path, size and time of change."""
        digest = hashlib.sha256()
        for column in (self.paths, self.num_bytes, self.mtime_ns):
            digest.update(column.tobytes())
        return digest.hexdigest()[:32]

    def equals(self, other: "Stamps") -> bool:
        """Whether both hold the same files."""
        return (
            np.array_equal(self.paths, other.paths)
            and np.array_equal(self.num_bytes, other.num_bytes)
            and np.array_equal(self.mtime_ns, other.mtime_ns)
        )

    def where(self, rows: np.ndarray[Any, Any]) -> "Stamps":
        """Some of the rows: by their numbers, or those where bool (n,) is true."""
        return Stamps(self.paths[rows], self.num_bytes[rows], self.mtime_ns[rows])

    def are_in(self, other: "Stamps") -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each row, bool (n,): whether `other`, where no path comes twice, has that file with the same stamp."""
        if not len(other):
            return np.zeros(len(self), np.bool_)
        there = other.where(np.searchsorted(other.paths, self.paths).clip(max=len(other) - 1))
        is_same = (there.num_bytes == self.num_bytes) & (there.mtime_ns == self.mtime_ns)
        return np.asarray(is_same & (there.paths == self.paths), np.bool_)


def stamps_of(paths: Iterable[str], num_bytes: Iterable[int | None], mtime_ns: Iterable[int | None]) -> Stamps:
    """The stamps of files given as columns, in any order."""
    digests = b"".join(hashlib.sha256(path.encode()).digest()[: PATH_DIGEST.itemsize] for path in paths)
    return _sorted(np.frombuffer(digests, PATH_DIGEST), _filled(num_bytes), _filled(mtime_ns))


def joined(parts: Sequence[Stamps]) -> Stamps:
    """The stamps of all parts."""
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
) -> Stamps:
    order = np.lexsort((mtime_ns, num_bytes, paths))
    return Stamps(paths[order], num_bytes[order], mtime_ns[order])


def _filled(values: Iterable[int | None]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.fromiter((ABSENT if value is None else value for value in values), np.int64)
