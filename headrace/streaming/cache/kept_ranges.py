"""Keeps byte ranges that were read of a shard which is downloaded later, so that no byte is fetched twice.

A file `.NAME.ranges` in the cache folder has a record for each range: its bounds, the CRC-32 of its bytes, and the
bytes. Processes append records under the lock of the file, and read without it: a record counts once it is complete,
and its bytes count if they have their CRC-32. What a killed process has left is written over.
"""

import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from headrace.checksums import crc32
from headrace.streaming.cache.coalesce import Span, pieces
from headrace.streaming.concurrency.file_locks import lock, release

_HEAD = struct.Struct("<QQI")
_LEAST_BYTES = 32 << 10  # fewer bytes cost less than the request that the gap beside them would become


class _Record(NamedTuple):
    start: int
    stop: int
    place: int
    crc32: int


class Part(NamedTuple):
    """A part of a shard: a range, and its bytes if they are kept."""

    start: int
    stop: int
    blob: bytes | None


class KeptRanges:
    """The kept ranges of one shard, open until the `with` block ends; for one thread."""

    def __init__(self, path: Path, num_bytes: int, flags: int = os.O_RDONLY) -> None:
        """Open the file of a shard of `num_bytes`; without such a file, nothing is kept."""
        self.end = 0
        self._num_bytes = num_bytes
        self._records: list[_Record] = []
        try:
            self.descriptor: int | None = os.open(path, flags)
        except OSError:
            self.descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.descriptor is not None:
            release(self.descriptor)

    def read(self, start: int, stop: int) -> bytes | None:
        """Bytes [start, stop) if one range has all of them."""
        found = (self._sound(one) for one in self._refreshed() if one.start <= start and stop <= one.stop)
        return next((blob[start - first :][: stop - start] for first, blob in found if blob is not None), None)

    def parts(self, start: int, stop: int) -> Iterator[Part]:
        """Parts that make up [start, stop), in order; short ranges count as not kept."""
        for record in sorted(self._refreshed()):
            first, last = max(start, record.start), min(stop, record.stop)
            if last - first < _LEAST_BYTES:
                continue
            begin, blob = self._sound(record)
            if blob is not None:
                if start < first:
                    yield Part(start, first, None)
                yield Part(first, last, blob[first - begin : last - begin])
                start = last
        if start < stop:
            yield Part(start, stop, None)

    def _refreshed(self) -> list[_Record]:
        """All complete records, also those that were appended since the last call."""
        if self.descriptor is None:
            return []
        size = os.fstat(self.descriptor).st_size
        while len(head := os.pread(self.descriptor, _HEAD.size, self.end)) == _HEAD.size:
            start, stop, checksum = _HEAD.unpack(head)
            place = self.end + _HEAD.size
            if not start < stop <= self._num_bytes or place + stop - start > size:
                break
            self._records.append(_Record(start, stop, place, checksum))
            self.end = place + stop - start
        return self._records

    def _sound(self, record: _Record) -> tuple[int, bytes | None]:
        """First byte of a range, and its bytes; None if they do not have their CRC-32."""
        assert self.descriptor is not None
        blob = os.pread(self.descriptor, record.stop - record.start, record.place)
        return record.start, blob if crc32(blob) == record.crc32 else None


def stored_bytes(ranges: Sequence[tuple[Span, memoryview]]) -> int:
    """Bytes that ranges take in the file."""
    return sum(stop - start + _HEAD.size * len(list(pieces(start, stop))) for (start, stop), _ in ranges)


def keep_ranges(path: Path, num_bytes: int, ranges: Sequence[tuple[Span, memoryview]]) -> None:
    """Append ranges to the file of a shard, if there is one.

    Raises:
        OSError: the disk is full; the ranges that are complete are kept.
    """
    with KeptRanges(path, num_bytes, os.O_RDWR) as kept:
        if kept.descriptor is None:
            return
        lock(kept.descriptor, fcntl.LOCK_EX)
        for (begin, end), blob in ranges:
            for start, stop in pieces(begin, end):
                if kept.read(start, stop) is None:
                    part = blob[start - begin : stop - begin]
                    os.ftruncate(kept.descriptor, kept.end)  # without what a killed process has left
                    os.pwritev(kept.descriptor, [_HEAD.pack(start, stop, crc32(part)), part], kept.end)
