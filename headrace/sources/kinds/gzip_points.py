"""Reads a gzip file from any of its bytes: the state of the decoder is kept every few megabytes."""

import sys
import zlib
from bisect import bisect_right
from typing import Any, BinaryIO, NamedTuple

_PIECE_BYTES = 64 << 10  # which become at most 64 MB
_APART_BYTES = 4 << 20
_GZIP = 31
POINT_BYTES = 48 << 10
"""About what a point takes in memory."""


class Point(NamedTuple):
    """A place in a gzip file: the next byte of the file, that of its content, and the decoder there."""

    packed: int
    unpacked: int
    decoder: Any


class GzipReader:
    """The content of a gzip file from a point on.

    Attributes:
        points: points that were passed.
    """

    def __init__(self, file: BinaryIO, point: Point | None = None) -> None:
        """Read an open file from a point, or from its beginning."""
        self._file, self._buffer = file, bytearray()
        self._at, self._unpacked, decoder = point or Point(0, 0, None)
        self._decoder = decoder.copy() if decoder else zlib.decompressobj(_GZIP)
        file.seek(self._at)
        self.points: list[Point] = []

    def read(self, num_bytes: int) -> bytes:
        """The next bytes; fewer at the end.

        Raises:
            OSError: the file is damaged, or ends early.
        """
        while len(self._buffer) < num_bytes and self._unpack():
            pass
        found = bytes(self._buffer[:num_bytes])
        del self._buffer[:num_bytes]
        return found

    def _unpack(self) -> bool:
        """Unpack a piece. Returns whether there was one."""
        last = self.points[-1].unpacked if self.points else -_APART_BYTES
        if self._unpacked - last >= _APART_BYTES and not self._decoder.eof:
            self.points.append(Point(self._at, self._unpacked, self._decoder.copy()))
        piece = self._file.read(_PIECE_BYTES)
        if not piece:
            if not self._decoder.eof:
                raise OSError("the gzip file ends early")
            return False
        self._at += len(piece)
        try:
            while piece:
                if self._decoder.eof:  # another file after the first
                    self._decoder = zlib.decompressobj(_GZIP)
                content = self._decoder.decompress(piece)
                self._buffer += content
                self._unpacked += len(content)
                piece = self._decoder.unused_data
        except zlib.error as error:
            raise OSError(f"the gzip file is damaged: {error}") from error
        return True


def stretch_of(points: list[Point], byte: int) -> int:
    """The number of the point whose stretch of the content, up to the next point, has this byte."""
    return max(0, bisect_right(points, byte, key=lambda point: point.unpacked) - 1)


def stretch_at(file: BinaryIO, points: list[Point], number: int) -> bytes:
    """The content of a gzip file from a point up to the next one, or to the end. Raises as `GzipReader.read`."""
    reader, start = GzipReader(file, points[number]), points[number].unpacked
    if number + 1 < len(points):
        return reader.read(points[number + 1].unpacked - start)
    return reader.read(sys.maxsize)
