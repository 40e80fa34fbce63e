"""Reads a gzip file from any of its bytes: the state of the decoder is kept every few megabytes."""

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

    def skip(self, num_bytes: int) -> None:
        """Leave bytes out."""
        while num_bytes and (piece := self.read(min(num_bytes, _APART_BYTES))):
            num_bytes -= len(piece)

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


def bytes_at(file: BinaryIO, points: list[Point], start: int, num_bytes: int) -> bytes:
    """Bytes of the content of a gzip file. Raises as `GzipReader.read`."""
    at = bisect_right(points, start, key=lambda point: point.unpacked) - 1
    reader = GzipReader(file, points[at] if at >= 0 else None)
    reader.skip(start - (points[at].unpacked if at >= 0 else 0))
    return reader.read(num_bytes)
