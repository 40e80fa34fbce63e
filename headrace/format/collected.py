"""The bytes of a tar while it is written: in memory, or in a temporary file if they are many."""

import io
import os
import tempfile
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, BinaryIO

from headrace.stores.storage import Content

_IN_MEMORY_BYTES = 64 << 20  # larger shards go through a temporary file


@dataclass(slots=True)
class Collected:
    """The bytes of a growing tar: in memory, as the pieces that were written; of a large tar, in a temporary file."""

    _pieces: list[bytes] = field(default_factory=list)
    _num_bytes: int = 0
    _file: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        """Append."""
        self._num_bytes += len(data)
        if self._file is None and self._num_bytes > _IN_MEMORY_BYTES:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
            self._file.writelines(self._pieces)
            self._pieces.clear()
        if self._file is None:
            self._pieces.append(data)
        else:
            self._file.write(data)

    def content(self) -> Content:
        """All bytes, to be written to a store."""
        if self._file is None:
            return self._pieces
        self._file.seek(0)
        return self._file

    def opened(self) -> BinaryIO:
        """All bytes as a seekable file at its beginning. Pieces in memory are not joined. Do not close it."""
        if self._file is not None:
            self._file.seek(0)
            return self._file
        return io.BufferedReader(_PiecesReader(self._pieces))

    def close(self) -> None:
        """Free the memory or the temporary file."""
        self._pieces.clear()
        if self._file is not None:
            self._file.close()


class _PiecesReader(io.RawIOBase):
    """Pieces of bytes as one raw file."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._edges = [0, *accumulate(map(len, pieces))]
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - the buffer protocol has no type before Python 3.12
        number = bisect_right(self._edges, self._at) - 1
        if number >= len(self._pieces):
            return 0
        start = self._at - self._edges[number]
        data = memoryview(self._pieces[number])[start : start + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._edges[-1]}[whence])
        return self._at

    def tell(self) -> int:
        return self._at
