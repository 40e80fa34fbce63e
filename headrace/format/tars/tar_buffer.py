"""The bytes of a tar while it is written: in memory, or in a temporary file if they are many."""

import contextlib
import io
import os
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from headrace import checksums
from headrace.format.tars.tar import crc32_of
from headrace.stores.storage import Content
from headrace.stores.temporary_room import temporary_room

_IN_MEMORY_BYTES = 64 << 20  # larger shards go through a temporary file


@dataclass(slots=True)
class TarBuffer:
    """The bytes of a growing tar: in memory, as the pieces that were written; of a large tar, in a temporary file."""

    _pieces: list[bytes] = field(default_factory=list)
    _edges: list[int] = field(default_factory=lambda: [0])  # where each piece starts, and the end of the last
    _file: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        """Append."""
        if self._file is None and self._edges[-1] + len(data) > _IN_MEMORY_BYTES:
            with temporary_room("a shard"):
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
                self._file.writelines(self._pieces)
            self._pieces.clear()
        if self._file is None:
            self._pieces.append(data)
            self._edges.append(self._edges[-1] + len(data))
        else:
            with temporary_room("a shard"):
                self._file.write(data)

    def content(self) -> Content:
        """All bytes, to be written to a store."""
        if self._file is None:
            return self._pieces
        self._rewind(self._file)
        return self._file

    def opened(self) -> BinaryIO:
        """All bytes as a seekable file at its beginning. Pieces in memory are not joined. Do not close it."""
        if self._file is not None:
            self._rewind(self._file)
            return self._file
        return io.BufferedReader(_PiecesReader(self._pieces, self._edges))

    def crc32(self, span: tuple[int, int]) -> int:
        """CRC-32 of a half-open byte range, for which pieces in memory are not copied."""
        if self._file is not None:
            return crc32_of(self._file, span)
        crc32 = 0
        for part in _parts(self._pieces, self._edges, *span):
            crc32 = checksums.crc32(part, crc32)
        return crc32

    @staticmethod
    def _rewind(file: BinaryIO) -> None:
        with temporary_room("a shard"):  # what was not written yet is written now
            file.seek(0)

    def close(self) -> None:
        """Free the memory or the temporary file."""
        self._pieces.clear()
        if self._file is not None:
            with contextlib.suppress(OSError):  # what it still has to write may have no room
                self._file.close()


class _PiecesReader(io.RawIOBase):
    """Pieces of bytes as one raw file."""

    def __init__(self, pieces: Sequence[bytes], edges: Sequence[int]) -> None:
        self._pieces, self._edges = pieces, edges
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - the buffer protocol has no type before Python 3.12
        data = next(_parts(self._pieces, self._edges, self._at, self._at + len(buffer)), b"")
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._edges[-1]}[whence])
        return self._at

    def tell(self) -> int:
        return self._at


def _parts(pieces: Sequence[bytes], edges: Sequence[int], start: int, stop: int) -> Iterator[memoryview]:
    """The bytes of a half-open range, from one piece after another."""
    first = bisect_right(edges, start) - 1
    for number in range(first, len(pieces)):
        if start >= stop:
            return
        part = memoryview(pieces[number])[start - edges[number] : stop - edges[number]]
        yield part
        start += len(part)
